"""The confidence meta-classifier of the paper as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from sbmc.checks import BadInput, Phrase, is_number, is_whole, require, require_count
from sbmc.confidence.thresholds import f1_threshold
from sbmc.log import logger
from sbmc.posterior.distillation.student import Standardise
from sbmc.storage.arrays import require_table

FOLDS = 5


class ConfidenceClassifier(ClassifierMixin, BaseEstimator):
    """Features of a prediction -> probability that it is incorrect or out of domain.

    Features are standardised and go through one hidden layer of 50 rectified units (paper,
    section 3), trained by scikit-learn's `MLPClassifier` with its own defaults: Adam, weight decay
    1e-4, until the loss stops falling. The decision is class 1, "abstain", where the probability is
    at least the threshold.

    Args:
        threshold: a number from 0 to 1, or `"f1"`: the one that maximises F1 on probabilities from
            five-fold cross-validation, so that none comes from a network trained on its example.
        hidden: units of the hidden layer.
        max_iter: most passes over the data.
        random_state: seed of initial weights, shuffling and folds.

    Attributes:
        classes_: the two labels, sorted; the second one is "abstain".
        threshold_: the number in use.
        network_: the pipeline of scaler and network.
        n_iter_: passes over the data.
        converged_: whether the loss stopped falling before `max_iter`.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> features = rng.normal(size=(60, 7))
        >>> incorrect = (features[:, 4] > 0).astype(int)
        >>> classifier = ConfidenceClassifier(random_state=0).fit(features, incorrect)
        >>> bool(classifier.score(features, incorrect) > 0.9)
        True
    """

    def __init__(
        self,
        threshold: float | str = 0.5,
        *,
        hidden: int = 50,
        max_iter: int = 500,
        random_state: Any = None,
    ) -> None:
        self.threshold = threshold
        self.hidden = hidden
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> ConfidenceClassifier:
        """Learn from features and labels.

        Args:
            X: `(examples, features)`.
            y: `(examples,)`, two classes; the second in sorted order is "abstain".

        Returns:
            The classifier itself.

        Raises:
            BadInput: if there is one class only or more than two, or a setting is out of range.
        """
        self.check_settings()
        require_table(X, "X")
        if y is not None:  # which scikit-learn says itself
            require_table(y, "y")
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, truth = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            kind = type_of_target(y)
            raise BadInput(
                f"Only binary classification is supported. The type of the target is {kind}."
            )
        rule = "of two classes (some predictions correct, some incorrect or out of domain)"
        only = Phrase(f"the one class {self.classes_[0]!r}")
        require(len(self.classes_) == 2, "y", rule, only)
        if (X[:1] == X).all():
            message = (
                "All features are constant: every input gets the share of class 1 as its score."
            )
            warnings.warn(message, UserWarning, stacklevel=2)
        self.threshold_ = self._choose_threshold(X, truth)
        self.network_ = self._trained(X, truth)
        self.n_iter_ = int(self.network_[-1].n_iter_)
        self.converged_ = self.n_iter_ < self.max_iter
        if not self.converged_:
            logger.info("the confidence classifier stopped after max_iter=%d passes", self.max_iter)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the two classes.

        Args:
            X: `(examples, features)`.

        Returns:
            `(examples, 2)`; the second column is that of being incorrect or out of domain.
        """
        check_is_fitted(self)
        require_table(X, "X")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self.network_.predict_proba(X)

    def predict(self, X: Any) -> np.ndarray:
        """The class of each example: "abstain" where its probability is at least the threshold."""
        abstain = self.predict_proba(X)[:, 1] >= self.threshold_
        return self.classes_[abstain.astype(int)]

    def as_module(self) -> nn.Module:
        """The same function in torch: features `(examples, features)` to scores `(examples,)`.

        Returns:
            A module in float64; the score is the second column of `predict_proba`.
        """
        check_is_fitted(self)
        scaler, network = self.network_[0], self.network_[-1]
        layers: list[nn.Module] = [
            Standardise(*(torch.from_numpy(each.copy()) for each in (scaler.mean_, scaler.scale_)))
        ]
        for weight, bias in zip(network.coefs_, network.intercepts_, strict=True):
            layer = nn.Linear(len(weight), len(bias), dtype=torch.float64)
            with torch.no_grad():
                layer.weight.copy_(torch.from_numpy(weight.T.copy()))
                layer.bias.copy_(torch.from_numpy(bias.copy()))
            layers += [layer, nn.ReLU()]
        layers[-1] = nn.Sigmoid()
        return nn.Sequential(*layers, nn.Flatten(0)).eval().requires_grad_(False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def check_settings(self) -> None:
        """Refuse settings out of range, as `fit` does first."""
        is_level = is_number(self.threshold) and 0 <= float(self.threshold) <= 1
        rule = "a number from 0 to 1, or 'f1'"
        good = is_level or (isinstance(self.threshold, str) and self.threshold == "f1")
        require(good, "threshold", rule, self.threshold)
        for name in ("hidden", "max_iter"):
            value = getattr(self, name)
            require_count(name, value)
        rule = "None, an integer from 0 to 2**32 - 1, or a numpy.random.RandomState"
        whole = is_whole(self.random_state) and 0 <= self.random_state < 2**32
        good = self.random_state is None or isinstance(self.random_state, np.random.RandomState)
        require(good or whole, "random_state", rule, self.random_state)

    def _choose_threshold(self, X: np.ndarray, truth: np.ndarray) -> float:
        if self.threshold != "f1":
            return float(self.threshold)
        fewest = int(np.bincount(truth).min())
        rule = "two classes of at least two examples each for threshold='f1'"
        require(fewest >= 2, "y", rule, Phrase(f"{fewest} of one class"))
        count = min(FOLDS, fewest)
        folds = StratifiedKFold(count, shuffle=True, random_state=self.random_state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            held_out = cross_val_predict(
                self._network(), X, truth, cv=folds, method="predict_proba"
            )
        return f1_threshold(truth, held_out[:, 1])

    def _trained(self, X: np.ndarray, truth: np.ndarray) -> Pipeline:
        with warnings.catch_warnings():
            # Whether it converged is an attribute; a score that still improves is usable.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return self._network().fit(X, truth)

    def _network(self) -> Pipeline:
        network = MLPClassifier(
            (self.hidden,), max_iter=self.max_iter, random_state=self.random_state
        )
        return make_pipeline(StandardScaler(), network)
