"""SWAG: a Gaussian around the average of SGD's weights (Maddox et al., 2019)."""

from __future__ import annotations

import copy
import math
import time
from collections import deque
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sbmc.baselines.batch_norm import has_running_statistics, refresh_statistics
from sbmc.baselines.result import (
    describe_parameters,
    single_network_posterior,
)
from sbmc.baselines.swa import (
    EPOCHS,
    LEARNING_RATE,
    MOMENTUM,
    WARMUP_EPOCHS,
    SWASettings,
    run_swa,
)
from sbmc.checks import is_number, require
from sbmc.likelihoods import as_likelihood
from sbmc.model.parameters import ParameterSpace, Selection, select_parameters
from sbmc.model.wrappers import unwrapped
from sbmc.posterior.posterior import Posterior
from sbmc.prediction.kinds import EitherPrediction
from sbmc.randomness import Stream, generator
from sbmc.training.module import seeded
from sbmc.training.settings import require_count
from sbmc.training.setup import TrainingData, check_variance_size, checked_data

RANK = 20
SCALE = 0.5
SWA_LEARNING_RATE = 5e-4


class SWAGMoments(NamedTuple):
    """The Gaussian: N(mean, scale·(diag(variance) + D Dᵀ/(K − 1)))."""

    mean: Tensor  # (dim,): the SWA weights
    variance: Tensor  # (dim,): of the weights at the ends of epochs
    deviations: Tensor  # (K, dim): the rows of Dᵀ, θ_t − (θ_1 + … + θ_t)/t for the last K epochs


def swag(
    model: nn.Module,
    train: Any,
    validation: Any = None,
    *,
    samples: int = 10,
    rank: int = RANK,
    scale: float = SCALE,
    prior_variance: float | Tensor = 1.0,
    likelihood: Any = "categorical",
    parameters: Selection = "all",
    seed: int = 0,
    epochs: int = EPOCHS,
    warmup_epochs: int = WARMUP_EPOCHS,
    learning_rate: float = LEARNING_RATE,
    swa_learning_rate: float = SWA_LEARNING_RATE,
    momentum: float = MOMENTUM,
    batch_size: int = 64,
    initial: str = "model",
    progress: bool | None = None,
) -> Posterior[EitherPrediction]:
    """Make the run of `train_swa` and draw from a Gaussian with the moments of its weights.

        θ = θ_SWA + √(scale) · (Σ_diag^½ z₁ + D z₂ / √(K − 1)),   z₁ ~ N(0, I), z₂ ~ N(0, I_K),

    Σ_diag the variances of the weights at the ends of epochs, D their last K deviations from the
    mean up to then; with `scale` 1/2 this is equation 1 of Maddox et al. (2019). Nothing in it
    knows the posterior: its width is that of SGD's path, and grows with `swa_learning_rate`.

    Args:
        model: the network; never changed.
        train: training data, as for `fit`.
        validation: used only for the progress display.
        samples: how many draws.
        rank: K at most; there are no more deviations than epochs after the warm-up.
        scale: factor of the covariance.
        prior_variance: variance v of the prior, a number or one per parameter `(dim,)`.
        likelihood: `"categorical"`, `Gaussian(noise_variance=...)` or a callable.
        parameters: which parameters to train; the others keep the model's values.
        seed: of the run and of the draws; draw k depends on their number in its last bits only.
        epochs: passes over the data, warm-up included.
        warmup_epochs: those before averaging begins.
        learning_rate: SGD's in the warm-up.
        swa_learning_rate: SGD's while averaging, constant.
        momentum: SGD's.
        batch_size: examples in a mini-batch.
        initial: `"model"`, `"reset"` or `"prior"`: where to start, as for `train_swa`.
        progress: None shows a bar on a terminal, True always shows progress, False never.

    Returns:
        The posterior, `(1, samples, dim)`. If the model has BatchNorm, each draw has running
        statistics of its own, from one pass over the data, and they are part of the positions.

    Raises:
        BadInput: an argument is refused; nothing has been computed then.
        RuntimeError: the loss stopped being finite.

    Examples:
        >>> inputs = torch.linspace(-1, 1, 20).reshape(10, 2)
        >>> data = (inputs, (inputs[:, 0] > 0).long())
        >>> swag(nn.Linear(2, 2), data, samples=3, epochs=5, warmup_epochs=2)
        Posterior(islands=1, particles=3, dim=6)
    """
    require_count("samples", samples)
    require_count("rank", rank)
    require(rank >= 2, "rank", "at least 2", rank)
    good = is_number(scale) and 0 < scale < math.inf
    require(good, "scale", "positive and finite", scale)
    settings = SWASettings(
        prior_variance=prior_variance,
        seed=seed,
        epochs=epochs,
        warmup_epochs=warmup_epochs,
        learning_rate=learning_rate,
        swa_learning_rate=swa_learning_rate,
        momentum=momentum,
        batch_size=batch_size,
        initial=initial,
    )
    rule = "at least 2 less than `epochs`, for a covariance"
    require(epochs - warmup_epochs >= 2, "warmup_epochs", rule, warmup_epochs)
    model = unwrapped(model)
    space = select_parameters(model, parameters)
    check_variance_size(prior_variance, space.dim)
    data = checked_data(model, space, train, validation, as_likelihood(likelihood))
    path = Collector(int(rank))
    run = run_swa(model, space, data, settings, path.add, progress)
    began = time.perf_counter()
    moments = path.moments()
    dim, rank_used = space.dim, len(moments.deviations)
    streams = [generator(seed, Stream.SWAG, sample) for sample in range(samples)]
    noise = torch.stack(
        [torch.randn(dim + rank_used, generator=g, dtype=torch.float64) for g in streams]
    )
    positions = draw(moments, noise[:, :dim], noise[:, dim:], scale)
    passes = 0
    if has_running_statistics(model, space):
        space, positions = _with_statistics(run.model, space, positions, data, settings)
        passes = 1
    return single_network_posterior(
        run.model,
        space,
        data.likelihood,
        positions,
        shared_epochs=float(run.history.epochs),
        forward_epochs=float(passes),
        seconds=time.perf_counter() - began,
        settings={
            "sampler": "swag",
            "rank": rank_used,
            "scale": float(scale),
            "parameters": describe_parameters(parameters),
            **settings.describe(),
        },
    )


class Collector:
    """First and second moments of weights that come one by one, and their last deviations.

    Args:
        rank: how many deviations are kept.

    Examples:
        >>> path = Collector(rank=2)
        >>> for weight in (0.0, 2.0, 4.0):
        ...     path.add(torch.tensor([weight]))
        >>> path.moments()
        SWAGMoments(mean=tensor([2.]), variance=tensor([2.6667]), deviations=tensor([[1.],
                [2.]]))
    """

    def __init__(self, rank: int) -> None:
        self._count = 0
        self._mean = self._squares = torch.zeros(())
        self._deviations: deque[Tensor] = deque(maxlen=rank)

    def add(self, theta: Tensor) -> None:
        """Take the weights `(dim,)` of one more epoch."""
        # float64 and centred sums (Welford): mean(θ²) − mean² would cancel where SGD moves little.
        value = theta.double()
        if not self._count:
            self._mean, self._squares = torch.zeros_like(value), torch.zeros_like(value)
            self._dtype = theta.dtype
        self._count += 1
        before = value - self._mean
        self._mean = self._mean + before / self._count
        after = value - self._mean
        self._squares = self._squares + before * after
        self._deviations.append(after.to(self._dtype))

    def moments(self) -> SWAGMoments:
        """The moments so far; the variance is that of Maddox et al., divided by the count."""
        return SWAGMoments(
            self._mean.to(self._dtype),
            (self._squares / self._count).to(self._dtype),
            torch.stack(list(self._deviations)),
        )


def draw(moments: SWAGMoments, first: Tensor, second: Tensor, scale: float) -> Tensor:
    """The formula of `swag` for given noise.

    Args:
        moments: of the weights, `dim` of them, with K deviations.
        first: z₁, `(samples, dim)`.
        second: z₂, `(samples, K)`.
        scale: factor of the covariance.

    Returns:
        The draws, `(samples, dim)`.
    """
    mean, variance, deviations = moments
    diagonal = first.to(mean) * variance.sqrt()
    low_rank = second.to(mean) @ deviations / math.sqrt(max(1, len(deviations) - 1))
    return mean + math.sqrt(scale) * (diagonal + low_rank)


def _with_statistics(
    model: nn.Module,
    space: ParameterSpace,
    positions: Tensor,
    data: TrainingData,
    settings: SWASettings,
) -> tuple[ParameterSpace, Tensor]:
    """The draws with their own running statistics as further coordinates."""
    module = copy.deepcopy(model)
    names = tuple(n for n, buffer in module.named_buffers() if buffer.is_floating_point())
    buffers = dict(module.named_buffers())
    rows = []
    for sample, position in enumerate(positions):
        space.write(position, module)
        # Dropout in front of BatchNorm is at work in the pass, too.
        with seeded(generator(settings.seed, Stream.SWAG, sample, 1), position.device):
            refresh_statistics(module, space, data.train, settings.batch_size)
        rows.append(torch.cat([position, *(buffers[n].reshape(-1).to(position) for n in names)]))
    shapes = tuple(buffers[name].shape for name in names)
    wider = replace(space, names=space.names + names, shapes=space.shapes + shapes)
    return wider, torch.stack(rows)
