"""What the estimators have in common: from a table to a posterior in the table's own units."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from sbmc.checks import Phrase, require
from sbmc.estimators import defaults
from sbmc.estimators.checking import as_random_state, checked_options, thread_count
from sbmc.estimators.network import Module, make_network
from sbmc.estimators.scaling import column_scaler
from sbmc.estimators.splitting import set_rows_aside
from sbmc.fitting.budget import Budget
from sbmc.fitting.fit import fit
from sbmc.likelihoods import Likelihood
from sbmc.model.calling import refuse_probabilities
from sbmc.model.threads import torch_threads
from sbmc.posterior.posterior import Posterior
from sbmc.posterior.units import Units, in_original_units
from sbmc.prediction.kinds import PredictionT
from sbmc.storage.arrays import require_table
from sbmc.training.map import train_map


class TableTargets(NamedTuple):
    """The targets of a table, as the network learns them.

    Attributes:
        values: `(rows,)` labels from 0, or `(rows, outputs)` standardised numbers.
        labels: of the rows, for dividing them; all 0 where there are no classes.
        outputs: how many the network needs.
        likelihood: of `values`.
        units: of numbers; None for classes.
    """

    values: Tensor
    labels: np.ndarray
    outputs: int
    likelihood: Likelihood
    units: Units | None


class SBMCEstimator(BaseEstimator, Generic[PredictionT]):
    """The base of `SBMCClassifier` and `SBMCRegressor`, which explain the arguments."""

    def __init__(
        self,
        hidden_layers: Sequence[int] = defaults.HIDDEN_LAYERS,
        *,
        module: Module | None = None,
        validation_fraction: float = defaults.VALIDATION_FRACTION,
        budget: Any = None,
        training_options: Mapping[str, Any] | None = None,
        fit_options: Mapping[str, Any] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        self.hidden_layers = hidden_layers
        self.module = module
        self.validation_fraction = validation_fraction
        self.budget = budget
        self.training_options = training_options
        self.fit_options = fit_options
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def predictive(self, X: Any) -> PredictionT:
        """The whole predictive distribution, which can be asked for more than `predict` gives.

        Args:
            X: a table `(rows, columns)`.

        Returns:
            The prediction of `posterior_`, in the original units: the split of the uncertainty,
            `log_prob`, `crps`, `sample`, `to_pandas` and more. Classes are numbered as in
            `classes_`.
        """
        check_is_fitted(self)
        require_table(X, "X")
        table = validate_data(self, X, reset=False, dtype=np.float64)
        with torch_threads(self._threads()):
            return self.posterior_.predict(torch.tensor(table))

    def _fit_posterior(
        self, X: np.ndarray, targets: TableTargets, weights: np.ndarray | None
    ) -> Self:
        """Train the network, sample its posterior, and keep it in original units."""
        sampling = checked_options(self.fit_options, "fit_options", fit)
        own_training = checked_options(self.training_options, "training_options", train_map)
        require(
            isinstance(self.verbose, int | np.integer | np.bool_), "verbose", "0 or 1", self.verbose
        )
        rng = as_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        scaler = column_scaler(X, weights)
        inputs = torch.tensor(scaler.transform(X), dtype=torch.float32)
        rows = set_rows_aside(inputs.numpy(), targets.labels, self.validation_fraction, rng)
        self.validation_rows_ = 0 if rows.validation is None else len(rows.validation)
        train = inputs[rows.training], targets.values[rows.training]
        validation = None
        if rows.validation is not None:
            validation = inputs[rows.validation], targets.values[rows.validation]
        common: dict[str, Any] = {
            "likelihood": targets.likelihood,
            "seed": seed,
            "progress": bool(self.verbose),
        }
        if weights is not None:
            common["weights"] = torch.tensor(weights[rows.training], dtype=torch.float32)
        network = make_network(self.module, self.hidden_layers, inputs, targets.outputs, seed)
        if targets.units is None and self.module is not None:
            with torch.no_grad():
                outputs = copy.deepcopy(network).to(inputs.dtype).eval()(inputs[:2])
            refuse_probabilities(outputs, "module", "Leave the softmax out.")
        training = self._usual_training(len(train[0]), validation is not None)
        training |= own_training
        with torch_threads(self._threads()):
            trained = train_map(network, train, validation, **{**common, **training})
            epochs = int(trained.history.epochs)  # type: ignore[union-attr, arg-type]
            sampling = {"budget": self.budget, **sampling}
            if sampling["budget"] is None and "sampler" not in sampling:
                sampling["budget"] = self._usual_budget(len(train[0]), trained, epochs)
            # The network remembers the validation rows, which choose s.
            posterior = fit(trained, train, **{**common, **sampling})
        units = Units(torch.tensor(scaler.mean_), torch.tensor(scaler.scale_))
        self.posterior_: Posterior[PredictionT] = in_original_units(posterior, units, targets.units)
        self.n_epochs_ = epochs
        return self

    def _usual_training(self, rows: int, stopped: bool) -> dict[str, Any]:
        """Options of `train_map`, where the user gives none."""
        return defaults.training_options(rows, stopped)

    def _usual_budget(self, rows: int, network: nn.Module, epochs: int) -> Budget:
        """What sampling may cost, where the user does not say."""
        return defaults.sampling_budget(rows, epochs)

    def _require_tables(self, X: Any, y: Any) -> None:
        """Refuse what scikit-learn has no words for; it says itself that `y` is missing."""
        require_table(X, "X")
        if y is not None:
            require_table(y, "y")

    def _checked_weights(self, sample_weight: Any, X: np.ndarray) -> np.ndarray | None:
        if sample_weight is None:
            return None
        require_table(sample_weight, "sample_weight")
        weights = check_array(
            sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
        )
        rule = f"numbers, one for each of the {len(X)} rows"
        require(weights.shape == (len(X),), "sample_weight", rule, Phrase(f"shape {weights.shape}"))
        least = float(weights.min())
        require(least >= 0, "sample_weight", "finite and not negative", least)
        most = float(weights.max())
        require(most > 0, "sample_weight", "above zero for some rows", most)
        return weights

    def _threads(self) -> int | None:
        return thread_count(self.n_jobs)
