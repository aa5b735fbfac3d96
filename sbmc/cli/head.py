"""`sbmc head FILE.npz`: from embeddings to a posterior over the head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import sbmc
from sbmc.checks import require
from sbmc.cli.options import DebugOption, QuietOption, read_count, read_number
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
    v: Annotated[str, typer.Option("--v", metavar="NUMBER", help="Prior variance.")] = "1",
    s: Annotated[
        str, typer.Option("--s", metavar="NUMBER", help="Scale of the prior, in [0, 1].")
    ] = "0.1",
    tune: Annotated[
        bool, typer.Option("--tune", help="Choose v and s by cross-validation instead.")
    ] = False,
    particles: Annotated[
        str, typer.Option(metavar="INTEGER", help="Particles of an island.")
    ] = "10",
    islands: Annotated[str, typer.Option(metavar="INTEGER", help="Independent islands.")] = "1",
    epochs: Annotated[str, typer.Option(metavar="INTEGER", help="Budget of each chain.")] = "160",
    max_epochs: Annotated[
        str, typer.Option(metavar="INTEGER", help="Epochs of training, at most.")
    ] = "1000",
    held_out: Annotated[
        str, typer.Option(metavar="INTEGER", help="One example in so many is held out, to measure.")
    ] = "5",
    ood: Annotated[
        list[Path] | None,
        typer.Option(help="Embeddings of other data, to measure entropies on; may be repeated."),
    ] = None,
    seed: Annotated[
        str, typer.Option(metavar="INTEGER", help="Of split, training and sampling.")
    ] = "0",
    out: Annotated[
        Path, typer.Option(help="Folder of the records; a folder of the file's name is made in it.")
    ] = Path("runs"),
    debug: DebugOption = False,
    quiet: QuietOption = False,
) -> int:
    """Train a linear head on embeddings, sample its posterior by S-HMC∥, measure and save it."""
    require(not out.is_file(), "out", "a folder", str(out))
    options: dict[str, Any] = {
        "v": read_number("v", v),
        "s": read_number("s", s),
        "choose": tune,
        "particles": read_count("particles", particles),
        "islands": read_count("islands", islands),
        "sampler": sbmc.HMC(epochs=read_count("epochs", epochs)),
        "max_epochs": read_count("max_epochs", max_epochs),
        "held_out": read_count("held_out", held_out),
        "seed": read_count("seed", seed, least=0, most=2**128 - 1),
    }
    names = [path.stem for path in ood or []]
    require(len(set(names)) == len(names), "ood", "files of different names", names)
    return show_head(file, ood or [], out, options, quiet)


def show_head(
    file: Path, ood: Sequence[Path], out: Path, options: Mapping[str, Any], quiet: bool
) -> int:
    """Train, sample, print the table of metrics and save the posterior.

    Args:
        file: the embeddings.
        ood: embeddings of other data.
        out: folder of the records.
        options: of `run_head`.
        quiet: no progress.

    Returns:
        The exit code: 0.
    """
    from sbmc.embedding import POSTERIOR, load_embedded, run_head

    outside = {path.stem: load_embedded(path) for path in ood}
    run = run_head(load_embedded(file), ood=outside, progress=not quiet, **options)
    settings, data = run.record["settings"], run.record["data"]
    parts = data["examples"]
    sampled = parts["train"] + parts["validation"]
    print_wide(_table(run.metrics, f"{file.name}: {parts['held_out']:,} held-out examples"))
    print(
        f"v = {settings['v']:g}, s = {settings['s']:g}, N = {settings['particles']}, "
        f"P = {settings['islands']}; sampled on {sampled:,} examples."
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
