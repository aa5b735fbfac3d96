"""The commands `run` and `tune`, as the parser sees them; see `run` and `tune` in this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sbmc.checks import require
from sbmc.cli.options import DataDirOption, DebugOption, QuietOption, Text
from sbmc_studies.commands.options import (
    AddressOption,
    AlsoIslandsOption,
    ChunkOption,
    ConfidenceOption,
    CpusOption,
    EveryOption,
    ExecutorOption,
    GpusOption,
    MemoryOption,
    NoCheckpointOption,
    RetriesOption,
    SaveOption,
    WorkersOption,
)

# The one study that has no data set, and hence no methods to choose from.
TOY = "toy"


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
        from sbmc_studies.commands.toy import run_toy_study

        return run_toy_study(seed or seeds or "0", out, force=force, quiet=quiet)
    from sbmc_studies.commands.run import Request, parse_execution, run

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


def tune_command(
    experiment: Annotated[str, typer.Argument(help="What to tune; see `sbmc experiments`.")],
    v: Annotated[
        Text,
        typer.Option(
            "--v",
            help="Prior variances to try, such as 1/40,0.1,1 (default 0.01 to 10 in half decades). "
            "One alone is taken as chosen.",
            show_default=False,
        ),
    ] = None,
    s: Annotated[
        Text,
        typer.Option(
            "--s",
            help="Scales to try (default 0,0.05,0.1,0.2,0.3,0.5,1; 0 is the MAP).",
            show_default=False,
        ),
    ] = None,
    folds: Annotated[Text, typer.Option(help="Folds of the cross-validation.")] = "5",
    method: Annotated[Text, typer.Option(help="Whose s is chosen; see `sbmc methods`.")] = "s-hmc",
    preset: Annotated[
        Text, typer.Option(help="paper or best; the experiment's own.", show_default=False)
    ] = None,
    particles: Annotated[Text, typer.Option(help="Particles of each fit.")] = None,
    epochs: Annotated[Text, typer.Option(help="Instead of steps: a budget for each chain.")] = None,
    seed: Annotated[Text, typer.Option(help="Of folds, training and sampling.")] = "0",
    examples: Annotated[
        Text, typer.Option(help="Use so many of the training examples, chosen at random.")
    ] = None,
    extend: Annotated[
        bool,
        typer.Option(help="Add values of v where the best one lies at the edge of the grid."),
    ] = True,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any other setting; may be repeated."),
    ] = None,
    data_dir: DataDirOption = None,
    out: Annotated[Path, typer.Option(help="Folder of the records.")] = Path("runs"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would take. Run nothing.")
    ] = False,
    debug: DebugOption = False,
    quiet: QuietOption = False,
) -> int:
    """Choose the prior variance v, then the scale s, by cross-validation on the training data.

    The same command goes on with a tuning that was stopped; other grids add to it.
    """
    from sbmc_studies.commands.tune import Request, run_tune

    request = Request.parse(
        experiment=experiment,
        v=v,
        s=s,
        folds=folds,
        method=method,
        preset=preset,
        settings={"particles": particles, "epochs": epochs},
        assignments=set_ or [],
        seed=seed,
        examples=examples,
        extend=extend,
        out=out,
        data_dir=data_dir,
        quiet=quiet,
        dry_run=dry_run,
    )
    return run_tune(request)
