"""The work of `sbmc fit`: read data, fit a posterior, and save it with all that it needs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from sbmc.checks import BadInput, Phrase, require, require_path
from sbmc.cli.interruption import explain_interruption
from sbmc.cli.opening import (
    ARRAYS,
    PICTURES,
    TABLE,
    DataOptions,
    kind_of_data,
    load_network,
    read_rows,
    report_health,
    require_new_file,
    require_outputs,
    say_resized,
)
from sbmc.cli.own_model import source_digest
from sbmc.datasets.files import Rows, read_arrays, read_table
from sbmc.embedding.picture_rows import PictureForm, learn_form, read_picture_rows
from sbmc.estimators.table import doubtful_deviation, fit_table
from sbmc.fitting.fit import fit
from sbmc.islands.health import HealthWarning
from sbmc.likelihoods import Rescaled
from sbmc.posterior.posterior import Posterior
from sbmc.posterior.recipe import EXPORTED, REFERENCE, Recipe, graph_tensor


@dataclass(frozen=True)
class FitOptions:
    """Options of `sbmc fit`, read; None leaves the choice to the library.

    Attributes:
        target: column of the target, of a table.
        drop: columns to leave out, of a table.
        hidden_layers: widths of the network for a table.
        likelihood: of the targets.
        validation: a share of the rows for a table, a file or folder for a network.
        budget: what sampling may cost.
        seed: decides all noise.
        size: height and width of pictures.
        channels: of pictures.
        data: names of arrays.
    """

    target: str | None = None
    drop: Sequence[str] = ()
    hidden_layers: Sequence[int] | None = None
    likelihood: str | None = None
    validation: str | None = None
    budget: Any = None
    seed: int = 0
    size: tuple[int, int] | None = None
    channels: str | None = None
    data: DataOptions = field(default_factory=DataOptions)


def run_fit(
    model: str | None,
    data: Path,
    out: Path,
    options: FitOptions,
    *,
    quiet: bool = False,
    any_health: bool = False,
) -> int:
    """Fit a posterior, save it and say how it went.

    Args:
        model: a reference to a trained network; None for a table.
        data: the training data.
        out: the file to write.
        options: of the fit.
        quiet: no progress.
        any_health: whether the exit code is 0 also if the posterior is not healthy.

    Returns:
        The exit code.

    Raises:
        BadInput: data, model or an option breaks its rule; found before any computing.
    """
    require_new_file(out)
    kind = kind_of_data(data)
    interrupted = explain_interruption("nothing is saved; the same command begins again.")
    with interrupted, warnings.catch_warnings():
        warnings.simplefilter("ignore", HealthWarning)  # it is printed below
        if kind == TABLE:
            rule = "left out for a table, whose network has --hidden layers"
            require(model is None, "model", rule, model)
            posterior, summary = _fit_table(data, options, quiet)
        else:
            posterior, summary = _fit_network(model, data, kind, options, quiet)
    # Before anything is printed: a reader of the output may have gone.
    posterior.save(out)
    print("\n".join([*summary, *_describe_fit(posterior, out)]))
    return report_health(posterior, any_health=any_health)


def _fit_table(data: Path, options: FitOptions, quiet: bool) -> tuple[Posterior, list[str]]:
    """The posterior of a table, and lines to print."""
    _refuse(options, "size", "channels", what="pictures")
    _refuse(options.data, "inputs", "targets", what="arrays")
    table = read_table(data)
    share = None
    if options.validation is not None:
        try:
            share = float(options.validation)
        except ValueError:
            share = math.nan
        rule = "the share of rows that is set aside, from 0 up to 1, for a table"
        require(0 <= share < 1, "validation", rule, options.validation)
    posterior = fit_table(
        table,
        target=options.target,
        likelihood=options.likelihood,
        hidden_layers=options.hidden_layers,
        validation_fraction=share,
        budget=options.budget,
        drop=options.drop,
        seed=options.seed,
        progress=not quiet,
    )
    assert posterior.recipe is not None
    columns = posterior.recipe.data["columns"]
    text = [str(each["name"]) for each in columns if each["levels"]]
    noun = "row" if len(table) == 1 else "rows"
    also = f"; text: {', '.join(text)}" if text else ""
    return posterior, [
        f"{table.source}: {len(table):,} {noun}, {len(columns)} columns{also}",
        f"target: {posterior.recipe.data['target']}, {_targets(posterior)}",
    ]


def _fit_network(
    reference: str | None, data: Path, kind: str, options: FitOptions, quiet: bool
) -> tuple[Posterior, list[str]]:
    """The posterior of a network, and lines to print."""
    if reference is None:
        raise BadInput(
            "`model` must be given for data that are no table, but got nothing. Give a trained "
            "network, as in: sbmc fit model.py:net --data ...; a network for embeddings of "
            "pictures or texts needs none: see `sbmc embed` and `sbmc head`."
        )
    _refuse(options, "target", "hidden_layers", what="tables")
    rule = "left out for data that are no table"
    require(not options.drop, "drop", rule, Phrase(", ".join(options.drop)))
    described, rows = _read_training(data, kind, options)
    network, content = load_network(reference)
    require_outputs(network, rows, reference)
    validation = None
    if options.validation is not None:
        held_out = require_path("validation", options.validation)
        rule = "a file or folder of rows that the network was not trained on"
        require(held_out.exists(), "validation", rule, options.validation)
        recipe = Recipe({"kind": REFERENCE}, described)
        validation = read_rows(recipe, held_out, options.data, target_use="required").with_targets()
    posterior = fit(
        network,
        rows.with_targets(),
        likelihood=options.likelihood,
        validation=validation,
        budget=options.budget,
        seed=options.seed,
        progress=not quiet,
    )
    described["rows"] = len(rows)
    if not posterior.likelihood.classification:
        described["abstain_above"] = doubtful_deviation(posterior, rows.inputs)
    if content is None:
        named = {"kind": REFERENCE, "reference": reference, "digest": source_digest(reference)}
        posterior.recipe = Recipe(named, described)
    else:
        posterior.recipe = Recipe({"kind": EXPORTED}, described, graph_tensor(content))
    return posterior, [
        _describe_rows(rows, described),
        *_describe_network(network, rows, reference),
    ]


def _read_training(data: Path, kind: str, options: FitOptions) -> tuple[dict[str, Any], Rows]:
    """How the training data are read, as plain values, and the rows."""
    if kind == PICTURES:
        _refuse(options.data, "inputs", "targets", what="arrays")
        form = learn_form(data, options.size, options.channels)
        rows, resized = read_picture_rows(data, form, target_use="required", progress=None)
        say_resized(resized, form)
        return {"kind": PICTURES, **form.as_dict()}, rows
    _refuse(options, "size", "channels", what="pictures")
    names = options.data
    rows, found = read_arrays(
        data, inputs=names.inputs, targets=names.targets, target_use="required"
    )
    return {"kind": ARRAYS, **found._asdict()}, rows


def _refuse(options: Any, *names: str, what: str) -> None:
    for name in names:
        value = getattr(options, name)
        require(value is None, name, f"left out: it is an option for {what}", value)


def _targets(posterior: Posterior) -> str:
    assert posterior.recipe is not None
    classes = posterior.recipe.data["classes"]
    if classes is None:
        likelihood = posterior.likelihood
        plain = likelihood.base if isinstance(likelihood, Rescaled) else likelihood
        by_network = getattr(plain, "noise", None) == "network"
        return f"numbers ({plain.name}{'-network' if by_network else ''})"
    shown = ", ".join(classes[:8])
    return f"{len(classes)} classes: {shown}{', ...' if len(classes) > 8 else ''}"


def _describe_rows(rows: Rows, described: Mapping[str, Any]) -> str:
    if described["kind"] == ARRAYS:
        return f"{rows.source}: {len(rows):,} rows of shape {tuple(rows.inputs.shape[1:])}"
    form = PictureForm.from_dict(described)
    return f"{rows.source}: {len(rows):,} pictures, {form}; classes: {', '.join(form.classes)}"


def _describe_network(network: torch.nn.Module, rows: Rows, reference: str) -> list[str]:
    """How good the network itself is, if it gives classes: an untrained one shows here."""
    inputs, targets = rows.with_targets()
    few = slice(0, 1_000)
    with torch.no_grad():
        outputs = network(inputs[few])
    if targets.is_floating_point() or targets.ndim != 1 or getattr(outputs, "ndim", 0) != 2:
        return []
    if outputs.shape[1] < 2:
        return []
    right = (outputs.argmax(1) == targets[few]).double().mean()
    note = "" if right > 1.5 / outputs.shape[1] else " (is it trained?)"
    return [f"{reference}: {100 * right:.1f} % of its training rows are right{note}"]


def _describe_fit(posterior: Posterior, out: Path) -> list[str]:
    islands, particles, dim = posterior.positions.shape
    seconds = posterior.cost.wall_seconds
    took = "" if seconds is None else f", {seconds:.1f} s"
    mixture = [] if posterior.mixture is None else [str(posterior.mixture)]
    return [
        f"{out}: {islands * particles} particles of {dim:,} weights{took}",
        *mixture,
        f"Ask next:\n  sbmc predict {out} --data NEW\n  sbmc evaluate {out} --data TEST",
    ]
