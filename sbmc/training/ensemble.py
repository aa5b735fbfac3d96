"""Deep ensembles: several networks trained from independent starts, in one batch."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.checks import require, require_choice
from sbmc.islands.process_memory import parse_bytes
from sbmc.likelihoods import Likelihood, unweighted
from sbmc.log import logger
from sbmc.model.data import Inputs
from sbmc.model.forward import build_forward
from sbmc.model.parameters import ParameterSpace, Selection
from sbmc.model.wrappers import unwrapped
from sbmc.prior.original import PriorVariance
from sbmc.progress import open_progress
from sbmc.randomness import Stream, generator
from sbmc.training.compiled import compile_training
from sbmc.training.group import Problem, train_group
from sbmc.training.history import TrainingHistory, TrainingRecipe
from sbmc.training.members import BATCHED, COMPILED, ONE_BY_ONE, Ensemble
from sbmc.training.memory import members_within
from sbmc.training.module import ModuleForward, seeded, training_mode_layers
from sbmc.training.optimiser import Optimiser
from sbmc.training.settings import TrainingSettings, require_count
from sbmc.training.setup import (
    TrainingData,
    check_reset,
    prepare_stacked,
    prior_centres,
    refuse_lone_example,
    set_up_training,
    start_members,
)

# Members trained at a time: at most this many, and at most this many parameters in all, so that
# memory stays bounded (weights, gradient, two moments and the best weights so far are kept).
GROUP_MEMBERS = 16
GROUP_PARAMETERS = 2**25
# What `prepare` may keep of the data. Beyond it, batches are prepared as they are used.
PREPARED_BYTES = 2**28
PATHS = ("auto", "fused", "vmap", "loop", "module")
DEFAULT_EPOCHS = 1000

# Weights, histories and buffers of a group's members.
Trained = tuple[Tensor, list[TrainingHistory], list[dict[str, Tensor]]]
Report = Callable[[list[TrainingHistory], int], None]
Trainer = Callable[[list[int], Report], Trained]


def train_ensemble(
    model: nn.Module,
    train: Any,
    validation: Any = None,
    *,
    members: int,
    prior_variance: PriorVariance = "auto",
    likelihood: Any = None,
    weights: Any = None,
    parameters: Selection = "all",
    seed: int = 0,
    learning_rate: float = 1e-3,
    optimiser: Optimiser | None = None,
    batch_size: int = 64,
    max_epochs: int | None = None,
    window: int = 10,
    patience: int = 5,
    initial: str | Sequence[nn.Module] = "reset",
    anchored: bool = False,
    path: str = "auto",
    member_chunk: int | None = None,
    memory_limit: int | str | None = None,
    progress: bool | None = None,
) -> Ensemble:
    """Train several copies of a model from independent starts.

    Each member minimises, by Adam or SGD on mini-batches B of the n training examples,

        −(1/|B|) Σ_{i∈B} log p(y_i | x_i, θ) + ‖θ − c‖² / (2 v n),

    the negative log posterior divided by n, with the prior N(c, v); c is 0 except for gains of
    normalisation layers, and v may differ between layers. It stops when the moving average of its
    validation loss, prior included, has not improved for a while, and keeps the weights of the
    epoch with the lowest validation loss. Member k has its own random stream: its start and its
    data order do not depend on how many members there are, and its weights only in the last bits.

    With `anchored`, each member has a centre c_k ~ N(c, v) of its own instead of c, drawn apart
    from its start (randomised MAP sampling: Pearce et al., 2020, "Uncertainty in Neural Networks:
    Approximately Bayesian Ensembling").

    Members are trained in one batch, with the model in evaluation mode. Models for which training
    mode is another function (BatchNorm, dropout) are trained one member after another, in training
    mode.

    Args:
        model: the network; never changed.
        train: training data, as for `fit`.
        validation: validation data, or None to train for `max_epochs` and keep the last weights.
        members: how many to train.
        prior_variance: the prior: `"auto"` (the default), `sbmc.ByLayer(...)`,
            `sbmc.WeightDecay(...)`, a number v, a mapping or a tensor, as for `fit`. Here `"auto"`
            is `ByLayer(least=1.0)`, since the maximum of a narrower prior is near zero weights.
            With `initial="model"` it is wide enough for the weights that the model has.
        likelihood: as for `fit`; None infers it. Learned noise is trained with the weights.
        weights: of the rows of `train`, as for `fit`.
        parameters: which parameters to train, as for `fit`; the others keep the model's values.
        seed: of all members' streams.
        learning_rate: Adam's; an `optimiser` has its own.
        optimiser: `sbmc.training.Adam(...)`, which may decay weights apart from the gradient, or
            `sbmc.training.SGD(...)`, with momentum.
        batch_size: examples in a mini-batch; the last one of an epoch may be shorter.
        max_epochs: passes over the data at most (1000 with validation data; needed without).
        window: epochs in the moving average.
        patience: epochs without a lower average before stopping.
        initial: where members start. `"reset"`: each at weights that the model's layers draw anew
            (`reset_parameters`), other ones for each member. `"model"`: all at the model's own
            weights, as for a model that was trained before; members then differ by their data
            orders alone. `"prior"`: each at a draw from the prior, as in the paper's studies. With
            v near 1, a network of several wide layers hardly learns from there. Or modules, one
            for each member, whose weights it starts at.
        anchored: whether each member's weights are drawn to a prior draw of its own, and not to 0.
        path: how to evaluate the members: `"auto"`, `"fused"`, `"vmap"`, `"loop"`; or `"module"`,
            one after another in training mode, for models that hide their dropout from `"auto"`.
        member_chunk: members trained at a time; None for a rule on the model's size.
        memory_limit: of this process, libraries and data included: bytes, or a text such as
            `"2GiB"`. Fewer members are trained at a time; where one does not fit, it is refused.
        progress: None shows a bar on a terminal, True always shows progress, False never.

    Returns:
        The ensemble.

    Raises:
        BadInput: an argument is refused; nothing has been computed then.
        RuntimeError: no member's training stayed finite.

    Examples:
        >>> inputs = torch.linspace(-1, 1, 20).reshape(10, 2)
        >>> data = (inputs, (inputs[:, 0] > 0).long())
        >>> ensemble = train_ensemble(nn.Linear(2, 2), data, members=3, max_epochs=2)
        >>> len(ensemble), ensemble.positions.shape, ensemble.epochs
        (3, torch.Size([3, 6]), 2.0)
    """
    model = unwrapped(model)
    require_count("members", members)
    if member_chunk is not None:
        require_count("member_chunk", member_chunk)
    if max_epochs is None:
        require(
            validation is not None, "max_epochs", "given when there are no validation data", None
        )
        max_epochs = DEFAULT_EPOCHS
    given = model, parameters, train, validation, likelihood, prior_variance, weights
    setup = set_up_training(*given, initial=initial, members=members)
    model, space, data = setup.model, setup.space, setup.data
    settings = TrainingSettings(
        prior_variance=setup.variance,
        learning_rate=learning_rate,
        batch_size=batch_size,
        max_epochs=max_epochs,
        window=window,
        patience=patience,
        initial=setup.initial,
        seed=seed,
        anchored=anchored,
        prior_centre=setup.centre,
        given_optimiser=optimiser,
        starts=setup.starts,
    )
    require_choice("path", path, PATHS)
    check_reset(model, space, settings)
    layers = training_mode_layers(model, space)
    one_by_one = path == "module" or (path == "auto" and bool(layers))
    size = 1 if one_by_one else member_chunk or _group_size(members, space.dim)
    if memory_limit is not None:
        limit, way = parse_bytes(memory_limit), "loop" if one_by_one else path
        with torch.enable_grad():
            forward = build_forward(model, space, data.train.slice(0, 2)[0], way)
        theta = space.flatten(model)
        size = members_within(limit, members, size, forward, theta, data, settings.batch_size)
    if one_by_one:
        logger.debug(
            "training one member at a time, in training mode: %s", ", ".join(layers) or path
        )
        refuse_lone_example(model, layers, len(data.train), settings.batch_size)
        trainer, engine = _one_by_one(model, space, data, settings), ONE_BY_ONE
    else:
        trainer, engine = _batched(model, space, data, settings, path)
    groups = [list(range(i, min(i + size, members))) for i in range(0, members, size)]
    trained = _run(trainer, groups, max_epochs, progress)
    recipe = TrainingRecipe(settings.optimiser, settings.batch_size, settings.prior_variance)
    collected = _collect(model, space, unweighted(data.likelihood), trained, engine)
    return replace(collected, recipe=recipe)


def _group_size(members: int, dim: int) -> int:
    most = max(1, min(GROUP_MEMBERS, GROUP_PARAMETERS // dim))
    # Of equal size, so that no small group is left over at the end.
    return math.ceil(members / math.ceil(members / most))


def _batched(
    model: nn.Module,
    space: ParameterSpace,
    data: TrainingData,
    settings: TrainingSettings,
    path: str,
) -> tuple[Trainer, str]:
    """Train a whole group in one batch, in evaluation mode; and the engine that does it."""
    with torch.enable_grad():  # whatever the caller's mode is, as in training
        forward = build_forward(model, space, data.train.slice(0, 2)[0], path)
    learn: Callable[[Tensor, Inputs], Tensor] = partial(forward, stacked=True)
    evaluate: Callable[[Tensor, Inputs], Tensor] = forward
    sets = [data.train] if data.validation is None else [data.train, data.validation]
    compiled = compile_training(forward, data, space.flatten(model), settings.optimiser)
    if compiled is not None:
        logger.debug("training by the %s kernel, without autograd", compiled.batches.name)
    elif sum(forward.prepared_bytes(examples.inputs) for examples in sets) <= PREPARED_BYTES:
        sets = [replace(examples, inputs=forward.prepare(examples.inputs)) for examples in sets]
    else:

        def learn(theta: Tensor, inputs: Inputs) -> Tensor:
            return forward(theta, prepare_stacked(forward, inputs), stacked=True)

        def evaluate(theta: Tensor, inputs: Inputs) -> Tensor:
            return forward(theta, forward.prepare(inputs))

    problem = Problem(
        learn=learn,
        evaluate=evaluate,
        train=sets[0],
        validation=sets[1] if len(sets) == 2 else None,
        likelihood=data.likelihood,
        compiled=compiled,
    )

    def train(group: list[int], report: Report) -> Trained:
        theta, orders = start_members(model, space, group, settings)
        centres = prior_centres(model, space, group, settings)
        positions, histories = train_group(problem, theta, group, orders, settings, report, centres)
        return positions, histories, [{}] * len(group)

    return train, BATCHED if compiled is None else COMPILED


def _one_by_one(
    model: nn.Module, space: ParameterSpace, data: TrainingData, settings: TrainingSettings
) -> Trainer:
    """Train a group of one with the module in training mode."""

    def train(group: list[int], report: Report) -> Trained:
        (member,) = group
        theta, orders = start_members(model, space, group, settings)
        centres = prior_centres(model, space, group, settings)
        forward = ModuleForward(model, space)
        problem = Problem(
            learn=forward.learn,
            evaluate=forward.evaluate,
            train=data.train,
            validation=data.validation,
            likelihood=data.likelihood,
            keep=forward.keep,
        )
        with seeded(generator(settings.seed, Stream.TRAINING, member, 1), theta.device):
            positions, histories = train_group(
                problem, theta, group, orders, settings, report, centres
            )
        return positions, histories, [forward.best_buffers]

    return train


def _run(
    trainer: Trainer, groups: list[list[int]], max_epochs: int, progress: bool | None
) -> Trained:
    """Train group after group, and show how far it has come."""
    members = sum(len(group) for group in groups)
    positions: list[Tensor] = []
    histories: list[TrainingHistory] = []
    buffers: list[dict[str, Tensor]] = []
    name = "training" if members == 1 else f"training {members} members"
    with open_progress(progress, name, total=members * max_epochs, unit="epochs") as bar:

        def report(current: list[TrainingHistory], active: int) -> None:
            done = sum(history.epochs for history in [*histories, *current])
            shown: dict[str, object] = {"still_training": active} if members > 1 else {}
            last = [h.validation_loss[-1] for h in current if h.validation_loss]
            if last:
                shown["validation_loss"] = sum(last) / len(last)
            ended = active == 0 and len(histories) + len(current) == members
            if ended and done < members * max_epochs:
                shown = {"stopped": "early", **shown}
            bar.update(done, **shown)

        for group in groups:
            trained, course, own = trainer(group, report)
            positions.append(trained)
            histories += course
            buffers += own
    return torch.cat(positions), histories, buffers


def _collect(
    model: nn.Module,
    space: ParameterSpace,
    likelihood: Likelihood,
    trained: Trained,
    engine: str,
) -> Ensemble:
    """The members that completed, with the histories of all."""
    positions, histories, buffers = trained
    good = [i for i, history in enumerate(histories) if history.outcome == "completed"]
    failed = [history for history in histories if history.outcome == "failed"]
    if not good:
        raise RuntimeError(
            f"Training failed: the loss of every member ({len(failed)}) stopped being finite, the "
            f"first in epoch {min(h.epochs for h in failed)}. A lower learning_rate, or inputs "
            "scaled to order 1, may help."
        )
    for history in failed:
        logger.warning(
            "member %d failed in epoch %d: its loss is not finite",
            history.member,
            history.epochs,
        )
    return Ensemble(
        positions=positions[good],
        members=tuple(good),
        histories=tuple(histories),
        space=space,
        # A copy: the user may go on training the module.
        model=copy.deepcopy(model),
        buffers=tuple(buffers[i] for i in good),
        likelihood=likelihood,
        engine=engine,
    )
