"""A fitted confidence: scores, decisions, whose predictions it takes, and storage."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from confidence.toy import examples, outside, predict
from torch import nn

from sbmc.checks import BadInput
from sbmc.confidence import ABSTAIN, ConfidenceClassifier, fit_confidence, from_state, to_state
from sbmc.confidence.abstention import ood_groups
from sbmc.model.parameters import ParameterSpace
from sbmc.posterior.origin import origin_digest
from sbmc.prediction.combining import regression_prediction
from sbmc.prediction.prediction import Prediction


@pytest.fixture(scope="module")
def toy():
    return predict, examples(200, 0), outside(100, 9)


@pytest.fixture(scope="module")
def fitted(toy):
    _, data, ood = toy
    return fit_confidence(predict, data, ood, threshold=0.5, origin="a" * 64)


def test_it_learns_from_correct_against_incorrect_and_outside(toy, fitted):
    _, (inputs, labels), ood = toy
    inside, beyond = predict(inputs), predict(ood)
    truth = np.concatenate([(inside.labels != labels).numpy(), np.ones(len(ood))]).astype(int)
    assert 0 < truth[: len(labels)].sum() < len(labels)
    features = torch.cat([inside.features(), beyond.features()]).numpy()
    expected = ConfidenceClassifier(0.5, random_state=0).fit(features, truth)
    score = fitted.score(inputs)
    assert score.dtype == torch.float64
    assert np.array_equal(score.numpy(), expected.predict_proba(inside.features())[:, 1])
    assert np.array_equal(fitted.abstain(ood).numpy(), expected.predict(beyond.features()) == 1)


def test_inputs_and_their_prediction_give_the_same(toy, fitted):
    _, (inputs, _), _ = toy
    assert torch.equal(fitted.score(inputs), fitted.score(predict(inputs)))


def test_decisions(toy, fitted):
    _, (inputs, _), _ = toy
    decision = fitted.decide(inputs)
    assert torch.equal(decision.abstained, decision.score >= 0.5)
    assert (decision.labels[decision.abstained] == ABSTAIN).all()
    answered = ~decision.abstained
    assert torch.equal(decision.labels[answered], predict(inputs).labels[answered])
    assert 0 < int(answered.sum()) < len(inputs)


def test_groups_by_name_are_one_after_the_other(toy):
    _, data, ood = toy
    whole = fit_confidence(predict, data, ood, threshold=0.5)
    named = fit_confidence(predict, data, {"a": ood[:30], "b": ood[30:]}, threshold=0.5)
    assert torch.equal(whole.score(data[0]), named.score(data[0]))


def test_a_dict_of_inputs_is_one_group():
    one = {"ids": torch.zeros(3, 2)}
    assert ood_groups(one, named_inputs=True) == [one]
    assert ood_groups({"far": one, "near": one}, named_inputs=True) == [one, one]
    assert ood_groups({"far": one["ids"]}, named_inputs=False) == [one["ids"]]
    assert ood_groups(None, named_inputs=True) == []


# Whose predictions.


def test_predictions_of_another_posterior_are_refused(toy, fitted):
    _, (inputs, _), _ = toy
    own = replace(predict(inputs), origin="a" * 64)
    assert len(fitted.score(own)) == len(inputs)
    with pytest.raises(BadInput, match="this confidence was fitted to, but got one of another"):
        fitted.score(replace(own, origin="b" * 64))
    with pytest.raises(BadInput, match="`posterior` must be of the posterior"):
        fitted.bind(predict, "b" * 64)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": 2.0}, "`threshold` must be a number from 0 to 1, or 'f1', but got 2.0"),
        ({"seed": -1}, "`seed` must be an integer from 0 to 2**32 - 1, but got -1"),
    ],
)
def test_settings_are_refused_before_anything_is_predicted(settings, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        fit_confidence(None, examples(5, 0), **settings)


def test_levels_are_refused_before_anything_is_predicted(fitted):
    with pytest.raises(BadInput, match="`alpha` must be between 0 and 1"):
        fitted.calibrate(None, alpha=1.0)


def test_a_prediction_without_features_is_refused(fitted):
    probs, zero = torch.full((2, 2), 0.5), torch.zeros(2)
    with pytest.raises(BadInput, match="to have features"):
        fitted.score(Prediction(probs, zero, zero, zero))


def test_the_digest_sees_positions_weights_and_model():
    positions = torch.arange(6.0).view(1, 2, 3)
    weights = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    space = ParameterSpace(("w",), (torch.Size([3]),))
    base = origin_digest(positions, weights, space, "model")
    assert base == origin_digest(positions.clone(), weights.clone(), space, "model")
    moved = positions.clone()
    moved[0, 1, 2] += 1e-6
    others = [
        origin_digest(moved, weights, space, "model"),
        origin_digest(positions, weights.flip(1) * torch.tensor([0.8, 1.2]), space, "model"),
        origin_digest(positions, weights, ParameterSpace(("v",), space.shapes), "model"),
        origin_digest(positions, weights, space, "other"),
        origin_digest(positions.view(2, 1, 3), weights, space, "model"),
    ]
    assert len({base, *others}) == 6


# What it cannot learn from.


def test_nothing_incorrect_and_nothing_outside_is_refused(toy):
    _, (inputs, _), _ = toy
    right = predict(inputs).labels
    with pytest.raises(BadInput, match="200 correct predictions and nothing else"):
        fit_confidence(predict, (inputs, right))
    with pytest.raises(BadInput, match="200 predictions, none of them correct"):
        fit_confidence(predict, (inputs, 1 - right), inputs)


def test_nothing_incorrect_is_a_warning_where_there_is_something_outside(toy):
    _, (inputs, _), ood = toy
    with pytest.warns(UserWarning, match="All 200 in-domain predictions are correct"):
        found = fit_confidence(predict, (inputs, predict(inputs).labels), ood, threshold=0.5)
    assert found.score(ood).mean() > found.score(inputs).mean() + 0.3


def test_without_outside_inputs_it_knows_incorrect_ones(toy):
    _, (inputs, labels), _ = toy
    found = fit_confidence(predict, (inputs, labels), threshold=0.5)
    wrong = predict(inputs).labels != labels
    score = found.score(inputs)
    assert score[wrong].mean() > score[~wrong].mean() + 0.1


def test_regression_is_refused(toy):
    _, data, _ = toy
    with pytest.raises(
        BadInput, match=r"numbers have `fit_interval_confidence`\), but got RegressionPrediction"
    ):
        fit_confidence(lambda x: regression_prediction(x.T, torch.ones(1), 1.0), data)


# The guarantee.


def test_calibration_replaces_the_threshold(toy):
    _, data, ood = toy
    confidence = fit_confidence(predict, data, ood, threshold=0.5)
    found = confidence.calibrate(examples(2000, 1), alpha=0.02, delta=0.05)
    assert confidence.guaranteed is found
    assert not found.answers_nothing
    assert 0.3 < found.coverage < 1
    inputs, labels = examples(5000, 2)
    decision = confidence.decide(inputs)
    answered = ~decision.abstained
    # Were the true error 2 %, four standard errors more would be seen in 1 of 30,000 cases.
    error = (decision.labels[answered] != labels[answered]).double().mean().item()
    assert error < 0.02 + 4 * (0.02 * 0.98 / int(answered.sum())) ** 0.5
    assert torch.equal(decision.abstained, decision.score >= found.threshold)


def test_a_calibration_that_finds_nothing_answers_nothing(toy):
    _, data, ood = toy
    confidence = fit_confidence(predict, data, ood, threshold=0.5)
    inputs, labels = examples(400, 1)
    found = confidence.calibrate((inputs, 1 - labels))
    assert found.answers_nothing
    assert confidence.abstain(inputs).all()


def test_too_few_calibration_examples_are_refused(toy):
    _, data, ood = toy
    confidence = fit_confidence(predict, data, ood, threshold=0.5)
    with pytest.raises(BadInput, match=r"at least 149 examples .* but got 100"):
        confidence.calibrate(examples(100, 1))
    assert confidence.guaranteed is None


# Storage.


def test_taken_apart_and_put_together_it_gives_the_same_bits(toy):
    _, data, ood = toy
    confidence = fit_confidence(predict, data, ood, threshold="f1", origin="c" * 64)
    confidence.calibrate(examples(1000, 1))
    words, tensors = to_state(confidence)
    words = json.loads(json.dumps(words))
    other = {"positions": torch.zeros(2)}
    again = from_state(words, {**other, **{name: t.clone() for name, t in tensors.items()}})
    assert all(name.startswith("confidence.") for name in tensors)
    assert (again.threshold, again.origin) == (confidence.threshold, confidence.origin)
    assert again.guaranteed == confidence.guaranteed
    prediction = predict(data[0])
    assert torch.equal(again.score(prediction), confidence.score(prediction))
    with pytest.raises(
        BadInput, match="`inputs` must be a Prediction, since no posterior is bound"
    ):
        again.score(data[0])
    again.bind(predict, "c" * 64)
    assert torch.equal(again.decide(data[0]).labels, confidence.decide(data[0]).labels)
    assert again.calibrate(examples(1000, 2)) == confidence.calibrate(examples(1000, 2))
    features = prediction.features().numpy()
    assert np.array_equal(
        again.classifier.predict(features), confidence.classifier.predict(features)
    )


def test_an_incomplete_state_is_refused(fitted):
    words, tensors = to_state(fitted)
    del tensors["confidence.bias_1"]
    with pytest.raises(BadInput, match=r"`tensors` must be complete, but got \['bias_1'\]"):
        from_state(words, tensors)
    with pytest.raises(BadInput, match="`version` must be 1, but got 2"):
        from_state({**words, "version": 2}, tensors)


def test_a_real_posterior_predicts_with_features():
    import sbmc

    torch.manual_seed(0)
    inputs = torch.randn(120, 2)
    labels = (inputs[:, 0] + 0.5 * torch.randn(120) > 0).long()
    model = nn.Linear(2, 2)
    posterior = sbmc.fit(model, (inputs, labels), s=1, particles=4, progress=False)
    confidence = fit_confidence(
        posterior.predict, (inputs, labels), 5 * torch.randn(40, 2), threshold=0.5
    )
    assert posterior.predict(inputs).features().shape == (120, 7)
    assert confidence.decide(inputs).labels.shape == (120,)
