"""The commands `run` and `tune`, as the parser sees them; see `run` and `tune` in this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sbmc.checks import require
from sbmc.cli.options import (
    DataDirOption,
    DebugOption,
    QuietOption,
    Text,
    given_options,
    with_option_groups,
)
from sbmc_studies.commands.completion import (
    GAUNTLET,
    MNIST,
    REVIEWERS,
    TABLES,
    TOY,
    complete_experiments,
    complete_methods,
    complete_presets,
    complete_runs,
)
from sbmc_studies.commands.loading import load_work
from sbmc_studies.commands.options import (
    RUNS,
    AlsoIslandsOption,
    AssignmentsOption,
    ConfidenceOption,
    ExecutionOptions,
    OutOption,
    SaveOption,
    SettingOptions,
    join_settings,
    require_study,
)

_OF_MANY = "Of the gauntlet and of tables, which have many data sets"


@with_option_groups
def run_command(
    experiment: Annotated[
        str,
        typer.Argument(help="What to study; see `sbmc experiments`.", autocompletion=complete_runs),
    ],
    *,
    method: Annotated[
        Text,
        typer.Option(
            "--method",
            "--methods",
            help="One method or several, with commas; see `sbmc methods`. By default s-hmc, "
            "and for digits the comparison map,de,s-hmc.",
            show_default=False,
            autocompletion=complete_methods,
        ),
    ] = None,
    preset: Annotated[
        Text,
        typer.Option(
            help="paper: the paper's settings (default); best: what we recommend (default for "
            "digits, which are not in the paper).",
            show_default=False,
            autocompletion=complete_presets,
        ),
    ] = None,
    settings: SettingOptions,
    trained_from: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a run of the same settings whose trained networks to start from, so "
            "that islands made on different machines can be merged."
        ),
    ] = None,
    also_islands: AlsoIslandsOption = None,
    seed: Annotated[Text, typer.Option(metavar="INTEGER", help="One seed (default 0) ...")] = None,
    seeds: Annotated[Text, typer.Option(help="... or several: 0-4, or 0,2,5.")] = None,
    set_: AssignmentsOption = None,
    data_dir: DataDirOption = None,
    out: OutOption = RUNS,
    confidence: ConfidenceOption = False,
    save_posterior: SaveOption = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Run from the beginning, even if a record or a checkpoint is there."
        ),
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Of the gauntlet: six pairs, four methods, one seed. Of tables: three sets, three "
            "methods, one split. Of mnist: one seed.",
            rich_help_panel=_OF_MANY,
        ),
    ] = False,
    sets: Annotated[
        Text,
        typer.Option(
            help="Of tables: sets or groups of sets, with commas.", rich_help_panel=_OF_MANY
        ),
    ] = None,
    splits: Annotated[
        Text,
        typer.Option(help="Of tables: numbers of splits, such as 0-4.", rich_help_panel=_OF_MANY),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Of the gauntlet: sample recorded runs that were warned of, and as many that were "
            "ok, again by chains ten times as long, and compare.",
            rich_help_panel=_OF_MANY,
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Say what it would take: epochs, time, memory, disk. Run nothing."
        ),
    ] = False,
    execution: ExecutionOptions,
    no_checkpoint: Annotated[
        bool,
        typer.Option("--no-checkpoint", help="Write no checkpoint: the run cannot be resumed."),
    ] = False,
    debug: DebugOption = False,
    quiet: QuietOption = False,
) -> int:
    """Run methods on an experiment and write a record of each run.

    The same command continues a run that was stopped.
    """
    require_study(experiment, TOY, GAUNTLET, TABLES, REVIEWERS, MNIST)  # before torch is imported
    work = load_work().run
    if experiment in (TOY, GAUNTLET, TABLES, REVIEWERS, MNIST):
        rule = f"left out for the study {experiment}, which says as it goes what it takes"
        require(not dry_run, "dry_run", rule, True)
    for name, text in (("sets", sets), ("splits", splits)):
        rule = "left out for studies other than tables"
        require(text is None or experiment == TABLES, name, rule, text)
    if experiment == REVIEWERS:
        rule = "left out for reviewers, whose rows name their methods"
        require(method is None, "method", rule, method)
        return work.run_reviewers(seed or seeds, out, force=force, quiet=quiet, debug=debug)
    if experiment == TOY:
        return work.run_toy_study(seed or seeds or "0", out, force=force, quiet=quiet)
    if experiment == TABLES:
        for name, given in (("check", check), ("seed", seed), ("seeds", seeds)):
            rule = "left out for tables, where the number of a split is the seed"
            require(not given, name, rule, given)
        return work.run_tables(
            sets,
            splits,
            method,
            join_settings(given_options(settings), set_ or []),
            out,
            quick=quick,
            force=force,
            data_dir=data_dir,
            quiet=quiet,
        )
    if experiment == MNIST:
        require(not check, "check", "left out for mnist: the gauntlet has it", check)
        return work.run_mnist(
            method,
            seed or seeds,
            join_settings(given_options(settings), set_ or []),
            out,
            quick=quick,
            force=force,
            data_dir=data_dir,
            quiet=quiet,
        )
    if experiment == GAUNTLET:
        return work.run_gauntlet(
            method,
            seed or seeds,
            join_settings(given_options(settings), set_ or []),
            out,
            quick=quick,
            check=check,
            force=force,
            data_dir=data_dir,
            quiet=quiet,
        )
    for name, given, studies in (
        ("quick", quick, "the gauntlet, tables and mnist"),
        ("check", check, "the gauntlet"),
    ):
        require(not given, name, f"left out for studies other than {studies}", given)
    specs = work.parse_specs(
        experiment=experiment,
        methods=method,
        preset=preset,
        settings=join_settings(given_options(settings), set_ or []),
        seed=seed,
        seeds=seeds,
        also_islands=also_islands,
        confidence=confidence,
        save_posterior=save_posterior,
        execution=work.parse_execution(execution, no_checkpoint=no_checkpoint),
        data_dir=data_dir,
    )
    return work.run(
        specs,
        out,
        force=force,
        trained_from=trained_from,
        dry_run=dry_run,
        quiet=quiet,
        debug=debug,
    )


def tune_command(
    experiment: Annotated[
        str,
        typer.Argument(
            help="What to tune; see `sbmc experiments`.", autocompletion=complete_experiments
        ),
    ],
    v: Annotated[
        Text,
        typer.Option(
            "--v",
            metavar="NUMBERS",
            help="Prior variances to try, such as 1/40,0.1,1 (default 0.01 to 10 in half decades). "
            "One alone is taken as chosen.",
            show_default=False,
        ),
    ] = None,
    s: Annotated[
        Text,
        typer.Option(
            "--s",
            metavar="NUMBERS",
            help="Scales to try (default 0,0.05,0.1,0.2,0.3,0.5,1; 0 is the MAP).",
            show_default=False,
        ),
    ] = None,
    folds: Annotated[
        Text, typer.Option(metavar="INTEGER", help="Folds of the cross-validation.")
    ] = "5",
    method: Annotated[
        Text,
        typer.Option(
            help="Whose s is chosen; see `sbmc methods`.", autocompletion=complete_methods
        ),
    ] = "s-hmc",
    preset: Annotated[
        Text,
        typer.Option(
            help="paper or best; by default the experiment's.",
            show_default=False,
            autocompletion=complete_presets,
        ),
    ] = None,
    particles: Annotated[
        Text, typer.Option(metavar="INTEGER", help="Particles of each fit.")
    ] = None,
    epochs: Annotated[
        Text, typer.Option(metavar="INTEGER", help="Instead of steps: a budget for each chain.")
    ] = None,
    seed: Annotated[
        Text, typer.Option(metavar="INTEGER", help="Of folds, training and sampling.")
    ] = "0",
    examples: Annotated[
        Text,
        typer.Option(
            metavar="INTEGER", help="Use so many of the training examples, chosen at random."
        ),
    ] = None,
    extend: Annotated[
        bool,
        typer.Option(help="Add values of v where the best one lies at the edge of the grid."),
    ] = True,
    set_: AssignmentsOption = None,
    data_dir: DataDirOption = None,
    out: OutOption = RUNS,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would take. Run nothing.")
    ] = False,
    debug: DebugOption = False,
    quiet: QuietOption = False,
) -> int:
    """Choose the prior variance v, then the scale s, by cross-validation on the training data.

    The same command continues a tuning that was stopped; other grids add to it.
    """
    work = load_work().tune
    options = {"particles": particles, "epochs": epochs}
    given = {name: text for name, text in options.items() if text is not None}
    plan = work.parse_plan(
        experiment=experiment,
        v=v,
        s=s,
        folds=folds,
        method=method,
        preset=preset,
        settings=join_settings(given, set_ or []),
        seed=seed,
        examples=examples,
        extend=extend,
    )
    return work.run_tune(plan, out, data_dir=data_dir, dry_run=dry_run, quiet=quiet)
