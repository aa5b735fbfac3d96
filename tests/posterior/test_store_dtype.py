"""Finished particles in a shorter dtype: half the memory, the same predictions within rounding."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.diagnostics.diagnose import diagnose

INPUTS = torch.randn(30, 3, generator=torch.Generator().manual_seed(1))
DATA = INPUTS, (INPUTS[:, 0] > 0).long()


def network():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def fitted(**options):
    sampler = sbmc.HMC(steps=10, draws=4)
    return sbmc.fit(
        network(), DATA, sampler=sampler, islands=2, particles=3, compute=sbmc.Compute(**options)
    )


@pytest.fixture(scope="module")
def full():
    return fitted()


@pytest.fixture(scope="module")
def short():
    return fitted(store_dtype=torch.bfloat16)


def test_only_the_finished_positions_are_rounded(full, short):
    """The chains never see the shorter dtype: rounding the result of the usual run gives it."""
    assert short.positions.dtype == torch.bfloat16
    assert short.dtype == full.dtype == torch.float32
    assert torch.equal(short.positions, full.positions.bfloat16())
    assert short.positions.nbytes * 2 == full.positions.nbytes


def test_predictions_are_computed_in_the_dtype_of_the_model(full, short):
    rounded = fitted()
    rounded.positions = short.positions.float()
    prediction = short.predict(INPUTS)
    assert torch.equal(prediction.probs, rounded.predict(INPUTS).probs)
    torch.testing.assert_close(prediction.probs, full.predict(INPUTS).probs, atol=0.02, rtol=0)
    assert not torch.equal(prediction.probs, full.predict(INPUTS).probs)


def test_a_file_keeps_the_dtype_and_the_predictions(short, tmp_path):
    short.save(tmp_path / "posterior")
    again = sbmc.load(tmp_path / "posterior", network())
    assert again.positions.dtype == torch.bfloat16
    assert again.dtype == torch.float32
    assert torch.equal(again.predict(INPUTS).probs, short.predict(INPUTS).probs)


def test_what_else_is_made_of_it(short):
    assert diagnose(short, INPUTS, data=DATA) is not None
    assert short.first(1).predict(INPUTS) is not None
    assert short.to_arviz() is not None


def test_a_checkpoint_does_not_depend_on_it(full, tmp_path):
    short = fitted(store_dtype=torch.bfloat16, checkpoint=tmp_path / "run")
    again = fitted(checkpoint=tmp_path / "run")
    assert short.positions.dtype == torch.bfloat16
    assert torch.equal(again.positions, full.positions)


def test_a_dtype_without_fractions_is_refused():
    with pytest.raises(BadInput, match=r"`store_dtype` must be a floating-point torch\.dtype"):
        sbmc.Compute(store_dtype=torch.int8)


def test_a_mixture_is_chosen_in_the_dtype_of_the_model():
    rows = INPUTS[:12] + 0.3, DATA[1][:12]
    full, short = (
        sbmc.fit(
            network(),
            DATA,
            sampler=sbmc.HMC(steps=10),
            particles=3,
            validation=rows,
            compute=sbmc.Compute(store_dtype=dtype),
        )
        for dtype in (None, torch.bfloat16)
    )
    assert short.positions.dtype == torch.bfloat16
    assert torch.equal(short.positions, full.positions.bfloat16())
    scores = [[member.log_score for member in each.mixture.members] for each in (full, short)]
    assert scores[1] == pytest.approx(scores[0], abs=0.02)
