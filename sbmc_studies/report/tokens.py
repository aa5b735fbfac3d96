"""Tokens of a text as words, read from the cache of a frozen language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sbmc.checks import BadInput
from sbmc.datasets.locate import cache_dir
from sbmc.islands.checkpoints.codec import Damaged, unpack
from sbmc.report.markup import cut
from sbmc_studies.data.shakespeare import CLASSES, frequent_tokens, split_blocks
from sbmc_studies.runs.extremes import TEST, Extreme

# Data sets whose classes are tokens, with how many they have.
TOKENS = {"shakespeare": CLASSES}
# How many tokens before a target are shown.
MOST_BEFORE = 40


@dataclass(frozen=True)
class Tokens:
    """Texts of tokens.

    Attributes:
        words: the text of each class.
        before: for each input that was asked for, the text that comes before its target.
    """

    words: tuple[str, ...]
    before: tuple[str | None, ...]

    def word(self, label: int) -> str | None:
        """The text of a class, with signs for blanks and line breaks."""
        if not 0 <= label < len(self.words):
            return None
        return cut(self.words[label].replace("\n", "↵").replace(" ", "␣"), 40)


def look_up_tokens(
    name: str,
    checksum: str,
    extremes: Sequence[Extreme],
    *,
    cache: Path | None = None,
    block: int = 128,
    classes: int | None = None,
) -> Tokens | None:
    """Find the texts of tokens on this machine; no model is loaded.

    Args:
        name: of the data set.
        checksum: of the data, which names their folder in the cache.
        extremes: which inputs.
        cache: of hidden states; the user's if not given.
        block: tokens in a block.
        classes: how many tokens are classes; those of the data set if not given.

    Returns:
        The texts; None if the data set has no tokens, or its cache is not on this machine.
    """
    if name not in TOKENS:
        return None
    folder = cache_dir() / "language" if cache is None else cache
    try:
        tensors, about = unpack((folder / checksum[:12] / "text.safetensors").read_bytes())
        if about.get("key") != checksum:
            return None
        tokens = tensors["tokens"].long()
        tokens = tokens[: len(tokens) // block * block].view(-1, block)
        _, _, test = split_blocks(len(tokens))
        chosen = frequent_tokens(tokens[: test.start, 1:], classes or TOKENS[name])
        text = dict(zip(tensors["vocabulary"].tolist(), map(str, about["words"]), strict=True))
        words = tuple(text[token] for token in chosen.tolist())
        class_tokens = set(chosen.tolist())
        # Inputs of the test set: positions whose next token is a class, in order.
        rows = tokens[test].tolist()
        positions = [
            (r, i)
            for r, row in enumerate(rows)
            for i in range(block - 1)
            if row[i + 1] in class_tokens
        ]
        before = []
        for each in extremes:
            known = each.group == TEST and 0 <= each.index < len(positions)
            row, at = positions[each.index] if known else (0, -1)
            text_before = "".join(
                text[token] for token in rows[row][max(0, at + 1 - MOST_BEFORE) : at + 1]
            )
            before.append(cut(f"…{text_before} …", 400) if known else None)
    except (BadInput, Damaged, OSError, KeyError, IndexError, ValueError, TypeError, RuntimeError):
        return None
    return Tokens(words, tuple(before))
