"""Checks the contents of a saved posterior before anything is made of them.

A digest shows that a file is as it was written. It does not show who wrote it. These checks refuse
manipulated files, and those of other programs, with a message.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from sbmc.checks import Phrase, is_whole, require
from sbmc.islands.cost import Cost
from sbmc.islands.island import IslandReport
from sbmc.likelihoods.choice import DESCRIBED, from_description
from sbmc.posterior.weights import STACKED, WEIGHTINGS, island_weights
from sbmc.storage.files import mismatch

# How far weights that sum to 1 may be from it: float64, and types with fewer digits.
SUM_TOLERANCES = {torch.float64: 1e-6}
COARSE_SUM_TOLERANCE = 1e-2


def check_contents(metadata: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str) -> None:
    """Refuse contents that no posterior can have.

    Args:
        metadata: names, shapes, reports and settings.
        tensors: positions, weights and evidence among them.
        where: the file, for the message.

    Raises:
        BadInput: the message says which part is wrong.
    """

    def need(condition: bool, rule: str, value: object) -> None:
        remedy = "save the posterior again with this version of sbmc, or take another copy"
        got = Phrase(f"{where!r} with {_short(value)}; {remedy}")
        require(condition, "path", f"a posterior file with {rule}", got)

    names, shapes = metadata.get("names"), metadata.get("shapes")
    good = isinstance(names, list) and all(isinstance(name, str) for name in names)
    need(good and len(set(names or ())) == len(names or ()), "names of parameters", names)
    good = isinstance(shapes, list) and len(shapes) == len(names or ())
    need(good and all(map(_is_shape, shapes or ())), "a shape for each parameter", shapes)
    for name, kind in (("settings", dict), ("model", str)):
        good = isinstance(metadata.get(name), kind)
        need(good, f"{name} in its metadata", metadata.get(name))
    _check_settings(metadata["settings"], need)
    likelihood = metadata.get("likelihood")
    named = isinstance(likelihood, dict) and likelihood.get("name") in DESCRIBED
    need(named, f"a likelihood, one of {', '.join(DESCRIBED)}", likelihood)
    try:
        complete = from_description(metadata["likelihood"]).describe() == likelihood
    except (TypeError, ValueError):
        complete = False
    need(complete, "a likelihood with its settings", likelihood)
    good = metadata.get("weighting") in (*WEIGHTINGS, STACKED)
    need(good, f"a weighting, one of {', '.join(WEIGHTINGS)}", metadata.get("weighting"))
    wrong = mismatch(Cost, metadata.get("cost"))
    need(not wrong, "a cost", Phrase(f"a cost where {wrong}"))
    reports = metadata.get("islands")
    need(isinstance(reports, list) and bool(reports), "a report for each island", reports)
    for report in reports or ():
        wrong = mismatch(IslandReport, report)
        need(not wrong, "a report for each island", Phrase(f"a report where {wrong}"))

    dim = sum(math.prod(shape) for shape in shapes or ())
    positions = tensors["positions"]
    good = positions.ndim == 3 and positions.is_floating_point() and positions.numel() > 0
    rule = f"positions of shape (islands, particles, {dim}), real numbers"
    need(good and positions.shape[-1] == dim, rule, _described(positions))
    need(bool(torch.isfinite(positions).all()), "finite positions", Phrase("NaN or infinity"))
    completed = sum(report["outcome"] == "completed" for report in reports or ())
    rule = "positions of every island that completed"
    need(completed == len(positions), rule, Phrase(f"{len(positions)} for {completed} islands"))
    check_weights(positions, tensors["within"], tensors["log_evidence"], need)
    weighted = metadata["weighting"], tensors["log_evidence"], tensors["within"]
    total = island_weights(weighted[1], weighted[2], weighted[0])
    good = bool(torch.isfinite(total).all())
    need(good, "an evidence by which islands can be weighted", tensors["log_evidence"].tolist())


def check_weights(positions: Tensor, within: Tensor, log_evidence: Tensor, need: Any) -> None:
    """Refuse weights that are negative or NaN, or do not sum to 1 inside an island.

    Args:
        positions: `(islands, particles, dim)`.
        within: should be `(islands, particles)`, every row summing to 1.
        log_evidence: should be `(islands,)`.
        need: `(condition, rule, value)`: raises an error if the condition is false.
    """
    shape = tuple(positions.shape[:2])
    good = tuple(within.shape) == shape and within.is_floating_point()
    need(good, f"weights of shape {shape}, real numbers", _described(within))
    # Written so that NaN is refused as well.
    least = float(within.min())
    need(least >= 0, "weights of at least 0", Phrase(f"a weight of {least}"))
    tolerance = SUM_TOLERANCES.get(within.dtype, COARSE_SUM_TOLERANCE)
    sums = within.double().sum(1)
    worst = float(sums[(sums - 1).abs().argmax()])
    good = bool(((sums - 1).abs() <= tolerance).all())
    need(good, "weights that sum to 1 in every island", Phrase(f"a sum of {worst}"))
    good = tuple(log_evidence.shape) == shape[:1] and log_evidence.is_floating_point()
    need(good, f"a log evidence of shape {shape[:1]}", _described(log_evidence))
    good = bool((log_evidence < math.inf).all())
    need(good, "a log evidence below infinity", log_evidence.tolist())


def _check_settings(settings: Mapping[str, Any], need: Any) -> None:
    for name in ("particles", "islands", "anchors"):
        value = settings.get(name, 1)
        need(is_whole(value) and value >= 1, f"settings.{name}, a positive integer", value)
    for name in ("identity", "probe"):
        value = settings.get(name, {})
        need(isinstance(value, dict), f"settings.{name}, an object", value)
    if "store_dtype" in settings:
        value = settings.get("dtype")
        need(isinstance(value, str), "settings.dtype, the name of a torch.dtype", value)


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(is_whole(size) and size >= 0 for size in value)


def _described(tensor: Tensor) -> Phrase:
    return Phrase(f"shape {tuple(tensor.shape)} of {tensor.dtype}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
