"""A prediction within a memory limit: smaller pieces, the same numbers, or a refusal."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import sbmc
from sbmc.checks import BadInput
from sbmc.islands.memory_budget import ALLOWANCE
from sbmc.model.predicting import PARTICLES_AT_ONCE, Predictor
from sbmc.posterior.prediction_memory import PARAMETER_COPIES, pieces_within

HELD = 10**9
INPUTS = torch.randn(300, 3, generator=torch.Generator().manual_seed(1))
DATA = INPUTS, (INPUTS[:, 0] > 0).long()


@pytest.fixture(autouse=True)
def known_memory(monkeypatch):
    monkeypatch.setattr("sbmc.posterior.prediction_memory.resident_bytes", lambda: HELD)


@pytest.fixture(scope="module")
def posterior():
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(3, 4000), nn.ReLU6(), nn.Linear(4000, 2))
    return sbmc.fit(net, DATA, sampler=sbmc.SGLD(epochs=1), particles=12)


def parameters_of(particles, posterior):
    return HELD + ALLOWANCE + particles * PARAMETER_COPIES * posterior.positions.shape[-1] * 4


def test_fewer_particles_come_before_fewer_examples(posterior):
    usual = pieces_within(posterior, INPUTS, None, HELD + 2**33)
    assert usual.particles == PARTICLES_AT_ONCE
    fewer = pieces_within(posterior, INPUTS, None, parameters_of(5, posterior) + 2**23)
    assert fewer.particles < usual.particles
    assert fewer.examples == usual.examples
    least = pieces_within(posterior, INPUTS, None, parameters_of(1, posterior) + 2**20)
    assert least.particles == 1
    assert 1 <= least.examples < usual.examples


def test_the_pieces_are_used_and_the_numbers_are_the_same(posterior, monkeypatch):
    seen = []
    outputs = Predictor.outputs

    def noted(self, *args):
        for part, values in outputs(self, *args):
            seen.append(tuple(values.shape[:2]))
            yield part, values

    monkeypatch.setattr(Predictor, "outputs", noted)
    limit = parameters_of(1, posterior) + 2**20
    pieces = pieces_within(posterior, INPUTS, None, limit)
    within = posterior.predict(INPUTS, memory_limit=limit)
    assert {particles for particles, _ in seen} == {1}
    assert max(examples for _, examples in seen) == pieces.examples
    torch.testing.assert_close(within.probs, posterior.predict(INPUTS).probs)


def test_what_does_not_fit_is_refused(posterior):
    with pytest.raises(BadInput, match=r"`memory_limit` must be at least .* but got 1\.0 GB"):
        posterior.predict(INPUTS, memory_limit=HELD)
    with pytest.raises(BadInput, match="a batch of 300, but got"):  # it was given: not made smaller
        posterior.predict(INPUTS, batch_size=300, memory_limit=parameters_of(1, posterior) + 2**20)


def test_the_batches_of_a_loader_are_its_own(posterior):
    loader = DataLoader(TensorDataset(INPUTS), batch_size=10)
    with pytest.raises(BadInput, match="left out for a DataLoader"):
        posterior.predict(loader, memory_limit="8GiB")
