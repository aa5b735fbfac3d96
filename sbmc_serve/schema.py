"""JSON Schema (2020-12) of requests and answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sbmc_serve.limits import Limits
from sbmc_serve.served import CLASSES, Served

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NUMBER: dict[str, Any] = {"type": "number"}
_POSITIVE: dict[str, Any] = {"type": "number", "minimum": 0}


def build_schema(models: Mapping[str, Served], limits: Limits) -> dict[str, Any]:
    """The schema of `/predict`.

    Args:
        models: the posteriors that are served, which are of one kind.
        limits: of the server.

    Returns:
        An object whose `$defs` has `request`, `answer` and `error`.
    """
    first = next(iter(models.values()))
    return {
        "$schema": DIALECT,
        "title": "sbmc serve: POST /predict",
        "$defs": {
            "request": _request(first, list(models), limits),
            "answer": _answer(first, list(models)),
            "error": _error(),
        },
    }


def _request(model: Served, names: list[str], limits: Limits) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "inputs": {
            "description": "Rows to answer for.",
            "type": "array",
            "minItems": 1,
            "maxItems": limits.rows,
            "items": _row(model),
        },
        "model": {"description": "Which posterior is asked.", "enum": names},
        "level": {
            "description": "Of the intervals of numbers.",
            "type": "number",
            "exclusiveMinimum": 0,
            "exclusiveMaximum": 1,
            "default": 0.9,
        },
        "particles": {
            "description": "Whether to add what each particle says.",
            "type": "boolean",
            "default": False,
        },
    }
    return _object(properties, required=["inputs"])


def _row(model: Served) -> dict[str, Any]:
    if model.encoding is None:
        kind = "number" if model.dtype.is_floating_point else "integer"
        row: dict[str, Any] = {"type": kind}
        for size in reversed(model.shape):
            row = {"type": "array", "minItems": size, "maxItems": size, "items": row}
        return row
    cells: dict[str, Any] = {
        column.name: {"enum": list(column.levels)} if column.levels else _NUMBER
        for column in model.encoding.columns
    }
    count = len(cells)
    in_order = {
        "type": "array",
        "prefixItems": list(cells.values()),
        "minItems": count,
        "maxItems": count,
    }
    return {"anyOf": [_object(cells, required=list(cells)), in_order]}


def _answer(model: Served, names: list[str]) -> dict[str, Any]:
    row: dict[str, Any]
    several = model.outputs > 1
    if model.kind == CLASSES:
        probabilities = _list({"type": "number", "minimum": 0, "maximum": 1.0000001}, model.outputs)
        row = {"label": {"enum": model.classes}, "probabilities": probabilities}
        parts, particle = _POSITIVE, probabilities
    else:
        number = _list(_NUMBER, model.outputs) if several else _NUMBER
        pair = _list(_NUMBER, 2)
        pairs = _list(pair, model.outputs) if several else pair
        row = {
            "mean": number,
            "interval": {"anyOf": [pairs, {"type": "null"}]},
            "level": _NUMBER,
        }
        parts, particle = (_list(_POSITIVE, model.outputs) if several else _POSITIVE), number
    row |= dict.fromkeys(("total", "aleatoric", "epistemic"), parts)
    row["abstain"] = {"type": ["boolean", "null"]}
    row["score"] = {"type": ["number", "null"]}
    required = list(row)
    row["particles"] = {"type": "array", "items": particle}
    properties: dict[str, Any] = {
        "model": {"enum": names},
        "predictions": {"type": "array", "items": _object(row, required=required)},
        "weights": {"description": "Of the particles.", "type": "array", "items": _POSITIVE},
        "note": {"description": "Which particles are shown.", "type": "string"},
    }
    return _object(properties, required=["model", "predictions"])


def _error() -> dict[str, Any]:
    text = {"type": "string"}
    names = ("argument", "rule", "value", "remedy")
    error = _object(dict.fromkeys(names, text), required=list(names))
    return _object({"error": error, "message": text}, required=["error", "message"])


def _list(items: dict[str, Any], size: int) -> dict[str, Any]:
    return {"type": "array", "minItems": size, "maxItems": size, "items": items}


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
