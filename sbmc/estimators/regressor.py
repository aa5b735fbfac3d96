"""`sbmc.SBMCRegressor`: numbers for the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import validate_data
from torch import nn

from sbmc.checks import Phrase, require, require_choice
from sbmc.estimators import defaults
from sbmc.estimators.base import SBMCEstimator, TableTargets
from sbmc.estimators.network import Module
from sbmc.estimators.numbers import NumberPredictions
from sbmc.fitting.budget import Budget
from sbmc.likelihoods import Likelihood, NoisyLikelihood, as_likelihood
from sbmc.posterior.units import Units
from sbmc.prediction.regression import RegressionPrediction

# Likelihoods of numbers, by their strings.
OF_NUMBERS = ("gaussian", "gaussian-network", "student-t")


class SBMCRegressor(NumberPredictions, RegressorMixin, SBMCEstimator[RegressionPrediction]):
    """A Bayesian neural network for numbers, by the rules of scikit-learn.

    `fit` standardises columns and targets, trains ten networks to the end on all rows, and samples
    the full posterior by a long chain from each of them (`sbmc.fit`). All that is predicted is in
    the units of the targets.

    Args:
        hidden_layers: the width of each hidden layer of the network.
        module: a network of one's own instead: an `nn.Module`, which is copied and starts at its
            own weights, or a callable `(n_inputs, n_outputs)` that makes one. It gets
            standardised columns and has an output for each target, and a second one where it gives
            the noise.
        likelihood: of the targets. `"gaussian-network"`, the default, has the noise from the
            network, another one for each row (heteroscedastic); `"gaussian"` learns one noise
            variance for each target; `"student-t"` has heavy tails, for outliers. Or an object such
            as `sbmc.StudentT(df=6.0)`; noise that it knows is in the units of the targets.
        validation_fraction: the share of rows that training does not see; none by default. Such
            rows stop training early, and then mix the networks with what is sampled.
        budget: what sampling may cost, as for `sbmc.fit`: a number of trainings of the network, or
            a time such as `"30s"`. By default it is 90 trainings, which long chains need, and less
            for large networks; with rows set aside it is 5, and more on small tables.
        training_options: further options of `sbmc.train_map`, such as `{"max_epochs": 100}`.
        fit_options: further options of `sbmc.fit`, such as `{"particles": 20}`.
        random_state: an integer makes results repeatable.
        n_jobs: threads to compute with; None leaves the choice to torch, -1 takes all cores.
        verbose: 1 shows progress.

    Attributes:
        posterior_: the posterior, which takes rows of the table and predicts in the units of the
            targets. The outputs of its networks are standardised targets.
        n_features_in_: the number of columns.
        feature_names_in_: their names, if the table was a data frame.
        n_epochs_: passes over the data that training made.
        validation_rows_: how many rows were set aside.

    Examples:
        >>> X = np.linspace(-1, 1, 60)[:, None]
        >>> model = SBMCRegressor((16,), budget=1, random_state=0).fit(X, 100 + 5 * X[:, 0])
        >>> model.predict_interval(X[:4], level=0.9).shape, bool(model.score(X, 100 + 5 * X) > 0.9)
        ((4, 2), True)
    """

    def __init__(
        self,
        hidden_layers: Sequence[int] = defaults.NUMBERS_HIDDEN_LAYERS,
        *,
        module: Module | None = None,
        likelihood: Any = defaults.LIKELIHOOD,
        validation_fraction: float = defaults.NUMBERS_VALIDATION_FRACTION,
        budget: Any = None,
        training_options: Mapping[str, Any] | None = None,
        fit_options: Mapping[str, Any] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        super().__init__(
            hidden_layers,
            module=module,
            validation_fraction=validation_fraction,
            budget=budget,
            training_options=training_options,
            fit_options=fit_options,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.likelihood = likelihood

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train a network on a table and sample its posterior.

        Args:
            X: `(rows, columns)` numbers: an array or a data frame, without missing values.
            y: `(rows,)` or `(rows, targets)` numbers.
            sample_weight: `(rows,)`; a weight of 2 is that row twice, for training and sampling.
                Rows that were set aside count once each, and rows of weight zero not at all.

        Returns:
            The estimator itself.

        Raises:
            ValueError: a table or targets that break these rules.
        """
        self._require_tables(X, y)
        X, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        require(y.dtype.kind in "biuf", "y", "numbers", Phrase(f"dtype {y.dtype}"))
        weights = self._checked_weights(sample_weight, X)
        if weights is not None:
            X, y, weights = (each[weights > 0] for each in (X, y, weights))
        columns = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        scaler = StandardScaler().fit(columns, sample_weight=weights)
        likelihood = self._standardised_likelihood(scaler.scale_)
        per_target = 2 if likelihood.noise == "network" else 1
        targets = TableTargets(
            values=torch.tensor(scaler.transform(columns), dtype=torch.float32),
            labels=np.zeros(len(columns), dtype=int),
            outputs=per_target * columns.shape[1],
            likelihood=likelihood,
            units=Units(torch.tensor(scaler.mean_), torch.tensor(scaler.scale_)),
        )
        self._target_shape = y.shape[1:]
        return self._fit_posterior(X, targets, weights)

    def __sklearn_tags__(self) -> Any:
        """Several targets are welcome."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _usual_training(self, rows: int, stopped: bool) -> dict[str, Any]:
        if stopped:
            return defaults.training_options(rows, stopped)
        return defaults.training_to_the_end(rows)

    def _usual_budget(self, rows: int, network: nn.Module, epochs: int) -> Budget:
        if self.validation_rows_:
            return defaults.sampling_budget(rows, epochs)
        parameters = sum(each.numel() for each in network.parameters())
        return defaults.budget_of_numbers(rows, parameters, epochs)

    def _in_shape(self, values: torch.Tensor) -> np.ndarray:
        return values.numpy().reshape(len(values), *self._target_shape)

    def _standardised_likelihood(self, scale: np.ndarray) -> NoisyLikelihood:
        """The likelihood of standardised targets; noise that is known changes its units."""
        rule = f"{', '.join(map(repr, OF_NUMBERS))}, sbmc.Gaussian(...) or sbmc.StudentT(...)"
        if not isinstance(self.likelihood, Likelihood):
            require_choice("likelihood", self.likelihood, OF_NUMBERS, rule)
        likelihood = as_likelihood(self.likelihood)
        good = isinstance(likelihood, NoisyLikelihood) and likelihood.kind == "real"
        require(good, "likelihood", rule, self.likelihood)
        assert isinstance(likelihood, NoisyLikelihood)
        known = getattr(likelihood, likelihood.known)
        if known is None:
            return likelihood
        rule = f"one without `{likelihood.known}` where there are several targets"
        require(len(scale) == 1, "likelihood", rule, Phrase(f"{likelihood} for {len(scale)}"))
        power = 2 if likelihood.known == "noise_variance" else 1
        return replace(likelihood, **{likelihood.known: known / float(scale[0]) ** power})
