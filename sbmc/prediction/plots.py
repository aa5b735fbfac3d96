"""Figures of predictions: bands over one input, and bars of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sbmc.checks import Phrase, require
from sbmc.prediction.predictive import checked_level
from sbmc.storage.arrays import as_floats
from sbmc.storage.optional import load_pyplot

if TYPE_CHECKING:
    from sbmc.prediction.base import BasePrediction
    from sbmc.prediction.prediction import Prediction

COLOUR, MARK = "#2f5fa8", "#a8662f"
MOST_BARS = 12


def plot_prediction(prediction: BasePrediction, x: Any, targets: Any, level: float, ax: Any) -> Any:
    """Draw a prediction; see `BasePrediction.plot`.

    Raises:
        BadInput: numbers without one input to draw them over, or more examples of classes than
            can be told apart.
        ImportError: matplotlib is not installed.
    """
    pyplot = load_pyplot()
    level = checked_level(level)
    rule = "axes of matplotlib, such as pyplot.gca(), or None"
    require(ax is None or hasattr(ax, "fill_between"), "ax", rule, ax)
    axes = pyplot.subplots(layout="constrained")[1] if ax is None else ax
    if hasattr(prediction, "probs"):
        _draw_bars(prediction, targets, level, axes)
    else:
        _draw_band(prediction, x, targets, level, axes)
    return axes


def _draw_band(prediction: BasePrediction, x: Any, targets: Any, level: float, axes: Any) -> None:
    mean = prediction.mean.detach().cpu().numpy()
    outputs = mean[:1].size
    rule = "one with a single output, to be drawn as a band"
    require(outputs == 1, "prediction", rule, Phrase(f"one with {outputs} outputs"))
    values = _one_input(prediction, x)
    order = np.argsort(values, kind="stable")
    bands = {"prediction": 0.18, "credible": 0.4}
    if not prediction._need_particles().has_distribution:
        del bands["prediction"]
    for kind, strength in bands.items():
        lower, upper = (
            end.cpu().numpy().reshape(-1)[order] for end in prediction.interval(level, kind=kind)
        )
        label = f"{level:.0%} {kind} interval"
        axes.fill_between(
            values[order], lower, upper, color=COLOUR, alpha=strength, linewidth=0, label=label
        )
    axes.plot(values[order], mean.reshape(-1)[order], color=COLOUR, label="mean")
    if targets is not None:
        dots = as_floats(targets, "targets").reshape(-1)
        shape = Phrase(f"{len(dots)} values")
        require(len(dots) == len(values), "targets", f"as many as examples, {len(values)}", shape)
        axes.plot(values, dots, ".", color=MARK, markersize=4, label="targets")
    axes.legend()


def _draw_bars(prediction: Any, targets: Any, level: float, axes: Any) -> None:
    classified: Prediction = prediction
    shape = tuple(classified.probs.shape)
    rule = f"one of at most {MOST_BARS} examples with one label each: choose some by indexing"
    good = len(shape) == 2 and shape[0] <= MOST_BARS
    require(good, "prediction", rule, Phrase(f"probabilities of shape {shape}"))
    probs = classified.probs.cpu().numpy()
    examples, classes = shape
    width = 0.8 / classes
    ends = None
    if classified.particles is not None:
        ends = [end.cpu().numpy() for end in classified.interval(level, kind="credible")]
    for k in range(classes):
        places = np.arange(examples) + (k - (classes - 1) / 2) * width
        axes.bar(places, probs[:, k], width=0.9 * width, label=f"class {k}")
        if ends is not None:
            axes.vlines(places, ends[0][:, k], ends[1][:, k], color="black", linewidth=1)
    if targets is not None:
        labels = classified.checked_labels(targets).cpu().numpy()
        places = np.arange(examples) + (labels - (classes - 1) / 2) * width
        axes.plot(places, np.full(examples, 1.03), "v", color="black", label="label")
    axes.set_xticks(range(examples))
    axes.set_xlabel("example")
    axes.set_ylabel("probability")
    axes.legend()


def _one_input(prediction: BasePrediction, x: Any) -> np.ndarray:
    if x is None and prediction.particles is not None:
        x = prediction.particles.inputs
    rule = f"the values of one input, of shape ({len(prediction)},), to draw the band over"
    require(x is not None and not isinstance(x, dict | tuple), "x", rule, x)
    values = as_floats(x, "x")
    require(values.size == len(prediction), "x", rule, Phrase(f"shape {values.shape}"))
    return values.reshape(-1)
