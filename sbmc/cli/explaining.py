"""Explains a network that is named on the command line; see `sbmc.explain`."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, require
from sbmc.cli.own_model import load_model
from sbmc.datasets.files.arrays import as_rows, load_npz
from sbmc.likelihoods import Gaussian
from sbmc.target.explanation import find_explanation

# The noise of a Gaussian likelihood changes no time.
# Numbers that are made up, at most: more than that is no example of a network's inputs.
MOST_NUMBERS = 100_000_000
LIKELIHOODS = {"categorical": "categorical", "gaussian": Gaussian(noise_variance=1.0)}


def explain_own_model(
    reference: str,
    data: Path | None,
    input_shape: str | None,
    *,
    tokens: int | None,
    examples: int,
    parameters: str,
    likelihood: str,
    particles: int,
    path: str,
    as_json: bool,
) -> None:
    """Print how a network is evaluated.

    Args:
        reference: of the network, as `load_model` takes it.
        data: a file of inputs, or None.
        input_shape: of an example, such as `"1x28x28"`, or None: one of the two is given.
        tokens: made-up inputs are whole numbers below this; real numbers if None.
        examples: how many are made up.
        parameters: which ones are sampled.
        likelihood: `"categorical"` or `"gaussian"`.
        particles: how many are evaluated together.
        path: as in `sbmc.explain`.
        as_json: whether to print JSON instead of a table.

    Raises:
        BadInput: an argument breaks its rule, or the network cannot be called on the inputs.
    """
    given = (data is not None) + (input_shape is not None)
    rule = "given, or else --data, and not both: they say what the inputs are"
    require(given == 1, "input_shape", rule, Phrase("both" if given else "neither"))
    require(tokens is None or data is None, "tokens", "left out with --data", tokens)
    require(likelihood in LIKELIHOODS, "likelihood", "categorical or gaussian", likelihood)
    if data is not None:
        inputs = read_inputs(data)
    else:
        inputs = made_up_inputs(str(input_shape), examples, tokens)
    model = load_model(reference)
    try:
        with torch.no_grad():
            model.eval()(inputs[:1])
    except Exception as error:
        raise BadInput(
            f"`model` must be one that takes inputs of shape {tuple(inputs.shape)} and dtype "
            f"{str(inputs.dtype).removeprefix('torch.')}, but got {reference!r}, whose forward "
            "fails on them. Give its own with --input-shape (--tokens for an embedding) or --data; "
            "--debug shows the error."
        ) from error
    found = find_explanation(
        model,
        inputs,
        parameters=parameters,
        likelihood=LIKELIHOODS[likelihood],
        particles=particles,
        path=path,
    )
    if not as_json:
        print(found)
        return
    content = asdict(found) | {"layers": [layer._asdict() for layer in found.layers]}
    print(json.dumps(content, indent=2, ensure_ascii=False))


def read_inputs(file: Path) -> Tensor:
    """The inputs in an `.npz` file: its array `inputs`, or the only one that it has.

    Raises:
        BadInput: there is no such file or array, or it is not of numbers.
    """
    arrays = load_npz(file)
    name = "inputs" if len(arrays) != 1 else next(iter(arrays))
    require(name in arrays, "data", "a file with an array `inputs`", sorted(arrays))
    return as_rows(arrays[name], name)


def made_up_inputs(shape: str, examples: int, tokens: int | None = None) -> Tensor:
    """Random inputs of a shape.

    Args:
        shape: of one example, such as `"1x28x28"`.
        examples: how many.
        tokens: whole numbers below this; real numbers if None.

    Returns:
        `(examples, *shape)`; always the same.

    Raises:
        BadInput: the text is not a shape.

    Examples:
        >>> made_up_inputs("1x28x28", 5).shape, made_up_inputs("12", 5, tokens=100).dtype
        (torch.Size([5, 1, 28, 28]), torch.int64)
    """
    sizes = shape.strip().lower().split("x")
    good = all(size.isdecimal() and len(size) < 20 and int(size) > 0 for size in sizes)
    require(good, "input_shape", "whole numbers with x between them, such as 1x28x28", shape)
    full = examples, *map(int, sizes)
    large = math.prod(full) <= MOST_NUMBERS
    require(large, "input_shape", f"of at most {MOST_NUMBERS:,} numbers in all", shape)
    rng = torch.Generator().manual_seed(0)
    if tokens is not None:
        return torch.randint(tokens, full, generator=rng)
    return torch.randn(full, generator=rng)
