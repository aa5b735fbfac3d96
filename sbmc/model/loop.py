"""One particle after another: for models that nothing else can run."""

from __future__ import annotations

from torch import Tensor

from sbmc.model.data import Inputs
from sbmc.model.functional import CopiedModel


class LoopForward(CopiedModel):
    """A model's outputs for a batch of parameter vectors, one call for each.

    The model is called as its author wrote it, so data-dependent control flow and `.item()` are
    fine. It runs in evaluation mode, with its own buffers and frozen parameters, on a copy of it
    made once.

    Args:
        model: the network; never changed.
        space: which of its parameters the vectors stand for.

    Examples:
        >>> import torch
        >>> from sbmc.model.parameters import select_parameters
        >>> net = torch.nn.Linear(3, 2)
        >>> forward = LoopForward(net, select_parameters(net))
        >>> forward(torch.zeros(10, 8), torch.ones(5, 3)).shape
        torch.Size([10, 5, 2])
    """

    path = "loop"

    def __call__(self, theta: Tensor, inputs: Inputs, *, stacked: bool = False) -> Tensor:
        """Evaluate every particle; differentiable in `theta`.

        Args:
            theta: parameters `(particles, dim)`.
            inputs: `(examples, ...)`, the same for all particles; or `(particles, examples, ...)`.
            stacked: whether the inputs have the particle axis.

        Returns:
            Outputs `(particles, examples, ...)`.
        """
        return self._one_after_another(theta, inputs, stacked)
