"""How the networks of the study are made: scaling, rows set aside, architecture, training.

Scaling, initial weights, likelihood and seed are those of `SBMCRegressor` and `SBMCClassifier`. The
network alone, the ensemble and what starts from them are trained to their end, which rows set aside
find: by the estimators' rule for classes, and with the same share for numbers, of which the
regressor sets none aside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from torch import Tensor, nn
from torch.distributions import Normal

import sbmc
from sbmc.checks import Phrase, require
from sbmc.estimators import defaults
from sbmc.estimators.network import make_network
from sbmc.estimators.splitting import set_rows_aside
from sbmc.likelihoods import Likelihood, as_likelihood
from sbmc.posterior.posterior import Posterior
from sbmc.prediction.predictive import PredictiveMixture
from sbmc_studies.tables.data import Split

# Training ends when the loss on the rows set aside, averaged over a window, no longer falls.
TO_THE_END: dict[str, Any] = {"max_epochs": 2_000, "window": 20, "patience": 100}


@dataclass(frozen=True)
class Prepared:
    """A split as networks take it.

    Attributes:
        split: the rows in their own units.
        seed: of networks and data orders, drawn from the split's number as the estimators do it.
        input_scaler: of the columns, by all training rows.
        target_scaler: of numbers; None for classes.
        train: rows to train on, scaled, `(rows, features)` and `(rows,)`.
        aside: rows set aside, likewise: they say when to stop and choose whatever is chosen.
        train_rows: which rows of the split's training part are trained on.
        aside_rows: which are set aside.
    """

    split: Split
    seed: int
    input_scaler: StandardScaler
    target_scaler: StandardScaler | None
    train: tuple[Tensor, Tensor]
    aside: tuple[Tensor, Tensor]
    train_rows: np.ndarray
    aside_rows: np.ndarray

    @property
    def likelihood(self) -> Likelihood:
        """Of the scaled targets: that of the estimators, unless the protocol prescribes one."""
        if self.split.is_classification:
            return as_likelihood("categorical")
        return as_likelihood(self.split.table_set.likelihood or defaults.LIKELIHOOD)

    @property
    def outputs(self) -> int:
        """Of a network for this likelihood."""
        if self.split.is_classification:
            return self.split.classes
        return 2 if getattr(self.likelihood, "noise", None) == "network" else 1

    @property
    def hidden_layers(self) -> tuple[int, ...]:
        """Those of the estimators, unless the protocol prescribes them."""
        if self.split.is_classification:
            return self.split.table_set.hidden or defaults.HIDDEN_LAYERS
        return self.split.table_set.hidden or defaults.NUMBERS_HIDDEN_LAYERS

    @property
    def training(self) -> dict[str, Any]:
        """Optimiser and batches of the classifier, to the end; options of `sbmc.train_map`."""
        return defaults.training_options(len(self.train_rows), stopped=True) | TO_THE_END

    def raw(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Training rows in their own units, for methods that need no scaling."""
        return self.split.train_inputs[rows], self.split.train_targets[rows]

    def scaled_inputs(self, inputs: np.ndarray) -> Tensor:
        """Inputs as networks take them."""
        return torch.tensor(self.input_scaler.transform(inputs), dtype=torch.float32)

    def mixture(self, means: Tensor, scales: Tensor, weights: Tensor) -> PredictiveMixture:
        """Normal distributions `(particles, rows)` of scaled targets, in the targets' own units."""
        assert self.target_scaler is not None
        centre, unit = self.target_scaler.mean_.item(), self.target_scaler.scale_.item()
        return PredictiveMixture(
            Normal(means.double() * unit + centre, scales.double() * unit), weights
        )


def prepare(split: Split) -> Prepared:
    """Scale a split and set rows aside.

    Args:
        split: of a set; its number is the seed.

    Returns:
        What networks are trained on.

    Raises:
        BadInput: there are too few rows to set any aside.
    """
    rng = check_random_state(split.number)
    seed = int(rng.randint(2**31 - 1))
    input_scaler = StandardScaler().fit(split.train_inputs)
    inputs = torch.tensor(input_scaler.transform(split.train_inputs), dtype=torch.float32)
    if split.is_classification:
        target_scaler, labels = None, split.train_targets
        targets = torch.tensor(split.train_targets)
    else:
        column = split.train_targets.reshape(-1, 1)
        target_scaler, labels = StandardScaler().fit(column), np.zeros(len(column), dtype=int)
        targets = torch.tensor(target_scaler.transform(column)[:, 0], dtype=torch.float32)
    rows = set_rows_aside(inputs.numpy(), labels, defaults.VALIDATION_FRACTION, rng)
    few = Phrase(f"{len(inputs)} training rows")
    require(rows.validation is not None, "split", "large enough to set rows aside", few)
    return Prepared(
        split,
        seed,
        input_scaler,
        target_scaler,
        (inputs[rows.training], targets[rows.training]),
        (inputs[rows.validation], targets[rows.validation]),
        rows.training,
        np.asarray(rows.validation),
    )


def fresh_network(prepared: Prepared, outputs: int | None = None, member: int = 0) -> nn.Module:
    """A member's network before training.

    Args:
        prepared: the split.
        outputs: how many; as the likelihood wants them if None.
        member: its number; the first has the weights that the estimators start at.

    Returns:
        The network.
    """
    return make_network(
        None,
        prepared.hidden_layers,
        prepared.train[0],
        outputs or prepared.outputs,
        prepared.seed + member,
    )


def train_members(
    prepared: Prepared,
    members: int,
    likelihood: Likelihood | None = None,
    outputs: int | None = None,
) -> sbmc.Ensemble:
    """Train networks from independent starts, each until its loss on the rows set aside is lowest.

    Args:
        prepared: the split.
        members: how many; the first ones are the same whatever their number.
        likelihood: the split's own if None.
        outputs: of the networks, likewise.

    Returns:
        The trained members.
    """
    networks = [fresh_network(prepared, outputs, member) for member in range(members)]
    return sbmc.train_ensemble(
        networks[0],
        prepared.train,
        prepared.aside,
        members=members,
        initial=networks,
        likelihood=likelihood or prepared.likelihood,
        seed=prepared.seed,
        progress=False,
        **prepared.training,
    )


def train_on_all_rows(prepared: Prepared, members: int) -> sbmc.Ensemble:
    """Train networks as the regressor trains its own: on all rows, for a fixed time.

    Args:
        prepared: the split, of numbers.
        members: how many.

    Returns:
        The trained members.
    """
    networks = [fresh_network(prepared, member=member) for member in range(members)]
    inputs, targets = (
        torch.cat(parts) for parts in zip(prepared.train, prepared.aside, strict=True)
    )
    return sbmc.train_ensemble(
        networks[0],
        (inputs, targets),
        members=members,
        initial=networks,
        likelihood=prepared.likelihood,
        seed=prepared.seed,
        progress=False,
        **defaults.training_to_the_end(len(inputs)),
    )


def predict_posterior(
    posterior: Posterior, prepared: Prepared, inputs: np.ndarray
) -> PredictiveMixture | Tensor:
    """What a posterior over networks of this study predicts, in the targets' own units.

    Args:
        posterior: over networks that take scaled inputs.
        prepared: the split.
        inputs: `(rows, features)` in their own units.

    Returns:
        A mixture of normal distributions; for classes, probabilities `(rows, classes)`.
    """
    samples = posterior.samples(prepared.scaled_inputs(inputs))
    outputs = samples.outputs().double()
    if prepared.split.is_classification:
        return torch.tensordot(samples.weights, outputs.softmax(-1), 1)
    components: Any = samples.likelihood.distribution(outputs).base_dist  # type: ignore[attr-defined]
    return prepared.mixture(
        components.loc.squeeze(-1), components.scale.squeeze(-1), samples.weights
    )
