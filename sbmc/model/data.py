"""Training data, checked once and held as tensors whose first axis is the example."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, default_collate

from sbmc.checks import BadInput, Phrase, describe_value, require
from sbmc.model.hugging_face import in_torch_format, refuse_splits
from sbmc.model.loaders import STEADY, chosen_rows
from sbmc.model.reading import READ_BATCH, dataset_length, read_batch
from sbmc.storage.arrays import as_tensor
from sbmc.storage.digests import digest
from sbmc.storage.lazy_rows import LazyRows, TensorReader
from sbmc.storage.tables import is_table

# A model's inputs: one tensor, a tuple (positional arguments) or a dict (keyword arguments).
Inputs = Tensor | tuple[Tensor, ...] | dict[str, Tensor]

LABEL_KEYS = ("labels", "label", "targets", "target")
# Items read a second time. All of a small data set, so that even rare augmentation shows.
REREAD_ITEMS = 10_000
TWO_READS = (
    "two reads that differ; `fit` samples with random augmentation by consent, "
    "compute=sbmc.Compute(augment=True), and a sampler on mini-batches"
)
# Tensors of more bytes are not converted as a whole, but row by row when they are read.
CONVERTED_BYTES = 2**30


def tree_map(function: Callable[[Tensor], Tensor], inputs: Inputs) -> Inputs:
    """Apply `function` to every tensor of `inputs`, keeping the structure."""
    if isinstance(inputs, Tensor):
        return function(inputs)
    if isinstance(inputs, dict):
        return {key: function(value) for key, value in inputs.items()}
    return tuple(function(value) for value in inputs)


def leaves(inputs: Inputs) -> list[Tensor]:
    """The tensors of `inputs` as a list."""
    if isinstance(inputs, Tensor):
        return [inputs]
    return list(inputs.values()) if isinstance(inputs, dict) else list(inputs)


def count(inputs: Inputs) -> int:
    """The number of examples in `inputs`."""
    return len(leaves(inputs)[0])


def rows(inputs: Inputs, start: int, stop: int) -> Inputs:
    """Examples `start` to `stop` of `inputs`, as views."""
    return tree_map(lambda t: t[start:stop], inputs)


def join_inputs(parts: Sequence[Inputs]) -> Inputs:
    """The inputs of all parts, one part after another."""
    columns = zip(*map(leaves, parts), strict=True)
    joined = iter([torch.cat(column) for column in columns])
    return tree_map(lambda _: next(joined), parts[0])


@dataclass(frozen=True)
class Examples:
    """Inputs and targets of equal length.

    Args:
        inputs: tensor, tuple or dict of tensors, each `(examples, ...)`.
        targets: `(examples,)` or `(examples, outputs)`.
    """

    inputs: Inputs
    targets: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def slice(self, start: int, stop: int) -> tuple[Inputs, Tensor]:
        """Examples `start` to `stop` as views."""
        return rows(self.inputs, start, stop), self.targets[start:stop]

    def select(self, index: Tensor) -> tuple[Inputs, Tensor]:
        """The examples at `index`, which may have any shape."""
        return tree_map(lambda t: t[index], self.inputs), self.targets[index]

    def compact(self) -> Examples:
        """The same examples in tensors of their own: a view is pickled with all that it views."""

        def alone(tensor: Tensor) -> Tensor:
            return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()

        return Examples(tree_map(alone, self.inputs), alone(self.targets))

    def to(self, *, dtype: torch.dtype, device: torch.device | str = "cpu") -> Examples:
        """Floating-point tensors in `dtype`, everything on `device`.

        Large inputs are converted when they are read: as a whole they would be in memory twice.
        """

        def convert(tensor: Tensor) -> Tensor:
            return tensor.to(device, dtype) if tensor.is_floating_point() else tensor.to(device)

        def when_read(tensor: Tensor) -> Tensor:
            size = tensor.numel() * dtype.itemsize
            other = tensor.is_floating_point() and tensor.dtype != dtype
            if other and size > CONVERTED_BYTES and tensor.device.type == "cpu":
                lazy = isinstance(tensor, LazyRows)
                tensor = tensor if lazy else LazyRows(TensorReader(tensor), "data inputs")
            return convert(tensor)

        return Examples(tree_map(when_read, self.inputs), convert(self.targets))

    def identity(self) -> str:
        """A digest of the data."""
        return digest(self.inputs, self.targets)

    @property
    def rows(self) -> int:
        """How many examples the likelihood is of."""
        return len(self.targets)


def concatenate(first: Examples, second: Examples) -> Examples:
    """The examples of `first` followed by those of `second`."""
    return join([first, second])


def as_examples(data: Any, name: str = "data", *, most: int | None = None) -> Examples:
    """Check `data` and hold it as tensors.

    Args:
        data: a pair `(inputs, targets)` of tensors, arrays, or pandas' tables and columns; a
            map-style `Dataset`, Hugging Face's included, whose items are `(input, target)`,
            `(a, b, target)` or dicts with a label; or a `DataLoader`, of which the data set, the
            collation and the choice of examples are used, and never the shuffling: the likelihood
            must not change between evaluations.
        name: what error messages call it.
        most: take at most so many of them, at random and always the same; others are not read.

    Returns:
        The examples.

    Raises:
        BadInput: the data are empty, of unequal length, not finite, or differ when read twice.

    Examples:
        >>> import torch
        >>> len(as_examples((torch.zeros(3, 2), torch.tensor([0, 1, 1]))))
        3
    """
    refuse_splits(data, name)
    if isinstance(data, Examples):
        examples = _some(data, most)
    elif isinstance(data, (tuple, list)) and len(data) == 2:
        pair = Examples(as_inputs(data[0], name), as_tensor(data[1], f"{name} targets"))
        examples = _some(pair, most)
    elif isinstance(data, IterableDataset) or (
        isinstance(data, DataLoader) and isinstance(data.dataset, IterableDataset)
    ):
        raise BadInput(
            f"`{name}` must be rows that can be held in memory, but got an iterable data set or "
            "a loader of one, which only the training data of `fit` and the inputs of `predict` "
            "may be. Give a part of the rows as tensors, (inputs, targets); of "
            "sbmc.datasets.ShardedFiles, shards.load() gives all of them."
        )
    elif isinstance(data, DataLoader):
        examples = _read(data.dataset, pick(chosen_rows(data, name), most), data.collate_fn, name)
    elif hasattr(data, "__getitem__") and hasattr(data, "__len__") and not is_array(data):
        total = dataset_length(data, name)
        examples = _read(
            in_torch_format(data, name), pick(range(total), most), default_collate, name
        )
    else:
        raise BadInput(
            f"`{name}` must be a pair (inputs, targets), a map-style data set or a DataLoader, "
            f"but got {describe_value(data)}."
        )
    _check(examples, name)
    return examples


def pick(indices: Sequence[Any], most: int | None) -> Sequence[Any]:
    """At most so many of some indices, at random, always the same ones, in their order.

    Args:
        indices: to choose from.
        most: how many; None for all.

    Returns:
        The chosen ones.

    Examples:
        >>> len(pick(range(100), 7)), pick(range(3), 7)
        (7, range(0, 3))
    """
    if most is None or len(indices) <= most:
        return indices
    # Of numpy's generators this one is frozen, so that later versions choose the same.
    chosen = np.random.RandomState(0).permutation(len(indices))[:most]
    return [indices[i] for i in sorted(chosen.tolist())]


def require_same_form(given: Examples, expected: Examples, name: str, other: str) -> None:
    """Refuse examples whose rows are not like those of others.

    Args:
        given: what is checked.
        expected: what it has to be like.
        name: the argument that is checked.
        other: the other argument.

    Raises:
        BadInput: inputs are of another form, another shape or another kind of numbers.
    """
    forms = [_form(each.inputs) for each in (given, expected)]
    rule = f"with inputs like those of `{other}`, {forms[1]}"
    require(forms[0] == forms[1], name, rule, Phrase(forms[0]))


def _form(inputs: Inputs) -> str:
    """What one row of inputs is, in words."""

    def one(tensor: Tensor) -> str:
        kind = "numbers" if tensor.is_floating_point() else "integers"
        return f"{kind} of shape (rows{''.join(f', {size}' for size in tensor.shape[1:])})"

    if isinstance(inputs, dict):
        return "a dict of " + ", ".join(f"{key!r}: {one(inputs[key])}" for key in sorted(inputs))
    if isinstance(inputs, Tensor):
        return one(inputs)
    return "a tuple of " + ", ".join(map(one, inputs))


def as_inputs(inputs: Any, name: str = "inputs") -> Inputs:
    """Inputs alone: tensors or arrays, in a tuple or a dict if there are several.

    Large memory-mapped arrays stay in their files: see `sbmc.storage.lazy_rows`.
    """
    refuse_splits(inputs, name)
    if _is_mapping(inputs):
        named = all(isinstance(key, str) for key in inputs.keys())  # noqa: SIM118
        require(named, name, "a dict of tensors by the names of forward's arguments", inputs)
        return {
            key: as_tensor(inputs[key], f"{name}[{key!r}]", in_place=True)
            for key in inputs.keys()  # noqa: SIM118
        }
    if isinstance(inputs, tuple):
        parts = enumerate(inputs)
        return tuple(as_tensor(value, f"{name}[{i}]", in_place=True) for i, value in parts)
    return as_tensor(inputs, name, in_place=True)


def batch_inputs(batch: Any, name: str = "inputs", arity: int | None = None) -> Inputs:
    """The inputs of one batch of a `DataLoader`; targets, if it has any, are dropped.

    Args:
        batch: a tensor, `[inputs, targets]`, `[a, b, targets]` or a dict.
        name: what error messages call it.
        arity: inputs that the model takes, which tells `[a, b]` from `[inputs, targets]`.
    """
    if _is_mapping(batch):
        return as_inputs({k: batch[k] for k in batch.keys() if k not in LABEL_KEYS}, name)  # noqa: SIM118
    if isinstance(batch, (tuple, list)):
        flat = all(isinstance(part, Tensor) for part in batch)
        if flat and arity is not None and 1 < arity <= len(batch) <= arity + 1:
            batch = batch[:arity]
        elif len(batch) in (1, 2):
            batch = batch[0]
    return as_inputs(tuple(batch) if isinstance(batch, list) else batch, name)


def check_inputs(inputs: Inputs, name: str, *, finite: bool = True) -> None:
    """Refuse inputs that are empty, of unequal length, or not finite."""
    tensors = leaves(inputs)
    require(bool(tensors), name, "at least one tensor", Phrase("none"))
    scalar = Phrase("a scalar")
    require(all(t.ndim > 0 for t in tensors), name, "tensors with an example axis", scalar)
    lengths = sorted({len(t) for t in tensors})
    require(len(lengths) == 1, name, "tensors of one length", lengths)
    require(lengths[0] > 0, name, "non-empty", Phrase("0 examples"))
    for tensor in tensors if finite else ():
        _require_finite(tensor, name)


def _require_finite(tensor: Tensor, name: str) -> None:
    if isinstance(tensor, LazyRows):
        return  # its rows are checked when they are read
    # One pass without a mask: a sum of what is not finite is not finite.
    if tensor.is_floating_point() and not bool(torch.isfinite(tensor.sum())):
        bad = int((~torch.isfinite(tensor)).sum())
        values = "1 value that is" if bad == 1 else f"{bad} values that are"
        require(bad == 0, name, "finite", Phrase(f"{values} NaN or infinite"))


def _is_mapping(value: Any) -> bool:
    # Hugging Face's batches are no dicts, but have keys. So have pandas' tables, which are arrays.
    return isinstance(value, dict) or (hasattr(value, "keys") and not is_table(value))


def is_array(value: Any) -> bool:
    """Whether it is a tensor, an array, a table, a dict of them, text or a module: no data set."""
    array = isinstance(value, (Tensor, np.ndarray, str, bytes, nn.Module)) or is_table(value)
    return array or _is_mapping(value)


def split_batch(batch: Any, name: str) -> tuple[Inputs, Tensor]:
    """The inputs and targets of one batch of a loader.

    Args:
        batch: `[inputs, targets]`, `[a, b, targets]`, or a dict with labels.
        name: what error messages call it.
    """
    if _is_mapping(batch):
        for key in LABEL_KEYS:
            if key in batch:
                rest = {k: batch[k] for k in batch.keys() if k != key}  # noqa: SIM118
                return as_inputs(rest, name), as_tensor(batch[key], f"{name} targets")
        keys = describe_value(list(batch.keys()))
        raise BadInput(f"`{name}` must have one of the keys {LABEL_KEYS}, but got {keys}.")
    if isinstance(batch, (tuple, list)) and len(batch) >= 2:
        inputs = batch[0] if len(batch) == 2 else tuple(batch[:-1])
        inputs = tuple(inputs) if isinstance(inputs, list) else inputs
        return as_inputs(inputs, name), as_tensor(batch[-1], f"{name} targets")
    several = f" of {len(batch)}" if isinstance(batch, (tuple, list)) else ""
    raise BadInput(
        f"`{name}` must yield (inputs, target), (a, b, target) or dicts with labels, "
        f"but got a {type(batch).__name__}{several}."
    )


def _read(
    dataset: Any, indices: Sequence[Any], collate: Callable[[list[Any]], Any], name: str
) -> Examples:
    require(len(indices) > 0, name, "non-empty", Phrase("0 examples"))

    def batch(chosen: Sequence[Any]) -> Examples:
        return Examples(*split_batch(read_batch(dataset, chosen, name, collate), name))

    pieces = range(0, len(indices), READ_BATCH)
    try:
        examples = join([batch(indices[i : i + READ_BATCH]) for i in pieces])
    except (RuntimeError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(
            f"`{name}` must be of one shape in all batches, but got batches of others."
        ) from error
    stride = max(1, len(indices) // REREAD_ITEMS)
    again = range(0, len(indices), stride)
    for i in range(0, len(again), READ_BATCH):
        some = again[i : i + READ_BATCH]
        _require_same(batch([indices[j] for j in some]), *examples.select(torch.tensor(some)), name)
    return examples


def _some(examples: Examples, most: int | None) -> Examples:
    """At most so many of the examples."""
    if most is None or len(examples) <= most or count(examples.inputs) != len(examples):
        return examples
    return Examples(*examples.select(torch.tensor(pick(range(len(examples)), most))))


def join(parts: Sequence[Examples]) -> Examples:
    """The examples of all parts, one part after another."""
    if len(parts) == 1:
        return parts[0]
    inputs = join_inputs([part.inputs for part in parts])
    return Examples(inputs, torch.cat([part.targets for part in parts]))


def _require_same(again: Examples, inputs: Inputs, targets: Tensor, name: str) -> None:
    pairs = list(zip(leaves(again.inputs), leaves(inputs), strict=True))
    pairs.append((again.targets, targets))
    for second, first in pairs:
        # Values that are not finite are refused later, in their own words.
        same = torch.equal(second.nan_to_num(), first.nan_to_num())
        require(same, name, STEADY, Phrase(TWO_READS))


def _check(examples: Examples, name: str) -> None:
    check_inputs(examples.inputs, f"{name} inputs")
    targets, label = examples.targets, f"{name} targets"
    scalar = Phrase("a scalar; targets[None] gives a single example its axis")
    require(targets.ndim > 0, label, "a tensor with an example axis", scalar)
    expected = count(examples.inputs)
    require(len(targets) == expected, label, f"as many as the inputs ({expected})", len(targets))
    _require_finite(targets, label)
