# %% [markdown]
# # A sampler of your own
#
# You have an idea for a Markov chain: write one step of it, and run it through `fit` with everything
# else in place.
#
# A sampler sees positions in which the prior is a standard normal, and a target that gives log
# likelihoods and gradients for all particles at once. Step sizes, islands, checkpoints, processes and
# predictions are there already. The idea here is Barker's proposal (Livingstone and Zanella, 2022),
# which `sbmc` does not have: draw a step for each coordinate, and let the gradient decide only
# whether to turn it round. Langevin's proposal *adds* the gradient instead, and jumps far off where
# it is large.

# %%
import warnings
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import make_moons
from torch import Tensor, nn
from torch.nn.functional import softplus

import sbmc
from sbmc.diagnostics import effective_sample_size
from sbmc.samplers.chain_settings import ChainSettings
from sbmc.samplers.chains import run_chains
from sbmc.samplers.metropolis import metropolis_test
from sbmc.samplers.snapshot import NO_CHECKPOINTS

# %% [markdown]
# ## State, step, settings
#
# The *state* is what the next step needs. The *step* is a pure function of all particles. With
# g = ∇log π(z), each coordinate proposes z' = z ± ε ξ, with the sign + with probability 1/(1 +
# exp(−g ε ξ)), and the proposal is accepted with probability
#
# min(1, π(z')/π(z) · Π (1 + exp(−g·(z' − z))) / (1 + exp(g'·(z' − z)))).
#
# The *settings* derive from `ChainSettings`, which bring length, step size and draws.


# %%
class State(NamedTuple):
    """Where the particles are, and what the target says there."""

    position: Tensor  # (particles, dim), whitened
    log_likelihood: Tensor  # (particles,) float64
    gradient: Tensor  # (particles, dim), of the log likelihood


def init(position, target):
    return State(position.clone(), *target(position))


def slope(state):
    return state.gradient - state.position  # of the log density: the prior is N(0, I)


def log_density(state):
    return state.log_likelihood - state.position.double().square().sum(-1) / 2


def step(rng, state, target, *, step_size):
    """One Barker step for every particle; noise comes from `rng` alone."""
    dim, dtype = state.position.shape[1], state.position.dtype
    length = step_size.to(dtype).unsqueeze(-1) * rng.normal(dim, dtype)
    chance = torch.special.ndtr(rng.normal(dim, dtype))  # uniform numbers
    move = torch.where(chance < torch.sigmoid(slope(state) * length), length, -length)
    position = state.position + move
    proposal = State(position, *target(position))
    turn_back = softplus(-slope(state) * move) - softplus(slope(proposal) * move)
    ratio = log_density(proposal) - log_density(state) + turn_back.double().sum(-1)
    info = metropolis_test(ratio, rng.uniform())
    rows = info.accepted.unsqueeze(-1)
    merged = State(
        torch.where(rows, proposal.position, state.position),
        torch.where(info.accepted, proposal.log_likelihood, state.log_likelihood),
        torch.where(rows, proposal.gradient, state.gradient),
    )
    return merged, info


@dataclass(frozen=True, kw_only=True)
class Barker(ChainSettings):
    """Settings of chains by Barker's proposal."""

    acceptance_band: tuple[float, float] = (0.3, 0.5)

    summary: ClassVar[str] = "Barker's proposal: the gradient turns steps round"
    cost: ClassVar[str] = "1 epoch a step"

    def run(self, target, rng, start, report=None, checkpointer=NO_CHECKPOINTS):
        return run_chains(self.limited(), init, step, target, rng, start, report, checkpointer)


# %% [markdown]
# ## Is it right?
#
# A wrong sign in the acceptance would not stop it from running. So run it beside a sampler that is
# known to be right, on a target that is small enough for both to be exact: logistic regression.

# %% quick="steps, draws, trials = 400, 20, [0.1, 0.5]"
steps, draws = 6000, 100
trials = np.geomspace(0.05, 3, 9)

# %%
points, classes = make_moons(60, noise=0.3, random_state=0)
data = torch.tensor(points, dtype=torch.float32), torch.tensor(classes)
torch.manual_seed(0)
linear = nn.Linear(2, 2)


def sample(sampler):
    options = {"s": 1, "prior_variance": 1.0, "particles": 16, "seed": 0, "progress": False}
    return sbmc.fit(linear, data, sampler=sampler, **options)


chain_length = {"steps": steps, "draws": draws, "thinning": steps // (2 * draws)}
posteriors = {
    "Barker": sample(Barker(**chain_length)),
    "HMC": sample(sbmc.HMC(steps=steps // 10, draws=draws, thinning=steps // (20 * draws))),
}
for name, posterior in posteriors.items():
    weights = posterior.positions.flatten(0, 1)
    means = "  ".join(f"{value:+.2f}" for value in weights.mean(0).tolist())
    deviations = "  ".join(f"{value:5.2f}" for value in weights.std(0).tolist())
    print(
        f"{name:7s} mean {means}   sd {deviations}   acceptance {posterior.islands[0].acceptance:.2f}"
    )

# %% [markdown]
# Means and standard deviations of all weights agree up to the noise of so many draws. (`sbmc`
# tests its own samplers like this, on skewed targets too, and a file in `sbmc/samplers` is tested
# without being asked for.)
#
# ## What is it good for?
#
# Its authors promise less sensitivity to the step size. So hold the step size fixed, beside MALA's, and
# count effective draws of a weight.


# %%
def efficiency(sampler):
    """Effective draws of a weight, and the share of proposals that were accepted."""
    posterior = sample(sampler)
    by_chain = posterior.positions.reshape(draws, 16, -1)[:, :, 1].T  # (chains, draws)
    return effective_sample_size(by_chain.numpy()), posterior.islands[0].acceptance


fixed = {**chain_length, "steps": max(steps // 4, 2 * draws), "thinning": 1, "adapt": False}
kinds = {"MALA": sbmc.MALA, "Barker": Barker}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", sbmc.HealthWarning)  # step sizes that do not work are the point
    curves = {
        name: np.array([efficiency(kind(step_size=float(size), **fixed)) for size in trials])
        for name, kind in kinds.items()
    }
print("step size   " + "  ".join(f"{size:5.2f}" for size in trials))
for name, values in curves.items():
    print(f"{name:9s}   " + "  ".join(f"{share:5.2f}" for share in values[:, 1]) + "   accepted")

# %% alt="Left, histograms of one weight by Barker's proposal and by HMC, which agree. Right, effective draws against the step size: MALA's curve peaks and then drops to the bottom at once, Barker's peaks at a larger step size and comes down slowly."
figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3))
for (name, posterior), style in zip(posteriors.items(), ("-", "--"), strict=True):
    weight = posterior.positions[0, :, 1].numpy()
    left.hist(weight, 30, density=True, histtype="step", lw=2, ls=style, label=name)
left.set(title="One weight, by two samplers", xlabel="weight", ylabel="density")
left.legend()
for (name, values), style in zip(curves.items(), ("o--", "s-"), strict=True):
    right.plot(trials, values[:, 0], style, ms=5, label=name)
right.set(xlabel="step size", xscale="log", ylim=(0, None))
right.set_title(f"Effective draws, of {draws * 16:,}")
right.legend()
plt.show()

# %% [markdown]
# Chains that never move still count as one draw each, which is the floor of the picture. MALA's fall
# to it where its steps have become too long. Barker's still move there, and lose their effect slowly.
# For targets of which one does not know the scale, that is worth having.
#
# ## And everything else works
#
# Nothing outside the class knows which sampler it has: forecasts, islands and health are there.

# %%
network = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
print(sbmc.expect(network, data, s=0.1, sampler=Barker(steps=200), particles=10, islands=4))

# %% [markdown]
# ## Where to go on
#
# - The rules that a step has to keep, what a sampler may state about itself, and which tests it gets
#   for nothing: [Adding a sampler](../adding_a_sampler.md).
# - No class at all, only `init` and `step` in a loop: [Write your own loop](../write_your_own_loop.md).
