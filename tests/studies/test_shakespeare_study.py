"""The study of a language model from end to end, with a stand-in of a model and a short text."""

import gzip
import hashlib

import pytest
import torch
from repository import ROOT
from study_specs import make_spec
from tiny_language import TEXT, folder_of_weights, use_stand_in

from sbmc.checks import BadInput
from sbmc.language import LoraHead, text_states
from sbmc_studies.data import shakespeare
from sbmc_studies.experiments.context import prepare_context
from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.networks import build_network
from sbmc_studies.experiments.resources import Resources
from sbmc_studies.experiments.settings import resolve
from sbmc_studies.paper.tables.study import differences, write_tables
from sbmc_studies.records.pooling import find_records
from sbmc_studies.records.record import read_record
from sbmc_studies.runs import runner

RECORDS = ROOT / "experiments" / "records"
SHORT = {"batch_size": 64, "max_epochs": 3}
FEW = {**SHORT, "particles": 3, "epochs": 4, "scout": 2, "scout_batches": 2}


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The data set `shakespeare`, made of a short text and a stand-in."""
    use_stand_in(monkeypatch)
    weights = folder_of_weights(tmp_path / "tiny")
    monkeypatch.setenv("SBMC_MODEL", str(weights))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SBMC_DATA", str(tmp_path))
    (tmp_path / shakespeare.FILE).write_bytes(gzip.compress(TEXT.encode()))
    monkeypatch.setattr(shakespeare, "SHA256", hashlib.sha256(TEXT.encode()).hexdigest())
    monkeypatch.setattr(shakespeare, "CLASSES", 12)
    return weights


def run(method, out, overrides, seed=0):
    return runner.run(make_spec("shakespeare", method, overrides, seed), out)


def test_map_and_s_hmc_write_records_that_name_the_weights(tiny, tmp_path):
    point = run("map", tmp_path / "out", SHORT)
    sampled = run("s-hmc", tmp_path / "out", FEW)
    for done in (point, sampled):
        record = read_record(done.path)
        assert record.outcome == "completed", record.message
        assert record.data["weights"] == "tiny"
        assert record.data["weights_sha256"] == hashlib.sha256(b"some weights").hexdigest()
        assert record.data["text_sha256"] == shakespeare.SHA256
        assert record.settings["fraction"] == 1.0
        for name in ("correct", "incorrect"):
            assert record.metrics[f"entropy.total.{name}"] > 0
    assert point.record.metrics["entropy.epistemic.correct"] == 0
    assert sampled.record.metrics["entropy.epistemic.correct"] > 0
    assert sampled.record.details["fit"]["kernel"] == "low-rank"


def test_a_part_of_the_positions_is_another_run(tiny, tmp_path):
    whole, part = (run("map", tmp_path, {**SHORT, "fraction": f}) for f in (1.0, 0.3))
    assert whole.record.hash != part.record.hash
    assert part.record.settings["fraction"] == 0.3
    assert whole.record.data == part.record.data


def test_the_anchor_is_balanced_and_depends_on_the_seed(tiny):
    anchors = []
    for seed in (0, 0, 1):
        context = prepare_context(make_spec("shakespeare", "map", SHORT, seed), Resources())
        (anchor,) = context.anchor().models
        anchors.append(anchor)
        down, up = anchor.down.weight.detach(), anchor.up.weight.detach()
        assert isinstance(anchor, LoraHead)
        torch.testing.assert_close(down @ down.T, up.T @ up, rtol=1e-4, atol=1e-5)
        assert bool(down.any())
    weights = [anchor.up.weight for anchor in anchors]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_training_improves_on_the_frozen_layer(tiny):
    context = prepare_context(make_spec("shakespeare", "map", SHORT), Resources())
    inputs, labels = context.data.train
    anchor = context.anchor().models[0]
    losses = [
        torch.nn.functional.cross_entropy(outputs, labels)
        for outputs in (inputs @ context.data.frozen["output"].T, anchor(inputs))
    ]
    assert losses[1] < losses[0]


def test_the_network_needs_the_frozen_layer():
    with pytest.raises(BadInput, match="`data` must be one with a frozen output layer"):
        build_network("lora-head", (6,), 12)
    with pytest.raises(BadInput, match="`data` must be one with a frozen output layer"):
        build_network("lora-head", (6,), 12, {"output": torch.zeros(12, 5)})
    network = build_network("lora-head", (576,), 2500, {"output": torch.zeros(2500, 576)})
    assert sum(p.numel() for p in network.parameters() if p.requires_grad) == 153_800


def test_another_text_is_refused(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(shakespeare, "SHA256", "0" * 64)
    with pytest.raises(BadInput, match="must be tiny Shakespeare"):
        run("map", tmp_path, SHORT)


def test_the_data_are_those_of_the_named_model(tiny, tmp_path):
    own = text_states(TEXT, tiny, cache=tmp_path / "elsewhere")
    found = shakespeare.load()
    assert found.checksum == own.checksum
    assert found.about["block"] == 128


def test_the_page_prints_what_the_records_say():
    page = ROOT / "docs" / "language.md"
    printed = page.read_text("utf-8")
    made = write_tables(printed, get_experiment("shakespeare"), RECORDS)
    assert printed == made, "run: sbmc table shakespeare --write docs/language.md"


def test_rows_outside_the_tolerance_have_a_reason():
    lines = differences(get_experiment("shakespeare"), RECORDS)
    assert lines
    assert not [line for line in lines if "no reason is known" in line]


@pytest.mark.parametrize(("section", "seeds"), [("paper", [0]), ("subset", [0, 1])])
def test_sampling_beats_the_map_and_knows_where_it_is_wrong(section, seeds):
    # The paper's table gpt2: accuracy, NLL, and H_ep of incorrect above that of correct.
    experiment = get_experiment("shakespeare")
    rows = {row.method: row for row in experiment.rows if row.section == section}
    point, sampled = (find_records(RECORDS, experiment, rows[m]) for m in ("map", "s-hmc"))
    assert [record.seed for record in point] == [record.seed for record in sampled] == seeds
    for one, many in zip(point, sampled, strict=True):
        assert many.metrics["accuracy"] > one.metrics["accuracy"]
        assert many.metrics["nll"] < one.metrics["nll"] - 0.05
        incorrect, correct = (many.metrics[f"entropy.epistemic.{k}correct"] for k in ("in", ""))
        assert incorrect > 1.5 * correct > 0
        assert one.data["weights_sha256"] == many.data["weights_sha256"]
        assert many.islands[0]["acceptance"] > 0.4


def test_both_presets_are_the_same_chains():
    experiment = get_experiment("shakespeare")
    paper, best = (resolve(experiment, get_method("s-hmc"), name) for name in ("paper", "best"))
    assert paper == best
    assert paper["scout"] < paper["epochs"]
