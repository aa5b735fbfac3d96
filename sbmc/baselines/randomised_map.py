"""Randomised MAP sampling: an ensemble, each member drawn to a prior draw of its own."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from sbmc.baselines.result import describe_parameters, describe_variance
from sbmc.model.parameters import Selection
from sbmc.posterior.posterior import Posterior
from sbmc.prediction.kinds import EitherPrediction
from sbmc.training import train_ensemble
from sbmc.training.settings import check_variance, require_count


def randomised_map(
    model: nn.Module,
    train: Any,
    validation: Any = None,
    *,
    samples: int = 10,
    prior_variance: float | Tensor = 1.0,
    parameters: Selection = "all",
    seed: int = 0,
    **training: Any,
) -> Posterior[EitherPrediction]:
    """Train an anchored ensemble (Pearce et al., 2020), as a posterior.

    Member k minimises, from an independent start,

        −(1/n) Σ_i log p(y_i | x_i, θ) + ‖θ − c_k‖² / (2 v n),   c_k ~ N(0, v I).

    In a linear Gaussian model the minimiser is (XᵀX/σ² + I/v)⁻¹ (Xᵀy/σ² + c_k/v). Its mean is that
    of the posterior and its covariance S²/v, with S = (XᵀX/σ² + I/v)⁻¹: the posterior's own, S, in
    directions that the data leave free, and less where they do not. Elsewhere it is a heuristic.

    Args:
        model: the network; never changed.
        train: training data, as for `fit`.
        validation: validation data for early stopping, or None to train for `max_epochs`.
        samples: how many members to train.
        prior_variance: variance v of the prior, a number or one per parameter `(dim,)`.
        parameters: which parameters to train; the others keep the model's values.
        seed: of centres, starts and data orders.
        training: further settings of `train_ensemble`, such as `learning_rate` and `max_epochs`.

    Returns:
        The posterior, `(1, samples, dim)`; members whose training failed are not in it.

    Raises:
        BadInput: an argument is refused; nothing has been computed then.
        RuntimeError: no member's training stayed finite.

    Examples:
        >>> import torch
        >>> inputs = torch.linspace(-1, 1, 20).reshape(10, 2)
        >>> data = (inputs, (inputs[:, 0] > 0).long())
        >>> randomised_map(nn.Linear(2, 2), data, samples=3, max_epochs=2)
        Posterior(islands=1, particles=3, dim=6)
    """
    require_count("samples", samples)
    check_variance(prior_variance)
    ensemble = train_ensemble(
        model,
        train,
        validation,
        members=samples,
        prior_variance=prior_variance,
        parameters=parameters,
        seed=seed,
        anchored=True,
        **training,
    )
    posterior = ensemble.posterior()
    posterior.settings |= {
        "sampler": "randomised_map",
        "prior_variance": describe_variance(prior_variance),
        "parameters": describe_parameters(parameters),
        "seed": int(seed),
    }
    return posterior
