"""The check against long chains: its test, which runs it takes, and a run from end to end."""

import pytest
import torch
from scipy import stats

from sbmc.checks import BadInput
from sbmc_studies.commands.gauntlet import _checked_methods
from sbmc_studies.gauntlet import check
from sbmc_studies.gauntlet.check import Groups, check_run, choose_runs, permutation_test
from sbmc_studies.gauntlet.data import load_pair_data
from sbmc_studies.gauntlet.fitted import PairRun
from sbmc_studies.gauntlet.pairs import get_pair
from sbmc_studies.gauntlet.running import check_file, check_pair


def drawn(rng, particles, shift=0.0):
    return (torch.randn(particles, 20, 3, generator=rng) + shift).softmax(-1)


def test_the_distance_is_the_total_variation_between_weighted_means():
    rng = torch.Generator().manual_seed(0)
    groups = [Groups(0.7, drawn(rng, 4), drawn(rng, 6)), Groups(0.2, drawn(rng, 5), drawn(rng, 5))]
    found = permutation_test(groups, rng, permutations=9)
    off = sum(each.weight * (each.short.mean(0) - each.long.mean(0)) for each in groups)
    assert found.distance == pytest.approx(float(0.5 * off.abs().sum(-1).mean()), rel=1e-5)


def test_p_is_that_of_scipy():
    """One number a particle: scipy goes through all 252 ways of dealing ten of them out."""
    rng = torch.Generator().manual_seed(1)
    short, long = torch.randn(5, 1, 1, generator=rng), torch.randn(5, 1, 1, generator=rng) + 1
    found = permutation_test([Groups(1.0, short, long)], rng, permutations=20_000)
    exact = stats.permutation_test(
        (short.flatten().numpy(), long.flatten().numpy()),
        lambda a, b: abs(a.mean() - b.mean()),
        alternative="greater",
    )
    # Three standard errors of a share of 20,000: a false alarm in 400 seeds, and the seed is fixed.
    assert found.p == pytest.approx(exact.pvalue, abs=3 * (0.25 / 20_000) ** 0.5)


def failures(shift, runs=300):
    rng = torch.Generator().manual_seed(2)
    found = 0
    for _ in range(runs):
        groups = [
            Groups(0.6, drawn(rng, 10), drawn(rng, 10, shift)),
            Groups(0.3, drawn(rng, 10), drawn(rng, 10)),
        ]
        found += permutation_test(groups, rng, permutations=199).p <= check.LEVEL
    return found


def test_runs_as_good_as_their_repetitions_fail_once_in_a_hundred():
    """More than 9 of 300 at a rate of 0.01 have a probability of 0.001; the seed is fixed."""
    assert failures(torch.zeros(3)) <= 9


def test_runs_that_differ_fail():
    assert failures(torch.tensor([1.0, 0.0, 0.0]), runs=30) == 30


def record(pair, seed, ok):
    about = {} if ok is None else {"health": {"ok": ok}}
    return {"pair": pair, "seed": seed, "methods": {"sbmc": {"about": about}}}


def test_all_warned_runs_are_checked_and_as_many_others(monkeypatch):
    monkeypatch.setattr(check, "FEWEST_OK", 1)
    records = [record("a", 0, True), record("a", 1, True), record("b", 0, False)]
    records += [record("b", 1, False), record("c", 0, True), record("d", 0, None)]
    assert choose_runs(records, "sbmc") == [("b", 0), ("b", 1), ("a", 0), ("c", 0)]
    assert choose_runs(records[:2], "sbmc") == [("a", 0)]
    assert choose_runs(records, "sbmc-no-validation") == []


def short_run(epochs=6):
    pair = get_pair("digits-mlp-2x64")
    pair = pair.__class__(**{**vars(pair), "training": {**pair.training, "epochs": epochs}})
    return PairRun(pair, load_pair_data("digits", 0), seed=0)


@pytest.mark.parametrize("method", ["sbmc", "sbmc-no-validation"])
def test_a_run_is_repeated_as_it_was_and_compared(method, monkeypatch):
    monkeypatch.setattr(check, "LONGER", 2)
    found = check_run(short_run(), method)
    assert 0 < found["p"] <= 1
    assert found["fails"] == (found["p"] <= check.LEVEL)
    assert len(found["posteriors"]) >= 1
    weights = [each["weight"] for each in found["posteriors"]]
    assert (
        sum(weights) == pytest.approx(1.0) if method == "sbmc-no-validation" else sum(weights) < 1
    )


def test_parts_that_are_not_those_of_the_run_are_refused(monkeypatch):
    monkeypatch.setattr(check, "LONGER", 1)
    original = check._probabilities
    monkeypatch.setattr(check, "_probabilities", lambda *a: original(*a).flip(-1))
    with pytest.raises(RuntimeError, match="not those of the run"):
        check_run(short_run(), "sbmc-no-validation")


def test_checks_are_recorded_in_a_folder_of_their_own(tmp_path, monkeypatch):
    result = {"ok": True, "fails": False}
    calls = []
    monkeypatch.setattr(
        "sbmc_studies.gauntlet.running.check_run", lambda run, name: calls.append(name) or result
    )
    pair = get_pair("digits-mlp-2x64")
    check_pair(pair, 0, ["sbmc"], tmp_path)
    again = check_pair(pair, 0, ["sbmc"], tmp_path)
    assert calls == ["sbmc"]
    assert again["methods"] == {"sbmc": result}
    assert check_file(tmp_path, pair.name, 0).is_relative_to(tmp_path / "gauntlet_check")


def test_only_our_defaults_are_checked():
    assert _checked_methods(None) == ("sbmc",)
    with pytest.raises(BadInput, match="with --check"):
        _checked_methods("ensemble-5")
