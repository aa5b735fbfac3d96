"""The commands, and how errors end: with one line and an exit code."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from typing import Annotated, Any

import typer

from sbmc import __version__
from sbmc.checks import BadInput, nearest
from sbmc.cli.card_command import card_command
from sbmc.cli.doctor import doctor_command
from sbmc.cli.drift_command import drift_command
from sbmc.cli.embed import embed_app
from sbmc.cli.explain import explain_command
from sbmc.cli.export_command import export_command
from sbmc.cli.head import head_command
from sbmc.cli.help import HELP, OWN_NETWORKS, add_command, show_no_types_of_flags
from sbmc.cli.interruption import Interruption
from sbmc.cli.posterior_commands import (
    evaluate_command,
    fit_command,
    predict_command,
    report_command,
)
from sbmc.storage.files import CheckpointError

# Whatever package a version of typer takes its parser from, its usage errors are of this class.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130
# Longer words of a message are cut: they are what was typed, and not what is wrong with it.
LONGEST = 200

app = typer.Typer(
    context_settings={"help_option_names": list(HELP)},
    pretty_exceptions_enable=False,
    help="Scalable Bayesian Monte Carlo for PyTorch: ensembles that know what they do not know.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sbmc {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", callback=_version)
    ] = False,
) -> None:
    """Options of `sbmc` itself."""


add_command(
    app,
    "fit",
    fit_command,
    examples=[
        "sbmc fit --data train.csv --out my.sbmc",
        "sbmc fit --data houses.csv --target price --hidden 64,64 --out my.sbmc",
        "sbmc fit model.py:net --data photos/train --out photos.sbmc",
    ],
    panel=OWN_NETWORKS,
)
add_command(
    app,
    "predict",
    predict_command,
    examples=["sbmc predict my.sbmc --data new.csv --out answers.csv"],
    panel=OWN_NETWORKS,
)
add_command(
    app,
    "evaluate",
    evaluate_command,
    examples=["sbmc evaluate my.sbmc --data test.csv --json"],
    panel=OWN_NETWORKS,
)
add_command(
    app,
    "drift",
    drift_command,
    examples=["sbmc drift my.sbmc --data new.csv"],
    panel=OWN_NETWORKS,
)
add_command(
    app,
    "report",
    report_command,
    examples=[
        "sbmc report my.sbmc --data test.csv --out page.html",
        "sbmc report runs/digits --open",
        "sbmc report runs elsewhere/runs --out both.html",
    ],
    panel=OWN_NETWORKS,
)
add_command(
    app,
    "export",
    export_command,
    examples=[
        "sbmc export my.sbmc --to onnx --out model.onnx",
        "sbmc export my.sbmc --out model.pt2 --abstain epistemic:0.2",
    ],
    panel=OWN_NETWORKS,
)
add_command(
    app,
    "card",
    card_command,
    examples=[
        "sbmc card my.sbmc --data test.csv --license mit --out my-posterior",
        "sbmc card photos.sbmc --name 'Birds of the garden' --out birds",
    ],
    panel=OWN_NETWORKS,
)
add_command(
    app,
    "explain",
    explain_command,
    examples=[
        "sbmc explain net.py:Net --input-shape 1x28x28",
        "sbmc explain mypackage.nets:make_net --data rows.npz --parameters last",
    ],
    panel=OWN_NETWORKS,
)
app.add_typer(embed_app, name="embed", rich_help_panel=OWN_NETWORKS)
add_command(
    app,
    "head",
    head_command,
    examples=["sbmc head reviews.npz", "sbmc head reviews.npz --tune --ood products.npz"],
    panel=OWN_NETWORKS,
)
add_command(
    app,
    "doctor",
    doctor_command,
    examples=["sbmc doctor", "sbmc doctor --json > machine.json"],
    panel=OWN_NETWORKS,
)

# Other packages add commands through entry points of this group, as the studies of this
# distribution do. An entry point names a function that is called with the application.
COMMANDS = "sbmc.commands"


@cache
def _all_commands() -> Any:
    """Collect the commands of all packages; this is done late, since packages import this one."""
    for point in sorted(metadata.entry_points(group=COMMANDS), key=lambda point: point.name):
        try:
            register = point.load()
        except ImportError as error:
            # A package that cannot be imported must not take the other commands with it.
            print(f"sbmc: the commands of {point.value} are missing: {error}", file=sys.stderr)
            continue
        register(app)
    command = typer.main.get_command(app)
    show_no_types_of_flags(command)
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: what follows `sbmc`; None for those of the process.

    Returns:
        The exit code: 0; 1 if a run failed; 2 if an argument was refused; 3 if a posterior is not
        healthy, for commands that say so; 130 after Ctrl-C.
    """
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    command = _all_commands()
    interruption = (
        "interrupted; what is finished is saved, and the same command continues from there."
    )
    try:
        code = command.main(args=given, prog_name="sbmc", standalone_mode=False)
    except BadInput as error:
        return _complain(error, str(error), BAD_INPUT, given)
    except UsageError as error:
        return _complain(error, _explain(error), BAD_INPUT, given)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Interruption as error:
        code, interruption = INTERRUPTED, str(error)
    except CheckpointError as error:
        return _complain(error, str(error), FAILED, given)
    except OSError as error:
        if error.filename is None:
            return _complain(error, f"{type(error).__name__}: {error}", FAILED, given)
        rule = "a path that the system can read and write"
        message = f"`path` must be {rule}, but got {str(error.filename)!r} ({error.strerror})."
        return _complain(error, message, BAD_INPUT, given)
    except Exception as error:
        return _complain(error, f"{type(error).__name__}: {error}", FAILED, given)
    if code == INTERRUPTED:
        print(f"sbmc: {interruption}", file=sys.stderr)
    return int(code or 0)


def _complain(error: Exception, message: str, code: int, arguments: Sequence[str]) -> int:
    if "--debug" in arguments:
        traceback.print_exception(error)
    print("sbmc: " + " ".join(_shortened(message.split())), file=sys.stderr)
    return code


def _shortened(words: Sequence[str]) -> list[str]:
    return [each if len(each) <= LONGEST else f"{each[: LONGEST // 2]}..." for each in words]


def _explain(error: Any) -> str:
    """Write the parser's complaint in our form: argument, rule, value."""
    context = getattr(error, "ctx", None)
    command = context.command if context else None
    where = context.command_path if context else "sbmc"
    option = getattr(error, "option_name", None)
    if option and hasattr(error, "possibilities"):
        known = [name for each in (command.params if command else []) for name in each.opts]
        hint = nearest(option, [name for name in known if name.startswith("--")])
        return f"`option` must be one that `{where}` has (see --help), but got {option!r}.{hint}"
    if hasattr(error, "param_type"):  # something required is missing
        name = error.param.name if error.param else "argument"
        return f"`{name}` must be given, but got nothing; see `{where} --help`."
    message = error.format_message()
    if option and "requires an argument" in message:
        return f"`{option}` must be followed by a value, but got nothing; see `{where} --help`."
    if "extra argument" in message:
        extra = message.partition(" (")[2].removesuffix(".").removesuffix(")")
        return f"`arguments` must be those of `{where}` (see --help), but got {extra!r} besides."
    parameter = getattr(error, "param", None)
    if parameter is not None:
        given = "a text that is no path" if "null byte" in message else "another value"
        return f"`{parameter.opts[-1]}` must be as `{where} --help` says, but got {given}."
    commands = getattr(command, "commands", None)
    if commands and not hasattr(error, "param"):
        quoted = error.message.split("'")
        given = quoted[1] if len(quoted) > 2 else error.message
        hint = nearest(given, commands)
        return f"`command` must be one of {', '.join(commands)}, but got {given!r}.{hint}"
    return f"`{where}` must be called as its --help says, but got a mistake: {message}"
