"""One module from inputs to all answers, for `torch.export` to draw a graph of."""

from __future__ import annotations

import copy
from collections.abc import Callable
from statistics import NormalDist
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.func import vmap

from sbmc.model.data import Inputs
from sbmc.model.functional import call_model, converted, evaluation_copy
from sbmc.model.fused import FusedForward
from sbmc.model.noise import NOISE, without_noise
from sbmc.model.parameters import ParameterSpace
from sbmc.posterior.export.abstention import Abstention, AbstentionRule
from sbmc.posterior.export.mixtures import Answers

if TYPE_CHECKING:
    from sbmc.posterior.distillation.distilled import DistilledNetwork


class FusedNetworks(nn.Module):
    """A network with the weights of all particles, by the recorded operations of one of them.

    Args:
        model: the network; never changed.
        space: the parameters that vary between particles.
        theta: their values, `(particles, dim)`.
        few: two or more examples, to record the operations on.

    Raises:
        Unsupported: there is an operation that has no rule for many particles.
    """

    theta: Tensor

    def __init__(self, model: nn.Module, space: ParameterSpace, theta: Tensor, few: Inputs) -> None:
        super().__init__()
        self._for_all = FusedForward(converted(model, theta.dtype, theta.device), space, few)
        self.register_buffer("theta", theta)

    def forward(self, inputs: Inputs) -> Tensor:
        """The outputs of all particles, `(particles, examples, ...)`."""
        return self._for_all(self.theta, self._for_all.prepare(inputs))


class StackedNetworks(nn.Module):
    """A network with the weights of all particles, by `torch.func`.

    Args:
        model: the network; never changed.
        space: the parameters that vary between particles.
        theta: their values, `(particles, dim)`.
        unrolled: whether each particle has its own part of the graph. Otherwise each operation is
            one for all of them, such as a batched product of matrices.
    """

    def __init__(
        self, model: nn.Module, space: ParameterSpace, theta: Tensor, *, unrolled: bool
    ) -> None:
        super().__init__()
        network = evaluation_copy(converted(model, theta.dtype, theta.device), space)
        # `vmap` would fix the number of examples where the network appends its noise.
        self.network = without_noise(network)
        self.particles = len(theta)
        self.unrolled = unrolled
        # Names of buffers have no dots.
        self._buffer_names = {name: f"weights_{i}" for i, name in enumerate(space.names)}
        for name, values in space.split(theta).items():
            self.register_buffer(self._buffer_names[name], values.contiguous())

    def forward(self, inputs: Inputs) -> Tensor:
        """The outputs of all particles, `(particles, examples, ...)`."""
        stacked = {name: getattr(self, buffer) for name, buffer in self._buffer_names.items()}
        noise = stacked.pop(NOISE, None)
        if self.unrolled:
            each = (
                call_model(self.network, {name: t[i] for name, t in stacked.items()}, inputs)
                for i in range(self.particles)
            )
            outputs = torch.stack(list(each))
        else:
            outputs = vmap(lambda own: call_model(self.network, own, inputs))(stacked)
        if noise is None:
            return outputs
        return torch.cat([outputs, noise.unsqueeze(1).expand(-1, outputs.shape[1], -1)], -1)


# How all particles are put into a graph, in the order in which it is tried. The last one gives
# each particle a part of its own.
WAYS: dict[str, Callable[[nn.Module, ParameterSpace, Tensor, Inputs], nn.Module]] = {
    "fused": FusedNetworks,
    "vmap": lambda model, space, theta, _: StackedNetworks(model, space, theta, unrolled=False),
    "unrolled": lambda model, space, theta, _: StackedNetworks(model, space, theta, unrolled=True),
}
UNROLLED = "unrolled"


class EnsembleAnswers(nn.Module):
    """The answers of a posterior.

    Args:
        networks: its particles.
        mixture: a `ClassMixture` or a `NumberMixture`.
        score: features of a prediction to the score of a confidence; None where there is none, or
            where the mixture has it.
    """

    def __init__(
        self, networks: nn.Module, mixture: nn.Module, score: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.networks, self.mixture, self.score = networks, mixture, score

    def forward(self, inputs: Inputs) -> Answers:
        """The answers by name."""
        answers = self.mixture(self.networks(inputs))
        if self.score is not None:
            answers["score"] = self.score(answers.pop("features"))
        return answers


class DistilledAnswers(nn.Module):
    """The answers of a distilled network.

    Args:
        network: the student and its heads.
        classes: whether it predicts classes, or else numbers.
        interval: of numbers: the probability inside; None for no interval.
    """

    def __init__(self, network: DistilledNetwork, *, classes: bool, interval: float | None) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).to("cpu").eval().requires_grad_(False)
        self.classes, self.interval = classes, interval

    def forward(self, inputs: Inputs) -> Answers:
        """The answers by name."""
        outputs = call_model(self.network.student, {}, inputs)
        mean, *parts = self.network.heads(outputs, outputs.dtype)
        uncertainty = dict(zip(("total", "aleatoric", "epistemic"), parts, strict=True))
        if self.classes:
            return {"probabilities": mean, **uncertainty}
        answers = {"mean": mean}
        if self.interval is not None:
            reach = NormalDist().inv_cdf((1 + self.interval) / 2) * parts[0].sqrt()
            answers |= {"lower": mean - reach, "upper": mean + reach}
        return answers | uncertainty


class Graph(nn.Module):
    """Inputs, one after the other, to answers, one after the other.

    Args:
        answering: inputs to answers by name.
        names: of the inputs, if the network takes them by name; None if by position.
        rule: when to abstain; None for no flag.
        dtype: of the answers.
    """

    def __init__(
        self,
        answering: nn.Module,
        names: list[str] | None,
        rule: AbstentionRule | None,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.answering, self.names, self.dtype = answering, names, dtype
        self.abstention = None if rule is None else Abstention(rule)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The answers in the order of `answers`."""
        return tuple(self.answers(*inputs).values())

    def answers(self, *inputs: Tensor) -> Answers:
        """The answers by name."""
        given: Inputs = inputs if len(inputs) > 1 else inputs[0]
        if self.names is not None:
            given = dict(zip(self.names, inputs, strict=True))
        answers = self.answering(given)
        flag = None if self.abstention is None else self.abstention(answers)
        found = {name: values.to(self.dtype).contiguous() for name, values in answers.items()}
        return found if flag is None else {**found, "abstain": flag}
