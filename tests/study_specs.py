"""Specs of the studies' runs, as tests make them."""

from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.run_spec import RunSpec
from sbmc_studies.experiments.settings import resolve


def make_spec(experiment, method, overrides, seed=0, **fields):
    """A run with the paper's preset and some other settings."""
    settings = resolve(get_experiment(experiment), get_method(method), "paper", overrides)
    return RunSpec(experiment, method, settings, seed, **fields)
