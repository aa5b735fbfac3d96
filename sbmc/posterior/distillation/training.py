"""Trains a student on rows that its teacher has labelled: Adam, one cycle of the learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sbmc.checks import is_finite, require, require_count
from sbmc.model.data import Inputs, tree_map
from sbmc.posterior.distillation.heads import Heads
from sbmc.progress import open_progress

# The share of each batch that are the rows themselves; the others are perturbations of them.
ROWS_SHARE = 0.5
WARM_UP_SHARE = 0.1
STEPS_BETWEEN_REPORTS = 50


@dataclass(frozen=True)
class Schedule:
    """How long a student learns.

    Args:
        steps: of Adam.
        batch_size: rows of a step.
        learning_rate: the largest one; it rises for a tenth of the steps and then falls to zero.
    """

    steps: int = 10_000
    batch_size: int = 256
    learning_rate: float = 3e-3

    def __post_init__(self) -> None:
        require_count("steps", self.steps)
        require_count("batch_size", self.batch_size)
        good = is_finite(self.learning_rate) and self.learning_rate > 0
        require(good, "learning_rate", "positive and finite", self.learning_rate)


class Lessons:
    """Rows with what the teacher says of them: the data first, then perturbations.

    Args:
        inputs: of all rows.
        answers: `(rows, columns)`, as the heads take them.
        originals: how many of the rows are data.
    """

    def __init__(self, inputs: Inputs, answers: Tensor, originals: int) -> None:
        self.inputs, self.answers, self.originals = inputs, answers, originals

    def batch(self, size: int, rng: torch.Generator) -> tuple[Inputs, Tensor]:
        """Draw rows with replacement: half of them data, where there is something else."""
        rows = len(self.answers)
        data = size if rows == self.originals else int(size * ROWS_SHARE)
        index = torch.randint(self.originals, (data,), generator=rng)
        if data < size:
            others = torch.randint(self.originals, rows, (size - data,), generator=rng)
            index = torch.cat([index, others])
        index = index.to(self.answers.device)
        return tree_map(lambda tensor: tensor[index], self.inputs), self.answers[index]


def train_student(
    student: nn.Module,
    heads: Heads,
    lessons: Lessons,
    schedule: Schedule,
    rng: torch.Generator,
    progress: bool | None,
) -> None:
    """Change a student's weights until it answers as its teacher does.

    Args:
        student: its weights are changed; it is left in evaluation mode.
        heads: which have the loss.
        lessons: what it learns from.
        schedule: how long.
        rng: decides the batches.
        progress: None for automatic, True for always.
    """
    weights = [weight for weight in student.parameters() if weight.requires_grad]
    optimiser = torch.optim.Adam(weights, schedule.learning_rate)
    warm_up = max(1, int(WARM_UP_SHARE * schedule.steps))
    cycle = torch.optim.lr_scheduler.LambdaLR(optimiser, _one_cycle(warm_up, schedule.steps))
    student.train()
    with (
        torch.enable_grad(),
        open_progress(progress, "distilling", total=schedule.steps, unit="steps") as bar,
    ):
        for step in range(schedule.steps):
            inputs, answers = lessons.batch(schedule.batch_size, rng)
            optimiser.zero_grad()
            heads.loss(call(student, inputs), answers).backward()
            optimiser.step()
            cycle.step()
            if (step + 1) % STEPS_BETWEEN_REPORTS == 0:
                bar.update(step + 1)
    student.eval()


def call(network: nn.Module, inputs: Inputs) -> Tensor:
    """The outputs of a module for one tensor, or for several by position or by name."""
    if isinstance(inputs, Tensor):
        return network(inputs)
    return network(**inputs) if isinstance(inputs, dict) else network(*inputs)


def _one_cycle(warm_up: int, steps: int) -> Callable[[int], float]:
    """A factor of the learning rate: up in a line, down by half a cosine."""

    def factor(step: int) -> float:
        if step < warm_up:
            return (step + 1) / warm_up
        left = (steps - step) / max(1, steps - warm_up)
        return 0.5 - 0.5 * math.cos(math.pi * left)

    return factor
