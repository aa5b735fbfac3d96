"""The network that is built where none is given."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from sbmc.posterior.distillation.student import (
    Architecture,
    build_student,
    input_size,
    take_size,
)


@pytest.mark.parametrize(
    ("shape", "channels"),
    [((5,), ()), ((1, 28, 28), ()), ((3, 32, 20), (8,)), ((3, 100, 30), (8, 16)), ((9, 4), ())],
)
def test_its_layers_follow_from_the_shape_of_an_input(shape, channels):
    architecture = Architecture(shape, 7)
    assert architecture.channels == channels
    network = build_student(architecture, torch.float64)
    assert network(torch.zeros(2, *shape, dtype=torch.float64)).shape == (2, 7)
    assert sum(isinstance(layer, nn.Conv2d) for layer in network) == len(channels)


def test_it_survives_json():
    architecture = Architecture((3, 32, 32), 9, (5,))
    assert Architecture.from_dict(json.loads(json.dumps(architecture.as_dict()))) == architecture
    assert str(architecture) == "8 channels, 5 units, 9 outputs"


def test_the_seed_decides_the_weights_and_torchs_generator_is_left_alone():
    before = torch.random.get_rng_state()
    first, second, other = (
        build_student(Architecture((4,), 2), torch.float32, seed)(torch.ones(1, 4))
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_columns_of_a_table_are_standardised():
    rows = torch.tensor([[1e6, 3.0], [1e6 + 2, 3.0]], dtype=torch.float64)
    network = build_student(Architecture((2,), 2), torch.float64, inputs=rows)
    assert network[0](rows).tolist() == [[-1.0, 0.0], [1.0, 0.0]]


@pytest.mark.parametrize("shape", [(1, 6, 6), (3, 30, 30)])
def test_a_network_trained_on_smaller_numbers_takes_them_as_they_are(shape):
    pictures = 255 * torch.rand(4, *shape, dtype=torch.float64)
    network = build_student(Architecture(shape, 3), torch.float64)
    size = input_size(pictures)
    expected = network(pictures / size)
    take_size(network, size)
    torch.testing.assert_close(network(pictures), expected)


def test_inputs_of_zero_have_a_size():
    assert input_size(torch.zeros(3, 1, 2, 2)) == 1.0
