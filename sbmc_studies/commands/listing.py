"""`sbmc experiments` and `sbmc methods`: what there is, a line each."""

from __future__ import annotations

import typer

from sbmc_studies.commands.completion import GAUNTLET, MNIST, REVIEWERS, TABLES, TOY
from sbmc_studies.commands.loading import load_work
from sbmc_studies.experiments.experiment import experiment_names, get_experiment


def experiments_command() -> None:
    """List the experiments, a line each."""
    lines = {name: get_experiment(name).title for name in experiment_names()}
    lines[TOY] = "two modes in one dimension: what s and a cold posterior do to long chains"
    lines[GAUNTLET] = "21 networks that nobody tuned for: fit without a knob beside other methods"
    lines[TABLES] = "sets of the UCI repository: the estimators beside other methods"
    lines[REVIEWERS] = "digits: anchored prior or start, length, samplers, anchors, bias of s"
    lines[MNIST] = "LeNet-5 on all of MNIST and a ResNet: fit without a knob beside other methods"
    width = max(map(len, lines))
    for name, line in lines.items():
        typer.echo(f"{name:{width}}  {line}")


def methods_command() -> None:
    """List the methods, a line each, with their cost in epochs."""
    load_work().show.show_methods()
