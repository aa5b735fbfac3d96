"""Posteriors made apart are the islands of one: bit for bit what one run would have given."""

import dataclasses

import pytest
import torch
from grouped import in_groups
from torch import nn

import sbmc
from sbmc.checks import BadInput

DATA = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
LABELS = (DATA[:, 0] + 0.3 * DATA[:, 1] > 0).long()
ALONE = sbmc.InProcess(fold=1)
SAMPLERS = {
    "hmc": sbmc.HMC(steps=4, leapfrog=2, step_size=0.2),
    "smc": sbmc.SMC(mutations=2),
    "sghmc": sbmc.SGHMC(epochs=2, batch_size=20, step_size=0.05),
}


@pytest.fixture
def net():
    torch.manual_seed(3)
    return nn.Linear(3, 2)


def fit(net, **options):
    plain = {"s": 0.2, "particles": 4, "islands": 2, "executor": ALONE, "progress": False}
    options = {"sampler": SAMPLERS["hmc"], **plain, **options}
    return sbmc.fit(net, (options.pop("x", DATA), LABELS), **in_groups(options))


@pytest.mark.filterwarnings("ignore:The evidence leaves", "ignore:The population")
@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("turned", [False, True])
def test_merged_is_one_run_of_all_islands(net, kind, turned):
    sampler = SAMPLERS[kind]
    whole = fit(net, sampler=sampler, islands=5)
    parts = [
        fit(net, sampler=sampler, islands=2),
        fit(net, sampler=sampler, islands=3, first_island=2),
    ]
    merged = sbmc.merge(parts[::-1] if turned else parts)
    assert torch.equal(merged.positions, whole.positions)
    assert torch.equal(merged.weights, whole.weights)
    assert torch.equal(merged.log_evidence, whole.log_evidence)
    assert [each.index for each in merged.islands] == [0, 1, 2, 3, 4]
    same = {"attempts": 1, "seconds": 0.0}
    for ours, theirs in zip(merged.islands, whole.islands, strict=True):
        assert dataclasses.replace(ours, **same) == dataclasses.replace(theirs, **same)
    left = {name: value for name, value in merged.settings.items() if name != "first_island"}
    assert left == whole.settings
    assert torch.equal(merged.predict(DATA).probs, whole.predict(DATA).probs)
    assert merged.priors is not None
    assert len(merged.priors) == 5


@pytest.mark.filterwarnings("ignore:The evidence leaves", "ignore:The population")
def test_evidence_and_cost_add_up(net):
    parts = [
        fit(net, sampler=SAMPLERS["smc"], islands=2, anchor_epochs=7),
        fit(net, sampler=SAMPLERS["smc"], islands=1, first_island=2, anchor_epochs=7),
    ]
    whole = fit(net, sampler=SAMPLERS["smc"], islands=3, anchor_epochs=7)
    merged = sbmc.merge(parts)
    assert merged.weighting == "evidence"
    assert merged.evidence == whole.evidence
    assert merged.island_ess == whole.island_ess
    assert merged.cost.anchor_epochs == 7
    assert merged.cost.total_epochs == pytest.approx(whole.cost.total_epochs)
    assert merged.cost.epochs == pytest.approx(whole.cost.epochs)
    assert merged.cost.wall_seconds == sum(part.cost.wall_seconds for part in parts)


def test_islands_of_another_seed_are_numbered_anew(net):
    merged = sbmc.merge([fit(net, seed=0), fit(net, seed=1)])
    assert [each.index for each in merged.islands] == [0, 1, 2, 3]
    assert merged.settings["seed"] == [0, 1]
    assert not torch.equal(merged.positions[0], merged.positions[2])


def test_islands_that_failed_stay_in_their_place(net):
    good, bad = fit(net), fit(net, first_island=2)
    lost = dataclasses.replace(bad.islands[1], outcome="failed", message="lost")
    partial = sbmc.Posterior(
        bad._model,
        bad.space,
        bad.likelihood,
        bad.positions[:1],
        log_evidence=bad.log_evidence[:1],
        islands=[bad.islands[0], lost],
        cost=bad.cost,
        settings=bad.settings,
        within=bad.within[:1],
        weighting=bad.weighting,
    )
    merged = sbmc.merge([partial, good])
    assert [each.outcome for each in merged.islands] == ["completed"] * 3 + ["failed"]
    assert torch.equal(merged.positions, torch.cat([good.positions, bad.positions[:1]]))


OTHERS = {
    "data": ({"x": DATA + 1}, "identity.data differ"),
    "s": ({"s": 0.3}, "s is 0.3 there and 0.2 here"),
    "particles": ({"particles": 5}, "particles is 5 there and 4 here"),
    "sampler": ({"sampler": SAMPLERS["sghmc"]}, "sampler is 'SGHMC' there and 'HMC' here"),
    "start": ({"start": "prior"}, "start is 'prior' there and 'anchor' here"),
    "dtype": ({"dtype": torch.float64}, "float64"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_parts_of_other_runs_are_refused(net, name):
    options, words = OTHERS[name]
    one, other = fit(net), fit(net, **{"first_island": 2, **options})
    with pytest.raises(BadInput, match="must be parts of one run, but got 1, where") as caught:
        sbmc.merge([one, other])
    assert words in str(caught.value)


def test_another_anchor_is_refused(net):
    moved = nn.Linear(3, 2)
    with pytest.raises(BadInput, match=r"identity\.anchor differs"):
        sbmc.merge([fit(net), fit(moved, first_island=2)])


def test_an_island_counts_once(net):
    with pytest.raises(BadInput, match="island 1 in both 0 and 1"):
        sbmc.merge([fit(net), fit(net, first_island=1)])


def test_fewer_than_two_and_others_are_refused(net):
    one = fit(net)
    for given in ([], [one], [one, "two"]):
        with pytest.raises(BadInput, match="`posteriors` must be at least two posteriors"):
            sbmc.merge(given)
    with pytest.raises(BadInput, match="made by `fit`"):
        sbmc.merge([one, sbmc.fit(net, (DATA, LABELS), s=0)])


def test_saved_parts_merge(net, tmp_path):
    for first in (0, 2):
        fit(net, first_island=first).save(tmp_path / f"{first}.sbmc")
    loaded = [sbmc.load(tmp_path / f"{first}.sbmc", net) for first in (0, 2)]
    assert torch.equal(sbmc.merge(loaded).positions, fit(net, islands=4).positions)
