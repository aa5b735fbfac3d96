"""An ensemble as one writes it without a library: one training by torch after another."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.peers.ours import ENSEMBLE_EPOCHS, LEARNING_RATE, network_of
from benchmarks.peers.protocol import Done, Task, Unit, serve
from benchmarks.peers.torch_models import TorchModel


class PlainTraining:
    """The user's module, `torch.optim.Adam`, autograd; the prior is its weight decay."""

    packages = ("torch",)

    def __init__(self, task: Task) -> None:
        self._model, self._task = TorchModel(task), task
        self.settings: dict[str, Any] = {"members": "one after another"}
        self.check = self._model.check

    def variants(self) -> dict[str, Unit]:
        """Adam as torch makes it by default, and its fused one."""
        return {"adam": self._train, "fused adam": partial(self._train, fused=True)}

    def _train(self, **options: Any) -> Done:
        task, inputs, labels = self._task, self._model.inputs, self._model.labels
        for _ in range(task.serial_particles):
            network = network_of(task)
            optimiser = torch.optim.Adam(
                network.parameters(),
                LEARNING_RATE,
                weight_decay=1 / (task.scale**2 * len(inputs)),
                **options,
            )
            for _ in range(ENSEMBLE_EPOCHS):
                for rows in torch.randperm(len(inputs)).split(task.batch_size):
                    loss = F.cross_entropy(network(inputs[rows]), labels[rows])
                    optimiser.zero_grad()
                    loss.backward()
                    optimiser.step()
        return Done(ENSEMBLE_EPOCHS, task.serial_particles)


if __name__ == "__main__":
    serve(PlainTraining)
