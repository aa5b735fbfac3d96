"""Folds for cross-validation: rows for training, for early stopping, and for scoring."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sbmc.checks import Phrase, is_number, is_whole, require, require_count
from sbmc.randomness import Stream, generator

# Streams of their own below `Stream.SPLIT`.
_FOLDS, _SUBSET = 1, 2


class Fold(NamedTuple):
    """Rows of the data, each in ascending order."""

    train: Tensor  # rows for training
    validation: Tensor  # rows for early stopping; samplers condition on both
    held_out: Tensor  # rows for scoring

    @property
    def seen(self) -> Tensor:
        """Training and validation rows: the data that samplers condition on."""
        return torch.cat([self.train, self.validation]).sort().values


def make_folds(
    targets: Tensor, folds: int, seed: int, *, share: float = 0.1, stratify: bool = True
) -> list[Fold]:
    """Divide the examples into folds after a seeded shuffle.

    Each fold is held out once. Of the others, a share validates, so that early stopping never sees
    what is scored. All folds train on the same number of examples, so that they can be trained as
    one batch: up to one example of the larger ones is left out.

    Args:
        targets: `(examples,)` labels, or anything of that length if not stratified.
        folds: how many, at least 2.
        seed: the seed of the shuffle.
        share: the fraction of the examples that are not held out which is used for validation.
        stratify: give every fold its part of every class.

    Returns:
        The folds.

    Raises:
        BadInput: an argument breaks its rule, or a class has fewer examples than there are folds.

    Examples:
        >>> folds = make_folds(torch.tensor([0, 1] * 10), 5, seed=0, share=0.25)
        >>> [len(rows) for rows in folds[0]], folds[0].held_out.remainder(2).sum().item()
        ([12, 4, 4], 2)
    """
    check_folds(folds)
    good = is_number(share) and 0 < share < 1
    require(good, "validation_share", "in (0, 1)", share)
    count = len(targets)
    rule = f"at most half the number of examples ({count})"
    require(2 * folds <= count, "folds", rule, folds)
    if stratify:
        rarest = int(torch.unique(targets, return_counts=True)[1].min())
        rule = f"at most the number of examples of the rarest class ({rarest})"
        require(folds <= rarest, "folds", rule, folds)
    order = _shuffled(targets, generator(seed, Stream.SPLIT, _FOLDS), stratify)
    fold_of = torch.arange(count) % folds
    least = min(int((fold_of != fold).sum()) for fold in range(folds))
    result = []
    for fold in range(folds):
        others = order[fold_of != fold][:least]
        chosen = _evenly(len(others), max(1, int(share * len(others))))
        result.append(
            Fold(
                others[~chosen].sort().values,
                others[chosen].sort().values,
                order[fold_of == fold].sort().values,
            )
        )
    return result


def subset(targets: Tensor, examples: int, seed: int, *, stratify: bool = True) -> Tensor:
    """Choose some of the examples at random, in proportion from every class.

    Args:
        targets: `(examples,)` labels.
        examples: how many.
        seed: the seed of the choice.
        stratify: whether to choose from every class in proportion.

    Returns:
        Rows, in ascending order.

    Raises:
        BadInput: `examples` is less than 1 or more than there are.

    Examples:
        >>> rows = subset(torch.tensor([0] * 6 + [1] * 3), 3, seed=0)
        >>> (rows < 6).sum().item()
        2
    """
    count = len(targets)
    good = is_whole(examples) and 1 <= examples <= count
    require(good, "examples", f"a whole number from 1 to {count}", examples)
    order = _shuffled(targets, generator(seed, Stream.SPLIT, _SUBSET), stratify)
    return order[_evenly(count, int(examples))].sort().values


def check_folds(folds: object) -> None:
    """Refuse anything but a whole number of at least 2."""
    alone = is_whole(folds) and folds == 1
    require(not alone, "folds", "at least 2", Phrase("1, which leaves nothing to train on"))
    require_count("folds", folds, 2)


def _shuffled(targets: Tensor, rng: torch.Generator, stratify: bool) -> Tensor:
    """All rows in random order; sorted by class if stratified, so that folds get all classes."""
    order = torch.randperm(len(targets), generator=rng)
    return order[targets.cpu()[order].sort(stable=True).indices] if stratify else order


def _evenly(count: int, chosen: int) -> Tensor:
    """Mark `chosen` of `count` entries, evenly spaced."""
    steps = torch.arange(count + 1) * chosen // count
    return steps[1:] > steps[:-1]
