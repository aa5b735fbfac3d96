"""Folds: every example is held out once, classes in proportion, and nothing scored is seen."""

import pytest
import torch

from sbmc.checks import BadInput
from sbmc.tuning.folds import make_folds, subset

LABELS = torch.tensor([0] * 30 + [1] * 17 + [2] * 6)


def test_every_example_is_held_out_once_and_seen_by_no_part_of_its_fold():
    folds = make_folds(LABELS, 5, seed=0, share=0.2)
    held = torch.cat([fold.held_out for fold in folds]).sort().values
    assert torch.equal(held, torch.arange(len(LABELS)))
    for fold in folds:
        parts = [set(rows.tolist()) for rows in (fold.train, fold.validation, fold.held_out)]
        assert not parts[0] & parts[1]
        assert not (parts[0] | parts[1]) & parts[2]
        assert set(fold.seen.tolist()) == parts[0] | parts[1]


def test_folds_are_of_one_size_and_have_their_part_of_every_class():
    folds = make_folds(LABELS, 5, seed=3, share=0.2)
    assert len({(len(fold.train), len(fold.validation)) for fold in folds}) == 1
    for label in range(3):
        counts = [int((LABELS[fold.held_out] == label).sum()) for fold in folds]
        assert max(counts) - min(counts) <= 1
        share = float((LABELS.eq(label)).float().mean())
        validating = int((LABELS[folds[0].validation] == label).sum())
        assert abs(validating - share * len(folds[0].validation)) <= 1
    # At most one example of each fold is left out, to make them of one size.
    assert min(len(f.seen) + len(f.held_out) for f in folds) >= len(LABELS) - 1


def test_the_seed_decides():
    first, again, other = (make_folds(LABELS, 3, seed=seed) for seed in (0, 0, 1))
    assert all(torch.equal(a.train, b.train) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a.held_out, b.held_out) for a, b in zip(first, other, strict=True))


def test_without_classes():
    folds = make_folds(torch.randn(20), 4, seed=0, stratify=False)
    assert [len(fold.held_out) for fold in folds] == [5] * 4


@pytest.mark.parametrize(
    ("folds", "share", "words"),
    [
        (1, 0.1, "`folds` must be at least 2, but got 1, which leaves nothing to train on."),
        (2.0, 0.1, "`folds` must be an integer of at least 2, but got 2.0."),
        (7, 0.1, "the rarest class (6)"),
        (40, 0.1, "half the number of examples"),
        (3, 1.0, "`validation_share` must be in (0, 1)"),
    ],
)
def test_refuses(folds, share, words):
    with pytest.raises(BadInput) as refusal:
        make_folds(LABELS, folds, seed=0, share=share)
    assert words in str(refusal.value)


def test_a_subset_has_its_part_of_every_class():
    rows = subset(LABELS, 26, seed=0)
    assert len(rows.unique()) == 26
    assert [int((LABELS[rows] == label).sum()) for label in range(3)] == [14, 9, 3]
    with pytest.raises(BadInput, match="`examples` must be a whole number from 1 to 53"):
        subset(LABELS, 54, seed=0)
