"""Runs chains of nutpie side by side, with their evaluations as one batch.

nutpie drives every chain from a thread of its own. These threads do not call the target: they put
their positions into a `Round`. When every chain has either asked for an evaluation or ended, the
calling thread evaluates all positions and sends the answers. So the target needs no lock, the
batches do not depend on the speed of threads, and Ctrl-C and errors reach the caller.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import BadInput
from sbmc.samplers.snapshot import Snapshot
from sbmc.storage.optional import load_nutpie

if TYPE_CHECKING:
    from sbmc.samplers.nuts import NUTS

# Seconds without a request from any chain, after which it is checked whether one has died.
PATIENCE = 5.0

# positions (chains, dim) -> log densities and gradients, all float64
Evaluate = Callable[[Tensor], tuple[Tensor, Tensor]]


class Round:
    """Collects the requests of chains; it is complete when all running chains have asked.

    Args:
        chains: the chains that run side by side.
    """

    def __init__(self, chains: Sequence[Chain]) -> None:
        self.running = list(chains)
        self.asked: dict[Chain, np.ndarray] = {}
        self.ended: list[Chain] = []
        self.complete: queue.SimpleQueue = queue.SimpleQueue()
        self._lock = threading.Lock()

    def ask(self, chain: Chain, position: np.ndarray) -> None:
        """Request an evaluation for a chain."""
        with self._lock:
            self.asked[chain] = position
            self._look()

    def end(self, chain: Chain) -> None:
        """Remove a chain that has made its last draw."""
        with self._lock:
            self.running.remove(chain)
            self.ended.append(chain)
            self._look()

    def _look(self) -> None:
        # Only the last request wakes the evaluating thread: a wake-up costs more than a small
        # evaluation.
        if len(self.asked) == len(self.running):
            self.complete.put(None)

    def begin(self, failed_chains: set[Chain]) -> None:
        """Begin the next round without the chains that failed; none may ask in the meantime."""
        self.asked = {}
        self.running = [chain for chain in self.running if chain not in failed_chains]


class Chain:
    """One chain: the functions that nutpie calls from its own thread, and the chain's draws.

    Args:
        row: its position in the batch.
        island: the island that it belongs to.
        seed: the seed of nutpie's noise.
        start: where it starts, `(dim,)` float64.
        settings: say which draws are kept.
    """

    def __init__(self, row: int, island: int, seed: int, start: Tensor, settings: NUTS) -> None:
        self.row, self.island, self.seed = row, island, seed
        self.start, self.settings = start.numpy(), settings
        self.round = Round([self])
        self.answers: queue.SimpleQueue = queue.SimpleQueue()
        self.evaluations = self.draws_made = 0
        self.saved_draws: list[np.ndarray] = []
        self.broken = self.stopped = False
        self.statistics: dict[str, np.ndarray] = {}

    def log_density(self, position: np.ndarray) -> tuple[float, np.ndarray]:
        """Request an evaluation and wait for it; a chain that is stopped gets NaN."""
        # An exception would be printed by nutpie. NaN ends a trajectory at once.
        if self.stopped:
            return math.nan, np.zeros_like(position)
        self.round.ask(self, position)
        value, gradient = self.answers.get()
        if np.array_equal(position, self.start):
            # nutpie takes the first mass matrix from the first gradient, and refuses to begin
            # where a part of it is zero, as at an anchor with dead units. One is the scale of the
            # prior's gradient; this affects only the first trajectory of the warm-up.
            gradient = np.where(gradient == 0, 1.0, gradient)
        return value, gradient

    def save_draw(self, position: np.ndarray) -> dict[str, np.ndarray]:
        """Save a draw, if it is kept; the trace that nutpie builds itself stays empty."""
        if not self.stopped:
            self.draws_made += 1
            after = self.draws_made - self.settings.warmup_draws
            if after > 0 and after % self.settings.thinning == 0:
                self.saved_draws.append(np.array(position))
            if self.draws_made == self.settings.steps:
                self.stopped = True
                self.round.end(self)
        return {"none": np.zeros(1)}

    def stop(self) -> None:
        """Release nutpie's thread, whether it waits for an answer or is about to ask."""
        self.stopped = True
        self.answers.put((math.nan, np.zeros_like(self.start)))


def launcher(settings: NUTS) -> Callable[[Chain], Any]:
    """A function that starts a chain in the background, without output."""
    try:
        nutpie, from_pyfunc = load_nutpie()
    except ImportError as error:
        raise BadInput("`nutpie` must be installed for NUTS: pip install 'sbmc[nuts]'.") from error

    def launch(chain: Chain) -> Any:
        model = from_pyfunc(
            len(chain.start),
            lambda: chain.log_density,
            lambda *seeds: chain.save_draw,
            [np.dtype("float64")],
            [(1,)],
            ["none"],
            make_initial_point_fn=lambda seed: chain.start,
        )
        return nutpie.sample(
            model,
            draws=settings.draws * settings.thinning,
            tune=settings.warmup_draws,
            chains=1,
            cores=1,
            seed=chain.seed,
            maxdepth=settings.max_depth,
            target_accept=settings.target_accept,
            low_rank_modified_mass_matrix=settings.low_rank,
            progress_bar=False,
            return_raw_trace=True,
            blocking=False,  # otherwise Ctrl-C would end the chain early without an error
        )

    return launch


def run_side_by_side(
    launch: Callable[[Chain], Any],
    chains: Sequence[Chain],
    evaluate: Evaluate,
    report_progress: Callable[[], None],
) -> None:
    """Run some chains to their ends, in rounds of one evaluation for each running chain."""
    samplers: dict[Chain, Any] = {}
    round_ = Round(chains)
    reported = 0
    try:
        for chain in chains:
            chain.round = round_
            samplers[chain] = launch(chain)
        while samplers and round_.running:
            _wait(round_, samplers)
            if round_.asked:
                answers, failed_chains = _evaluate(round_.asked, evaluate)
                round_.begin(failed_chains)
                for chain, answer in answers.items():
                    chain.answers.put(answer)
            if (draws_made := sum(chain.draws_made for chain in chains)) > reported:
                reported = draws_made
                report_progress()
        for chain in round_.ended:
            chain.statistics = _statistics(samplers.pop(chain).wait())
    finally:
        for chain in samplers:
            chain.stop()
        for sampler in samplers.values():
            # A chain that was stopped before its first draw raises an error.
            with suppress(RuntimeError):
                sampler.cancel()


def _wait(round_: Round, samplers: Mapping[Chain, Any]) -> None:
    """Wait until a round is complete; if that takes long, check whether a chain has died."""
    while True:
        try:
            return round_.complete.get(timeout=PATIENCE)
        except queue.Empty:
            for chain in set(round_.running) - set(round_.asked):
                # A TimeoutError means that it is still busy; any other error is why it died.
                with suppress(TimeoutError):
                    if samplers[chain].is_finished and chain in round_.running:
                        raise RuntimeError("a chain of nutpie ended too early") from None


def _evaluate(
    asked: Mapping[Chain, np.ndarray], evaluate: Evaluate
) -> tuple[dict[Chain, tuple[float, np.ndarray]], set[Chain]]:
    """Answers for the running chains, and the chains of islands whose start is not finite."""
    # In the order of their rows, not of their requests: batches must be the same every time.
    chains = sorted(asked, key=lambda chain: chain.row)
    values, gradients = evaluate(torch.from_numpy(np.stack([asked[chain] for chain in chains])))
    answers = zip(values.tolist(), gradients.cpu().numpy(), strict=True)
    for chain, value in zip(chains, values.tolist(), strict=True):
        chain.evaluations += 1
        chain.broken = chain.evaluations == 1 and not math.isfinite(value)
    failed = {chain.island for chain in chains if chain.broken}
    failed_chains = {chain for chain in chains if chain.island in failed}
    return {
        c: a for c, a in zip(chains, answers, strict=True) if c not in failed_chains
    }, failed_chains


def _statistics(trace: Any) -> dict[str, np.ndarray]:
    """The statistics that nutpie reports for each draw, warm-up included."""
    _, (batch,) = trace.get_arrow_trace()
    names = ("mean_tree_accept", "n_steps", "diverging", "step_size_bar")
    return {name: np.array(batch.column(name).to_pylist()) for name in names}


def snapshot_of_chains(chains: Sequence[Chain], ended: int) -> Snapshot:
    """The snapshot of the first `ended` chains; the others have not started."""
    tensors: dict[str, Tensor] = {}
    counts = [[chain.evaluations, chain.draws_made, bool(chain.broken)] for chain in chains[:ended]]
    for chain in chains[:ended]:
        # Chains of an island whose start was not finite have no draws.
        if chain.statistics:
            tensors[f"{chain.row}.kept"] = torch.from_numpy(np.stack(chain.saved_draws))
            for name, values in chain.statistics.items():
                tensors[f"{chain.row}.{name}"] = torch.from_numpy(values)
    return Snapshot(tensors, {"ended": ended, "counts": counts})


def restore_chains(snapshot: Snapshot, chains: Sequence[Chain]) -> None:
    """Restore the chains that had ended."""
    for chain, counts in zip(chains, snapshot.values["counts"], strict=False):
        chain.evaluations, chain.draws_made, chain.broken = counts
        arrays = {
            name.split(".", 1)[1]: tensor.cpu().numpy()
            for name, tensor in snapshot.tensors.items()
            if name.split(".", 1)[0] == str(chain.row)
        }
        chain.saved_draws = list(arrays.pop("kept", ()))
        chain.statistics = arrays
