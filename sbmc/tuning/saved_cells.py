"""Saves the cells of a tuning on disk, so that a second call continues."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from torch import nn

from sbmc.checks import Phrase, require
from sbmc.log import logger
from sbmc.storage.files import write_json
from sbmc.tuning.result import Cell, Tuning, read_tuning

NAME = "tuning.json"
WEIGHTS = "weights"


class SavedCells:
    """Saves every cell as soon as it is scored, and the networks that were trained for it.

    Args:
        folder: where to save; None holds all in memory.
        tuning: the tuning as it begins, without cells.

    Raises:
        BadInput: the folder has a tuning of other settings.
    """

    def __init__(self, folder: Path | None, tuning: Tuning) -> None:
        self._folder = folder
        self._models: dict[tuple[float, int], nn.Module] = {}
        self.tuning = tuning
        if folder is not None and (folder / NAME).exists():
            old = read_tuning(folder / NAME)
            _require_same(old, tuning, folder)
            self.tuning = replace(tuning, cells=old.cells)
        self._cells = {cell.key: cell for cell in self.tuning.cells}

    def has(self, v: float, s: float | None, fold: int) -> bool:
        """Whether a cell is scored."""
        return (v, s, fold) in self._cells

    def get(self, v: float, s: float | None, fold: int) -> Cell:
        """A cell that is scored."""
        return self._cells[v, s, fold]

    def add(self, cell: Cell, model: nn.Module | None = None) -> None:
        """Save a cell; if it has a trained network, its weights first."""
        if model is not None:
            self._models[cell.v, cell.fold] = model
            if self._folder is not None:
                from safetensors.torch import save_file

                path = self._weights(cell.v, cell.fold)
                path.parent.mkdir(parents=True, exist_ok=True)
                temporary = path.with_suffix(".part")
                state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
                save_file(state, temporary)
                os.replace(temporary, path)
        self._cells[cell.key] = cell
        self.update()

    def model(self, v: float, fold: int, network: nn.Module) -> nn.Module | None:
        """The network that was trained for a cell; None if it was not saved.

        Args:
            v: the prior variance.
            fold: the fold.
            network: a network of the same structure; never changed.
        """
        if (v, fold) in self._models:
            return self._models[v, fold]
        path = self._weights(v, fold) if self._folder is not None else None
        if path is None or not path.exists():
            return None
        from safetensors.torch import load_file

        model = copy.deepcopy(network).eval()
        try:
            model.load_state_dict(load_file(path))
        except Exception as error:  # a truncated file, or one of another network
            logger.warning("%s is damaged (%s): training again", path, error)
            return None
        self._models[v, fold] = model
        return model

    def drop_models(self, but: Iterable[float]) -> None:
        """Remove the networks of all other values of v from memory."""
        variances = set(but)
        self._models = {key: model for key, model in self._models.items() if key[0] in variances}

    def update(self, **changes: object) -> Tuning:
        """Change fields of the tuning, and write it atomically."""
        if self._folder is not None and (self._folder / NAME).exists():
            # Another process may be computing other values of the same tuning.
            saved = {cell.key: cell for cell in read_tuning(self._folder / NAME).cells}
            self._cells = {**saved, **self._cells}
        cells = tuple(self._cells.values())
        self.tuning = replace(self.tuning, cells=cells, **changes)  # type: ignore[arg-type]
        if self._folder is not None:
            write_json(self._folder / NAME, self.tuning.as_dict())
        return self.tuning

    def _weights(self, v: float, fold: int) -> Path:
        assert self._folder is not None
        return self._folder / WEIGHTS / f"v-{v:.12g}-fold-{fold}.safetensors"


def _require_same(old: Tuning, new: Tuning, folder: Path) -> None:
    plain = json.loads(json.dumps(dict(new.settings)))  # as JSON gives it back: without tuples
    names = sorted({*old.settings, *plain})
    other = [name for name in names if old.settings.get(name) != plain.get(name)]
    if old.seed != new.seed:
        other.append("seed")
    rule = f"one whose tuning has the same settings as this one ({folder})"
    require(not other, "folder", rule, Phrase(f"another {', another '.join(other)}"))
