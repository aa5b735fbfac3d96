"""The formulas of `benchmarks.on_paper`: bytes, messages and seconds of a run from its sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import sbmc
from benchmarks.ranks import PARTICLES
from sbmc.islands.checkpoints.options import EVERY
from sbmc.islands.memory_budget import HEALTH_VECTORS, HEALTH_VECTORS_EACH
from sbmc.samplers.contract import Sampler
from sbmc.target.shards.engine import MESSAGE_BYTES

DAY = 86_400.0
# Bytes of a parameter, of a number of a sum, of the number of an example, and of a target.
PARAMETER, SUM, INDEX, TARGET = 4, 8, 8, 8
# A command has five numbers; an answer has one for each particle, and whether it has failed.
HEADER = 5 * 8
# What a prediction says of an example besides its probabilities: entropies, maxima and margins.
FURTHER_NUMBERS = 8
# Messages of an exchange: command, parameters, answers, gradients; and the numbers of examples.
MESSAGES = {"evaluation": 4, "batch": 5}


@dataclass(frozen=True)
class Run:
    """The run, and what is assumed of the machines; every attribute is an option.

    Attributes:
        parameters: of the network, in float32.
        examples: of the data.
        islands: how many, all at the same time.
        ranks: processes of an island, a machine each.
        particles: of an island.
        features: numbers of an example, in float32.
        classes: of a prediction.
        batch: examples of a mini-batch.
        passes: of SGHMC over the data; `fit` makes whole ones.
        epochs: evaluations of HMC.
        network: bytes per second between two machines, as the simulation assumes them.
        latency: seconds of a message between two machines.
        disk: bytes per second of an island's disk.
        memory: bytes of a machine.
        days: a rank dies once in so many, as the simulation assumes of a worker.
        patience: days that a run may take.
        accelerated: how many times as fast as the measured thread a rank with a GPU computes.
    """

    parameters: int = 10**8
    examples: int = 10**9
    islands: int = 100
    ranks: int = 8
    particles: int = PARTICLES
    features: int = 1_000
    classes: int = 10
    batch: int = 1_000
    passes: int = 1
    epochs: int = 160
    network: float = 1.25e9
    latency: float = 1e-4
    disk: float = 1e9
    memory: float = 64e9
    days: float = 1.0
    patience: float = 30.0
    accelerated: float = 1_000.0

    def hmc(self) -> sbmc.HMC:
        """The sampler of all data."""
        return sbmc.HMC(epochs=self.epochs)

    def sghmc(self) -> sbmc.SGHMC:
        """The sampler on mini-batches; its step size costs nothing."""
        return sbmc.SGHMC(epochs=self.passes, batch_size=self.batch, step_size=1e-3)


def state_bytes(sampler: Sampler, particles: int, parameters: int) -> int:
    """Memory of the chains in rank 0, by the sampler's own statement, with a checkpoint.

    The vectors of a step, the draws, and a snapshot that is encoded before it is written.
    """
    vectors = sampler.vectors + sampler.draws + 2 * sampler.snapshot_vectors
    return particles * vectors * parameters * PARAMETER


def memory(run: Run, constants: dict[str, float]) -> dict[str, Any]:
    """Bytes that depend on the parameters, and seconds of a snapshot."""
    vector = run.parameters * PARAMETER
    snapshot = run.sghmc().snapshot_vectors * run.particles * vector
    health = HEALTH_VECTORS + HEALTH_VECTORS_EACH * (run.particles - 1) + run.sghmc().draws
    return {
        "parameters": run.parameters,
        "hmc": state_bytes(run.hmc(), run.particles, run.parameters),
        "sghmc": state_bytes(run.sghmc(), run.particles, run.parameters),
        "one": state_bytes(run.sghmc(), 1, run.parameters),
        # The parameters of a message and their gradient; activations come on top.
        "other": min(run.particles, _together(run)) * run.parameters * (PARAMETER + SUM),
        "snapshot": snapshot,
        "snapshot_seconds": constants["write"] + snapshot / run.disk,
        "health": health * vector,
        "results": run.islands * run.particles * vector,
    }


def exchanges(run: Run) -> int:
    """How often rank 0 asks for one evaluation: gradients above 2^28 bytes come in several."""
    return math.ceil(run.particles / _together(run))


def _together(run: Run) -> int:
    return max(1, MESSAGE_BYTES // (SUM * run.parameters))


def messages(run: Run, kind: str) -> dict[str, Any]:
    """Messages and bytes of an evaluation, or of a mini-batch step.

    Args:
        run: the run.
        kind: "evaluation" or "batch".

    Returns:
        `messages` of rank 0; `bytes` to and from one other rank, and `all_bytes` of all others.
    """
    times = exchanges(run)
    each = run.parameters * (PARAMETER + SUM) + SUM
    index = run.batch * INDEX if kind == "batch" else 0
    sent = run.particles * (each + index) + times * (HEADER + SUM)
    return {
        "parameters": run.parameters,
        "kind": kind,
        "exchanges": times,
        "messages": times * MESSAGES[kind],
        "bytes": sent,
        "all_bytes": (run.ranks - 1) * sent,
    }


def exchange_seconds(run: Run, constants: dict[str, float], kind: str) -> float:
    """Seconds of the messages of an evaluation, or of a mini-batch step.

    Rank 0 is taken to be no slower with more ranks, which is the least that it can be. The rate
    is the slower of the measured one, in which sums are made, and of the network.
    """
    found = messages(run, kind)
    silent = found["exchanges"] * constants["exchange"] + found["messages"] * run.latency
    return silent + found["bytes"] / min(constants["rate"], run.network)


def data(run: Run, constants: dict[str, float]) -> dict[str, Any]:
    """Bytes that depend on the examples, and seconds to read or send them."""
    inputs, targets = run.examples * run.features * PARAMETER, run.examples * TARGET
    shard = inputs / run.ranks
    return {
        "examples": run.examples,
        "inputs": inputs,
        "targets": targets,
        "shard": shard,
        "read_seconds": shard / constants["read"],
        "send_seconds": (run.ranks - 1) * shard / min(constants["rate"], run.network),
        "predictions": run.examples * (run.classes + FURTHER_NUMBERS) * SUM,
    }


def times(run: Run, constants: dict[str, float], speed: float = 1.0) -> dict[str, Any]:
    """Seconds of an evaluation, of a mini-batch step, and of an island by both samplers.

    Args:
        run: the run.
        constants: by `benchmarks.on_paper.read_constants`.
        speed: how many times as fast as the measured thread a rank computes.

    Returns:
        Seconds, and for each sampler `between`, those from one snapshot to the next, and
        `survives`, the chance that no rank of the island dies in them.
    """
    shard = run.examples / run.ranks
    passed = constants["multiply"] * run.particles * run.parameters / speed
    vectors = constants["vector"] * run.particles * run.parameters / speed
    reading = data(run, constants)["read_seconds"]
    computing = passed * shard
    evaluation = computing + exchange_seconds(run, constants, "evaluation") + reading
    steps = math.ceil(run.examples / run.batch)
    step = passed * min(run.batch, run.examples) / run.ranks + vectors
    batch_step = step + exchange_seconds(run, constants, "batch")
    # Every particle has mini-batches of its own.
    one_pass = steps * batch_step + run.particles * reading
    hmc, sghmc = run.hmc(), run.sghmc()
    # SGHMC can stop between any two batches, HMC between two trajectories.
    between = {
        "hmc": hmc.count_step()[0] * evaluation,
        "sghmc": min(one_pass, max(EVERY, batch_step)),
    }
    rate = run.ranks / (run.days * DAY)
    return {
        "parameters": run.parameters,
        "examples": run.examples,
        "speed": speed,
        "computing": computing,
        "evaluation": evaluation,
        "step_computing": step,
        "step": batch_step,
        "hmc": hmc.evaluations().gradient * evaluation,
        "sghmc": sghmc.evaluations().gradient * one_pass,
        "between": between,
        "survives": {name: math.exp(-rate * seconds) for name, seconds in between.items()},
    }


def island_traffic(run: Run) -> dict[str, dict[str, int]]:
    """Messages of rank 0 and bytes of all ranks in one island, from its start to its end."""
    steps = run.passes * math.ceil(run.examples / run.batch)
    counts = {"hmc": ("evaluation", run.hmc().evaluations().gradient), "sghmc": ("batch", steps)}
    found = {}
    for name, (kind, count) in counts.items():
        each = messages(run, kind)
        found[name] = {"messages": count * each["messages"], "bytes": count * each["all_bytes"]}
    return found


def batches(run: Run, constants: dict[str, float]) -> list[dict[str, Any]]:
    """An island of SGHMC with larger mini-batches: as much to compute, in fewer steps."""
    rows = []
    for count in (run.batch, 10 * run.batch, 100 * run.batch):
        larger = replace(run, batch=count)
        slow, fast = (times(larger, constants, speed) for speed in (1.0, run.accelerated))
        rows.append(
            {
                "batch": count,
                "steps": run.passes * math.ceil(run.examples / count),
                "bytes": island_traffic(larger)["sghmc"]["bytes"],
                "seconds": slow["sghmc"],
                "accelerated": fast["sghmc"],
                "exchange": 1 - fast["step_computing"] / fast["step"],
            }
        )
    return rows


def limits(run: Run, constants: dict[str, float]) -> list[dict[str, Any]]:
    """What the run needs beside what there is, the worst first.

    Returns:
        Rows with `what`, `unit` ("seconds" or "bytes"), `needed`, `allowed` and the ratio `over`.
    """
    vectors, examples = memory(run, constants), data(run, constants)
    slow, fast = times(run, constants), times(run, constants, run.accelerated)
    predicting = constants["predict"] * constants["multiply"] * run.parameters * run.examples
    predicting *= run.islands * run.particles
    apart = constants["spread"] * slow["computing"]
    gpu = f"ranks {run.accelerated:,.0f} times as fast"
    needed = {
        run.patience * DAY: {
            "an island by HMC": slow["hmc"],
            f"an island by HMC, {gpu}": fast["hmc"],
            "an island by SGHMC": slow["sghmc"],
            f"an island by SGHMC, {gpu}": fast["sghmc"],
            "predictions of all examples, by one measured thread": predicting,
        },
        run.days * DAY / run.ranks: {
            "from snapshot to snapshot of HMC, until a rank dies": slow["between"]["hmc"],
            "from snapshot to snapshot of SGHMC, until a rank dies": slow["between"]["sghmc"],
            f"from snapshot to snapshot of HMC, {gpu}": fast["between"]["hmc"],
            f"from snapshot to snapshot of SGHMC, {gpu}": fast["between"]["sghmc"],
        },
        float(sbmc.Shards(run.ranks).timeout): {
            "ranks ready at different times in an evaluation, until the timeout": apart,
        },
        EVERY: {
            "a snapshot, until the next one": vectors["snapshot_seconds"],
            "snapshots of all islands on one disk": run.islands * vectors["snapshot_seconds"],
        },
    }
    held = {
        "rank 0: inputs that are held": examples["inputs"],
        "rank 0: targets, with inputs in mapped files": examples["targets"],
        "rank 0: vectors of HMC": vectors["hmc"],
        "rank 0: vectors of SGHMC": vectors["sghmc"],
        "rank 0: vectors of SGHMC, one particle at a time": vectors["one"],
        "another rank: parameters of a message and their gradient": vectors["other"],
        "driver: finished particles of all islands": vectors["results"],
        "driver: the check of an island's health": vectors["health"],
        "predictions of all examples": examples["predictions"],
    }
    rows = [_limit(what, "bytes", count, run.memory) for what, count in held.items()]
    for allowed, named in needed.items():
        rows += [_limit(what, "seconds", seconds, allowed) for what, seconds in named.items()]
    return sorted(rows, key=lambda row: -row["over"])


def _limit(what: str, unit: str, needed: float, allowed: float) -> dict[str, Any]:
    over = needed / allowed
    return {"what": what, "unit": unit, "needed": needed, "allowed": allowed, "over": over}
