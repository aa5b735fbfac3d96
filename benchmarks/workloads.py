"""What the benchmarks compute: models of the paper's sizes and others, on random data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from benchmarks.operations import Operations, cnn, deep_mlp, linear, mlp, strided, transformer
from benchmarks.transformer import Transformer
from sbmc.likelihoods import Categorical, Gaussian, Likelihood
from sbmc.model.data import Examples
from sbmc.model.forward import build_forward
from sbmc.model.parameters import select_parameters
from sbmc.prior.gaussian import AnchoredPrior, anchored_prior
from sbmc.target.builder import EngineBuilder
from sbmc.target.engine import LikelihoodEngine
from sbmc.target.target import Evaluation, Target
from sbmc_studies.experiments.networks import paper_cnn

PATHS = ("fused", "vmap", "loop")
# The engine's paths, and what one writes without it.
WAYS = (*PATHS, "plain loop")
PRIOR_VARIANCE = 0.1
HEADS = 4  # of the transformer's attention
LIKELIHOODS: dict[str, Likelihood] = {
    "categorical": Categorical(),
    "gaussian": Gaussian(noise="network"),
}


@dataclass(frozen=True)
class Workload:
    """A network and the shape of its data.

    Attributes:
        title: one line for the table.
        kind: of the model, by which peers know it.
        examples: how many there are, unless the benchmark says otherwise.
        network: makes the network.
        inputs: makes that many inputs.
        classes: how many labels there are; for numbers, outputs of the network.
        operations: counts what one evaluation takes at least, for examples and particles.
        needed: how many times faster than the plain loop the fused path has to be, if it has to.
        likelihood: a key of `LIKELIHOODS`; `"gaussian"` has mean and log-variance by the network.
    """

    title: str
    kind: str
    examples: int
    network: Callable[[], nn.Module]
    inputs: Callable[[int, torch.Generator], Tensor]
    classes: int
    operations: Callable[[int, int], Operations]
    needed: float | None = field(default=None)
    likelihood: str = "categorical"


def sparse_images(count: int, rng: torch.Generator, side: int = 28) -> Tensor:
    """Images of which four pixels in five are zero, about as in MNIST.

    In place, so that making them leaves no peak of memory that would hide the engine's.
    """
    return torch.rand(count, 1, side, side, generator=rng).sub_(0.8).clamp_(min=0).mul_(5)


def _colour_images(count: int, rng: torch.Generator, side: int = 32) -> Tensor:
    return torch.rand(count, 3, side, side, generator=rng)


def strided_network(side: int) -> nn.Sequential:
    """Two convolutions of 5 × 5 with stride 2 and average pooling; other shapes than MNIST7's."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * (side // 8) ** 2, 10),
    )


def _head(title: str, examples: int, features: int, classes: int, **more: float) -> Workload:
    return Workload(
        title,
        "linear",
        examples,
        lambda: nn.Sequential(nn.Linear(features, classes)),
        lambda count, rng: torch.randn(count, features, generator=rng),
        classes,
        lambda n, particles: linear(n, particles, features, classes),
        **more,
    )


def _small_mlp(title: str, examples: int, features: int, hidden: int) -> Workload:
    return Workload(
        title,
        "mlp",
        examples,
        lambda: nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, 2)),
        lambda count, rng: torch.randn(count, features, generator=rng),
        2,
        lambda n, particles: mlp(n, particles, features, hidden, 2),
    )


def regression_network(features: int, width: int, layers: int) -> nn.Sequential:
    """Hidden layers of one width with ReLU, and two outputs: mean and log-variance."""
    hidden: list[nn.Module] = []
    for layer in range(layers):
        hidden += [nn.Linear(width if layer else features, width), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(width, 2))


def _regression(title: str, examples: int, features: int, width: int, layers: int) -> Workload:
    return Workload(
        title,
        "regression",
        examples,
        lambda: regression_network(features, width, layers),
        lambda count, rng: torch.randn(count, features, generator=rng),
        2,
        lambda n, particles: deep_mlp(n, particles, (features, *[width] * layers, 2)),
        likelihood="gaussian",
    )


def _transformer(title: str, examples: int, vocabulary: int, length: int, width: int) -> Workload:
    rank, classes = 4, 2
    return Workload(
        title,
        "transformer",
        examples,
        lambda: Transformer(vocabulary, length, width, rank, classes, HEADS),
        lambda count, rng: torch.randint(vocabulary, (count, length), generator=rng),
        classes,
        lambda n, particles: transformer(n, particles, length, width, rank, classes),
    )


WORKLOADS = {
    "mnist7": Workload(
        "MNIST7 network, 1,200 examples of 28 × 28",
        "cnn",
        1_200,
        lambda: paper_cnn((1, 28, 28), 8),
        sparse_images,
        8,
        lambda n, particles: cnn(n, particles, side=28, channels=4, classes=8),
        needed=3.0,
    ),
    "strided": Workload(
        "second network, 1,000 examples of 3 × 32 × 32",
        "strided",
        1_000,
        lambda: strided_network(32),
        _colour_images,
        10,
        lambda n, particles: strided(n, particles, side=32, classes=10),
    ),
    "head": _head("IMDb head 768 → 2, 25,000 examples", 25_000, 768, 2, needed=8.0),
    "cifar": _head("CIFAR head 2,048 → 10, 50,000 examples", 50_000, 2_048, 10),
    "mlp": _small_mlp("MLP 20 → 64 → 2, 1,000 examples", 1_000, 20, 64),
    # The rows that bde's protocol trains on airfoil with, and its network.
    "regression": _regression("regression MLP 5 → 4 × 16 → 2, 1,202 examples", 1_202, 5, 16, 4),
    "transformer": _transformer("transformer with adapters, 128 × 32 tokens", 128, 1_000, 32, 64),
}

# The same code at sizes that take no time, for the tests. Their speed says nothing.
QUICK_WORKLOADS = {
    "mnist7": Workload(
        "tiny images",
        "cnn",
        32,
        lambda: paper_cnn((1, 8, 8), 8),
        lambda count, rng: sparse_images(count, rng, side=8),
        8,
        lambda n, particles: cnn(n, particles, side=8, channels=4, classes=8),
        needed=3.0,
    ),
    "strided": Workload(
        "tiny colour images",
        "strided",
        16,
        lambda: strided_network(8),
        lambda count, rng: _colour_images(count, rng, side=8),
        10,
        lambda n, particles: strided(n, particles, side=8, classes=10),
    ),
    "head": _head("tiny head", 64, 16, 2, needed=8.0),
    "cifar": _head("tiny head of ten classes", 64, 16, 10),
    "mlp": _small_mlp("tiny MLP", 32, 4, 8),
    "regression": _regression("tiny regression MLP", 32, 3, 4, 2),
    "transformer": _transformer("tiny transformer", 8, 11, 4, 8),
}


def get_workload(name: str, quick: bool) -> Workload:
    """Look a workload up, in its real or in its tiny size."""
    return (QUICK_WORKLOADS if quick else WORKLOADS)[name]


def make_examples(workload: Workload, examples: int) -> Examples:
    """Random inputs and targets of the workload's shapes, always the same ones."""
    rng = torch.Generator().manual_seed(0)
    inputs = workload.inputs(examples, rng)
    if workload.likelihood == "gaussian":
        return Examples(inputs, torch.randn(examples, 1, generator=rng))
    return Examples(inputs, torch.randint(workload.classes, (examples,), generator=rng))


class PlainLoop:
    """What one writes without an engine: whole data, one particle after another, autograd.

    Args:
        network: the model.
        examples: the data.
        prior: the coordinates.
        likelihood: of the targets.
    """

    def __init__(
        self,
        network: nn.Module,
        examples: Examples,
        prior: AnchoredPrior,
        likelihood: Likelihood,
    ) -> None:
        self.prior, self._likelihood = prior, likelihood
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
            value = self._likelihood.log_prob(outputs, self._examples.targets).sum()
            (gradient,) = torch.autograd.grad(value, z)
            values.append(value.detach().double())
            gradients.append(gradient)
        return Evaluation(torch.stack(values), torch.stack(gradients))


def build_target(workload: Workload, examples: Examples, path: str) -> Target:
    """The engine over these examples, its path forced; chunk sizes are the engine's own."""
    return target_of(workload.network(), examples, path, LIKELIHOODS[workload.likelihood])


def target_of(
    network: nn.Module,
    examples: Examples,
    path: str = "auto",
    likelihood: Likelihood | None = None,
) -> Target:
    """The engine over these examples; targets are labels unless a likelihood says otherwise."""
    space, prior = select_parameters(network), prior_of(network)
    forward = build_forward(network, space, examples.inputs[:2], path)  # type: ignore[index]
    engine = LikelihoodEngine(forward, examples, likelihood or Categorical(), prior.mean)
    engine.settle()
    return Target(engine, prior)


def users_target(network: nn.Module, examples: Examples, likelihood: str = "categorical") -> Target:
    """The target as `fit` builds it: frozen parts cut off, path and kernel by rule."""
    space, prior = select_parameters(network), prior_of(network)
    engine = EngineBuilder(network, space, LIKELIHOODS[likelihood], examples)(prior.mean)
    engine.settle()
    return Target(engine, prior)


def build_way(workload: Workload, examples: Examples, way: str) -> Target | PlainLoop:
    """The engine with one of its paths, or the plain loop."""
    if way == "plain loop":
        network = workload.network()
        return PlainLoop(network, examples, prior_of(network), LIKELIHOODS[workload.likelihood])
    return build_target(workload, examples, way)


def draw_positions(target: Target | PlainLoop, particles: int) -> Tensor:
    """Whitened positions `(particles, dim)` from the prior."""
    return target.prior.sample(particles, torch.Generator().manual_seed(1))


def prior_of(network: nn.Module) -> AnchoredPrior:
    """The prior that all contenders have: s = 1, so it is not drawn to any anchor."""
    anchor = select_parameters(network).flatten(network)
    return anchored_prior(anchor, 1.0, torch.full((len(anchor),), PRIOR_VARIANCE))
