"""vmap equals loop equals the module called by hand, and the module comes back bit for bit."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from sbmc.checks import BadInput
from sbmc.model.functional import evaluation_copy
from sbmc.model.loop import LoopForward
from sbmc.model.outputs import as_logits
from sbmc.model.parameters import select_parameters
from sbmc.model.vmap import VmapForward

PATHS = [VmapForward, LoopForward]
PARTICLES, EXAMPLES = 3, 5


def make_net() -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3),
        nn.BatchNorm2d(2),
        nn.Tanh(),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(8, 3),
    ).double()
    # Statistics that are not 0 and 1, so that a run in training mode would show.
    net(torch.randn(7, 1, 4, 4, dtype=torch.float64)).sum().backward()
    return net


def draw(*shape: int, seed: int = 1) -> torch.Tensor:
    noise = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=noise, dtype=torch.float64)


def by_hand(net: nn.Module, space, theta, inputs) -> torch.Tensor:
    """The module itself, with the particle's weights written into it."""
    outputs = []
    for particle, row in enumerate(theta):
        module = copy.deepcopy(net).eval()
        space.write(row, module)
        outputs.append(module(inputs[particle]))
    return torch.stack(outputs)


def snapshot(net: nn.Module) -> dict[str, object]:
    tensors = {**dict(net.named_parameters()), **dict(net.named_buffers())}
    return {
        "values": {name: tensor.detach().clone() for name, tensor in tensors.items()},
        "identities": {name: (id(tensor), tensor.data_ptr()) for name, tensor in tensors.items()},
        "gradients": {
            n: None if p.grad is None else p.grad.clone() for n, p in net.named_parameters()
        },
        "requires_grad": [p.requires_grad for p in net.parameters()],
        "modes": [module.training for module in net.modules()],
    }


def assert_same(before: dict, after: dict) -> None:
    for key in ("values", "gradients"):
        assert before[key].keys() == after[key].keys()
        for name, tensor in before[key].items():
            assert (tensor is None and after[key][name] is None) or torch.equal(
                tensor, after[key][name]
            ), name
    for key in ("identities", "requires_grad", "modes"):
        assert before[key] == after[key]


@pytest.mark.parametrize("forward_type", PATHS)
@pytest.mark.parametrize("parameters", ["all", "last", r"^0\."])
@pytest.mark.parametrize("stacked", [False, True])
def test_values_are_those_of_the_module(forward_type, parameters, stacked):
    net = make_net()
    space = select_parameters(net, parameters)
    forward = forward_type(net, space)
    theta = draw(PARTICLES, space.dim)
    each = draw(PARTICLES, EXAMPLES, 1, 4, 4, seed=2)
    shared = each[0].expand_as(each)
    outputs = forward(theta, forward.prepare(each if stacked else each[0]), stacked=stacked)
    assert outputs.shape == (PARTICLES, EXAMPLES, 3)
    expected = by_hand(net, space, theta, each if stacked else shared)
    torch.testing.assert_close(outputs, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("stacked", [False, True])
def test_gradients_against_finite_differences_and_each_other(stacked):
    net = make_net()
    space = select_parameters(net)
    theta = draw(PARTICLES, space.dim).requires_grad_()
    inputs = draw(PARTICLES, EXAMPLES, 1, 4, 4, seed=2)
    inputs = inputs if stacked else inputs[0]
    gradients = []
    for forward_type in PATHS:
        forward = forward_type(net, space)

        def total(t, forward=forward):
            return forward(t, inputs, stacked=stacked).square().sum()

        (gradient,) = torch.autograd.grad(total(theta), theta)
        gradients.append(gradient)
        step = 1e-6
        for particle, index in [(0, 0), (1, 7), (2, space.dim - 1), (0, 25)]:
            shift = torch.zeros_like(theta)
            shift[particle, index] = step
            difference = (total(theta + shift) - total(theta - shift)) / (2 * step)
            assert gradient[particle, index].item() == pytest.approx(
                difference.item(), rel=1e-6, abs=1e-7
            )
    torch.testing.assert_close(*gradients, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("forward_type", PATHS)
@pytest.mark.parametrize("training", [True, False])
def test_the_module_comes_back_bit_for_bit(forward_type, training):
    net = make_net().train(training)
    net[1].eval()  # a mixed mode has to survive too
    before = snapshot(net)
    space = select_parameters(net, "last")
    forward = forward_type(net, space)
    theta = draw(PARTICLES, space.dim).requires_grad_()
    forward(theta, draw(EXAMPLES, 1, 4, 4)).sum().backward()
    assert theta.grad is not None
    assert_same(before, snapshot(net))


@pytest.mark.parametrize("forward_type", PATHS)
def test_training_the_module_further_does_not_move_the_forward(forward_type):
    net = make_net()
    space = select_parameters(net, "last")
    forward = forward_type(net, space)
    theta, inputs = draw(PARTICLES, space.dim), draw(EXAMPLES, 1, 4, 4)
    before = forward(theta, inputs)
    with torch.no_grad():
        for tensor in (*net.parameters(), net[1].running_mean):
            tensor.add_(1.0)
    assert torch.equal(forward(theta, inputs), before)


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(2, 3).double(), nn.Linear(4, 3).double()

    def forward(self, left, right, scale=None):
        out = self.left(left) - 2 * self.right(right)
        return out if scale is None else SimpleNamespace(loss=None, logits=out * scale)


@pytest.mark.parametrize("forward_type", PATHS)
@pytest.mark.parametrize("stacked", [False, True])
def test_tuples_are_positional_and_dicts_are_keywords(forward_type, stacked):
    net = TwoInputs()
    space = select_parameters(net)
    forward = forward_type(net, space)
    theta = draw(PARTICLES, space.dim)
    left, right = draw(PARTICLES, EXAMPLES, 2), draw(PARTICLES, EXAMPLES, 4)
    scale = draw(PARTICLES, EXAMPLES, 1)
    expected = []
    for i, row in enumerate(theta):
        own = i if stacked else 0
        module = copy.deepcopy(net)
        space.write(row, module)
        expected.append(module(left[own], right[own]))
    expected = torch.stack(expected)
    if not stacked:
        left, right, scale = left[0], right[0], scale[0]
    torch.testing.assert_close(forward(theta, (left, right), stacked=stacked), expected)
    # In the other order, so that a dict taken for positions would show; with Hugging Face outputs.
    keywords = {"scale": scale, "right": right, "left": left}
    torch.testing.assert_close(forward(theta, keywords, stacked=stacked), expected * scale)


class LooksAtValues(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2).double()

    def forward(self, x):
        out = self.layer(x)
        return out if out.sum().item() > 0 else out.exp()


def test_data_dependent_control_flow_works_in_a_loop_and_not_in_vmap():
    net = LooksAtValues()
    space = select_parameters(net)
    theta, inputs = draw(8, space.dim), draw(EXAMPLES, 2)
    sums = torch.stack([inputs @ t[:4].view(2, 2).T + t[4:] for t in theta]).sum((1, 2))
    assert (sums > 0).any()
    assert (sums < 0).any()
    outputs = LoopForward(net, space)(theta, inputs)
    expected = by_hand(net, space, theta, inputs.expand(8, -1, -1))
    torch.testing.assert_close(outputs, expected)
    with pytest.raises(RuntimeError):
        VmapForward(net, space)(theta, inputs)


class LooksAtInputs(nn.Module):
    """As Hugging Face's models do, to see whether their mask hides anything."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2).double()

    def forward(self, x):
        out = self.layer(x)
        return out if bool((x > -9).all()) else out.exp()


@pytest.mark.parametrize("stacked", [False, True])
def test_code_that_looks_at_inputs_works_in_vmap(stacked):
    net = LooksAtInputs()
    space = select_parameters(net)
    theta, inputs = draw(PARTICLES, space.dim).requires_grad_(), draw(PARTICLES, EXAMPLES, 2)
    inputs[1] -= 20  # one particle takes the other branch
    forward = VmapForward(net, space)
    given = inputs if stacked else inputs[1]
    for _ in range(2):  # the second time it is known
        outputs = forward(theta, given, stacked=stacked)
        batches = inputs if stacked else inputs[1].expand(PARTICLES, -1, -1)
        torch.testing.assert_close(outputs, by_hand(net, space, theta.detach(), batches))
        (slope,) = torch.autograd.grad(outputs.sum(), theta)
        assert (slope != 0).any(1).all()


def test_vmap_refuses_randomness_in_evaluation_mode():
    class Noisy(nn.Linear):
        def forward(self, x):
            return super().forward(x) + torch.randn(x.shape[0], 2)

    net = Noisy(2, 2)
    with pytest.raises(RuntimeError, match="random"):
        VmapForward(net, select_parameters(net))(torch.zeros(3, 6), torch.zeros(4, 2))


@pytest.mark.parametrize("forward_type", PATHS)
def test_tied_weights_stay_tied(forward_type):
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)).double()
    net[2].weight = net[0].weight
    space = select_parameters(net)
    assert space.dim == 15
    theta, inputs = draw(PARTICLES, space.dim), draw(EXAMPLES, 3)
    outputs = forward_type(net, space)(theta, inputs)
    expected = by_hand(net, space, theta, inputs.expand(PARTICLES, -1, -1))
    torch.testing.assert_close(outputs, expected)


def test_the_copy_shares_the_replaced_weights_and_owns_the_others():
    net = make_net()
    copied = evaluation_copy(net, select_parameters(net, "last"))
    assert copied[5].weight.data_ptr() == net[5].weight.data_ptr()
    assert copied[0].weight.data_ptr() != net[0].weight.data_ptr()
    assert copied[1].running_mean.data_ptr() != net[1].running_mean.data_ptr()
    assert not any(module.training for module in copied.modules())
    assert not any(parameter.requires_grad for parameter in copied.parameters())


def test_logits_are_taken_from_an_object_or_a_dict_that_has_them():
    logits = torch.zeros(2, 3)
    assert as_logits({"loss": None, "logits": logits}) is logits
    assert as_logits(logits) is logits
    assert as_logits(SimpleNamespace(logits=logits)) is logits


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ((torch.zeros(2), torch.zeros(2)), r"\(tensor\(\[0., 0.\]\), tensor\(\[0., 0.\]\)\)"),
        (None, "None"),
        (SimpleNamespace(logits=1), r"namespace\(logits=1\)"),
        ({"loss": 1.0}, r"\{'loss': 1.0\}"),
    ],
)
def test_other_outputs_are_refused(output, shown):
    words = r"`model` must be a module that returns a tensor, or .* a tensor `\.logits`, but got "
    with pytest.raises(BadInput, match=f"{words}{shown}"):
        as_logits(output)
