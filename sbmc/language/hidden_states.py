"""Hidden states of a text under a frozen model: computed once, kept as files, gone on with.

    <folder>/text.safetensors           the tokens, and the output layer's rows of those that occur
    <folder>/states-00003.safetensors   hidden states of blocks 96 to 127, in float16

A file is written under another name and renamed, so that it is whole or not there, and has its own
digest in it. A run that was killed goes on after the last whole file, with the same bits, since
blocks go through the model in the same groups. Once all files are there no model is loaded.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from sbmc.checks import Phrase, is_whole, require
from sbmc.islands.checkpoints import open_store
from sbmc.islands.checkpoints.codec import Damaged, pack, unpack
from sbmc.islands.checkpoints.store import Store
from sbmc.language.frozen_model import FrozenModel, Weights, find_weights, load_frozen
from sbmc.log import logger
from sbmc.progress import open_progress

BLOCK = 128
# Blocks that go through the model together: activations of two stay in cache.
TOGETHER = 2
# Blocks in a file: seconds of work that a kill can cost.
IN_FILE = 32
_FORMAT = 1


@dataclass(frozen=True, eq=False)
class TextStates:
    """A text as a frozen model sees it, in blocks.

    Attributes:
        weights: of the model.
        text_checksum: SHA-256 of the text.
        tokens: `(blocks, length)` int64; a rest that fills no block is left out.
        states: `(blocks, length, width)` float16, what the output layer is given.
        vocabulary: the tokens that occur, in order, `(size,)` int64.
        output: the output layer's rows of these, `(size, width)` float32.
        words: the tokens that occur as text, in the order of `vocabulary`.
    """

    weights: Weights
    text_checksum: str
    tokens: Tensor
    states: Tensor
    vocabulary: Tensor
    output: Tensor
    words: tuple[str, ...]

    @property
    def checksum(self) -> str:
        """SHA-256 of what decides everything else: weights, text and length of a block."""
        return _key(self.weights, self.text_checksum, self.tokens.shape[1])


def text_states(
    text: str,
    model: str | PathLike[str] | None = None,
    *,
    cache: str | PathLike[str],
    block: int = BLOCK,
    progress: bool | None = None,
) -> TextStates:
    """Compute the hidden states of a text, or read those that were computed before.

    Args:
        text: at least one block of it.
        model: as `find_weights` takes it.
        cache: a folder; the files stand in one of its own in there, named by weights and text.
        block: tokens in a block. A position sees only its own block.
        progress: as `open_progress` takes it.

    Returns:
        Tokens, hidden states and output layer.

    Raises:
        BadInput: an argument that is refused, or a model that will not do.
        DataNotFound: there is no model.
        CheckpointError: a file could not be written or read.
    """
    require(is_whole(block) and block >= 2, "block", "a whole number of at least 2", block)
    require(isinstance(text, str) and bool(text), "text", "a non-empty string", Phrase("none"))
    weights = find_weights(model)
    text_checksum = hashlib.sha256(text.encode()).hexdigest()
    key = _key(weights, text_checksum, block)
    store = open_store(Path(cache).expanduser() / key[:12])
    work = _Work(store, key, weights)
    about = work.about(text)
    tokens = about.tensors["tokens"].long()
    blocks = len(tokens) // block
    require(blocks >= 1, "text", f"at least {block} tokens long", Phrase(f"{len(tokens)} tokens"))
    tokens = tokens[: blocks * block].view(blocks, block)
    return TextStates(
        weights=weights,
        text_checksum=text_checksum,
        tokens=tokens,
        states=work.states(tokens, progress),
        vocabulary=about.tensors["vocabulary"],
        output=about.tensors["output"],
        words=tuple(about.words),
    )


@dataclass(frozen=True)
class _About:
    tensors: dict[str, Tensor]
    words: list[str]


class _Work:
    """One text under one model, in one folder; the model is loaded when it is first needed."""

    def __init__(self, store: Store, key: str, weights: Weights) -> None:
        self._store, self._key, self._weights = store, key, weights
        self._loaded: FrozenModel | None = None

    def about(self, text: str) -> _About:
        found = self._read("text.safetensors")
        if found is None:
            self._store.probe()
            model = self._model()
            tokens = model.tokens(text)
            occurring = tokens.unique()
            tensors = {
                "tokens": tokens.int(),
                "vocabulary": occurring,
                "output": model.output_rows(occurring),
            }
            words = [model.tokenizer.decode([token]) for token in occurring.tolist()]
            self._write("text.safetensors", tensors, {"words": words})
            return _About(tensors, words)
        return _About(found[0], found[1]["words"])

    def states(self, tokens: Tensor, progress: bool | None) -> Tensor:
        groups = [slice(i, i + IN_FILE) for i in range(0, len(tokens), IN_FILE)]
        missing, done = [], 0
        whole: Tensor | None = None
        for index, group in enumerate(groups):
            found = self._read(_name(index))
            if found is None:
                missing.append(index)
                continue
            whole = _put(whole, found[0]["states"], group, len(tokens))
            done += len(tokens[group])
        if missing:
            total = len(tokens)
            with open_progress(
                progress, "hidden states", total=total, unit="blocks", before=done
            ) as bar:
                for index in missing:
                    part = self._compute(tokens[groups[index]])
                    self._write(_name(index), {"states": part}, {})
                    whole = _put(whole, part, groups[index], total)
                    done += len(part)
                    bar.update(done)
        assert whole is not None  # there is at least one block
        return whole

    def _compute(self, tokens: Tensor) -> Tensor:
        model = self._model()
        states = torch.cat([model.states(few) for few in tokens.split(TOGETHER)])
        small = states.half()
        finite = bool(torch.isfinite(small).all())
        rule = "one whose hidden states are finite in float16"
        require(finite, "model", rule, Phrase(f"{float(states.abs().max())} among them"))
        return small

    def _model(self) -> FrozenModel:
        if self._loaded is None:
            logger.info("loading %s", self._weights.name)
            self._loaded = load_frozen(self._weights)
        return self._loaded

    def _write(self, name: str, tensors: dict[str, Tensor], more: dict) -> None:
        self._store.write(name, pack(tensors, {"key": self._key, **more}))

    def _read(self, name: str) -> tuple[dict[str, Tensor], dict] | None:
        data = self._store.read(name)
        if data is None:
            return None
        try:
            tensors, metadata = unpack(data)
        except Damaged as error:
            logger.warning("%s is damaged (%s): computing again", self._store.where(name), error)
            return None
        return (tensors, metadata) if metadata.get("key") == self._key else None


def _put(whole: Tensor | None, part: Tensor, group: slice, blocks: int) -> Tensor:
    """Put a part in its place; what it is a part of is made when the first one shows its shape."""
    whole = part.new_empty(blocks, *part.shape[1:]) if whole is None else whole
    whole[group] = part
    return whole


def _name(index: int) -> str:
    return f"states-{index:05d}.safetensors"


def _key(weights: Weights, text_checksum: str, block: int) -> str:
    decides = {
        "format": _FORMAT,
        "weights": weights.checksum,
        "settings": weights.settings_checksum,
        "text": text_checksum,
        "block": block,
    }
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()
