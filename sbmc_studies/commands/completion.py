"""Names of the studies that the Tab key offers; see `sbmc.cli.completion`."""

from __future__ import annotations

from sbmc.cli.completion import offer
from sbmc_studies.experiments.experiment import PRESETS, experiment_names

# Studies that run in a way of their own: one has no data set, two have many, one has many methods,
# and one has two networks.
TOY, GAUNTLET, TABLES, REVIEWERS, MNIST = "toy", "gauntlet", "tables", "reviewers", "mnist"
PAPER = "paper"  # instead of an experiment: all tables and figures of the paper

BASELINES = ("map", "de", "swa", "swag", "mc-dropout", "laplace", "rms", "cold")
SAMPLERS = (
    "hmc",
    "smc",
    "sghmc",
    "sgld",
    "ubu",
    "mala",
    "pcn",
    "ghmc",
    "nuts",
    "autohmc",
    "mclmc",
)
ANCHORED = ("de-s-hmc", "de-s-smc", *(f"s-{name}" for name in SAMPLERS))
METHODS = (*BASELINES, *ANCHORED, *SAMPLERS)
FIGURES = (
    "epochs",
    "sure-unsure",
    "roc",
    "thresholds",
    "confusion",
    "risk-coverage",
    "reliability",
    "entropies",
    "spider",
    "ranks",
)
PROTOCOLS = ("paper", "clean")
FORMATS = ("text", "markdown")
EXECUTORS = ("in-process", "processes", "ray")
STARTS = ("prior", "anchor", "ensemble")
ANCHORS = ("map", "swa", "mc-dropout")
COVARIANCES = ("linear", "laplace")
WEIGHTINGS = ("evidence", "equal")

complete_runs = offer(lambda: [*experiment_names(), TOY, GAUNTLET, TABLES, REVIEWERS, MNIST])
complete_experiments = offer(experiment_names)
complete_tables = offer(lambda: [*experiment_names(), GAUNTLET, TABLES, REVIEWERS, MNIST, PAPER])
complete_figures_of = offer(lambda: [*experiment_names(), GAUNTLET])
complete_methods = offer(METHODS, several=True)
complete_presets = offer(PRESETS)
