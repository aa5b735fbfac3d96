"""The step of microcanonical Langevin dynamics in whitened coordinates, for a batch of particles.

With U(z) = ‖z‖²/2 − ℓ(z) in d dimensions, a particle has a direction u with ‖u‖ = 1 in place of a
momentum, and its speed is always the same (Robnik, De Luca, Silverstein and Seljak, 2023;
Robnik and Seljak, 2023). A step of size ε is B(ε/2), a drift, B(ε/2), and a change of direction:

    B(t):   u ← (u + e (sinh δ + (e·u)(cosh δ − 1))) / (cosh δ + (e·u) sinh δ),
            e = −∇U/‖∇U‖,   δ = t √d ‖∇U‖ / (d − 1),
    drift:  z ← z + ε √d u,
    then    u ← (u + ν ξ) / ‖u + ν ξ‖,   ν² = (exp(2ε/L) − 1) / d,   ξ ~ N(0, I).

As ε → 0 the positions have the density exp(−U). √d makes ε comparable with the step sizes of HMC,
whose momenta have the length √d. Nothing is rejected, so that at any ε > 0 there is a bias. It
follows from the energy error of a step,

    Δ = U(z') − U(z) + (d − 1) Σ log(cosh δ + (e·u) sinh δ),   the sum over both B.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from sbmc.samplers.noise import IslandNoise
from sbmc.target.target import Evaluation


class MicrocanonicalState(NamedTuple):
    """What the next step needs; the leading axis of every field is the particle."""

    position: Tensor  # (particles, dim), whitened
    log_likelihood: Tensor  # (particles,) float64
    gradient: Tensor  # (particles, dim), of the log likelihood
    direction: Tensor  # (particles, dim), of length 1


class MicrocanonicalInfo(NamedTuple):
    """What a step has to tell; the leading axis is the particle."""

    energy_error: Tensor  # (particles,) float64
    non_finite: Tensor  # (particles,) bool


def init(
    rng: IslandNoise, position: Tensor, evaluate: Callable[[Tensor], Evaluation]
) -> MicrocanonicalState:
    """The state at `position` `(particles, dim)`, with a direction at random; one evaluation."""
    direction = unit(rng.normal(position.shape[1], position.dtype))
    return MicrocanonicalState(position.clone(), *evaluate(position), direction)


def step(
    rng: IslandNoise,
    state: MicrocanonicalState,
    evaluate: Callable[[Tensor], Evaluation],
    *,
    step_size: Tensor,
    length: float = 1.0,
) -> tuple[MicrocanonicalState, MicrocanonicalInfo]:
    """One step for every particle.

    Args:
        rng: ξ is drawn for each particle.
        state: where the particles are, and where they are going.
        evaluate: log likelihood and gradient.
        step_size: ε, `(particles,)`.
        length: L, the distance over which a direction is forgotten, in units of √d.

    Returns:
        The new state and what there is to tell. Values that are not finite are passed on.
    """
    dim, dtype = state.position.shape[1], state.position.dtype
    sizes = step_size.double().unsqueeze(-1)
    reach = math.sqrt(dim) * sizes
    turned, first = _turn(state.direction, state.gradient - state.position, reach / 2)
    position = state.position + reach.to(dtype) * turned
    here = evaluate(position)
    turned, second = _turn(turned, here.gradient - position, reach / 2)
    error = _potential(position, here) - _potential(state.position, state) + first + second
    noise = torch.sqrt(torch.expm1(2 * sizes / length) / dim).to(dtype)
    direction = unit(turned + noise * rng.normal(dim, dtype))
    finite = torch.isfinite(error) & torch.isfinite(direction).all(-1)
    return MicrocanonicalState(position, *here, direction), MicrocanonicalInfo(error, ~finite)


def _turn(direction: Tensor, force: Tensor, time: Tensor) -> tuple[Tensor, Tensor]:
    """B(t), and the kinetic energy that it adds; written with exp(−δ), which cannot overflow."""
    dim, dtype = direction.shape[1], direction.dtype
    size = force.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(dtype).tiny)
    along = force / size
    cosine = (along * direction).sum(-1, keepdim=True).double()
    delta = time * size.double() / (dim - 1)
    shrunk = torch.exp(-delta)
    forward = (1 - shrunk) * (1 + shrunk + cosine * (1 - shrunk))
    turned = unit(forward.to(dtype) * along + (2 * shrunk).to(dtype) * direction)
    gain = delta - math.log(2) + torch.log1p(cosine + (1 - cosine) * shrunk.square())
    return turned, (dim - 1) * gain.squeeze(-1)


def unit(vectors: Tensor) -> Tensor:
    """Vectors `(particles, dim)` of length 1 with the same directions."""
    return vectors / vectors.norm(dim=-1, keepdim=True)


def _potential(position: Tensor, values: MicrocanonicalState | Evaluation) -> Tensor:
    """U(z) of each particle, float64."""
    return position.double().square().sum(-1) / 2 - values.log_likelihood
