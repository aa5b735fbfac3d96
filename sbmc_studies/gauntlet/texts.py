"""Short texts as numbers of words, for small networks that read."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Sequence
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from sbmc.datasets.bundle import DataBundle
from sbmc.datasets.locate import locate
from sbmc.randomness import Stream, generator
from sbmc.storage.digests import digest

VOCABULARY, LENGTH = 2_000, 64
PADDING, UNKNOWN = 0, 1
_WORD = re.compile(r"[a-z']+|[!?]")


def load_texts(name: str, seed: int, data_dir: str | PathLike[str] | None) -> DataBundle:
    """Load `imdb_texts` or `reviews`: sentiment of short texts.

    Args:
        name: which of them.
        seed: decides which rows train, validate and, for `reviews`, test.
        data_dir: where to look first for files.

    Returns:
        The data set; inputs are word numbers `(n, 64)` int64, filled up with zeros.
    """
    others = _read("ood_text.jsonl.gz", data_dir)
    products = [each["text"] for each in others if each["kind"] == "product_description"]
    reviews = [
        each for each in others if each["kind"] == "amazon_review" and each["label"] in (0, 1)
    ]
    if name == "imdb_texts":
        rows, test = (_read(f"imdb_{part}_sample.jsonl.gz", data_dir) for part in ("train", "test"))
        ood = {"products": products, "reviews": [each["text"] for each in reviews[::8]]}
    else:
        rows = [each for each in reviews if each["source"].startswith("mdsd_v2/")]
        rows = [rows[i] for i in _order(len(rows), seed, 1)]
        rows, test = rows[:2_000], rows[2_000:]
        ood = {"products": products}
    rows = [rows[i] for i in _order(len(rows), seed, 0)]
    words = _vocabulary([each["text"] for each in rows])
    inputs, labels = _encode([each["text"] for each in rows], words), _labels(rows)
    fifth = len(rows) // 5
    return DataBundle(
        name=name,
        checksum=digest(inputs, labels),
        classes=2,
        train=(inputs[fifth:], labels[fifth:]),
        validation=(inputs[:fifth], labels[:fifth]),
        test=(_encode([each["text"] for each in test], words), _labels(test)),
        ood={group: _encode(texts, words) for group, texts in ood.items()},
    )


def _read(name: str, data_dir: str | PathLike[str] | None) -> list[dict[str, Any]]:
    path = locate(name, data_dir, about="Texts, one JSON object a line.")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _order(count: int, seed: int, purpose: int) -> list[int]:
    rng = generator(seed, Stream.SPLIT, purpose)
    return torch.randperm(count, generator=rng).tolist()


def _vocabulary(texts: Sequence[str]) -> dict[str, int]:
    """The most frequent words of the training texts; equal counts in alphabetical order."""
    counts = Counter(word for text in texts for word in _WORD.findall(text.lower()))
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[: VOCABULARY - 2]
    return {word: number for number, word in enumerate(frequent, start=2)}


def _encode(texts: Sequence[str], words: dict[str, int]) -> Tensor:
    numbers = torch.full((len(texts), LENGTH), PADDING)
    for row, text in zip(numbers, texts, strict=True):
        tokens = [words.get(word, UNKNOWN) for word in _WORD.findall(text.lower())[:LENGTH]]
        row[: len(tokens)] = torch.tensor(tokens, dtype=torch.int64)
    return numbers


def _labels(rows: Sequence[dict[str, Any]]) -> Tensor:
    return torch.tensor([each["label"] for each in rows])
