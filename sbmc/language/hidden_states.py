"""Hidden states of a text under a frozen model, computed once and saved as files.

    <folder>/text.safetensors           the tokens, and the output layer's rows of those that occur
    <folder>/states-00003.safetensors   hidden states of blocks 96 to 127, in float16

A file is written under a temporary name and renamed, so that it is always complete, and it contains
its own digest. A run that was killed continues after the last complete file, with the same bits,
since blocks go through the model in the same groups. Once all files exist no model is loaded.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from os import PathLike

import torch
from torch import Tensor

from sbmc.checks import Phrase, require, require_count, require_path
from sbmc.islands.checkpoints import open_store
from sbmc.islands.checkpoints.codec import Damaged, pack, unpack
from sbmc.islands.checkpoints.store import Store
from sbmc.language.frozen_model import FrozenModel, Weights, find_weights, load_frozen
from sbmc.log import logger
from sbmc.progress import open_progress

BLOCK = 128
# Blocks that go through the model together: activations of two stay in cache.
TOGETHER = 2
# Blocks in a file: a killed run loses at most so many.
IN_FILE = 32
_FORMAT = 1


@dataclass(frozen=True, eq=False)
class TextStates:
    """The tokens and hidden states of a text, in blocks.

    Attributes:
        weights: of the model.
        text_checksum: SHA-256 of the text.
        tokens: `(blocks, length)` int64; an incomplete last block is left out.
        states: `(blocks, length, width)` float16, the inputs of the output layer.
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
        """SHA-256 of weights, text and length of a block, which decide everything else."""
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
        cache: a folder; the files are in a subfolder that is named by weights and text.
        block: tokens in a block. A position sees only its own block.
        progress: as `open_progress` takes it.

    Returns:
        Tokens, hidden states and output layer.

    Raises:
        BadInput: an argument is refused, or the model cannot be used.
        DataNotFound: there is no model.
        CheckpointError: a file could not be written or read.
    """
    require_count("block", block, 2)
    require(isinstance(text, str) and bool(text), "text", "a non-empty string", text)
    folder = require_path("cache", cache).expanduser()
    weights = find_weights(model)
    text_checksum = hashlib.sha256(text.encode()).hexdigest()
    key = _key(weights, text_checksum, block)
    store = open_store(folder / key[:12])
    files = _StateFiles(store, key, weights)
    about = files.about(text)
    tokens = about.tensors["tokens"].long()
    blocks = len(tokens) // block
    require(blocks >= 1, "text", f"at least {block} tokens long", Phrase(f"{len(tokens)} tokens"))
    tokens = tokens[: blocks * block].view(blocks, block)
    return TextStates(
        weights=weights,
        text_checksum=text_checksum,
        tokens=tokens,
        states=files.states(tokens, progress),
        vocabulary=about.tensors["vocabulary"],
        output=about.tensors["output"],
        words=tuple(about.words),
    )


@dataclass(frozen=True)
class _About:
    tensors: dict[str, Tensor]
    words: list[str]


class _StateFiles:
    """One text under one model, in one folder; the model is loaded when it is first needed."""

    def __init__(self, store: Store, key: str, weights: Weights) -> None:
        self._store, self._key, self._weights = store, key, weights
        self._loaded: FrozenModel | None = None

    def about(self, text: str) -> _About:
        saved = self._read("text.safetensors")
        if saved is None:
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
        return _About(saved[0], saved[1]["words"])

    def states(self, tokens: Tensor, progress: bool | None) -> Tensor:
        groups = [slice(i, i + IN_FILE) for i in range(0, len(tokens), IN_FILE)]
        missing, done = [], 0
        all_states: Tensor | None = None
        for index, group in enumerate(groups):
            saved = self._read(_name(index))
            if saved is None:
                missing.append(index)
                continue
            all_states = _put(all_states, saved[0]["states"], group, len(tokens))
            done += len(tokens[group])
        if missing:
            total = len(tokens)
            with open_progress(
                progress, "hidden states", total=total, unit="blocks", before=done
            ) as bar:
                for index in missing:
                    part = self._compute(tokens[groups[index]])
                    self._write(_name(index), {"states": part}, {})
                    all_states = _put(all_states, part, groups[index], total)
                    done += len(part)
                    bar.update(done)
        assert all_states is not None  # there is at least one block
        return all_states

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


def _put(all_states: Tensor | None, part: Tensor, group: slice, blocks: int) -> Tensor:
    """Copy a part into the tensor of all states, which is made with the first part."""
    all_states = part.new_empty(blocks, *part.shape[1:]) if all_states is None else all_states
    all_states[group] = part
    return all_states


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
