"""When only the final layer is sampled, the rest of the model is a fixed map to features.

The features are then computed once, and the sampler sees a linear layer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.log import logger
from sbmc.model.data import Inputs, count, rows
from sbmc.model.functional import call_model, evaluation_copy
from sbmc.model.outputs import as_logits
from sbmc.model.parameters import ParameterSpace
from sbmc.model.threads import Lock

BODY_BATCH = 256
PROBE_EXAMPLES = 2


@dataclass(frozen=True)
class SplitModel:
    """A model cut in front of its final layer.

    Args:
        model: an evaluation-mode copy of the whole model.
        head: the final layer.
        space: the sampled parameters, by their names in the head.
    """

    model: nn.Module
    head: nn.Module
    space: ParameterSpace
    # A hook on the one copy sees what all threads call.
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def features(self, inputs: Inputs) -> Tensor:
        """What the final layer is given, `(examples, ...)`, in batches and without gradients."""
        parts = []
        for start in range(0, count(inputs), BODY_BATCH):
            with torch.no_grad(), self._lock:
                seen, _ = _watch(self.model, self.head, rows(inputs, start, start + BODY_BATCH))
            parts.append(seen[0][0][0])
        return torch.cat(parts)


def split_model(model: nn.Module, space: ParameterSpace, inputs: Inputs) -> SplitModel | None:
    """Cut `model` in front of the layer that holds all sampled parameters, if it is the final one.

    Args:
        model: the network; never changed.
        space: the sampled parameters.
        inputs: a few examples to try it on.

    Returns:
        The split, or None if the sampled parameters are not one layer, another layer shares them,
        the layer is not called exactly once with one tensor, or its output is not the model's.
    """
    owners = {name.rpartition(".")[0] for name in space.names}
    if len(owners) != 1 or "" in owners or _shared(model, space):
        return None
    copied = evaluation_copy(model, ParameterSpace((), ()))
    layer = owners.pop()
    head = copied.get_submodule(layer)
    own = ParameterSpace(tuple(name.rpartition(".")[2] for name in space.names), space.shapes)
    probe = rows(inputs, 0, PROBE_EXAMPLES)
    with torch.no_grad():
        calls, output = _watch(copied, head, probe)
    if len(calls) != 1:
        return None
    (arguments, keywords, returned) = calls[0]
    plain = len(arguments) == 1 and not keywords and isinstance(arguments[0], Tensor)
    if not plain or returned is not output or len(arguments[0]) != count(probe):
        return None
    with torch.no_grad():
        # Features or outputs that the model changed in place, after the layer, would show here.
        again = head(arguments[0])
    if not torch.allclose(again, output, rtol=1e-3, atol=1e-6, equal_nan=True):
        return None
    logger.debug("features in front of %r are computed once", layer)
    return SplitModel(copied, head, own)


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
