"""`sbmc.tune`: it finds what it should, scores what was held out, and goes on where it was."""

import json
import math

import pytest
import torch
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.tuning import Cell, Tuning, read_tuning, runner, tune, within_error
from sbmc.tuning.folds import make_folds
from sbmc.tuning.result import Point, best
from sbmc.tuning.saved_cells import SavedCells

QUICK = {
    "sampler": sbmc.HMC(steps=4, leapfrog=1),
    "particles": 4,
    "folds": 3,
    "learning_rate": 0.05,
    "batch_size": 32,
    "max_epochs": 20,
    "window": 3,
    "patience": 3,
    "progress": False,
}


def logistic(weight, count=240, width=12):
    """Labels of a logistic regression whose weights have this standard deviation."""
    rng = torch.Generator().manual_seed(7)
    inputs = torch.randn(count, width, generator=rng)
    logits = inputs @ (weight * torch.randn(width, generator=rng))
    return inputs, (torch.rand(count, generator=rng) < logits.sigmoid()).long()


def test_it_prefers_the_variance_that_the_data_have():
    # Two outputs w₁, w₂ of variance v have a difference of variance 2 v.
    weak = tune(
        nn.Linear(12, 2), logistic(0.1), v=[0.003, 0.1, 3.0], s=[0.0], extensions=0, **QUICK
    )
    strong = tune(
        nn.Linear(12, 2), logistic(3.0), v=[0.003, 0.1, 3.0], s=[0], extensions=0, **QUICK
    )
    assert weak.v < strong.v
    assert weak.complete
    assert strong.s == strong.sampled_s == 0.0


def test_scores_are_those_of_the_held_out_examples():
    inputs, labels = logistic(1.0)
    found = tune(nn.Linear(12, 2), (inputs, labels), v=0.3, s=[0.0, 0.1], **QUICK)
    fold = make_folds(labels, 3, seed=0)[1]
    training = {
        k: QUICK[k] for k in ("learning_rate", "batch_size", "max_epochs", "window", "patience")
    }
    model = sbmc.train_map(
        nn.Linear(12, 2), (inputs[fold.train], labels[fold.train]),
        (inputs[fold.validation], labels[fold.validation]), prior_variance=0.3,
        initial="prior", **training,
    )  # fmt: skip
    cells = {(cell.s, cell.fold): cell for cell in found.cells}
    with torch.no_grad():
        expected = nn.functional.cross_entropy(model(inputs[fold.held_out]), labels[fold.held_out])
    assert cells[None, 1].scores["nll"] == pytest.approx(float(expected), rel=1e-5)
    assert cells[0.0, 1].scores == cells[None, 1].scores
    posterior = sbmc.fit(
        model, (inputs[fold.seen], labels[fold.seen]), s=0.1, prior_variance=0.3,
        sampler=QUICK["sampler"], particles=4, compute=sbmc.Compute(first_island=1),
    )  # fmt: skip
    probs = posterior.predict(inputs[fold.held_out]).probs
    assert cells[0.1, 1].scores["accuracy"] == sbmc.prediction.metrics.accuracy(
        probs, labels[fold.held_out]
    )
    nll = sbmc.prediction.metrics.nll(probs, labels[fold.held_out])
    assert cells[0.1, 1].scores["nll"] == pytest.approx(nll, rel=1e-5)


def test_the_grid_grows_while_the_best_lies_at_its_edge():
    found = tune(nn.Linear(12, 2), logistic(3.0), v=[0.001, 0.003], s=[0], extensions=2, **QUICK)
    assert found.extended == (0.01, 0.03)
    assert found.v == 0.03
    assert found.v_grid == (0.001, 0.003)
    alone = tune(nn.Linear(12, 2), logistic(3.0), v=0.001, s=[0], extensions=2, **QUICK)
    assert (alone.v, alone.extended) == (0.001, ())


def test_regression():
    inputs = torch.randn(60, 3)
    data = inputs, inputs @ torch.tensor([1.0, -2.0, 0.5]) + 0.1 * torch.randn(60)
    found = tune(
        nn.Linear(3, 1), data, v=[0.01, 1.0], s=[0, 0.1], extensions=0,
        likelihood=sbmc.Gaussian(noise_variance=0.01), **QUICK,
    )  # fmt: skip
    assert found.v == 1.0
    assert set(found.v_points[0].means) == {"nll", "rmse"}


def test_a_stopped_tuning_goes_on_with_the_same_scores(tmp_path, monkeypatch):
    def run(folder, **changes):
        return tune(
            nn.Linear(12, 2), logistic(1.0), v=[0.1, 1.0], s=[0, 0.1, 0.3], extensions=0,
            folder=folder, **{**QUICK, **changes},
        )  # fmt: skip

    whole = run(tmp_path / "whole")
    real, calls = runner.fit, []

    def stopping(*arguments, **options):
        calls.append(options["s"])
        if len([s for s in calls if s]) == 3:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(runner, "fit", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut")
    part = read_tuning(tmp_path / "cut" / "tuning.json")
    assert not part.complete
    assert len(part.cells) == 6 + 3 + 2
    monkeypatch.setattr(runner, "fit", real)
    monkeypatch.setattr(runner, "train_jobs", lambda *a: pytest.fail("nothing is to be trained"))
    resumed = run(tmp_path / "cut")
    scores = {cell.key: cell.scores for cell in whole.cells}
    assert {cell.key: cell.scores for cell in resumed.cells} == scores
    assert read_tuning(tmp_path / "cut" / "tuning.json") == resumed

    # A second call computes nothing; one with more values of s adds them alone.
    monkeypatch.setattr(runner, "fit", lambda *a, **k: pytest.fail("nothing is to be sampled"))
    assert {cell.key: cell.scores for cell in run(tmp_path / "cut").cells} == scores
    monkeypatch.setattr(runner, "fit", real)
    more = tune(
        nn.Linear(12, 2), logistic(1.0), v=[0.1, 1.0], s=[0.5], extensions=0,
        folder=tmp_path / "cut", **QUICK,
    )  # fmt: skip
    assert len(more.cells) == len(scores) + 3
    assert more.s == 0.5

    with pytest.raises(BadInput, match="another learning_rate"):
        run(tmp_path / "cut", learning_rate=0.01)


def test_networks_that_are_gone_are_trained_again(tmp_path):
    def run(s):
        return tune(
            nn.Linear(12, 2), logistic(1.0), v=0.1, s=s, folder=tmp_path, **QUICK,
        )  # fmt: skip

    first = run([0.1])
    weights = sorted((tmp_path / "weights").iterdir())
    assert len(weights) == 3
    weights[0].unlink()
    weights[1].write_bytes(b"cut")
    again = run([0.1, 0.2])
    old = {cell.key: cell.scores for cell in first.cells}
    assert {key: s for key, s in ((c.key, c.scores) for c in again.cells) if key in old} == old


def test_two_processes_on_one_folder_keep_each_others_scores(tmp_path):
    beginning = Tuning({"folds": 2}, 0, (0.1,), (0.1,))
    first, second = SavedCells(tmp_path, beginning), SavedCells(tmp_path, beginning)
    first.add(Cell(0.1, None, 0, {"nll": 1.0}, 1.0, 1.0))
    second.add(Cell(0.1, None, 1, {"nll": 2.0}, 1.0, 1.0))
    first.add(Cell(0.1, 0.1, 0, {"nll": 3.0}, 1.0, 1.0))
    found = read_tuning(tmp_path / "tuning.json").cells
    assert sorted(cell.scores["nll"] for cell in found) == [1.0, 2.0, 3.0]


def test_examples_are_a_subset():
    found = tune(nn.Linear(12, 2), logistic(1.0), v=0.1, s=0, examples=60, **QUICK)
    assert found.settings["examples"] == 60
    assert found.v_points[0].means["accuracy"] * 20 == pytest.approx(
        round(found.v_points[0].means["accuracy"] * 20 * 3) / 3
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"v": 0}, "`v` must be positive"),
        ({"s": 1.5}, "`s` must be in [0, 1]"),
        ({"folds": 1}, "`folds`"),
        ({"sampler": "hmc"}, "`sampler` must be settings"),
        ({"start": "ensemble"}, "`start` must be 'anchor' or 'prior'"),
        ({"likelihood": lambda o, t: o.sum(-1)}, "`likelihood` must be 'categorical'"),
        ({"extensions": -1}, "`extensions`"),
        ({"particles": 0}, "`particles`"),
        ({"max_epochs": 0}, "`max_epochs`"),
        ({"seed": -1}, "`seed`"),
        ({"examples": 0}, "`examples`"),
        ({"validation_share": 0}, "`validation_share`"),
    ],
)
def test_refuses_before_any_computing(changes, words, monkeypatch):
    monkeypatch.setattr(runner, "train_jobs", lambda *a: pytest.fail("it began to train"))
    with pytest.raises(BadInput) as refusal:
        tune(nn.Linear(12, 2), logistic(1.0), **{**QUICK, **changes})
    assert words in str(refusal.value)


def point(value, nll, error=0.01, failed=0):
    return Point(value, {"nll": nll}, {"nll": error}, 1.0, 5, failed)


def test_a_value_that_failed_on_a_fold_is_never_chosen():
    points = [point(0.1, 0.2, failed=1), point(1.0, 0.3)]
    assert best(points, "v") == 1.0
    assert within_error(points) == [1.0]
    assert math.isinf(points[0].nll)
    with pytest.raises(RuntimeError, match="No value of v could be scored"):
        best([point(0.1, 0.2, failed=1)], "v")


def test_the_best_s_above_0_is_known_too():
    scores = {0.0: 0.1, 0.1: 0.3, 0.2: 0.2}
    cells = [Cell(1.0, s, 0, {"nll": scores[s]}, 1.0, 1.0) for s in scores]
    cells.append(Cell(1.0, None, 0, {"nll": 0.1}, 1.0, 1.0))
    found = Tuning({"folds": 1}, 0, (1.0,), tuple(scores), cells=tuple(cells))
    assert (found.s, found.sampled_s) == (0.0, 0.2)


def test_files_that_are_no_tuning_are_refused(tmp_path):
    path = tmp_path / "tuning.json"
    for content in ("{", "[]", '{"schema_version": 1}', '{"schema_version": 2}'):
        path.write_text(content)
        with pytest.raises(BadInput, match="must be a readable tuning"):
            read_tuning(path)


def test_a_tuning_comes_back_from_json():
    found = tune(nn.Linear(12, 2), logistic(1.0), v=0.1, s=[0.1], **QUICK)
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    again = Tuning.from_dict(plain)
    assert (again.v, again.s, len(again.cells)) == (0.1, 0.1, 6)
    assert plain["chosen"] == {"v": 0.1, "s": 0.1}
