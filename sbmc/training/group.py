"""The training loop: a group of members as one `(members, dim)` tensor, each with its own fate."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from sbmc.likelihoods import Likelihood
from sbmc.model.data import Examples, Inputs, tree_map
from sbmc.model.threads import threads_for
from sbmc.target.memory_needs import multiplications
from sbmc.training.compiled import CompiledTraining
from sbmc.training.early_stopping import EarlyStopping
from sbmc.training.history import TrainingHistory
from sbmc.training.settings import TrainingSettings

# Validation examples evaluated at a time: activations of a group stay in cache.
VALIDATION_CHUNK = 256


@dataclass(frozen=True)
class Problem:
    """What is trained, apart from how.

    Args:
        learn: outputs `(members, batch, ...)` for `theta` `(members, dim)` and a batch per member.
        evaluate: outputs `(members, examples, ...)` for `theta` and shared inputs.
        train: training data, their inputs prepared for `learn`.
        validation: validation data, their inputs prepared for `evaluate`, or None.
        likelihood: log likelihood of each example.
        keep: called when the weights just reached are the best of the group's one member so far.
        compiled: code that does the work of `learn` and `evaluate` without autograd, or None.
    """

    learn: Callable[[Tensor, Inputs], Tensor]
    evaluate: Callable[[Tensor, Inputs], Tensor]
    train: Examples
    validation: Examples | None
    likelihood: Likelihood
    keep: Callable[[], None] = field(default=lambda: None)
    compiled: CompiledTraining | None = None


class _Member:
    """A member still training: its data order, its stopping rule, its history."""

    def __init__(
        self, row: int, order: torch.Generator, history: TrainingHistory, rule: EarlyStopping
    ):
        self.row = row  # in the group's result
        self.order = order
        self.history = history
        self._rule = rule
        self._lowest = math.inf

    def judge(self, loss: float, validation: float | None, last: bool) -> tuple[bool, bool]:
        """Note an epoch's losses; say if its weights are the best so far, and whether to stop."""
        history = self.history
        history.train_loss.append(loss)
        if validation is not None:
            history.validation_loss.append(validation)
        if not math.isfinite(loss):
            history.outcome, history.best_epoch = "failed", 0
            return False, True
        if validation is None:
            better, stop = last, last
        else:
            better, stop = validation < self._lowest, self._rule.update(validation) or last
        if better:
            self._lowest = math.inf if validation is None else validation
            history.best_epoch = history.epochs
        if stop and not history.best_epoch:
            history.outcome = "failed"  # the validation loss was never finite
        return better, stop


def train_group(
    problem: Problem,
    theta: Tensor,
    members: list[int],
    orders: list[torch.Generator],
    settings: TrainingSettings,
    report: Callable[[list[TrainingHistory], int], None] = lambda histories, active: None,
    centres: Tensor | None = None,
) -> tuple[Tensor, list[TrainingHistory]]:
    """Train a group of members in one batch.

    Each member minimises, on its own mini-batches B of the n training examples,

        −(1/|B|) Σ_{i∈B} log p(y_i | x_i, θ) + ‖θ‖² / (2 v n),

    the negative log posterior divided by n. Members share nothing but the arithmetic: one that has
    stopped, or failed, leaves the batch and costs nothing any more.

    Args:
        problem: model, data and likelihood.
        theta: initial weights `(members, dim)`.
        members: the members' indices in the ensemble, for their histories.
        orders: for each member, the generator of its data order.
        settings: how to train.
        report: called after each epoch with all histories and the number of members still training.
        centres: where each member's prior is centred, `(members, dim)`; None for 0. The penalty is
            then ‖θ − centre‖² / (2 v n).

    Returns:
        The weights kept, `(members, dim)` (those of failed members are NaN), and the histories.
    """
    work = multiplications(problem.train.inputs, settings.batch_size, theta.numel())
    with threads_for(work, theta.numel(), apart=problem.compiled is not None):
        return _train(problem, theta, members, orders, settings, report, centres)


def _train(
    problem: Problem,
    theta: Tensor,
    members: list[int],
    orders: list[torch.Generator],
    settings: TrainingSettings,
    report: Callable[[list[TrainingHistory], int], None],
    centres: Tensor | None,
) -> tuple[Tensor, list[TrainingHistory]]:
    began = time.perf_counter()
    histories = [TrainingHistory(member=member) for member in members]
    active = [
        _Member(row, order, history, EarlyStopping(settings.window, settings.patience))
        for row, (order, history) in enumerate(zip(orders, histories, strict=True))
    ]
    variance = torch.as_tensor(settings.prior_variance, dtype=theta.dtype, device=theta.device)
    precision = 1.0 / (variance * len(problem.train))
    kept = torch.full_like(theta, math.nan)
    theta = theta.clone()
    best, state = theta.clone(), settings.optimiser.init(theta)
    for epoch in range(1, settings.max_epochs + 1):
        state, losses = _epoch(problem, theta, state, precision, centres, active, settings)
        # The one time in an epoch that values are looked at.
        pairs = zip(losses.tolist(), _validate(problem, theta, precision, centres), strict=True)
        last = epoch == settings.max_epochs
        verdicts = [m.judge(*pair, last) for m, pair in zip(active, pairs, strict=True)]

        improved = [i for i, (better, _) in enumerate(verdicts) if better]
        if improved:
            best[improved] = theta[improved]
            problem.keep()
        for i, (member, (_, stop)) in enumerate(zip(active, verdicts, strict=True)):
            member.history.seconds = time.perf_counter() - began
            if stop and member.history.outcome == "completed":
                kept[member.row] = best[i]
        staying = [i for i, (_, stop) in enumerate(verdicts) if not stop]
        report(histories, len(staying))
        if not staying:
            break
        if len(staying) < len(active):
            rows = torch.tensor(staying, device=theta.device)
            theta, best, state = theta[rows], best[rows], state.rows(rows)
            centres = None if centres is None else centres[rows]
            active = [active[i] for i in staying]
    return kept, histories


def _epoch(
    problem: Problem,
    theta: Tensor,
    state: Any,
    precision: Tensor,
    centres: Tensor | None,
    active: list[_Member],
    settings: TrainingSettings,
) -> tuple[Any, Tensor]:
    """One pass over the data, `theta` changing in place; also the mean loss of each member."""
    examples = len(problem.train)
    order = torch.stack([torch.randperm(examples, generator=m.order) for m in active])
    if problem.compiled is not None:
        state, total = problem.compiled.epoch(
            theta,
            state,
            precision,
            centres,
            order,
            optimiser=settings.optimiser,
            batch_size=settings.batch_size,
        )
    else:
        order = order.to(theta.device)
        state, total = _by_autograd(problem, theta, state, precision, centres, order, settings)
    return state, total / examples


@torch.enable_grad()
def _by_autograd(
    problem: Problem,
    theta: Tensor,
    state: Any,
    precision: Tensor,
    centres: Tensor | None,
    order: Tensor,
    settings: TrainingSettings,
) -> tuple[Any, Tensor]:
    """A pass in the given order; also the loss of each member, summed over its examples."""
    total = theta.new_zeros(len(theta))
    # No value is looked at inside the loop: on a GPU, looking waits.
    for index in order.split(settings.batch_size, dim=1):
        inputs, targets = _gather(problem.train, index)
        theta.requires_grad_(True)
        outputs = problem.learn(theta, inputs)
        nll = -problem.likelihood.log_prob(outputs, targets, stacked=True).mean(-1)
        (gradient,) = torch.autograd.grad(nll.sum(), theta)
        theta.requires_grad_(False)
        # The prior's part of the gradient, by hand: it needs no graph.
        offset = _offset(theta, centres)
        pull = offset * precision
        total += index.shape[1] * (nll.detach() + 0.5 * (pull * offset).sum(-1))
        state = settings.optimiser.step(theta, gradient + pull, state)
    return state, total


@torch.no_grad()
def _validate(
    problem: Problem, theta: Tensor, precision: Tensor, centres: Tensor | None
) -> list[float] | list[None]:
    """Each member's loss on the validation data, prior included, or None without them.

    With the prior's part, training goes on while the weights that the data leave free still shrink
    towards the mode: the point that is kept is then closer to the MAP than the one at which the
    likelihood alone stops improving.
    """
    validation = problem.validation
    if validation is None:
        return [None] * len(theta)
    total = torch.zeros(len(theta), dtype=torch.float64, device=theta.device)
    if problem.compiled is not None:
        total -= problem.compiled.log_likelihood(theta)
    else:
        for start in range(0, len(validation), VALIDATION_CHUNK):
            inputs, targets = validation.slice(start, start + VALIDATION_CHUNK)
            total -= problem.likelihood.log_prob(problem.evaluate(theta, inputs), targets).sum(-1)
    penalty = 0.5 * (precision * _offset(theta, centres).square()).sum(-1)
    return (total / len(validation) + penalty).tolist()


def _offset(theta: Tensor, centres: Tensor | None) -> Tensor:
    return theta if centres is None else theta - centres


def _gather(examples: Examples, index: Tensor) -> tuple[Inputs, Tensor]:
    """The examples at `index` `(members, batch)`."""

    def take(tensor: Tensor) -> Tensor:
        # Copies whole rows, which is much faster than `tensor[index]`.
        return tensor.index_select(0, index.reshape(-1)).unflatten(0, index.shape)

    return tree_map(take, examples.inputs), take(examples.targets)
