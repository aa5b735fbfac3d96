"""Chains of nutpie side by side, whose evaluations the calling thread makes as one batch.

nutpie drives every chain from a thread of its own. None of these calls the target: they leave their
positions in a `Round`; when every chain has either asked or ended, the thread that runs them
evaluates what they asked for and hands out the answers. So the target needs no lock, the batches do
not depend on which thread is quicker, and Ctrl-C and errors come out where the run was called.
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

from sbmc.bridges.optional import load_nutpie
from sbmc.checks import BadInput
from sbmc.samplers.snapshot import Snapshot

if TYPE_CHECKING:
    from sbmc.samplers.nuts import NUTS

# Seconds without a word from any chain, after which they are asked whether they are still there.
PATIENCE = 5.0

# positions (chains, dim) -> log densities and gradients, all float64
Evaluate = Callable[[Tensor], tuple[Tensor, Tensor]]


class Round:
    """Where chains wait for their evaluations: complete when all that still go on have asked.

    Args:
        chains: which run side by side.
    """

    def __init__(self, chains: Sequence[Chain]) -> None:
        self.going = list(chains)
        self.asked: dict[Chain, np.ndarray] = {}
        self.ended: list[Chain] = []
        self.complete: queue.SimpleQueue = queue.SimpleQueue()
        self._lock = threading.Lock()

    def ask(self, chain: Chain, position: np.ndarray) -> None:
        """Say where a chain wants an evaluation."""
        with self._lock:
            self.asked[chain] = position
            self._look()

    def leave(self, chain: Chain) -> None:
        """Say that a chain has made its last draw."""
        with self._lock:
            self.going.remove(chain)
            self.ended.append(chain)
            self._look()

    def _look(self) -> None:
        # Only the last to come wakes the thread that evaluates: a wake-up costs more than a small
        # evaluation.
        if len(self.asked) == len(self.going):
            self.complete.put(None)

    def begin(self, lost: set[Chain]) -> None:
        """Begin the next round, without some of the chains; none may ask in the meantime."""
        self.asked = {}
        self.going = [chain for chain in self.going if chain not in lost]


class Chain:
    """One chain: what nutpie asks of it, from a thread of nutpie's, and what came of it.

    Args:
        row: its snapshot in the batch.
        island: which it belongs to.
        seed: of nutpie's noise.
        start: where it begins, `(dim,)` float64.
        settings: which draws are kept.
    """

    def __init__(self, row: int, island: int, seed: int, start: Tensor, settings: NUTS) -> None:
        self.row, self.island, self.seed = row, island, seed
        self.start, self.settings = start.numpy(), settings
        self.round = Round([self])
        self.answers: queue.SimpleQueue = queue.SimpleQueue()
        self.evaluations = self.made = 0
        self.kept: list[np.ndarray] = []
        self.broken = self.stopped = False
        self.statistics: dict[str, np.ndarray] = {}

    def log_density(self, position: np.ndarray) -> tuple[float, np.ndarray]:
        """Ask for an evaluation and wait for it; a chain that is stopped asks no more."""
        # Not an exception: nutpie would print it. NaN ends a trajectory at once.
        if self.stopped:
            return math.nan, np.zeros_like(position)
        self.round.ask(self, position)
        value, gradient = self.answers.get()
        if np.array_equal(position, self.start):
            # nutpie takes the first mass matrix from the first gradient, and refuses to begin
            # where a part of it is zero, as at an anchor with dead units. One is the scale of the
            # prior's gradient; what is off by it is the first trajectory of the warm-up.
            gradient = np.where(gradient == 0, 1.0, gradient)
        return value, gradient

    def keep(self, position: np.ndarray) -> dict[str, np.ndarray]:
        """Note a draw; the trace that nutpie builds of it is left empty."""
        if not self.stopped:
            self.made += 1
            after = self.made - self.settings.warmup_draws
            if after > 0 and after % self.settings.thinning == 0:
                self.kept.append(np.array(position))
            if self.made == self.settings.steps:
                self.stopped = True
                self.round.leave(self)
        return {"none": np.zeros(1)}

    def stop(self) -> None:
        """Let nutpie's thread go, whether it waits for an answer or is about to ask."""
        self.stopped = True
        self.answers.put((math.nan, np.zeros_like(self.start)))


def launcher(settings: NUTS) -> Callable[[Chain], Any]:
    """A function that starts a chain in the background, silently."""
    try:
        nutpie, from_pyfunc = load_nutpie()
    except ImportError as error:
        raise BadInput("`nutpie` must be installed for NUTS: pip install 'sbmc[nuts]'.") from error

    def launch(chain: Chain) -> Any:
        model = from_pyfunc(
            len(chain.start),
            lambda: chain.log_density,
            lambda *seeds: chain.keep,
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
            blocking=False,  # waiting, it would take a Ctrl-C for "enough" and return what it has
        )

    return launch


def run_side_by_side(
    launch: Callable[[Chain], Any],
    chains: Sequence[Chain],
    evaluate: Evaluate,
    tell: Callable[[], None],
) -> None:
    """Run some chains to their ends: rounds of one evaluation of each that still goes on."""
    samplers: dict[Chain, Any] = {}
    round_ = Round(chains)
    told = 0
    try:
        for chain in chains:
            chain.round = round_
            samplers[chain] = launch(chain)
        while samplers and round_.going:
            _wait(round_, samplers)
            if round_.asked:
                answers, lost = _evaluate(round_.asked, evaluate)
                round_.begin(lost)
                for chain, answer in answers.items():
                    chain.answers.put(answer)
            if (made := sum(chain.made for chain in chains)) > told:
                told = made
                tell()
        for chain in round_.ended:
            chain.statistics = _statistics(samplers.pop(chain).wait())
    finally:
        for chain in samplers:
            chain.stop()
        for sampler in samplers.values():
            # A chain that was stopped before its first draw says that it could not begin.
            with suppress(RuntimeError):
                sampler.cancel()


def _wait(round_: Round, samplers: Mapping[Chain, Any]) -> None:
    """Wait until a round is complete; if that takes long, see whether a chain has died."""
    while True:
        try:
            return round_.complete.get(timeout=PATIENCE)
        except queue.Empty:
            for chain in set(round_.going) - set(round_.asked):
                # It says by this error that it is still busy; any other is why it died.
                with suppress(TimeoutError):
                    if samplers[chain].is_finished and chain in round_.going:
                        raise RuntimeError("a chain of nutpie ended before its time") from None


def _evaluate(
    asked: Mapping[Chain, np.ndarray], evaluate: Evaluate
) -> tuple[dict[Chain, tuple[float, np.ndarray]], set[Chain]]:
    """Answers for chains that go on, and the chains of islands whose start was not finite."""
    # In the order of their rows, not in that of their coming: batches must be the same every time.
    chains = sorted(asked, key=lambda chain: chain.row)
    values, gradients = evaluate(torch.from_numpy(np.stack([asked[chain] for chain in chains])))
    answers = zip(values.tolist(), gradients.cpu().numpy(), strict=True)
    for chain, value in zip(chains, values.tolist(), strict=True):
        chain.evaluations += 1
        chain.broken = chain.evaluations == 1 and not math.isfinite(value)
    failed = {chain.island for chain in chains if chain.broken}
    lost = {chain for chain in chains if chain.island in failed}
    return {c: a for c, a in zip(chains, answers, strict=True) if c not in lost}, lost


def _statistics(trace: Any) -> dict[str, np.ndarray]:
    """What nutpie says of each draw, warm-up included."""
    _, (batch,) = trace.get_arrow_trace()
    names = ("mean_tree_accept", "n_steps", "diverging", "step_size_bar")
    return {name: np.array(batch.column(name).to_pylist()) for name in names}


def snapshot_of_chains(chains: Sequence[Chain], ended: int) -> Snapshot:
    """What the first `ended` chains have come to; the others have yet to begin."""
    tensors: dict[str, Tensor] = {}
    counts = [[chain.evaluations, chain.made, bool(chain.broken)] for chain in chains[:ended]]
    for chain in chains[:ended]:
        # Chains that were given up, with an island whose start was not finite, have none.
        if chain.statistics:
            tensors[f"{chain.row}.kept"] = torch.from_numpy(np.stack(chain.kept))
            for name, values in chain.statistics.items():
                tensors[f"{chain.row}.{name}"] = torch.from_numpy(values)
    return Snapshot(tensors, {"ended": ended, "counts": counts})


def go_on(snapshot: Snapshot, chains: Sequence[Chain]) -> None:
    """Put the chains that had ended back to their ends."""
    for chain, counts in zip(chains, snapshot.values["counts"], strict=False):
        chain.evaluations, chain.made, chain.broken = counts
        told = {
            name.split(".", 1)[1]: tensor.cpu().numpy()
            for name, tensor in snapshot.tensors.items()
            if name.split(".", 1)[0] == str(chain.row)
        }
        chain.kept = list(told.pop("kept", ()))
        chain.statistics = told
