"""`python -m benchmarks.meta_training` measures what it says, and the page prints its record."""

import json
from types import SimpleNamespace

import pytest
import torch
from confidence.toy import examples, outside, predict
from repository import ROOT

from benchmarks import meta_training
from sbmc.checks import BadInput
from sbmc.confidence import evaluate
from sbmc.confidence.protocols import ConfidenceSet
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.settings import resolve


def toy_sets():
    return {
        name: ConfidenceSet(*examples(200, seed), {"near": outside(100, seed)})
        for seed, name in enumerate(("meta_train", "threshold", "test"))
    }


def test_only_the_in_domain_images_of_meta_training_change():
    sets, pool = toy_sets(), examples(1000, seed=7)
    rows = meta_training.measure({"map": predict}, sets, pool, [100, 1000])
    assert [row["images"] for row in rows] == [100, 1000]
    for row in rows:
        n = row["images"]
        learn = ConfidenceSet(pool[0][:n], pool[1][:n], sets["meta_train"].ood)
        own = evaluate(predict, {**sets, "meta_train": learn}, "paper").metrics
        for name in meta_training.SHOWN:
            assert row[name] == own[f"confidence.{name}"], name
    # More images that are right, against as many outside: fewer scores reach 0.5.
    assert rows[1]["default.recall"] < rows[0]["default.recall"]


def test_more_images_than_there_are_is_refused():
    with pytest.raises(BadInput, match="`sizes` must be at most 50, but got 60"):
        meta_training.measure({"map": predict}, toy_sets(), examples(50, seed=7), [10, 60])


def test_the_command_writes_a_record_and_prints_the_tables(tmp_path, monkeypatch, capsys):
    asked = []

    def fitted(method, seed, resources, data_dir, **overrides):
        asked.append((method, seed, overrides))
        return predict

    monkeypatch.setattr(meta_training, "fitted", fitted)
    monkeypatch.setattr(meta_training, "confidence_sets", lambda *arguments: toy_sets())
    monkeypatch.setattr(meta_training, "mnist7_pool", lambda data_dir: examples(300, seed=7))
    out = tmp_path / "record.json"
    arguments = ["--sizes", "100", "300", "--members", "2", "--seed", "3", "--out", str(out)]
    assert meta_training.main(arguments) == 0
    assert asked == [("map", 3, {}), ("s-hmc", 3, {}), ("de", 3, {"particles": 2})]
    record = json.loads(out.read_text("utf-8"))
    assert [(row["images"], row["method"]) for row in record["rows"]] == [
        (100, "map"), (100, "s-hmc"), (300, "map"), (300, "s-hmc"),
    ]  # fmt: skip
    assert [row["members"] for row in record["ensembles"]] == [2]
    printed = capsys.readouterr().out
    assert printed == f"{meta_training.table(record)}\n\n{meta_training.members_table(record)}\n"
    assert "*0.846* | *0.162* | *0.271* | *0.791* | *0.828*" in printed  # the paper's MAP
    assert "*0.876* | *0.213* | *0.342* | *0.807* | *0.855*" in printed  # and its ensemble
    with pytest.raises(SystemExit):
        meta_training.main(["--sizes", "0"])
    assert "`sizes` must be positive, but got 0." in capsys.readouterr().err


def test_a_method_is_fitted_with_the_settings_of_the_study(monkeypatch):
    seen = {}

    class Method:
        def run(self, context):
            seen.update(context.settings, seed=context.seed)
            return SimpleNamespace(posterior=SimpleNamespace(predict=predict))

    class NoFiles:
        def data(self, spec):
            return SimpleNamespace(train=(torch.zeros(1, 1, 28, 28),), classes=8, frozen=None)

    monkeypatch.setattr(meta_training, "get_method", lambda name: Method())
    monkeypatch.setattr(
        meta_training, "resolve", lambda study, method, preset, more: resolve(
            study, get_method("de"), preset, more
        )
    )  # fmt: skip
    assert meta_training.fitted("de", 5, NoFiles(), None, particles=3) is predict
    assert (seen["particles"], seen["seed"], seen["prior_variance"]) == (3, 5, 0.1)


def test_the_page_prints_the_committed_record():
    record = json.loads(meta_training.RECORD.read_text("utf-8"))
    page = (ROOT / "docs" / "confidence.md").read_text("utf-8")
    assert meta_training.table(record) in page
    assert meta_training.members_table(record) in page


def test_an_ensemble_of_two_has_the_papers_auc():
    # What the reason for a shortfall rests on (`paper.claims.mnist7_confidence.SHORTFALLS`).
    record = json.loads(meta_training.RECORD.read_text("utf-8"))
    found = {row["members"]: row["default.auc_roc"] for row in record["ensembles"]}
    assert found[2] == pytest.approx(0.855, abs=0.01)
    assert found[10] > found[5] > found[2]


def test_no_image_of_the_pool_is_in_another_set(monkeypatch, tmp_path):
    # Images whose one pixel says which they are; labels as frequent as in MNIST.
    rng = torch.Generator().manual_seed(0)
    labels = torch.randint(10, (70_000,), generator=rng).numpy()
    pixels = torch.arange(70_000).view(-1, 1, 1).numpy()
    arrays = {
        "x_train": pixels[:60_000],
        "y_train": labels[:60_000],
        "x_test": pixels[60_000:],
        "y_test": labels[60_000:],
    }
    monkeypatch.setattr(meta_training, "locate", lambda *arguments, **options: tmp_path)
    monkeypatch.setattr(meta_training.mnist7, "read", lambda path: (arrays, "checksum"))
    inputs, found = meta_training.mnist7_pool(None)
    places = (inputs.flatten() * 255).round().long()
    parts = meta_training.mnist7_indices("paper", labels)
    assert (places[:1200].numpy() == parts["meta_train"].inside).all()
    assert not set(places.tolist()) & (parts["threshold"].sources() | parts["test"].sources())
    assert (found.numpy() == labels[places]).all()
    assert len(found) > 40_000
