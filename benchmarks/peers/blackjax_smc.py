"""BlackJAX's adaptive tempered SMC with HMC moves."""

from __future__ import annotations

from functools import partial
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
from blackjax.smc import extend_params, resampling

from benchmarks.peers.jax_models import JaxModel
from benchmarks.peers.protocol import Done, Task, Unit, serve

ESS = 0.5


class BlackJaxSMC:
    """A few temperatures from the prior on; each step is one compiled program."""

    packages = ("jax", "jaxlib", "blackjax")

    def __init__(self, task: Task) -> None:
        self._model, self._task = JaxModel(task), task
        self.check = self._model.check
        self.settings: dict[str, Any] = {
            "compiled": "jit of a temperature's step",
            "ess": ESS,
            "resampling": "systematic",
            "epochs": "temperatures x mutations x leapfrog; what else it evaluates is its own cost",
        }

    def variants(self) -> dict[str, Unit]:
        """Particles as one batch, or one after another (`batch_size=1`)."""
        return {"vmap": self._unit(0), "lax.map": self._unit(1)}

    def _unit(self, batch_size: int) -> Unit:
        task, model = self._task, self._model
        parameters = {
            "step_size": task.step_size,
            "inverse_mass_matrix": jnp.ones(model.start.shape[1]),
            "num_integration_steps": task.leapfrog,
        }

        def algorithm(data: Any) -> Any:
            return blackjax.adaptive_tempered_smc(
                lambda z: -z @ z / 2,
                partial(model.log_likelihood, data=data),
                blackjax.hmc.build_kernel(),
                blackjax.hmc.init,
                extend_params(parameters),
                resampling.systematic,
                ESS,
                num_mcmc_steps=task.mutations,
                batch_size=batch_size,
            )

        step = jax.jit(lambda key, state, data: algorithm(data).step(key, state)[0])
        holder = {"key": jax.random.key(0)}

        def unit() -> Done:
            state = algorithm(model.data).init(model.start)
            for _ in range(task.temperatures):
                holder["key"], key = jax.random.split(holder["key"])
                state = jax.block_until_ready(step(key, state, model.data))
            return Done(task.temperatures * task.mutations * task.leapfrog, task.particles)

        return unit


if __name__ == "__main__":
    serve(BlackJaxSMC)
