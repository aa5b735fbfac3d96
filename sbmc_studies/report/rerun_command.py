"""The command that repeats a run, checked by the hash of the settings it resolves to."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from sbmc.checks import BadInput
from sbmc_studies.experiments.experiment import PRESETS, Experiment
from sbmc_studies.experiments.methods import METHODS, Method
from sbmc_studies.experiments.settings import resolve, settings_hash
from sbmc_studies.report.collect import Setting, Study
from sbmc_studies.runs.confidence import has_confidence

# Settings that have an option of their own; others go by `--set`.
OPTIONS = (
    *("s", "prior_variance", "particles", "islands", "first_island", "steps", "epochs"),
    *("leapfrog", "trajectory", "mutations", "island_weights", "start", "anchor"),
    *("factor_variance", "covariance", "split", "posterior_temperature"),
)


def rerun_command(study: Study, setting: Setting) -> str | None:
    """The command that repeats a setting's runs.

    Args:
        study: the experiment.
        setting: one of its settings, with its seeds.

    Returns:
        A line for a shell, which resolves to the same hash; None if no line does, as for settings
        of another version.
    """
    seeds = write_numbers([run.record.seed for run in setting.runs])
    if study.name == "toy":
        return f"sbmc run toy --seeds {seeds}"
    experiment, method = study.experiment, METHODS.get(setting.method)
    if experiment is None or method is None:
        return None
    candidates = [
        (preset, changes)
        for preset in PRESETS
        if (changes := _changes(experiment, method, preset, setting)) is not None
    ]
    if not candidates:
        return None
    usual = experiment.default_preset
    preset, changes = min(candidates, key=lambda each: (len(each[1]), each[0] != usual))
    arguments = ["sbmc", "run", study.name, "--method", setting.method]
    if preset != usual:
        arguments += ["--preset", preset]
    for name, value in changes.items():
        if name in OPTIONS:
            arguments += [f"--{name.replace('_', '-')}", value]
        else:
            arguments += ["--set", f"{name}={value}"]
    arguments += ["--seeds", seeds]
    if any(has_confidence(run.record) for run in setting.runs):
        arguments.append("--confidence")
    return shlex.join(arguments)


def write_numbers(numbers: Sequence[int]) -> str:
    """Numbers as `--seeds` takes them.

    Examples:
        >>> write_numbers([0, 1, 2, 5]), write_numbers([3])
        ('0-2,5', '3')
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)


def _changes(
    experiment: Experiment, method: Method, preset: str, setting: Setting
) -> dict[str, str] | None:
    """The settings that differ from the preset's; None if no options give these settings."""
    settings = setting.record.settings
    try:
        base = resolve(experiment, method, preset)
        changes = {
            name: _write(value)
            for name, value in settings.items()
            if value is not None and _differs(base, name, value) and name not in method.fixed
        }
        again = resolve(experiment, method, preset, changes)
        # What the preset sets and the run does not has to be unset by name.
        unset = [
            name
            for name, value in again.items()
            if value is not None and settings.get(name) is None
        ]
        if unset:
            changes |= dict.fromkeys(unset, "none")
            again = resolve(experiment, method, preset, changes)
    except (BadInput, ValueError, TypeError, OverflowError):
        return None
    good = settings_hash(experiment.name, method.name, again) == setting.record.hash
    return changes if good else None


def _differs(base: Mapping[str, Any], name: str, value: Any) -> bool:
    return name not in base or base[name] != value


def _write(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_write, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
