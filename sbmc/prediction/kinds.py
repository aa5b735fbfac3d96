"""What a type checker knows of a prediction: of classes, of numbers, or one of them.

`sbmc.fit(net, data, likelihood="gaussian")` returns a `Posterior[RegressionPrediction]`, whose
predictions have no `probs`, and a checker says so. Without `likelihood` the kind depends on the
targets, which a checker cannot see; it then allows all that either kind has. To have it checked,
write down what you know:

    posterior: sbmc.Posterior[sbmc.Prediction] = sbmc.fit(net, data)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import TypeVar

from sbmc.prediction.prediction import Prediction
from sbmc.prediction.regression import RegressionPrediction

if TYPE_CHECKING:

    class EitherPrediction(Prediction, RegressionPrediction):
        """A prediction of a kind that only the targets decide."""
else:
    EitherPrediction = Prediction | RegressionPrediction

# Covariant: a posterior of a kind that is not known will do where one of a known kind is asked for.
# A bare `Posterior`, as the type of an argument, takes posteriors of any kind.
PredictionT = TypeVar(
    "PredictionT",
    bound=Prediction | RegressionPrediction,
    covariant=True,
    default=Any,
)
