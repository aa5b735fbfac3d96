"""Does a warning mean something? Runs repeated with chains ten times as long, and compared.

The verdict on a run is made from the run itself. This check is independent of it: every posterior
that the run mixes is sampled again by chains that are ten times as long, from the anchor and with
other noise. Then the predictions of both mixtures are compared, with the same weights, by a
permutation test. If short and long chains have the same distribution, and chains are independent of
each other, all ways of dealing the particles of a posterior out to the two runs are equally likely.
So the test has its level whatever the posteriors are: a run fails if the total variation between
the two predictions, averaged over test rows, is larger than Monte Carlo error of so many particles
explains. Of runs that are as good as their long repetitions, one in a hundred fails.

The criterion is about predictions, which are what a run is for. The mean log likelihood of the
training rows is recorded for each posterior, and does not decide: on development pairs it tells
short chains from long ones in posteriors whose predictions agree.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

import sbmc
from sbmc.fitting.forecast import seconds_per_epoch
from sbmc.fitting.mixture_plan import plan_mixture
from sbmc.fitting.request import FitRequest
from sbmc.fitting.single_fits import single_fits
from sbmc.posterior.posterior import Posterior
from sbmc.randomness import Stream, generator
from sbmc_studies.gauntlet.fitted import ROWS_AT_ONCE, PairRun, default_arguments

LONGER = 10
LEVEL = 0.01
PERMUTATIONS = 1_999
# Of the test rows, which are enough for a mean over rows.
MOST_ROWS = 1_000
# Runs that were ok and are checked beside those that were warned of, however few these are.
FEWEST_OK = 4
# The noise of the long chains has seeds far from those of any run.
LONG_SEED = 100_000
# By which a prediction may differ from the one put together from its parts, by rounding.
TOLERANCE = 1e-3


class Groups(NamedTuple):
    """Values of the particles of one posterior, from short and from long chains.

    Attributes:
        weight: of the posterior in the mixture.
        short: `(particles, rows, K)`.
        long: likewise; the number of particles may differ.
    """

    weight: float
    short: Tensor
    long: Tensor


def check_run(run: PairRun, method: str) -> dict[str, Any]:
    """Repeat what a run of our defaults sampled with longer chains, and compare.

    Args:
        run: the pair, its data and its seed.
        method: `"sbmc"` or `"sbmc-no-validation"`.

    Returns:
        Plain values: `ok`, the verdict on the run; `distance` and `p` of the test; `fails`; and
        `posteriors`, what was found for each that has a weight.

    Raises:
        RuntimeError: the posteriors, sampled one by one, are not those that the run mixes.
    """
    began = time.perf_counter()
    arguments = default_arguments(run, method)
    whole = _fit(arguments)
    rng = generator(run.seed, Stream.SPLIT, LONG_SEED)
    rows = torch.randperm(len(run.data.test[1]), generator=rng)[:MOST_ROWS]
    inputs = run.data.test[0][rows]
    groups, posteriors, expected = [], [], torch.zeros(1)
    for weight, request in _weighted_requests(whole, arguments):
        short = _sample(request)
        expected = expected + weight * _probabilities(short, inputs).mean(0)
        if request.s == 0:  # networks, which are not sampled
            continue
        long = _sample(_longer(request))
        predictions = Groups(weight, _probabilities(short, inputs), _probabilities(long, inputs))
        likelihoods = Groups(
            1.0, _log_likelihoods(short, run.data.train), _log_likelihoods(long, run.data.train)
        )
        groups.append(predictions)
        posteriors.append(
            {
                "s": float(request.s),  # type: ignore[arg-type]
                "weight": weight,
                "health": short.health.as_dict(),
                "longer_ok": long.health.ok,
                "log_likelihood": permutation_test([likelihoods], rng)._asdict(),
                "predictions": permutation_test([predictions._replace(weight=1.0)], rng)._asdict(),
            }
        )
    _require_equal(whole, expected, inputs)
    found = permutation_test(groups, rng)
    return {
        "ok": whole.health.ok is not False,
        **found._asdict(),
        "fails": found.p <= LEVEL,
        "posteriors": posteriors,
        "measured_seconds": time.perf_counter() - began,
    }


def _weighted_requests(
    whole: Posterior, arguments: Mapping[str, Any]
) -> list[tuple[float, FitRequest]]:
    """The single fits that a run mixes, with their weights; those without a weight are left out."""
    fits = single_fits(FitRequest(**arguments), seconds_per_epoch)
    if whole.mixture is None or fits.unseen is None:
        return [(1.0, fits.requests[0])]
    plan = plan_mixture(fits.requests, fits.unseen, fits.training)
    weights = {member.name: member.weight for member in whole.mixture.members}
    pairs = [(weights.get(name, 0.0), request) for name, request in plan.members]
    return [(weight, request) for weight, request in pairs if weight > 0]


def _longer(request: FitRequest) -> FitRequest:
    sampler: Any = request.sampler
    sampler = dataclasses.replace(sampler, epochs=LONGER * sampler.epochs)
    return dataclasses.replace(request, sampler=sampler, seed=LONG_SEED + request.seed)


def _sample(request: FitRequest) -> Posterior:
    arguments = {each.name: getattr(request, each.name) for each in dataclasses.fields(request)}
    # What is sampled is settled, and nothing is left to choose on unseen rows.
    return _fit(arguments | {"validation": None})


def _fit(arguments: Mapping[str, Any]) -> Posterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sbmc.HealthWarning)
        return sbmc.fit(**arguments)


def _require_equal(whole: Posterior, expected: Tensor, inputs: Tensor) -> None:
    """Refuse to go on if the prediction is not the one that its parts make."""
    off = float((whole.predict(inputs).probs - expected).abs().max())
    if off > TOLERANCE:
        raise RuntimeError(
            f"The posteriors that were sampled one by one are not those of the run: predictions "
            f"differ by {off:.3g}. `check_run` has to follow what `sbmc.fit` does."
        )


class PermutationTest(NamedTuple):
    """How far two predictions are apart, and how probable as much is by chance."""

    distance: float
    p: float


def permutation_test(
    groups: Sequence[Groups], rng: torch.Generator, permutations: int = PERMUTATIONS
) -> PermutationTest:
    """Compare weighted sums of means over particles, of short and of long chains.

    The distance is half the sum over the last axis of Σ_k w_k (mean short_k − mean long_k) in
    absolute value, averaged over rows; for probabilities it is the total variation. A permutation
    deals the particles of each posterior out anew.

    Args:
        groups: of the posteriors.
        rng: draws the permutations.
        permutations: how many.

    Returns:
        The distance, and p = (1 + permutations that are as far apart) / (1 + permutations).

    Examples:
        >>> rng = torch.Generator().manual_seed(0)
        >>> groups = [Groups(1.0, torch.zeros(5, 1, 2), torch.ones(5, 1, 2))]
        >>> found = permutation_test(groups, rng, permutations=99)
        >>> round(found.distance, 6), found.p < 0.05
        (1.0, True)
    """
    values, contrasts = [], []
    for weight, short, long in groups:
        both = torch.cat([short, long]).double()
        # Differences of means do not depend on a common shift, and are more precise without one.
        values.append((both - both.mean(0)).flatten(1))
        shape = 1 + permutations, len(both)
        contrast = torch.full(shape, -weight / len(long), dtype=torch.float64)
        contrast[0, : len(short)] = weight / len(short)
        for row in contrast[1:]:
            row[torch.randperm(len(both), generator=rng)[: len(short)]] = weight / len(short)
        contrasts.append(contrast)
    together, rows = torch.cat(values), groups[0].short.shape[1]
    distances = torch.cat(
        [(part @ together).abs().sum(1) / (2 * rows) for part in torch.cat(contrasts, 1).split(100)]
    )
    # Equal but for rounding counts as equal.
    as_far = int((distances[1:] >= distances[0] * (1 - 1e-9)).sum())
    return PermutationTest(float(distances[0]), (1 + as_far) / (1 + permutations))


def _log_likelihoods(posterior: Posterior, rows: tuple[Tensor, Tensor]) -> Tensor:
    """Mean log likelihood of the training rows at each particle, `(particles, 1, 1)`."""
    log_probabilities = _probabilities(posterior, rows[0]).clamp(min=1e-30).log()
    index = rows[1].expand(len(log_probabilities), -1).unsqueeze(-1)
    return log_probabilities.gather(-1, index).mean(1, keepdim=True)


def _probabilities(posterior: Posterior, inputs: Tensor) -> Tensor:
    """Predictive probabilities of each particle, `(particles, rows, classes)`."""
    theta = posterior.positions.flatten(0, 1)
    parts = [posterior.outputs(theta, part).softmax(-1) for part in inputs.split(ROWS_AT_ONCE)]
    return torch.cat(parts, 1)


def choose_runs(records: Sequence[Mapping[str, Any]], method: str) -> list[tuple[str, int]]:
    """Pair and seed of the recorded runs to check: all that were warned of, and as many others.

    Args:
        records: of one part.
        method: whose verdicts count.

    Returns:
        Those that were warned of, then those that were ok, of as many pairs as there are; at least
        `FEWEST_OK` of them, if there are so many.
    """
    verdicts: dict[bool, list[tuple[str, int]]] = {True: [], False: []}
    for record in sorted(records, key=lambda each: each["seed"]):
        health = record["methods"].get(method, {}).get("about", {}).get("health")
        if health is not None:
            verdicts[health["ok"] is not False].append((record["pair"], record["seed"]))
    most = max(len(verdicts[False]), FEWEST_OK)
    return verdicts[False] + verdicts[True][:most]
