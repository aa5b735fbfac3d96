"""Perturbations are made of the rows alone: of their values, in their units, by their generator."""

from __future__ import annotations

import pytest
import torch

from sbmc.posterior.distillation import perturbations
from sbmc.posterior.distillation.perturbations import perturbed

ROWS = torch.arange(7)
TABLE = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
PICTURES = torch.rand(7, 2, 6, 8, generator=torch.Generator().manual_seed(1))


def rng(seed=3):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("inputs", [TABLE, PICTURES, TABLE[:1]])
def test_they_follow_the_units_of_the_inputs_and_the_generator(inputs):
    """Inputs that are four times as large give rows that are four times as large, exactly."""
    first = perturbed(inputs, rng())
    assert first.shape == inputs.shape
    assert torch.equal(perturbed(4 * inputs, rng()), 4 * first)
    if len(inputs) > 1:
        assert not torch.equal(perturbed(inputs, rng(4)), first)


def test_inputs_stay_as_they_are():
    before = PICTURES.clone()
    perturbed(PICTURES, rng())
    assert torch.equal(PICTURES, before)


def test_between_two_rows_and_beyond_one():
    """With two rows, positions on the line through them: from 0 to 1, and from −1 to 0."""
    ends = torch.tensor([[0.0], [1.0]])
    chosen = torch.zeros(400, dtype=torch.long)
    between = perturbations.interpolated(ends, chosen, rng())
    beyond = perturbations.extrapolated(ends, chosen, rng())
    assert 0 <= between.min() < 0.1
    assert 0.9 < between.max() <= 1
    assert -1 <= beyond.min() < -0.9
    assert beyond.max() == 0


def test_a_swapped_row_has_the_features_of_two_rows():
    coded = torch.arange(35.0).view(7, 5)
    mixed = perturbations.swapped(coded, ROWS, rng())
    assert torch.equal(mixed % 5, coded % 5)  # every value stays in its column
    sources = mixed // 5
    others = [set(row.tolist()) - {float(number)} for number, row in enumerate(sources)]
    assert all(len(each) <= 1 for each in others)
    assert any(others)


def test_a_shuffled_row_has_features_of_many_rows_in_their_columns():
    coded = torch.arange(35.0).view(7, 5)
    mixed = perturbations.shuffled(coded, ROWS.repeat(20), rng())
    assert torch.equal(mixed % 5, (coded % 5).repeat(20, 1))
    assert max(len(set(row.tolist())) for row in mixed // 5) >= 4


def test_a_translated_picture_has_the_same_pixels_in_every_channel():
    moved = perturbations.translated(PICTURES, ROWS, rng())
    assert not torch.equal(moved, PICTURES)
    for before, after in zip(PICTURES.flatten(2), moved.flatten(2), strict=True):
        assert torch.equal(before.sort().values, after.sort().values)


def test_rescaled_and_disturbed_rows():
    factors = perturbations.rescaled(TABLE, ROWS, rng()) / TABLE
    torch.testing.assert_close(factors, factors[:, :1].expand(-1, 5))
    assert (factors >= 0).all()
    assert (factors <= 2).all()
    # Equal rows have no differences, whatever their order.
    same = torch.ones(7, 5)
    assert torch.equal(perturbations.disturbed(same, ROWS, rng()), same)
    assert not torch.equal(perturbations.disturbed(TABLE, ROWS, rng()), TABLE)
