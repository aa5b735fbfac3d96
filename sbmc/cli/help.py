"""What `--help` shows beside the options: examples that run, and what kind of value is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args, get_type_hints

from typer.models import OptionInfo

# The headings of `sbmc --help`.
OWN_NETWORKS = "Your own network"
HELP = ("-h", "--help")


def add_command(
    app: Any, name: str, command: Callable[..., Any], *, examples: Sequence[str], panel: str | None
) -> None:
    """Add a command to an application, with examples at the end of its help.

    Args:
        app: a `typer.Typer`.
        name: of the command.
        command: the function.
        examples: lines for a shell, each with a remark after a # if it needs one. A test parses
            them all.
        panel: the heading under which `sbmc --help` lists it; None for none.
    """
    _name_values(command)
    lines = "\n\n".join(["Examples:", *(f"$ {example}" for example in examples)])
    app.command(name, epilog=lines, rich_help_panel=panel)(command)


def examples_of(command: Any) -> Iterator[str]:
    """Go through the examples of a command and of those below it.

    Args:
        command: the parser's command.

    Yields:
        An example of its help.
    """
    for line in (command.epilog or "").split("\n\n"):
        if line.startswith("$ "):
            yield line.removeprefix("$ ")
    for below in getattr(command, "commands", {}).values():
        yield from examples_of(below)


def show_no_types_of_flags(command: Any) -> None:
    """Print nothing after the parser's own flags, `--help` and others, and after arguments.

    The parser would call an argument `<str>`; its help says what it is.

    Args:
        command: the parser's command; those below it are treated as well.
    """
    context = command.context_class(command, help_option_names=list(HELP))
    for option in (*command.params, command.get_help_option(context)):
        if option.param_type_name == "option" and option.is_flag and option.metavar is None:
            option.metavar = ""
        elif option.param_type_name == "argument":
            option.display_type_rich = lambda ctx: None
    for below in getattr(command, "commands", {}).values():
        show_no_types_of_flags(below)


def _name_values(command: Callable[..., Any]) -> None:
    """Name the values of options in words: TEXT and PATH, and nothing after flags.

    The parser would print the names of Python's types, and those of flags as if they had a value.
    """
    hints = get_type_hints(command, include_extras=True)
    for hint in hints.values():
        kind, option, *_ = (*get_args(hint), None, None)
        if not isinstance(option, OptionInfo) or option.metavar is not None:
            continue
        if kind is bool:
            option.metavar = ""
        else:
            option.metavar = "PATH" if "Path" in str(kind) else "TEXT"
    # Annotations that are text would be read again, and give other objects.
    command.__annotations__ = hints
