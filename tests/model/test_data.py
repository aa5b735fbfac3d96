"""Data in every form that `as_examples` takes, and the words for what it refuses."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
)

from sbmc.checks import BadInput
from sbmc.model.data import (
    Examples,
    as_examples,
    as_inputs,
    batch_inputs,
    concatenate,
    tree_map,
)
from sbmc.model.reading import READ_BATCH

INPUTS = torch.arange(12.0).reshape(6, 2)
TARGETS = torch.tensor([0, 1, 2, 0, 1, 2])


class Samples(Dataset):
    """A data set made from a list of samples, whatever they are."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]


class Stream(IterableDataset):
    def __iter__(self):
        yield from zip(INPUTS, TARGETS, strict=True)


def refused(data, words, name="data"):
    with pytest.raises(BadInput, match=re.escape(words)):
        as_examples(data, name)


def assert_is_the_data(examples, inputs=INPUTS, targets=TARGETS):
    assert torch.equal(examples.inputs, inputs)
    assert torch.equal(examples.targets, targets)


@pytest.mark.parametrize(
    "data",
    [
        (INPUTS, TARGETS),
        [INPUTS, TARGETS],
        (INPUTS.numpy(), TARGETS.numpy()),
        (INPUTS.tolist(), TARGETS.tolist()),
        (INPUTS.requires_grad_(False), TARGETS.numpy()),
        TensorDataset(INPUTS, TARGETS),
        DataLoader(TensorDataset(INPUTS, TARGETS), batch_size=4),
        DataLoader(TensorDataset(INPUTS, TARGETS), batch_size=4, shuffle=True, drop_last=True),
        Samples([(x, int(y)) for x, y in zip(INPUTS, TARGETS, strict=True)]),
        [(x, int(y)) for x, y in zip(INPUTS, TARGETS, strict=True)],
        Examples(INPUTS, TARGETS),
    ],
)
def test_one_tensor_of_inputs(data):
    assert_is_the_data(as_examples(data))


def test_odd_arrays_are_read_as_what_they_hold():
    inputs = INPUTS.numpy()
    frozen = inputs.copy()
    frozen.flags.writeable = False
    for array in (inputs.astype(">f4"), inputs[::-1][::-1], np.asfortranarray(inputs), frozen):
        assert_is_the_data(as_examples((array, TARGETS.numpy().astype(">i2"))))


def test_tensors_that_need_gradients_or_came_from_inference_are_plain_afterwards():
    with torch.inference_mode():
        made = INPUTS * 1
    (inputs, other) = as_inputs((made, INPUTS.clone().requires_grad_()))
    assert not inputs.is_inference()
    assert not other.requires_grad


def test_tuples_are_several_inputs():
    examples = as_examples(((INPUTS, INPUTS.numpy() + 1), TARGETS))
    assert isinstance(examples.inputs, tuple)
    assert torch.equal(examples.inputs[1], INPUTS + 1)
    samples = [((x, x + 1), y) for x, y in zip(INPUTS, TARGETS, strict=True)]
    read = as_examples(Samples(samples))
    assert isinstance(read.inputs, tuple)
    assert torch.equal(read.inputs[1], INPUTS + 1)


def test_dicts_are_named_inputs():
    examples = as_examples(({"a": INPUTS, "b": INPUTS + 1}, TARGETS))
    assert list(examples.inputs) == ["a", "b"]
    assert torch.equal(examples.inputs["b"], INPUTS + 1)


@pytest.mark.parametrize("key", ["label", "labels", "targets"])
def test_samples_in_the_style_of_hugging_face(key):
    ids = torch.arange(18).reshape(6, 3)
    samples = [
        {"input_ids": i, "attention_mask": torch.ones(3), key: int(y)}
        for i, y in zip(ids, TARGETS, strict=True)
    ]
    examples = as_examples(Samples(samples))
    assert list(examples.inputs) == ["input_ids", "attention_mask"]
    assert torch.equal(examples.inputs["input_ids"], ids)
    assert torch.equal(examples.targets, TARGETS)


def test_the_collation_of_a_loader_is_used():
    def collate(samples):
        return torch.stack([2 * x for x, _ in samples]), torch.stack([y for _, y in samples])

    loader = DataLoader(TensorDataset(INPUTS, TARGETS), batch_size=2, collate_fn=collate)
    assert_is_the_data(as_examples(loader), 2 * INPUTS)


def test_more_than_one_batch_keeps_the_order():
    total = 2 * READ_BATCH + 3
    inputs = torch.arange(float(total)).unsqueeze(1)
    loader = DataLoader(TensorDataset(inputs, inputs.squeeze(1).long()), 7, shuffle=True)
    assert_is_the_data(as_examples(loader), inputs, inputs.squeeze(1).long())


@pytest.mark.parametrize("inside_batches", [False, True])
def test_a_loader_over_a_part_of_the_data_gives_that_part(inside_batches):
    data, sampler = TensorDataset(INPUTS, TARGETS), SubsetRandomSampler([4, 1, 3])
    loader = DataLoader(data, batch_size=2, sampler=sampler)
    if inside_batches:
        loader = DataLoader(data, batch_sampler=BatchSampler(sampler, 2, False))
    before = torch.get_rng_state()
    assert_is_the_data(as_examples(loader), INPUTS[[1, 3, 4]], TARGETS[[1, 3, 4]])
    assert torch.equal(before, torch.get_rng_state())
    loader = DataLoader(data, batch_sampler=[[5], [0, 2]])
    assert_is_the_data(as_examples(loader), INPUTS[[0, 2, 5]], TARGETS[[0, 2, 5]])


def test_loaders_whose_choice_of_examples_is_random_are_refused():
    data = TensorDataset(INPUTS, TARGETS)
    repeated = torch.utils.data.RandomSampler(data, replacement=True, num_samples=50)
    words = "`data` must be a DataLoader that visits no example twice, but got a sampler that"
    refused(DataLoader(data, sampler=repeated), words)
    sampler = torch.utils.data.RandomSampler(data, num_samples=3)
    refused(DataLoader(data, sampler=sampler), "but got a sampler that visits other examples")
    refused(DataLoader(data, batch_size=None), "makes batches (with a batch_size or a batch_s")


def test_parts_of_examples():
    examples = Examples((INPUTS, INPUTS + 1), TARGETS)
    (first, second), targets = examples.slice(2, 4)
    assert torch.equal(first, INPUTS[2:4])
    assert torch.equal(second, INPUTS[2:4] + 1)
    assert targets.tolist() == [2, 0]
    (first, _), targets = examples.select(torch.tensor([[5, 0], [1, 1]]))
    assert first.shape == (2, 2, 2)
    assert targets.tolist() == [[2, 0], [1, 1]]
    joined = concatenate(examples, examples)
    assert len(joined) == 12
    assert torch.equal(joined.inputs[1], torch.cat([INPUTS, INPUTS]) + 1)


def test_conversion_leaves_integers_alone():
    examples = Examples({"x": INPUTS, "i": TARGETS}, TARGETS).to(dtype=torch.float64)
    assert examples.inputs["x"].dtype == torch.float64
    assert examples.inputs["i"].dtype == examples.targets.dtype == torch.int64


def test_tree_map_keeps_the_structure():
    assert torch.equal(tree_map(torch.neg, INPUTS), -INPUTS)
    assert torch.equal(tree_map(torch.neg, {"x": INPUTS})["x"], -INPUTS)
    assert torch.equal(tree_map(torch.neg, (INPUTS,))[0], -INPUTS)


def test_inputs_of_a_batch():
    assert torch.equal(batch_inputs([INPUTS]), INPUTS)
    assert torch.equal(batch_inputs([INPUTS, TARGETS]), INPUTS)
    assert torch.equal(batch_inputs(INPUTS), INPUTS)
    assert isinstance(batch_inputs([[INPUTS, INPUTS], TARGETS]), tuple)
    assert list(batch_inputs({"x": INPUTS, "labels": TARGETS})) == ["x"]


NAN, INFINITE = INPUTS.clone(), INPUTS.clone()
NAN[1, 0] = torch.nan
INFINITE[:2] = torch.inf


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ((INPUTS[:0], TARGETS[:0]), "`data inputs` must be non-empty, but got 0 examples."),
        (TensorDataset(INPUTS[:0], TARGETS[:0]), "`data` must be non-empty, but got 0 examples."),
        ([], "`data` must be non-empty, but got 0 examples."),
        (
            (INPUTS, TARGETS[:5]),
            "`data targets` must be as many as the inputs (6), but got 5.",
        ),
        (
            ((INPUTS, INPUTS[:3]), TARGETS),
            "`data inputs` must be tensors of one length, but got [3, 6].",
        ),
        (((), TARGETS), "`data inputs` must be at least one tensor, but got none."),
        ((NAN, TARGETS), "`data inputs` must be finite, but got 1 value that is NaN or infinite."),
        (
            (INFINITE, TARGETS),
            "`data inputs` must be finite, but got 4 values that are NaN or infinite.",
        ),
        (Examples(NAN, TARGETS), "`data inputs` must be finite, but got 1 value"),
        ((INPUTS, NAN), "`data targets` must be finite, but got 1 value that is NaN or infinite."),
        ((torch.tensor(1.0), TARGETS), "must be tensors with an example axis, but got a scalar."),
        (
            (INPUTS, torch.tensor(1)),
            "a tensor with an example axis, but got a scalar; targets[None]",
        ),
        (Stream(), "`data` must be rows that can be held in memory, but got an iterable"),
        (
            DataLoader(Stream()),
            "`data` must be rows that can be held in memory, but got an iterable",
        ),
        (INPUTS, "a map-style data set or a DataLoader, but got a Tensor of shape (6, 2)"),
        (INPUTS.numpy(), "a map-style data set or a DataLoader, but got a ndarray of shape (6,"),
        ({"x": INPUTS, "y": TARGETS}, "a map-style data set or a DataLoader, but got {'x': tensor"),
        (3, "`data` must be a pair (inputs, targets), a map-style data set or a DataLoader, but"),
        (("a", TARGETS), "`data` must be a tensor or an array, but got 'a'."),
        ((INPUTS, "a"), "`data targets` must be a tensor or an array, but got 'a'."),
        (
            (np.array(["a"]), TARGETS),
            "`data` must be numeric, but got dtype <U1. Make numbers of texts first; astype(f",
        ),
        (
            (INPUTS, np.array(["a"])),
            "`data targets` must be numeric, but got dtype <U1. np.unique(labels, return_inverse=",
        ),
        ((INPUTS.to(torch.complex64), TARGETS), "`data` must be real, but got dtype torch.complex"),
        (([[1.0], [1.0, 2.0]], [0, 1]), "must be rectangular, but got rows of unequal length."),
        (([INPUTS, INPUTS], TARGETS), "`data` must be a tensor or an array, but got a list of t"),
        (
            Samples([(1.0,)]),
            "must yield (inputs, target), (a, b, target) or dicts with labels, but got",
        ),
        (Samples([{"x": 1.0}]), "must have one of the keys ('labels', 'label', 'targets', 'targ"),
        (
            Samples([{"x": "words", "label": 1}]),
            "`data['x']` must be numeric, but got dtype <U5. Make numbers of texts first",
        ),
        (
            # Lists of equal length would be transposed by the default collation.
            Samples([{"x": [1, 2], "label": 0}, {"x": [3, 4], "label": 1}]),
            "`data['x']` must be a tensor or an array, but got a list of them.",
        ),
        (Samples([(object(), 1)]), "must be samples that collate into a batch, but got samples"),
        (
            Samples([(torch.zeros(2), 0), (torch.zeros(3), 0)]),
            "but got samples such as (tensor([0., 0.]), 0). Give tensors of one shape, or a Da",
        ),
    ],
)
def test_refusals_name_argument_rule_and_value(data, words):
    refused(data, words)


def test_messages_use_the_name_of_the_argument():
    refused((INPUTS[:0], TARGETS[:0]), "`validation inputs` must be non-empty", "validation")


def test_batches_of_different_shapes_are_refused():
    def pad(samples):
        widest = max(len(x) for x, _ in samples)
        padded = [torch.nn.functional.pad(x, (0, widest - len(x))) for x, _ in samples]
        return torch.stack(padded), torch.tensor([y for _, y in samples])

    samples = [(torch.ones(1 + (i >= READ_BATCH)), 0) for i in range(READ_BATCH + 1)]
    loader = DataLoader(Samples(samples), batch_size=2, collate_fn=pad)
    refused(loader, "`data` must be of one shape in all batches, but got batches of others")


class Augmented(Dataset):
    """Flips an example now and then."""

    def __init__(self, inputs=True, rare=False):
        self.inputs, self.rare, self.reads = inputs, rare, 0

    def __len__(self):
        return 600

    def __getitem__(self, index):
        self.reads += 1
        # Once in the whole of the second read, or at every read.
        change = float(self.reads == 900 if self.rare else self.reads)
        return torch.ones(2) + change * self.inputs, 1.0 + change * (not self.inputs)


@pytest.mark.parametrize("rare", [False, True])
@pytest.mark.parametrize("inputs", [False, True])
def test_data_whose_two_reads_differ_are_refused(inputs, rare):
    words = (
        "`data` must be the same each time it is read (no random augmentation), "
        "but got two reads that differ; `fit` samples with random augmentation by consent, "
        "compute=sbmc.Compute(augment=True), and a sampler on mini-batches."
    )
    refused(Augmented(inputs, rare), words)
    refused(DataLoader(Augmented(inputs, rare), batch_size=5), words)


def test_a_subset_is_a_data_set():
    part = Subset(TensorDataset(INPUTS, TARGETS), [5, 0])
    assert_is_the_data(as_examples(part), INPUTS[[5, 0]], TARGETS[[5, 0]])
