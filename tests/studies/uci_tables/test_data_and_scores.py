"""The study `tables`: its list, its splits, and its scores against independent code."""

from dataclasses import replace

import numpy as np
import pytest
import scoringrules
import torch
from scipy import stats
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from torch.distributions import Normal

from sbmc.checks import BadInput
from sbmc.prediction.predictive import PredictiveMixture
from sbmc_studies.tables.scoring import (
    CLASSIFICATION_COLUMNS,
    REGRESSION_COLUMNS,
    score_classification,
    score_regression,
)
from sbmc_studies.tables.sets import find_sets, published_rows, table_groups, table_sets


def test_the_list_has_the_sets_and_splits_of_the_protocols():
    counts = {group.name: [each.splits for each in group.sets] for group in table_groups()}
    assert counts["standard"] == [20] * 6
    assert counts["gap"] == [8, 8, 4, 11, 6]
    names = [each.name for each in table_sets()]
    assert len(set(names)) == len(names) == 18
    with pytest.raises(BadInput, match="Did you mean 'concrete'"):
        find_sets(["concret"])


def test_published_rows_have_columns_of_the_tables_and_a_source():
    columns = {"seconds", *REGRESSION_COLUMNS, *CLASSIFICATION_COLUMNS}
    for table_set in table_sets():
        for row in published_rows(table_set):
            assert row.values.keys() <= columns
            assert row.source
    (airfoil,) = find_sets(["airfoil"])
    assert {row.method: row.values["rmse"] for row in published_rows(airfoil)}["bde"] == 0.1215
    (gap,) = find_sets(["concrete-gap"])
    assert [row.values["cover_95"] for row in published_rows(gap)] == [0.87]


def test_listed_splits_test_on_their_rows_and_train_on_all_others(split_of):
    split = split_of("yacht", 3)
    everything = np.concatenate([split.train_targets, split.test_targets])
    assert len(split.test_targets) == 6
    whole = np.concatenate([split_of("yacht", 4).train_targets, split_of("yacht", 4).test_targets])
    assert np.array_equal(np.sort(everything), np.sort(whole))
    assert set(split.test_targets).isdisjoint(split.train_targets)
    gap = split_of("yacht-gap")
    # The middle third of the first feature: training rows lie on both sides of it.
    low, high = gap.test_inputs[:, 0].min(), gap.test_inputs[:, 0].max()
    outside = gap.train_inputs[:, 0]
    assert ((outside < low) | (outside > high)).all()
    assert (outside < low).any()
    assert (outside > high).any()
    with pytest.raises(BadInput, match="from 0 to 19 for yacht"):
        split_of("yacht", 20)


def test_the_protocol_of_bde_has_one_split_in_units_of_its_training_rows(split_of, made_up):
    first, second = split_of("airfoil", 0), split_of("airfoil", 1)
    assert np.array_equal(first.train_targets, second.train_targets)
    assert first.train_targets.mean() == pytest.approx(0, abs=1e-12)
    assert first.train_targets.std() == pytest.approx(1)
    assert first.train_inputs.std(0) == pytest.approx(np.ones(6))
    with np.load(made_up / "uci_regression.npz") as arrays:
        raw = arrays["airfoil__y"].astype(np.float64)
    train, test = train_test_split(raw, test_size=0.2, random_state=0)
    assert first.test_targets == pytest.approx((test - train.mean()) / train.std())


def test_classes_keep_their_shares_and_splits_differ(split_of):
    first, second = split_of("glass", 0), split_of("glass", 1)
    assert np.bincount(first.test_targets).tolist() == [4, 4, 4]
    assert not np.array_equal(first.test_inputs, second.test_inputs)
    assert first.classes == 3


def mixture(rows=40):
    rng = torch.Generator().manual_seed(0)
    means = torch.randn(3, rows, generator=rng, dtype=torch.float64)
    scales = 0.2 + torch.rand(3, rows, generator=rng, dtype=torch.float64)
    weights = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    return means, scales, weights, torch.randn(rows, generator=rng, dtype=torch.float64)


def test_scores_of_numbers_are_those_of_scipy_and_scoringrules():
    means, scales, weights, targets = mixture()
    found = score_regression(PredictiveMixture(Normal(means, scales), weights), targets.numpy())
    m, s, w, y = (each.numpy() for each in (means, scales, weights, targets))
    densities = (w[:, None] * stats.norm(m, s).pdf(y)).sum(0)
    assert found["nll"] == pytest.approx(-np.log(densities).mean())
    centre = (w[:, None] * m).sum(0)
    variance = (w[:, None] * (s**2 + m**2)).sum(0) - centre**2
    moments = -stats.norm(centre, variance**0.5).logpdf(y).mean()
    assert found["nll_moments"] == pytest.approx(moments)
    assert found["rmse"] == pytest.approx(np.sqrt(((centre - y) ** 2).mean()))
    crps = scoringrules.crps_mixnorm(y, m.T, s.T, np.tile(w, (len(y), 1)))
    assert found["crps"] == pytest.approx(crps.mean())
    probability = (w[:, None] * stats.norm(m, s).cdf(y)).sum(0)
    for level in (0.9, 0.95):
        inside = abs(probability - 0.5) <= level / 2
        assert found[f"cover_{100 * level:.0f}"] == pytest.approx(inside.mean())
    assert found["width_90"] < found["width_95"]


def test_one_gaussian_has_one_nll_and_the_width_of_its_quantiles():
    means, scales, _, targets = mixture()
    one = PredictiveMixture(Normal(means[:1], scales[:1]), torch.ones(1))
    found = score_regression(one, targets.numpy())
    assert found["nll"] == pytest.approx(found["nll_moments"])
    assert found["width_90"] == pytest.approx(2 * stats.norm.ppf(0.95) * float(scales[0].mean()))


def test_scores_of_classes_are_those_of_scikit_learn():
    rng = torch.Generator().manual_seed(0)
    probs = torch.randn(30, 3, generator=rng, dtype=torch.float64).softmax(-1)
    labels = torch.randint(3, (30,), generator=rng).numpy()
    found = score_classification(probs, labels)
    assert found["nll"] == pytest.approx(log_loss(labels, probs, labels=[0, 1, 2]))
    assert found["accuracy"] == pytest.approx((probs.argmax(1).numpy() == labels).mean())
    one_hot = np.eye(3)[labels]
    assert found["brier"] == pytest.approx(((probs.numpy() - one_hot) ** 2).sum(1).mean())


def test_a_split_of_classes_says_so(split_of):
    split = split_of("glass")
    assert split.is_classification
    assert not replace(split, table_set=find_sets(["yacht"])[0]).is_classification
