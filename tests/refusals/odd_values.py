"""Odd values: what people give by mistake, for any argument, for networks, and for data."""

import datetime
import decimal
import fractions
import math
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

X, Y = torch.linspace(-1, 1, 24).reshape(12, 2), torch.arange(12) % 2
ROWS, WIDTH, CLASSES = 12, 2, 2


class Unprintable:
    """A value that cannot even be shown."""

    def __repr__(self):
        raise ValueError("no words for this")


def nothing(*_arguments, **_options):
    """Take anything and give nothing."""


# For every argument of every function.
VALUES = {
    "None": None,
    "True": True,
    "False": False,
    "zero": 0,
    "one": 1,
    "minus one": -1,
    "three": 3,
    "10**30": 10**30,
    "-10**30": -(10**30),
    "10**5000": 10**5000,
    "2**63": 2**63,
    "0.0": 0.0,
    "0.5": 0.5,
    "1.5": 1.5,
    "-0.5": -0.5,
    "1e308": 1e308,
    "1e-308": 1e-308,
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "complex": 1j,
    "fraction": fractions.Fraction(1, 3),
    "decimal": decimal.Decimal("NaN"),
    "empty text": "",
    "'False'": "False",
    "'auto'": "auto",
    "'1'": "1",
    "'zzz'": "zzz",
    "long text": "z" * 5000,
    "null character": "a\0b",
    "bytes": b"abc",
    "date": datetime.date(2020, 1, 2),
    "path": Path("no such folder/no such file"),
    "empty list": [],
    "empty tuple": (),
    "empty dict": {},
    "set": {1, 2},
    "list of None": [None],
    "list of numbers": [1, 2],
    "list of texts": ["a", "b"],
    "nested list": [[1, 2], [3]],
    "dict": {"a": 1},
    "dict of odd keys": {1: None},
    "range": range(3),
    "object": object(),
    "unprintable": Unprintable(),
    "class": int,
    "function": nothing,
    "module of Python": math,
    "numpy nan": np.float64("nan"),
    "numpy integer": np.int64(3),
    "numpy float32": np.float32(0.5),
    "numpy bool": np.True_,
    "masked": np.ma.masked,
    "masked array": np.ma.array([1.0, 2.0], mask=[False, True]),
    "empty array": np.zeros((0, 2)),
    "array of objects": np.array([None, "a"], dtype=object),
    "array of texts": np.array(["a", "b"]),
    "structured array": np.zeros(2, dtype=[("a", float), ("b", int)]),
    "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "0-d array": np.array(1.0),
    "scalar tensor": torch.tensor(0.5),
    "empty tensor": torch.zeros(0),
    "tensor": torch.ones(3),
    "nan tensor": torch.full((2, 2), math.nan),
    "complex tensor": torch.ones(2, dtype=torch.complex64),
    "bool tensor": torch.tensor([True, False]),
    "sparse tensor": torch.eye(3).to_sparse(),
    "meta tensor": torch.ones(3, device="meta"),
    "large tensor": torch.zeros(200, 200),
    "dtype": torch.float16,
    "int dtype": torch.int64,
    "device": torch.device("cuda"),
    "network": nn.Linear(WIDTH, CLASSES),
    "list of networks": [nn.Linear(WIDTH, CLASSES)],
    "list of other networks": [nn.Linear(5, 1)],
}


class Returns(nn.Module):
    """A network whose `forward` does something odd with its outputs."""

    def __init__(self, change, width=WIDTH):
        super().__init__()
        self.layer = nn.Linear(width, CLASSES)
        self.change = change

    def forward(self, x):
        return self.change(self.layer(x))


class TakesDict(nn.Module):
    """A network whose `forward` takes one dict."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES)

    def forward(self, batch):
        return self.layer(batch["x"])


class TakesTwo(nn.Module):
    """A network whose `forward` takes two tensors."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES)

    def forward(self, a, b):
        return self.layer(a) + self.layer(b)


class Nameless(nn.Module):
    """A network without `forward`."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES)


def _fails(outputs):
    raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")


def _filled(value):
    network = nn.Linear(WIDTH, CLASSES)
    with torch.no_grad():
        network.weight.fill_(value)
    return network


NETWORKS = {
    "too wide": nn.Linear(5, CLASSES),
    "one output": nn.Linear(WIDTH, 1),
    "seven outputs": nn.Linear(WIDTH, 7),
    "no parameters": nn.Flatten(),
    "softmax": nn.Sequential(nn.Linear(WIDTH, CLASSES), nn.Softmax(-1)),
    "log softmax": nn.Sequential(nn.Linear(WIDTH, CLASSES), nn.LogSoftmax(-1)),
    "sigmoid": nn.Sequential(nn.Linear(WIDTH, 1), nn.Sigmoid()),
    "returns a tuple": Returns(lambda o: (o, o)),
    "returns a dict": Returns(lambda o: {"logits": o}),
    "returns None": Returns(lambda o: None),
    "returns an array": Returns(lambda o: o.detach().numpy()),
    "returns a scalar": Returns(torch.sum),
    "returns fewer rows": Returns(lambda o: o[:1]),
    "returns NaN": Returns(lambda o: o * math.nan),
    "returns integers": Returns(lambda o: o.long()),
    "returns complex numbers": Returns(lambda o: o.to(torch.complex64)),
    "returns detached": Returns(torch.Tensor.detach),
    "fails": Returns(_fails),
    "takes a dict": TakesDict(),
    "takes two": TakesTwo(),
    "no forward": Nameless(),
    "data parallel": nn.DataParallel(nn.Linear(WIDTH, CLASSES)),
    "nan weights": _filled(math.nan),
    "infinite weights": _filled(math.inf),
    "huge weights": _filled(1e30),
    "frozen": nn.Linear(WIDTH, CLASSES).requires_grad_(False),
    "half": nn.Linear(WIDTH, CLASSES).half(),
    "double": nn.Linear(WIDTH, CLASSES).double(),
    "meta": nn.Linear(WIDTH, CLASSES, device="meta"),
    "lazy": nn.LazyLinear(CLASSES),
    "embedding": nn.Embedding(3, CLASSES),
    "batch norm": nn.Sequential(nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, CLASSES)),
    "convolution": nn.Conv2d(1, 2, 3),
    "recurrent": nn.LSTM(WIDTH, CLASSES),
    "class of networks": nn.Linear,
    "module list": nn.ModuleList([nn.Linear(WIDTH, CLASSES)]),
    "state dict": nn.Linear(WIDTH, CLASSES).state_dict(),
}


class Odd(Dataset):
    """A data set whose items are what is given."""

    def __init__(self, item, length=ROWS):
        self.item, self.length = item, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.item(index)


class Stream(IterableDataset):
    """A data set without indices."""

    def __iter__(self):
        return iter([(X[0], Y[0])])


def _item_fails(index):
    raise KeyError(index)


def _quantised(values):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch is about to drop these
        return torch.quantize_per_tensor(values, 0.1, 0, torch.qint8)


# What is given instead of inputs.
INPUTS = {
    "inputs, one row": X[0],
    "inputs, one row of shape (1, 2)": X[:1],
    "inputs, no row": X[:0],
    "inputs, too wide": torch.ones(ROWS, 5),
    "inputs, three axes": torch.ones(ROWS, 3, WIDTH),
    "inputs, integers": torch.ones(ROWS, WIDTH, dtype=torch.long),
    "inputs, bools": torch.ones(ROWS, WIDTH, dtype=torch.bool),
    "inputs, double": X.double(),
    "inputs, half": X.half(),
    "inputs, complex": X.to(torch.complex64),
    "inputs, nan": X * math.nan,
    "inputs, infinite": X * math.inf,
    "inputs, 1e38": X * 3e38,
    "inputs, sparse": X.to_sparse(),
    "inputs, meta": X.to("meta"),
    "inputs, quantised": _quantised(X),
    "inputs, nested": torch.nested.as_nested_tensor([X[0], X[1]], layout=torch.jagged),
    "inputs, dict": {"x": X},
    "inputs, dict of other names": {"zzz": X},
    "inputs, dict of odd keys": {0: X},
    "inputs, dict of texts": {"x": ["a"] * ROWS},
    "inputs, tuple": (X,),
    "inputs, two": (X, X),
    "inputs, three": (X, X, X),
    "inputs, unequal": (X, X[:3]),
    "inputs, list of tensors": list(X),
    "inputs, list of lists": X.tolist(),
    "inputs, ragged": [[1.0], [2.0, 3.0]],
    "inputs, texts": ["a"] * ROWS,
    "inputs, masked": np.ma.array(X.numpy(), mask=X.numpy() > 0.5),
    "inputs, masked nowhere": np.ma.array(X.numpy()),
    "inputs, objects": X.numpy().astype(object),
    "inputs, array of texts": X.numpy().astype(str),
    "inputs, longdouble": X.numpy().astype(np.longdouble),
    "inputs, dates": np.full((ROWS, WIDTH), "2020-01-01", dtype="datetime64[D]"),
    "inputs, loader": DataLoader(TensorDataset(X, Y), batch_size=5),
    "inputs, loader of an empty set": DataLoader(TensorDataset(X[:0], Y[:0])),
    "inputs, loader of odd items": DataLoader(Odd(lambda i: "text"), batch_size=5),
    "inputs, loader that fails": DataLoader(Odd(_item_fails), batch_size=5),
    "inputs, data set": TensorDataset(X, Y),
}

# What is given instead of targets.
TARGETS = {
    "targets, bools": Y.bool(),
    "targets, floats": Y.float(),
    "targets, one hot": torch.eye(CLASSES)[Y],
    "targets, one hot of integers": torch.eye(CLASSES, dtype=torch.long)[Y],
    "targets, (n, 1)": Y[:, None],
    "targets, 1 to K": Y + 1,
    "targets, 7": Y * 7,
    "targets, negative": -Y,
    "targets, huge": Y * 2**62,
    "targets, texts": ["cat", "dog"] * 6,
    "targets, array of texts": np.array(["cat", "dog"] * 6),
    "targets, objects": np.array(["cat", None] * 6, dtype=object),
    "targets, nan": Y * math.nan,
    "targets, complex": Y.to(torch.complex64),
    "targets, fewer": Y[:5],
    "targets, none": Y[:0],
    "targets, scalar": Y[0],
    "targets, uint8": Y.to(torch.uint8),
    "targets, half": Y.half(),
    "targets, sparse": Y.float().to_sparse(),
    "targets, meta": Y.to("meta"),
    "targets, masked": np.ma.array(Y.numpy(), mask=Y.numpy() == 0),
    "targets, wide": torch.ones(ROWS, 5),
    "targets, three axes": torch.ones(ROWS, 2, 2, dtype=torch.long),
    "targets, dict": {"y": Y},
    "targets, number": 1,
}

DATA = {
    **{name: (inputs, Y) for name, inputs in INPUTS.items()},
    **{name: (X, targets) for name, targets in TARGETS.items()},
    "data, single row": (X[:1], Y[:1]),
    "data, two rows": (X[:2], Y[:2]),
    "data, empty": (X[:0], Y[:0]),
    "data, swapped": (Y, X),
    "data, inputs alone": X,
    "data, three parts": (X, Y, Y),
    "data, dict": {"x": X, "y": Y},
    "data, dict with labels": {"x": X, "labels": Y},
    "data, data set of three": TensorDataset(X, X, Y),
    "data, data set of one": TensorDataset(X),
    "data, stream": Stream(),
    "data, loader of a stream": DataLoader(Stream()),
    "data, loader without batches": DataLoader(TensorDataset(X, Y), batch_size=None),
    "data, empty loader": DataLoader(TensorDataset(X[:0], Y[:0])),
    "data, items that fail": Odd(_item_fails),
    "data, items of texts": Odd(lambda i: ("text", 1)),
    "data, items of None": Odd(lambda i: None),
    "data, items that differ": Odd(lambda i: (torch.rand(2), 1)),
    "data, items of other shapes": Odd(lambda i: (torch.ones(i + 1), 1)),
    "data, dicts without labels": Odd(lambda i: {"x": X[i]}),
    "data, dicts with labels": Odd(lambda i: {"x": X[i], "labels": Y[i]}),
    "data, negative length": Odd(lambda i: (X[0], Y[0]), length=-1),
}
