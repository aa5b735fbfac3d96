"""Networks that kernels in C know, on odd shapes, as targets to compare with autograd."""

from __future__ import annotations

import shutil

import pytest
import torch
from targets import target_of
from torch import nn

from sbmc.likelihoods import Categorical, Gaussian
from sbmc.model.data import Examples
from sbmc.model.forward import build_forward
from sbmc.model.parameters import select_parameters
from sbmc.prior.gaussian import anchored_prior
from sbmc.target.contract import Source

needs_compiler = pytest.mark.skipif(
    not (shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")),
    reason="no C compiler",
)
CLASSES = 3
VECTORS, IMAGES, WIDE = (5,), (1, 9, 8), (3, 11, 14)


def flat(*layers):
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(CLASSES))


CHAINS = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Dropout(0.5), nn.Linear(7, CLASSES)),
        VECTORS,
    ),
    "deep mlp without bias": (
        lambda: nn.Sequential(
            nn.Linear(5, 13, bias=False),
            nn.ReLU(),
            nn.Linear(13, 6),
            nn.Linear(6, CLASSES, bias=False),
        ),
        VECTORS,
    ),
    "paper": (
        lambda: flat(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        IMAGES,
    ),
    "pooling before the activation": (
        lambda: flat(nn.Conv2d(1, 5, 3, bias=False), nn.MaxPool2d(2), nn.ReLU()),
        IMAGES,
    ),
    "two convolutions with stride": (
        lambda: flat(
            nn.Conv2d(3, 8, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(8, 7, 5, stride=2, padding=(2, 1)),
            nn.ReLU(),
            nn.AvgPool2d(2),
        ),
        WIDE,
    ),
    "windows that overlap": (
        lambda: flat(
            nn.Conv2d(3, 2, (3, 2), dilation=(1, 2)),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(2, 1, 1, padding=1),
            nn.AvgPool2d(2, stride=1),
            nn.ReLU(),
        ),
        WIDE,
    ),
    "flattened and then deep": (
        lambda: nn.Sequential(
            nn.Flatten(), nn.Linear(3 * 11 * 14, 9), nn.ReLU(), nn.Linear(9, CLASSES)
        ),
        WIDE,
    ),
}
FUNCTIONS = {
    "tanh": nn.Tanh(),
    "gelu": nn.GELU(),
    "gelu by tanh": nn.GELU(approximate="tanh"),
    "silu": nn.SiLU(),
    "leaky relu": nn.LeakyReLU(0.1),
    "elu": nn.ELU(0.7),
    "sigmoid": nn.Sigmoid(),
    "softplus": nn.Softplus(),
    "softplus, steep": nn.Softplus(beta=3.0, threshold=2.0),
}


def bent(function):
    return lambda: nn.Sequential(
        nn.Linear(5, 7), function, nn.Linear(7, 6), nn.Identity(), function, nn.Linear(6, CLASSES)
    )


BENT = {name: (bent(function), VECTORS) for name, function in FUNCTIONS.items()} | {
    "small cnn": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1),
            nn.GELU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 5, 3, padding=(1, 0), stride=2),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(5, CLASSES),
        ),
        WIDE,
    ),
    "functions after poolings and each other": (
        lambda: flat(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.ReLU(),
            nn.AvgPool2d(2),
            nn.Tanh(),
            nn.ReLU(),
            nn.Conv2d(4, 3, 2, padding=1),
            nn.ReLU(),
            nn.ELU(),
            nn.MaxPool2d(2, stride=1),
        ),
        IMAGES,
    ),
}
CHAINS |= BENT
HEADS = {
    "head": (lambda: nn.Linear(5, CLASSES), VECTORS),
    "head without bias": (lambda: nn.Sequential(nn.Linear(5, CLASSES, bias=False)), VECTORS),
    "head after dropout": (
        lambda: nn.Sequential(nn.Dropout(0.3), nn.Linear(5, CLASSES)),
        VECTORS,
    ),
}
LIKELIHOODS = {"categorical": Categorical(), "gaussian": Gaussian(noise_variance=0.3)}


def make_target(name, examples=37, likelihood="categorical", dtype=torch.float32, **options):
    build, shape = {**CHAINS, **HEADS}[name]
    torch.manual_seed(5)
    net = build()
    inputs = torch.randn(examples, *shape)
    net(inputs)  # lazy layers
    net = net.to(dtype)
    inputs = inputs.to(dtype)
    targets = torch.arange(examples) % CLASSES
    if likelihood == "gaussian":
        targets = torch.randn(examples, CLASSES, dtype=dtype)
    space = select_parameters(net)
    prior = anchored_prior(space.flatten(net), 0.25, torch.ones(space.dim, dtype=dtype))
    forward = build_forward(net, space, inputs[:2])
    return target_of(
        forward,
        Examples(inputs, targets),
        LIKELIHOODS.get(likelihood, likelihood),
        prior,
        source=Source(net, space),
        **options,
    )


def positions(target, particles=3):
    noise = torch.Generator().manual_seed(6)
    return 0.5 * torch.randn(particles, target.dim, generator=noise).to(target.prior.mean)
