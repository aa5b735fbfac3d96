"""Tiny Shakespeare: the next token, from hidden states of a frozen language model."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, is_whole, require
from sbmc.datasets.bundle import DataBundle
from sbmc.datasets.locate import cache_dir, locate
from sbmc.language import text_states
from sbmc_studies.data.features import FeatureBundle

if TYPE_CHECKING:
    from sbmc.language import TextStates

DESCRIPTION = "tiny Shakespeare, next token of 2,500, from a frozen language model's hidden states"
FILE = "tinyshakespeare.txt.gz"
SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
MODEL = "SBMC_MODEL"

CLASSES = 2500
ABOUT = "It holds `input.txt` of char-rnn's tinyshakespeare, 1,115,394 characters, packed by gzip."


def load(data_dir: str | PathLike[str] | None = None, seed: int = 0) -> DataBundle:
    """Load tiny Shakespeare as next-token prediction over the 2,500 most frequent tokens.

    Hidden states are computed when they are first asked for, and kept in the user's cache. The
    model is the one in the folder that `$SBMC_MODEL` names, and otherwise SmolLM2-135M.

    # Paper: GPT-2, fine-tuned on Shakespeare before. Here: SmolLM2-135M-Instruct, because its
    # weights are to be had as a package; any causal model in a folder can take its place.

    Args:
        data_dir: where to look first for `tinyshakespeare.txt.gz`.
        seed: without effect, since nothing is drawn at random.

    Returns:
        The data set; see `next_token_data`.

    Raises:
        DataNotFound: if there is no text, or no model.
        BadInput: if the file found is another text, or the model will not do.
    """
    text = read_text(locate(FILE, data_dir, about=ABOUT), SHA256)
    model = os.environ.get(MODEL, "").strip() or None
    return next_token_data(text_states(text, model, cache=cache_dir() / "language"), CLASSES)


def read_text(path: Path, sha256: str | None = None) -> str:
    """Read a text, packed by gzip or plain, and verify it.

    Args:
        path: of the file.
        sha256: of tiny Shakespeare, if the text has to be that; None takes any.

    Returns:
        The text.

    Raises:
        BadInput: if it cannot be read, or is another text.
    """
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        text = data.decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise BadInput(f"`{path}` must be a text, but reading failed: {error}.") from error
    digest = hashlib.sha256(data).hexdigest()
    if sha256 is not None and digest != sha256:
        raise BadInput(
            f"`{path}` must be tiny Shakespeare (SHA-256 of the text {sha256}), but got {digest}."
        )
    return text


def next_token_data(
    source: TextStates, classes: int = CLASSES, name: str = "shakespeare"
) -> DataBundle:
    """Make a classification of hidden states: which token comes next.

    The last tenth of the blocks tests, the last tenth of the others validates. An input is the
    hidden state at a position, its target the token that follows in the same block; so the last
    position of a block has none. Classes are the tokens that are targets most often in the blocks
    that do not test, the most frequent first, and of equals the one of the lower number. Positions
    with other targets are dropped, in all three parts.

    # Paper: the 2,500 most frequent tokens of the whole text. Here: of the part that does not
    # test, because test data decide nothing.

    Args:
        source: from `text_states`; at least three blocks.
        classes: how many tokens are classes.
        name: of the data set.

    Returns:
        Inputs `(n, width)` float32, labels from 0 to `classes` − 1. `frozen["output"]` is the
        model's own output layer for these classes, `(classes, width)`; `about` names the weights
        and their checksum.

    Raises:
        BadInput: too few blocks, or fewer tokens than classes.
    """
    require(is_whole(classes) and classes >= 2, "classes", "a whole number of at least 2", classes)
    train, _, test = split_blocks(len(source.tokens))
    chosen = frequent_tokens(source.tokens[: test.start, 1:], classes)
    rows = torch.searchsorted(source.vocabulary, chosen)
    lookup = torch.full((int(source.vocabulary.max()) + 1,), -1, dtype=torch.int64)
    lookup[chosen] = torch.arange(classes)
    targets = lookup[source.tokens[:, 1:]]  # (blocks, length − 1), −1 where it is no class

    def part(blocks: slice) -> tuple[Tensor, Tensor]:
        labels = targets[blocks]
        is_class = labels >= 0
        return source.states[blocks, :-1][is_class].float(), labels[is_class]

    inputs, labels = part(slice(0, test.start))
    count = int((targets[train] >= 0).sum())
    bundle = FeatureBundle(
        name=name,
        checksum=source.checksum,
        classes=classes,
        train=(inputs[:count], labels[:count]),
        validation=(inputs[count:], labels[count:]),
        test=part(test),
        ood={},
        frozen={"output": source.output[rows]},
        about={
            "weights": source.weights.name,
            "weights_sha256": source.weights.checksum,
            "text_sha256": source.text_checksum,
            "block": source.tokens.shape[1],
        },
    )
    for part_name in ("train", "validation", "test"):
        rule = f"one with frequent tokens among its {part_name} blocks"
        require(len(getattr(bundle, part_name)[1]) > 0, "text", rule, Phrase("none"))
    return bundle


def split_blocks(blocks: int) -> tuple[slice, slice, slice]:
    """Training, validation and test blocks, by position in the text.

    Args:
        blocks: how many there are.

    Returns:
        Three slices, one after the other.

    Raises:
        BadInput: too few blocks for three parts.

    Examples:
        >>> split_blocks(100)
        (slice(0, 81, None), slice(81, 90, None), slice(90, 100, None))
    """
    require(blocks >= 3, "text", "at least three blocks long", Phrase(f"{blocks} blocks"))
    test = blocks - max(1, blocks // 10)
    validation = test - max(1, test // 10)
    return slice(0, validation), slice(validation, test), slice(test, blocks)


def frequent_tokens(tokens: Tensor, count: int) -> Tensor:
    """The most frequent tokens, the most frequent first; of equals, the one of the lower number.

    Args:
        tokens: of any shape.
        count: how many to choose.

    Returns:
        `(count,)` int64.

    Raises:
        BadInput: if fewer tokens occur.

    Examples:
        >>> frequent_tokens(torch.tensor([7, 3, 7, 5, 3, 9]), 3)
        tensor([3, 7, 5])
    """
    each, times = tokens.unique(return_counts=True)  # `each` is sorted
    require(count <= len(each), "classes", f"at most the {len(each)} tokens that occur", count)
    order = times.sort(descending=True, stable=True).indices
    return each[order[:count]]
