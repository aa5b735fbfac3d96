"""Point estimates for many prior variances and folds, trained as one batch."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from sbmc.checks import require
from sbmc.likelihoods import Likelihood
from sbmc.model.data import Examples, Inputs, tree_map
from sbmc.model.forward import Forward, build_forward
from sbmc.model.parameters import ParameterSpace
from sbmc.training.adam import adam_init, adam_step
from sbmc.training.early_stopping import EarlyStopping
from sbmc.training.ensemble import GROUP_PARAMETERS, PREPARED_BYTES
from sbmc.training.map import train_map
from sbmc.training.module import training_mode_layers
from sbmc.training.settings import TrainingSettings
from sbmc.training.setup import start_members

# More members at a time than an ensemble has: most of them stop long before the last one.
GROUP_JOBS = 48
VALIDATION_CHUNK = 256


class Job(NamedTuple):
    """One training: a prior variance, and rows of the data that all jobs share."""

    variance: float
    train: Tensor
    validation: Tensor


class Trained(NamedTuple):
    """The result of a job. The model is None if its loss stopped being finite."""

    model: nn.Module | None
    epochs: int
    seconds: float


Finished = Callable[[int, Trained], None]
Report = Callable[[float], None]


def train_jobs(
    model: nn.Module,
    space: ParameterSpace,
    examples: Examples,
    likelihood: Likelihood,
    jobs: Sequence[Job],
    settings: TrainingSettings,
    finished: Finished,
    report: Report = lambda epochs: None,
) -> None:
    """Train every job to the maximum of its posterior, stopped early on its own validation rows.

    Each job gives the network that `train_map` gives for its rows, its variance and the same seed,
    up to the last bits. Jobs are trained side by side as one `(jobs, dim)` tensor; a finished job
    is removed from the batch. A model for which training mode is another function (BatchNorm,
    dropout) is trained one job after another.

    Args:
        model: the network; never changed.
        space: the parameters that are trained.
        examples: all data, in the precision and on the device of the model.
        likelihood: of its outputs; the targets fit it.
        jobs: the trainings; all have the same number of training rows.
        settings: settings of training, except the prior variance.
        finished: called with a job's index and result, as soon as it stops.
        report: called after each epoch with the epochs done by all jobs so far, where a job that
            has stopped counts as if it had made all.
    """
    if training_mode_layers(model, space):
        _one_by_one(model, space, examples, likelihood, jobs, settings, finished, report)
        return
    sizes = sorted({len(rows) for job in jobs for rows in (job.train,)})
    require(len(sizes) == 1, "jobs", "of one number of training rows", sizes)
    with torch.enable_grad():
        forward = build_forward(model, space, examples.slice(0, 2)[0])
    size = max(1, min(GROUP_JOBS, GROUP_PARAMETERS // space.dim))
    size = math.ceil(len(jobs) / math.ceil(len(jobs) / size))
    batch = _Batch(model, space, examples, likelihood, settings, forward)
    for start in range(0, len(jobs), size):
        group = range(start, min(start + size, len(jobs)))

        def count(epoch: int, active: int, group: range = group) -> None:
            stopped = group.start + len(group) - active
            report(stopped * settings.max_epochs + active * epoch)

        batch.train(jobs, group, finished, count)


class _Runner:
    """A job that is still training."""

    def __init__(self, index: int, order: torch.Generator, settings: TrainingSettings) -> None:
        self.index, self.order = index, order
        self._rule = EarlyStopping(settings.window, settings.patience)
        self._lowest = math.inf

    def judge(self, loss: float, validation: float, last: bool) -> tuple[bool, bool]:
        """Whether these weights are the best so far, and whether to stop."""
        if not math.isfinite(loss):
            self._lowest = math.inf
            return False, True
        better = validation < self._lowest
        if better:
            self._lowest = validation
        return better, self._rule.update(validation) or last

    @property
    def failed(self) -> bool:
        return not math.isfinite(self._lowest)


class _Batch:
    """The model, data and settings that all groups of jobs share."""

    def __init__(
        self,
        model: nn.Module,
        space: ParameterSpace,
        examples: Examples,
        likelihood: Likelihood,
        settings: TrainingSettings,
        forward: Forward,
    ) -> None:
        self._model, self._space, self._likelihood = model, space, likelihood
        self._settings, self._forward = settings, forward
        self._ready = forward.prepared_bytes(examples.inputs) <= PREPARED_BYTES
        inputs = forward.prepare(examples.inputs) if self._ready else examples.inputs
        self._data = Examples(inputs, examples.targets)

    def train(
        self,
        jobs: Sequence[Job],
        group: range,
        finished: Finished,
        count: Callable[[int, int], None],
    ) -> None:
        """Train one group of jobs."""
        began = time.perf_counter()
        starts = [self._start(jobs[index].variance) for index in group]
        theta = torch.cat([weights for weights, _ in starts])
        device = theta.device
        runners = [
            _Runner(index, order, self._settings)
            for index, (_, order) in zip(group, starts, strict=True)
        ]
        rows = torch.stack([jobs[index].train for index in group]).to(device)
        held = torch.stack([jobs[index].validation for index in group]).to(device)
        variances = torch.tensor([jobs[index].variance for index in group], device=device)
        precision = (1 / (variances.to(theta) * rows.shape[1])).unsqueeze(1)
        best, state = theta.clone(), adam_init(theta)
        for epoch in range(1, self._settings.max_epochs + 1):
            orders = [torch.randperm(rows.shape[1], generator=each.order) for each in runners]
            order = rows.gather(1, torch.stack(orders).to(device))
            total = theta.new_zeros(len(theta))
            for start in range(0, order.shape[1], self._settings.batch_size):
                index = order[:, start : start + self._settings.batch_size]
                loss, gradient = self._gradient(theta, index)
                pull = theta * precision
                total += index.shape[1] * (loss + 0.5 * (pull * theta).sum(-1))
                state = adam_step(theta, gradient + pull, state, self._settings.learning_rate)
            losses = (total / order.shape[1]).tolist()
            checks = self._validate(theta, held, precision)
            last = epoch == self._settings.max_epochs
            pairs = zip(runners, losses, checks, strict=True)
            verdicts = [each.judge(loss, check, last) for each, loss, check in pairs]
            better = [i for i, (good, _) in enumerate(verdicts) if good]
            best[better] = theta[better]
            unstopped = [i for i, (_, stop) in enumerate(verdicts) if not stop]
            for i, each in enumerate(runners):
                if verdicts[i][1]:
                    model = None if each.failed else self._written(best[i])
                    finished(each.index, Trained(model, epoch, time.perf_counter() - began))
            count(epoch, len(unstopped))
            if not unstopped:
                return
            if len(unstopped) < len(runners):
                running = torch.tensor(unstopped, device=device)
                theta, best, state = theta[running], best[running], state.rows(running)
                rows, held, precision = rows[running], held[running], precision[running]
                runners = [runners[i] for i in unstopped]

    def _start(self, variance: float) -> tuple[Tensor, torch.Generator]:
        settings = replace(self._settings, prior_variance=variance)
        # Member 0 for all, so that jobs differ only in their variance and their rows.
        theta, (order,) = start_members(self._model, self._space, [0], settings)
        return theta, order

    @torch.enable_grad()
    def _gradient(self, theta: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        theta = theta.detach().requires_grad_(True)
        loss = self._loss(theta, index)
        (gradient,) = torch.autograd.grad(loss.sum(), theta)
        return loss.detach(), gradient

    def _loss(self, theta: Tensor, index: Tensor) -> Tensor:
        """Mean negative log likelihood of each job's own rows `(jobs, batch)`."""

        def take(tensor: Tensor) -> Tensor:
            return tensor.index_select(0, index.reshape(-1))

        inputs: Inputs = tree_map(take, self._data.inputs)
        if not self._ready:
            inputs = self._forward.prepare(inputs)
        stacked = tree_map(lambda tensor: tensor.unflatten(0, index.shape), inputs)
        targets = take(self._data.targets).unflatten(0, index.shape)
        outputs = self._forward(theta, stacked, stacked=True)
        return -self._likelihood.log_prob(outputs, targets, stacked=True).mean(-1)

    @torch.no_grad()
    def _validate(self, theta: Tensor, held: Tensor, precision: Tensor) -> list[float]:
        total = torch.zeros(len(theta), dtype=torch.float64, device=theta.device)
        for start in range(0, held.shape[1], VALIDATION_CHUNK):
            index = held[:, start : start + VALIDATION_CHUNK]
            total += self._loss(theta, index) * index.shape[1]
        penalty = 0.5 * (precision * theta.square()).sum(-1)
        return (total / held.shape[1] + penalty).tolist()

    def _written(self, position: Tensor) -> nn.Module:
        module = copy.deepcopy(self._model).eval()
        self._space.write(position, module)
        return module


def _one_by_one(
    model: nn.Module,
    space: ParameterSpace,
    examples: Examples,
    likelihood: Likelihood,
    jobs: Sequence[Job],
    settings: TrainingSettings,
    finished: Finished,
    report: Report,
) -> None:
    names = set(space.names)
    for index, job in enumerate(jobs):
        began = time.perf_counter()
        try:
            trained: nn.Module | None = train_map(
                model,
                examples.select(job.train),
                examples.select(job.validation),
                prior_variance=job.variance,
                likelihood=likelihood,
                parameters=names.__contains__,
                seed=settings.seed,
                learning_rate=settings.learning_rate,
                batch_size=settings.batch_size,
                max_epochs=settings.max_epochs,
                window=settings.window,
                patience=settings.patience,
                initial=settings.initial,
                progress=False,
            )
        except RuntimeError:
            trained = None
        history = getattr(trained, "history", None)
        epochs = history.epochs if history is not None else settings.max_epochs
        finished(index, Trained(trained, epochs, time.perf_counter() - began))
        report((index + 1) * settings.max_epochs)
