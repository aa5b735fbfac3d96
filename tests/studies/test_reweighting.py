import dataclasses
import shutil

import pytest
from study_specs import make_spec

from sbmc_studies.experiments.methods import METHODS, get_method
from sbmc_studies.experiments.resources import Resources
from sbmc_studies.records.record import read_record
from sbmc_studies.runs.reweighting import POSTERIOR
from sbmc_studies.runs.runner import run


def study(out, weights, *, save=False, force=False, seed=0, also=(1,), **changes):
    with pytest.MonkeyPatch.context() as patch:
        if weights == "no sampling":
            method = dataclasses.replace(get_method("s-smc"), run=refuse)
            patch.setitem(METHODS, "s-smc", method)
            weights = "equal"
        tiny = {"max_epochs": 3, "batch_size": 256, "mutations": 1, "particles": 2, "islands": 3}
        settings = {**tiny, "island_weights": weights, **changes}
        fields = {"also_islands": also, "save_posterior": save}
        spec = make_spec("digits", "s-smc", settings, seed, **fields)
        return run(spec, out, Resources(progress=False), force=force)


def refuse(context):
    raise AssertionError("the islands are there: nothing is to be sampled")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same islands: by evidence; with equal weights, from these; with equal weights, drawn."""
    folder = tmp_path_factory.mktemp("records")
    first = study(folder, "evidence", save=True)
    again = study(folder, "no sampling")
    fresh = study(tmp_path_factory.mktemp("fresh"), "equal")
    return first, again, fresh


def test_other_weights_need_no_sampling_and_give_what_sampling_would(runs):
    first, again, fresh = runs
    assert not again.reused
    assert again.record.metrics == pytest.approx(fresh.record.metrics, rel=1e-5, abs=1e-7)
    assert again.record.settings == fresh.record.settings
    assert again.record.islands == first.record.islands
    # the two ways have changed places
    assert again.record.metrics["nll"] == pytest.approx(first.record.metrics["equal.nll"])
    assert again.record.metrics["evidence.nll"] == pytest.approx(first.record.metrics["nll"])
    assert again.record.metrics["island_ess"] == pytest.approx(3)
    assert first.record.metrics["island_ess"] < 3


def test_the_record_says_whose_islands_they_are(runs):
    first, again, fresh = runs
    assert again.path != first.path
    assert read_record(again.path) == again.record
    assert again.record.derived_from == first.record.hash
    assert again.record.cost == {**first.record.cost, "wall_seconds": None}
    assert fresh.record.derived_from is None
    assert (again.path.parent / "extremes.json").exists()
    assert again.prefixes[1].derived_from == first.record.hash
    assert again.prefixes[1].metrics == pytest.approx(fresh.prefixes[1].metrics, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"particles": 3}, {"islands": 2}, {"force": True}], ids=str
)
def test_the_islands_of_a_run_with_other_settings_are_not_used(runs, change, tmp_path):
    shutil.copytree(runs[0].path.parents[4], tmp_path, dirs_exist_ok=True)
    run = study(tmp_path, "no sampling", **change)
    assert run.record.outcome == "failed"
    assert "nothing is to be sampled" in run.record.message


def test_without_a_saved_posterior_it_is_sampled(tmp_path):
    first = study(tmp_path, "evidence", also=())
    assert not (first.path.parent / POSTERIOR).exists()
    run = study(tmp_path, "equal", also=())
    assert run.record.derived_from is None
    assert run.record.cost["wall_seconds"] > 0
