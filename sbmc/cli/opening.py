"""Opens a posterior's file and the data that it is asked about, as `sbmc fit` described them."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sbmc.checks import BadInput, Phrase, nearest, require, require_path
from sbmc.cli.own_model import load_model, read_exported, refuse_script, source_digest
from sbmc.datasets.files import (
    TABLES,
    Rows,
    TableEncoding,
    TargetUse,
    UnknownLevelWarning,
    read_arrays,
    read_table,
)
from sbmc.embedding.picture_rows import PictureForm, read_picture_rows
from sbmc.posterior.distillation.distilled import Distilled
from sbmc.posterior.distillation.saving import is_distilled
from sbmc.posterior.posterior import Posterior
from sbmc.posterior.recipe import REFERENCE, Recipe
from sbmc.posterior.saving import load, read_recipe
from sbmc.report.pretrained.facts import FILES

# The kinds of data that a recipe may describe.
TABLE, ARRAYS, PICTURES = "table", "arrays", "pictures"
_FORMS = {
    TABLE: f"a table ({', '.join(TABLES)})",
    ARRAYS: "an .npz file of arrays",
    PICTURES: "a folder of pictures",
}
# The exit code of a command that did its work with a posterior that is not healthy.
NOT_HEALTHY = 3


@dataclass(frozen=True)
class DataOptions:
    """What the user says about the data: the names of arrays in an `.npz` file."""

    inputs: str | None = None
    targets: str | None = None


def kind_of_data(path: Path) -> str:
    """Which kind of data a path has, by its name.

    Raises:
        BadInput: there is nothing, or it is of no kind that can be read.
    """
    path = require_path("data", path)
    if not path.exists():
        raise BadInput(
            f"`data` must be a file or a folder that exists, but got '{path}'.{_beside(path)}"
        )
    if path.is_dir():
        _refuse_shards(path)
        return PICTURES
    name = path.name.lower()
    table, arrays = name.endswith(TABLES), name.endswith(".npz")
    require(table or arrays, "data", "; ".join(_FORMS.values()), str(path))
    return TABLE if table else ARRAYS


def _refuse_shards(folder: Path) -> None:
    """Refuse a folder whose files are parts of one data set, which Python reads and a shell not."""
    for suffix in (".npz", ".parquet"):
        if any(folder.glob(f"*{suffix}")):
            raise BadInput(
                f"`data` must be one file or a folder of pictures, but got '{folder}' with files "
                f"*{suffix}. Python reads them all: sbmc.fit(net, "
                f"sbmc.datasets.ShardedFiles({str(folder)!r}), sampler=sbmc.SGHMC())."
            )


def require_new_file(path: Path) -> None:
    """Refuse, before any computing, a path that no file can be written to.

    Args:
        path: the option `out`.

    Raises:
        BadInput: it is a folder, or its folder does not exist or cannot be written to.
    """
    path = require_path("out", path)
    require(not path.is_dir(), "out", "the name of a file, not of a folder", str(path))
    folder = path.absolute().parent
    usable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    require(usable, "out", "a file in an existing folder that can be written to", str(path))


def open_posterior(path: Path, model: str | None = None) -> Posterior:
    """Load a posterior with its network.

    Args:
        path: the file.
        model: a reference to the network or a `.pt2` file; needed for a file of `Posterior.save`,
            and where the code that the file names is not there or has changed.

    Returns:
        The posterior.

    Raises:
        BadInput: there is no such file, or its network is not to be had or is another one.
    """
    path = _posterior_file(path)
    recipe = read_recipe(path)
    if model is not None:
        return load(path, load_network(model)[0])
    if recipe is None:
        raise BadInput(
            f"`model` must be given for {path.name}, which Posterior.save wrote without its "
            "network, but got nothing. Give --model FILE.py:NAME."
        )
    if recipe.kind != REFERENCE:
        return load(path)
    reference = str(recipe.network.get("reference"))
    digest = source_digest(reference)
    if digest != recipe.network.get("digest"):
        state = "is not here" if digest is None else "has changed since"
        raise BadInput(
            f"`model` must be given for {path.name}, since the code of its network, {reference!r}, "
            f"{state}, but got nothing. Give --model FILE.py:NAME with the network that it was "
            "made with."
        )
    return load(path, load_network(reference)[0])


def _posterior_file(path: Path) -> Path:
    """The path of a posterior, or a refusal that says what is there instead."""
    path = require_path("file", path)
    rule = "`file` must be a posterior's file that exists, but got"
    if path.is_dir():
        weights = path / FILES["Posterior"]
        remedy = f" Give '{weights}'." if weights.is_file() else ""
        raise BadInput(f"{rule} the folder '{path}'.{remedy}")
    if not path.is_file():
        raise BadInput(f"{rule} '{path}'.{_beside(path)}")
    if is_distilled(path):
        raise BadInput(
            f"`file` must be a posterior's file, but got '{path}', which has a distilled network. "
            "Give the posterior that it was made from, or open it in Python: "
            "sbmc.Distilled.load(path). `sbmc export` and `sbmc card` take it as it is."
        )
    return path


def _beside(path: Path) -> str:
    """The file in the same folder whose name is nearest, or where paths begin, as a sentence."""
    folder = path.parent
    names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    return nearest(path.name, names) or f" Paths begin at the current folder, {Path.cwd().name}."


def open_model(path: Path, model: str | None = None) -> Posterior | Distilled:
    """Load a posterior or a distilled network, whichever a file has; as `open_posterior`."""
    path = require_path("file", path)
    if not is_distilled(path):
        return open_posterior(path, model)
    try:
        return Distilled.load(path, None if model is None else load_network(model)[0])
    except BadInput as error:
        # In Python the argument is called `network`.
        raise BadInput(str(error).replace("`network`", "`model`")) from error


def load_network(reference: str) -> tuple[nn.Module, bytes | None]:
    """A network by its reference, and its bytes if it is an exported one.

    Args:
        reference: `FILE.py:NAME`, `package.module:NAME` or a `.pt2` file.

    Returns:
        The network in evaluation mode, and the bytes of its file or None.

    Raises:
        BadInput: there is none, or it is TorchScript.
    """
    path = Path(reference).expanduser()
    refuse_script(path, reference)
    if path.suffix.lower() == ".pt2":
        return read_exported(path)
    return load_model(reference).eval(), None


def require_outputs(model: nn.Module, rows: Rows, reference: str) -> None:
    """Refuse a network that cannot be called on rows, or that lacks an output for each class.

    Args:
        model: the network.
        rows: of the data.
        reference: what the user called it.

    Raises:
        BadInput: the message has the shape of the inputs.
    """
    few = rows.inputs[:2]
    shape = f"{tuple(few.shape[1:])} and dtype {str(few.dtype).removeprefix('torch.')}"
    try:
        with torch.no_grad():
            outputs = model.eval()(few)
    except Exception as error:
        raise BadInput(
            f"`model` must be a network that takes rows of shape {shape}, but got {reference!r}, "
            "whose forward fails on them. Give other data or another network; --debug shows the "
            "error."
        ) from error
    if rows.classes is not None:
        count = getattr(outputs, "shape", (0,))[-1]
        rule = f"a network with an output for each of the {len(rows.classes)} classes"
        require(count == len(rows.classes), "model", rule, Phrase(f"one with {count}"))


def read_rows(
    recipe: Recipe | None,
    path: Path,
    options: DataOptions | None = None,
    *,
    target_use: TargetUse = "optional",
    progress: bool | None = None,
) -> Rows:
    """Read data as a posterior takes them.

    Args:
        recipe: of the posterior; without one, data are arrays.
        path: of the data.
        options: what the user says about them.
        target_use: whether targets are looked for, and whether they are required.
        progress: of reading pictures: None for automatic, False for none.

    Returns:
        The rows. Values of text that training had not are reported on standard error.

    Raises:
        BadInput: they are of another kind than those of training, or break a rule.
    """
    options = options or DataOptions()
    described: dict[str, Any] = {} if recipe is None else recipe.data
    kind = str(described.get("kind", ARRAYS))
    got = kind_of_data(path)
    rule = f"{_FORMS.get(kind, kind)}, as the posterior was fitted to"
    require(got == kind, "data", rule, str(path))
    if kind == TABLE:
        encoding = _stored(TableEncoding.from_dict, described)
        with say_unknown_levels():
            return encoding.rows(read_table(path), target_use=target_use)
    if kind == PICTURES:
        form = _stored(PictureForm.from_dict, described)
        rows, resized = read_picture_rows(path, form, target_use=target_use, progress=progress)
        say_resized(resized, form)
        return rows
    if options.targets is not None and target_use == "optional":
        target_use = "required"
    return read_arrays(
        path,
        inputs=options.inputs or described.get("inputs"),
        targets=options.targets or described.get("targets"),
        target_use=target_use,
    )[0]


def say_resized(resized: int, form: PictureForm) -> None:
    """Say on standard error how many pictures had another size."""
    if resized:
        print(f"sbmc: {resized:,} pictures were resized to {form}.", file=sys.stderr)


@contextmanager
def say_unknown_levels() -> Iterator[None]:
    """Print what is warned of while a table is read, unknown levels above all, as lines."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnknownLevelWarning)
        yield
    for each in caught:
        print(f"sbmc: {each.message}", file=sys.stderr)


def report_health(posterior: Posterior | Distilled, *, any_health: bool) -> int:
    """Print the health of a posterior, or of a distilled network's teacher, on standard error.

    Args:
        posterior: whose.
        any_health: whether the exit code is 0 whatever it is.

    Returns:
        The exit code: 3 if it is not ok, otherwise 0.
    """
    if isinstance(posterior, Distilled):
        words = str(posterior.settings.get("health", "not checked"))
        print(f"sbmc: health of the posterior that it was distilled from: {words}", file=sys.stderr)
        return NOT_HEALTHY if words.startswith("not ok") and not any_health else 0
    health = posterior.health
    remedy = ""
    if health.ok is False:
        remedy = " From a shell: fit it again with a larger --budget or another --likelihood."
    print(f"sbmc: health of the posterior: {health}{remedy}", file=sys.stderr)
    return NOT_HEALTHY if health.ok is False and not any_health else 0


def _stored(make: Any, described: dict[str, Any]) -> Any:
    try:
        return make(described)
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(
            "`file` must be a posterior that says how its data are read, but got one where that is "
            "damaged. Fit it again."
        ) from error
