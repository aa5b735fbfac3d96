"""What to do next with a posterior, by what its page shows."""

from __future__ import annotations

import math

from sbmc.prediction.prediction import Prediction
from sbmc.report.numbers import percent
from sbmc.report.posterior_view import PosteriorView

# With fewer rows, figures say little.
FEW_ROWS = 100
# A difference counts from so many standard errors on.
STANDARD_ERRORS = 2.0
# Of the mean uncertainty: above, more rows are what helps most.
LARGE_EPISTEMIC, SMALL_EPISTEMIC = 0.3, 0.1


def next_steps(view: PosteriorView) -> list[str]:
    """Sentences that say what to do, the most urgent first.

    Args:
        view: of the posterior.

    Returns:
        At least one sentence.
    """
    steps = _about_health(view)
    if view.metrics:
        steps += _about_calibration(view)
    else:
        steps.append("Give rows with their targets as --data to see how often it is right.")
    steps += _about_uncertainty(view)
    if view.metrics and len(view.rows) < FEW_ROWS:
        steps.append(
            f"Measure it on more rows: figures of {len(view.rows)} rows have large errors of their "
            "own."
        )
    if view.posterior.fitted_confidence is None and isinstance(view.prediction, Prediction):
        steps.append(
            "Abstain by a score that is learned: in Python, load the posterior with sbmc.load, "
            "call posterior.confidence((inputs, labels), ood) with rows that it was not fitted to, "
            "and save it again. sbmc predict then uses that score."
        )
    return steps


def _about_health(view: PosteriorView) -> list[str]:
    health = view.posterior.health
    if health.ok is not False:
        return []
    return [f"Sample again before you use it. {' '.join(health.remedies)}"]


def _about_calibration(view: PosteriorView) -> list[str]:
    right = view.right
    assert right is not None
    share = float(right.double().mean())
    error = math.sqrt(max(share * (1 - share), 1 / len(right)) / len(right))
    if isinstance(view.prediction, Prediction):
        said = float(view.prediction.max_probability.mean())
        what, remedy = "labels are right", "Give it rows that training does not see (--validation)"
    else:
        if view.prediction.mean[0].numel() > 1:
            return []  # an interval for each output, and a row is right if all hold
        said = view.level
        what, remedy = "targets are inside", "Try another --likelihood, such as student-t"
    shown = f"{percent(share)} of its {what}, and it says {percent(said)}"
    if share < said - STANDARD_ERRORS * error:
        return [f"It is too sure: {shown}. {remedy}, or a larger --budget."]
    if share > said + STANDARD_ERRORS * error:
        return [f"It is less sure than it could be: {shown}. {remedy}, or a larger --budget."]
    return [f"Its probabilities can be taken at their word here: {shown}."]


def _about_uncertainty(view: PosteriorView) -> list[str]:
    total = float(view.prediction.total.mean())
    part = float(view.prediction.epistemic.mean()) / total if total > 0 else 0.0
    shown = f"{percent(part, 0)} of its uncertainty is epistemic"
    if part > LARGE_EPISTEMIC:
        return [f"Label more rows, those that it is least sure about first: {shown}."]
    if part < SMALL_EPISTEMIC:
        return [f"More rows of the same kind would change little, other columns might: {shown}."]
    return [f"More rows would help somewhat: {shown}."]
