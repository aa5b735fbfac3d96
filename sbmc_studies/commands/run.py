"""`sbmc run`: from words to runs, and from runs to a table."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sbmc.checks import BadInput, require
from sbmc.cli.options import Text
from sbmc_studies.commands.dry_run import show_expectations
from sbmc_studies.commands.going_on import islands_done, require_writable, say, saying_how
from sbmc_studies.commands.options import parse_changes
from sbmc_studies.commands.show import show_comparison
from sbmc_studies.experiments.context import Workshop
from sbmc_studies.experiments.execution import Execution
from sbmc_studies.experiments.experiment import Experiment, get_experiment
from sbmc_studies.experiments.methods import Method, get_methods
from sbmc_studies.experiments.settings import Settings, parse_assignment, resolve, settings_hash
from sbmc_studies.records.record import record_path
from sbmc_studies.runs.growing import bring_networks
from sbmc_studies.runs.run_file import Journal
from sbmc_studies.runs.runner import Run, run_study


@dataclass(frozen=True)
class Request:
    """What was asked for, checked as far as it can be before any computing.

    Attributes:
        experiment: what to study.
        plans: methods with their resolved settings, in order.
        seeds: each method is run with each of them.
        also_islands: numbers of islands to write records of besides.
        out: folder of the records.
        data_dir: where to look first for data.
        force: run even if the record is there.
        confidence: train and test the meta-classifier too.
        save_posterior: write the posterior beside the record.
        debug: let unexpected errors through.
        quiet: show results only.
        execution: how islands are run.
        dry_run: say what it would cost, and run nothing.
        trained_from: folder of a run whose trained networks to start from.
    """

    experiment: Experiment
    plans: tuple[tuple[Method, Settings], ...]
    seeds: tuple[int, ...]
    also_islands: tuple[int, ...]
    out: Path
    data_dir: Path | None = None
    force: bool = False
    confidence: bool = False
    save_posterior: bool = False
    debug: bool = False
    quiet: bool = False
    execution: Execution = field(default_factory=Execution)
    dry_run: bool = False
    trained_from: Path | None = None

    @classmethod
    def parse(
        cls,
        *,
        experiment: str,
        methods: str | None,
        preset: str | None,
        settings: Mapping[str, str],
        assignments: Sequence[str],
        seed: str | None,
        seeds: str | None,
        also_islands: str | None,
        out: Path,
        **rest: Any,
    ) -> Request:
        """Read the words of the command line.

        Args:
            experiment: the experiment's name.
            methods: names with commas between them, or None for the experiment's own.
            preset: the preset's name, or None for the experiment's own.
            settings: settings with an option of their own.
            assignments: others, as `KEY=VALUE`.
            seed: one seed.
            seeds: or several.
            also_islands: numbers with commas between them.
            out: folder of the records.
            rest: fields that need no reading.

        Returns:
            The request.

        Raises:
            BadInput: if any of it is refused.
        """
        study = get_experiment(experiment)
        names = methods.split(",") if methods is not None else study.default_methods
        chosen = get_methods(name.strip() for name in names)
        overrides: dict[str, Any] = dict(settings)
        for name, value in map(parse_assignment, assignments):
            if name in overrides:
                raise BadInput(
                    f"`{name}` must be given once, but got {overrides[name]} and {value}."
                )
            overrides[name] = value
        if seed is not None and seeds is not None:
            raise BadInput(f"`seed` must be left out when `seeds` is given, but got {seed!r}.")
        require(not Path(out).is_file(), "out", "a folder", str(out))
        if rest.get("trained_from") is not None:
            for option in ("force", "dry_run"):
                rule = "left out with trained_from, which begins from what is there"
                require(not rest.get(option), option, rule, True)
        plans = tuple(_plan(study, chosen, preset or study.default_preset, overrides))
        most = max(settings["islands"] for _, settings in plans)
        also = parse_numbers("also_islands", also_islands) if also_islands else ()
        for number in also:
            rule = f"between 1 and the number of islands ({most})"
            require(1 <= number <= most, "also_islands", rule, number)
        return cls(
            experiment=study,
            plans=plans,
            seeds=parse_numbers("seed" if seed is not None else "seeds", seed or seeds or "0"),
            also_islands=also,
            out=Path(out),
            **rest,
        )


def _plan(
    experiment: Experiment, methods: Sequence[Method], preset: str, overrides: Mapping[str, Any]
) -> list[tuple[Method, Settings]]:
    if len(methods) == 1:
        return [(methods[0], resolve(experiment, methods[0], preset, overrides))]
    # In a comparison a setting goes to the methods that have it: `--s 0.2` is for S-HMC and no
    # affair of the deep ensemble. One that no method has is refused by the last of them.
    plans, taken = [], set()
    for method in methods:
        known = method.setting_names(resolve(experiment, method, preset)) - set(method.fixed)
        own = {name: value for name, value in overrides.items() if name in known}
        taken |= set(own)
        plans.append((method, resolve(experiment, method, preset, own)))
    left = {name: value for name, value in overrides.items() if name not in taken}
    if left:
        resolve(experiment, methods[-1], preset, left)
        name, value = next(iter(left.items()))
        names = ", ".join(method.name for method in methods)
        raise BadInput(f"`{name}` must be a setting of one of {names}, but got {value!r}.")
    return plans


def parse_execution(no_checkpoint: bool = False, **words: Text) -> Execution:
    """Read the options of a run.

    Args:
        no_checkpoint: keep none.
        words: of `Execution`, as text; None for what is not given.

    Returns:
        How islands are run.

    Raises:
        BadInput: one of them is refused.
    """
    given = parse_changes(**words)
    if no_checkpoint:
        every = given.get("checkpoint_every")
        require(every is None, "checkpoint_every", "left out with --no-checkpoint", every)
        return Execution(**{**given, "checkpoint_every": None})
    return Execution(**given)


def parse_numbers(name: str, text: str) -> tuple[int, ...]:
    """Read whole numbers: `3`, `0,2,5`, `0-4`, or a mixture.

    Args:
        name: the argument, for the error message.
        text: the numbers.

    Returns:
        The numbers, each once, in the order given.

    Raises:
        BadInput: if the text has another form.

    Example:
        >>> parse_numbers("seeds", "0-2,7")
        (0, 1, 2, 7)
    """
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        rule = "whole numbers such as 3, 0,2,5 or 0-4"
        good = first.isdecimal() and (not dash or (last.isdecimal() and int(first) <= int(last)))
        require(good, name, rule, text)
        numbers.extend(range(int(first), int(last if dash else first) + 1))
    return tuple(dict.fromkeys(numbers))


def run(request: Request) -> int:
    """Do what was asked for, and show what came of it.

    Args:
        request: from `Request.parse`.

    Returns:
        The exit code: 1 if a run failed, else 0.
    """
    # Progress is shown even where there is no terminal, as plain lines: runs take minutes.
    workshop = Workshop(request.data_dir, progress=not request.quiet)
    if request.dry_run:
        show_expectations(request, workshop)
        return 0
    require_writable(request.out)
    runs: list[Run] = []
    several = len(request.seeds) * len(request.plans) > 1
    for seed in request.seeds:
        for method, settings in request.plans:
            # In a comparison MAP has one island, however many the others have.
            also = [k for k in request.also_islands if k <= settings["islands"]]
            folder = _folder(request, method, settings, seed)
            if not request.quiet:
                _announce(request, method, settings, seed, folder)
            if request.trained_from is not None:
                new = Journal(request.experiment.name, method.name, settings, seed)
                bring_networks(request.trained_from, new, folder)
            with saying_how(folder, method, settings["islands"], request.execution, several):
                done = run_study(
                    request.experiment,
                    method,
                    settings,
                    seed,
                    request.out,
                    also_islands=also,
                    force=request.force,
                    confidence=request.confidence,
                    save_posterior=request.save_posterior,
                    workshop=workshop,
                    execution=request.execution,
                    debug=request.debug,
                )
            runs.append(done)
            say(done, quiet=request.quiet)
    measured = [each for each in runs if each.record.outcome != "failed"]
    if measured:
        show_comparison(request.experiment, measured, request.out)
    return 1 if any(each.record.outcome == "failed" for each in runs) else 0


def _folder(request: Request, method: Method, settings: Settings, seed: int) -> Path:
    name = request.experiment.name
    digest = settings_hash(name, method.name, settings)
    return record_path(request.out, name, method.name, digest, seed).parent


def _announce(
    request: Request, method: Method, settings: Settings, seed: int, folder: Path
) -> None:
    line = f"{request.experiment.name} {method.name} seed {seed} ..."
    goes_on = request.execution.keeps() and not request.force
    there = islands_done(folder) if goes_on and not (folder / "record.json").exists() else 0
    if there:
        line += f" going on: {there} of {settings['islands']} islands are done"
    print(line, file=sys.stderr)
