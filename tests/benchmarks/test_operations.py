"""Counts of operations, by hand and by torch's own counter."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.operations import Operations, cnn, linear, strided
from benchmarks.workloads import (
    LIKELIHOODS,
    QUICK_WORKLOADS,
    WORKLOADS,
    get_workload,
    make_examples,
)


def test_the_head_by_hand():
    # 3 examples, 2 particles, 4 features, 5 classes, of which 4 differ from the first: products of
    # 2·4·4 operations for the logits and for the gradient; 3·4 inputs, and 25 parameters in and
    # out for both particles.
    assert linear(3, 2, 4, 5) == Operations(3 * 2 * 2 * 32, 4 * (12 + 2 * 2 * 25))


def test_the_mnist7_network_by_hand():
    found = cnn(1_200, 10, side=28, channels=4, classes=8)
    forward = 2 * 9 * 4 * 784  # 56,448
    winners = 2 * 9 * 4 * 196  # 14,112
    head = 2 * 784 * 8  # 12,544
    assert found.flops == 1_200 * 10 * (forward + winners + 3 * head) == 1_298_304_000
    assert found.bytes == 4 * (1_200 * 784 + 2 * 10 * 6_320)


@pytest.mark.parametrize(
    # A head of two or of ten classes needs the differences from one of them alone.
    ("name", "share"),
    [("strided", 1), ("head", 1 / 2), ("cifar", 9 / 10), ("mlp", 1), ("regression", 1)],
)
def test_counts_are_those_of_autograd(name, share):
    """For one particle, what torch counts in a forward and a backward pass is what is necessary."""
    workload = get_workload(name, quick=True)
    examples = make_examples(workload, 6)
    network = workload.network()
    with FlopCounterMode(display=False) as counter:
        outputs = network(examples.inputs)
        LIKELIHOODS[workload.likelihood].log_prob(outputs, examples.targets).sum().backward()
    assert workload.operations(6, 1).flops == share * counter.get_total_flops()


def test_necessary_operations_of_the_transformer_are_fewer_than_autograd_makes():
    workload = get_workload("transformer", quick=True)
    examples = make_examples(workload, 6)
    network = workload.network()
    with FlopCounterMode(display=False) as counter:
        outputs = network(examples.inputs)
        torch.nn.functional.cross_entropy(outputs, examples.targets).backward()
    made = counter.get_total_flops()
    assert 0.9 * made < workload.operations(6, 1).flops <= made
    # More particles share the first block's frozen projections.
    assert workload.operations(6, 2).flops < 2 * workload.operations(6, 1).flops


@pytest.mark.parametrize("workloads", [WORKLOADS, QUICK_WORKLOADS])
def test_the_count_of_parameters_is_right(workloads):
    for workload in workloads.values():
        dim = sum(p.numel() for p in workload.network().parameters())
        per_particle = workload.operations(1, 2).bytes - workload.operations(1, 1).bytes
        assert per_particle == 2 * 4 * dim


def test_the_larger_of_two_times_is_needed():
    operations = strided(10, 2, side=8, classes=10)
    assert operations.seconds(1.0, 1e30) == operations.flops
    assert operations.seconds(1e30, 1.0) == operations.bytes
