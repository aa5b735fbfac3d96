"""`posterior.thin`: the few particles whose mixture predicts most like that of all of them.

Each particle i is described by what it predicts at some inputs, a vector a_i with the difference to
the mixture's prediction: of classes its probabilities, divided by the roots of the mixture's (so
that squares add up to about twice a KL divergence), and its entropy; of numbers its mean, its
squared distance from the mixture's mean and its noise. With weights v that sum to 1, ‖Σ_i v_i a_i‖²
is how far the mixture moves: zero for the weights of the posterior, and its aleatoric and epistemic
parts are kept as the mean is. Particles are chosen one at a time, each where it brings this number
down most (Frank-Wolfe with line search); the weights of the chosen are fitted anew, which is a
problem of non-negative least squares; and in the end single ones are exchanged while that helps.
Where there are few choices, all of them are tried.
Only the products a_i·a_j are needed, so the predictions are never held together.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, require, require_count
from sbmc.islands.island import IslandReport
from sbmc.likelihoods import Custom
from sbmc.log import logger
from sbmc.model.data import as_examples
from sbmc.posterior.input_batches import weighted_particles

if TYPE_CHECKING:
    from sbmc.posterior.posterior import Posterior

# Relative to the largest product: below this a mixture has not moved but for rounding.
ROUNDING = 1e-12
# An exchange has to bring the loss down by this part of it.
LEAST_GAIN = 1e-9
# Where there are so few choices, all of them are tried.
FEW_CHOICES = 500
# Exchanges that are tried, at most; each fits weights anew.
MOST_TRIALS = 5_000
# Changes of probabilities below this one count as if it were this one.
LEAST_PROBABILITY = 1e-4
# Settings of a run that the chosen particles no longer have.
GONE = ("identity", "mixture", "anchors")


class Choice(NamedTuple):
    """Particles and their new weights."""

    rows: np.ndarray  # (chosen,), their numbers
    weights: np.ndarray  # (chosen,), positive, of sum 1
    loss: float  # ‖Σ v_i a_i‖²


def thin(posterior: Posterior, k: int, inputs: Any = None) -> Posterior:
    """The posterior of at most k particles; see `Posterior.thin`."""
    particles = weighted_particles(posterior)
    total = len(particles.weights)
    require_count("k", k)
    products, rows = _products(posterior, _inputs(posterior, inputs))
    if k >= total:
        choice = Choice(np.arange(total), particles.weights.double().numpy(), 0.0)
    else:
        choice = choose(products, k)
    index = torch.from_numpy(choice.rows)
    if particles.chosen is not None:
        index = particles.chosen.cpu()[index]
    moved = (max(choice.loss, 0.0) / rows) ** 0.5
    logger.info(
        "thinned %d particles to %d: %s bytes instead of %s; predictions move by %.4g",
        total,
        len(index),
        f"{len(index) * posterior.positions[0, 0].nbytes:,}",
        f"{posterior.positions.nbytes:,}",
        moved,
    )
    return _of(posterior, index, torch.from_numpy(choice.weights), moved)


def choose(products: np.ndarray, k: int) -> Choice:
    """Choose k vectors whose hull comes nearest to the origin.

    Args:
        products: a_i·a_j of all vectors, `(vectors, vectors)`.
        k: how many, at most; fewer where they leave nothing to gain.

    Returns:
        The vectors, with the weights of the point of their hull that is nearest.

    Examples:
        >>> vectors = np.array([[-1.0], [3.0], [50.0]])
        >>> choice = choose(vectors @ vectors.T, 2)
        >>> choice.rows.tolist(), choice.weights.round(6).tolist()
        ([0, 1], [0.75, 0.25])
    """
    count = len(products)
    if math.comb(count, k) <= FEW_CHOICES:
        every = (np.array(each) for each in itertools.combinations(range(count), k))
        return min((_fitted(products, each) for each in every), key=lambda each: each.loss)
    nothing = ROUNDING * float(np.abs(np.diag(products)).max())
    best = _fitted(products, np.array([int(np.diag(products).argmin())]))
    trials = MOST_TRIALS
    while best.loss > nothing:
        if len(best.rows) < k:
            added = _best_addition(products, best)
            if added is not None:
                best = _fitted(products, np.append(best.rows, added))
                continue
        # Vectors without weight are left out of a better choice, which then has room for others.
        better, trials = _exchanged(products, best, trials)
        if better is None:
            break
        best = better
    return best


def _best_addition(products: np.ndarray, now: Choice) -> int | None:
    """The vector towards which the nearest point comes nearest; None if none brings it nearer."""
    with_point = products[:, now.rows] @ now.weights
    descent = now.loss - with_point  # r·(r − a_j)
    distance = now.loss - 2 * with_point + np.diag(products)
    possible = (descent > 0) & (distance > 0)
    possible[now.rows] = False
    if not possible.any():
        return None
    # Beyond a_j itself the line leaves the hull.
    step = np.where(possible, np.clip(descent / np.where(possible, distance, 1), 0, 1), 0)
    gain = np.where(possible, 2 * step * descent - step**2 * distance, -np.inf)
    return int(gain.argmax())


def _exchanged(products: np.ndarray, best: Choice, trials: int) -> tuple[Choice | None, int]:
    """The best exchange of one vector for another.

    Args:
        products: of all vectors.
        best: the vectors that are chosen now.
        trials: exchanges that may still be tried.

    Returns:
        The better choice, or None if there is none; and how many trials are left.
    """
    others = np.setdiff1d(np.arange(len(products)), best.rows)
    pairs = [(position, other) for position in range(len(best.rows)) for other in others]
    found = None
    least = best.loss * (1 - LEAST_GAIN)
    for position, other in pairs[:trials]:
        tried = best.rows.copy()
        tried[position] = other
        candidate = _fitted(products, tried)
        if candidate.loss < least:
            found, least = candidate, candidate.loss
    return found, max(0, trials - len(pairs))


def _fitted(products: np.ndarray, index: np.ndarray) -> Choice:
    """The point of the hull of some vectors that is nearest to the origin.

    It is u / Σu, where u ≥ 0 minimises ‖Σ u_i a_i‖² + (Σ u_i − 1)² (Lawson and Hanson, 1974).
    Vectors without weight are left out.
    """
    from scipy.optimize import nnls

    some = products[np.ix_(index, index)]
    values, directions = np.linalg.eigh(some)
    # The unit of the sum is arbitrary; the vectors' own keeps both terms comparable.
    unit = max(float(np.abs(values).max()), 1e-300) ** 0.5
    root = np.sqrt(values.clip(min=0.0))[:, None] * directions.T
    system = np.vstack([root, np.full((1, len(index)), unit)])
    target = np.zeros(len(system))
    target[-1] = unit
    raw, _ = nnls(system, target, maxiter=30 * len(index) + 100)
    weights = raw / raw.sum()
    kept = weights > 0
    weights, index = weights[kept], index[kept]
    order = index.argsort()
    weights, index = weights[order], index[order]
    return Choice(index, weights, float(weights @ products[np.ix_(index, index)] @ weights))


def _inputs(posterior: Posterior, inputs: Any) -> Any:
    if inputs is not None:
        return inputs
    if posterior.training_data is None:
        raise BadInput(
            "`x` must be given for a posterior that does not know its training data, such as one "
            "from a file, but got None. Give the inputs at which predictions are to stay as they "
            "are: posterior.thin(k, x)."
        )
    return as_examples(posterior.training_data).inputs


def _products(posterior: Posterior, inputs: Any) -> tuple[np.ndarray, int]:
    """The products a_i·a_j of all weighted particles, summed over the inputs; and how many."""
    samples = posterior.samples(inputs)
    weights = samples.weights
    products = torch.zeros(len(weights), len(weights), dtype=torch.float64)
    for outputs in samples:
        for part in _described(posterior.likelihood, outputs, weights):
            centred = part - torch.tensordot(weights.to(part), part, 1)
            flat = centred.flatten(1)
            products += (flat @ flat.T).cpu()
    finite = bool(torch.isfinite(products).all())
    rule = "inputs at which every particle predicts finite numbers"
    require(finite, "x", rule, Phrase("others, which may be too large"))
    return products.numpy(), len(samples)


def _described(likelihood: Any, outputs: Tensor, weights: Tensor) -> Iterator[Tensor]:
    """What particles predict, each part `(particles, examples, ...)`, in comparable units."""
    weights = weights.to(outputs.device)
    if likelihood.classification:
        log_probs = likelihood.logits(outputs).double().log_softmax(-1)
        probs = log_probs.exp()
        mixed = torch.tensordot(weights, probs, 1)
        yield probs / mixed.clamp(min=LEAST_PROBABILITY).sqrt()
        yield -(probs * log_probs.clamp(min=-1e4)).sum(-1)
        return
    if isinstance(likelihood, Custom):
        moments = outputs.double(), torch.zeros_like(outputs[:1], dtype=torch.float64)
    else:
        moments = likelihood.moments(outputs.double())
    means, noise = moments[0].double(), torch.as_tensor(moments[1], dtype=torch.float64)
    noise = noise.expand_as(means)
    middle = torch.tensordot(weights, means, 1)
    squares = (means - middle).square()
    total = torch.tensordot(weights, squares + noise, 1).clamp(min=1e-300)
    yield (means - middle) / total.sqrt()
    yield squares / total
    yield noise / total


def _of(posterior: Posterior, index: Tensor, weights: Tensor, moved: float) -> Posterior:
    """A posterior of one island with the chosen particles."""
    islands, particles = posterior.positions.shape[:2]
    smaller = copy.copy(posterior)
    flat = posterior.positions.flatten(0, 1)
    smaller.positions = flat[index.to(flat.device)].unsqueeze(0).clone()
    smaller.within = weights.double().unsqueeze(0)
    smaller.weights = smaller.within.clone()
    smaller.weighting = "equal"
    smaller.log_evidence = torch.zeros(1, dtype=torch.float64)
    smaller.islands = [_joint_report(posterior.islands)]
    # It is no part of a run that could be merged with others, and no mixture of islands.
    kept = {key: value for key, value in posterior.settings.items() if key not in GONE}
    smaller.settings = {
        **kept,
        "islands": 1,
        "particles": len(index),
        "island_weights": "equal",
        "thinned": {
            "islands": islands,
            "particles": particles,
            "chosen": [[i // particles, i % particles] for i in index.tolist()],
            "moved": moved,
        },
    }
    smaller.training_data = posterior.training_data
    smaller.priors = None
    smaller.fitted_confidence = None  # it has learned the features of all particles
    smaller._origin = None
    return smaller


def _joint_report(reports: Sequence[IslandReport]) -> IslandReport:
    """One report of the run that the particles come from, so that their health is that run's."""
    done = [report for report in reports if report.outcome == "completed"]

    def known(name: str) -> list[Any]:
        return [value for r in done if (value := getattr(r, name)) is not None]

    def mean(name: str) -> float | None:
        return sum(known(name)) / len(known(name)) if known(name) else None

    return IslandReport(
        0,
        "completed",
        epochs=mean("epochs") or 0.0,
        forward_epochs=mean("forward_epochs") or 0.0,
        acceptance=mean("acceptance"),
        step_size=min(known("step_size"), default=None),
        steps=max(known("steps")),
        non_finite=sum(known("non_finite")),
        collapsed=next(filter(None, known("collapsed")), ""),
        relaxing=next(filter(None, known("relaxing")), ""),
        restarted=sum(known("restarted")) if known("restarted") else None,
        settling=max(known("settling"), default=None),
        settled=all(known("settled")) if known("settled") else None,
        moves=min(known("moves"), default=None),
        particle_acceptance=[value for r in done for value in r.particle_acceptance],
        displacement=[value for r in done for value in r.displacement],
        returned=sum(known("returned")) if known("returned") else None,
        distinct=sum(known("distinct")) if known("distinct") else None,
        seconds=sum(known("seconds")),
    )
