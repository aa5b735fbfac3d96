"""Options that several commands of the studies have: settings of a run, and how it is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from sbmc.checks import BadInput, nearest, require
from sbmc.cli.completion import offer
from sbmc.cli.options import Text, given_options
from sbmc_studies.commands.completion import (
    ANCHORS,
    COVARIANCES,
    EXECUTORS,
    STARTS,
    WEIGHTINGS,
)
from sbmc_studies.experiments.experiment import experiment_names

_SETTINGS = "Settings of the method (those of its preset if not given)"
_EXECUTION = "How islands are run (no option of these changes a result)"


_setting = partial(typer.Option, rich_help_panel=_SETTINGS)


def _execution(text: str, kind: str | None = None, **options: Any) -> Any:
    panel = partial(typer.Option, rich_help_panel=_EXECUTION, show_default=False)
    return panel(help=text, metavar=kind, **options)


@dataclass(frozen=True)
class ExecutionOptions:
    """The options of `Execution`, as text; None for what is not given."""

    executor: Annotated[
        Text,
        _execution(
            "in-process (default; islands folded into batches), processes, or ray.",
            autocompletion=offer(EXECUTORS),
        ),
    ] = None
    workers: Annotated[
        Text, _execution("How many islands run at a time; alone it means processes.", "INTEGER")
    ] = None
    address: Annotated[
        Text, _execution("Address of a Ray cluster to join, such as auto or HOST:6379.")
    ] = None
    cpus: Annotated[Text, _execution("CPUs that Ray reserves for an island.", "NUMBER")] = None
    gpus: Annotated[Text, _execution("GPUs that Ray reserves for an island.", "NUMBER")] = None
    shards: Annotated[
        Text,
        _execution(
            "Processes of an island, each with a part of the data; or torchrun, under torchrun."
        ),
    ] = None
    retries: Annotated[
        Text, _execution("How often a lost island is tried again (default 2).", "INTEGER")
    ] = None
    checkpoint_every: Annotated[
        Text,
        _execution(
            "Seconds between two snapshots of an island (default 60; 0: every snapshot).", "NUMBER"
        ),
    ] = None
    memory_limit: Annotated[
        Text, _execution("Memory of each process that runs islands, such as 2GiB or 500MB.")
    ] = None
    chunk_size: Annotated[
        Text,
        _execution(
            "Examples that go through the network together (chosen if not given).", "INTEGER"
        ),
    ] = None

    def read(self) -> dict[str, Any]:
        """The values of those options that are given, for `Execution`.

        Raises:
            BadInput: one of them is no number.

        Examples:
            >>> ExecutionOptions(workers="4").read()
            {'workers': 4}
        """
        return {name: _read(name, text) for name, text in given_options(self).items()}


_KINDS: dict[str, tuple[Callable[[str], Any], str]] = {
    "workers": (int, "a positive integer"),
    "shards": (lambda text: int(text) if text.lstrip("-").isdigit() else text, ""),
    "retries": (int, "a non-negative integer"),
    "cpus": (float, "a number"),
    "gpus": (float, "a number"),
    "checkpoint_every": (float, "a number of seconds from 0"),
    "chunk_size": (int, "a positive integer"),
}


def _read(name: str, text: str) -> Any:
    if name not in _KINDS:
        return text
    read, rule = _KINDS[name]
    try:
        return read(text)
    except ValueError:
        raise BadInput(f"`{name}` must be {rule}, but got {text!r}.") from None


@dataclass(frozen=True)
class SettingOptions:
    """Settings of a method that have an option; `--set` takes all others."""

    s: Annotated[Text, _setting("--s", metavar="NUMBER", help="Scale of the prior, in [0, 1].")] = (
        None
    )
    prior_variance: Annotated[Text, _setting(metavar="NUMBER", help="Variance of the prior.")] = (
        None
    )
    particles: Annotated[Text, _setting(metavar="INTEGER", help="Particles of an island.")] = None
    islands: Annotated[Text, _setting(metavar="INTEGER", help="Independent islands.")] = None
    first_island: Annotated[
        Text,
        _setting(
            metavar="INTEGER",
            help="Number of the first island: two machines can each make some islands of one run, "
            "for `sbmc merge`.",
        ),
    ] = None
    steps: Annotated[Text, _setting(metavar="INTEGER", help="Moves of each chain.")] = None
    epochs: Annotated[
        Text, _setting(metavar="INTEGER", help="Instead of steps: a budget for each chain.")
    ] = None
    leapfrog: Annotated[Text, _setting(metavar="INTEGER", help="Leapfrog steps of a move.")] = None
    trajectory: Annotated[
        Text,
        _setting(metavar="NUMBER", help="Instead of leapfrog: length of a move, such as pi/2."),
    ] = None
    mutations: Annotated[
        Text,
        _setting(
            metavar="INTEGER", help="Moves of SMC at each temperature (with eta: at most so many)."
        ),
    ] = None
    island_weights: Annotated[
        Text,
        _setting(
            help="How SMC's islands are combined: evidence or equal.",
            autocompletion=offer(WEIGHTINGS),
        ),
    ] = None
    start: Annotated[
        Text,
        _setting(
            help="Where chains begin: prior, anchor or ensemble.", autocompletion=offer(STARTS)
        ),
    ] = None
    anchor: Annotated[
        Text,
        _setting(
            help="What the prior is anchored at: map, swa or mc-dropout.",
            autocompletion=offer(ANCHORS),
        ),
    ] = None
    factor_variance: Annotated[
        Text,
        _setting(
            metavar="NUMBER", help="Instead of s: variance of a Gaussian factor around the anchor."
        ),
    ] = None
    covariance: Annotated[
        Text,
        _setting(
            help="Of the anchored prior: linear (s v), or laplace (diagonal).",
            autocompletion=offer(COVARIANCES),
        ),
    ] = None
    split: Annotated[
        Text,
        _setting(
            metavar="NUMBER",
            help="Instead of s: share of the likelihood whose Laplace fit is the prior.",
        ),
    ] = None
    posterior_temperature: Annotated[
        Text, _setting(metavar="NUMBER", help="Below 1 for a cold posterior.")
    ] = None


AssignmentsOption = Annotated[
    list[str] | None,
    _setting("--set", metavar="KEY=VALUE", help="Any other setting; may be repeated."),
]
OutOption = Annotated[Path, typer.Option(help="Folder of the records.")]
AlsoIslandsOption = Annotated[
    Text, typer.Option(help="Also write records of the first so many islands; e.g. 1 or 1,2,4.")
]
ConfidenceOption = Annotated[
    bool,
    typer.Option("--confidence", help="Also train and test the classifier that says abstain."),
]
SaveOption = Annotated[
    bool, typer.Option("--save-posterior", help="Write the posterior beside the record.")
]
RecordsOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the records, such as runs for your own; the stored ones if not given.",
        show_default=False,
    ),
]
RUNS = Path("runs")


def join_settings(options: Mapping[str, str], assignments: Sequence[str]) -> dict[str, str]:
    """Put the settings that have an option and those of `--set` together.

    Args:
        options: settings that were given by an option.
        assignments: others, as `KEY=VALUE`.

    Returns:
        Text by setting.

    Raises:
        BadInput: an assignment has another form, or a setting is given twice.

    Examples:
        >>> join_settings({"steps": "3"}, ["step-size=0.05"])
        {'steps': '3', 'step_size': '0.05'}
    """
    settings = dict(options)
    for assignment in assignments:
        name, value = parse_assignment(assignment)
        rule = f"given once (it is {settings.get(name)} already)"
        require(name not in settings, name, rule, value)
        settings[name] = value
    return settings


def parse_assignment(text: str) -> tuple[str, str]:
    """Split `KEY=VALUE`, as `--set` takes it.

    Args:
        text: the assignment.

    Returns:
        The setting's name, with hyphens read as underscores, and its value as text.

    Raises:
        BadInput: if there is no `=` or nothing before it.

    Examples:
        >>> parse_assignment("step-size=0.05")
        ('step_size', '0.05')
    """
    key, equals, value = text.partition("=")
    require(bool(equals and key.strip()), "set", "of the form KEY=VALUE", text)
    return key.strip().replace("-", "_"), value.strip()


def parse_numbers(name: str, text: str | None) -> tuple[int, ...]:
    """Read whole numbers: `3`, `0,2,5`, `0-4`, or a mixture.

    Args:
        name: the argument, for the error message.
        text: the numbers; None for none.

    Returns:
        The numbers, each once, in the order given.

    Raises:
        BadInput: if the text has another form.

    Examples:
        >>> parse_numbers("seeds", "0-2,7")
        (0, 1, 2, 7)
    """
    if text is None:
        return ()
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        rule = "whole numbers such as 3, 0,2,5 or 0-4"
        good = first.isdecimal() and (not dash or (last.isdecimal() and int(first) <= int(last)))
        require(good, name, rule, text)
        numbers.extend(range(int(first), int(last if dash else first) + 1))
    return tuple(dict.fromkeys(numbers))


def require_study(name: str, *others: str) -> None:
    """Refuse the name of a study that is not there, and say which is near.

    Args:
        name: what was given.
        others: studies beside the experiments that a command knows.

    Raises:
        BadInput: it is none of them.
    """
    known = [*experiment_names(), *others]
    if name not in known:
        names = ", ".join(known)
        hint = nearest(name, known)
        raise BadInput(f"`experiment` must be one of {names}, but got {name!r}.{hint}")


def require_records(records: Path) -> None:
    """Refuse a folder of records that is not there, and say where one is."""
    rule = (
        "a folder of records: `--records runs` has those of your own runs; without the option, "
        "the stored ones are taken"
    )
    require(records.is_dir(), "records", rule, str(records))
