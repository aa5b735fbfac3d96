"""Data sets in `fit` and `predict`: several inputs, no targets, and Hugging Face's."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import sbmc
from sbmc.checks import BadInput
from sbmc.model.data import READ_BATCH, as_examples
from sbmc.model.dataset_inputs import dataset_inputs

ROWS = 12
NOISE = torch.Generator().manual_seed(0)
A, B = torch.randn(ROWS, 3, generator=NOISE), torch.randn(ROWS, 2, generator=NOISE)
LABELS = torch.arange(ROWS) % 2


class Table:
    """What we use of `datasets.Dataset`: items are dicts of Python's numbers, or of tensors."""

    def __init__(self, columns, kind=None):
        self.columns, self.kind = columns, kind

    @property
    def column_names(self):
        return list(self.columns)

    @property
    def format(self):
        return {"type": self.kind}

    def with_format(self, kind):
        return Table(self.columns, kind)

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index):
        row = {name: column[index] for name, column in self.columns.items()}
        if self.kind != "torch":
            return row
        return {k: v if isinstance(v, str) else torch.tensor(v) for k, v in row.items()}


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 2), nn.Linear(2, 2)

    def forward(self, a, b):
        return self.first(a) + self.second(b)


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, features):
        return self.layer(features)


def fitted(net, data):
    return sbmc.fit(net, data, s=0.1, sampler=sbmc.HMC(steps=4), particles=2, progress=False)


@pytest.fixture(scope="module")
def of_two_inputs():
    torch.manual_seed(0)
    return fitted(TwoInputs(), TensorDataset(A, B, LABELS))


@pytest.fixture(scope="module")
def of_a_table():
    torch.manual_seed(0)
    return fitted(Named(), Table({"features": A.tolist(), "label": LABELS.tolist()}))


def test_the_last_of_three_tensors_is_the_target():
    examples = as_examples(TensorDataset(A, B, LABELS))
    assert torch.equal(examples.inputs[0], A)
    assert torch.equal(examples.inputs[1], B)
    assert torch.equal(examples.targets, LABELS)


@pytest.mark.parametrize("wrap", [lambda data: data, lambda data: DataLoader(data, batch_size=5)])
@pytest.mark.parametrize("tensors", [(A, B, LABELS), (A, B)])
def test_a_model_of_two_inputs_predicts_data_sets_with_and_without_targets(
    of_two_inputs, wrap, tensors
):
    expected = of_two_inputs.predict((A, B)).probs
    given = of_two_inputs.predict(wrap(TensorDataset(*tensors))).probs
    torch.testing.assert_close(given, expected)


def test_a_loaded_posterior_knows_how_many_inputs_there_are(of_two_inputs, tmp_path):
    of_two_inputs.save(tmp_path / "p.sbmc")
    loaded = sbmc.load(tmp_path / "p.sbmc", TwoInputs())
    expected = of_two_inputs.predict((A, B)).probs
    torch.testing.assert_close(loaded.predict(TensorDataset(A, B)).probs, expected)


def test_inputs_in_a_pair_of_their_own_are_still_told_from_targets(of_two_inputs):
    items = [((a, b), label) for a, b, label in zip(A, B, LABELS, strict=True)]

    class Pairs(Dataset):
        def __len__(self):
            return len(items)

        def __getitem__(self, index):
            return items[index]

    expected = of_two_inputs.predict((A, B)).probs
    torch.testing.assert_close(of_two_inputs.predict(Pairs()).probs, expected)


def test_a_prediction_of_a_data_set_can_be_asked_further(of_two_inputs):
    prediction = of_two_inputs.predict(TensorDataset(A, B, LABELS))
    low, high = prediction.interval(0.5, kind="credible")
    assert low.shape == (ROWS, 2)
    assert bool((low <= high).all())
    assert of_two_inputs.samples(TensorDataset(A, B)).outputs().shape == (2, ROWS, 2)


@pytest.mark.parametrize("tensors", [(A,), (A, LABELS)])
def test_one_input_with_and_without_targets(tensors):
    assert torch.equal(dataset_inputs(TensorDataset(*tensors)), A)


def test_data_sets_that_need_several_reads_are_whole_and_in_order():
    rows = torch.arange(2.0 * READ_BATCH + 3).unsqueeze(1)
    assert torch.equal(dataset_inputs(TensorDataset(rows)), rows)


def test_an_empty_data_set_is_refused():
    with pytest.raises(BadInput, match="`inputs` must be non-empty"):
        dataset_inputs(TensorDataset(A[:0]))


def test_items_that_do_not_collate_are_refused():
    ragged = Table({"features": [[1.0], [1.0, 2.0]]})
    with pytest.raises(BadInput, match="must be samples that collate into a batch"):
        dataset_inputs(ragged)


class Damaged(Dataset):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index == 3:
            raise OSError("a file that is gone")
        return A[0]


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (5, "a data set whose items can be read, but got an error at item 3. The error is above."),
        (-1, "a data set with a length, but got a Damaged whose length fails."),
    ],
)
def test_a_data_set_that_cannot_be_read_is_refused(length, words):
    with pytest.raises(BadInput, match=re.escape(f"`inputs` must be {words}")):
        dataset_inputs(Damaged(length))


def test_batches_of_different_shapes_are_refused():
    ragged = Table({"x": [[1.0] * (1 + (i >= READ_BATCH)) for i in range(READ_BATCH + 1)]})
    with pytest.raises(BadInput, match="`inputs` must be of one shape in all batches"):
        dataset_inputs(ragged)


def test_hugging_face_data_sets_are_read_as_tensors(of_a_table):
    with_labels = Table({"features": A.tolist(), "label": LABELS.tolist()})
    expected = of_a_table.predict({"features": A}).probs
    for table in (with_labels, with_labels.with_format("torch"), Table({"features": A.tolist()})):
        torch.testing.assert_close(of_a_table.predict(table).probs, expected)


def test_splits_are_refused_with_the_call_that_chooses_one(of_a_table):
    splits = {"train": Table({"features": A.tolist(), "label": LABELS.tolist()})}
    words = re.escape("but got a dict of them: 'train'. Choose one, such as data['train'].")
    with pytest.raises(BadInput, match="`data` must be one split of a data set, " + words):
        as_examples(splits)
    with pytest.raises(BadInput, match="`inputs` must be one split of a data set, " + words):
        of_a_table.predict(splits)


def test_columns_of_text_are_refused_with_the_call_that_removes_them(of_a_table):
    table = Table({"features": A.tolist(), "text": ["a"] * ROWS, "label": LABELS.tolist()})
    words = re.escape("leave it out: dataset.remove_columns(['text'])")
    with pytest.raises(BadInput, match="`data` must have columns of numbers.*" + words):
        as_examples(table)
    with pytest.raises(BadInput, match="`inputs` must have columns of numbers.*" + words):
        of_a_table.predict(table)
