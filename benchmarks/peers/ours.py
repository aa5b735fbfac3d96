"""sbmc itself, by the steps that its samplers take."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.peers.protocol import Done, Task, Unit, serve
from benchmarks.transformer import Transformer
from benchmarks.workloads import regression_network, strided_network, users_target
from sbmc.model.data import Examples
from sbmc.model.threads import threads_for
from sbmc.samplers import HMC, SGHMC, SMC
from sbmc.samplers.noise import IslandNoise
from sbmc.target.memory_needs import multiplications
from sbmc.target.minibatch import LEAST_WORK
from sbmc.training import train_ensemble
from sbmc_studies.experiments.networks import paper_cnn

# Passes over the data in a unit of work.
PASSES, ENSEMBLE_EPOCHS = 2, 10
LEARNING_RATE = 1e-3
# Of the samplers on mini-batches.
NOISE = "philox"


def network_of(task: Task) -> nn.Module:
    """The module that a user would bring, with the task's frozen weights if it has any."""
    shapes, inputs = task.shapes, task.arrays["inputs"].shape
    network: nn.Module
    if task.kind == "cnn":
        network = paper_cnn(inputs[1:], shapes[-1][0])
    elif task.kind == "strided":
        network = strided_network(inputs[-1])
    elif task.kind == "linear":
        network = nn.Sequential(nn.Linear(inputs[1], shapes[0][0]))
    elif task.kind == "mlp":
        hidden, classes = shapes[0][0], shapes[2][0]
        network = nn.Sequential(nn.Linear(inputs[1], hidden), nn.ReLU(), nn.Linear(hidden, classes))
    elif task.kind == "regression":
        width, features = shapes[0]
        network = regression_network(features, width, len(shapes) // 2 - 1)
    else:
        frozen, (rank, width) = task.frozen, shapes[0]
        sizes = len(frozen["tokens"]), inputs[1], width, rank, shapes[-1][0], task.heads
        network = Transformer(*sizes)
        with torch.no_grad():
            for name, buffer in network.frozen().items():
                buffer.copy_(torch.from_numpy(frozen[name]))
    return network


class Ours:
    """The target with its own choice of path, and the sampler's own steps."""

    packages = ("torch",)

    def __init__(self, task: Task) -> None:
        torch.set_num_threads(task.threads)
        self._task = task
        data = Examples(
            torch.from_numpy(task.arrays["inputs"]), torch.from_numpy(task.arrays["labels"])
        )
        self._network = network_of(task)
        self._target = users_target(self._network, data, task.likelihood)
        self._start = torch.from_numpy(task.arrays["start"])
        self._noise = IslandNoise([torch.Generator().manual_seed(0)], task.particles)
        self.settings: dict[str, Any] = {
            "path": self._target.engine.path,
            "chunks": vars(self._target.engine.chunks),
        }
        if task.algorithm == "sghmc":
            self.settings["noise"] = NOISE

    def check(self, probe: np.ndarray) -> tuple[Any, Any]:
        """Log posterior and gradient at the probes: the prior's part is the sampler's."""
        z = torch.from_numpy(probe)
        found = self._target(z)
        values = found.log_likelihood - z.double().square().sum(-1) / 2
        return values.numpy(), (found.gradient - z).numpy()

    @property
    def evaluations(self) -> int:
        """Epochs of single particles so far, with gradient."""
        return self._target.evaluations.gradient

    def variants(self) -> dict[str, Unit]:
        """One: what to do is the engine's choice."""
        units = {
            "hmc": self._hmc,
            "smc": self._smc,
            "sghmc": self._sghmc,
            "ensemble": self._ensemble,
        }
        unit = units[self._task.algorithm]

        def with_threads() -> Done:
            with self._threads():
                return unit()

        return {self._target.engine.path: with_threads}

    def _threads(self) -> AbstractContextManager[None]:
        """As many threads as `fit` uses for such work; training sees to that itself."""
        task, engine = self._task, self._target.engine
        if task.algorithm == "ensemble":
            return nullcontext()
        batches = task.algorithm == "sghmc"
        rows = task.batch_size if batches else len(engine.examples)
        work = multiplications(engine.examples.inputs, rows, self._start.numel())
        small = 2 * LEAST_WORK if batches else None
        return threads_for(work, self._start.numel(), apart=engine.shareable, small=small)

    def _hmc(self) -> Done:
        task = self._task
        kernel = HMC(leapfrog=task.leapfrog)
        if not hasattr(self, "_state"):
            self._state = kernel.begin(self._start, self._target)
        for _ in range(task.transitions):
            self._state, _, _ = kernel.advance(
                self._noise,
                self._state,
                self._target,
                step_sizes=[task.step_size],
                temperature=torch.ones(1, dtype=torch.float64),
            )
        return Done(task.transitions * task.leapfrog, task.particles)

    def _smc(self) -> Done:
        task = self._task
        move = HMC(leapfrog=task.leapfrog, step_size=task.step_size, adapt=False)
        settings = SMC(mutations=task.mutations, move=move, most_temperatures=task.temperatures)
        (run,) = settings.run(self._target, self._noise, self._start)
        # Fewer temperatures only where the data say so little that the posterior is reached.
        return Done(run.steps * task.mutations * task.leapfrog, task.particles)

    def _sghmc(self) -> Done:
        task = self._task
        passes = PASSES * task.transitions  # many where they take no time
        sizes = {"batch_size": task.batch_size, "step_size": task.step_size}
        settings = SGHMC(epochs=passes, noise=NOISE, **sizes)
        settings.run(self._target, self._noise, self._start)
        return Done(passes, task.particles)

    def _ensemble(self) -> Done:
        task, examples = self._task, self._target.engine.examples
        train_ensemble(
            self._network,
            (examples.inputs, examples.targets),
            members=task.particles,
            prior_variance=task.scale**2,
            learning_rate=LEARNING_RATE,
            batch_size=task.batch_size,
            max_epochs=ENSEMBLE_EPOCHS,
            progress=False,
        )
        return Done(ENSEMBLE_EPOCHS, task.particles)


if __name__ == "__main__":
    serve(Ours)
