"""The tuning of an experiment of the studies: its data, its network, its sampler."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sbmc
from sbmc.checks import require
from sbmc.model.data import as_examples
from sbmc.prior.options import Prior
from sbmc.tuning.folds import check_folds, make_folds, subset
from sbmc.tuning.grid import s_grid, v_grid
from sbmc.tuning.search import EXTENSIONS, tune
from sbmc_studies.data import load_dataset
from sbmc_studies.experiments.experiment import Experiment, get_experiment
from sbmc_studies.experiments.methods import Method, get_methods
from sbmc_studies.experiments.methods.sampled import prior_options
from sbmc_studies.experiments.networks import untrained_network
from sbmc_studies.experiments.run_spec import run_folder
from sbmc_studies.experiments.samplers import build_sampler
from sbmc_studies.experiments.settings import (
    OPTIMISER_SETTINGS,
    Settings,
    resolve,
    settings_hash,
)

if TYPE_CHECKING:
    from sbmc.fitting.forecast import Expectation
    from sbmc.tuning.result import Tuning

METHOD = "s-hmc"
# The name of its folder, which is beside those of the methods.
FOLDER = "tune"


@dataclass(frozen=True)
class Plan:
    """What is to be tuned, checked as far as is possible without data.

    Attributes:
        experiment: data set, network, settings.
        method: whose s is chosen.
        preset: where its other settings come from.
        overrides: settings that differ from the preset's, as they were given.
        settings: resolved.
        v: values of v, or None for the default grid.
        s: values of s, or None for the default grid.
        folds: how many.
        seed: of everything.
        examples: how many to use, or None for all.
        extensions: how often the grid of v may grow.
    """

    experiment: Experiment
    method: Method
    preset: str
    overrides: Mapping[str, Any]
    settings: Settings
    v: tuple[float, ...] | None
    s: tuple[float, ...] | None
    folds: int
    seed: int
    examples: int | None
    extensions: int

    @property
    def hash(self) -> str:
        """The name of all that decides the scores, except the grids, so that grids can grow."""
        tuned = ("s", "islands", "prior_variance")
        fixed = {name: value for name, value in self.settings.items() if name not in tuned}
        more = {"method": self.method.name, "folds": self.folds, "examples": self.examples}
        return settings_hash(self.experiment.name, FOLDER, {**fixed, **more})

    def folder(self, out: Path) -> Path:
        """The folder of the tuning, in a folder of records."""
        return run_folder(out, self.experiment.name, FOLDER, self.hash, self.seed)

    def command(self, v: float, s: float) -> str:
        """The command that runs the method with the chosen v and s."""
        command = ["sbmc", "run", self.experiment.name, "--method", self.method.name]
        if self.preset != self.experiment.default_preset:
            command += ["--preset", self.preset]
        command += ["--prior-variance", f"{v:g}", "--s", f"{s:g}"]
        for name, value in self.overrides.items():
            command += ["--set", f"{name}={value}"]
        return shlex.join(command)


def plan_tuning(
    experiment: str,
    *,
    method: str = METHOD,
    preset: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    v: Any = None,
    s: Any = None,
    folds: int = 5,
    seed: int = 0,
    examples: int | None = None,
    extensions: int = EXTENSIONS,
) -> Plan:
    """Put the settings of a tuning together and check them.

    Args:
        experiment: the experiment's name.
        method: a method that has an s, such as `s-hmc`.
        preset: the experiment's own if not given.
        overrides: settings that differ from the preset's.
        v: values of v; see `sbmc.tune`.
        s: values of s.
        folds: how many.
        seed: of everything.
        examples: how many to use.
        extensions: how often the grid of v may grow.

    Returns:
        The plan.

    Raises:
        BadInput: any of it is refused.

    Examples:
        >>> plan_tuning("digits", v=[0.1, 1.0]).command(1.0, 0.1)
        'sbmc run digits --method s-hmc --prior-variance 1 --s 0.1'
    """
    study = get_experiment(experiment)
    (chosen,) = get_methods([method])
    rule = "a sampler's method that has an s to choose and one anchor, such as s-hmc"
    good = chosen.sampler is not None and "s" not in chosen.fixed and chosen.grows
    require(good, "method", rule, method)
    given = dict(overrides or {})
    for name in ("s", "prior_variance", "factor_variance", "split"):
        rule = "left out: tuning chooses v and s"
        require(name not in given, name, rule, given.get(name))
    preset = preset or study.default_preset
    settings = resolve(study, chosen, preset, given)
    rule = "prior or anchor: there is no ensemble on every fold"
    require(settings["start"] in ("prior", "anchor"), "start", rule, settings["start"])
    rule = "left out: the anchor on every fold is the MAP"
    require(settings.get("anchor") in (None, "map"), "anchor", rule, settings.get("anchor"))
    check_folds(folds)
    return Plan(
        study,
        chosen,
        preset,
        given,
        settings,
        None if v is None else v_grid(v),
        None if s is None else s_grid(s),
        folds,
        seed,
        examples,
        extensions,
    )


def run_tuning(
    plan: Plan, out: Path, *, data_dir: Path | None = None, progress: bool | None = None
) -> Tuning:
    """Tune an experiment on its training and validation examples; test data are not touched.

    Args:
        plan: from `plan_tuning`.
        out: folder of the records.
        data_dir: where to look first for data.
        progress: as for `sbmc.tune`.

    Returns:
        The tuning, which is also written to the plan's folder, as `tuning.json`.

    Raises:
        BadInput: the data are missing or do not fit.
    """
    network, examples, share, about = _load(plan, data_dir)
    settings = plan.settings
    return tune(
        network,
        examples,
        v=plan.v,
        s=plan.s,
        folds=plan.folds,
        sampler=build_sampler(str(plan.method.sampler), settings),
        particles=settings["particles"],
        start=settings["start"],
        seed=plan.seed,
        validation_share=share,
        examples=plan.examples,
        extensions=plan.extensions,
        fit_options=_options(settings),
        folder=plan.folder(out),
        about={**about, "experiment": plan.experiment.name, "method": plan.method.name},
        progress=progress,
        **{name: settings[name] for name in OPTIMISER_SETTINGS},
    )


def expect_tuning(plan: Plan, data_dir: Path | None = None) -> tuple[Expectation, Expectation]:
    """Forecast what a tuning takes at most: all its trainings, and one fit.

    Args:
        plan: from `plan_tuning`.
        data_dir: where to look first for data.

    Returns:
        The forecast of the training for all v and folds, and that of one fit. The grid is taken
        as it is, without extensions.
    """
    network, data, share, _ = _load(plan, data_dir)
    examples = as_examples(data)
    if plan.examples is not None:
        rows = subset(examples.targets, plan.examples, plan.seed)
        examples = as_examples(examples.select(rows))
    fold = make_folds(examples.targets, plan.folds, plan.seed, share=share)[0]
    settings = plan.settings
    # An epoch of training is a pass in mini-batches, as those of SGLD are.
    passes = sbmc.SGLD(
        epochs=settings["max_epochs"], batch_size=settings["batch_size"], step_size=1e-3
    )
    networks = len(v_grid(plan.v)) * plan.folds
    training = sbmc.expect(
        network,
        examples.select(fold.train),
        s=1.0,
        prior_variance=1.0,
        sampler=passes,
        particles=networks,
    )
    sampling = sbmc.expect(
        network,
        examples.select(fold.seen),
        s=0.1,
        prior_variance=1.0,
        sampler=build_sampler(str(plan.method.sampler), settings),
        particles=settings["particles"],
        start=settings["start"],
        compute=sbmc.Compute(anchor_epochs=0.0),
        **_options(settings),
    )
    return training, sampling


def _options(settings: Settings) -> dict[str, Any]:
    given = prior_options(settings)
    return {"prior": Prior(**given)} if given else {}


def _load(plan: Plan, data_dir: Path | None) -> tuple[Any, Any, float, dict[str, str]]:
    """The untrained network, the examples, which part of them validates, and what they are."""
    data = load_dataset(plan.experiment.dataset, data_dir)
    examples = data.train_and_validation
    network = untrained_network(plan.settings, data)
    share = len(data.validation[1]) / len(examples[1])
    return network, examples, share, {"name": data.name, "checksum": data.checksum}
