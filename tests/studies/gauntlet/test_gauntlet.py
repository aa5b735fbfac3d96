"""The gauntlet: its list, its scores, its statistics, and runs that go on where they stopped."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from repository import RECORDS, ROOT
from scipy import stats
from torch import nn

from sbmc.checks import BadInput
from sbmc.prediction.mixture import ClassificationSums
from sbmc_studies.commands.gauntlet import with_tables
from sbmc_studies.gauntlet import comparison, methods, running
from sbmc_studies.gauntlet.comparison import average_ranks, compare
from sbmc_studies.gauntlet.data import load_pair_data
from sbmc_studies.gauntlet.methods import METHODS, Fitted, NotSupported
from sbmc_studies.gauntlet.networks import build_pair_network
from sbmc_studies.gauntlet.pairs import gauntlet_pairs, get_pair
from sbmc_studies.gauntlet.running import read_pair_record, record_file, run_pair
from sbmc_studies.gauntlet.scoring import score
from sbmc_studies.gauntlet.table import gauntlet_lines

needs_tables = pytest.mark.skipif(
    not (Path(os.environ.get("SBMC_DATA", "")) / "uci_classification.npz").is_file(),
    reason="uci_classification.npz is not in the folder that $SBMC_DATA names",
)


def predicted(logits):
    sums = ClassificationSums()
    sums.add(logits, torch.ones(len(logits)))
    return sums.prediction()


def test_the_two_parts_share_no_data_and_each_has_enough_pairs():
    parts = {part: gauntlet_pairs(part) for part in ("development", "confirmation")}
    data = [{pair.data for pair in pairs} for pairs in parts.values()]
    assert data[0] & data[1] == set()
    assert sum(map(len, parts.values())) >= 16
    assert len({pair.name for pair in gauntlet_pairs()}) == len(gauntlet_pairs())


@pytest.mark.parametrize("pair", gauntlet_pairs(), ids=lambda pair: pair.name)
def test_every_network_can_be_built_and_answers(pair):
    kind = pair.network["kind"]
    if kind in ("bert", "gpt2"):
        pytest.importorskip("transformers")
        inputs = torch.randint(2_000, (3, 64))
    else:
        shape = {"digits": (1, 8, 8), "mnist": (1, 28, 28)}.get(pair.data, (12,))
        inputs = torch.randn(3, *shape)
    network = build_pair_network(pair.network, tuple(inputs.shape[1:]), 4)
    assert network(inputs).shape == (3, 4)
    assert network.eval()(inputs).shape == (3, 4)


def test_an_adapted_network_begins_as_it_was_and_trains_its_adapters_alone():
    pair = get_pair("mnist-lora")
    network = build_pair_network(pair.network, (1, 28, 28), 4)
    trained = [name for name, value in network.named_parameters() if value.requires_grad]
    assert trained
    assert all("lora" in name for name in trained)
    layer = network.out
    inputs = torch.randn(5, layer.layer.in_features)
    assert torch.equal(layer(inputs), layer.layer(inputs))
    with torch.no_grad():
        layer.lora_B.normal_()
    expected = nn.functional.linear(inputs, layer.weight, layer.bias)
    assert torch.allclose(layer(inputs), expected, atol=1e-5)


@needs_tables
@pytest.mark.parametrize("name", ["australian", "glass", "ionosphere", "vehicle", "waveform"])
def test_tables_are_split_without_overlap_and_standardised_by_their_training_rows(name):
    data = load_pair_data(name, seed=1)
    parts = [data.train[0], data.validation[0], data.test[0]]
    assert torch.allclose(parts[0].mean(0), torch.zeros(parts[0].shape[1]), atol=1e-4)
    assert int(data.train[1].max()) < data.classes
    other = load_pair_data(name, seed=2)
    assert not torch.equal(data.train[0], other.train[0])
    (ood,) = data.ood.values()
    assert len(ood) > 0


def test_scores_are_those_of_scikit_learn():
    from sklearn.metrics import log_loss, roc_auc_score

    rng = torch.Generator().manual_seed(0)
    logits = torch.randn(4, 60, 3, generator=rng, dtype=torch.float64)
    labels = torch.randint(3, (60,), generator=rng)
    inside, outside = predicted(logits), predicted(3 * torch.randn(4, 30, 3, generator=rng))
    columns = score(inside, labels, {"far": outside})
    assert columns["nll"] == pytest.approx(log_loss(labels, inside.probs))
    truth = np.r_[np.ones(30), np.zeros(60)]
    both = torch.cat([outside.epistemic, inside.epistemic])
    assert columns["ood_ep"] == pytest.approx(roc_auc_score(truth, both))
    wrong = (inside.labels != labels).numpy()
    assert columns["error_tot"] == pytest.approx(roc_auc_score(wrong, inside.total))
    assert columns["ece"] is None  # too few rows


def record(pair, data, seed, **nll):
    results = {name: {"scores": {"nll": value}} for name, value in nll.items()}
    return {"pair": pair, "data": {"name": data}, "seed": seed, "methods": results}


def test_the_unit_is_the_data_set_and_p_values_are_corrected():
    rng = np.random.default_rng(0)
    records, differences = [], []
    for number in range(8):
        by_pair = []
        for pair in range(2):
            shift = rng.normal(-0.1, 0.05, size=3)
            by_pair.append(shift.mean())
            for seed in range(3):
                records.append(
                    record(f"{number}-{pair}", f"set {number}", seed, sbmc=1 + shift[seed], de=1.0,
                           net=2.0)
                )  # fmt: skip
        differences.append(np.mean(by_pair))
    found = {each.method: each for each in compare(records, "nll", "sbmc")}
    assert found["de"].sets == 8
    assert found["de"].difference == pytest.approx(np.mean(differences))
    assert found["de"].p == pytest.approx(stats.wilcoxon(differences).pvalue)
    smallest = min(each.p for each in found.values())
    assert min(each.holm for each in found.values()) == pytest.approx(2 * smallest)
    assert next(iter(average_ranks(records, "nll"))) == "sbmc"
    # Demšar's table 5: the critical value of Nemenyi's test for five classifiers is 2.728.
    assert comparison.critical_difference(5, 10) == pytest.approx(
        2.728 * (30 / 60) ** 0.5, abs=2e-3
    )


def test_a_run_goes_on_where_it_stopped_and_notes_what_is_not_supported(tmp_path, monkeypatch):
    calls = []

    def constant(run):
        calls.append(run.pair.name)
        return Fitted(lambda inputs: predicted(torch.zeros(2, len(inputs), 8)), 1.0, 2.0)

    def refusing(run):
        raise NotSupported("there is no such layer")

    monkeypatch.setitem(METHODS, "network", constant)
    monkeypatch.setitem(METHODS, "paper", refusing)
    monkeypatch.setattr(methods, "train_pair", lambda *a: pytest.fail("nothing is to be trained"))
    pair = get_pair("digits-mlp-2x64")
    run_pair(pair, 0, ["network", "paper"], tmp_path)
    again = run_pair(pair, 0, ["network", "paper"], tmp_path)
    assert calls == ["digits-mlp-2x64"]
    assert again["methods"]["paper"] == {"missing": "there is no such layer"}
    assert again["methods"]["network"]["scores"]["nll"] == pytest.approx(np.log(8))
    stored = json.loads(record_file(tmp_path, pair.name, 0).read_text("utf-8"))
    assert stored["methods"].keys() == {"network", "paper"}
    assert stored["rows"]["validation"] == 200


def test_the_default_beats_the_network_on_a_pair_of_the_development_part(tmp_path):
    pair = get_pair("digits-mlp-2x64")
    short = pair.__class__(**{**vars(pair), "training": {**pair.training, "epochs": 30}})
    record = run_pair(short, 0, ["network", "temperature", "sbmc"], tmp_path)
    ours, network = (record["methods"][name]["scores"] for name in ("sbmc", "network"))
    assert ours["nll"] <= network["nll"] + 0.01
    assert ours["ood_ep"] > network["ood_ep"]
    text = "\n".join(gauntlet_lines(tmp_path))
    assert "digits-mlp-2x64" in text
    assert "No record yet" in text


def test_the_page_has_the_tables_of_the_committed_records():
    page = (ROOT / "docs" / "gauntlet.md").read_text("utf-8")
    remedy = "run: sbmc table gauntlet --write docs/gauntlet.md"
    assert with_tables(page, RECORDS) == page, remedy
    with pytest.raises(BadInput, match="a page with the marks"):
        with_tables("no marks", RECORDS)


def test_damaged_records_are_answered_in_words(tmp_path):
    path = record_file(tmp_path, "digits-cnn", 0)
    path.parent.mkdir(parents=True)
    for text in ("{", "[]", '{"methods": 3}'):
        path.write_text(text)
        with pytest.raises(BadInput, match="Delete"):
            read_pair_record(path)


def test_the_command_runs_pairs_and_refuses_unknown_names(sbmc, monkeypatch, tmp_path):
    made = []
    monkeypatch.setattr(
        "sbmc_studies.commands.gauntlet.run_pair",
        lambda pair, seed, names, out, **options: made.append((pair.name, seed, names)),
    )
    code, output, _ = sbmc("run", "gauntlet", "--quick", "--out", tmp_path)
    assert code == 0
    assert [name for name, _, _ in made] == list(running.QUICK_PAIRS)
    assert "1 of 6" in output
    code, _, errors = sbmc("run", "gauntlet", "--set", "pairs=digits-mpl-2x64")
    assert code == 2
    assert "Did you mean 'digits-mlp-2x64'?" in errors
    code, _, errors = sbmc("table", "gauntlet", "--records", tmp_path)
    assert code == 2
    assert "sbmc run gauntlet" in errors
