"""fused = vmap = loop = the module itself, in values and gradients, and the falls between them."""

from __future__ import annotations

import copy
import logging
import re
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize

from sbmc.checks import BadInput
from sbmc.model import forward as forward_package
from sbmc.model.forward import build_forward
from sbmc.model.fused import FusedForward
from sbmc.model.loop import LoopForward
from sbmc.model.parameters import select_parameters
from sbmc.model.recording import Unsupported
from sbmc.model.vmap import VmapForward

PARTICLES, EXAMPLES = 3, 4


class Residual(nn.Module):
    """`x + f(x)`, and with `twice` a difference, a product and a quotient on the way."""

    def __init__(self, body, arithmetic=False):
        super().__init__()
        self.body = body
        self.arithmetic = arithmetic

    def forward(self, x):
        y = self.body(x)
        if self.arithmetic:
            return 1.5 - torch.mul(x, y) / 2 + torch.add(y, x) - (0.5 + y).sub(x)
        return x + y


class Functional(nn.Module):
    """A network in the style of PyTorch's own first tutorial."""

    def __init__(self, flatten):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 3, 3, padding=1)
        self.conv2 = nn.Conv2d(3, 4, 2)
        self.norm = nn.BatchNorm2d(3)
        self.dropout = nn.Dropout(0.4)
        self.fc = nn.Linear(4 * 2 * 2, 3)
        self.flatten = flatten

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv1(x))), 2)
        x = F.avg_pool2d(torch.tanh(self.conv2(x)), kernel_size=1)
        x = F.dropout(F.relu(x, inplace=True), p=0.3, training=self.training)
        x = self.dropout(self.flatten(x))
        return self.fc(F.gelu(torch.sigmoid(x), approximate="tanh"))


class Reused(nn.Module):
    """One activation module for several places, as many networks have it."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 6), nn.Linear(6, 6)
        self.last = nn.Linear(6, 3)
        self.act = nn.ReLU(inplace=True)
        self.alias = self.last  # a second name for a layer is no second use of it

    def forward(self, x):
        x = self.act(self.first(x))
        return self.last(self.act(self.second(x)) + x)


def flat(*layers):
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(3))


IMAGES, WIDE, DEEP, VECTORS = (1, 6, 6), (2, 7, 9), (4, 6, 5), (5,)

MODELS = {
    "linear": (lambda: nn.Linear(5, 3), VECTORS),
    "linear without bias": (lambda: nn.Sequential(nn.Linear(5, 3, bias=False)), VECTORS),
    "mlp relu": (lambda: nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3)), VECTORS),
    "mlp gelu tanh sigmoid": (
        lambda: nn.Sequential(
            nn.Linear(5, 6),
            nn.GELU(),
            nn.Linear(6, 6, bias=False),
            nn.Tanh(),
            nn.Linear(6, 4),
            nn.Sigmoid(),
            nn.Linear(4, 3),
        ),
        VECTORS,
    ),
    "gelu by tanh": (
        lambda: nn.Sequential(nn.Linear(5, 6), nn.GELU("tanh"), nn.Linear(6, 3)),
        VECTORS,
    ),
    "other activations": (
        lambda: nn.Sequential(
            nn.Linear(5, 4), nn.SiLU(), nn.ELU(), nn.LeakyReLU(0.3), nn.Softplus(), nn.ReLU6()
        ),
        VECTORS,
    ),
    "nested and identity": (
        lambda: nn.Sequential(
            nn.Identity(),
            nn.Sequential(nn.Linear(5, 6), nn.Sequential(nn.ReLU(), nn.Identity())),
            nn.Sequential(nn.Linear(6, 3)),
        ),
        VECTORS,
    ),
    "dropout": (
        lambda: nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.5), nn.ReLU(), nn.Linear(6, 3)),
        VECTORS,
    ),
    "sequences": (
        lambda: nn.Sequential(
            nn.Linear(5, 6),
            nn.LayerNorm(6),
            nn.Tanh(),
            nn.Linear(6, 4),
            nn.LayerNorm((3, 4)),
            nn.Flatten(),
            nn.Linear(12, 3),
        ),
        (3, 5),
    ),
    "layer norm first": (lambda: nn.Sequential(nn.LayerNorm(5, eps=0.1), nn.Linear(5, 3)), VECTORS),
    "layer norm without weights": (
        lambda: nn.Sequential(
            nn.Linear(5, 4), nn.LayerNorm(4, elementwise_affine=False), nn.Linear(4, 3)
        ),
        VECTORS,
    ),
    "layer norm without bias": (
        lambda: nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4, bias=False), nn.Linear(4, 3)),
        VECTORS,
    ),
    "batch norm": (
        lambda: nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)),
        VECTORS,
    ),
    "batch norm first": (
        lambda: nn.Sequential(nn.BatchNorm1d(5, eps=0.1), nn.Linear(5, 3)),
        VECTORS,
    ),
    "batch norm without weights": (
        lambda: nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4, affine=False), nn.Linear(4, 3)),
        VECTORS,
    ),
    "batch norm on channels": (lambda: flat(nn.BatchNorm1d(3), nn.Tanh()), (3, 5)),
    "residual": (
        lambda: nn.Sequential(
            Residual(nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 5))),
            Residual(nn.Linear(5, 5), arithmetic=True),
            nn.Linear(5, 3),
        ),
        VECTORS,
    ),
    "conv relu pool": (lambda: flat(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2)), IMAGES),
    "conv pool relu": (
        lambda: flat(nn.Conv2d(1, 3, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()),
        IMAGES,
    ),
    "stem, several channels, not square, odd": (
        lambda: flat(nn.Conv2d(2, 3, (2, 3), bias=False), nn.ReLU(), nn.MaxPool2d(2, 2)),
        WIDE,
    ),
    "stem, stride, padding, dilation": (
        lambda: flat(
            nn.Conv2d(2, 3, 3, stride=(1, 2), padding=(2, 1), dilation=(2, 1)),
            nn.ReLU(inplace=True),
            nn.MaxPool2d((2, 2)),
        ),
        WIDE,
    ),
    "stem, stride 2": (
        lambda: flat(nn.Conv2d(1, 3, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        (1, 11, 8),
    ),
    "two convolutions": (
        lambda: flat(
            nn.Conv2d(2, 3, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(3, 4, 3, stride=2, padding=(1, 0)),
            nn.ReLU(),
        ),
        WIDE,
    ),
    "groups": (
        lambda: flat(
            nn.Conv2d(4, 6, 3, groups=2),
            nn.ReLU(),
            nn.Conv2d(6, 6, 2, groups=3, dilation=2, bias=False),
            nn.Conv2d(6, 6, 1, groups=6),
        ),
        DEEP,
    ),
    "padding by name": (
        lambda: flat(nn.Conv2d(2, 3, 3, padding="same"), nn.Conv2d(3, 2, 2, padding="valid")),
        WIDE,
    ),
    "pooling": (
        lambda: flat(
            nn.MaxPool2d(3, stride=1, padding=1),
            nn.Conv2d(2, 3, 2),
            nn.AvgPool2d(3, stride=2, padding=1),
            nn.Conv2d(3, 3, 1),
            nn.MaxPool2d(2, stride=1, ceil_mode=True),
            nn.AdaptiveAvgPool2d((2, 2)),
        ),
        WIDE,
    ),
    "batch norm of images": (
        lambda: flat(
            nn.BatchNorm2d(2), nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2)
        ),
        WIDE,
    ),
    "layer norm of images": (
        lambda: flat(nn.Conv2d(2, 3, 3), nn.LayerNorm((3, 5, 7)), nn.LayerNorm(7)),
        WIDE,
    ),
    "residual images": (
        lambda: flat(
            nn.Conv2d(2, 3, 3),
            Residual(nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU())),
            nn.AdaptiveAvgPool2d(1),
        ),
        WIDE,
    ),
    "linear over the last axis of images": (
        lambda: flat(nn.Linear(9, 4), nn.ReLU(), nn.Linear(4, 2)),
        WIDE,
    ),
    "functional, torch.flatten": (lambda: Functional(lambda x: torch.flatten(x, 1)), IMAGES),
    "functional, view": (lambda: Functional(lambda x: x.view(x.size(0), -1)), IMAGES),
    "functional, reshape": (lambda: Functional(lambda x: x.reshape(x.shape[0], -1)), IMAGES),
    "functional, view of known size": (lambda: Functional(lambda x: x.view(-1, 16)), IMAGES),
    "functional, flatten": (lambda: Functional(lambda x: x.flatten(start_dim=1)), IMAGES),
    "reused activation": (Reused, VECTORS),
}


def make(name, dtype=torch.float64):
    """The model in training mode, with running statistics that are not those of a new layer."""
    torch.manual_seed(1)
    build, shape = MODELS[name]
    net = build()
    with torch.no_grad():
        net(torch.randn(8, *shape))  # shapes of lazy layers
        for module in net.modules():
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2.0)
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm)):
                for parameter in module.parameters():
                    parameter.normal_(0.5)
    return net.to(dtype), shape


def draws(space, net, dtype=torch.float64, particles=PARTICLES):
    noise = torch.Generator().manual_seed(2)
    jump = torch.randn(particles, space.dim, generator=noise, dtype=torch.float64)
    return (space.flatten(net) + 0.3 * jump).to(dtype)


def images(*shape, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(
        dtype
    )


def by_hand(net, space, theta, inputs, stacked=False):
    """Outputs and gradient of their weighted sum from the module itself, one particle at a time."""
    outputs, gradients = [], []
    for particle, row in enumerate(theta):
        module = copy.deepcopy(net).eval()
        space.write(row, module)
        # Clones: an in-place activation at the start would spoil the inputs.
        batch = (inputs[particle] if stacked else inputs).clone()
        result = module(batch)
        chosen = [dict(module.named_parameters())[name] for name in space.names]
        slopes = torch.autograd.grad(weighted(result), chosen)
        outputs.append(result.detach())
        gradients.append(torch.cat([slope.flatten() for slope in slopes]))
    return torch.stack(outputs), torch.stack(gradients)


def weighted(outputs):
    """A sum in which every output of one particle has its own weight."""
    size = outputs.numel()
    return (outputs.flatten() * torch.linspace(-1, 2, size, dtype=outputs.dtype)).sum()


def evaluated(forward, theta, inputs, stacked=False):
    theta = theta.clone().requires_grad_()
    if stacked:
        lead = inputs.shape[:2]
        prepared = forward.prepare(inputs.flatten(0, 1)).unflatten(0, lead)
    else:
        prepared = forward.prepare(inputs)
    outputs = forward(theta, prepared, stacked=stacked)
    (gradient,) = torch.autograd.grad(sum(weighted(o) for o in outputs), theta)
    return outputs.detach(), gradient


def assert_equal_to_the_module(net, space, theta, inputs, stacked=False, tolerance=1e-10):
    expected = by_hand(net, space, theta, inputs, stacked)
    few = inputs[0] if stacked else inputs
    for kind in (partial(FusedForward, inputs=few), VmapForward, LoopForward):
        found = evaluated(kind(net, space), theta, inputs, stacked)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.shape == theirs.shape, kind
            difference = float((ours - theirs).abs().max() / theirs.abs().max())
            assert difference <= tolerance, (kind, difference)


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_all_paths_give_what_the_module_gives(name, stacked):
    net, shape = make(name)
    space = select_parameters(net)
    lead = (PARTICLES, EXAMPLES) if stacked else (EXAMPLES,)
    assert_equal_to_the_module(net, space, draws(space, net), images(*lead, *shape), stacked)
    assert build_forward(net, space, images(2, *shape)).path == "fused"


@pytest.mark.parametrize("name", ["mlp relu", "conv relu pool", "groups", "functional, view"])
def test_single_precision(name):
    net, shape = make(name, torch.float32)
    space = select_parameters(net)
    theta = draws(space, net, torch.float32)
    inputs = images(EXAMPLES, *shape, dtype=torch.float32)
    assert_equal_to_the_module(net, space, theta, inputs, tolerance=1e-5)


@pytest.mark.parametrize(("particles", "examples"), [(1, 4), (3, 1), (1, 1), (4, 4)])
@pytest.mark.parametrize(
    "name", ["linear", "sequences", "conv relu pool", "groups", "residual images"]
)
def test_one_particle_one_example_and_as_many_of_both(name, particles, examples):
    net, shape = make(name)
    space = select_parameters(net)
    theta = draws(space, net, particles=particles)
    assert_equal_to_the_module(net, space, theta, images(examples, *shape))
    assert_equal_to_the_module(net, space, theta, images(particles, examples, *shape), stacked=True)


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("mlp gelu tanh sigmoid", "weight"),
        ("mlp gelu tanh sigmoid", "bias"),
        ("mlp gelu tanh sigmoid", r"^4\."),
        ("sequences", r"^1\.bias"),
        ("sequences", r"^3\."),
        ("batch norm", r"^1\.weight"),
        ("batch norm", r"^0\."),
        ("conv relu pool", "weight"),
        ("conv relu pool", "bias"),
        ("conv relu pool", r"^0\.bias"),
        ("conv relu pool", r"^4\."),
        ("groups", r"^2\."),
        ("groups", r"^0\.bias"),
        ("batch norm of images", r"^2\.bias"),
        ("residual images", r"1\.body\.1"),
        ("residual", r"^1\."),
        ("functional, view", "conv2.weight"),
        ("pooling", r"^3\."),
    ],
)
def test_a_part_of_the_parameters(name, parameters, stacked):
    net, shape = make(name)
    space = select_parameters(net, parameters)
    lead = (PARTICLES, EXAMPLES) if stacked else (EXAMPLES,)
    assert_equal_to_the_module(net, space, draws(space, net), images(*lead, *shape), stacked)
    assert build_forward(net, space, images(2, *shape)).path == "fused"


STEMS = [name for name in MODELS if "stem" in name or name.startswith("conv ")]


@pytest.mark.parametrize("name", STEMS)
def test_the_stem_is_used_and_says_how_much_memory_it_takes(name):
    net, shape = make(name)
    inputs = images(EXAMPLES, *shape)
    forward = FusedForward(net, select_parameters(net), inputs)
    prepared = forward.prepare(inputs)
    assert prepared.ndim == 3
    assert forward.prepared_bytes(inputs) == prepared.numel() * prepared.element_size()


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("conv relu pool", r"bias"), ("mlp relu", "all"), ("batch norm of images", "all")],
)
def test_without_a_stem_nothing_is_prepared(name, parameters):
    net, shape = make(name)
    inputs = images(EXAMPLES, *shape)
    forward = FusedForward(net, select_parameters(net, parameters), inputs)
    assert forward.prepare(inputs) is inputs
    assert forward.prepared_bytes(inputs) == 0


@pytest.mark.parametrize(
    "layers",
    [
        (nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(3)),
        (nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2, stride=1)),
        (nn.Conv2d(1, 2, 2), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True)),
        (nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2, padding=1)),
        (nn.Conv2d(1, 2, 2), nn.ReLU(), nn.MaxPool2d(2, dilation=2, stride=2)),
        (nn.Conv2d(1, 2, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2)),
        (nn.Conv2d(1, 2, 3), nn.Tanh(), nn.MaxPool2d(2)),
        (nn.Conv2d(1, 2, 3), nn.ReLU(), nn.AvgPool2d(2)),
        (nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(2, 2, 1)),
    ],
)
def test_what_is_almost_a_stem_is_none(layers):
    net = nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(2)).double()
    net(images(2, 1, 7, 7))
    space = select_parameters(net)
    inputs = images(2, 1, 7, 7)
    assert FusedForward(net, space, inputs).prepared_bytes(inputs) == 0
    assert_equal_to_the_module(net, space, draws(space, net), images(EXAMPLES, 1, 7, 7))


class TwoReaders(nn.Module):
    """The pooled values of what looks like a stem are read twice, once not flattened."""

    def __init__(self):
        super().__init__()
        self.conv, self.relu, self.pool = nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2)
        self.flatten, self.fc = nn.Flatten(), nn.Linear(8, 3)
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.side = nn.Linear(2, 3)

    def forward(self, x):
        x = self.pool(self.relu(self.conv(x)))
        return self.fc(self.flatten(x)) + self.side(self.mean(x).flatten(1))


def test_a_stem_that_two_branches_read_is_none():
    net = TwoReaders().double()
    space = select_parameters(net)
    inputs = images(2, 1, 6, 6)
    assert FusedForward(net, space, inputs).prepared_bytes(inputs) == 0
    assert_equal_to_the_module(net, space, draws(space, net), images(EXAMPLES, *IMAGES))


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("name", ["conv relu pool", "conv pool relu", "stem, stride 2"])
def test_ties_go_where_torch_sends_them(name, stacked):
    """Blank images, and images of few values: pooling windows full of equal numbers."""
    net, shape = make(name)
    space = select_parameters(net)
    lead = (PARTICLES, EXAMPLES) if stacked else (EXAMPLES,)
    inputs = images(*lead, *shape).round()
    inputs[..., 0, :, :, :] = 0
    inputs[..., 1, :, :, :] = 1
    theta = draws(space, net)
    theta[0] = theta[0].round()  # whole numbers: sums without rounding, so ties between patches
    assert_equal_to_the_module(net, space, theta, inputs, stacked)


def test_ties_between_different_patches_go_to_the_first():
    net = nn.Sequential(
        nn.Conv2d(1, 1, 2, bias=False), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    ).double()
    space = select_parameters(net)
    # Every corner of the one window has the same sum, from another pixel of its patch.
    inputs = torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 0, 1]]).double().view(1, 1, 3, 3)
    forward = FusedForward(net, space, inputs)
    assert forward.prepared_bytes(inputs) > 0
    theta = torch.ones(1, 4, dtype=torch.float64)
    _, gradient = evaluated(forward, theta, inputs)
    _, expected = by_hand(net, space, theta, inputs)
    assert torch.equal(gradient, expected)
    assert torch.count_nonzero(gradient) == 1


def test_the_module_and_its_inputs_are_not_touched():
    net, shape = make("residual images")
    net.train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    inputs = images(EXAMPLES, *shape)
    kept = inputs.clone()
    space = select_parameters(net)
    evaluated(build_forward(net, space, inputs), draws(space, net), inputs)
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.equal(inputs, kept)
    assert all(p.grad is None and p.requires_grad for p in net.parameters())


# What the fused path cannot do, and what vmap cannot do.


class Tied(nn.Module):
    """The same weights in two layers."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 3)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))


class Recurrent(nn.Module):
    """The same layer twice."""

    def __init__(self):
        super().__init__()
        self.a, self.c = nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.c(torch.tanh(self.a(torch.tanh(self.a(x)))))


class Loose(nn.Module):
    """A parameter that belongs to no layer."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([2.0, 1.0, 0.5]))
        self.fc = nn.Linear(5, 3)

    def forward(self, x):
        return self.fc(x) * self.scale


class InPlace(nn.Module):
    """Writes over a value that is read again afterwards."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x):
        y = self.fc(x)
        z = y
        z += 1
        return z * y


class Mixing(nn.Module):
    """Examples that are not independent of each other."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x):
        return self.fc(x - x.mean(0))


class Branching(nn.Module):
    """Control flow that depends on the values."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x):
        y = self.fc(x)
        while y.abs().sum() > 1:
            y = y / 2
        return y


class Hooked(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(5, 3))
        self[0].register_forward_hook(lambda module, inputs, output: 2 * output)


class ActiveDropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x):
        return F.dropout(self.fc(x), 0.5)


# Once these fell to vmap; recorded operations cover them.
ODD_STYLES = {
    "tied weights": (Tied, (5,)),
    "a layer twice": (Recurrent, (5,)),
    "a parameter of no layer": (Loose, (5,)),
    "in place": (InPlace, (5,)),
    "mixed examples": (Mixing, (5,)),
    "a hook": (Hooked, (5,)),
    "softmax": (lambda: nn.Sequential(nn.Linear(5, 3), nn.Softmax(-1)), (5,)),
    "conv1d": (lambda: nn.Sequential(nn.Conv1d(2, 3, 2), nn.Flatten()), (2, 5)),
    "flattened examples": (
        lambda: nn.Sequential(nn.Flatten(0), nn.Unflatten(0, (-1, 5)), nn.Linear(5, 3)),
        (5,),
    ),
    "parametrized": (
        lambda: parametrize.register_parametrization(nn.Linear(5, 3), "weight", nn.Tanh()),
        (5,),
    ),
    "pooling without channels": (
        lambda: nn.Sequential(nn.Linear(5, 4), nn.MaxPool2d(2), nn.Flatten()),
        (4, 5),
    ),
}


@pytest.mark.parametrize("particles", [1, PARTICLES])
@pytest.mark.parametrize("name", ODD_STYLES)
def test_odd_styles_are_recorded_too(name, particles):
    torch.manual_seed(1)
    build, shape = ODD_STYLES[name]
    net = build().double()
    space = select_parameters(net)
    theta = draws(space, net, particles=particles)
    assert_equal_to_the_module(net, space, theta, images(EXAMPLES, *shape))
    assert_equal_to_the_module(net, space, theta, images(particles, EXAMPLES, *shape), stacked=True)
    assert build_forward(net, space, images(2, *shape)).path == "fused"


class Slices(nn.Module):
    """Writes into a part of a tensor."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x):
        y = self.fc(x).clone()
        y[:, 0] *= 2
        return y


class Sizes(nn.Module):
    """Does something else for another number of examples."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x):
        return self.fc(x) if len(x) % 2 else torch.tanh(self.fc(torch.relu(x)))


class Straight(nn.Module):
    """Values of one function, gradients of another."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x):
        with torch.no_grad():
            scale = self.fc(x).abs().sum(-1, keepdim=True)
        return self.fc(x) / scale


FALLS = [
    (Slices, (5,), "vmap", "writing into a part of a tensor"),
    (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), nn.Flatten()),
        IMAGES,
        "vmap",
        "writing into a part of a tensor",
    ),
    (Sizes, (5,), "vmap", "other operations for another number of examples"),
    (Straight, (5,), "vmap", "its gradients differ from the model's"),
    (Branching, (5,), "loop", "Python code that looks at values"),
]


@pytest.mark.parametrize(("build", "shape", "path", "reason"), FALLS)
def test_falls_say_so_in_one_quiet_line_each(build, shape, path, reason, caplog):
    torch.manual_seed(1)
    net = build().double()
    space = select_parameters(net)
    inputs = images(EXAMPLES, *shape)
    with caplog.at_level(logging.INFO, "sbmc"):
        forward = build_forward(net, space, inputs)
    assert forward.path == path
    lines = [record for record in caplog.records if record.levelno >= logging.INFO]
    assert all((line.name, line.levelno) == ("sbmc", logging.INFO) for line in lines)
    expected = ["fused"] if path == "vmap" else ["fused", "vmap"]
    assert [line.getMessage().split()[1] for line in lines] == expected
    assert f"the fused path cannot evaluate this model ({reason}" in lines[0].getMessage()
    theta = draws(space, net)
    found = evaluated(forward, theta, inputs)
    for ours, theirs in zip(found, by_hand(net, space, theta, inputs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_a_model_that_fuses_says_nothing(caplog):
    net, shape = make("mlp relu")
    with caplog.at_level(logging.INFO, "sbmc"):
        build_forward(net, select_parameters(net), images(2, *shape))
    assert not caplog.records


@pytest.mark.parametrize("path", ["fused", "vmap", "loop"])
def test_a_path_can_be_forced(path):
    net, shape = make("mlp relu")
    assert build_forward(net, select_parameters(net), images(2, *shape), path).path == path


@pytest.mark.parametrize(
    ("build", "path", "words"),
    [
        (Slices, "fused", "but got 'fused' (writing into a part of a tensor)."),
        (Branching, "vmap", "`path` must be one that can evaluate this model, but got 'vmap' ("),
        (ActiveDropout, "auto", "but got 'auto' (its outputs differ from the model's)."),
        (ActiveDropout, "fused", "but got 'fused' (dropout that is active in evaluation mode)."),
        (Branching, "fussed", "but got 'fussed'. Did you mean 'fused'?"),
    ],
)
def test_paths_that_will_not_do_are_refused(build, path, words):
    net = build()
    with pytest.raises(BadInput, match=re.escape(words)):
        build_forward(net, select_parameters(net), torch.ones(2, 5), path)


def test_parameters_that_nothing_depends_on_are_refused():
    net = Recurrent()
    net.spare = nn.Linear(2, 2)
    words = "outputs depend on the sampled parameters, but got .* choose other `parameters`"
    with pytest.raises(BadInput, match=words):
        build_forward(net, select_parameters(net, "spare"), torch.ones(2, 5))


class Wrong(FusedForward):
    """A fused path with a planted error."""

    def __init__(self, error):
        self.error = error

    def __call__(self, theta, inputs, *, stacked=False):
        return self.error(super().__call__(theta, inputs, stacked=stacked), theta)


ERRORS = {
    "other values": lambda outputs, theta: outputs * 1.001,
    "other gradients": lambda outputs, theta: outputs.detach() + 0.5 * (outputs - outputs.detach()),
    "particles swapped": lambda outputs, theta: outputs.flip(0),
    "particles all the first": lambda outputs, theta: outputs[:1].expand_as(outputs),
    "particles for examples": lambda outputs, theta: outputs.transpose(0, 1),
    "another shape": lambda outputs, theta: outputs[..., :2],
    "NaN": lambda outputs, theta: outputs * torch.nan,
    "no gradient": lambda outputs, theta: outputs.detach(),
    "an error": lambda outputs, theta: outputs["nothing"],
}


@pytest.mark.parametrize("error", ERRORS)
def test_the_probe_rejects_a_path_that_is_wrong(error, monkeypatch):
    def build(model, space, inputs):
        wrong = Wrong(ERRORS[error])
        FusedForward.__init__(wrong, model, space, inputs)
        return wrong

    monkeypatch.setitem(forward_package.PATHS, "fused", build)
    net, shape = make("mlp relu", torch.float32)
    space = select_parameters(net)
    assert build_forward(net, space, images(4, *shape, dtype=torch.float32)).path == "vmap"


def test_the_probe_needs_no_gradient_where_none_is_wanted():
    net, shape = make("mlp relu")
    space = select_parameters(net)
    with torch.inference_mode():
        assert build_forward(net, space, images(2, *shape), gradient=False).path == "fused"


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_sixteen_bits_are_probed_with_their_own_tolerance(half):
    net, shape = make("mlp relu", half)
    assert build_forward(net, select_parameters(net), images(2, *shape, dtype=half)).path == "fused"


def test_infinite_outputs_that_are_meant_pass_the_probe():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(5, 3)

        def forward(self, x):
            return self.fc(x) + torch.tensor([0.0, 0.0, -torch.inf])

    net = Masked()
    assert build_forward(net, select_parameters(net), torch.ones(2, 5)).path == "fused"


def test_several_inputs_may_be_given():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(5, 3)

        def forward(self, x, y):
            return self.fc(x + 2 * y)

    net = Two()
    space = select_parameters(net)
    x, y = torch.randn(2, 5), torch.randn(2, 5)
    for inputs in ((x, y), {"x": x, "y": y}):
        forward = build_forward(net, space, inputs)
        assert forward.path == "fused"
        expected = net(x, y).expand(3, -1, -1)
        torch.testing.assert_close(forward(space.flatten(net).repeat(3, 1), inputs), expected)
    with pytest.raises(Unsupported):
        forward(torch.ones(1, 18), x)


def test_a_model_that_fails_on_the_inputs_says_so_itself():
    net = nn.Linear(5, 3)
    with pytest.raises(BadInput, match="its layer of type Linear takes 5 features") as refusal:
        build_forward(net, select_parameters(net), torch.ones(2, 4))
    assert "shapes cannot be multiplied" in str(refusal.value.__cause__)
