"""Long NUTS chains on the toy target: one record of how long they remember, for each s and T."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from sbmc.checks import BadInput, is_whole, require
from sbmc.diagnostics import autocorrelation, integrated_autocorrelation_time
from sbmc.progress import open_progress
from sbmc.randomness import Stream, generator
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.nuts import NUTS, NUTSRun
from sbmc.storage.provenance import hardware_summary, software_versions
from sbmc_studies.experiments.settings import ALWAYS, settings_hash
from sbmc_studies.paper.toy import target as toy
from sbmc_studies.paper.toy.target import Case, ToyTarget, density
from sbmc_studies.records.record import Record, read_record, record_path, write_record

# s = 0.1 and 0.25 are the paper's own; 0.45 is just below 1/2, where its α(s) jumps.
SCALES = (1.0, 0.45, 0.25, 0.1)
# Down to a barrier that chains of the default length still cross a hundred times.
TEMPERATURES = (1.0, 0.5, 0.35, 0.25)
CHAINS = 6
DRAWS = 2_000
WARMUP_DRAWS = 300
LAGS = 60
GRID = np.linspace(-2.5, 2.5, 401)
FILE = "curves.npz"


@dataclass(frozen=True)
class Toy:
    """A run of the study.

    Attributes:
        record: settings, cost and the table: `iact.s.0.1`, its standard error `iact_se.s.0.1`, and
            so on.
        folder: of the record.
        curves: what the figure shows: `theta`, `density.<case>`, `acf.<case>`.
    """

    record: Record
    folder: Path
    curves: dict[str, np.ndarray]

    def cases(self, family: str) -> list[Case]:
        """The members of a family in the order of falling values, the posterior first."""
        values = self.record.settings["scales" if family == "s" else "temperatures"]
        return [Case(family, value) for value in sorted(values, reverse=True)]


def run_toy(
    out: Path,
    seed: int = 0,
    *,
    draws: int = DRAWS,
    chains: int = CHAINS,
    scales: Sequence[float] = SCALES,
    temperatures: Sequence[float] = TEMPERATURES,
    progress: bool | None = None,
    force: bool = False,
) -> Toy:
    """Run the study and write its record; a run that is there is read instead.

    Args:
        out: the folder of all records; this one goes to `toy/nuts/<hash>/seed-<k>/`.
        seed: of the chains.
        draws: kept of each chain.
        chains: per case, from draws of that case's prior.
        scales: the values of s.
        temperatures: the values of T.
        progress: None for automatic, False for silence, True for always.
        force: run even if the record is there.

    Returns:
        The run.

    Raises:
        BadInput: a bad argument; nutpie or ArviZ is not installed.
    """
    require(is_whole(seed) and seed >= 0, "seed", "a non-negative integer", seed)
    require(is_whole(chains) and chains >= 2, "chains", "an integer of at least 2", chains)
    sampler = NUTS(warmup_draws=WARMUP_DRAWS, draws=draws)
    cases = [Case("s", float(s)) for s in scales] + [Case("T", float(t)) for t in temperatures]
    require(len(cases) > 0, "scales", "given, or else `temperatures`", cases)
    for case in cases:
        case.prior()  # refuses what is no s or T before anything is computed
    settings = {
        **dict.fromkeys(ALWAYS),
        **{"prior_variance": toy.PRIOR_VARIANCE, "particles": 1, "islands": chains},
        **{"scales": [float(s) for s in scales], "temperatures": [float(t) for t in temperatures]},
        **{"observation": toy.OBSERVATION, "slope": toy.SLOPE, "noise": toy.NOISE},
        **asdict(sampler),
    }
    path = record_path(Path(out), "toy", "nuts", settings_hash("toy", "nuts", settings), int(seed))
    if not force and path.exists() and (path.parent / FILE).exists():
        return read_toy(path.parent)
    began = time.perf_counter()
    metrics: dict[str, float | None] = {"accuracy": None}  # a density has no labels to be right on
    curves: dict[str, np.ndarray] = {"theta": GRID}
    islands: list[dict[str, Any]] = []
    distinct = [case for i, case in enumerate(cases) if not _is_posterior_again(case, cases[:i])]
    with open_progress(progress, "toy", total=len(distinct) * sampler.steps, unit="draws") as bar:
        for number, case in enumerate(distinct):
            before = number * sampler.steps

            def report(runs: list[NUTSRun], before: int = before, case: Case = case) -> None:
                done = sum(run.steps for run in runs) // len(runs)
                bar.update(before + done, **{case.family: case.value})

            streams = [generator(seed, Stream.ISLANDS, number, i) for i in range(chains)]
            runs = run_case(case, sampler, streams, report)
            theta = chain_values(case, runs)
            # s = 1 and T = 1 are one target, which is run once and recorded under both names.
            for alias in cases if case.value == 1 else [case]:
                if alias.value == case.value:
                    metrics |= _summaries(alias, runs, theta)
                    curves[f"density.{alias.name}"] = density(alias, GRID)
                    curves[f"acf.{alias.name}"] = autocorrelation(theta).mean(0)[: LAGS + 1]
            islands += [_island(len(islands) + i, case, run) for i, run in enumerate(runs)]
    epochs = sum(island["epochs"] for island in islands) / chains
    cost = {"epochs": epochs, "forward_epochs": 0.0, "anchor_epochs": 0.0, "total_epochs": epochs}
    record = Record(
        experiment="toy",
        method="nuts",
        settings=settings,
        seed=int(seed),
        data={"name": "toy", "checksum": _checksum()},
        cost={**cost, "wall_seconds": time.perf_counter() - began},
        metrics=metrics,
        islands=islands,
        outcome="completed",
        versions={**software_versions(), **{p: metadata.version(p) for p in ("nutpie", "arviz")}},
        hardware=hardware_summary(),
    )
    folder = write_record(Path(out), record).parent
    stored = {name: values.astype(np.float32) for name, values in curves.items()}
    np.savez_compressed(folder / FILE, allow_pickle=False, **cast("dict[str, Any]", stored))
    return Toy(record, folder, stored)


def read_toy(folder: Path) -> Toy:
    """Read a run that `run_toy` wrote.

    Args:
        folder: of its record.

    Returns:
        The run.

    Raises:
        BadInput: if there is no such record, or nothing beside it.
    """
    folder = Path(folder)
    record = read_record(folder / "record.json")
    if not (folder / FILE).exists():
        raise BadInput(f"`folder` must hold {FILE}, but got {str(folder)!r}.")
    with np.load(folder / FILE, allow_pickle=False) as arrays:
        return Toy(record, folder, dict(arrays))


def run_case(
    case: Case, sampler: NUTS, streams: Sequence[torch.Generator], report: Any = None
) -> list[NUTSRun]:
    """Run a chain on each stream, from a draw of the case's prior.

    Args:
        case: the target.
        sampler: its settings, but for the temperature, which is the case's.
        streams: a generator for each chain.
        report: see `NUTS.run`.

    Returns:
        A run for each chain.

    Raises:
        RuntimeError: if a chain fails.
    """
    target = ToyTarget(case)
    start = torch.cat([target.prior.sample(1, stream) for stream in streams])
    settings = NUTS(**{**asdict(sampler), "temperature": case.power})
    runs = settings.run(cast("Any", target), IslandNoise(streams, 1), start, report)
    for run in runs:
        if run.outcome != "completed":
            raise RuntimeError(f"a chain at {case.family} = {case.value:g} failed: {run.message}")
    return runs


def chain_values(case: Case, runs: Sequence[NUTSRun]) -> np.ndarray:
    """θ of all kept draws, `(chains, draws)`."""
    whitened = torch.stack([torch.cat(run.draws)[:, 0] for run in runs])
    return case.prior().to_parameters(whitened).numpy()


def jackknife_error(values: np.ndarray) -> float:
    """Standard error of the IACT of all chains, from leaving out each chain `(chains, draws)`."""
    chains = len(values)
    without = [integrated_autocorrelation_time(np.delete(values, i, 0)) for i in range(chains)]
    return float(np.sqrt((chains - 1) * np.var(without)))


def _summaries(case: Case, runs: Sequence[NUTSRun], theta: np.ndarray) -> dict[str, float | None]:
    per_draw = sum(run.epochs for run in runs) / sum(run.steps for run in runs)
    values = {
        "iact": integrated_autocorrelation_time(theta),
        "iact_se": jackknife_error(theta),
        "epochs_per_draw": per_draw,
        "lower_mode": float((theta < 0).mean()),
        "divergent": sum(run.non_finite for run in runs) / theta.size,
    }
    return {f"{name}.{case.name}": value for name, value in values.items()}


def _island(index: int, case: Case, run: NUTSRun) -> dict[str, Any]:
    return {
        **{"index": index, case.family: case.value, "outcome": run.outcome, "log_evidence": None},
        **{"epochs": run.epochs, "acceptance": run.sampling_acceptance, "step_size": run.step_size},
    }


def _is_posterior_again(case: Case, before: Sequence[Case]) -> bool:
    return case.value == 1 and any(other.value == 1 for other in before)


def _checksum() -> str:
    constants = (toy.OBSERVATION, toy.SLOPE, toy.NOISE, toy.PRIOR_VARIANCE)
    return hashlib.sha256(repr(constants).encode()).hexdigest()
