import dataclasses

import numpy as np
import pytest
from sklearn.metrics import auc
from study_specs import make_spec

from sbmc.confidence import ConfidenceReport, load_arrays
from sbmc_studies.experiments.methods import METHODS, get_method
from sbmc_studies.experiments.resources import Resources
from sbmc_studies.records.record import read_record, record_path
from sbmc_studies.runs.confidence import PROTOCOLS, WITNESS, arrays_file, has_confidence
from sbmc_studies.runs.runner import POSTERIOR, run

TINY = {"max_epochs": 3, "batch_size": 256, "steps": 3, "particles": 2}


def study(out, *, islands=1, resources=None, force=False, **fields):
    spec = make_spec("digits", "s-hmc", {**TINY, "islands": islands}, **fields)
    return run(spec, out, resources or Resources(progress=False), force=force)


@pytest.fixture
def samplings(monkeypatch):
    """A list that grows by the seed of every run of S-HMC that samples."""
    seeds, original = [], get_method("s-hmc")

    def counted(context):
        seeds.append(context.seed)
        return original.run(context)

    monkeypatch.setitem(METHODS, "s-hmc", dataclasses.replace(original, run=counted))
    return seeds


def without_confidence(metrics):
    """What the run itself measured, without the meta-classifier."""
    return {k: v for k, v in metrics.items() if not k.startswith(("confidence.", "ood."))}


def confident(metrics):
    return {k: v for k, v in metrics.items() if k.startswith(("confidence.", "ood."))}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """One run with everything, that several tests look at."""
    return study(tmp_path_factory.mktemp("done"), confidence=True)


@pytest.fixture
def quick(monkeypatch):
    """Replace the meta-classifier by its mean probability on the test set; count its uses."""
    seen = []

    def evaluate(predict, sets, protocol, *, seed):
        mean = float(predict(sets["test"].inputs).probs.max(-1).values.mean())
        seen.append((protocol, seed, {name: len(part.labels) for name, part in sets.items()}))
        name = WITNESS if protocol == "paper" else "confidence.clean.default.auc_roc"
        return ConfidenceReport(protocol, {name: mean}, {"mean": np.array(mean)})

    monkeypatch.setattr("sbmc_studies.runs.confidence.evaluate", evaluate)
    return seen


def test_metrics_of_both_protocols_stand_in_the_record(done):
    record = read_record(done.path)
    assert record == done.record
    assert has_confidence(record)
    for infix in ("", "clean."):
        for rule in ("default", "optimal_f1"):
            for name in ("precision", "recall", "f1", "accuracy", "auc_roc", "threshold"):
                assert 0 <= record.metrics[f"confidence.{infix}{rule}.{name}"] <= 1
        for score in ("max_probability", "total", "epistemic", "meta_classifier"):
            for name in ("auroc", "aupr", "fpr95"):
                assert 0 <= record.metrics[f"ood.{infix}{score}.{name}"] <= 1
    assert record.metrics["accuracy"] > 0  # what the run measured is still there


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_arrays_beside_it_belong_to_the_metrics(done, protocol):
    found = load_arrays(arrays_file(done.path.parent, protocol))
    infix = "" if protocol == "paper" else "clean."
    for rule in ("default", "optimal_f1"):
        (right, _), (missed, caught) = found[f"confusion.{rule}"]
        total = found[f"confusion.{rule}"].sum()
        start = f"confidence.{infix}{rule}."
        assert caught / (caught + missed) == pytest.approx(done.record.metrics[start + "recall"])
        assert (right + caught) / total == pytest.approx(done.record.metrics[start + "accuracy"])
    area = auc(found["roc.false_positive_rate"], found["roc.true_positive_rate"])
    wanted = done.record.metrics[f"confidence.{infix}default.auc_roc"]
    assert area == pytest.approx(wanted, abs=0.005)  # the curve is thinned to 200 points


def test_without_the_option_nothing_is_measured(tmp_path, quick):
    run = study(tmp_path)
    assert quick == []
    assert not has_confidence(run.record)
    assert not has_confidence(None)
    assert list(tmp_path.rglob("confidence-*.npz")) == []


def test_a_record_is_completed_from_its_posterior_without_sampling(tmp_path, quick, samplings):
    first = study(tmp_path, save_posterior=True)
    assert (first.path.parent / POSTERIOR).exists()
    run = study(tmp_path, confidence=True)
    assert samplings == [0]
    assert not run.reused
    assert [protocol for protocol, _, _ in quick] == list(PROTOCOLS)
    assert without_confidence(run.record.metrics) == without_confidence(first.record.metrics)
    assert run.record.cost == first.record.cost
    assert read_record(run.path) == run.record
    # the saved posterior says what the sampled one would have said
    fresh = study(tmp_path / "fresh", confidence=True)
    assert confident(fresh.record.metrics) == pytest.approx(confident(run.record.metrics))


def test_without_a_posterior_the_run_is_made_again(tmp_path, quick, samplings):
    study(tmp_path)
    run = study(tmp_path, confidence=True)
    assert samplings == [0, 0]
    assert has_confidence(read_record(run.path))


def test_a_record_that_has_it_is_reused(tmp_path, quick, samplings):
    first = study(tmp_path, confidence=True)
    again = study(tmp_path, confidence=True)
    assert again.reused
    assert again.record == first.record
    assert len(quick) == 2  # once for each protocol
    assert study(tmp_path).reused  # nor is it asked for
    assert samplings == [0]


def test_prefixes_are_measured_by_their_own_islands(tmp_path, quick):
    run = study(tmp_path, islands=2, also_islands=(1,), confidence=True)
    one = run.prefixes[1]
    assert has_confidence(one)
    assert one.metrics[WITNESS] != run.record.metrics[WITNESS]
    for record in (run.record, one):
        folder = record_path(tmp_path, "digits", "s-hmc", record.hash, 0).parent
        stored = load_arrays(arrays_file(folder, "paper"))
        assert stored["mean"] == record.metrics[WITNESS]
    alone = study(tmp_path / "alone", islands=1, confidence=True)
    assert alone.record.metrics[WITNESS] == pytest.approx(one.metrics[WITNESS], rel=1e-3)


def test_methods_of_one_process_share_the_sets(tmp_path, quick, monkeypatch):
    from sbmc_studies.runs import confidence as module

    made = []
    original = module.confidence_sets
    monkeypatch.setattr(module, "confidence_sets", lambda *a: made.append(a[1]) or original(*a))
    resources = Resources(progress=False)
    study(tmp_path, confidence=True, resources=resources)
    study(tmp_path, confidence=True, resources=resources, force=True)
    assert made == list(PROTOCOLS)
    assert len(quick) == 4
    paper, clean = quick[0], quick[1]
    assert "calibration" not in paper[2]
    assert set(clean[2]) == {"meta_train", "threshold", "calibration", "test"}
