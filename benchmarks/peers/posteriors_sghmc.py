"""SGHMC of `posteriors`: particles by `torch.vmap`, or one after another."""

from __future__ import annotations

from typing import Any

import posteriors
import torch
from torch import Tensor

from benchmarks.peers.protocol import Done, Task, Unit, serve
from benchmarks.peers.torch_models import TorchModel


class PosteriorsSGHMC:
    """One pass over the data in batches; with `vmap` all particles see the same batch."""

    packages = ("torch", "posteriors")

    def __init__(self, task: Task) -> None:
        torch.manual_seed(0)
        self._model, self._task = TorchModel(task), task
        self.check = self._model.check
        self.settings: dict[str, Any] = {"batch_size": task.batch_size, "alpha": 3.0}
        self._transform = posteriors.sgmcmc.sghmc.build(
            self._estimate, lr=task.step_size, alpha=3.0
        )

    def _estimate(self, z: Tensor, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        inputs, labels = batch
        weight = len(self._model.inputs) / len(inputs)
        value = weight * self._model.log_likelihood(z, inputs, labels) - z @ z / 2
        return value, torch.zeros(())

    def variants(self) -> dict[str, Unit]:
        """All particles as one batch, or one after another."""
        return {"vmap": self._by_vmap(), "loop": self._by_loop()}

    def _batches(self) -> list[tuple[Tensor, Tensor]]:
        model, order = self._model, torch.randperm(len(self._model.inputs))
        parts = order.split(self._task.batch_size)
        return [(model.inputs[part], model.labels[part]) for part in parts]

    def _by_vmap(self) -> Unit:
        update = torch.vmap(self._transform.update, in_dims=(0, None), randomness="different")
        state = torch.vmap(self._transform.init, randomness="different")(self._model.start)
        holder = {"state": state}

        def unit() -> Done:
            for batch in self._batches():
                holder["state"], _ = update(holder["state"], batch)
            return Done(1, self._task.particles)

        return unit

    def _by_loop(self) -> Unit:
        starts = self._model.start[: self._task.serial_particles]
        states = [self._transform.init(z.clone()) for z in starts]

        def unit() -> Done:
            for index, state in enumerate(states):
                for batch in self._batches():
                    state, _ = self._transform.update(state, batch)
                states[index] = state
            return Done(1, len(states))

        return unit


if __name__ == "__main__":
    serve(PosteriorsSGHMC)
