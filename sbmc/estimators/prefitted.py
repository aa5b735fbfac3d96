"""`sbmc.as_estimator`: the posterior of one's own network as a fitted estimator of scikit-learn.

MAPIE, `CalibratedClassifierCV`, `permutation_importance` and other tools that take fitted
estimators then take it too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Generic, Never, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_array
from torch import Tensor

from sbmc.checks import BadInput, Phrase, describe_value, require
from sbmc.estimators.numbers import NumberPredictions
from sbmc.posterior.posterior import Posterior
from sbmc.prediction.kinds import PredictionT
from sbmc.prediction.prediction import Prediction
from sbmc.prediction.regression import RegressionPrediction
from sbmc.storage.arrays import require_table
from sbmc.target.probe import made_up_rows

ONE_INPUT = "one of a network with one tensor as its input"


def as_estimator(
    posterior: Posterior, *, classes: Sequence[Any] | np.ndarray | None = None
) -> PosteriorClassifier | PosteriorRegressor:
    """The posterior of one's own network as a fitted estimator of scikit-learn.

    Args:
        posterior: of a network with one input tensor. Rows of a table `(rows, columns)` are given
            the shape that the network takes, such as that of pictures.
        classes: of a classifier: the labels, in the order of the network's outputs; 0, 1, ... or
            those that the file of `sbmc fit` knows, if not given.

    Returns:
        A `PosteriorClassifier`, or a `PosteriorRegressor` for numbers and counts.

    Raises:
        BadInput: no posterior, several inputs, labels that do not fit, or a posterior of several
            labels at once or of pixels, for which scikit-learn has no classifier.

    Examples:
        >>> import sbmc
        >>> x = torch.randn(20, 2)
        >>> run = {"sampler": sbmc.HMC(steps=4), "particles": 3, "progress": False}
        >>> posterior = sbmc.fit(torch.nn.Linear(2, 2), (x, (x[:, 0] > 0).long()), **run)
        >>> classifier = as_estimator(posterior, classes=["no", "yes"])
        >>> classifier.predict_proba(x.numpy()).shape, classifier.predict(x[:1].numpy()).dtype
        ((20, 2), dtype('<U3'))
    """
    _checked(posterior)
    if posterior.likelihood.classification:
        classifier = PosteriorClassifier(posterior, classes)
        if posterior.input_description is not None:  # or the first prediction will tell
            classifier.classes_  # noqa: B018  (refuses labels that do not fit)
        return classifier
    require(classes is None, "classes", "left out for numbers, which have none", classes)
    return PosteriorRegressor(posterior)


class PosteriorEstimator(BaseEstimator, Generic[PredictionT]):
    """The base of `PosteriorClassifier` and `PosteriorRegressor`."""

    posterior: Posterior[PredictionT]

    @property
    def posterior_(self) -> Posterior[PredictionT]:
        """The posterior."""
        return self.posterior

    @property
    def n_features_in_(self) -> int:
        """The number of columns: that of the numbers in one input of the network."""
        return math.prod(self._input_shape())

    def fit(self, X: Any, y: Any = None) -> Never:
        """Refused: the posterior has been sampled, and a tool must not believe that it fitted it.

        Raises:
            BadInput: always, with what to do instead.
        """
        raise BadInput(
            "`fit` must not be called on a posterior that has been sampled already, but got data "
            "to fit. A tool that calls fit takes sklearn.frozen.FrozenEstimator(estimator), which "
            "skips it; MAPIE takes prefit=True. To fit a network again and again, as in "
            "cross-validation, use SBMCRegressor(module=...) or SBMCClassifier(module=...)."
        )

    def predictive(self, X: Any) -> PredictionT:
        """The whole predictive distribution, which can be asked for more than `predict` gives.

        Args:
            X: inputs of the network, or a table `(rows, columns)` of the same numbers.

        Returns:
            The prediction of the posterior, with classes in the order of the network's outputs.
        """
        _checked(self.posterior)
        require_table(X, "X")
        values = check_array(X, dtype=None, allow_nd=True, ensure_2d=False, input_name="X")
        require(values.dtype.kind in "biuf", "X", "numbers", Phrase(f"dtype {values.dtype}"))
        if values.dtype.kind == "f":
            values = values.astype(np.float64)  # torch knows no longer ones
        return self.posterior.predict(self._shaped(torch.tensor(values)))

    def _shaped(self, values: Tensor) -> Tensor:
        """Rows in the shape and the kind of numbers that the network takes, if it is known."""
        described = _described(self.posterior)
        if described is None:
            return values if values.is_floating_point() else values.to(self.posterior.dtype)
        shape, kind = self._input_shape(), getattr(torch, described["dtype"].split(".")[-1])
        if not values.is_floating_point() and kind.is_floating_point:
            values = values.to(self.posterior.dtype)
        if values.ndim == 2 and len(shape) != 1 and values.shape[1] == math.prod(shape):
            values = values.reshape(-1, *shape)
        rule = f"rows of {math.prod(shape)} columns, or inputs of shape (rows, {_listed(shape)})"
        good = tuple(values.shape[1:]) == shape
        require(good, "X", rule, Phrase(f"shape {tuple(values.shape)}"))
        return values if kind.is_floating_point else values.to(kind)

    def _input_shape(self) -> tuple[int, ...]:
        described = _described(self.posterior)
        if described is None:
            # scikit-learn asks whether there is such an attribute.
            raise AttributeError("the posterior does not know its inputs before it predicts some")
        return tuple(described["shape"])

    def __sklearn_is_fitted__(self) -> bool:
        """It is."""
        return True

    def __sklearn_clone__(self) -> Self:
        """A clone is the estimator itself: what was sampled is not to be lost."""
        return self


class PosteriorClassifier(ClassifierMixin, PosteriorEstimator[Prediction]):
    """A posterior of classes as a fitted classifier; `sbmc.as_estimator` makes it.

    Args:
        posterior: of a network with one input tensor.
        classes: the labels, in the order of the network's outputs; 0, 1, ... if None.
    """

    def __init__(
        self,
        posterior: Posterior[Prediction],
        classes: Sequence[Any] | np.ndarray | None = None,
    ) -> None:
        self.posterior = posterior
        self.classes = classes

    @property
    def classes_(self) -> np.ndarray:
        """The labels, sorted, as scikit-learn and MAPIE expect them."""
        return np.sort(self._labels())

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row, `(rows,)`."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, `(rows, classes)`, in the order of `classes_`."""
        probs = self.predictive(X).probs.cpu().numpy()
        return probs[:, np.argsort(self._labels())]

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities; zero counts as the smallest normal float64."""
        return np.log(self.predict_proba(X).clip(np.finfo(np.float64).tiny))

    def _labels(self) -> np.ndarray:
        """The labels in the order of the network's outputs."""
        recipe = _checked(self.posterior).recipe
        known = None if recipe is None else recipe.data.get("classes")
        given = known if self.classes is None else self.classes
        if given is None:
            return np.arange(self._count())
        good = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str | bytes)
        require(good, "classes", "a list of labels, or None", given)
        count = self._count()
        try:
            labels = np.asarray(given)
            good = labels.ndim == 1 and len(np.unique(labels)) == len(labels) == count
        except (TypeError, ValueError):  # labels that cannot be compared, or lists of them
            good = False
        rule = f"{count} different labels, one for each output of the network"
        require(good, "classes", rule, given)
        return labels

    def _count(self) -> int:
        described = _described(self.posterior)
        if described is None:
            raise AttributeError("the posterior does not know its outputs before it predicts some")
        like = torch.zeros((), dtype=self.posterior.dtype)
        rows: Any = made_up_rows({"form": "tensor", "leaves": [described]}, like)
        probs = self.posterior.predict(rows).probs
        rule = "one whose network gives one class for each input"
        shown = Phrase(f"one of {self.posterior.likelihood.name!r}, whose answers have more axes")
        require(probs.ndim == 2, "posterior", rule, shown)
        return probs.shape[1]


class PosteriorRegressor(
    NumberPredictions, RegressorMixin, PosteriorEstimator[RegressionPrediction]
):
    """A posterior of numbers as a fitted regressor; `sbmc.as_estimator` makes it.

    `predict` gives `(rows,)` for one output, and `(rows, outputs)` for several.

    Args:
        posterior: of a network with one input tensor.
    """

    def __init__(self, posterior: Posterior[RegressionPrediction]) -> None:
        self.posterior = posterior

    def _in_shape(self, values: Tensor) -> np.ndarray:
        numbers = values.cpu().numpy()
        return numbers[:, 0] if numbers.ndim == 2 and numbers.shape[1] == 1 else numbers

    def __sklearn_tags__(self) -> Any:
        """Several targets are welcome."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _checked(posterior: Any) -> Posterior:
    rule = "a posterior, as sbmc.fit or sbmc.load gives it"
    if not isinstance(posterior, Posterior):
        hint = " It is an estimator already." if isinstance(posterior, BaseEstimator) else ""
        raise BadInput(f"`posterior` must be {rule}, but got {describe_value(posterior)}.{hint}")
    inputs = (posterior.input_description or {}).get("inputs")
    good = not inputs or inputs.get("form") == "tensor"
    require(good, "posterior", ONE_INPUT, Phrase("one of several inputs"))
    return posterior


def _described(posterior: Posterior) -> dict[str, Any] | None:
    """Shape and type of one input, if they are known."""
    inputs = (_checked(posterior).input_description or {}).get("inputs")
    return inputs["leaves"][0] if inputs else None


def _listed(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))
