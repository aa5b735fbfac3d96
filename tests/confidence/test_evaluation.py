"""The whole evaluation on a toy: names, values, seeds, and the size of what is stored."""

import numpy as np
import pytest
import torch
from confidence.toy import examples, outside, predict
from sklearn.metrics import f1_score, roc_auc_score

from sbmc.checks import BadInput
from sbmc.confidence import (
    ConfidenceClassifier,
    ConfidenceSet,
    detection,
    evaluate,
    f1_threshold,
    load_arrays,
)

RULES = ("default", "optimal_f1")
KINDS = ("precision", "recall", "f1", "accuracy", "auc_roc")


def toy_set(count, seed):
    groups = {
        "near": outside(count // 2, 10 + seed, 0.5),
        "nearer": outside(count // 2, 20 + seed, 0.1),
    }
    return ConfidenceSet(*examples(count, seed, noise=0.4), groups)


def toy_sets():
    return {
        "meta_train": toy_set(150, 0),
        "threshold": toy_set(150, 1),
        "calibration": toy_set(1200, 2),
        "test": toy_set(400, 3),
    }


@pytest.fixture(scope="module")
def clean():
    return evaluate(predict, toy_sets(), "clean", alpha=0.05, delta=0.1, splits=50)


@pytest.fixture(scope="module")
def paper():
    return evaluate(predict, toy_sets(), "paper")


def by_hand():
    """Scores and truth of the test set, and the threshold, by the shortest way."""
    sets = toy_sets()

    def table(part):
        inside = predict(part.inputs)
        wrong = (inside.labels != part.labels).long()
        parts = [inside.features(), *(predict(group).features() for group in part.ood.values())]
        truth = torch.cat([wrong, torch.ones(len(part.labels) // 2 * 2, dtype=torch.long)])
        return torch.cat(parts).numpy(), truth.numpy()

    classifier = ConfidenceClassifier(random_state=0).fit(*table(sets["meta_train"]))
    features, truth = table(sets["threshold"])
    threshold = f1_threshold(truth, classifier.predict_proba(features)[:, 1])
    features, truth = table(sets["test"])
    return classifier.predict_proba(features)[:, 1], truth, threshold


def test_values_by_hand(paper):
    score, truth, threshold = by_hand()
    metrics = paper.metrics
    assert metrics["confidence.optimal_f1.threshold"] == threshold
    assert metrics["confidence.default.f1"] == f1_score(truth, score >= 0.5)
    assert metrics["confidence.optimal_f1.f1"] == f1_score(truth, score >= threshold)
    assert metrics["confidence.optimal_f1.auc_roc"] == roc_auc_score(truth, score)
    accuracy = ((score >= threshold) == truth).mean()
    assert metrics["confidence.optimal_f1.accuracy"] == pytest.approx(accuracy)
    assert metrics["confidence.oracle_f1.f1"] >= metrics["confidence.optimal_f1.f1"]
    assert metrics["ood.meta_classifier.auroc"] == detection(score[:400], score[400:]).auroc
    counts = paper.arrays["confusion.optimal_f1"]
    assert counts.sum() == 800
    assert counts[1, 1] / counts[1].sum() == metrics["confidence.optimal_f1.recall"]


def test_names(paper, clean):
    for infix, report in (("", paper), ("clean.", clean)):
        assert all(isinstance(value, float) for value in report.metrics.values())
        for rule in RULES:
            for kind in KINDS:
                assert 0 <= report.metrics[f"confidence.{infix}{rule}.{kind}"] <= 1
        for score in ("max_probability", "total", "epistemic", "meta_classifier"):
            for kind in ("auroc", "aupr", "fpr95"):
                assert 0 <= report.metrics[f"ood.{infix}{score}.{kind}"] <= 1
    # Both reports can stand in one record.
    assert not set(paper.metrics) & set(clean.metrics)
    assert not [name for name in paper.metrics if "guarantee" in name]


def test_two_level_accuracies(paper):
    metrics, truth = paper.metrics, by_hand()[1]
    found = {name: metrics[f"confidence.two_level.{name}"] for name in ("answer_all", "best")}
    assert found["answer_all"] == pytest.approx(1 - truth.mean())
    assert metrics["confidence.two_level.abstain_all"] == pytest.approx(truth.mean())
    assert found["best"] >= metrics["confidence.default.accuracy"]
    assert metrics["confidence.aurc.in_domain"] < metrics["confidence.aurc.mixed"] < truth.mean()


def test_guarantee_in_domain_and_mixed(clean):
    metrics = clean.metrics
    for name in ("in_domain", "mixed"):
        found = {
            key.removeprefix(f"confidence.clean.guarantee.{name}."): value
            for key, value in metrics.items()
            if key.startswith(f"confidence.clean.guarantee.{name}.")
        }
        # delta plus three binomial standard errors of 50 splits.
        assert found["splits.violations"] <= 0.1 + 3 * (0.1 * 0.9 / 50) ** 0.5
        assert found["splits.coverage"] == clean.arrays[f"guarantee.{name}.splits.coverage"].mean()
        if not found["answers_nothing"]:
            assert found["bound"] <= 0.05
            assert found["coverage"] > 0
    assert metrics["confidence.clean.guarantee.in_domain.answers_nothing"] == 0.0
    in_domain, mixed = (
        metrics[f"confidence.clean.guarantee.{n}.coverage"] for n in ("in_domain", "mixed")
    )
    assert mixed < in_domain


def test_too_few_calibration_examples_are_said_to_be_too_few():
    sets = {**toy_sets(), "calibration": toy_set(100, 2)}
    metrics = evaluate(predict, sets, "clean", alpha=0.02, delta=0.05).metrics
    prefix = "confidence.clean.guarantee.in_domain."
    found = {key: value for key, value in metrics.items() if key.startswith(prefix)}
    assert found == {f"{prefix}examples": 50.0, f"{prefix}examples_needed": 149.0}


def test_arrays_are_small_and_come_back(clean, tmp_path):
    path = clean.save(tmp_path / "confidence.npz")
    assert path.stat().st_size < 50_000
    again = load_arrays(path)
    assert set(again) == set(clean.arrays)
    for name, array in clean.arrays.items():
        assert array.size <= 200
        np.testing.assert_array_equal(again[name], array)
    assert again["entropy.groups"].tolist() == ["correct", "incorrect", "near", "nearer"]
    assert [file.name for file in tmp_path.iterdir()] == ["confidence.npz"]


def test_seeded(paper):
    again = evaluate(predict, toy_sets(), "paper")
    assert again.metrics == paper.metrics
    other = evaluate(predict, toy_sets(), "paper", seed=1)
    assert (
        other.metrics["confidence.default.auc_roc"] != paper.metrics["confidence.default.auc_roc"]
    )


def test_bad_input_is_refused(clean, tmp_path):
    sets = toy_sets()
    with pytest.raises(BadInput, match="`protocol` must be one of paper, clean"):
        evaluate(predict, sets, "dirty")
    del sets["calibration"]
    with pytest.raises(BadInput, match="`sets` must be those of the protocol, meta_train"):
        evaluate(predict, sets, "clean")
    alone = {name: ConfidenceSet(each.inputs, each.labels, {}) for name, each in sets.items()}
    with pytest.raises(BadInput, match="`sets` must be of in-domain and out-of-domain inputs"):
        evaluate(predict, alone, "paper")
    with pytest.raises(BadInput, match=r"`path` must be one that ends in \.npz"):
        clean.save(tmp_path / "confidence.json")
    with pytest.raises(BadInput, match="`path` must be an existing file"):
        load_arrays(tmp_path / "none.npz")
