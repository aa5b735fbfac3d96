"""The toy study's bias and mixing over s, and the settings of every study's methods."""

from __future__ import annotations

import math
from pathlib import Path

from sbmc.prediction.metrics import mean_and_error
from sbmc_studies.experiments.experiment import experiment_names, get_experiment
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.settings import resolve
from sbmc_studies.paper.tables.lines import Line, markdown_lines
from sbmc_studies.paper.toy import read_toy

# What the paper's two methods are set by; the experiment's file has the reason of each value.
METHODS = ("s-hmc", "s-smc")
SETTINGS = {
    "s": "s",
    "prior_variance": "v",
    "particles": "N",
    "steps": "steps",
    "epochs": "epochs",
    "leapfrog": "leapfrog",
    "mutations": "M",
    "step_size": "first step size",
    "start": "start",
}
NOTHING = "–"


def toy_table(records: Path) -> str:
    """Of the toy target with two modes: the share of the lower mode, and how slowly chains mix."""
    found = sorted((records / "toy").glob("*/*/seed-*"))
    toys = [read_toy(folder) for folder in found]
    lines = []
    for case in toys[0].cases("s"):
        shares = [float(toy.record.metrics[f"lower_mode.{case.name}"] or math.nan) for toy in toys]
        times = [float(toy.record.metrics[f"iact.{case.name}"] or math.nan) for toy in toys]
        cells = []
        for values, digits in ((shares, 3), (times, 1)):
            mean, error = mean_and_error(values)
            cells.append(f"{mean:.{digits}f}±{error:.{digits}f}")
        lines.append(Line((f"s = {case.value:g}", *cells)))
    headings = ("target", "share of the lower mode", "draws for an independent one (IACT)")
    return markdown_lines(headings, lines)


def settings_table() -> str:
    """The paper's settings of S-HMC∥ and S-SMC∥ on every study, as the configuration has them."""
    lines = []
    for name in experiment_names():
        study = get_experiment(name)
        for method in METHODS:
            if method in study.presets:
                settings = resolve(study, get_method(method), "paper")
                cells = [_text(settings.get(key)) for key in SETTINGS]
                lines.append(Line((f"{name}, {method}", *cells)))
    return markdown_lines(("study, method", *SETTINGS.values()), lines)


def _text(value: object) -> str:
    if value is None:
        return NOTHING
    return f"{value:g}" if isinstance(value, float) else str(value)
