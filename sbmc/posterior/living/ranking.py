"""Which inputs of a pool to label next: the order by a score, or a batch chosen together.

A score looks at one row alone, so that the k best may be k copies of one row. A batch is chosen one
row at a time, each given those before it. What particles predict at x deviates from their mean by
f_i(x), probabilities of classes or means of numbers. Their covariance between two rows is

    k(x, x') = Σ_i w_i f_i(x)·f_i(x').

As if labels were normal, with these covariances and noise σ²(x) besides, a label of x brings

    ½ log(1 + k_S(x, x) / σ²(x)),   k_S(x, x) = k(x, x) − k(x, S) (K_S + Σ_S)⁻¹ k(S, x),

nats of information after those of the rows S, and the row that brings most is taken next. The noise
of numbers is their aleatoric variance. For classes it is what makes the information of a single
label the mutual information I(x) of label and parameters, σ²(x) = k(x, x) / (exp(2 I(x)) − 1). So
the first row is the best one by itself. A copy of it brings little, unless labels are so noisy that
asking twice is worth it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler

from sbmc.checks import BadInput, Phrase, require, require_choice, require_count, require_flag
from sbmc.likelihoods import Custom
from sbmc.posterior.input_batches import held_inputs
from sbmc.randomness import Stream, generator, require_seed

if TYPE_CHECKING:
    from sbmc.posterior.posterior import Posterior

SCORES = ("epistemic", "bald", "total", "variation", "margin", "random")
OF_CLASSES = ("variation", "margin")
# Rows among which a batch is chosen, those of the largest scores; and numbers that they may take.
MOST_CANDIDATES, MOST_VALUES = 5_000, 2**25
# Of the largest variance: less noise than this counts as this much.
LEAST_NOISE = 1e-9


@dataclass(frozen=True, eq=False)
class Ranking:
    """Rows of a pool, the most useful first.

    Attributes:
        indices: `(k,)` rows of the pool.
        scores: `(k,)` float64: the score of each; of a batch, the nats that each adds.
        by: the name of the score.
        batch: whether they were chosen together.
    """

    indices: Tensor
    scores: Tensor
    by: str
    batch: bool

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        best = ", ".join(map(str, self.indices[:3].tolist()))
        more = ", ..." if len(self) > 3 else ""
        return (
            f"Ranking(rows={len(self)}, by={self.by!r}, batch={self.batch}, first=[{best}{more}])"
        )


def rank(
    posterior: Posterior,
    pool: Any,
    by: str = "epistemic",
    k: int | None = None,
    *,
    batch: bool = False,
    seed: int = 0,
    progress: bool | None = False,
) -> Ranking:
    """The order of a pool; see `Posterior.rank`."""
    require_choice("by", by, SCORES)
    require_count("k", k, optional=True)
    require_flag("batch", batch)
    require_seed(seed)
    loader = isinstance(pool, DataLoader)
    if loader:
        rule = "a DataLoader without shuffling, since the ranking counts its rows"
        shuffled = isinstance(pool.sampler, RandomSampler)
        require(not shuffled, "pool", rule, Phrase("one that shuffles"))
    if batch:
        require(k is not None, "k", "given for a batch", k)
        require(by == "epistemic", "by", "'epistemic' for a batch", by)
        rule = "tensors, arrays or a data set for a batch, which looks at rows twice"
        require(not loader, "pool", rule, Phrase("a DataLoader"))
    if by in OF_CLASSES:
        rule = f"one of 'epistemic', 'bald', 'total' and 'random' for numbers, not {by!r}"
        require(posterior.likelihood.classification, "by", rule, by)
    inputs = held_inputs(posterior, pool)
    values = _scores(posterior, inputs, by, seed, progress)
    finite = bool(torch.isfinite(values).all())
    rule = "inputs at which the uncertainty is finite"
    require(finite, "pool", rule, Phrase("others, which may be too large"))
    rows = len(values)
    require(k is None or k <= rows, "k", f"at most the {rows} rows of the pool", k)
    # Stable, so that rows of equal score stay in their order.
    ordered, indices = torch.sort(values, descending=True, stable=True)
    if not batch:
        return Ranking(indices[:k], ordered[:k], by, batch)
    assert k is not None  # or it was refused
    chosen, gains = _choose(posterior, inputs, indices, k)
    return Ranking(chosen, gains, by, batch)


def _scores(posterior: Posterior, inputs: Any, by: str, seed: int, progress: bool | None) -> Tensor:
    """The score of each row, `(rows,)` float64; the mean over outputs, where there are several."""
    prediction: Any = posterior.predict(inputs, progress=progress)
    if by == "random":
        rng = generator(seed, Stream.RANKING)
        return torch.rand(len(prediction), generator=rng, dtype=torch.float64)
    classes = posterior.likelihood.classification
    if by == "variation":
        values = 1 - prediction.max_probability
    elif by == "margin":
        largest = prediction.probs.topk(2, dim=-1).values
        values = -(largest[..., 0] - largest[..., 1])
    elif by == "bald" and not classes:
        # The information of a label about its mean, if the mixture were normal.
        noise = prediction.aleatoric.clamp(min=torch.finfo(torch.float64).tiny)
        values = 0.5 * torch.log1p(prediction.epistemic / noise)
    else:
        values = prediction.epistemic if by == "bald" else getattr(prediction, by)
    flat = values.detach().double().cpu()
    return flat.reshape(len(flat), -1).mean(1)


def _choose(posterior: Posterior, inputs: Any, order: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The batch: k rows of those with the largest scores, and what each adds, in nats."""
    samples = posterior.samples(inputs)
    width = len(samples.weights) * samples[:1].outputs()[0].numel()
    most = max(k, min(MOST_CANDIDATES, MOST_VALUES // width))
    candidates = order[:most]
    deviations, noise = [], []
    for outputs in samples[candidates]:
        part, floor = _moments(posterior.likelihood, outputs, samples.weights)
        deviations.append(part.cpu())
        noise.append(floor.cpu())
    chosen, gains = greedy_batch(torch.cat(deviations), torch.cat(noise), k)
    return candidates[chosen], gains


def _moments(likelihood: Any, outputs: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """√w_i f_i of each row, `(rows, values)`, and the noise of each row, `(rows,)`."""
    weights = weights.to(outputs.device)
    if likelihood.classification:
        means = likelihood.logits(outputs).double().softmax(-1)
    elif isinstance(likelihood, Custom):
        raise BadInput(
            "`batch` must be False for a likelihood that is a function, whose noise is not known, "
            "but got True."
        )
    else:
        means, variance = likelihood.moments(outputs.double())
        variance = torch.as_tensor(variance, dtype=torch.float64).expand_as(means)
    middle = torch.tensordot(weights, means, 1)
    shape = (-1,) + (1,) * (means.ndim - 1)
    deviations = (means - middle) * weights.sqrt().reshape(shape)
    rows = means.shape[1]
    flat = deviations.transpose(0, 1).reshape(rows, -1)
    if not likelihood.classification:
        return flat, torch.tensordot(weights, variance, 1).reshape(rows, -1).sum(1)
    entropies = -torch.xlogy(means, means).reshape(*means.shape[:2], -1).sum(-1)
    total = -torch.xlogy(middle, middle).reshape(rows, -1).sum(-1)
    information = (total - torch.tensordot(weights, entropies, 1)).clamp(min=0)
    # Without any information there is none to lose to noise.
    return flat, flat.square().sum(1) / torch.expm1(2 * information).clamp(min=1e-12)


def greedy_batch(deviations: Tensor, noise: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Choose rows one at a time, each that which adds most information to those before.

    Args:
        deviations: `(rows, values)` float64, whose products are the covariances between rows.
        noise: `(rows,)`, the variance of a label besides.
        k: how many, at most the rows.

    Returns:
        The rows, `(k,)`, and what each adds, in nats; of equal ones the first.

    Examples:
        >>> rows = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
        >>> greedy_batch(rows, torch.full((3,), 0.1, dtype=torch.float64), 2)[0].tolist()
        [0, 2]
    """
    left = deviations.square().sum(1)
    floor = noise.clamp(min=LEAST_NOISE * max(float((left + noise).max()), 1e-300))
    # Columns of a Cholesky factor: what the labels before have explained.
    factor = deviations.new_zeros(k, len(deviations))
    open_rows = torch.ones(len(deviations), dtype=torch.bool)
    chosen, gains = [], []
    for step in range(k):
        gain = 0.5 * torch.log1p(left.clamp(min=0) / floor)
        row = int(torch.where(open_rows, gain, -1.0).argmax())
        chosen.append(row)
        gains.append(float(gain[row]))
        open_rows[row] = False
        covariance = deviations @ deviations[row] - factor[:step].T @ factor[:step, row]
        factor[step] = covariance / (left[row].clamp(min=0) + floor[row]).sqrt()
        left = left - factor[step].square()
    return torch.tensor(chosen), torch.tensor(gains, dtype=torch.float64)
