"""Pyro's HMC, one chain after another."""

from __future__ import annotations

import warnings
from typing import Any

import pyro
import torch
from pyro.infer.mcmc import HMC

from benchmarks.peers.protocol import Done, Task, Unit, serve
from benchmarks.peers.torch_models import TorchModel


class PyroHMC:
    """The kernel itself on a potential function: no model to trace, no progress bar, no adaptation.

    A Pyro model with sample statements computes the same, and more around it.
    """

    packages = ("torch", "pyro-ppl")

    def __init__(self, task: Task) -> None:
        pyro.set_rng_seed(0)
        pyro.enable_validation(False)
        self._model, self._task = TorchModel(task), task
        self.check = self._model.check
        self.settings: dict[str, Any] = {
            "chains": "one after another",
            "interface": "potential_fn on one flat vector",
            "adaptation": "none",
            "validation": "off",
        }

    def variants(self) -> dict[str, Unit]:
        """As it is, and with the potential traced by torch.jit, as `jit_compile` does."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = torch.jit.trace(
                self._model.log_posterior, self._model.start[0], check_trace=False
            )
        return {"eager": self._chains(self._model.log_posterior), "traced": self._chains(traced)}

    def _chains(self, log_posterior: Any) -> Unit:
        task, chains = self._task, []
        for z in self._model.start[: task.serial_particles]:
            kernel = HMC(
                potential_fn=lambda values: -log_posterior(values["z"]),
                step_size=task.step_size,
                # Half a step more, since the quotient is rounded down.
                trajectory_length=(task.leapfrog + 0.5) * task.step_size,
                adapt_step_size=False,
                adapt_mass_matrix=False,
            )
            kernel.initial_params = {"z": z.clone()}
            kernel.setup(warmup_steps=0)
            if kernel.num_steps != task.leapfrog:
                raise RuntimeError(f"{kernel.num_steps} steps instead of {task.leapfrog}")
            chains.append((kernel, {"z": z.clone()}))

        def unit() -> Done:
            for index, (kernel, values) in enumerate(chains):
                for _ in range(task.transitions):
                    values = kernel.sample(values)
                chains[index] = kernel, values
            return Done(task.transitions * task.leapfrog, len(chains))

        return unit


if __name__ == "__main__":
    serve(PyroHMC)
