"""All particles at once by `torch.func.vmap`: for any model made of ordinary tensor operations."""

from __future__ import annotations

from torch import Tensor
from torch.func import vmap

from sbmc.model.data import Inputs
from sbmc.model.fallbacks import without_fallback_warnings
from sbmc.model.functional import CopiedModel, call_model
from sbmc.model.recorder import without_shortcuts


class VmapForward(CopiedModel):
    """A model's outputs for a batch of parameter vectors, vectorised over the particles.

    The model runs in evaluation mode, with its own buffers and frozen parameters, on a copy of it
    made once. Models that draw random numbers in evaluation mode are refused by torch, since the
    likelihood must be a function of the parameters. Models whose Python code looks at values that
    depend on the parameters (`if x.sum() > 0`, `.item()`) cannot be vectorised: see `LoopForward`.
    Code that looks at the inputs alone, as Hugging Face's does to see whether a mask has zeros, can
    be, as long as all particles have the same inputs; with inputs of their own they are evaluated
    one after another.

    Args:
        model: the network; never changed.
        space: which of its parameters the vectors stand for.

    Examples:
        >>> import torch
        >>> from sbmc.model.parameters import select_parameters
        >>> net = torch.nn.Linear(3, 2)
        >>> forward = VmapForward(net, select_parameters(net))
        >>> forward(torch.zeros(10, 8), torch.ones(5, 3)).shape
        torch.Size([10, 5, 2])
    """

    path = "vmap"
    _looks_at_inputs = False

    def __call__(self, theta: Tensor, inputs: Inputs, *, stacked: bool = False) -> Tensor:
        """Evaluate every particle; differentiable in `theta`.

        Args:
            theta: parameters `(particles, dim)`.
            inputs: `(examples, ...)`, the same for all particles; or `(particles, examples, ...)`.
            stacked: whether the inputs have the particle axis.

        Returns:
            Outputs `(particles, examples, ...)`.
        """

        def one(parameters: dict[str, Tensor], batch: Inputs) -> Tensor:
            return call_model(self._module, parameters, batch)

        each = vmap(one, in_dims=(0, 0 if stacked else None), randomness="error")
        if not (stacked and self._looks_at_inputs):
            try:
                # `vmap` hides that gradients are wanted, by which attention layers would know.
                with self._module_lock, without_shortcuts(), without_fallback_warnings():
                    return each(self.space.split(theta), inputs)
            except RuntimeError as error:
                if not (stacked and "data-dependent control flow" in str(error)):
                    raise
            self._looks_at_inputs = True
        with without_shortcuts():
            return self._one_after_another(theta, inputs, stacked)
