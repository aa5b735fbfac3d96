"""What one writes without a library: HMC by autograd, one particle after another."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benchmarks.peers.protocol import Done, Task, Unit, serve
from benchmarks.peers.torch_models import TorchModel


class PlainTorch:
    """A loop over particles and leapfrog steps."""

    packages = ("torch",)

    def __init__(self, task: Task) -> None:
        self._model, self._task = TorchModel(task), task
        self.settings: dict[str, Any] = {"chains": "one after another"}
        self.check = self._model.check
        starts = self._model.start[: task.serial_particles]
        self._states = [(z.clone(), *self._evaluate(z)) for z in starts]

    def _evaluate(self, z: Tensor) -> tuple[Tensor, Tensor]:
        z = z.clone().requires_grad_()
        value = self._model.log_posterior(z)
        return value.detach(), torch.autograd.grad(value, z)[0]

    def _move(self, state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        z, value, gradient = state
        size, momentum = self._task.step_size, torch.randn_like(z)
        energy = momentum @ momentum / 2 - value
        for _ in range(self._task.leapfrog):
            momentum = momentum + size / 2 * gradient
            z = z + size * momentum
            value, gradient = self._evaluate(z)
            momentum = momentum + size / 2 * gradient
        difference = energy - (momentum @ momentum / 2 - value)
        return (z, value, gradient) if torch.rand(()).log() < difference else state

    def _unit(self) -> Done:
        for _ in range(self._task.transitions):
            self._states = [self._move(state) for state in self._states]
        return Done(self._task.transitions * self._task.leapfrog, len(self._states))

    def variants(self) -> dict[str, Unit]:
        """One."""
        return {"loop": self._unit}


if __name__ == "__main__":
    serve(PlainTorch)
