"""NumPyro's HMC with vectorised chains."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
from jax import lax
from numpyro.infer.hmc import hmc

from benchmarks.peers.jax_models import JaxModel
from benchmarks.peers.protocol import Done, Task, Unit, serve


class NumPyroHMC:
    """The kernel that `MCMC(chain_method="vectorized")` runs, without what that does around it."""

    packages = ("jax", "jaxlib", "numpyro")

    def __init__(self, task: Task) -> None:
        self._model, self._task = JaxModel(task), task
        self.check = self._model.check
        self.settings: dict[str, Any] = {
            "chains": "vectorised (vmap)",
            "compiled": "jit over the transitions of a unit, by lax.scan if there are several",
            "interface": "potential function",
            "adaptation": "none",
        }

    def variants(self) -> dict[str, Unit]:
        """One."""
        task, model = self._task, self._model

        def potential(data: Any) -> Any:
            return lambda z: -model.log_posterior(z, data)

        begin, sample = hmc(potential_fn_gen=potential, algo="HMC")

        def first(start: Any, key: Any, data: Any) -> Any:
            return begin(
                start,
                0,
                step_size=task.step_size,
                num_steps=task.leapfrog,
                trajectory_length=None,
                adapt_step_size=False,
                adapt_mass_matrix=False,
                model_args=(data,),
                rng_key=key,
            )

        @jax.jit
        def run(states: Any, data: Any) -> Any:
            move = jax.vmap(partial(sample, model_args=(data,), model_kwargs={}))
            if task.transitions == 1:
                return move(states)
            return lax.scan(lambda s, _: (move(s), None), states, None, task.transitions)[0]

        keys = jax.random.split(jax.random.key(0), task.particles)
        holder: dict[str, Any] = {}

        def unit() -> Done:
            if not holder:
                each = jax.vmap(first, in_axes=(0, 0, None))
                # Once more, since the types of a first state are not quite those of the others.
                holder["states"] = run(each(model.start, keys, model.data), model.data)
            holder["states"] = jax.block_until_ready(run(holder["states"], model.data))
            return Done(task.transitions * task.leapfrog, task.particles)

        return {"vectorised": unit}


if __name__ == "__main__":
    serve(NumPyroHMC)
