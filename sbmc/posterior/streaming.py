"""Predictions of a posterior in batches of examples, and the outputs of its particles.

Outputs of all particles for all inputs are never held together. `predict` adds up some particles of
one batch at a time. Further questions about its prediction compute the outputs of a batch again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from sbmc.checks import BadInput, Phrase, require, require_choice, require_count
from sbmc.model.data import as_inputs, check_inputs, count, leaves, tree_map
from sbmc.model.modes import refuse_modes
from sbmc.model.noise import without_noise
from sbmc.model.predicting import BATCH as PREDICTION_BATCH
from sbmc.model.threads import keep_to_one_thread_after_a_fork
from sbmc.posterior.input_batches import (
    held_inputs,
    input_batches,
    moved,
    use_threads,
    weighted_particles,
)
from sbmc.posterior.prediction_memory import pieces_within
from sbmc.prediction.mixture import mixed_prediction
from sbmc.prediction.prediction import Prediction, RegressionPrediction, concatenate
from sbmc.prediction.samples import KeptOutputs, Samples, rows_at_once
from sbmc.progress import open_progress

if TYPE_CHECKING:
    from sbmc.posterior.posterior import Posterior

# Results of batches are put together when they have this size.
JOIN_BYTES = 64 * 2**20
KEEP = "outputs"


def predict(
    posterior: Posterior,
    inputs: Any,
    *,
    batch_size: int | None = None,
    memory_limit: int | str | None = None,
    progress: bool | None = False,
    keep: str | None = None,
) -> Prediction | RegressionPrediction:
    """The prediction of a posterior; see `Posterior.predict`."""
    refuse_modes("predict", gradients=False)
    if keep is not None:
        require_choice("keep", keep, [KEEP], "'outputs' or left out")
    require_count("batch_size", batch_size, optional=True)
    keep_to_one_thread_after_a_fork()
    inputs = held_inputs(posterior, inputs)
    theta, weights, chosen = weighted_particles(posterior)
    parts: list[Any] = []
    kept: list[Tensor] = []
    most = None
    if memory_limit is not None:
        batch_size, most = pieces_within(posterior, inputs, batch_size, memory_limit)
    total, batches = input_batches(posterior, inputs, batch_size)
    done = joined = 0
    with (
        open_progress(progress, "predicting", total=total, unit="examples") as bar,
        use_threads(posterior, inputs, batch_size or PREDICTION_BATCH),
    ):
        for batch in batches:
            if keep:
                kept.append(posterior.outputs(theta, moved(batch, theta), most, chosen))
                parts.append(mixed_prediction(posterior.likelihood, [(kept[-1], weights)]))
            else:
                parts.append(posterior._predict_batch(weights, chosen, batch, most))
            done += count(batch)
            bar.update(done)
            # Many small results between large temporary arrays prevent the memory of these from
            # being used again: gigabytes with thousands of classes.
            if sum(_bytes(part) for part in parts[joined:]) >= JOIN_BYTES:
                parts[joined:] = [concatenate(parts[joined:])]
                joined += 1
    require(bool(parts), "inputs", "non-empty", Phrase("no batches"))
    particles = None
    if keep:
        known = inputs if isinstance(inputs, Tensor) else None
        source = KeptOutputs(torch.cat(kept, dim=1), known)
        particles = Samples(source, weights, posterior.likelihood)
    elif not isinstance(inputs, DataLoader):
        particles = samples(posterior, inputs, most=most)
    return replace(concatenate(parts), origin=posterior.origin, particles=particles)


def samples(posterior: Posterior, inputs: Any, *, most: int | None = None) -> Samples:
    """The outputs of every particle of positive weight; see `Posterior.samples`.

    Args:
        posterior: what predicts.
        inputs: its inputs.
        most: particles that go through the model together, at most; by rule if None.

    Returns:
        The samples; nothing is computed yet.

    Raises:
        BadInput: inputs are empty, or a `DataLoader`, which may be in another order next time.
    """
    rule = "tensors or arrays: a DataLoader may give other rows, or another order, the next time"
    loader = Phrase("a DataLoader; `predict(loader, keep='outputs')` goes through it once")
    require(not isinstance(inputs, DataLoader | IterableDataset), "inputs", rule, loader)
    inputs = held_inputs(posterior, inputs)
    weights = weighted_particles(posterior).weights
    return Samples(RecomputedOutputs(posterior, inputs, most), weights, posterior.likelihood)


class RecomputedOutputs:
    """Outputs of a posterior's particles, computed each time they are asked for.

    It holds the inputs as they were given, not a copy, and notices if torch changed them since.

    Args:
        posterior: what predicts.
        inputs: its inputs.
        most: particles that go through the model together, at most; by rule if None.
    """

    def __init__(self, posterior: Posterior, inputs: Any, most: int | None = None) -> None:
        self._posterior, self._inputs, self._most = posterior, inputs, most
        self._origin = posterior.origin
        self._versions = _versions(inputs)
        everything = as_inputs(inputs)
        check_inputs(everything, "inputs", finite=False)
        self._examples = count(everything)

    def __len__(self) -> int:
        return self._examples

    def inputs(self, index: Tensor | None) -> Any:
        """The inputs at an index, or all of them as they were given."""
        self._require_unchanged()
        if index is None:
            return self._inputs
        return tree_map(lambda t: t[index.to(t.device)], as_inputs(self._inputs))

    def batches(self, index: Tensor | None) -> Iterator[Tensor]:
        """Outputs of all particles, as many examples at a time as can be held."""
        keep_to_one_thread_after_a_fork()
        posterior, inputs = self._posterior, self.inputs(index)
        theta, weights, chosen = weighted_particles(posterior)
        one = moved(next(input_batches(posterior, inputs, 1)[1]), theta)
        values = posterior.outputs(theta[:1], one).numel() * len(weights)
        size = min(posterior._predictor_for(one)[0].batch, rows_at_once(values))
        for batch in input_batches(posterior, inputs, size)[1]:
            with use_threads(posterior, inputs, size):
                outputs = posterior.outputs(theta, moved(batch, theta), self._most, chosen)
            yield outputs

    def _require_unchanged(self) -> None:
        remedy = "Predict again, or keep what particles predict: `predict(x, keep='outputs')`."
        changed = self._versions != _versions(self._inputs)
        if changed or self._origin != self._posterior.origin:
            what = "inputs" if changed else "posterior"
            raise BadInput(
                f"`prediction` must be asked before its {what} change, but got one whose {what} "
                f"have changed since. {remedy}"
            )


def models(posterior: Posterior) -> Iterator[tuple[nn.Module, float]]:
    """A module for each particle of positive weight, and its weight; see `Posterior.models`."""
    theta, weights, chosen = weighted_particles(posterior)
    indices = range(len(theta)) if chosen is None else chosen.tolist()
    for index, weight in zip(indices, weights.tolist(), strict=True):
        module = copy.deepcopy(posterior.model).to(theta.device, posterior.dtype)
        posterior.space.write(theta[index].to(posterior.dtype), module)
        yield without_noise(module).eval(), weight


def _versions(inputs: Any) -> list[int]:
    """How often torch has written into each tensor of the inputs; arrays do not count it."""
    return [0 if t.is_inference() else t._version for t in leaves(as_inputs(inputs))]


def _bytes(prediction: Prediction | RegressionPrediction) -> int:
    """Bytes of the largest part of a prediction."""
    return prediction.mean.nbytes
