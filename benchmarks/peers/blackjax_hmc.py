"""BlackJAX's HMC, compiled as a whole, its chains by `vmap` or by `lax.map`."""

from __future__ import annotations

from functools import partial
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.peers.jax_models import JaxModel
from benchmarks.peers.protocol import Done, Task, Unit, serve

COMPILED = "jit over the transitions of a unit, by lax.scan if there are several"


class BlackJaxHMC:
    """All transitions of a unit of work are one compiled program."""

    packages = ("jax", "jaxlib", "blackjax")

    by_hand = False

    def __init__(self, task: Task) -> None:
        self._model, self._task = JaxModel(task, by_hand=self.by_hand), task
        self.check = self._model.check
        self.settings: dict[str, Any] = {
            "compiled": COMPILED,
            "model": "patches by hand" if self.by_hand else "the library's own layers",
            "chains": "see the variant: by vmap, by lax.map, or one call for each",
            "adaptation": "none",
        }

    def variants(self) -> dict[str, Unit]:
        """All chains as one batch, or one after another, inside the program or outside."""
        # One after another, the time per particle does not depend on how many there are.
        return {
            "one by one": self._unit(_alone, 1),
            "lax.map": self._unit(lax.map, self._task.serial_particles),
            "vmap": self._unit(_by_vmap, self._task.particles),
        }

    def _unit(self, over_chains: Any, particles: int) -> Unit:
        task, model = self._task, self._model

        def algorithm(data: Any) -> Any:
            return blackjax.hmc(
                partial(model.log_posterior, data=data),
                step_size=task.step_size,
                inverse_mass_matrix=jnp.ones(model.start.shape[1]),
                num_integration_steps=task.leapfrog,
            )

        @jax.jit
        def begin(start: Any, data: Any) -> Any:
            return over_chains(algorithm(data).init, start)

        @jax.jit
        def run(key: Any, states: Any, data: Any) -> Any:
            step = algorithm(data).step

            def chain(pair: Any) -> Any:
                chain_key, state = pair
                if task.transitions == 1:
                    # Convolutions inside a loop of XLA's are many times slower on a CPU.
                    return step(chain_key, state)[0]
                keys = jax.random.split(chain_key, task.transitions)
                return lax.scan(lambda s, k: (step(k, s)[0], None), state, keys)[0]

            return over_chains(chain, (jax.random.split(key, particles), states))

        holder: dict[str, Any] = {"key": jax.random.key(0)}

        def unit() -> Done:
            if "states" not in holder:
                holder["states"] = begin(model.start[:particles], model.data)
            holder["key"], key = jax.random.split(holder["key"])
            states = run(key, holder["states"], model.data)
            holder["states"] = jax.block_until_ready(states)
            return Done(task.transitions * task.leapfrog, particles)

        return unit


def _alone(function: Any, items: Any) -> Any:
    """For one chain: no loop, and no axis of particles inside."""
    found = function(jax.tree.map(lambda leaf: leaf[0], items))
    return jax.tree.map(lambda leaf: leaf[None], found)


def _by_vmap(function: Any, items: Any) -> Any:
    return jax.vmap(function)(items)


if __name__ == "__main__":
    serve(BlackJaxHMC)
