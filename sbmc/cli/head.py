"""`sbmc head FILE.npz`: from embeddings to a posterior over the head."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import sbmc
from sbmc.checks import BadInput, require
from sbmc.cli.options import DebugOption, QuietOption, Text
from sbmc.cli.tables import print_wide

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = (
    ("accuracy", "accuracy %", 2),
    ("nll", "NLL", 4),
    ("ece", "ECE", 4),
    ("entropy.total.id", "H_tot", 3),
    ("entropy.epistemic.correct", "H_ep\ncorrect", 4),
    ("entropy.epistemic.incorrect", "H_ep\nincorrect", 4),
)


def head_command(
    file: Annotated[Path, typer.Argument(help="Embeddings with labels, of `sbmc embed`.")],
    v: Annotated[str, typer.Option("--v", help="Prior variance.")] = "1",
    s: Annotated[str, typer.Option("--s", help="Scale of the prior, in [0, 1].")] = "0.1",
    tune: Annotated[
        bool, typer.Option("--tune", help="Choose v and s by cross-validation instead.")
    ] = False,
    particles: Annotated[str, typer.Option(help="Particles of an island.")] = "10",
    islands: Annotated[str, typer.Option(help="Independent islands.")] = "1",
    epochs: Annotated[str, typer.Option(help="Budget of each chain.")] = "160",
    max_epochs: Annotated[str, typer.Option(help="Epochs of training, at most.")] = "1000",
    held_out: Annotated[
        str, typer.Option(help="One example in so many is held out, to measure.")
    ] = "5",
    ood: Annotated[
        list[Path] | None,
        typer.Option(help="Embeddings of other data, to measure entropies on; may be repeated."),
    ] = None,
    seed: Annotated[str, typer.Option(help="Of split, training and sampling.")] = "0",
    out: Annotated[
        Path, typer.Option(help="Folder of the records; a folder of the file's name is made in it.")
    ] = Path("runs"),
    debug: DebugOption = False,
    quiet: QuietOption = False,
) -> int:
    """Train a linear head on embeddings, sample its posterior by S-HMC∥, measure and save it."""
    from sbmc.embedding import load_embedded

    require(not Path(out).is_file(), "out", "a folder", str(out))
    options: dict[str, Any] = {
        "v": _real("v", v),
        "s": _real("s", s),
        "choose": tune,
        "particles": _whole("particles", particles),
        "islands": _whole("islands", islands),
        "sampler": sbmc.HMC(epochs=_whole("epochs", epochs)),
        "max_epochs": _whole("max_epochs", max_epochs),
        "held_out": _whole("held_out", held_out),
        "seed": _whole("seed", seed, 0),
    }
    names = [path.stem for path in ood or []]
    require(len(set(names)) == len(names), "ood", "files of different names", names)
    options["ood"] = {path.stem: load_embedded(path) for path in ood or []}
    return show_head(file, Path(out), options, quiet)


def show_head(file: Path, out: Path, options: Mapping[str, Any], quiet: bool) -> int:
    """Run, print the table, save.

    Args:
        file: the embeddings.
        out: folder of the records.
        options: of `run_head`.
        quiet: no progress.

    Returns:
        The exit code: 0.
    """
    from sbmc.embedding import POSTERIOR, load_embedded, run_head

    run = run_head(load_embedded(file), progress=not quiet, **options)
    settings, data = run.record["settings"], run.record["data"]
    parts = data["examples"]
    seen = parts["train"] + parts["validation"]
    print_wide(_table(run.metrics, f"{file.name}: {parts['held_out']:,} held-out examples"))
    print(
        f"v = {settings['v']:g}, s = {settings['s']:g}, N = {settings['particles']}, "
        f"P = {settings['islands']}; sampled on {seen:,} examples."
    )
    folder = run.save(out / file.stem)
    inputs, classes = run.model.in_features, run.model.out_features
    print(f"Posterior: {folder / POSTERIOR}")
    print(f"  in Python: sbmc.load({str(folder / POSTERIOR)!r}, nn.Linear({inputs}, {classes}))")
    return 0


def _table(metrics: Mapping[str, Mapping[str, float]], title: str) -> RenderableType:
    from rich.table import Table

    outside = [
        (name, f"H_ep\n{name.partition('.ood.')[2]}", 4)
        for name in metrics["posterior"]
        if name.startswith("entropy.epistemic.ood.") and not name.endswith(".all")
    ]
    table = Table(title=title, title_justify="left", pad_edge=False)
    table.add_column("")
    columns = [*_COLUMNS, *outside]
    for _, heading, _ in columns:
        table.add_column(heading, justify="right")
    for key, label in (("map", "MAP"), ("posterior", "S-HMC∥")):
        cells = []
        for name, _, digits in columns:
            value = metrics[key].get(name)
            unit = 100 if name == "accuracy" else 1
            cells.append("-" if value is None else f"{value * unit:.{digits}f}")
        table.add_row(label, *cells)
    return table


def _whole(name: str, text: Text, least: int = 1) -> int:
    words = str(text)
    if not words.isdecimal() or int(words) < least:
        raise BadInput(f"`{name}` must be a whole number of at least {least}, but got {text!r}.")
    return int(words)


def _real(name: str, text: str) -> float:
    from sbmc.tuning.grid import parse_grid

    numbers = parse_grid(name, text) or ()
    require(len(numbers) == 1, name, "one number", text)
    return numbers[0]
