"""The commands, and what becomes of errors: one line and an exit code."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sbmc.checkpoints import CheckpointError
from sbmc.checks import BadInput, nearest, require
from sbmc.cli.embed import embed_app
from sbmc.cli.head import head_command
from sbmc.cli.interruption import Interruption
from sbmc.cli.options import (
    AddressOption,
    AlsoIslandsOption,
    ChunkOption,
    ConfidenceOption,
    CpusOption,
    DataDirOption,
    DebugOption,
    EveryOption,
    ExecutorOption,
    GpusOption,
    MemoryOption,
    NoCheckpointOption,
    QuietOption,
    RetriesOption,
    SaveOption,
    Text,
    WorkersOption,
    parse_execution,
)
from sbmc.cli.resume_commands import extend_command, merge_command, resume_command
from sbmc.cli.tune import tune_command

# Whatever package a version of typer takes its parser from, its usage errors are of this class.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130
# The one study that has no data set, and hence no methods to choose from.
TOY = "toy"

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Scalable Bayesian Monte Carlo for PyTorch: ensembles that know what they do not know.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from sbmc import __version__

        typer.echo(f"sbmc {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", callback=_version)
    ] = False,
) -> None:
    """Options of `sbmc` itself."""


@app.command("run")
def run_command(
    experiment: Annotated[str, typer.Argument(help="What to study; see `sbmc experiments`.")],
    method: Annotated[
        Text,
        typer.Option(
            help="One method or several, with commas; see `sbmc methods`. By default s-hmc, "
            "and for digits the comparison map,de,s-hmc.",
            show_default=False,
        ),
    ] = None,
    preset: Annotated[
        Text,
        typer.Option(
            help="paper: the paper's settings (default); best: what we recommend (default for "
            "digits, which are not in the paper).",
            show_default=False,
        ),
    ] = None,
    s: Annotated[Text, typer.Option("--s", help="Scale of the prior, in [0, 1].")] = None,
    prior_variance: Annotated[Text, typer.Option(help="Variance of the prior.")] = None,
    particles: Annotated[Text, typer.Option(help="Particles of an island.")] = None,
    islands: Annotated[Text, typer.Option(help="Independent islands.")] = None,
    first_island: Annotated[
        Text,
        typer.Option(
            help="Number of the first island: two machines can each make some islands of one run, "
            "for `sbmc merge`."
        ),
    ] = None,
    trained_from: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a run of the same settings whose trained networks to start from, so "
            "that islands made on different machines can be merged."
        ),
    ] = None,
    also_islands: AlsoIslandsOption = None,
    steps: Annotated[Text, typer.Option(help="Moves of each chain.")] = None,
    epochs: Annotated[Text, typer.Option(help="Instead of steps: a budget for each chain.")] = None,
    leapfrog: Annotated[Text, typer.Option(help="Leapfrog steps of a move.")] = None,
    trajectory: Annotated[
        Text, typer.Option(help="Instead of leapfrog: length of a move, such as pi/2.")
    ] = None,
    mutations: Annotated[
        Text, typer.Option(help="Moves of SMC at each temperature (with eta: at most so many).")
    ] = None,
    island_weights: Annotated[
        Text, typer.Option(help="How SMC's islands are combined: evidence or equal.")
    ] = None,
    start: Annotated[
        Text, typer.Option(help="Where chains begin: prior, anchor or ensemble.")
    ] = None,
    anchor: Annotated[
        Text, typer.Option(help="What the prior is anchored at: map, swa or mc-dropout.")
    ] = None,
    factor_variance: Annotated[
        Text, typer.Option(help="Instead of s: variance of a Gaussian factor around the anchor.")
    ] = None,
    covariance: Annotated[
        Text, typer.Option(help="Of the anchored prior: linear (s v), or laplace (diagonal).")
    ] = None,
    split: Annotated[
        Text,
        typer.Option(help="Instead of s: share of the likelihood whose Laplace fit is the prior."),
    ] = None,
    posterior_temperature: Annotated[
        Text, typer.Option(help="Below 1 for a cold posterior.")
    ] = None,
    seed: Annotated[Text, typer.Option(help="One seed (default 0) ...")] = None,
    seeds: Annotated[Text, typer.Option(help="... or several: 0-4, or 0,2,5.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any other setting; may be repeated."),
    ] = None,
    data_dir: DataDirOption = None,
    out: Annotated[Path, typer.Option(help="Folder of the records.")] = Path("runs"),
    confidence: ConfidenceOption = False,
    save_posterior: SaveOption = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Run from the beginning, even if a record or a checkpoint is there."
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Say what it would take: epochs, time, memory, disk. Run nothing."
        ),
    ] = False,
    executor: ExecutorOption = None,
    workers: WorkersOption = None,
    address: AddressOption = None,
    cpus: CpusOption = None,
    gpus: GpusOption = None,
    retries: RetriesOption = None,
    checkpoint_every: EveryOption = None,
    memory_limit: MemoryOption = None,
    chunk_size: ChunkOption = None,
    no_checkpoint: NoCheckpointOption = False,
    debug: DebugOption = False,
    quiet: QuietOption = False,
) -> int:
    """Run methods on an experiment and write a record of each run.

    The same command goes on with a run that was stopped.
    """
    if experiment == TOY:
        require(not dry_run, "dry_run", "left out for the toy study, which takes seconds", True)
        from sbmc.cli.toy import run_toy_study

        return run_toy_study(seed or seeds or "0", out, force=force, quiet=quiet)
    from sbmc.cli.run import Request, run

    named = {
        "s": s,
        "prior_variance": prior_variance,
        "particles": particles,
        "islands": islands,
        "first_island": first_island,
        "steps": steps,
        "epochs": epochs,
        "leapfrog": leapfrog,
        "trajectory": trajectory,
        "mutations": mutations,
        "island_weights": island_weights,
        "start": start,
        "anchor": anchor,
        "factor_variance": factor_variance,
        "covariance": covariance,
        "split": split,
        "posterior_temperature": posterior_temperature,
    }
    request = Request.parse(
        experiment=experiment,
        methods=method,
        preset=preset,
        settings={name: value for name, value in named.items() if value is not None},
        assignments=set_ or [],
        seed=seed,
        seeds=seeds,
        also_islands=also_islands,
        out=out,
        data_dir=data_dir,
        force=force,
        confidence=confidence,
        save_posterior=save_posterior,
        debug=debug,
        quiet=quiet,
        dry_run=dry_run,
        trained_from=trained_from,
        execution=parse_execution(
            no_checkpoint,
            executor=executor,
            workers=workers,
            address=address,
            cpus=cpus,
            gpus=gpus,
            retries=retries,
            checkpoint_every=checkpoint_every,
            memory_limit=memory_limit,
            chunk_size=chunk_size,
        ),
    )
    return run(request)


app.command("resume")(resume_command)
app.command("extend")(extend_command)
app.command("merge")(merge_command)
app.command("tune")(tune_command)
app.command("head")(head_command)
app.add_typer(embed_app, name="embed")


@app.command("experiments")
def experiments_command() -> None:
    """List the experiments, a line each."""
    from sbmc.studies.experiments import experiment_names, get_experiment

    titles = {name: get_experiment(name).title for name in experiment_names()}
    _list(
        {**titles, TOY: "two modes in one dimension: what s and a cold posterior do to long chains"}
    )


@app.command("methods")
def methods_command() -> None:
    """List the methods, a line each, with their cost in epochs."""
    from sbmc.cli.show import show_methods

    show_methods()


@app.command("table")
def table_command(
    experiment: Annotated[
        str,
        typer.Argument(
            help="Whose table; see `sbmc experiments`. Or paper: all its tables and figures."
        ),
    ],
    records: Annotated[Path, typer.Option(help="Folder of the records.")] = Path(
        "experiments/records"
    ),
    style: Annotated[str, typer.Option("--format", help="text or markdown.")] = "text",
    write: Annotated[
        list[Path] | None,
        typer.Option(help="Put the table into this Markdown page, between its marks; repeatable."),
    ] = None,
    confidence: Annotated[
        bool,
        typer.Option("--confidence", help="The tables of the classifier that says abstain."),
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Set our results beside the paper's, from the stored records."""
    from sbmc.cli.table import (
        PAPER,
        show_confidence,
        show_index,
        show_table,
        write_index,
        write_table,
    )

    if experiment == PAPER and write:
        write_index(records, write)
    elif experiment == PAPER:
        show_index(records, style)
    elif write:
        write_table(experiment, records, write, confidence=confidence)
    elif confidence:
        show_confidence(experiment, records, style)
    else:
        show_table(experiment, records, style)


@app.command("figure")
def figure_command(
    experiment: Annotated[str, typer.Argument(help="Whose figure; see `sbmc experiments`.")],
    name: Annotated[
        str,
        typer.Argument(
            help="epochs: what a budget buys; or, of runs made with --confidence: roc, "
            "thresholds, confusion, risk-coverage, reliability, entropies, spider."
        ),
    ] = "epochs",
    methods: Annotated[
        Text, typer.Option(help="Show these only, with commas.", show_default=False)
    ] = None,
    protocol: Annotated[
        Text, typer.Option(help="paper (default) or clean.", show_default=False)
    ] = None,
    records: Annotated[Path, typer.Option(help="Folder of the records.")] = Path(
        "experiments/records"
    ),
    out: Annotated[
        Path | None, typer.Option(help="The PNG file; EXPERIMENT_NAME.png if not given.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Draw one of an experiment's figures, from the stored records."""
    from sbmc.cli.figure import draw_figure

    draw_figure(experiment, name, records, out=out, protocol=protocol, methods=methods)


@app.command("report")
def report_command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders with records: of all runs, of an experiment, of a method, of one run."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The HTML file.")] = Path("report.html"),
    title: Annotated[
        Text, typer.Option(help="Of the page; the experiments' names if not given.")
    ] = None,
    data_dir: DataDirOption = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    debug: DebugOption = False,
) -> None:
    """Write one self-contained HTML page of any runs: tables, figures, diagnostics, settings."""
    from sbmc.cli.report import make_report

    make_report(runs, out, title=title, data_dir=data_dir, show=show)


def _list(lines: dict[str, str]) -> None:
    width = max(map(len, lines))
    for name, line in lines.items():
        typer.echo(f"{name:{width}}  {line}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: what follows `sbmc`; None for those of the process.

    Returns:
        The exit code: 0; 1 if a run failed; 2 if an argument was refused; 130 after Ctrl-C.
    """
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    command = typer.main.get_command(app)
    interruption = "interrupted; the records of finished runs are kept."
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
    except Exception as error:
        return _complain(error, f"{type(error).__name__}: {error}", FAILED, given)
    if code == INTERRUPTED:
        print(f"sbmc: {interruption}", file=sys.stderr)
    return int(code or 0)


def _complain(error: Exception, message: str, code: int, arguments: Sequence[str]) -> int:
    if "--debug" in arguments:
        traceback.print_exception(error)
    print("sbmc: " + " ".join(message.split()), file=sys.stderr)
    return code


def _explain(error: Any) -> str:
    """Say in our form of words what the parser found wrong: argument, rule, value."""
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
    commands = getattr(command, "commands", None)
    if commands and not hasattr(error, "param"):
        quoted = error.message.split("'")
        given = quoted[1] if len(quoted) > 2 else error.message
        hint = nearest(given, commands)
        return f"`command` must be one of {', '.join(commands)}, but got {given!r}.{hint}"
    return f"`{where}`: {error.format_message()}"
