"""What an island is: where its particles start, its report, and its particles at the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from sbmc.prior.gaussian import AnchoredPrior

# "The anchor plus a little noise", in units of the prior's standard deviation.
ANCHOR_NOISE = 0.01


@dataclass(frozen=True)
class IslandReport:
    """The report of one island.

    Attributes:
        index: its number, which decides its noise together with the seed.
        outcome: `completed`; `failed`; of SMC also `stuck`, `non-finite`, `step-limit`.
        log_evidence: its estimate of the log normalising constant; None for MCMC.
        epochs: evaluations with gradient per particle.
        acceptance: mean acceptance after warm-up, or at SMC's last temperature.
        step_size: the last step size, in whitened units.
        steps: steps made; temperatures for SMC.
        non_finite: proposals that were rejected because they were not finite.
        message: why it failed, if it did.
        forward_epochs: evaluations without gradient per particle.
        collapsed: how SMC's population has collapsed, as text; empty if it has not.
        relaxing: why the sampler found its particles not in equilibrium yet, as text; else empty.
        restarted: particles that blew up and were put back in the last half of the run; None if the
            sampler does not say.
        settling: the settling figure at the end (see `sbmc.samplers.settling`); None if the sampler
            has none, or if it is not finite, because no particle moved.
        settled: whether predictions had settled at the end; None if nobody looked.
        temperatures: what SMC reports for each temperature.
        moves: how many moves followed the warm-up; of SMC, mutations at all temperatures. None if
            the sampler does not say.
        particle_acceptance: mean acceptance of each particle after warm-up, or at SMC's last
            temperature; empty for a sampler that rejects nothing.
        ancestors: of SMC, the number of the first draw that each particle descends from.
        displacement: how far each particle is from where it began: the root mean square over
            coordinates, in units of a rough posterior standard deviation (see `displacement`).
        returned: particles that are exactly where they began.
        distinct: particles that differ from one another.
        attempts: how often it was started: once, and once more whenever its worker was lost.
        seconds: the time of computing, over all attempts whose work was saved; the time of a batch
            is divided evenly among its islands.
    """

    index: int
    outcome: str
    log_evidence: float | None = None
    epochs: float = 0.0
    acceptance: float | None = None
    step_size: float | None = None
    steps: int = 0
    non_finite: int = 0
    message: str = ""
    forward_epochs: float = 0.0
    collapsed: str = ""
    relaxing: str = ""
    restarted: int | None = None
    settling: float | None = None
    settled: bool | None = None
    temperatures: list[dict[str, Any]] = field(default_factory=list)
    moves: int | None = None
    particle_acceptance: list[float] = field(default_factory=list)
    ancestors: list[int] = field(default_factory=list)
    # An estimate that the verdict makes afterwards, from examples that are shared between anchors.
    displacement: list[float] = field(default_factory=list, compare=False)
    returned: int | None = None
    distinct: int | None = None
    # How it was computed; two islands are equal if their results are.
    attempts: int = field(default=1, compare=False)
    seconds: float = field(default=0.0, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Island:
    """An island's report and, if it completed, its particles.

    Attributes:
        report: the report.
        positions: whitened, `(particles, dim)`; several draws of a chain count as particles.
        weights: normalised inside the island, `(particles,)` float64; None for equal ones.
    """

    report: IslandReport
    positions: Tensor | None
    weights: Tensor | None = None


# (prior, generator, particles) -> whitened start positions of one island
Start = Callable[[AnchoredPrior, torch.Generator, int], Tensor]


def start_at_prior(prior: AnchoredPrior, rng: torch.Generator, particles: int) -> Tensor:
    """Draws from the anchored prior, as in the paper."""
    return prior.sample(particles, rng)


def start_at_anchor(prior: AnchoredPrior, rng: torch.Generator, particles: int) -> Tensor:
    """The anchor plus a little noise."""
    return prior.to_whitened(prior.anchor) + ANCHOR_NOISE * prior.sample(particles, rng)


@dataclass(frozen=True, eq=False)
class StartAtMembers:
    """Particle i starts at member i (and again from the first when there are more particles).

    Args:
        members: `(members, dim)`, in the model's own coordinates.
    """

    members: Tensor

    def __call__(self, prior: AnchoredPrior, rng: torch.Generator, particles: int) -> Tensor:
        """The whitened positions of `particles` particles."""
        index = torch.arange(particles) % len(self.members)
        return prior.to_whitened(self.members[index.to(self.members.device)])


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def island_of(index: int, run: Any, *, attempts: int = 1, seconds: float = 0.0) -> Island:
    """Make an island from the run of its sampler."""
    weights = getattr(run, "log_weights", None)
    acceptance = getattr(run, "particle_acceptance", None)
    ancestors = getattr(run, "roots", None)
    report = IslandReport(
        index=index,
        outcome=run.outcome,
        log_evidence=getattr(run, "log_evidence", None),
        epochs=float(run.epochs),
        acceptance=run.sampling_acceptance if run.acceptance else None,
        step_size=run.step_size,
        steps=run.steps,
        non_finite=run.non_finite,
        message=run.message,
        forward_epochs=float(run.forward_epochs),
        collapsed=getattr(run, "collapsed", ""),
        relaxing=getattr(run, "relaxing", ""),
        restarted=getattr(run, "restarts", None),
        settling=_finite(getattr(run, "settling", None)),
        settled=getattr(run, "settled", None),
        temperatures=getattr(run, "temperatures", []),
        moves=getattr(run, "sampling_steps", None),
        particle_acceptance=[] if acceptance is None else acceptance.tolist(),
        ancestors=[] if ancestors is None else ancestors.tolist(),
        attempts=attempts,
        seconds=seconds,
    )
    if run.outcome != "completed":
        return Island(report, None)
    return Island(report, torch.cat(run.draws), None if weights is None else weights.exp())
