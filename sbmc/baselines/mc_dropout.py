"""MC Dropout: dropout in training, and again in prediction (Gal & Ghahramani, 2016)."""

from __future__ import annotations

import copy
import re
import time
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sbmc.baselines.result import (
    describe_parameters,
    single_network_posterior,
    trained_epochs,
)
from sbmc.checks import BadInput, Phrase, is_number, require
from sbmc.likelihoods import as_likelihood
from sbmc.model.calling import errors_in_words
from sbmc.model.data import Examples, as_examples
from sbmc.model.functional import call_model
from sbmc.model.inferred_likelihood import resolve_likelihood
from sbmc.model.noise import require_noise
from sbmc.model.parameters import ParameterSpace, Selection, select_parameters
from sbmc.model.wrappers import unwrapped
from sbmc.posterior.posterior import Posterior
from sbmc.prediction.kinds import EitherPrediction
from sbmc.randomness import Stream, generator, require_seed
from sbmc.training import train_ensemble
from sbmc.training.settings import require_count


def mc_dropout(
    model: nn.Module,
    train: Any,
    validation: Any = None,
    *,
    rate: float = 0.3,
    samples: int = 10,
    layers: str = "last",
    likelihood: Any = "categorical",
    parameters: Selection = "all",
    seed: int = 0,
    **training: Any,
) -> Posterior[EitherPrediction]:
    """Train a network with dropout and draw from its posterior by dropout.

    `train_mc_dropout` followed by `dropout_posterior`; see there.

    Args:
        model: the network; never changed.
        train: training data, as for `fit`.
        validation: validation data for early stopping, or None to train for `max_epochs`.
        rate: probability with which an input of the chosen layers is dropped.
        samples: how many draws.
        layers: `"last"`, the last `nn.Linear`, or a regular expression, searched for in the names
            of the `nn.Linear` layers.
        likelihood: `"categorical"`, `Gaussian(noise_variance=...)` or a callable.
        parameters: which parameters to train; the others keep the model's values.
        seed: of the start, the data order, and the masks of training and prediction.
        training: further settings of `train_map`, such as `prior_variance` and `max_epochs`.

    Returns:
        The posterior, `(1, samples, dim)`.

    Raises:
        BadInput: an argument is refused; nothing has been computed then.
        RuntimeError: the loss stopped being finite.

    Examples:
        >>> inputs = torch.linspace(-1, 1, 40).reshape(10, 4)
        >>> data = (inputs, (inputs[:, 0] > 0).long())
        >>> mc_dropout(nn.Linear(4, 2), data, samples=3, max_epochs=2)
        Posterior(islands=1, particles=3, dim=10)
    """
    require_count("samples", samples)
    trained = train_mc_dropout(
        model,
        train,
        validation,
        rate=rate,
        layers=layers,
        likelihood=likelihood,
        parameters=parameters,
        seed=seed,
        **training,
    )
    return dropout_posterior(
        trained,
        rate=rate,
        samples=samples,
        layers=layers,
        likelihood=likelihood,
        parameters=parameters,
        seed=seed,
    )


def train_mc_dropout(
    model: nn.Module,
    train: Any,
    validation: Any = None,
    *,
    rate: float = 0.3,
    layers: str = "last",
    parameters: Selection = "all",
    **training: Any,
) -> nn.Module:
    """Train a network with dropout on the inputs of its chosen linear layers.

    As `train_map`, but in training every input of a chosen layer is set to zero with probability
    `rate`, for each example anew, and otherwise divided by 1 − rate. The validation loss is that of
    the network without dropout.

    Args:
        model: the network; never changed.
        train: training data, as for `fit`.
        validation: validation data for early stopping, or None to train for `max_epochs`.
        rate: probability of dropping an input.
        layers: as for `mc_dropout`.
        parameters: which parameters to train; must contain the weights of the chosen layers.
        training: further settings of `train_map`.

    Returns:
        A trained copy of the model, without the dropout that was put in, in evaluation mode, with
        its history as `.history`: for `dropout_posterior`, or as the anchor of `fit`.

    Raises:
        BadInput: an argument is refused; nothing has been computed then.
        RuntimeError: the loss stopped being finite.

    Examples:
        >>> inputs = torch.linspace(-1, 1, 40).reshape(10, 4)
        >>> data = (inputs, (inputs[:, 0] > 0).long())
        >>> train_mc_dropout(nn.Linear(4, 2), data, rate=0.5, max_epochs=3).history.epochs
        3
    """
    _check_rate(rate)
    model = unwrapped(model)
    space = select_parameters(model, parameters)
    names = dropout_layers(model, layers, space)
    examples = as_examples(train, "train")
    noisy = copy.deepcopy(model)
    hooks = {name: _DropInputs(rate) for name in names}
    for name, hook in hooks.items():
        noisy.get_submodule(name).register_forward_pre_hook(hook)
    reference = space.flatten(model)
    few, _ = examples.to(dtype=reference.dtype, device=reference.device).slice(0, 2)
    with torch.no_grad(), errors_in_words(model, examples.inputs, "train inputs"):
        call_model(noisy.eval(), {}, few)
    given = training.get("likelihood")
    family = resolve_likelihood(given, model, Examples(few, examples.targets), "train").likelihood
    require_noise(family, space)
    for name, hook in hooks.items():
        got = Phrase(f"{name!r}, which the model does not call as a layer")
        require(hook.called, "layers", "linear layers that the model calls", got)
    settings = {"initial": "model", **training}
    ensemble = train_ensemble(
        noisy, examples, validation, members=1, parameters=parameters, path="module", **settings
    )
    # The weights in a copy of the model as it was given, without the hooks.
    trained = replace(ensemble, model=copy.deepcopy(model))[0]
    trained.history = ensemble.histories[0]  # type: ignore[assignment]
    return trained


def dropout_posterior(
    trained: nn.Module,
    *,
    rate: float = 0.3,
    samples: int = 10,
    layers: str = "last",
    likelihood: Any = "categorical",
    parameters: Selection = "all",
    seed: int = 0,
    anchor_epochs: float | None = None,
) -> Posterior:
    """Draw networks from a trained one by dropout.

    Dropping inputs of a linear layer is dropping columns of its weights: W (m ⊙ x) / (1 − rate) =
    (W diag(m) / (1 − rate)) x. So a draw is an ordinary parameter vector, with m_j = 1 with
    probability 1 − rate for each input j of each chosen layer.

    A draw's mask is the same for all examples, where a dropout layer would draw one for each. For
    every single example the draws are independent in both cases and of the same distribution, and
    so are its predicted probabilities and entropies; accuracies and other means over examples
    have the same expectation, and with shared masks a larger variance.

    Args:
        trained: the network, trained with dropout by `train_mc_dropout` or in any other way.
        rate: probability of dropping an input.
        samples: how many draws.
        layers: as for `mc_dropout`.
        likelihood: the likelihood of the outputs.
        parameters: the parameters that the posterior holds; must contain the weights of the layers.
        seed: of the masks; draw k does not depend on how many there are.
        anchor_epochs: the cost of the network's training; read from its history if it has one.

    Returns:
        The posterior, `(1, samples, dim)`.

    Raises:
        BadInput: an argument is refused.

    Examples:
        >>> posterior = dropout_posterior(nn.Linear(6, 2, bias=False), samples=4)
        >>> (posterior.positions == 0).any(), posterior.weights[0, 0]
        (tensor(True), tensor(0.2500, dtype=torch.float64))
    """
    began = time.perf_counter()
    _check_rate(rate)
    rate = float(rate)
    require_count("samples", samples)
    require_seed(seed)
    family = as_likelihood(likelihood)
    trained = unwrapped(trained)
    space = select_parameters(trained, parameters)
    names = dropout_layers(trained, layers, space)
    epochs = trained_epochs(trained, anchor_epochs)
    positions = space.flatten(trained).repeat(samples, 1)
    weights = space.split(positions)
    for sample in range(samples):
        stream = generator(seed, Stream.DROPOUT_MASKS, sample)
        for name in names:
            weight = weights[_weight(name)][sample]
            mask = torch.rand(weight.shape[1], generator=stream) >= rate
            weight *= mask.to(weight) / (1 - rate)  # a view of the draw's position
    return single_network_posterior(
        trained,
        space,
        family,
        positions,
        shared_epochs=epochs,
        seconds=time.perf_counter() - began,
        settings={
            "sampler": "mc_dropout",
            "rate": float(rate),
            "layers": names,
            "parameters": describe_parameters(parameters),
            "seed": int(seed),
        },
    )


def dropout_layers(model: nn.Module, layers: str, space: ParameterSpace) -> list[str]:
    """The names of the linear layers that are chosen.

    Args:
        model: the network.
        layers: `"last"`, or a regular expression, searched for in the names of linear layers.
        space: the sampled parameters, which must contain the layers' weights.

    Returns:
        The names, in the model's order.

    Raises:
        BadInput: nothing matches; a layer's weights are not in `space`, or another layer's too.
    """
    require(isinstance(layers, str), "layers", "'last' or a regular expression", layers)
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    require(bool(linear), "model", "one with an nn.Linear layer", Phrase("none"))
    try:
        pattern = re.compile(layers)
    except re.error as error:
        raise BadInput(
            f"`layers` must be 'last' or a regular expression, but got {layers!r} ({error})."
        ) from None
    chosen = linear[-1:] if layers == "last" else [n for n in linear if pattern.search(n)]
    rule = f"a choice that matches a linear layer (such as {linear[-1]!r})"
    require(bool(chosen), "layers", rule, layers)
    everywhere = [id(p) for _, p in model.named_parameters(remove_duplicate=False)]
    for name in chosen:
        got = Phrase(f"{name!r}, which shares them")
        alone = everywhere.count(id(model.get_submodule(name).weight)) == 1
        require(alone, "layers", "layers with weights of their own", got)
        got = Phrase(f"{_weight(name)!r}, which is not")
        require(_weight(name) in space.names, "layers", "layers whose weights are sampled", got)
    return chosen


def _weight(layer: str) -> str:
    return f"{layer}.weight" if layer else "weight"


def _check_rate(rate: float) -> None:
    require(is_number(rate) and 0 < rate < 1, "rate", "between 0 and 1", rate)


class _DropInputs:
    """A hook that drops inputs of a layer while the model is in training mode."""

    def __init__(self, rate: float) -> None:
        self.rate = float(rate)
        self.called = False

    def __call__(self, module: nn.Module, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if not arguments:  # the input came by keyword: counted as not called, and refused
            return arguments
        self.called = True
        dropped = F.dropout(arguments[0], self.rate, training=module.training)
        return (dropped, *arguments[1:])
