"""`sbmc.SBMCClassifier`: classes of the rows of a table."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from sbmc.checks import Phrase, require
from sbmc.estimators.base import SBMCEstimator, TableTargets
from sbmc.likelihoods import Categorical
from sbmc.prediction.prediction import Prediction


class SBMCClassifier(ClassifierMixin, SBMCEstimator[Prediction]):
    """A Bayesian neural network for classes, by the rules of scikit-learn.

    `fit` standardises the columns, sets some rows aside, trains a network that stops early on them,
    and samples posteriors around it, which the same rows mix (`sbmc.fit`).

    Args:
        hidden_layers: the width of each hidden layer of the network.
        module: a network of one's own instead: an `nn.Module`, which is copied and starts at its
            own weights, or a callable `(n_inputs, n_outputs)` that makes one. It gets
            standardised columns and has an output for each class.
        validation_fraction: the share of rows that training does not see, of each class. Where
            fewer than two would be set aside, training has a fixed length and s is 0.1.
        budget: what sampling may cost, as for `sbmc.fit`: a number of trainings of the network, or
            a time such as `"30s"`. By default it is 5 trainings, and more on small tables.
        training_options: further options of `sbmc.train_map`, such as `{"max_epochs": 100}`.
        fit_options: further options of `sbmc.fit`, such as `{"particles": 20}`.
        random_state: an integer makes results repeatable.
        n_jobs: threads to compute with; None leaves the choice to torch, -1 takes all cores.
        verbose: 1 shows progress.

    Attributes:
        classes_: the labels, sorted.
        posterior_: the posterior, which takes rows of the table in its own units.
        n_features_in_: the number of columns.
        feature_names_in_: their names, if the table was a data frame.
        n_epochs_: passes over the data that training made.
        validation_rows_: how many rows were set aside.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = SBMCClassifier((16,), budget=1, random_state=0).fit(X, y)
        >>> model.predict_proba(X[:4]).shape, bool(model.score(X, y) > 0.9)
        ((4, 3), True)
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train a network on a table and sample its posterior.

        Args:
            X: `(rows, columns)` numbers: an array or a data frame, without missing values.
            y: `(rows,)` labels of any type.
            sample_weight: `(rows,)`; a weight of 2 is that row twice, for training and sampling.
                Rows that were set aside count once each, and rows of weight zero not at all.

        Returns:
            The estimator itself.

        Raises:
            ValueError: a table or labels that break these rules, or a single class.
        """
        self._require_tables(X, y)
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        weights = self._checked_weights(sample_weight, X)
        if weights is not None:
            X, y, weights = (each[weights > 0] for each in (X, y, weights))
        self.classes_, labels = np.unique(y, return_inverse=True)
        count = len(self.classes_)
        rule = "labels of two classes or more, in rows of positive weight"
        require(count > 1, "y", rule, Phrase(f"{count} class"))
        values = torch.tensor(labels, dtype=torch.int64)
        targets = TableTargets(values, labels, count, Categorical(), None)
        return self._fit_posterior(X, targets, weights)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row, `(rows,)`."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, `(rows, classes)`, in the order of `classes_`."""
        return self.predictive(X).probs.numpy()

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities; zero counts as the smallest normal float64."""
        return np.log(self.predict_proba(X).clip(np.finfo(np.float64).tiny))
