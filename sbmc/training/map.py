"""The maximum of the posterior: an ensemble of one."""

from __future__ import annotations

from typing import Any

from torch import nn

from sbmc.model.data import as_examples
from sbmc.model.parameters import Selection
from sbmc.model.unseen_rows import remember_unseen_rows
from sbmc.prior.original import PriorVariance
from sbmc.training.ensemble import train_ensemble


def train_map(
    model: nn.Module,
    train: Any,
    validation: Any = None,
    *,
    prior_variance: PriorVariance = "auto",
    likelihood: Any = None,
    weights: Any = None,
    parameters: Selection = "all",
    seed: int = 0,
    learning_rate: float = 1e-3,
    batch_size: int = 64,
    max_epochs: int | None = None,
    window: int = 10,
    patience: int = 5,
    initial: str = "model",
    path: str = "auto",
    memory_limit: int | str | None = None,
    progress: bool | None = None,
) -> nn.Module:
    """Train a model to the maximum of its posterior (MAP), stopping early on validation data.

    Minimises −(1/n) Σ_i log p(y_i | x_i, θ) + ‖θ − c‖² / (2 v n) as `train_ensemble` does, of which
    this is member 0 for the same `initial`; the settings are explained there.

    Args:
        model: the network; never changed.
        train: training data, as for `fit`.
        validation: validation data, or None to train for `max_epochs` and keep the last weights.
        prior_variance: the prior, `"auto"` by default, as for `train_ensemble`.
        likelihood: as for `fit`; None infers it. Learned noise is trained with the weights.
        weights: of the rows of `train`, as for `fit`.
        parameters: which parameters to train; the others keep the model's values.
        seed: of the initial weights and the data order.
        learning_rate: Adam's.
        batch_size: examples in a mini-batch.
        max_epochs: passes over the data at most; needed without validation data.
        window: epochs in the moving average of the validation loss.
        patience: epochs without a lower average before stopping.
        initial: where to start: at the model's own weights (`"model"`), at weights that its layers
            draw anew (`"reset"`), or at a draw from the prior (`"prior"`).
        path: how to evaluate the model.
        memory_limit: of this process, as for `train_ensemble`.
        progress: None shows a bar on a terminal, True always shows progress, False never.

    Returns:
        A trained copy of the model, in evaluation mode, with its `TrainingHistory` as `.history`.
        `fit` finds the validation rows of this very copy, to choose s on them.

    Raises:
        BadInput: an argument is refused; nothing has been computed then.
        RuntimeError: the loss stopped being finite.

    Examples:
        >>> import torch
        >>> inputs = torch.linspace(-1, 1, 20).reshape(10, 2)
        >>> data = (inputs, (inputs[:, 0] > 0).long())
        >>> trained = train_map(nn.Linear(2, 2), data, max_epochs=3)
        >>> trained.history.epochs
        3
    """
    ensemble = train_ensemble(
        model,
        train,
        validation,
        members=1,
        prior_variance=prior_variance,
        likelihood=likelihood,
        weights=weights,
        parameters=parameters,
        seed=seed,
        learning_rate=learning_rate,
        batch_size=batch_size,
        max_epochs=max_epochs,
        window=window,
        patience=patience,
        initial=initial,
        path=path,
        memory_limit=memory_limit,
        progress=progress,
    )
    trained = ensemble[0]
    trained.history = ensemble.histories[0]  # type: ignore[assignment]
    if validation is not None:
        remember_unseen_rows(trained, as_examples(validation, "validation"))
    return trained
