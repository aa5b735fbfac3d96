import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from torch import nn

import sbmc
from sbmc.checks import BadInput

RNG = np.random.RandomState(1)
X = RNG.randn(90, 2)
LABELS = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
QUICK = {"budget": 0.05, "training_options": {"max_epochs": 60}, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    return sbmc.SBMCClassifier((16,), **QUICK).fit(X, LABELS)


def test_labels_are_strings_in_the_order_of_classes(fitted):
    assert fitted.classes_.tolist() == ["high", "low", "middle"]
    probabilities = fitted.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert (fitted.predict(X) == fitted.classes_[probabilities.argmax(1)]).all()
    assert fitted.score(X, LABELS) > 0.85
    np.testing.assert_allclose(fitted.predict_log_proba(X), np.log(probabilities))


def test_score_takes_weights(fitted):
    right = fitted.predict(X) == LABELS
    weights = np.arange(len(X))
    assert fitted.score(X, LABELS, weights) == pytest.approx(weights[right].sum() / weights.sum())


def test_the_prediction_has_all_that_can_be_asked(fitted):
    prediction = fitted.predictive(X)
    assert isinstance(prediction, sbmc.Prediction)
    numbered = torch.as_tensor(np.searchsorted(fitted.classes_, LABELS))
    mean = np.log(fitted.predict_proba(X)[np.arange(90), numbered]).mean()
    assert prediction.log_prob(numbered).mean().item() == pytest.approx(mean)
    assert len(prediction.to_pandas()) == 90


def test_the_posterior_takes_rows_of_the_table(fitted):
    probs = fitted.posterior_.predict(torch.tensor(X)).probs
    np.testing.assert_array_equal(probs.numpy(), fitted.predict_proba(X))


def test_rows_set_aside_choose_s(fitted):
    assert fitted.validation_rows_ == fitted.posterior_.mixture.rows > 5
    without = sbmc.SBMCClassifier((16,), validation_fraction=0, **QUICK).fit(X, LABELS)
    assert without.validation_rows_ == 0
    assert without.posterior_.mixture is None
    assert without.n_epochs_ == 60


def test_data_frames_have_names_that_must_agree():
    table = pd.DataFrame(X, columns=["size", "age"])
    model = sbmc.SBMCClassifier((4,), **QUICK).fit(table, LABELS)
    assert model.feature_names_in_.tolist() == ["size", "age"]
    np.testing.assert_array_equal(model.predict_proba(table), model.predict_proba(table.copy()))
    with pytest.raises(ValueError, match="same order"):
        model.predict(table[["age", "size"]])


def test_rows_of_weight_zero_are_no_rows():
    weights = np.ones(90)
    weights[60:] = 0
    weighted = sbmc.SBMCClassifier((8,), **QUICK).fit(X, LABELS, sample_weight=weights)
    fewer = sbmc.SBMCClassifier((8,), **QUICK).fit(X[:60], LABELS[:60], np.ones(60))
    np.testing.assert_array_equal(weighted.predict_proba(X), fewer.predict_proba(X))


def test_weights_count_rows():
    # Nothing but the bias can tell classes apart, so that it learns their share.
    labels = np.array([0, 1] * 60)
    model = sbmc.SBMCClassifier((), random_state=0, budget=1)
    model.fit(np.zeros((120, 1)), labels, sample_weight=np.where(labels, 9.0, 1.0))
    assert model.predict_proba([[0.0]])[0, 1] == pytest.approx(0.9, abs=0.03)


def test_a_module_of_ones_own_starts_at_its_weights_and_is_left_alone():
    module = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 3))
    before = [each.clone() for each in module.parameters()]
    options = {**QUICK, "training_options": {"max_epochs": 1, "learning_rate": 1e-9}}
    model = sbmc.SBMCClassifier(module=module, fit_options={"s": 0}, **options).fit(X, LABELS)
    for old, new in zip(before, module.parameters(), strict=True):
        assert torch.equal(old, new)
    standardised = torch.tensor((X - X.mean(0)) / X.std(0), dtype=torch.float32)
    expected = module(standardised).softmax(1).detach().numpy()
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-5)


def test_a_callable_makes_the_module():
    sizes = []

    def make(inputs, outputs):
        sizes.append((inputs, outputs))
        return nn.Linear(inputs, outputs)

    first, second = (
        sbmc.SBMCClassifier(module=make, **QUICK).fit(X, LABELS).predict_proba(X) for _ in range(2)
    )
    assert sizes == [(2, 3), (2, 3)]
    np.testing.assert_array_equal(first, second)  # its weights were drawn with the same seed


def test_threads_are_those_asked_for(fitted, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "sbmc.posterior.posterior.predict",
        lambda *arguments, **options: seen.append(torch.get_num_threads()),
    )
    for jobs in (2, 1):
        fitted.set_params(n_jobs=jobs).predictive(X)
    fitted.set_params(n_jobs=None)
    assert seen == [2, 1]


def test_verbose_shows_progress(capsys):
    sbmc.SBMCClassifier((4,), verbose=1, **QUICK).fit(X, LABELS)
    assert "training" in capsys.readouterr().err


class Single(nn.Module):
    """A network that can do nothing but float32."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, inputs):
        return self.layer(inputs) @ torch.eye(3)


REFUSED = [
    ({"hidden_layers": (4, 0)}, X, LABELS, "`hidden_layers` must be a sequence of positive"),
    ({"hidden_layers": "wide"}, X, LABELS, "`hidden_layers` must be a sequence"),
    ({"hidden_layers": 8}, X, LABELS, "`hidden_layers` must be a sequence"),
    ({"validation_fraction": 1.0}, X, LABELS, "`validation_fraction` must be"),
    ({"module": "mlp"}, X, LABELS, "`module` must be an nn.Module, or a callable"),
    ({"module": nn.Linear(2, 2)}, X, LABELS, r"from 2 columns to 3 outputs, .*but got .*\(2, 2\)"),
    ({"module": nn.Linear(5, 3)}, X, LABELS, "to 3 outputs, .*but got one that fails in .*float32"),
    ({"module": Single()}, X, LABELS, "to 3 outputs, .*but got one that fails in torch.float64"),
    ({}, X, ["one"] * 90, "`y` must be labels of two classes or more"),
    ({}, X, X[:, 0], "Unknown label type"),
    ({}, np.where(X > 1, np.nan, X), LABELS, "NaN"),
    ({}, sparse.csr_matrix(X), LABELS, "[Ss]parse"),
    ({"budget": "soon"}, X, LABELS, "`budget` must be"),
]


@pytest.mark.parametrize(("options", "table", "labels", "words"), REFUSED)
def test_what_is_refused(options, table, labels, words):
    with pytest.raises((BadInput, ValueError, TypeError), match=words):
        sbmc.SBMCClassifier(**{**QUICK, **options}).fit(table, labels)


@pytest.mark.parametrize(
    ("weight", "words"), [(-1.0, "not negative"), (0.0, "above zero for some")]
)
def test_weights_that_are_refused(weight, words):
    with pytest.raises(BadInput, match=f"`sample_weight` must be .*{words}"):
        sbmc.SBMCClassifier(**QUICK).fit(X, LABELS, sample_weight=np.full(90, weight))


@pytest.mark.parametrize("rows", [2, 3, 6])
def test_tiny_tables(rows):
    table = np.column_stack([np.arange(rows), np.ones(rows)])  # and a column that is constant
    model = sbmc.SBMCClassifier((4,), **QUICK).fit(table, np.arange(rows) % 2)
    assert np.isfinite(model.predict_proba(table)).all()
