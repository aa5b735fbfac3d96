"""Options of commands that run islands: who runs them, in how much memory, what is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from sbmc.checks import BadInput
from sbmc.cli.options import Text

_PANEL = "How islands are run (nothing of it decides a result)"


def _option(*names: str, words: str) -> Any:
    return typer.Option(*names, help=words, rich_help_panel=_PANEL, show_default=False)


ExecutorOption = Annotated[
    Text,
    _option(
        "--executor", words="in-process (default; islands folded into batches), processes, or ray."
    ),
]
WorkersOption = Annotated[
    Text, _option("--workers", words="How many islands run at a time; alone it means processes.")
]
AddressOption = Annotated[
    Text, _option("--address", words="Of a Ray cluster to join, such as auto or HOST:6379.")
]
CpusOption = Annotated[Text, _option("--cpus", words="CPUs that Ray reserves for an island.")]
GpusOption = Annotated[Text, _option("--gpus", words="GPUs that Ray reserves for an island.")]
RetriesOption = Annotated[
    Text, _option("--retries", words="How often a lost island is tried again (default 2).")
]
EveryOption = Annotated[
    Text,
    _option(
        "--checkpoint-every",
        words="Seconds between two writes of an island's place (default 60; 0: whenever it can).",
    ),
]
NoCheckpointOption = Annotated[
    bool, _option("--no-checkpoint", words="Write no checkpoint: the run cannot be resumed.")
]
MemoryOption = Annotated[
    Text,
    _option("--memory-limit", words="Of each process that runs islands, such as 2GiB or 500MB."),
]
ChunkOption = Annotated[
    Text,
    _option("--chunk-size", words="Examples that go through the network together (by rule)."),
]
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


def parse_changes(**words: Text) -> dict[str, Any]:
    """Read those options that are given.

    Example:
        >>> parse_changes(workers="4", executor=None)
        {'workers': 4}
    """
    return {name: _read(name, text) for name, text in words.items() if text is not None}


_KINDS: dict[str, tuple[Callable[[str], Any], str]] = {
    "workers": (int, "a positive integer"),
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
