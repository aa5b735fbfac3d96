"""Posteriors that have predicted can be copied, pickled and saved by torch, confidence and all.

They are shown in a notebook, too.
"""

from __future__ import annotations

import copy
import io
import pickle
import re

import pytest
import torch
from torch import nn

import sbmc

INPUTS = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
NOISE = torch.randn(40, generator=torch.Generator().manual_seed(1))
LABELS = (INPUTS[:, 0] + NOISE > 0).long()


def saved_by_torch(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "torch": saved_by_torch,
}


@pytest.fixture(scope="module")
def mixture():
    torch.manual_seed(0)
    net = sbmc.train_map(nn.Linear(3, 2), (INPUTS[:30], LABELS[:30]), max_epochs=5, progress=False)
    posterior = sbmc.fit(
        net,
        (INPUTS[:30], LABELS[:30]),
        validation=(INPUTS[30:], LABELS[30:]),
        budget=sbmc.Budget(trainings=50, trained_epochs=5),
        progress=False,
    )
    posterior.predict(INPUTS)
    posterior.confidence((INPUTS, LABELS), INPUTS * 10, threshold=0.5)
    return posterior


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_copies_predict_the_same(mixture, copied):
    expected = mixture.predict(INPUTS)
    again = copied(mixture)
    assert again.positions is not mixture.positions
    assert torch.equal(again.predict(INPUTS).probs, expected.probs)
    assert torch.equal(
        again.fitted_confidence.score(INPUTS), mixture.fitted_confidence.score(INPUTS)
    )
    assert torch.equal(copied(expected).probs, expected.probs)


def test_a_mixture_is_shown_in_a_notebook_with_its_weights(mixture):
    page = mixture._repr_html_()
    members = [member for member in mixture.mixture.members if member.weight > 0]
    for member in members:
        cells = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", page)
        assert cells[cells.index(f"weight of {member.name}") + 1] == f"{member.weight:.3f}"
