"""Hands batches of islands to an executor until every island has ended or is given up.

Failure is a value: an island whose worker was lost, or whose computation raised an error, is tried
again where that can help, and is otherwise reported as failed. The other islands are not affected.
"""

from __future__ import annotations

import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sbmc.checks import BadInput, require_count
from sbmc.islands.checkpoints import CheckpointError, CheckpointFiles, Stopped, is_final
from sbmc.islands.executors.contract import PROGRESS_INTERVAL, Done, Executor, Session
from sbmc.islands.executors.in_process import InProcess
from sbmc.islands.island import Island, IslandReport, Start
from sbmc.islands.job import Batch, Job, plan_batches
from sbmc.log import logger
from sbmc.progress import Bar, open_progress
from sbmc.samplers.contract import Sampler
from sbmc.target.shards import RankLost
from sbmc.target.target import Target

if TYPE_CHECKING:
    from sbmc.islands.checkpoints import Checkpoint


class Interrupted(KeyboardInterrupt):
    """Ctrl-C has stopped a run whose checkpoint is complete.

    Attributes:
        done: how many islands have ended.
        islands: how many there are.
        path: where the checkpoint is.
    """

    def __init__(self, done: int, islands: int, path: str) -> None:
        super().__init__(
            f"stopped with {done} of {islands} islands done; the checkpoint in {path} is complete, "
            "and the same call continues from there."
        )
        self.done, self.islands, self.path = done, islands, path

    def __reduce__(self) -> tuple[type[Interrupted], tuple[int, int, str]]:
        """Rank 0 sends it to the other ranks."""
        return Interrupted, (self.done, self.islands, self.path)


def run_batches(
    job: Job,
    batches: Sequence[Sequence[int]],
    *,
    executor: Executor | None = None,
    checkpoint: Checkpoint | None = None,
    retries: int = 2,
    progress: bool | None = None,
    finished: Mapping[int, Island] | None = None,
    expected: str = "",
    keep: Callable[[Island], Island] | None = None,
) -> list[Island]:
    """Run batches of islands with an executor.

    If the computation of a batch of several islands raises an error, the islands are run again one
    by one. A single island is tried again if its worker was lost, or if there is a checkpoint from
    which it can continue: without one, the same error would only be raised again.

    Args:
        job: what islands need to run.
        batches: the numbers of the islands that run together.
        executor: runs them; by default in this process.
        checkpoint: where islands save their snapshots and their results.
        retries: how often a batch is tried again, at most.
        progress: None for automatic, False for silence, True for always.
        finished: islands that ended in an earlier run. They are not run again, but counted and
            returned.
        expected: the forecast of memory, as text for the first line of the progress.
        keep: what becomes of an island that has ended; it stays in memory if None.

    Returns:
        All islands, the finished ones too, in the order of their numbers. One that was given up has
        the outcome `failed`, and its report says why.

    Raises:
        BadInput: the job cannot be sent to the workers, or the sampler refuses it.
        CheckpointError: the checkpoint cannot be written. The files that it has are complete.
        RankLost: a rank was lost that only torchrun can start again.
        Interrupted: Ctrl-C was pressed once, and there is a checkpoint. Pressed twice, or without a
            checkpoint, it is a KeyboardInterrupt at once.
    """
    require_count("retries", retries, 0)
    chosen = InProcess() if executor is None else executor
    if job.threads is None:
        job = replace(job, threads=chosen.threads_each)
    run = _Run(job, checkpoint, int(retries), dict(finished or {}), keep)
    run.add_batches([tuple(batch) for batch in batches])
    each, unit = job.progress_unit()
    total, before = len(run.numbers) * (each or 1), len(run.ended) * (each or 1)
    with open_progress(
        progress, "sampling", total=total, unit=unit, before=before, expected=expected
    ) as bar:
        run.drive(chosen, bar)
    return [run.ended[index] for index in sorted(run.ended)]


class _Run:
    """The islands that have ended, and the batches that are running or waiting."""

    def __init__(
        self,
        job: Job,
        checkpoint: Checkpoint | None,
        retries: int,
        finished: dict[int, Island],
        keep: Callable[[Island], Island] | None = None,
    ) -> None:
        self.ended = finished
        self.numbers = set(finished)
        self._job, self._checkpoint, self._retries = job, checkpoint, retries
        self._keep = keep
        self._checkpoint_files: CheckpointFiles | None = (
            None if checkpoint is None else checkpoint.checkpoint_files()
        )
        self._waiting: deque[Batch] = deque()
        self._under_way: set[Batch] = set()
        self._tries: Counter[Batch] = Counter()  # attempts of this batch
        self._begun: Counter[int] = Counter()  # attempts of an island, in any batch
        self._progress: dict[Batch, dict[str, Any]] = {}
        self._reported: set[Batch] = set()
        self._stopping = False

    def add_batches(self, batches: list[Batch]) -> None:
        """Queue batches without the islands that have ended."""
        for batch in batches:
            self.numbers |= set(batch)
            unfinished = tuple(index for index in batch if index not in self.ended)
            if not unfinished:
                continue
            # A batch that was killed while its results were written is run to its end again:
            # alone, the islands that are missing would get other bits. A batch that was split into
            # single islands has no snapshot.
            as_one = unfinished == batch or (
                self._checkpoint_files and self._checkpoint_files.checkpointer(batch).attempts
            )
            self._waiting.extend([batch] if as_one else [(index,) for index in unfinished])

    def drive(self, executor: Executor, bar: Bar) -> None:
        """Submit batches and collect their results until none is left."""

        def report_progress(batch: Batch, fields: dict[str, Any]) -> None:
            if self._tries[batch] == 1 and batch not in self._reported:
                # A batch that continues from a checkpoint starts with the steps that it had made.
                self._reported.add(batch)
                bar.skip(fields["done"])
            self._progress[batch] = fields
            self._show(bar)

        if not self._waiting:
            return
        with (
            executor.open(self._job, self._checkpoint_files, report_progress) as session,
            self._stops(session),
        ):
            while self._waiting or self._under_way:
                while self._waiting and len(self._under_way) < session.window:
                    if self._stopping:
                        self._waiting.clear()
                        break
                    batch = self._waiting.popleft()
                    self._under_way.add(batch)
                    self._tries[batch] += 1
                    self._begun.update(batch)
                    session.submit(batch)
                if not self._under_way:
                    break
                for done in session.wait(PROGRESS_INTERVAL):
                    self._under_way.remove(done.batch)
                    self._progress.pop(done.batch, None)
                    self._handle(done)
                    # What an interrupted batch has done is saved, and the bar stays where it was.
                    if done.islands is not None or not self._stopping:
                        self._show(bar)
        if self._stopping and self.numbers - self.ended.keys():
            assert self._checkpoint is not None
            done_now = sum(index in self.ended for index in self.numbers)
            raise Interrupted(done_now, len(self.numbers), str(self._checkpoint.path))

    @contextmanager
    def _stops(self, session: Session) -> Iterator[None]:
        """Make Ctrl-C ask for a clean stop if there is a checkpoint to continue from."""
        main = threading.current_thread() is threading.main_thread()
        if self._checkpoint_files is None or not main:
            yield
            return

        def on_signal(number: int, frame: Any) -> None:
            if self._stopping:
                raise KeyboardInterrupt
            self._stopping = True
            logger.warning(
                "stopping: islands save their snapshots; press Ctrl-C again to kill them"
            )
            session.stop()

        before = signal.signal(signal.SIGINT, on_signal)
        try:
            yield
        finally:
            # None if the handler was not set from Python; it cannot be set again then.
            if before is not None:
                signal.signal(signal.SIGINT, before)

    def _handle(self, done: Done) -> None:
        """Accept the results of a batch that has ended, or queue it again."""
        if done.islands is not None:
            self._accept(done.batch, done.islands)
        elif isinstance(done.error, BadInput | CheckpointError) or _only_torchrun(done.error):
            assert done.error is not None
            raise done.error
        elif self._stopping or isinstance(done.error, Stopped):
            if not self._stopping:
                raise KeyboardInterrupt(str(done.error))
        elif not self._recover_saved(done.batch):
            self._retry_or_give_up(done)

    def _recover_saved(self, batch: Batch) -> bool:
        """Take islands whose results were saved before their worker was lost."""
        if self._checkpoint is None:
            return False
        saved = self._checkpoint.finished()
        if not all(index in saved for index in batch):
            return False
        self.ended |= {index: saved[index] for index in batch}
        return True

    def _accept(self, batch: Batch, islands: list[Island]) -> None:
        alone = len(batch) == 1 and self._checkpoint_files is not None
        if alone and not is_final(islands[0].report) and self._tries[batch] <= self._retries:
            if not self._stopping:
                logger.warning(
                    "island %d: %s; it is tried again", batch[0], islands[0].report.outcome
                )
                self._waiting.append(batch)
            return
        for island in islands:
            index = island.report.index
            if self._checkpoint_files is None and self._begun[index] > 1:
                report = replace(island.report, attempts=self._begun[index])
                island = replace(island, report=report)
            # The result of an earlier attempt that had ended is not replaced.
            if index not in self.ended:
                self.ended[index] = island if self._keep is None else self._keep(island)

    def _retry_or_give_up(self, done: Done) -> None:
        batch, cause = done.batch, _describe(done.error)
        if self._tries[batch] <= self._retries and (
            done.lost or (len(batch) == 1 and self._checkpoint_files is not None)
        ):
            logger.warning("islands %s failed (%s); they are tried again", list(batch), cause)
            # At the end of the queue, since the cause of the failure may be gone by then.
            self._waiting.append(batch)
        elif len(batch) > 1:
            logger.warning(
                "islands %s failed as one batch (%s); they are now run one by one",
                list(batch),
                cause,
            )
            if self._checkpoint_files is not None:
                self._checkpoint_files.checkpointer(batch).finish()
            self._waiting.extend((index,) for index in batch if index not in self.ended)
        else:
            self._give_up(batch, cause)

    def _give_up(self, batch: Batch, cause: str) -> None:
        attempts = self._begun[batch[0]]
        if self._checkpoint_files is not None:
            attempts = max(attempts, self._checkpoint_files.checkpointer(batch).attempts)
        island = Island(IslandReport(batch[0], "failed", message=cause, attempts=attempts), None)
        if self._checkpoint_files is not None:
            self._checkpoint_files.save_islands([island])
        self.ended[batch[0]] = island

    def _show(self, bar: Bar) -> None:
        each, unit = self._job.progress_unit()
        progress = self._progress.values()
        through = len(self.ended) + sum(fields["through"] for fields in progress)
        done = len(self.ended) * (each or 1) + sum(fields["done"] for fields in progress)
        shown: dict[str, object] = {}
        if each is not None:  # otherwise progress is counted in islands
            shown["islands"] = f"{through}/{len(self.numbers)}"
        shown |= _summary(self._progress)
        if any("settling" in fields for fields in progress):
            left = 1 - done / (len(self.numbers) * (each or 1))
            shown["budget_left"] = budget_left(left, max(f["epochs"] for f in progress), each or 1)
        if unit == "epochs":
            shown.pop("epochs", None)
        if self._stopping:
            shown = {"stopping": "(Ctrl-C again kills)"} | shown
        bar.update(done, **shown)


def _only_torchrun(error: BaseException | None) -> bool:
    """Whether a rank was lost that cannot be started again from here."""
    return isinstance(error, RankLost) and not error.restartable


def _describe(error: BaseException | None) -> str:
    return "" if error is None else f"{type(error).__name__}: {error}"


def _summary(progress: Mapping[Batch, dict[str, Any]]) -> dict[str, object]:
    """The numbers to show beside the progress, of the islands that are running."""

    def known(name: str) -> list[tuple[int, float]]:
        return [(len(batch), fields[name]) for batch, fields in progress.items() if name in fields]

    shown: dict[str, object] = {}
    if temperatures := known("temperature"):
        shown["lowest_temperature"] = min(value for _, value in temperatures)
    if epochs := known("epochs"):
        shown["epochs"] = max(value for _, value in epochs)
    if acceptance := known("acceptance"):
        islands = sum(count for count, _ in acceptance)
        shown["acceptance"] = sum(count * value for count, value in acceptance) / islands
    if settling := [value for _, value in known("settling") if value is not None]:
        shown["settling_figure"] = f"{max(settling):.2f}"
    return shown


def budget_left(share: float, epochs: float, budget: int) -> str:
    """What is left of the budget of all islands, and whether one has gone beyond its own.

    Args:
        share: of the budget that is left.
        epochs: the most that an island has made.
        budget: epochs of an island.

    Examples:
        >>> budget_left(0.25, 150, 200), budget_left(0.0, 250, 200)
        ('25 %', '0 %, extended 1.25 times')
    """
    text = f"{100 * share:.0f} %"
    return f"{text}, extended {epochs / budget:.3g} times" if epochs > budget else text


def run_islands(
    sampler: Sampler,
    target: Target | Sequence[Target],
    start: Start,
    *,
    islands: int,
    particles: int,
    seed: int,
    progress: bool | None = None,
    fold: int | None = None,
) -> list[Island]:
    """Run `islands` islands of `particles` particles in this process, folded into batches.

    Args:
        sampler: the algorithm's settings.
        target: log likelihood and gradient; or targets of one engine with several priors, one
            for each anchor, which the islands take in turn. Only islands of one target are folded.
        start: where an island's particles begin.
        islands: how many.
        particles: particles per island.
        seed: island i draws from the stream (seed, i) and from nothing else.
        progress: None for automatic, False for silence, True for always.
        fold: the largest number of particles in one batch; a larger island is a batch of its own.

    Returns:
        The islands in order; see `run_batches`.
    """
    targets = target if isinstance(target, Sequence) else [target]
    priors = [each.prior for each in targets]
    shared = targets[0]
    job = Job(sampler, shared.engine, priors, start, particles, seed, shared.power)
    batches = plan_batches(range(islands), len(priors), sampler.population(particles), fold)
    return run_batches(job, batches, executor=InProcess(), progress=progress)
