"""Calling a module with other parameters than its own, without touching the user's module."""

from __future__ import annotations

import copy
from operator import itemgetter

import torch
from torch import Tensor, nn
from torch.func import functional_call

from sbmc.model.data import Inputs, tree_map
from sbmc.model.outputs import as_logits
from sbmc.model.parameters import ParameterSpace
from sbmc.model.threads import Lock


def evaluation_copy(model: nn.Module, space: ParameterSpace) -> nn.Module:
    """Copy a module, in evaluation mode and without gradients, for calls with other parameters.

    Frozen parameters and buffers are copied: the user may go on training the module, and results
    must not move with it. The parameters of `space` share the module's memory: they are replaced in
    every call, never read, never written, and often most of the model.

    Args:
        model: the user's module; its mode, buffers and gradients stay as they are.
        space: the parameters that every call replaces.

    Returns:
        The copy.
    """
    replaced = set(space.names)
    shared = {
        id(parameter): nn.Parameter(parameter.detach(), requires_grad=False)
        for name, parameter in model.named_parameters()
        if name in replaced
    }
    # What stands in the memo is taken as already copied. Tied weights stay tied.
    return copy.deepcopy(model, dict(shared)).eval().requires_grad_(False)


def call_model(module: nn.Module, parameters: dict[str, Tensor], inputs: Inputs) -> Tensor:
    """Call `module` with `parameters` in place of its own of the same names.

    Args:
        module: the module; only what `parameters` leaves out is read from it.
        parameters: names and values; a name stands for every place that a tied weight is used.
        inputs: a tensor (the one argument), a tuple (positional) or a dict (keyword arguments).

    Returns:
        The output, `(examples, ...)`.
    """
    if isinstance(inputs, dict):
        return as_logits(functional_call(module, parameters, (), inputs))
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    return as_logits(functional_call(module, parameters, arguments))


def converted(model: nn.Module, dtype: torch.dtype, device: torch.device) -> nn.Module:
    """The model itself, or a copy if its weights are of another type or elsewhere."""
    if all(p.dtype == dtype and p.device == device for p in model.parameters()):
        return model
    return copy.deepcopy(model).to(device, dtype)


class CopiedModel:
    """What paths that call the module as it is have in common: a copy of it, and inputs left alone.

    Args:
        model: the network; never changed.
        space: which of its parameters the vectors stand for.
    """

    one_by_one = False

    def __init__(self, model: nn.Module, space: ParameterSpace) -> None:
        self.space = space
        self._module = evaluation_copy(model, space)
        # A call puts a particle's weights into the copy, of which there is one.
        self._module_lock = Lock()

    def prepare(self, inputs: Inputs) -> Inputs:
        """The inputs as they are."""
        return inputs

    def prepared_bytes(self, inputs: Inputs) -> int:
        """Nothing is prepared."""
        return 0

    def _one_after_another(self, theta: Tensor, inputs: Inputs, stacked: bool) -> Tensor:
        """Outputs `(particles, examples, ...)`, one call of the module for each particle."""
        outputs = []
        for particle, row in enumerate(theta.unbind()):
            batch = tree_map(itemgetter(particle), inputs) if stacked else inputs
            with self._module_lock:
                outputs.append(call_model(self._module, self.space.split(row), batch))
        return torch.stack(outputs)
