"""What the engine's benchmark computes: two problems of the paper's sizes, on random data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sbmc.examples import Examples
from sbmc.forward import build_forward
from sbmc.likelihoods import Categorical
from sbmc.parameters import select_parameters
from sbmc.prior import AnchoredPrior, anchored_prior
from sbmc.studies.networks import paper_cnn
from sbmc.target import Evaluation, Target

PATHS = ("fused", "vmap", "loop")
# The engine's paths, and what one writes without it.
WAYS = (*PATHS, "plain loop")
PRIOR_VARIANCE = 0.1


@dataclass(frozen=True)
class Workload:
    """A network and the shape of its data.

    Attributes:
        title: one line for the table.
        examples: how many there are, unless the benchmark says otherwise.
        network: makes the network.
        inputs: makes that many inputs.
        classes: how many labels there are.
        needed: how many times faster than the plain loop the fused path has to be.
    """

    title: str
    examples: int
    network: Callable[[], nn.Module]
    inputs: Callable[[int, torch.Generator], Tensor]
    classes: int
    needed: float


def sparse_images(count: int, rng: torch.Generator, side: int = 28) -> Tensor:
    """Images of which four pixels in five are zero, about as in MNIST.

    In place, so that making them leaves no peak of memory that would hide the engine's.
    """
    return torch.rand(count, 1, side, side, generator=rng).sub_(0.8).clamp_(min=0).mul_(5)


def _head(features: int) -> Callable[[int, torch.Generator], Tensor]:
    return lambda count, rng: torch.randn(count, features, generator=rng)


WORKLOADS = {
    "mnist7": Workload(
        "MNIST7 network, 1,200 examples of 28 × 28",
        1_200,
        lambda: paper_cnn((1, 28, 28), 8),
        sparse_images,
        classes=8,
        needed=3.0,
    ),
    "head": Workload(
        "linear head 768 → 2, 25,000 examples",
        25_000,
        lambda: nn.Sequential(nn.Linear(768, 2)),
        _head(768),
        classes=2,
        needed=8.0,
    ),
}

# The same code at sizes that take no time, for the tests. Their speed says nothing.
QUICK_WORKLOADS = {
    "mnist7": Workload(
        "tiny images",
        32,
        lambda: paper_cnn((1, 8, 8), 8),
        lambda count, rng: sparse_images(count, rng, side=8),
        classes=8,
        needed=3.0,
    ),
    "head": Workload(
        "tiny head", 64, lambda: nn.Sequential(nn.Linear(16, 2)), _head(16), classes=2, needed=8.0
    ),
}


def get_workload(name: str, quick: bool) -> Workload:
    """Look a workload up, in its real or in its tiny size."""
    return (QUICK_WORKLOADS if quick else WORKLOADS)[name]


def make_examples(workload: Workload, examples: int) -> Examples:
    """Random inputs and labels of the workload's shapes, always the same ones."""
    rng = torch.Generator().manual_seed(0)
    inputs = workload.inputs(examples, rng)
    return Examples(inputs, torch.randint(workload.classes, (examples,), generator=rng))


class PlainLoop:
    """What one writes without an engine: whole data, one particle after another, autograd.

    Args:
        network: the model.
        examples: the data.
        prior: the coordinates.
    """

    def __init__(self, network: nn.Module, examples: Examples, prior: AnchoredPrior) -> None:
        self.prior = prior
        self._network = network.eval()
        self._space = select_parameters(network)
        self._examples = examples

    def __call__(self, positions: Tensor) -> Evaluation:
        """Log likelihood and gradient, as the engine gives them."""
        values, gradients = [], []
        for position in positions:
            z = position.clone().requires_grad_()
            parameters = self._space.split(self.prior.to_parameters(z))
            outputs = torch.func.functional_call(
                self._network, parameters, (self._examples.inputs,)
            )
            value = Categorical().log_prob(outputs, self._examples.targets).sum()
            (gradient,) = torch.autograd.grad(value, z)
            values.append(value.detach().double())
            gradients.append(gradient)
        return Evaluation(torch.stack(values), torch.stack(gradients))


def build_target(workload: Workload, examples: Examples, path: str) -> Target:
    """The engine over these examples, its path forced; chunk sizes are the engine's own."""
    network = workload.network()
    space, prior = select_parameters(network), _prior(network)
    forward = build_forward(network, space, examples.inputs[:2], path)  # type: ignore[index]
    return Target(forward, examples, Categorical(), prior)


def build_way(workload: Workload, examples: Examples, way: str) -> Target | PlainLoop:
    """The engine with one of its paths, or the plain loop."""
    if way == "plain loop":
        network = workload.network()
        return PlainLoop(network, examples, _prior(network))
    return build_target(workload, examples, way)


def draw_positions(target: Target | PlainLoop, particles: int) -> Tensor:
    """Whitened positions `(particles, dim)` from the prior."""
    return target.prior.sample(particles, torch.Generator().manual_seed(1))


def _prior(network: nn.Module) -> AnchoredPrior:
    anchor = select_parameters(network).flatten(network)
    return anchored_prior(anchor, 1.0, torch.full((len(anchor),), PRIOR_VARIANCE))
