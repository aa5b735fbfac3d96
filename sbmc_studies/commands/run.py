"""`sbmc run`: from the options of the command line to runs, and from runs to a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sbmc.checks import BadInput, require
from sbmc_studies.commands.dry_run import show_forecasts
from sbmc_studies.commands.execute import execute, require_writable
from sbmc_studies.commands.gauntlet import run_gauntlet
from sbmc_studies.commands.mnist import run_mnist
from sbmc_studies.commands.options import ExecutionOptions, parse_numbers
from sbmc_studies.commands.ranks import on_first_rank
from sbmc_studies.commands.reviewers import run_reviewers
from sbmc_studies.commands.show import show_comparison
from sbmc_studies.commands.tables import run_tables
from sbmc_studies.commands.toy import run_toy_study
from sbmc_studies.experiments.execution import Execution
from sbmc_studies.experiments.experiment import Experiment, get_experiment
from sbmc_studies.experiments.methods import Method, get_methods
from sbmc_studies.experiments.resources import Resources
from sbmc_studies.experiments.run_spec import RunSpec
from sbmc_studies.experiments.settings import Settings, resolve
from sbmc_studies.runs.growing import copy_networks

# What the parser's side imports when a command runs, the studies of their own included.
__all__ = [
    "parse_execution",
    "parse_specs",
    "run",
    "run_gauntlet",
    "run_mnist",
    "run_reviewers",
    "run_tables",
    "run_toy_study",
]


def parse_specs(
    *,
    experiment: str,
    methods: str | None,
    preset: str | None,
    settings: Mapping[str, str],
    seed: str | None,
    seeds: str | None,
    also_islands: str | None,
    data_dir: Path | None,
    **fields: Any,
) -> list[RunSpec]:
    """Read the options of `sbmc run`.

    Args:
        experiment: the experiment's name.
        methods: names with commas between them, or None for the experiment's default.
        preset: the preset's name, or None for the experiment's default.
        settings: settings that differ from the preset's.
        seed: one seed.
        seeds: or several.
        also_islands: numbers with commas between them.
        data_dir: where data are looked for first.
        fields: other fields of `RunSpec`, which need no reading.

    Returns:
        The runs to make: all methods with the first seed, then with the next.

    Raises:
        BadInput: if any of it is refused.
    """
    study = get_experiment(experiment)
    names = methods.split(",") if methods is not None else study.default_methods
    chosen = get_methods(name.strip() for name in names)
    if seed is not None and seeds is not None:
        raise BadInput(f"`seed` must be left out when `seeds` is given, but got {seed!r}.")
    numbers = parse_numbers("seed" if seed is not None else "seeds", seed or seeds or "0")
    resolved = _resolve_all(study, chosen, preset or study.default_preset, settings)
    also = parse_numbers("also_islands", also_islands)
    most = max(each["islands"] for _, each in resolved)
    if data_dir is not None:
        fields["data_dir"] = str(data_dir.absolute())
    return [
        RunSpec(
            experiment,
            method.name,
            each,
            number,
            # In a comparison MAP has one island, however many the others have.
            tuple(k for k in also if k <= each["islands"] or each["islands"] == most),
            **fields,
        )
        for number in numbers
        for method, each in resolved
    ]


def _resolve_all(
    experiment: Experiment, methods: Sequence[Method], preset: str, settings: Mapping[str, str]
) -> list[tuple[Method, Settings]]:
    """The settings of each method.

    In a comparison a setting is given to the methods that have it: `--s 0.2` is for S-HMC, and the
    deep ensemble ignores it. A setting that no method has is refused.
    """
    if len(methods) == 1:
        return [(methods[0], resolve(experiment, methods[0], preset, settings))]
    resolved, used = [], set()
    for method in methods:
        known = method.setting_names(resolve(experiment, method, preset)) - set(method.fixed)
        overrides = {name: value for name, value in settings.items() if name in known}
        used |= set(overrides)
        resolved.append((method, resolve(experiment, method, preset, overrides)))
    unused = {name: value for name, value in settings.items() if name not in used}
    if unused:
        resolve(experiment, methods[-1], preset, unused)  # a misspelt name is refused here
        name, value = next(iter(unused.items()))
        names = ", ".join(method.name for method in methods)
        raise BadInput(f"`{name}` must be a setting of one of {names}, but got {value!r}.")
    return resolved


def parse_execution(options: ExecutionOptions, *, no_checkpoint: bool = False) -> Execution:
    """Read how islands are run.

    Args:
        options: as text.
        no_checkpoint: save no checkpoint.

    Returns:
        How islands are run.

    Raises:
        BadInput: one of them is refused.
    """
    given = options.read()
    if no_checkpoint:
        every = given.get("checkpoint_every")
        require(every is None, "checkpoint_every", "left out with --no-checkpoint", every)
        given["checkpoint_every"] = None
    return Execution(**given)


def run(
    specs: Sequence[RunSpec],
    out: Path,
    *,
    force: bool = False,
    trained_from: Path | None = None,
    dry_run: bool = False,
    quiet: bool = False,
    debug: bool = False,
) -> int:
    """Make runs, and show their results.

    Args:
        specs: of one experiment.
        out: folder of the records.
        force: run even if the record is there.
        trained_from: folder of a run whose trained networks to start from.
        dry_run: say what the runs would cost, and run nothing.
        quiet: show results only.
        debug: let unexpected errors through.

    Returns:
        The exit code: 1 if a run failed, else 0.
    """
    require(not out.is_file(), "out", "a folder", str(out))
    if trained_from is not None:
        for option, given in (("force", force), ("dry_run", dry_run)):
            rule = "left out with trained_from, since those networks are not trained again"
            require(not given, option, rule, True)
    # Progress is shown even where there is no terminal, as plain lines: runs take minutes.
    resources = Resources(progress=not quiet)
    if dry_run:
        show_forecasts(specs, out, resources)
        return 0

    def run_all() -> int:
        require_writable(out)
        runs = []
        for spec in specs:
            if trained_from is not None:
                copy_networks(trained_from, spec, spec.folder(out))
            several = len(specs) > 1
            options = {"force": force, "several": several, "quiet": quiet, "debug": debug}
            runs.append(execute(spec, out, resources, **options))
        measured = [each for each in runs if each.record.outcome != "failed"]
        if measured:
            show_comparison(get_experiment(specs[0].experiment), measured, out)
        return 1 if len(measured) < len(runs) else 0

    return on_first_rank(run_all, specs[0].execution.shards)
