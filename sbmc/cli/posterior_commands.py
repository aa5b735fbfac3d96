"""`sbmc fit`, `predict`, `evaluate` and `report`: one's own model from a shell.

These are the commands as the parser sees them; what they do is in `posterior_work`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from sbmc.checks import BadInput, Phrase, require
from sbmc.cli.completion import CHANNELS, TABLE_LIKELIHOODS, offer
from sbmc.cli.options import (
    DataDirOption,
    DebugOption,
    QuietOption,
    Text,
    read_count,
    read_number,
    with_option_groups,
)

# How the name of a posterior's file ends, where it is told from a folder by its name.
POSTERIOR = ".sbmc"
# A budget of more trainings than this is a mistake.
MOST_TRAININGS = 1_000_000

PosteriorArgument = Annotated[Path, typer.Argument(help="A posterior, of `sbmc fit`.")]
DataOption = Annotated[
    Path, typer.Option(help="Rows as those of training: a table, an .npz file or a folder.")
]


@dataclass(frozen=True)
class AskOptions:
    """Options that `predict`, `evaluate` and `report` have in common."""

    model: Annotated[
        Text,
        typer.Option(help="The network, FILE.py:NAME, if its code has moved or changed."),
    ] = None
    level: Annotated[
        str, typer.Option(metavar="NUMBER", help="Of the intervals of numbers, in (0, 1).")
    ] = "0.9"
    abstain_above: Annotated[
        Text,
        typer.Option(
            metavar="NUMBER",
            help="Abstain above this: of classes the probability to be wrong (default 0.25), of "
            "numbers the standard deviation (default: what 1 % of the training rows exceed).",
        ),
    ] = None
    inputs: Annotated[Text, typer.Option(help="Of an .npz file: the array of inputs.")] = None
    targets: Annotated[Text, typer.Option(help="Of an .npz file: the array of targets.")] = None
    any_health: Annotated[
        bool,
        typer.Option("--any-health", help="Exit with 0, not 3, if the posterior is not healthy."),
    ] = False
    debug: DebugOption = False
    quiet: QuietOption = False

    def arguments(self) -> dict[str, Any]:
        """Arguments of the functions that do the work, read."""
        above = self.abstain_above
        return {
            "model": self.model,
            "options": load_work().DataOptions(self.inputs, self.targets),
            "level": read_number("level", self.level),
            "abstain_above": None if above is None else read_number("abstain_above", above),
            "quiet": self.quiet,
            "any_health": self.any_health,
        }


def fit_command(
    model: Annotated[
        Text,
        typer.Argument(
            help="A trained network: FILE.py:NAME, package.module:NAME, or a .pt2 file of "
            "torch.export.save. Left out for a table."
        ),
    ] = None,
    *,
    data: Annotated[
        Path,
        typer.Option(
            help="A table (.csv, .tsv, .parquet); or, for a network, an .npz file or a folder with "
            "a subfolder of pictures for each class."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The posterior's file, such as my.sbmc.")],
    target: Annotated[
        Text, typer.Option(help="Column of a table to predict; label, target or y if left out.")
    ] = None,
    drop: Annotated[
        Text, typer.Option(help="Columns of a table to leave out, with commas.")
    ] = None,
    hidden: Annotated[
        Text,
        typer.Option(help="Widths of the hidden layers for a table, such as 64,64; or none."),
    ] = None,
    likelihood: Annotated[
        Text,
        typer.Option(
            help="Of the targets: categorical, gaussian-network, gaussian, student-t; by the "
            "targets if left out.",
            autocompletion=offer(TABLE_LIKELIHOODS),
        ),
    ] = None,
    validation: Annotated[
        Text,
        typer.Option(
            help="For a table the share of rows to set aside; for a network a file or folder of "
            "rows that it was not trained on."
        ),
    ] = None,
    budget: Annotated[
        Text,
        typer.Option(help="What sampling may cost: trainings of the network, or 30s, 2min, 1h."),
    ] = None,
    seed: Annotated[str, typer.Option(metavar="INTEGER", help="Decides all noise.")] = "0",
    size: Annotated[
        Text, typer.Option(metavar="WIDTHxHEIGHT", help="Resize pictures to this, in pixels.")
    ] = None,
    channels: Annotated[
        Text,
        typer.Option(help="Of pictures: grey or colour.", autocompletion=offer(CHANNELS)),
    ] = None,
    inputs: Annotated[Text, typer.Option(help="Of an .npz file: the array of inputs.")] = None,
    targets: Annotated[Text, typer.Option(help="Of an .npz file: the array of targets.")] = None,
    any_health: Annotated[
        bool,
        typer.Option("--any-health", help="Exit with 0, not 3, if the posterior is not healthy."),
    ] = False,
    debug: DebugOption = False,
    quiet: QuietOption = False,
) -> int:
    """Fit a posterior to a table, or to a trained network and its data, and save it."""
    work = load_work()
    options = work.FitOptions(
        target=target,
        drop=[name.strip() for name in (drop or "").split(",") if name.strip()],
        hidden_layers=None if hidden is None else read_widths(hidden),
        likelihood=likelihood,
        validation=validation,
        budget=None if budget is None else read_budget(budget),
        seed=read_count("seed", seed, least=0),
        size=None if size is None else read_size(size),
        channels=channels,
        data=work.DataOptions(inputs, targets),
    )
    return work.run_fit(model, data, out, options, quiet=quiet, any_health=any_health)


@with_option_groups
def predict_command(
    file: PosteriorArgument,
    *,
    data: DataOption,
    out: Annotated[
        Path | None, typer.Option(help="The .csv or .tsv to write; printed if left out.")
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add the probability of every class.")
    ] = False,
    options: AskOptions,
) -> int:
    """Answer for each row: label or mean, interval, the parts of uncertainty, abstain or not."""
    arguments = options.arguments()
    return load_work().run_predict(file, data, out, probabilities=probabilities, **arguments)


@with_option_groups
def evaluate_command(
    file: PosteriorArgument,
    *,
    data: DataOption,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    options: AskOptions,
) -> int:
    """Measure a posterior on rows whose targets are known."""
    return load_work().run_evaluate(file, data, as_json=as_json, **options.arguments())


@with_option_groups
def report_command(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="A posterior's file, with --data. Or folders with records: of all runs, of an "
            "experiment, of a method, of one run."
        ),
    ],
    *,
    data: Annotated[
        Path | None,
        typer.Option(help="For a posterior: rows to show it by, as those of training."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The HTML file.")] = Path("report.html"),
    title: Annotated[Text, typer.Option(help="Of the page; by its content if left out.")] = None,
    data_dir: DataDirOption = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    options: AskOptions,
) -> int:
    """Write one self-contained HTML page: of a posterior and some data, or of any runs."""
    if data is None and not any(each.suffix == POSTERIOR for each in sources):
        _require_folders(options)
        rule = "a posterior's file with --data: nothing here makes reports of folders"
        report = _folder_report.get("function")
        require(report is not None, "sources", rule, [str(each) for each in sources])
        assert report is not None
        report(sources, out, title=title, data_dir=data_dir, show=show)
        return 0
    rule = "one posterior's file, or folders with records and no --data"
    good = len(sources) == 1 and not sources[0].is_dir()
    require(good, "sources", rule, Phrase(", ".join(repr(str(each)) for each in sources)))
    require(data_dir is None, "data_dir", "left out for a posterior", str(data_dir))
    if data is None:
        raise BadInput(
            "`data` must be given for a posterior's file, but got nothing. Give rows to show it "
            "by, such as --data test.csv."
        )
    arguments = options.arguments()
    return load_work().run_report(sources[0], data, out, title=title, show=show, **arguments)


_folder_report: dict[str, Callable[..., None]] = {}


def report_folders_by(function: Callable[..., None]) -> None:
    """Let `sbmc report` take folders too; a package that has records calls this.

    Args:
        function: `(folders, out, *, title, data_dir, show)`.
    """
    _folder_report["function"] = function


def _require_folders(options: AskOptions) -> None:
    usual = AskOptions()
    for name in ("model", "level", "abstain_above", "inputs", "targets"):
        value = getattr(options, name)
        rule = "left out for folders: it is an option for a posterior's file"
        require(value == getattr(usual, name), name, rule, value)


def read_widths(text: str) -> tuple[int, ...]:
    """Read the widths of hidden layers.

    Raises:
        BadInput: they are no positive whole numbers.

    Examples:
        >>> read_widths("64, 64"), read_widths("none")
        ((64, 64), ())
    """
    if text.strip().lower() == "none":
        return ()
    parts = [part.strip() for part in text.split(",")]
    good = all(part.isdecimal() and 0 < int(part) <= 1_000_000 for part in parts)
    require(good, "hidden", "positive whole numbers with commas, such as 64,64, or none", text)
    return tuple(map(int, parts))


def read_size(text: str) -> tuple[int, int]:
    """Read a size in pixels, as height and width.

    Raises:
        BadInput: it is none.

    Examples:
        >>> read_size("32x24"), read_size("28")
        ((24, 32), (28, 28))
    """
    parts = text.lower().split("x")
    good = len(parts) in (1, 2) and all(p.isdecimal() and 0 < int(p) <= 10_000 for p in parts)
    require(good, "size", "pixels as WIDTHxHEIGHT, such as 28x28", text)
    return int(parts[-1]), int(parts[0])


def read_budget(text: str) -> float | str:
    """Read a budget: a number of trainings, or a time, which `sbmc.fit` reads.

    Raises:
        BadInput: a number that is not positive, or that nobody would wait for.

    Examples:
        >>> read_budget("2.5"), read_budget("30s")
        (2.5, '30s')
    """
    try:
        number = float(text)
    except ValueError:
        return text
    rule = f"positive, and at most {MOST_TRAININGS:,} trainings"
    require(0 < number <= MOST_TRAININGS, "budget", rule, text)
    return number


def load_work() -> Any:
    """The module with the work of these commands, which takes a while to import."""
    from sbmc.cli import posterior_work

    return posterior_work
