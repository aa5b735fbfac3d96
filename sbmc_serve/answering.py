"""Questions about posteriors, several at a time, and their answers as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sbmc.checks import BadInput
from sbmc.datasets.files.rows import class_name
from sbmc.prediction.base import Interval
from sbmc.prediction.kinds import EitherPrediction
from sbmc.prediction.prediction import Prediction
from sbmc.prediction.predictive import checked_level
from sbmc.report.answers import PARTS, abstention
from sbmc_serve.limits import Limits
from sbmc_serve.refusals import BREAKS_A_RULE, TOO_LARGE, Refused, breaks, from_bad_input, hint
from sbmc_serve.served import CLASSES, Served

LEVEL = 0.9
FIELDS = ("inputs", "model", "level", "particles")
# Particles that are shown one by one, at most, and numbers of them in one answer.
MOST_PARTICLES = 200
MOST_PARTICLE_NUMBERS = 200_000


class Way(NamedTuple):
    """How a question is answered; questions of the same way are answered together."""

    model: str
    level: float
    particles: bool


@dataclass(frozen=True, eq=False)
class Question:
    """What a request asks.

    Attributes:
        way: how it is answered.
        inputs: `(rows, ...)`.
    """

    way: Way
    inputs: Tensor


@dataclass(frozen=True, eq=False)
class Observed:
    """What the metrics are told about rows that were answered.

    Attributes:
        model: the name of the posterior.
        inputs: `(rows, ...)`.
        parts: total, aleatoric and epistemic uncertainty, each `(rows,)`: means over outputs.
        abstain: `(rows,)` booleans; None if nothing decides.
        score: `(rows,)`, of the abstention.
    """

    model: str
    inputs: Tensor
    parts: Mapping[str, Tensor]
    abstain: Tensor | None
    score: Tensor


def read_question(
    content: Any, models: Mapping[str, Served], default: str, limits: Limits
) -> Question:
    """Read what a request asks.

    Args:
        content: its body, as plain values.
        models: the posteriors by name.
        default: the name of the one that is asked if the request names none.
        limits: of the server.

    Returns:
        The question.

    Raises:
        Refused: it breaks a rule.
    """
    if not isinstance(content, dict):
        raise breaks("body", 'an object with "inputs"', content, 'Send {"inputs": [row, ...]}.')
    unknown = next((name for name in content if name not in FIELDS), None)
    if unknown is not None:
        rule = f"an object with no other names than {', '.join(FIELDS)}"
        raise breaks("body", rule, unknown, f"Leave it out.{hint(unknown, FIELDS)}")
    name = content.get("model", default)
    if not isinstance(name, str) or name not in models:
        rule = f"one of {', '.join(map(repr, models))}"
        raise breaks("model", rule, name, f"/info lists them.{hint(name, models)}")
    try:
        level = checked_level(content.get("level", LEVEL))
    except BadInput as error:
        raise from_bad_input(error, "Send a number such as 0.9.") from None
    particles = content.get("particles", False)
    if not isinstance(particles, bool):
        raise breaks("particles", "true or false", particles, "Send it without quotes.")
    rows = _rows(content, limits)
    model = models[name]
    if particles:
        _require_few(len(rows), model)
    return Question(Way(name, level, particles), model.read(rows))


def answer_together(
    models: Mapping[str, Served],
    way: Way,
    questions: Sequence[Question],
    observe: Callable[[Observed], None] = lambda observed: None,
) -> list[bytes | Exception]:
    """Answer questions of one way by one prediction.

    Args:
        models: the posteriors by name.
        way: how they are answered.
        questions: some of them.
        observe: is told about rows that are answered.

    Returns:
        For each question the JSON of its answer, or why it is refused: its rows are none that the
        network gives finite outputs for.

    Raises:
        Refused: the network fails on the inputs.
    """
    model = models[way.model]
    inputs = torch.cat([question.inputs for question in questions])
    # Intervals of numbers need what every particle says.
    keep = "outputs" if way.particles or model.kind != CLASSES else None
    try:
        prediction = model.posterior.predict(inputs, keep=keep)
        table = _table(model, prediction, way)
    except BadInput as error:
        raise Refused(
            BREAKS_A_RULE,
            "inputs",
            "rows that the network can be called with",
            f"rows on which it fails ({error})",
            "Send rows in the range of the training data; /info shows it.",
        ) from error
    finite = table.finite.tolist()
    results: list[bytes | Exception] = []
    start = 0
    for question in questions:
        rows = range(start, start + len(question.inputs))
        start = rows.stop
        bad = next((row for row in rows if not finite[row]), None)
        if bad is None:
            content = {"model": way.model, "predictions": [table.rows[row] for row in rows]}
            results.append(json.dumps(content | table.heading, allow_nan=False).encode("ascii"))
        else:
            results.append(
                Refused(
                    BREAKS_A_RULE,
                    f"inputs[{bad - rows.start}]",
                    "a row for which the network gives finite outputs",
                    "one for which it does not",
                    "Send rows in the range of the training data; /info shows it.",
                )
            )
    good = table.finite
    if bool(good.any()):
        observe(
            Observed(
                way.model,
                inputs[good],
                {part: values[good] for part, values in table.parts.items()},
                None if table.abstain is None else table.abstain[good],
                table.score[good],
            )
        )
    return results


def _rows(content: Mapping[str, Any], limits: Limits) -> list[Any]:
    rows = content.get("inputs")
    if not isinstance(rows, list) or not rows:
        got = rows if "inputs" in content else "nothing"
        raise breaks("inputs", "a list of rows, at least one", got, "Send [row, ...].")
    if len(rows) > limits.rows:
        raise Refused(
            TOO_LARGE,
            "inputs",
            f"at most {limits.rows:,} rows",
            f"{len(rows):,}",
            "Send them in several requests; those that arrive together are joined again.",
        )
    return rows


def _require_few(rows: int, model: Served) -> None:
    shown = min(MOST_PARTICLES, int((model.posterior.weights > 0).sum()))
    most = max(1, MOST_PARTICLE_NUMBERS // (shown * model.outputs))
    if rows > most:
        raise Refused(
            TOO_LARGE,
            "inputs",
            f"at most {most:,} rows if particles are asked for",
            f"{rows:,}",
            "Send fewer at once, or ask without particles.",
        )


@dataclass(frozen=True, eq=False)
class _Table:
    """Answers for rows of several questions."""

    rows: list[dict[str, Any]]
    heading: dict[str, Any]  # what is said once for all rows
    finite: Tensor  # (rows,)
    parts: dict[str, Tensor]
    abstain: Tensor | None
    score: Tensor


def _table(model: Served, prediction: EitherPrediction, way: Way) -> _Table:
    doubt = abstention(model.posterior, prediction, model.abstain_above)
    columns: dict[str, list[Any]] = {}
    if isinstance(prediction, Prediction):
        columns["label"] = [class_name(model.classes, label) for label in prediction.labels]
        columns["probabilities"] = prediction.probs.tolist()
        checked = [prediction.probs]
    else:
        columns["mean"] = _numbers(prediction.mean)
        checked = [prediction.mean]
        ends = None
        if prediction.particles is not None and prediction.particles.has_distribution:
            ends = prediction.interval(way.level)
            checked += [ends.lower, ends.upper]
        none: list[Any] = [None] * len(prediction)
        columns["interval"] = none if ends is None else _pairs(ends)
        columns["level"] = [way.level] * len(prediction)
    parts = {}
    for part in PARTS:
        values = getattr(prediction, part)
        columns[part] = _numbers(values)
        parts[part] = values.reshape(len(prediction), -1).mean(1)
        checked.append(values)
    columns["abstain"] = (
        [None] * len(prediction) if doubt.abstain is None else doubt.abstain.tolist()
    )
    columns["score"] = doubt.score.tolist()
    checked.append(doubt.score)
    heading: dict[str, Any] = {}
    if way.particles:
        shown, heading = _particles(model, prediction)
        columns["particles"] = _numbers(shown.transpose(0, 1), outputs_at=2)
    finite = torch.stack([each.isfinite().reshape(len(prediction), -1).all(1) for each in checked])
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    return _Table(rows, heading, finite.all(0), parts, doubt.abstain, doubt.score)


def _particles(model: Served, prediction: EitherPrediction) -> tuple[Tensor, dict[str, Any]]:
    """What each particle says, `(particles, rows, ...)`, and the weights, with a note if cut."""
    samples = prediction.particles
    assert samples is not None
    likelihood, weights = samples.likelihood, samples.weights
    outputs = samples.outputs().double()
    if isinstance(prediction, Prediction):
        says = likelihood.logits(outputs).softmax(-1)
    else:
        says = likelihood.moments(outputs).mean
    heading: dict[str, Any] = {}
    if len(weights) > MOST_PARTICLES:
        largest = weights.argsort(descending=True, stable=True)[:MOST_PARTICLES].sort().values
        note = f"{MOST_PARTICLES} of {len(weights):,} particles are shown, of the largest weights."
        heading["note"] = note
        says, weights = says[largest], weights[largest]
    return says, {"weights": weights.tolist(), **heading}


def _pairs(ends: Interval) -> list[Any]:
    """The ends of the interval of each row, or of each output of each row."""
    pairs = torch.stack(ends, -1)
    return _numbers(pairs) if pairs.ndim > 2 else pairs.tolist()


def _numbers(values: Tensor, outputs_at: int = 1) -> list[Any]:
    """Numbers of each row as a list, without the axis for the outputs if there is only one."""
    if values.ndim > outputs_at and values.shape[outputs_at] == 1:
        values = values.squeeze(outputs_at)
    return values.tolist()
