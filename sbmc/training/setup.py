"""What training begins with: data that fit the model, and where each member starts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sbmc.checks import require
from sbmc.likelihoods import Likelihood, Weighted
from sbmc.likelihoods.weighted import check_weights
from sbmc.model.calling import errors_in_words, require_dependence, require_rows
from sbmc.model.data import Examples, Inputs, as_examples, leaves, require_same_form, tree_map
from sbmc.model.forward import Forward
from sbmc.model.inferred_likelihood import resolve_likelihood
from sbmc.model.loop import LoopForward
from sbmc.model.modes import refuse_modes
from sbmc.model.noise import NOISE, learn_noise, require_noise
from sbmc.model.parameters import ParameterSpace, Selection, select_parameters
from sbmc.model.threads import keep_to_one_thread_after_a_fork
from sbmc.prior.by_layer import LEAST_IN_TRAINING, ByLayer
from sbmc.prior.original import PriorVariance, resolve_prior
from sbmc.randomness import Stream, generator
from sbmc.training.module import seeded
from sbmc.training.settings import TrainingSettings, check_variance

# Of a member's random streams, the one of layers that are initialised anew; 1 is that of dropout.
RESET_STREAM = 2


@dataclass(frozen=True)
class TrainingData:
    """Checked data and the likelihood that fits them.

    Args:
        train: what is learnt from.
        validation: what decides when to stop, or None.
        likelihood: log likelihood of each example.
    """

    train: Examples
    validation: Examples | None
    likelihood: Likelihood


def checked_data(
    model: nn.Module,
    space: ParameterSpace,
    train: Any,
    validation: Any,
    likelihood: Likelihood,
    weights: Any = None,
) -> TrainingData:
    """Both data sets where the model is, in its precision, with targets that fit its outputs.

    With weights of the training rows, validation rows have the weight 1.
    """
    keep_to_one_thread_after_a_fork()
    require_noise(likelihood, space)
    start = space.flatten(model)
    forward = LoopForward(model, space)

    def checked(data: Any, name: str) -> tuple[Examples, Likelihood]:
        examples = as_examples(data, name).to(dtype=start.dtype, device=start.device)
        family = likelihood
        if weights is not None:
            ones = torch.ones(len(examples))
            counts = check_weights(weights if name == "train" else ones, len(examples))
            family = Weighted(likelihood, counts)
        inputs, _ = examples.slice(0, 2)
        point = start[None].clone().requires_grad_()
        with torch.enable_grad(), errors_in_words(model, examples.inputs, f"{name} inputs"):
            outputs = forward(point, inputs)[0]
            require_rows(outputs, inputs)
            require_dependence(outputs)
        outputs = outputs.detach()
        return replace(examples, targets=family.check(examples.targets, outputs)), family

    held_out = None if validation is None else checked(validation, "validation")[0]
    examples, family = checked(train, "train")
    if held_out is not None:
        require_same_form(held_out, examples, "validation", "train")
    return TrainingData(examples, held_out, family)


class TrainingSetup(NamedTuple):
    """What is trained, on what, with which prior, and from where.

    Attributes:
        model: the network, with the noise that its likelihood learns.
        space: the parameters that are trained.
        data: what they are trained on.
        variance: of the prior, a number or `(dim,)`.
        centre: of the prior, `(dim,)`; None for 0.
        initial: the rule for where members start.
        starts: the weights that they start at, `(members, dim)`, if modules were given for them.
    """

    model: nn.Module
    space: ParameterSpace
    data: TrainingData
    variance: float | Tensor
    centre: Tensor | None
    initial: str
    starts: Tensor | None


def set_up_training(
    model: nn.Module,
    parameters: Selection,
    train: Any,
    validation: Any,
    likelihood: Any,
    prior_variance: PriorVariance,
    weights: Any,
    *,
    initial: str | Sequence[nn.Module],
    members: int,
) -> TrainingSetup:
    """Check what `train_ensemble` was given, and add the noise that its likelihood learns.

    Learned noise starts at the mean of its own prior, and is trained with the weights.
    """
    refuse_modes("train_ensemble")
    space = select_parameters(model, parameters)
    own = space.flatten(model)
    examples = as_examples(train, "train").to(dtype=own.dtype, device=own.device)
    family = resolve_likelihood(likelihood, model, examples, "train").likelihood
    counts = None if weights is None else check_weights(weights, len(examples)).to(own)
    noise = learn_noise(model, space, family, examples, counts)
    if noise is None:
        data = checked_data(model, space, train, validation, family, weights)
    starts = None
    if not isinstance(initial, str):
        starts, initial = given_starts(initial, members, model, space).to(own), "model"
    variance, centre = training_prior(prior_variance, model, space, initial, len(examples))
    if noise is None:
        return TrainingSetup(model, space, data, variance, centre, initial, starts)
    mean = noise.prior.mean.to(own)
    centre = torch.cat([torch.zeros_like(own) if centre is None else centre, mean])
    wide = torch.as_tensor(variance, dtype=own.dtype, device=own.device).expand_as(own)
    wide = torch.cat([wide, torch.full_like(mean, noise.prior.deviation**2)])
    if starts is not None:
        starts = torch.cat([starts, mean.expand(members, -1)], 1)
    model, space = noise.wider_model(), noise.wider_space
    data = checked_data(model, space, train, validation, family, weights)
    return TrainingSetup(model, space, data, wide, centre, initial, starts)


def training_prior(
    prior_variance: PriorVariance,
    model: nn.Module,
    space: ParameterSpace,
    initial: str,
    examples: int,
) -> tuple[float | Tensor, Tensor | None]:
    """The prior's variance, a number or `(dim,)`, and its centre `(dim,)`; None for 0.

    `"auto"` is at least `LEAST_IN_TRAINING` wide, where the reason is given.
    Weights that training begins with have to stay probable, since they may have been trained
    before; those that it throws away do not count.
    """
    if isinstance(prior_variance, (float, int, Tensor)):
        check_variance(prior_variance)
        check_variance_size(prior_variance, space.dim)
        return prior_variance, None
    own = space.flatten(model)
    auto = isinstance(prior_variance, str) and prior_variance == "auto"
    original = resolve_prior(
        ByLayer(least=LEAST_IN_TRAINING) if auto else prior_variance,
        model,
        space,
        dtype=own.dtype,
        trained=own.unsqueeze(0) if initial == "model" else None,
        examples=examples,
    ).to(own)
    return original.variance, original.centre


def check_variance_size(prior_variance: float | Tensor, dim: int) -> None:
    """Refuse a vector of variances whose length is not that of the parameters."""
    if isinstance(prior_variance, Tensor):
        good = prior_variance.numel() in (1, dim)
        require(good, "prior_variance", f"one number or {dim}", tuple(prior_variance.shape))


def refuse_lone_example(
    model: nn.Module, layers: Sequence[str], examples: int, batch_size: int
) -> None:
    """BatchNorm cannot be trained on a batch of one, which would come up after a whole epoch."""
    modules = dict(model.named_modules())
    if any(isinstance(modules.get(name), _BatchNorm) for name in layers):
        rule = f"one that leaves no last batch of one of the {examples} examples (BatchNorm)"
        require(examples % batch_size != 1, "batch_size", rule, batch_size)


def start_members(
    model: nn.Module, space: ParameterSpace, group: list[int], settings: TrainingSettings
) -> tuple[Tensor, list[torch.Generator]]:
    """Initial weights `(members, dim)`, and the generators that go on to give the data orders."""
    own = space.flatten(model)
    streams = [generator(settings.seed, Stream.TRAINING, member) for member in group]
    # Drawn in any case: the data order is then the same from either start.
    noise = torch.stack([torch.randn(space.dim, generator=s, dtype=own.dtype) for s in streams])
    if settings.starts is not None:
        return settings.starts[group].to(own), streams
    if settings.initial == "model":
        return own.repeat(len(group), 1), streams
    if settings.initial == "reset":
        check_reset(model, space, settings)
        fresh = [_initialised_anew(model, space, member, settings) for member in group]
        return torch.stack(fresh).to(own), streams
    return _prior_draws(noise, own, settings), streams


def given_starts(
    initial: Sequence[nn.Module], members: int, model: nn.Module, space: ParameterSpace
) -> Tensor:
    """Weights `(members, dim)` of modules, one for each member, that are made like the model."""
    rule = f"'model', 'reset', 'prior' or {members} modules, one for each member"
    good = isinstance(initial, Sequence) and all(isinstance(each, nn.Module) for each in initial)
    require(good and len(initial) == members, "initial", rule, initial)
    shapes = {name: value.shape for name, value in model.named_parameters()}
    for each in initial:
        alike = {name: value.shape for name, value in each.named_parameters()} == shapes
        require(alike, "initial", "modules with the parameters of `model`", type(each).__name__)
    return torch.stack([space.flatten(each) for each in initial])


def check_reset(model: nn.Module, space: ParameterSpace, settings: TrainingSettings) -> None:
    """Refuse `initial="reset"` for layers that cannot draw their initial weights anew."""
    if settings.initial != "reset":
        return
    for name, layer in _trained_layers(model, space):
        rule = (
            "'model' or 'prior' for a model with parameters in a module without "
            f"`reset_parameters` ({name or 'the model itself'}: {type(layer).__name__})"
        )
        require(_reset_of(layer) is not None, "initial", rule, settings.initial)


def _initialised_anew(
    model: nn.Module, space: ParameterSpace, member: int, settings: TrainingSettings
) -> Tensor:
    """Weights `(dim,)` as the layers of the model draw them when they are made."""
    return space.flatten(drawn_anew(model, space, member, settings.seed))


def drawn_anew(model: nn.Module, space: ParameterSpace, member: int, seed: int) -> nn.Module:
    """A copy of the model, on the CPU, whose trained weights are drawn anew.

    Layers draw their own (`reset_parameters`). The parameters of a module that cannot do it, such
    as an adapter or a table of positions, are drawn from a normal distribution with the mean and
    the standard deviation that their entries have now.

    Args:
        model: the network.
        space: the parameters that are drawn.
        member: which of several copies.
        seed: of their streams.

    Returns:
        The copy.
    """
    # On the CPU, so that a member starts at the same weights on every device.
    fresh = copy.deepcopy(model).cpu()
    noise = generator(seed, Stream.TRAINING, member, RESET_STREAM)
    with seeded(noise, torch.device("cpu")), torch.no_grad():
        for _, layer in _trained_layers(fresh, space):
            reset = _reset_of(layer)
            if reset is not None:
                reset()
                continue
            for parameter in layer.parameters(recurse=False):
                spread = parameter.std() if parameter.numel() > 1 else parameter.abs().mean()
                parameter.copy_(parameter.mean() + spread * torch.randn_like(parameter))
    return fresh


def _trained_layers(model: nn.Module, space: ParameterSpace) -> list[tuple[str, nn.Module]]:
    """The modules that have parameters of their own which are trained, by name."""
    trained = set(space.names) - {NOISE}  # which starts at the mean of its prior
    found = []
    for name, layer in model.named_modules():
        own = (key for key, _ in layer.named_parameters(recurse=False))
        if any((f"{name}.{key}" if name else key) in trained for key in own):
            found.append((name, layer))
    return found


def _reset_of(layer: nn.Module) -> Callable[[], None] | None:
    """What draws the initial weights of a layer; `nn.MultiheadAttention` has it under `_`."""
    public = getattr(layer, "reset_parameters", None)
    return public or getattr(layer, "_reset_parameters", None)


def prior_centres(
    model: nn.Module, space: ParameterSpace, group: list[int], settings: TrainingSettings
) -> Tensor | None:
    """Where each member's prior is centred, `(members, dim)`, drawn if anchored; None for 0."""
    if not settings.anchored:
        centre = settings.prior_centre
        return None if centre is None else centre.expand(len(group), -1)
    own = space.flatten(model)
    streams = [generator(settings.seed, Stream.PRIOR_CENTRES, member) for member in group]
    noise = torch.stack([torch.randn(space.dim, generator=s, dtype=own.dtype) for s in streams])
    return _prior_draws(noise, own, settings)


def _prior_draws(noise: Tensor, own: Tensor, settings: TrainingSettings) -> Tensor:
    """Draws from the prior `(members, dim)`, where and as the weights `own` are."""
    variance = torch.as_tensor(settings.prior_variance, dtype=own.dtype, device=own.device)
    draws = noise.to(own.device) * variance.sqrt()
    return draws if settings.prior_centre is None else draws + settings.prior_centre


def prepare_stacked(forward: Forward, inputs: Inputs) -> Inputs:
    """Prepare one batch per member, `(members, batch, ...)`."""
    shape = leaves(inputs)[0].shape[:2]
    prepared = forward.prepare(tree_map(lambda t: t.flatten(0, 1), inputs))
    return tree_map(lambda t: t.unflatten(0, shape), prepared)
