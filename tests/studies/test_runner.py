import contextlib
import dataclasses
import json

import pytest
import torch
from study_specs import make_spec

from sbmc.checks import BadInput
from sbmc_studies.experiments.methods import METHODS, get_method
from sbmc_studies.experiments.resources import Resources
from sbmc_studies.records.record import read_record
from sbmc_studies.runs import measuring
from sbmc_studies.runs.runner import run

TINY = {"max_epochs": 3, "batch_size": 256}


def study(out, method="s-hmc", resources=None, also=(), force=False, seed=0, **overrides):
    sampler = get_method(method).sampler
    if sampler:
        few = {"steps": 3} if sampler == "hmc" else {"mutations": 1}
        overrides = {**few, "particles": 2, **overrides}
    spec = make_spec("digits", method, {**TINY, **overrides}, seed, also_islands=tuple(also))
    return run(spec, out, resources or Resources(progress=False), force=force)


def test_map_costs_its_training_and_has_no_epistemic_entropy(tmp_path):
    run = study(tmp_path, "map")
    record = read_record(run.path)
    assert record == run.record
    assert record.outcome == "completed"
    assert record.cost["epochs"] == record.cost["total_epochs"] == 3
    assert record.cost["anchor_epochs"] == 0
    assert record.cost["wall_seconds"] > 0
    assert record.metrics["entropy.epistemic.ood.all"] == pytest.approx(0, abs=1e-6)
    assert (record.settings["particles"], record.settings["islands"]) == (1, 1)


def test_s_hmc_record_is_complete(tmp_path):
    record = study(tmp_path).record
    names = {"accuracy", "nll", "brier", "ece", "island_ess"}
    for kind in ("total", "aleatoric", "epistemic"):
        groups = ("id", "correct", "incorrect", "ood.all", "ood.8", "ood.9", "ood.white_noise")
        names |= {f"entropy.{kind}.{group}" for group in (*groups, "ood.perturbed")}
    assert names <= set(record.metrics)
    assert 0 < record.metrics["accuracy"] <= 1
    assert record.metrics["entropy.epistemic.ood.all"] > 0
    cost = record.cost
    assert cost["anchor_epochs"] == 3
    # three steps of one leapfrog, the first evaluation, and whatever the step size search took
    assert 4 <= cost["epochs"] < 30
    assert cost["total_epochs"] == cost["epochs"] * 2 * 1 + 3
    assert [island["outcome"] for island in record.islands] == ["completed"]
    assert record.data["name"] == "digits"
    assert len(record.data["checksum"]) == 64
    assert record.versions["torch"] == torch.__version__
    assert record.hardware["cores"] >= 1


def test_a_completed_run_is_reused_unless_forced(tmp_path):
    first = study(tmp_path)
    again = study(tmp_path)
    assert not first.reused
    assert again.reused
    assert again.record == first.record
    forced = study(tmp_path, force=True)
    assert not forced.reused
    assert forced.record.metrics == first.record.metrics  # the same seed, the same result
    assert not study(tmp_path, seed=1).reused
    assert not study(tmp_path, s="0.2").reused


def test_prefixes_are_the_first_islands_of_the_same_run(tmp_path):
    run = study(tmp_path / "many", islands=3, also=[1, 2])
    assert set(run.prefixes) == {1, 2}
    one = run.prefixes[1]
    assert one.derived_from == run.record.hash
    assert one.cost["wall_seconds"] is None
    assert one.settings == {**run.record.settings, "islands": 1}
    assert one.cost["total_epochs"] == pytest.approx(one.cost["epochs"] * 2 + 3)
    assert run.record.derived_from is None
    alone = study(tmp_path / "one", islands=1)
    assert alone.record.hash == one.hash
    # Folding islands into one batch may move the last bits of the sums, not more.
    assert alone.record.metrics == pytest.approx(one.metrics, rel=1e-3, abs=1e-4)
    again = study(tmp_path / "many", islands=3, also=[1, 2])
    assert again.reused
    assert again.prefixes == run.prefixes


def test_a_prefix_does_not_replace_a_run_that_knows_its_time(tmp_path):
    alone = study(tmp_path, islands=1)
    study(tmp_path, islands=2, also=[1])
    assert read_record(alone.path) == alone.record
    study(tmp_path, islands=2, also=[1], force=True)
    assert read_record(alone.path).derived_from is not None


def test_ensemble_has_particles_times_islands_members(tmp_path):
    run = study(tmp_path, "de", particles=2, islands=2, also=[1])
    assert run.record.details["training"]["members"] == 4
    assert run.record.cost["total_epochs"] == 12
    assert run.prefixes[1].cost["total_epochs"] == 6
    small = study(tmp_path / "small", "de", particles=2, islands=1)
    assert small.record.metrics == pytest.approx(run.prefixes[1].metrics, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(
    ("method", "start", "anchor_epochs"),
    [
        ("hmc", "prior", 0),  # nothing is trained
        ("hmc", "anchor", 3),  # one network
        ("hmc", "ensemble", 6),  # two members
        ("s-hmc", "prior", 3),
        ("s-hmc", "ensemble", 9),  # the anchor of the prior, and two members
    ],
)
def test_what_a_chain_starts_from_is_counted(tmp_path, method, start, anchor_epochs):
    run = study(tmp_path, method, start=start, islands=2)
    cost = run.record.cost
    assert cost["anchor_epochs"] == anchor_epochs
    assert cost["total_epochs"] == pytest.approx(cost["epochs"] * 2 * 2 + anchor_epochs)


def test_methods_of_one_process_share_what_is_trained(tmp_path, monkeypatch):
    import sbmc

    trained = []
    original = sbmc.train_map
    monkeypatch.setattr(
        sbmc, "train_map", lambda *a, **k: trained.append(k["seed"]) or original(*a, **k)
    )
    resources = Resources(progress=False)
    study(tmp_path, "map", resources)
    shared = study(tmp_path, "s-hmc", resources)
    assert trained == [0]
    study(tmp_path, "s-hmc", resources, seed=1)
    study(tmp_path, "s-hmc", resources, max_epochs=2)
    assert trained == [0, 1, 0]
    # shared or not, its cost counts in full
    assert shared.record.cost["anchor_epochs"] == 3
    seconds = shared.record.details["training"][0]["wall_seconds"]
    assert shared.record.cost["wall_seconds"] > seconds > 0


def test_samplers_get_train_and_validation_together(tmp_path, monkeypatch):
    import sbmc

    sizes = []
    original = sbmc.fit
    monkeypatch.setattr(
        sbmc, "fit", lambda m, data, **k: sizes.append(len(data[1])) or original(m, data, **k)
    )
    study(tmp_path, "s-hmc")
    assert sizes == [1000]


@pytest.fixture
def broken(monkeypatch):
    """Makes S-HMC raise an error, until the body of `with` ends."""

    @contextlib.contextmanager
    def breaking(error):
        def fails(context):
            raise error

        method = dataclasses.replace(get_method("s-hmc"), run=fails)
        with monkeypatch.context() as patch:
            patch.setitem(METHODS, "s-hmc", method)
            yield

    return breaking


def test_a_failed_run_writes_its_record_and_is_run_again(tmp_path, broken):
    with broken(RuntimeError("all islands failed")):
        run = study(tmp_path)
    record = read_record(run.path)
    assert record.outcome == "failed"
    assert record.message == "RuntimeError: all islands failed"
    assert record.metrics == {}
    assert study(tmp_path).record.outcome == "completed"


def test_refused_input_writes_nothing(tmp_path, broken):
    with broken(BadInput("no such thing")), pytest.raises(BadInput, match="no such thing"):
        study(tmp_path)
    with pytest.raises(BadInput, match="also_islands"):
        study(tmp_path, also=[2])
    with pytest.raises(BadInput, match="seed"):
        study(tmp_path, seed=-1)
    assert not list(tmp_path.iterdir())


def test_interruption_passes_through_and_writes_nothing(tmp_path, broken):
    with broken(KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        study(tmp_path)
    assert not list(tmp_path.rglob("record.json"))


def test_islands_that_failed_make_a_run_partial(tmp_path, monkeypatch):
    original = measuring.island_fields

    def second_failed(report):
        return {**original(report), "outcome": "failed" if report.index == 1 else "completed"}

    monkeypatch.setattr(measuring, "island_fields", second_failed)
    run = study(tmp_path, islands=2)
    assert run.record.outcome == "partial"
    assert not study(tmp_path, islands=2).reused


def test_a_record_is_plain_json(tmp_path):
    text = study(tmp_path).path.read_text()
    content = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert content["settings"]["trajectory"] is None


@pytest.mark.parametrize("weighting", ["evidence", "equal"])
def test_smc_record_has_both_weightings_and_every_temperature(tmp_path, weighting):
    run = study(
        tmp_path, "s-smc", also=[1], islands=2, particles=3, mutations=2, island_weights=weighting
    )
    record = read_record(run.path)
    other = {"evidence": "equal", "equal": "evidence"}[weighting]
    assert record.metrics[f"{other}.nll"] != record.metrics["nll"]
    assert f"{weighting}.nll" not in record.metrics
    named = {"evidence": record.metrics["island_ess"], "equal": 2.0}
    named[other] = record.metrics[f"{other}.island_ess"]
    assert named["equal"] == pytest.approx(2)
    assert 1 <= named["evidence"] < 2
    for island in record.islands:
        table = island["temperatures"]
        assert table["temperature"][-1] == 1
        # one evaluation at the start and two at each temperature
        assert island["epochs"] == 1 + 2 * len(table["temperature"])
        assert island["log_evidence"] < 0
        assert set(table["mutations"]) == {2}
    assert record.settings["mutations"] == 2
    alone = run.prefixes[1]
    assert alone.metrics["island_ess"] == 1
    assert alone.metrics[f"{other}.nll"] == pytest.approx(alone.metrics["nll"])
