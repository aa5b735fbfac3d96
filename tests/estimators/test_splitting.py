import numpy as np
import pytest

from sbmc.checks import BadInput
from sbmc.estimators.splitting import set_rows_aside


def split(inputs, labels, fraction=0.25, seed=0):
    inputs = np.asarray(inputs, dtype=np.float32).reshape(len(inputs), -1)
    return set_rows_aside(inputs, np.asarray(labels), fraction, np.random.RandomState(seed))


def test_every_class_gives_its_share_and_no_row_is_lost():
    labels = np.repeat([0, 1, 2], [40, 20, 8])
    parts = split(np.arange(68), labels)
    assert np.bincount(labels[parts.validation]).tolist() == [10, 5, 2]
    assert sorted([*parts.training, *parts.validation]) == list(range(68))
    assert (np.diff(parts.training) > 0).all()
    assert (np.diff(parts.validation) > 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_equal_inputs_stay_together(seed):
    inputs = np.repeat(np.arange(20), 3)
    parts = split(inputs, np.zeros(60, int), seed=seed)
    assert len(parts.validation) == 15
    assert not set(inputs[parts.training]) & set(inputs[parts.validation])


@pytest.mark.parametrize("seed", range(5))
def test_every_class_keeps_a_row_to_train_on(seed):
    labels = np.array([0] * 10 + [1])
    parts = split(np.arange(11), labels, fraction=0.9, seed=seed)
    assert set(labels[parts.training]) == {0, 1}
    assert len(parts.validation) == 9


@pytest.mark.parametrize(
    ("inputs", "fraction"), [(np.zeros(50), 0.2), (np.arange(50), 0.0), (np.arange(5), 0.2)]
)
def test_too_few_rows_are_no_validation(inputs, fraction):
    parts = split(inputs, np.zeros(len(inputs), int), fraction)
    assert parts.validation is None
    assert parts.training.tolist() == list(range(len(inputs)))


def test_the_seed_decides():
    labels = np.zeros(30, int)
    first, same, other = (split(np.arange(30), labels, seed=seed).validation for seed in (0, 0, 1))
    assert first.tolist() == same.tolist() != other.tolist()


@pytest.mark.parametrize("fraction", [1, -0.1, "half", None])
def test_a_fraction_outside_is_refused(fraction):
    with pytest.raises(BadInput, match="`validation_fraction` must be from 0 up to 1"):
        split(np.arange(4), np.zeros(4, int), fraction)
