"""The gauntlet: its list, its scores, its statistics, and runs that go on where they stopped."""

import json
import os
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from repository import RECORDS, ROOT
from scipy import stats
from torch import nn

from sbmc.checks import BadInput
from sbmc.prediction.mixture import ClassificationSums
from sbmc_studies.commands.gauntlet import draw_ranks, with_tables
from sbmc_studies.figures import ranks
from sbmc_studies.gauntlet import comparison, fitted, requirements, running
from sbmc_studies.gauntlet.comparison import Ranking, average_ranks, compare, detectable_difference
from sbmc_studies.gauntlet.data import _without_seen_rows, load_pair_data
from sbmc_studies.gauntlet.fitted import Fitted, NotSupported
from sbmc_studies.gauntlet.methods import METHODS
from sbmc_studies.gauntlet.networks import build_pair_network
from sbmc_studies.gauntlet.pairs import gauntlet_pairs, get_pair
from sbmc_studies.gauntlet.requirements import Share
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
    others = [each for each in found.values() if each.p != smallest]
    assert all(each.holm >= max(each.p, 2 * smallest) for each in others)
    ranking = average_ranks(records, "nll", ["sbmc", "net"])
    assert (ranking.sets, ranking.left_out) == (8, ())
    assert next(iter(ranking.ranks)) == "sbmc"
    # Demšar's table 5: the critical value of Nemenyi's test for five classifiers is 2.728.
    assert comparison.critical_difference(5, 10) == pytest.approx(
        2.728 * (30 / 60) ** 0.5, abs=2e-3
    )


def test_ranks_are_of_the_pairs_that_all_reference_methods_have():
    """Ranks by hand: of the pairs a1 and a2, which are one data set, means count; c is apart."""
    records = [
        record("a1", "a", 0, sbmc=1.0, net=2.0, swag=5.0),
        record("a2", "a", 0, sbmc=4.0, net=2.0, swag=0.1),
        record("b", "b", 0, sbmc=1.0, net=1.0, swag=3.0, laplace=9.0),
        record("c", "c", 0, net=1.0, swag=0.5),
    ]
    ranking = average_ranks(records, "nll", ["sbmc", "net"])
    assert ranking.sets == 2
    # Data set a: 2.5, 2 and 2.55; data set b: 1, 1 and 3.
    assert ranking.ranks == {"net": 1.25, "sbmc": 1.75, "swag": 3.0}
    assert ranking.left_out == ("laplace",)
    assert average_ranks(records, "nll", ["sbmc", "temperature"]).ranks == {}


def test_groups_join_methods_that_are_less_than_the_critical_difference_apart(monkeypatch):
    monkeypatch.setattr(comparison, "critical_difference", lambda methods, sets: 1.5)
    ranks = {"a": 1.0, "b": 2.0, "c": 2.4, "d": 4.0, "e": 6.0}
    assert Ranking(ranks, 9, ()).groups() == [("a", "b", "c")]
    assert Ranking(ranks | {"d": 3.0}, 9, ()).groups() == [("a", "b", "c"), ("b", "c", "d")]


def test_the_detectable_difference_is_found_with_the_stated_power():
    """Against the exact power of the paired t-test, by scipy's noncentral t distribution."""
    for count in (5, 8, 20):
        effect = detectable_difference(0.3, count)
        shift = effect / (0.3 / count**0.5)
        bound = stats.t.ppf(0.975, count - 1)
        power = stats.nct.sf(bound, count - 1, shift) + stats.nct.cdf(-bound, count - 1, shift)
        assert power == pytest.approx(0.8, abs=0.03)


def test_a_paired_difference_has_the_standard_error_of_its_seeds():
    records = [record("p", "d", seed, sbmc=x, net=1.0) for seed, x in enumerate((1.1, 1.3, 1.2))]
    records.append(record("q", "d", 0, sbmc=1.5, net=1.0))
    found = comparison.paired_differences(records, "nll", "sbmc", "net")
    assert found["p"] == pytest.approx((0.2, stats.sem([0.1, 0.3, 0.2])))
    assert found["q"] == pytest.approx((0.5, 0.0))


def test_a_run_goes_on_where_it_stopped_and_notes_what_is_not_supported(tmp_path, monkeypatch):
    calls = []

    def constant(run):
        calls.append(run.pair.name)
        return Fitted(lambda inputs: predicted(torch.zeros(2, len(inputs), 8)), 1.0, 2.0)

    def refusing(run):
        raise NotSupported("there is no such layer")

    monkeypatch.setitem(METHODS, "network", constant)
    monkeypatch.setitem(METHODS, "paper", refusing)
    monkeypatch.setattr(fitted, "train_batch", lambda *a: pytest.fail("nothing is to be trained"))
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


@pytest.mark.parametrize("name", ["docs/gauntlet.md", "README.md"])
def test_the_page_has_the_tables_of_the_committed_records(name):
    page = (ROOT / name).read_text("utf-8")
    assert with_tables(page, RECORDS) == page, f"run: sbmc table gauntlet --write {name}"


def test_a_page_without_marks_is_refused():
    with pytest.raises(BadInput, match="a page with `<!-- table: gauntlet -->`"):
        with_tables("no marks", RECORDS)


def test_a_record_of_an_older_protocol_is_made_anew(tmp_path, monkeypatch, caplog):
    """Its network is another one, so that its methods cannot stand beside new ones."""
    pair = get_pair("digits-mlp-2x64")
    path = record_file(tmp_path, pair.name, 0)
    path.parent.mkdir(parents=True)
    path.write_text('{"methods": {"ensemble-5": {}}}')
    monkeypatch.setitem(
        METHODS,
        "network",
        lambda run: Fitted(lambda inputs: predicted(torch.zeros(2, len(inputs), 8)), 1.0, 2.0),
    )
    record = run_pair(pair, 0, ["network"], tmp_path)
    assert record["methods"].keys() == {"network"}
    assert "older protocol" in caplog.text


def test_a_method_that_fails_is_recorded_and_counts_as_not_ok(tmp_path, monkeypatch):
    def diverging(run):
        raise RuntimeError("the position is not finite")

    monkeypatch.setitem(METHODS, "sbmc", diverging)
    record = run_pair(get_pair("digits-mlp-2x64"), 0, ["sbmc"], tmp_path)
    assert record["methods"]["sbmc"]["missing"] == "failed: the position is not finite"
    assert requirements.healthy([record], [], "sbmc") == Share(0, 1)


def test_validation_rows_that_repeat_training_rows_are_left_out():
    data = load_pair_data("digits", 0)
    repeated = (
        torch.cat([data.validation[0], data.train[0][:3]]),
        torch.cat([data.validation[1], data.train[1][:3]]),
    )
    cleaned = _without_seen_rows(replace(data, validation=repeated))
    assert torch.equal(cleaned.validation[0], data.validation[0])
    assert torch.equal(cleaned.validation[1], data.validation[1])


def result(nll, seconds=1.0, ood=0.5, ece=None, ok=None):
    about = {} if ok is None else {"health": {"ok": ok}}
    scores = {"nll": nll, "ood_ep": ood, "ece": ece}
    return {"scores": scores, "seconds": seconds, "passes": 1.0, "about": about}


def test_required_figures_are_counted_as_they_are_stated():
    """Pair a is worse than the network by 0.05 on average, and 0.05 is below its error + 0.01."""
    values = {"a": [1.0, 1.1, 1.05], "b": [1.02], "c": [0.9]}
    records = [
        {
            "pair": pair,
            "seed": seed,
            "data": {"name": pair},
            "methods": {
                "network": result(1.0),
                "temperature": result(1.0, ece=0.1),
                "ensemble-5": result(1.0, seconds=2.0, ood=0.6),
                "sbmc": result(nll, 1.0 if pair == "a" else 3.0, 0.7, 0.05, ok=pair != "b"),
            },
        }
        for pair, nlls in values.items()
        for seed, nll in enumerate(nlls)
    ]
    checks = [{"methods": {"sbmc": {"ok": ok, "fails": not ok}}} for ok in (False, True, True)]

    def measured(measure):
        return measure(records, checks, "sbmc")

    error = stats.sem(values["a"])
    assert 0.01 < 0.05 - error < 0.03
    assert measured(requirements.no_worse_than_network) == Share(1, 3)
    records[0]["methods"]["sbmc"]["scores"]["nll"] = 0.9  # the mean is 0.017, the error 0.06
    assert measured(requirements.no_worse_than_network) == Share(2, 3)
    assert measured(requirements.below_ensemble) == Share(1, 3)
    assert measured(requirements.within_time) == Share(1, 3)
    assert measured(requirements.below_within_time) == Share(0, 3)
    assert measured(requirements.calibrated) == Share(3, 3)
    assert measured(requirements.detects_more) == Share(3, 3)
    assert measured(requirements.median_gain) == pytest.approx(0.1)
    assert measured(requirements.healthy) == Share(4, 5)
    assert measured(requirements.failing(False)) == Share(1, 1)
    assert measured(requirements.failing(True)) == Share(0, 2)
    assert str(Share(1, 3)) == "33 % (1 of 3)"
    assert str(Share(0, 0)) == "–"


def test_the_picture_of_ranks_has_each_method_at_its_rank_and_a_bar_over_each_group():
    ranking = Ranking({"a": 1.0, "b": 2.0, "c": 3.0}, 5, ())
    figure = ranks.build(ranking, "confirmation")
    methods_curve, *bars = figure.chart.curves
    assert list(methods_curve.x) == [1.0, 2.0, 3.0]
    names = dict(zip(figure.chart.y.at, figure.chart.y.names, strict=True))
    assert [names[y] for y in methods_curve.y] == ["a", "b", "c"]
    assert [tuple(each.x) for each in bars] == [(1.0, 2.0), (2.0, 3.0)]
    # Bars are below all methods, and each on a line of its own.
    heights = [set(each.y) for each in bars]
    assert max(max(each) for each in heights) < min(methods_curve.y)
    assert len(set(map(tuple, heights))) == 2


def test_the_command_draws_the_ranks(sbmc, tmp_path):
    pytest.importorskip("matplotlib")
    code, output, _ = sbmc("figure", "gauntlet", "--records", RECORDS, "--out", tmp_path / "x.svg")
    assert code == 0
    assert "x.svg" in output
    assert "sbmc-no-validation" in (tmp_path / "x.svg").read_text("utf-8")
    code, _, errors = sbmc("figure", "gauntlet", "roc", "--records", RECORDS)
    assert code == 2
    assert "one figure" in errors
    code, _, errors = sbmc("figure", "gauntlet", "--records", tmp_path)
    assert code == 2
    assert "sbmc run gauntlet" in errors


def test_the_picture_on_the_page_is_that_of_the_committed_records(tmp_path):
    """Versions that draw the same bytes are those of the constraints."""
    pinned = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    for package in ("matplotlib", "pillow"):
        if f"{package}=={version(package)}" not in pinned:
            pytest.skip(f"another version of {package} draws other pixels")
    draw_ranks(RECORDS, tmp_path / "ranks.png")
    page = ROOT / "docs" / "images" / "gauntlet_ranks.png"
    remedy = f"run: sbmc figure gauntlet --out {page.relative_to(ROOT)}"
    assert (tmp_path / "ranks.png").read_bytes() == page.read_bytes(), remedy


def test_the_command_checks_the_runs_that_are_recorded(sbmc, monkeypatch, tmp_path):
    for seed, ok in ((0, True), (1, False)):
        path = record_file(tmp_path, "digits-cnn", seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        methods_of = {"sbmc": {"about": {"health": {"ok": ok}}}}
        path.write_text(json.dumps({"pair": "digits-cnn", "seed": seed, "methods": methods_of}))
    made = []
    monkeypatch.setattr(
        "sbmc_studies.commands.gauntlet.check_pair",
        lambda pair, seed, names, out, **options: made.append((pair.name, seed, names)),
    )
    code, _, _ = sbmc("run", "gauntlet", "--check", "--out", tmp_path)
    assert code == 0
    assert made == [("digits-cnn", 1, ("sbmc",)), ("digits-cnn", 0, ("sbmc",))]
    code, _, errors = sbmc("run", "digits", "--check")
    assert code == 2
    assert "other than the gauntlet" in errors


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
