"""pandas' tables give the same posterior, predictions and confidences as arrays do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import sbmc
import sbmc.prediction.metrics as metrics
from sbmc.checks import BadInput

ROWS = 40
NOISE = np.random.default_rng(0)
ARRAY = NOISE.normal(size=(ROWS, 3)).astype(np.float32)
LABELS = (ARRAY[:, 0] + NOISE.normal(size=ROWS) > 0).astype(np.int64)
# As after a random split: the index is no longer 0, 1, 2, ...
INDEX = NOISE.permutation(ROWS) + 100
FRAME = pd.DataFrame(ARRAY, columns=["a", "b", "c"], index=INDEX)
COLUMN = pd.Series(LABELS, index=INDEX, name="label")


def make_net():
    torch.manual_seed(1)
    return nn.Linear(3, 2)


def fitted(data, **options):
    return sbmc.fit(
        make_net(), data, s=0.5, sampler=sbmc.HMC(steps=4), particles=3, progress=False, **options
    )


@pytest.fixture(scope="module")
def posterior():
    return fitted((FRAME, COLUMN))


def test_fit_and_predict_are_those_of_arrays(posterior):
    expected = fitted((ARRAY, LABELS))
    assert torch.equal(posterior.positions, expected.positions)
    given, of_arrays = posterior.predict(FRAME), expected.predict(ARRAY)
    assert torch.equal(given.probs, of_arrays.probs)
    assert torch.equal(given.log_prob(COLUMN), of_arrays.log_prob(LABELS))
    assert torch.equal(posterior.samples(FRAME).outputs(), expected.samples(ARRAY).outputs())


def test_weights_of_rows_may_be_a_column():
    weights = pd.Series(np.linspace(0.5, 2, ROWS), index=INDEX)
    given = fitted((FRAME, COLUMN), weights=weights)
    expected = fitted((ARRAY, LABELS), weights=weights.to_numpy())
    assert torch.equal(given.positions, expected.positions)
    of_arrays = sbmc.class_weights(torch.tensor(LABELS))
    assert torch.equal(sbmc.class_weights(COLUMN), of_arrays)


def test_training_is_that_of_arrays():
    options = {"max_epochs": 3, "prior_variance": 1.0, "progress": False}
    given = sbmc.train_map(make_net(), (FRAME, COLUMN), (FRAME, COLUMN), **options)
    expected = sbmc.train_map(make_net(), (ARRAY, LABELS), (ARRAY, LABELS), **options)
    assert torch.equal(given.weight, expected.weight)
    given = sbmc.train_ensemble(make_net(), (FRAME, COLUMN), members=2, **options)
    expected = sbmc.train_ensemble(make_net(), (ARRAY, LABELS), members=2, **options)
    assert torch.equal(given.positions, expected.positions)


def test_a_confidence_takes_tables(posterior):
    confidence = posterior.confidence((FRAME, COLUMN), FRAME * 10, threshold=0.5)
    expected = posterior.confidence((ARRAY, LABELS), ARRAY * 10, threshold=0.5)
    assert torch.equal(confidence.score(FRAME), expected.score(ARRAY))


def test_a_regression_takes_tables():
    targets = FRAME["a"] + 1
    torch.manual_seed(2)
    net = nn.Linear(3, 1)
    options = {"s": 0.5, "sampler": sbmc.HMC(steps=4), "particles": 3, "progress": False}
    likelihood = sbmc.Gaussian(noise_variance=1.0)
    posterior = sbmc.fit(net, (FRAME, targets.to_frame()), likelihood=likelihood, **options)
    prediction = posterior.predict(FRAME)
    values = targets.to_numpy()
    assert torch.equal(prediction.crps(targets), prediction.crps(values))
    assert metrics.rmse(prediction, targets) == metrics.rmse(prediction, values)


def test_a_frame_alone_is_no_pair():
    with pytest.raises(BadInput, match="must be a pair"):
        fitted(FRAME.assign(label=COLUMN))


def test_columns_of_text_are_named(posterior):
    frame = FRAME.assign(city="Rome")
    with pytest.raises(BadInput, match=r"`data` must be numeric, .*'city' .*get_dummies"):
        fitted((frame, COLUMN))
    with pytest.raises(BadInput, match=r"`inputs` must be numeric, .*'city' "):
        posterior.predict(frame)
    with pytest.raises(BadInput, match=r"`data targets` must be numeric, .*'label' .*factorize"):
        fitted((FRAME, COLUMN.map({0: "no", 1: "yes"})))


def test_missing_values_are_refused_as_nan():
    frame = FRAME.astype("Float64")
    frame.iloc[3, 1] = pd.NA
    with pytest.raises(BadInput, match="`data inputs` must be finite, but got 1 value that is NaN"):
        fitted((frame, COLUMN))
