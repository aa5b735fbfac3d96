"""Figures of a posterior's answers: reliability, risk and coverage, and parts of uncertainty."""

from __future__ import annotations

import numpy as np
import torch

from sbmc.prediction.metrics import pit, risk_curve
from sbmc.prediction.prediction import Prediction
from sbmc.report.charts import Bar, BarChart, Curve, Guide, LineChart
from sbmc.report.charts.axis import Axis, nice_range
from sbmc.report.charts.style import series_style
from sbmc.report.figure import Figure
from sbmc.report.limits import Limits
from sbmc.report.posterior_view import PosteriorView

BINS = 10
# A frequency from fewer rows would be noise.
FEWEST_ROWS = 5
STYLE = series_style(0, "this posterior")


def reliability_bins(confidence: np.ndarray, right: np.ndarray) -> tuple[list[float], list[float]]:
    """Mean confidence and share of right answers, in bins with enough rows.

    Args:
        confidence: `(rows,)`, from 0 to 1.
        right: `(rows,)` booleans.

    Returns:
        Two lists, one entry for each bin with at least `FEWEST_ROWS` rows.

    Examples:
        >>> reliability_bins(np.full(8, 0.75), np.array([True] * 6 + [False] * 2))
        ([0.75], [0.75])
    """
    index = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    said, happened = [], []
    for each in range(BINS):
        chosen = index == each
        if chosen.sum() >= FEWEST_ROWS:
            said.append(float(confidence[chosen].mean()))
            happened.append(float(right[chosen].mean()))
    return said, happened


def reliability(view: PosteriorView) -> Figure | None:
    """How often things happen that are said to happen with some probability."""
    if view.targets is None:
        return None
    if isinstance(view.prediction, Prediction):
        right = view.right
        assert right is not None
        confidence = view.prediction.max_probability.numpy()
        said, happened = reliability_bins(confidence, right.numpy())
        caption = (
            f"Labels by their probability, in bins of at least {FEWEST_ROWS} rows. Below the "
            "diagonal it is too sure, above it not sure enough."
        )
        axes = Axis("probability of the label"), Axis("share of labels that are right")
    else:
        particles = view.prediction.particles
        if particles is None or not particles.has_distribution:
            return None
        depth = (2 * pit(view.prediction, view.targets) - 1).abs().flatten().numpy()
        said = np.linspace(0.05, 0.95, 19).tolist()
        happened = [float((depth <= level).mean()) for level in said]
        caption = (
            "Targets inside central intervals. Below the diagonal the intervals are too narrow, "
            "above it too wide."
        )
        axes = Axis("level of the intervals"), Axis("share of targets inside")
    if not said:
        return None
    gap = max(zip(said, happened, strict=True), key=lambda pair: abs(pair[0] - pair[1]))
    return Figure(
        "Reliability",
        caption,
        LineChart(
            [Curve(STYLE, said, happened, marked=True)],
            *axes,
            guides=[Guide((0, 0), (1, 1), "calibrated")],
        ),
        alt=f"A curve beside the diagonal; farthest from it: {gap[1]:.2f} where {gap[0]:.2f} is "
        "said.",
    )


def risk_and_coverage(view: PosteriorView, limits: Limits) -> Figure | None:
    """The error of the surest rows, as more of them are answered."""
    targets = view.targets
    if targets is None:
        return None
    if isinstance(view.prediction, Prediction):
        loss = (view.prediction.labels != targets).double()
        label, percent = "share of answers that are wrong", True
    else:
        error = (view.prediction.mean - targets).square()
        loss = error.reshape(len(error), -1).mean(1)
        label, percent = "root of the mean squared error", False
    curve = risk_curve(view.doubt.score.double().numpy(), loss.numpy())
    coverage = np.linspace(float(curve.coverage[0]), 1.0, limits.points)
    risk = np.interp(coverage, curve.coverage, curve.risk)
    risk = risk if percent else np.sqrt(risk)
    _, high = nice_range(risk.tolist(), zero=True)
    return Figure(
        "Risk and coverage",
        "The error of the rows that are answered, the surest first. The further it falls to the "
        "left, the better abstaining works.",
        LineChart(
            [Curve(STYLE, coverage.tolist(), risk.tolist())],
            Axis("coverage: share of rows answered", percent=True),
            Axis(label, 0.0, min(1.0, high) if percent else high, percent=percent),
        ),
        alt=f"A curve that ends at {risk[-1]:.3g} where every row is answered, and is "
        f"{risk[len(risk) // 2]:.3g} where half of them are.",
    )


def uncertainty(view: PosteriorView) -> Figure:
    """The two parts of uncertainty, of all rows and of those that are right and wrong."""
    right = view.right
    groups = {"all rows": torch.ones(len(view.rows), dtype=torch.bool)}
    if right is not None:
        words = ("right", "wrong")
        if not isinstance(view.prediction, Prediction):
            words = (f"inside {view.level:.0%} interval", "outside")
        groups |= {words[0]: right, words[1]: ~right}
    unit = "nats" if isinstance(view.prediction, Prediction) else "squared unit of the target"
    parts = [
        part.reshape(len(view.rows), -1).sum(1)
        for part in (view.prediction.aleatoric, view.prediction.epistemic)
    ]
    bars = [
        (f"{name} ({int(chosen.sum()):,})", [Bar(STYLE, *(float(p[chosen].mean()) for p in parts))])
        for name, chosen in groups.items()
        if chosen.any()
    ]
    shown = "; ".join(f"{name}: {b[0].pale:.3g} and {b[0].full:.3g}" for name, b in bars)
    return Figure(
        "Where the uncertainty comes from",
        "The aleatoric part is noise, which more rows of the same kind would leave. The epistemic "
        "part is what the particles disagree about, which more rows would remove.",
        BarChart(
            bars,
            f"mean uncertainty, {unit}",
            ("aleatoric (noise)", "epistemic (not known yet)"),
        ),
        alt=f"Bars of two parts, aleatoric and epistemic. {shown}.",
    )
