"""A limit on the memory of training: fewer members at a time, or a refusal."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.islands.memory_budget import ALLOWANCE
from sbmc.training import ensemble as training
from sbmc.training.memory import RESULTS, VECTORS

HELD = 10**9
INPUTS = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
DATA = INPUTS, (INPUTS[:, 0] > 0).long()
WEIGHTS = 24_002 * 4
ACTIVATIONS = 8 * 2**20


@pytest.fixture(autouse=True)
def known_memory(monkeypatch):
    monkeypatch.setattr("sbmc.training.memory.resident_bytes", lambda: HELD)


@pytest.fixture
def groups(monkeypatch):
    """The members that are trained together, group by group."""
    seen = []
    run = training._run
    monkeypatch.setattr(training, "_run", lambda t, g, *rest: (seen.extend(g), run(t, g, *rest))[1])
    return seen


def network(*extra):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4000), *extra, nn.ReLU6(), nn.Linear(4000, 2))


def limit_for(members):
    """Bytes for ten members, of which so many are trained together, with ample activations."""
    held = HELD + ALLOWANCE + RESULTS * 10 * WEIGHTS
    return held + members * (VECTORS * WEIGHTS + ACTIVATIONS)


def test_fewer_members_are_trained_together(groups):
    free = sbmc.train_ensemble(network(), DATA, members=10, max_epochs=1)
    assert groups == [list(range(10))]
    groups.clear()
    limit = limit_for(2)
    tight = sbmc.train_ensemble(network(), DATA, members=10, max_epochs=1, memory_limit=limit)
    assert 1 < len(groups) <= 10
    assert [member for group in groups for member in group] == list(range(10))
    torch.testing.assert_close(tight.positions, free.positions)


def test_an_ample_limit_changes_nothing(groups):
    ample = sbmc.train_ensemble(network(), DATA, members=3, max_epochs=1, memory_limit=2**34)
    free = sbmc.train_ensemble(network(), DATA, members=3, max_epochs=1)
    assert groups == [[0, 1, 2]] * 2
    assert torch.equal(ample.positions, free.positions)


@pytest.mark.parametrize("extra", [(), (nn.BatchNorm1d(4000),)])
def test_a_member_that_does_not_fit_is_refused(extra):
    with pytest.raises(BadInput, match=r"at least .* one member at a time takes, but got 1\.0 GB"):
        sbmc.train_map(network(*extra), DATA, max_epochs=1, memory_limit=HELD)
