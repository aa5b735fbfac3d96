"""Every sampler gives the bits that it gave before the code was laid out anew.

`data/same_bits.json` was written before the first file moved, and is never edited. It has, for each
sampler and likelihood, a digest of the positions and some of the numbers. On the machine that wrote
it the digests are equal; elsewhere the last bits of a product may differ, so the tests compare the
numbers, to nine digits. `SBMC_SAME_BITS=exact` compares the digests.
"""

import hashlib
import json
import os
from pathlib import Path

import pytest
import torch
from every_sampler import discover, small
from torch import nn

import sbmc

STORED = Path(__file__).parent / "data" / "same_bits.json"
LIKELIHOODS = ("categorical", "gaussian")
# Samplers that came later have nothing to be compared with.
LATER = {"AutoHMC", "MCLMC"}
KINDS = [kind for kind in discover() if kind.__name__ not in LATER]


def fitted(kind, likelihood):
    """Two islands of four particles on data that the seed decides, in double precision."""
    torch.manual_seed(0)
    inputs = torch.randn(30, 3, dtype=torch.float64)
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    if likelihood == "categorical":
        targets, family = (inputs[:, 0] * inputs[:, 1] > 0).long(), "categorical"
    else:
        targets, family = inputs[:, :2].sin(), sbmc.Gaussian(noise_variance=0.1)
    posterior = sbmc.fit(
        net,
        (inputs, targets),
        s=0.3,
        prior_variance=1.0,
        likelihood=family,
        sampler=small(kind),
        particles=4,
        islands=2,
        seed=5,
        progress=False,
    )
    return posterior.positions, posterior.weights


def summary(kind, likelihood):
    positions, weights = fitted(kind, likelihood)
    data = positions.contiguous().numpy().tobytes() + weights.contiguous().numpy().tobytes()
    flat = positions.flatten()
    some = torch.cat([flat[:: max(1, len(flat) // 12)][:12], positions.sum().view(1)])
    return {
        "digest": hashlib.sha256(data).hexdigest(),
        "shape": list(positions.shape),
        "numbers": some.tolist(),
    }


@pytest.mark.filterwarnings("ignore:The evidence leaves")
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_bits_are_those_of_before(kind, likelihood):
    stored = json.loads(STORED.read_text("utf-8"))[f"{kind.__name__} {likelihood}"]
    now = summary(kind, likelihood)
    assert now["shape"] == stored["shape"]
    assert now["numbers"] == pytest.approx(stored["numbers"], rel=1e-9, abs=1e-9)
    if os.environ.get("SBMC_SAME_BITS") == "exact":
        assert now["digest"] == stored["digest"]


def test_no_case_was_left_out_or_edited():
    stored = json.loads(STORED.read_text("utf-8"))
    assert set(stored) == {f"{k.__name__} {like}" for k in KINDS for like in LIKELIHOODS}


if __name__ == "__main__":
    if STORED.exists():
        raise SystemExit(f"{STORED} is never written again.")
    found = {f"{k.__name__} {like}": summary(k, like) for k in KINDS for like in LIKELIHOODS}
    STORED.parent.mkdir(exist_ok=True)
    STORED.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
