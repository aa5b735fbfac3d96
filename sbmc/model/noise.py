"""Noise that is learned with the weights: a parameter beside those of the network.

The network gets one more parameter, the logarithms of the noise, and appends them to its outputs.
So a Gaussian likelihood with learned noise is one whose network gives its noise, and every part
that knows networks and parameters knows the noise too: paths, samplers, checkpoints and files.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.checks import Phrase, require
from sbmc.likelihoods import Likelihood, NoisyLikelihood, unweighted
from sbmc.likelihoods.noise import NoisePrior, estimate_noise
from sbmc.model.data import Examples, count, rows
from sbmc.model.functional import call_model, evaluation_copy
from sbmc.model.outputs import as_logits
from sbmc.model.parameters import ParameterSpace

# The parameter's name, that no network has by chance.
NOISE = "likelihood_noise"
ROWS_AT_ONCE = 1_000


@dataclass(frozen=True)
class LearnedNoise:
    """A network and its data, with the noise of a likelihood that learns it.

    Args:
        model: the network alone.
        space: its sampled parameters.
        likelihood: one that learns its noise.
        examples: the data, in the dtype of the network; targets as the likelihood wants them.
        prior: of the logarithms of the noise.
        weights: of the rows, `(rows,)`; None if all are 1.
    """

    model: nn.Module
    space: ParameterSpace
    likelihood: NoisyLikelihood
    examples: Examples
    prior: NoisePrior
    weights: Tensor | None = None

    @property
    def columns(self) -> int:
        """How many numbers are learned."""
        return len(self.prior.mean)

    @property
    def wider_space(self) -> ParameterSpace:
        """The sampled parameters, and the noise after them."""
        return with_noise_parameter(self.space, self.columns)

    def wider_model(self) -> nn.Module:
        """A copy of the network that appends the noise to its outputs."""
        return with_noise(self.model, self.prior.mean)

    def append(self, positions: Tensor) -> Tensor:
        """Weights and the most probable noise given them, for each of several networks.

        Args:
            positions: `(networks, dim)`.

        Returns:
            `(networks, dim + columns)`.
        """
        module = evaluation_copy(self.model, self.space)
        inputs = self.examples.inputs
        found = []
        for theta in positions:
            parameters = self.space.split(theta)
            with torch.no_grad():
                parts = [
                    call_model(module, parameters, rows(inputs, start, start + ROWS_AT_ONCE))
                    for start in range(0, count(inputs), ROWS_AT_ONCE)
                ]
            data = self.examples.targets, self.weights
            found.append(estimate_noise(self.likelihood, torch.cat(parts), *data))
        return torch.cat([positions, torch.stack(found).to(positions)], 1)


def learn_noise(
    model: nn.Module,
    space: ParameterSpace,
    likelihood: Likelihood,
    examples: Examples,
    weights: Tensor | None = None,
) -> LearnedNoise | None:
    """What a likelihood needs that learns its noise; None for any other.

    Args:
        model: the network alone, in the dtype and on the device of the data.
        space: its sampled parameters.
        likelihood: of the outputs.
        examples: the data.
        weights: of the rows, `(rows,)`; None if all are 1.

    Returns:
        The noise, or None.

    Raises:
        BadInput: targets that do not fit the network's outputs.

    Examples:
        >>> from sbmc.likelihoods import Gaussian
        >>> from sbmc.model.parameters import select_parameters
        >>> net, data = nn.Linear(2, 3), Examples(torch.zeros(4, 2), torch.ones(4, 3))
        >>> noise = learn_noise(net, select_parameters(net), Gaussian(), data)
        >>> noise.wider_space.sizes, noise.wider_model()(data.inputs).shape
        ((6, 3, 3), torch.Size([4, 6]))
    """
    if not isinstance(likelihood, NoisyLikelihood) or not likelihood.learns_noise:
        return None
    module = evaluation_copy(model, ParameterSpace((), ()))
    with torch.no_grad():
        outputs = call_model(module, {}, rows(examples.inputs, 0, 2))
    columns = likelihood.noise_columns(outputs.shape[-1])
    padding = outputs.new_zeros(*outputs.shape[:-1], columns)
    targets = likelihood.check(examples.targets, torch.cat([outputs, padding], -1))
    prior = likelihood.noise_prior(targets, weights)
    checked = Examples(examples.inputs, targets)
    return LearnedNoise(model, space, likelihood, checked, prior, weights)


def require_noise(likelihood: Likelihood, space: ParameterSpace) -> None:
    """Refuse a likelihood that learns its noise where nothing learns it."""
    likelihood = unweighted(likelihood)
    learns = isinstance(likelihood, NoisyLikelihood) and likelihood.learns_noise
    rule = 'one of known noise, or noise="network", since noise is not learned here'
    good = not learns or NOISE in space.names
    require(good, "likelihood", rule, Phrase(f"{likelihood.name} with noise to learn"))


def with_noise_parameter(space: ParameterSpace, columns: int) -> ParameterSpace:
    """The space with so many numbers of noise after its parameters."""
    return ParameterSpace((*space.names, NOISE), (*space.shapes, torch.Size([columns])))


def with_noise(model: nn.Module, logs: Tensor) -> nn.Module:
    """A copy of a network that appends the noise `(columns,)` to its outputs."""
    network = copy.deepcopy(model)
    own = next(network.parameters())
    network.register_parameter(NOISE, nn.Parameter(logs.detach().to(own)))
    network.register_forward_hook(_append_noise)
    return network


def without_noise(model: nn.Module) -> nn.Module:
    """The network alone: the module itself, changed back, if `with_noise` made it."""
    if NOISE in model._parameters:
        del model._parameters[NOISE]
        hooks = model._forward_hooks
        for key in [key for key, hook in hooks.items() if hook is _append_noise]:
            del hooks[key]
    return model


def _append_noise(module: nn.Module, arguments: Any, outputs: Any) -> Tensor:
    means = as_logits(outputs)
    logs = getattr(module, NOISE)
    return torch.cat([means, logs.expand(*means.shape[:-1], -1)], -1)
