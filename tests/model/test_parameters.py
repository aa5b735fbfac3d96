"""Which parameters are chosen, and the way from a flat vector to named tensors and back."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from sbmc.checks import BadInput
from sbmc.model.parameters import ParameterSpace, named_tensors, select_parameters


def make_net():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


ALL = ("0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "2.bias")


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ("all", ALL),
        ("last", ("2.weight", "2.bias")),
        ("weight", ("0.weight", "1.weight", "2.weight")),
        (r"^0\.", ("0.weight", "0.bias")),
        (r"[02]\.bias$", ("0.bias", "2.bias")),
        (lambda name: name.startswith("1"), ("1.weight", "1.bias")),
    ],
)
def test_selections(parameters, names):
    space = select_parameters(make_net(), parameters)
    assert space.names == names
    assert space.dim == sum(space.sizes)
    own = dict(make_net().named_parameters())
    assert space.shapes == tuple(own[name].shape for name in names)


def test_the_last_layer_of_a_single_layer_is_all_of_it():
    assert select_parameters(nn.Linear(2, 2), "last").names == ("weight", "bias")


def test_frozen_parameters_are_never_chosen():
    net = make_net()
    net[2].requires_grad_(False)
    net[0].bias.requires_grad_(False)
    assert select_parameters(net).names == ("0.weight", "1.weight", "1.bias")
    assert select_parameters(net, "last").names == ("1.weight", "1.bias")
    with pytest.raises(BadInput, match=re.escape("`parameters` must be a selection that matches")):
        select_parameters(net, r"^2\.")


def test_a_shared_parameter_counts_once():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert select_parameters(net).names == ("0.weight", "0.bias", "1.bias")


def test_there_and_back():
    net = make_net().double()
    space = select_parameters(net, "weight")
    theta = space.flatten(net)
    assert theta.shape == (space.dim,) == (12 + 4 + 8,)
    assert theta.dtype == torch.float64
    parts = space.split(theta)
    assert list(parts) == list(space.names)
    for name, part in parts.items():
        assert torch.equal(part, named_tensors(net)[name])
    untouched = {n: v.clone() for n, v in named_tensors(net).items() if n not in space.names}
    space.write(theta + 1, net)
    assert torch.equal(space.flatten(net), theta + 1)
    for name, value in untouched.items():
        assert torch.equal(named_tensors(net)[name], value)


def test_flattening_is_a_copy_even_of_one_parameter():
    net = nn.Linear(2, 2, bias=False)
    theta = select_parameters(net).flatten(net)
    net.weight.data.zero_()
    assert (theta != 0).all()
    assert not theta.requires_grad


def test_split_keeps_leading_axes_and_gradients():
    space = select_parameters(make_net())
    theta = torch.randn(5, 3, space.dim, requires_grad=True)
    parts = space.split(theta)
    assert parts["0.weight"].shape == (5, 3, 4, 3)
    assert torch.equal(parts["2.bias"], theta[..., -2:])
    joined = torch.cat([part.flatten(2) for part in parts.values()], -1)
    assert torch.equal(joined, theta)
    (gradient,) = torch.autograd.grad(parts["1.weight"].sum(), theta)
    assert gradient.sum() == 5 * 3 * 4


def test_writing_keeps_what_needs_gradients_as_it_was():
    net = make_net()
    space = select_parameters(net)
    identities = [id(parameter) for parameter in net.parameters()]
    space.write(torch.zeros(space.dim), net)
    assert [id(parameter) for parameter in net.parameters()] == identities
    assert all(parameter.requires_grad for parameter in net.parameters())


def test_an_empty_space():
    assert ParameterSpace((), ()).dim == 0


class Odd(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, dtype=dtype))

    def forward(self, x):
        return x


def spoiled(value):
    net = make_net()
    net[1].bias.data[2] = value
    return net


@pytest.mark.parametrize(
    ("model", "parameters", "words"),
    [
        (3, "all", "`model` must be a torch.nn.Module, but got 3."),
        (nn.ReLU(), "all", "`model` must be a module with trainable parameters, but got none"),
        (make_net().requires_grad_(False), "all", "must be a module with trainable parameters"),
        (
            spoiled(torch.nan),
            "all",
            "`model` must be of finite weights, but got NaN or infinity in",
        ),
        (spoiled(-torch.inf), "last", "must be of finite weights, but got NaN or infinity in 1.b"),
        (nn.LazyLinear(2), "all", "`model` must be initialised (call it once), but got a lazy"),
        (Odd(torch.complex64), "all", "must be real floating point, but got torch.complex64 in w"),
        (
            make_net(),
            "head",
            "`parameters` must be a selection that matches a trainable parameter "
            "(such as '0.weight'), but got 'head'.",
        ),
        (make_net(), lambda name: False, "must be a selection that matches a trainable parameter"),
        (
            make_net(),
            "[",
            "a regular expression or a predicate on names, but got '[' (unterminated",
        ),
        (
            make_net(),
            3,
            "`parameters` must be 'all', 'last', a regular expression or a predicate on na",
        ),
    ],
)
def test_refusals(model, parameters, words):
    with pytest.raises(BadInput, match=re.escape(words)):
        select_parameters(model, parameters)
