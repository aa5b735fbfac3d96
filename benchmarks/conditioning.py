"""`python -m benchmarks.conditioning`: condition numbers of a study's targets, for a range of s.

Measured at the anchor, beside the paper's λ_max·v·s + 1, and with `--chains` also at the end of a
chain of each target. The anchor is the MAP that the study's methods are anchored at.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

import sbmc
from sbmc.checks import BadInput
from sbmc.diagnostics import Conditioning, condition_number
from sbmc_studies.experiments.context import prepare_context
from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.resources import Resources
from sbmc_studies.experiments.run_spec import RunSpec
from sbmc_studies.experiments.settings import resolve

SCALES = (0.01, 0.1, 0.25, 0.5, 1.0)
CHAIN_EPOCHS = 160  # the study's budget
QUICK_TRAINING = {"max_epochs": 1, "batch_size": 256}
HEADINGS = ("s", "where", "largest", "smallest", "condition number", "λ_max·v·s + 1", "λ_max")


def measure(
    name: str,
    scales: Sequence[float],
    *,
    chains: bool = False,
    seed: int = 0,
    data_dir: Path | None = None,
    tolerance: float = 1e-3,
    quick: bool = False,
) -> int:
    """Measure for each s, and print a row each.

    Args:
        name: of the experiment.
        scales: values of s.
        chains: measure at the end of a chain of each target too.
        seed: of training and chains.
        data_dir: where to look for data first.
        tolerance: of the eigenvalues.
        quick: settings that take no time.

    Returns:
        The epochs that the measurements took.
    """
    experiment = get_experiment(name)
    settings = resolve(experiment, get_method("map"), "paper", QUICK_TRAINING if quick else {})
    folder = None if data_dir is None else str(data_dir)
    spec = RunSpec(name, "map", settings, seed, data_dir=folder)
    context = prepare_context(spec, Resources(progress=False))
    anchor, data = context.anchor().models[0], context.data
    common = {"prior_variance": settings["prior_variance"], "seed": seed}
    whole = condition_number(anchor, data.train, s=1.0, tolerance=tolerance, **common)
    epochs = whole.epochs
    for s in scales:
        print(format_row("anchor", rescaled(whole, s)), flush=True)
        if chains:
            chain = sbmc.HMC(epochs=8 if quick else CHAIN_EPOCHS)
            options = {"sampler": chain, "particles": 1, "progress": False}
            draw = sbmc.fit(anchor, data.train, s=s, **options, **common).positions[0, 0]
            found = condition_number(
                anchor, data.train, s=s, at=draw, tolerance=tolerance, **common
            )
            epochs += found.epochs
            print(format_row("end of a chain", found), flush=True)
    return epochs


def rescaled(whole: Conditioning, s: float) -> Conditioning:
    """The same place for another s, from s = 1: the likelihood's part is proportional to s."""
    return dataclasses.replace(
        whole,
        s=s,
        largest=1 + s * (whole.largest - 1),
        smallest=1 + s * (whole.smallest - 1),
        formula=1 + s * (whole.formula - 1),
        epochs=0,
    )


def format_row(where: str, found: Conditioning) -> str:
    """One line of the table."""
    ratio = found.condition_number
    cells = (
        f"{found.s:g}",
        where,
        f"{found.largest:.4g}",
        f"{found.smallest:.4g}",
        "none: not log-concave there" if ratio is None else f"{ratio:.4g}",
        f"{found.formula:.4g}",
        f"{found.likelihood_largest:.4g}",
    )
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conditioning", description=__doc__)
    parser.add_argument("--experiment", default="mnist7", help="see `sbmc experiments`")
    parser.add_argument("--s", type=float, nargs="+", default=SCALES, help="in (0, 1]")
    parser.add_argument("--chains", action="store_true", help="also where chains end")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="of the eigenvalues")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data-dir", type=Path, help="where to look for data first")
    parser.add_argument("--threads", type=int, help="torch's threads; its own choice if not given")
    parser.add_argument("--quick", action="store_true", help="meaningless settings: for tests")
    options = parser.parse_args(arguments)
    if options.threads is not None:
        if options.threads < 1:
            parser.error(f"`threads` must be a positive integer, but got {options.threads}.")
        torch.set_num_threads(options.threads)
    print(f"| {' | '.join(HEADINGS)} |")
    print("|---:|---|" + "---:|" * (len(HEADINGS) - 2))
    try:
        epochs = measure(
            options.experiment,
            options.s,
            chains=options.chains,
            seed=options.seed,
            data_dir=options.data_dir,
            tolerance=options.tolerance,
            quick=options.quick,
        )
    except BadInput as error:
        parser.error(str(error))
    print(f"\nThe measurements took {epochs} epochs.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
