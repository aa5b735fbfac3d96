"""DataFrames and Series as arrays, in the order of their rows, and the words for other columns."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import torch

import sbmc.prediction.metrics as metrics
from sbmc.checks import BadInput
from sbmc.storage.arrays import as_tensor
from sbmc.storage.tables import is_table, without_table


def test_a_frame_is_its_columns_side_by_side():
    frame = pd.DataFrame({"a": [1.5, 2.5], "b": [3, 4], "c": [True, False]}, index=[9, 4])
    assert without_table(frame, "inputs").tolist() == [[1.5, 3.0, 1.0], [2.5, 4.0, 0.0]]


def test_columns_of_one_name_are_all_taken():
    frame = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=["a", "a"])
    assert without_table(frame, "inputs").tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_integers_stay_integers():
    assert without_table(pd.DataFrame({"a": [1], "b": [2]}), "x").dtype == np.int64
    assert without_table(pd.Series([1, 2], dtype="Int64"), "x").dtype == np.int64


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean"])
def test_missing_values_are_nan(dtype):
    values = without_table(pd.Series([1, None, 0], dtype=dtype), "x")
    np.testing.assert_array_equal(values, [1.0, np.nan, 0.0])


def test_the_order_is_that_of_the_rows_and_not_of_the_index():
    assert without_table(pd.Series([10, 20, 30], index=[2, 0, 1]), "x").tolist() == [10, 20, 30]


def test_columns_that_are_no_numbers_are_named_with_a_remedy():
    frame = pd.DataFrame({"age": [1], "city": ["Rome"], "day": pd.to_datetime(["2020-01-01"])})
    rule = "`inputs` must be numeric, but got columns that are not: 'city' ("
    with pytest.raises(BadInput, match=re.escape(rule)) as error:
        without_table(frame, "inputs")
    assert "'day' (datetime64" in str(error.value)
    assert "'age'" not in str(error.value)
    assert "pandas.get_dummies" in str(error.value)


@pytest.mark.parametrize("dtype", ["str", "category", "object"])
def test_labels_that_are_text_are_named_with_a_remedy(dtype):
    labels = pd.Series(["cat", "dog"], name="animal", dtype=dtype)
    with pytest.raises(BadInput, match=r"'animal' .* pandas\.factorize"):
        without_table(labels, "targets")


def test_many_columns_are_counted():
    frame = pd.DataFrame({f"c{i}": ["a"] for i in range(8)})
    with pytest.raises(BadInput, match=r"'c4' \(\w+\) and 3 more\."):
        without_table(frame, "inputs")


def test_a_table_without_columns_is_refused():
    with pytest.raises(BadInput, match="`inputs` must be a table with columns, but got none"):
        without_table(pd.DataFrame(index=[0, 1]), "inputs")


@pytest.mark.parametrize("value", [np.ones(2), [1, 2], {"a": 1}, 3.0, None, pd.Series])
def test_all_else_is_returned_as_it_is(value):
    assert not is_table(value)
    assert without_table(value, "x") is value


def test_columns_that_pandas_protects_are_copied_and_maps_are_not():
    values = np.arange(3.0)
    values.flags.writeable = False
    assert without_table(pd.Series(values, copy=False), "x").flags.writeable
    assert without_table(values, "x") is values
    assert torch.equal(as_tensor(values, "x"), torch.arange(3.0, dtype=torch.float64))


def test_metrics_take_series_of_any_index_and_frames():
    shuffled = [7, 3, 5]
    probs = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    labels = np.array([0, 1, 1])
    table, column = pd.DataFrame(probs, index=shuffled), pd.Series(labels, index=shuffled)
    weights = pd.Series([1.0, 2.0, 3.0], index=shuffled)
    for metric in (metrics.nll, metrics.accuracy, metrics.brier, metrics.ece):
        assert metric(table, column) == metric(probs, labels)
    given = metrics.nll(probs, labels, weights=weights.to_numpy())
    assert metrics.nll(table, column, weights=weights) == given
    mean, targets = [1.0, 2.0, 4.0], [1.0, 3.0, 2.0]
    columns = pd.Series(mean, index=shuffled), pd.Series(targets)
    assert metrics.rmse(*columns) == metrics.rmse(mean, targets)


def test_text_without_a_name_is_refused_in_words():
    with pytest.raises(BadInput, match="are not: one without a name"):
        without_table(pd.Series(["yes", "no"]), "targets")
