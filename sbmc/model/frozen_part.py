"""What no sampled parameter touches is a fixed map to features, and computed once.

Where the sampled parameters are those of the final layer, whatever is in front of it need not even
be recorded: the layer is watched, and the features are what it is given. Elsewhere the model is
recorded and cut below its first sampled parameter (`sbmc.model.cutting`). Either way the sampler
sees a smaller model, whose inputs are the features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.log import logger
from sbmc.model.cutting import TopPart, bottom_part, find_cut
from sbmc.model.data import Inputs, count, leaves, rows, tree_map
from sbmc.model.functional import call_model, evaluation_copy
from sbmc.model.layers import find_adjusted
from sbmc.model.outputs import as_logits
from sbmc.model.parameters import ParameterSpace, named_tensors
from sbmc.model.recorder import record
from sbmc.model.recording import Unsupported
from sbmc.model.threads import Lock
from sbmc.storage.mapped import mapped_tensor

BODY_BATCH = 256
PROBE_EXAMPLES = 2
# Features that take more than this are written to a file, and read from it as they are needed.
MOST_IN_MEMORY = 2**30


@dataclass(frozen=True)
class SplitModel:
    """A model cut below its sampled parameters.

    Args:
        model: an evaluation-mode copy of the whole model.
        head: what is above the cut, a module of the features.
        space: the sampled parameters, by their names in the head.
        body: gives the features of a batch.
        name: where the cut is, in words.
    """

    model: nn.Module
    head: nn.Module
    space: ParameterSpace
    body: Callable[[Inputs], Inputs]
    name: str
    # The one copy of a model, and a hook on it, serve one thread at a time.
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def features(self, inputs: Inputs, *, on_disk: bool = False) -> Inputs:
        """What crosses the cut, in batches and without gradients.

        Args:
            inputs: of the whole model.
            on_disk: whether to keep them in a file that is mapped into memory, without a name and
                gone with the tensors. It is in the folder for temporary files (`TMPDIR`).

        Returns:
            One tensor `(examples, ...)`, or a tuple of them.
        """
        examples = count(inputs)
        made: Inputs | None = None
        for start in range(0, examples, BODY_BATCH):
            with torch.no_grad(), self._lock:
                part = self.body(rows(inputs, start, start + BODY_BATCH))
            if examples <= BODY_BATCH and not on_disk:
                return part
            if made is None:
                made = tree_map(lambda t: _room(t, examples, on_disk), part)
            for whole, some in zip(leaves(made), leaves(part), strict=True):
                whole[start : start + len(some)] = some
        assert made is not None
        return made


def _room(like: Tensor, examples: int, on_disk: bool) -> Tensor:
    """An empty tensor for so many examples."""
    shape = examples, *like.shape[1:]
    if not on_disk or like.device.type != "cpu":
        return like.new_empty(shape)
    return mapped_tensor(shape, like.dtype)


def split_model(model: nn.Module, space: ParameterSpace, inputs: Inputs) -> SplitModel | None:
    """Cut `model` below its sampled parameters, where that saves work.

    Args:
        model: the network; never changed.
        space: the sampled parameters.
        inputs: a few examples to try it on.

    Returns:
        The split, or None if there is no work below the sampled parameters, or the model cannot be
        recorded, for a reason that is logged.
    """
    probe = rows(inputs, 0, PROBE_EXAMPLES)
    if set(space.names) >= {name for name, _ in model.named_parameters()} and not _has_buffers(
        model
    ):
        return None  # everything is sampled
    split = _last_layer(model, space, probe)
    if split is None:
        split = _anywhere(model, space, probe)
    if split is not None:
        logger.info("what is below %s is computed once", split.name)
    return split


def _has_buffers(model: nn.Module) -> bool:
    """Whether there are weights that are no parameters."""
    return any(buffer.ndim > 1 for buffer in model.buffers())


def _anywhere(model: nn.Module, space: ParameterSpace, probe: Inputs) -> SplitModel | None:
    try:
        recording = record(model, space, probe)
        cut = find_cut(recording)
    except Unsupported as error:
        logger.info("the frozen part is computed at every step (%s)", error)
        return None
    # A kernel of its own takes the frozen layer and its adjustment in one go. Cut apart, they would
    # be two inputs, for which there is no kernel.
    if cut is None or find_adjusted(recording) is not None:
        return None
    copied = evaluation_copy(model, ParameterSpace((), ()))
    values = named_tensors(copied)
    head = TopPart(cut, {name: values[name] for name in space.names})
    bottom = bottom_part(cut)

    def body(batch: Inputs) -> Inputs:
        made = bottom({}, leaves(batch))
        return made[0] if len(made) == 1 else tuple(made)

    split = SplitModel(copied, head, head.space, body, f"{space.names[0]!r}")
    reason = _difference(split, space, probe)
    if reason:
        logger.info("the frozen part is computed at every step (%s)", reason)
        return None
    return split


def _difference(split: SplitModel, space: ParameterSpace, probe: Inputs) -> str:
    """Why the head on features is not the model, in words; nothing if it is."""
    theta = space.flatten(split.model)
    wave = torch.arange(len(theta), device=theta.device).sin().to(theta.dtype)
    features = split.features(probe)
    with torch.no_grad():
        for point in (theta, theta + 0.1 * (theta.abs().mean() + 0.1) * wave):
            expected = call_model(split.model, space.split(point), probe)
            found = call_model(split.head, split.space.split(point), features)
            scale = float(expected.nan_to_num().abs().max())
            if found.shape != expected.shape or not torch.allclose(
                found, expected, rtol=1e-3, atol=1e-4 * scale + 1e-6, equal_nan=True
            ):
                return "the part above the cut gives something else"
    return ""


def _last_layer(model: nn.Module, space: ParameterSpace, probe: Inputs) -> SplitModel | None:
    """Cut in front of the layer that holds all sampled parameters, if it is the final one.

    None if the sampled parameters are not one layer, another layer shares them, the layer is not
    called exactly once with one tensor, or its output is not the model's.
    """
    owners = {name.rpartition(".")[0] for name in space.names}
    if len(owners) != 1 or "" in owners or _shared(model, space):
        return None
    copied = evaluation_copy(model, ParameterSpace((), ()))
    layer = owners.pop()
    head = copied.get_submodule(layer)
    own = ParameterSpace(tuple(name.rpartition(".")[2] for name in space.names), space.shapes)
    with torch.no_grad():
        calls, output = _watch(copied, head, probe)
    if len(calls) != 1:
        return None
    arguments, keywords, returned = calls[0]
    plain = len(arguments) == 1 and not keywords and isinstance(arguments[0], Tensor)
    if not plain or returned is not output or len(arguments[0]) != count(probe):
        return None
    with torch.no_grad():
        # Features or outputs that the model changed in place, after the layer, would show here.
        again = head(arguments[0])
    if not torch.allclose(again, output, rtol=1e-3, atol=1e-6, equal_nan=True):
        return None

    def body(batch: Inputs) -> Inputs:
        seen, _ = _watch(copied, head, batch)
        features: Tensor = seen[0][0][0]
        return features

    return SplitModel(copied, head, own, body, f"{layer!r}")


def _shared(model: nn.Module, space: ParameterSpace) -> bool:
    """Whether two layers share a sampled parameter: the body may then depend on it."""
    owners: dict[int, set[int]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        layer = model.get_submodule(name.rpartition(".")[0])
        owners.setdefault(id(parameter), set()).add(id(layer))
    named = dict(model.named_parameters())
    return any(len(owners[id(named[name])]) > 1 for name in space.names if name in named)


def _watch(model: nn.Module, layer: nn.Module, inputs: Inputs) -> tuple[list[Any], Tensor]:
    """Call the model; return the calls that its layer received, and the model's output."""
    calls: list[Any] = []

    def note(_: nn.Module, arguments: Any, keywords: Any, output: Any) -> None:
        calls.append((arguments, keywords, output))

    handle = layer.register_forward_hook(note, with_kwargs=True)
    try:
        return calls, as_logits(call_model(model, {}, inputs))
    finally:
        handle.remove()
