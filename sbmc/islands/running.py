"""Batches of islands handed to an executor, until every island has ended or was given up.

Failure is a value: an island whose worker was lost, or whose work raised, is tried again where that
can help, and reported at last. What goes on in the others is not touched by it.
"""

from __future__ import annotations

import signal
import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sbmc.checks import BadInput, is_whole, require
from sbmc.islands.checkpoints import CheckpointError, CheckpointFiles, Stopped, is_final
from sbmc.islands.executors.contract import TELL_INTERVAL, Done, Executor, Session
from sbmc.islands.executors.in_process import InProcess
from sbmc.islands.island import Island, IslandReport, Start
from sbmc.islands.work import Batch, Work, plan_batches
from sbmc.log import logger
from sbmc.progress import Bar, open_progress
from sbmc.samplers.contract import Sampler
from sbmc.target.target import Target

if TYPE_CHECKING:
    from sbmc.islands.checkpoints import Checkpoint


class Interrupted(KeyboardInterrupt):
    """Ctrl-C has stopped a run whose checkpoint is in order.

    Attributes:
        done: islands that have ended.
        islands: how many there are.
        path: of the checkpoint.
    """

    def __init__(self, done: int, islands: int, path: str) -> None:
        super().__init__(
            f"stopped with {done} of {islands} islands done; the checkpoint in {path} is in order, "
            "and the same call goes on from there."
        )
        self.done, self.islands, self.path = done, islands, path


def run_batches(
    work: Work,
    batches: Sequence[Sequence[int]],
    *,
    executor: Executor | None = None,
    checkpoint: Checkpoint | None = None,
    retries: int = 2,
    progress: bool | None = None,
    finished: Mapping[int, Island] | None = None,
    expected: str = "",
) -> list[Island]:
    """Run batches of islands wherever the executor runs them.

    A fold of several islands whose work raises is run again island by island. An island alone is
    tried again if its worker was lost, or if there is a checkpoint from which it can go on: without
    one, what the work raised would only come again.

    Args:
        work: what islands do.
        batches: numbers of the islands that run as one.
        executor: who runs them; in process if not given.
        checkpoint: where islands write down where they are, and what came of them.
        retries: how often a batch is tried again, at most.
        progress: None for automatic, False for silence, True for always.
        finished: islands that have ended before. They are not run again, but counted and returned.
        expected: words of what it will take, for the first line of the progress.

    Returns:
        All islands, the finished ones too, in the order of their numbers. One that was given up has
        the outcome `failed`, and says why.

    Raises:
        BadInput: the work cannot be sent to the workers, or the sampler refuses it.
        CheckpointError: the checkpoint cannot be written. What it has is whole.
        Interrupted: Ctrl-C was pressed once, and there is a checkpoint. Pressed twice, or without a
            checkpoint, it is a KeyboardInterrupt at once.
    """
    require(is_whole(retries) and retries >= 0, "retries", "a non-negative integer", retries)
    engine = InProcess() if executor is None else executor
    if work.threads is None:
        work = replace(work, threads=engine.threads_each)
    run = _Run(work, checkpoint, int(retries), dict(finished or {}))
    run.plan([tuple(batch) for batch in batches])
    each, unit = work.measure()
    total, before = len(run.numbers) * (each or 1), len(run.ended) * (each or 1)
    with open_progress(
        progress, "sampling", total=total, unit=unit, before=before, expected=expected
    ) as bar:
        run.drive(engine, bar)
    return [run.ended[index] for index in sorted(run.ended)]


class _Run:
    """What has ended, what is under way, and what waits."""

    def __init__(
        self,
        work: Work,
        checkpoint: Checkpoint | None,
        retries: int,
        finished: dict[int, Island],
    ) -> None:
        self.ended = finished
        self.numbers = set(finished)
        self._work, self._checkpoint, self._retries = work, checkpoint, retries
        self._checkpoint_files: CheckpointFiles | None = (
            None if checkpoint is None else checkpoint.checkpoint_files()
        )
        self._waiting: deque[Batch] = deque()
        self._under_way: set[Batch] = set()
        self._tries: Counter[Batch] = Counter()  # of this very batch
        self._begun: Counter[int] = Counter()  # of an island, in whatever batch
        self._news: dict[Batch, dict[str, Any]] = {}
        self._heard: set[Batch] = set()
        self._stopping = False

    def plan(self, batches: list[Batch]) -> None:
        """Note what is to be done; islands that have ended are left out."""
        for batch in batches:
            self.numbers |= set(batch)
            left = tuple(index for index in batch if index not in self.ended)
            if not left:
                continue
            # A fold that was killed while its islands were written is run to its end again: alone,
            # those that are missing would get other bits. A fold that was broken up has no state.
            whole = left == batch or (
                self._checkpoint_files and self._checkpoint_files.checkpointer(batch).attempts
            )
            self._waiting.extend([batch] if whole else [(index,) for index in left])

    def drive(self, executor: Executor, bar: Bar) -> None:
        """Hand out batches and take them back until none is left."""

        def tell(batch: Batch, fields: dict[str, Any]) -> None:
            if self._tries[batch] == 1 and batch not in self._heard:
                # Mostly nothing, but a batch that goes on from a checkpoint has come some way.
                self._heard.add(batch)
                bar.skip(fields["done"])
            self._news[batch] = fields
            self._show(bar)

        if not self._waiting:
            return
        with (
            executor.open(self._work, self._checkpoint_files, tell) as session,
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
                for done in session.wait(TELL_INTERVAL):
                    self._under_way.remove(done.batch)
                    self._news.pop(done.batch, None)
                    self._take(done)
                    self._show(bar)
        if self._stopping and self.numbers - self.ended.keys():
            assert self._checkpoint is not None
            done_now = sum(index in self.ended for index in self.numbers)
            raise Interrupted(done_now, len(self.numbers), str(self._checkpoint.path))

    @contextmanager
    def _stops(self, session: Session) -> Iterator[None]:
        """Ctrl-C asks for a clean stop where there is something to go on from."""
        main = threading.current_thread() is threading.main_thread()
        if self._checkpoint_files is None or not main:
            yield
            return

        def on_signal(number: int, frame: Any) -> None:
            if self._stopping:
                raise KeyboardInterrupt
            self._stopping = True
            logger.warning("stopping: islands write down where they are; Ctrl-C again kills them")
            session.stop()

        before = signal.signal(signal.SIGINT, on_signal)
        try:
            yield
        finally:
            # None if it was not set from Python; there is no way to set it again then.
            if before is not None:
                signal.signal(signal.SIGINT, before)

    def _take(self, done: Done) -> None:
        """Settle a batch that has ended, or have it tried again."""
        if done.islands is not None:
            self._settle(done.batch, done.islands)
        elif isinstance(done.error, BadInput | CheckpointError):
            raise done.error
        elif self._stopping or isinstance(done.error, Stopped):
            if not self._stopping:
                raise KeyboardInterrupt(str(done.error))
        elif not self._found(done.batch):
            self._again_or_never(done)

    def _found(self, batch: Batch) -> bool:
        """Take islands whose results were kept before their worker was lost."""
        if self._checkpoint is None:
            return False
        kept = self._checkpoint.finished()
        if not all(index in kept for index in batch):
            return False
        self.ended |= {index: kept[index] for index in batch}
        return True

    def _settle(self, batch: Batch, islands: list[Island]) -> None:
        alone = len(batch) == 1 and self._checkpoint_files is not None
        if alone and not is_final(islands[0].report) and self._tries[batch] <= self._retries:
            if not self._stopping:
                logger.warning("island %d: %s; again", batch[0], islands[0].report.outcome)
                self._waiting.append(batch)
            return
        for island in islands:
            index = island.report.index
            if self._checkpoint_files is None and self._begun[index] > 1:
                report = replace(island.report, attempts=self._begun[index])
                island = replace(island, report=report)
            # What had ended before this attempt stays.
            self.ended.setdefault(index, island)

    def _again_or_never(self, done: Done) -> None:
        batch, words = done.batch, _words(done.error)
        if self._tries[batch] <= self._retries and (
            done.lost or (len(batch) == 1 and self._checkpoint_files is not None)
        ):
            logger.warning("islands %s failed (%s); again", list(batch), words)
            # Last, since whatever made it fail may have passed by then.
            self._waiting.append(batch)
        elif len(batch) > 1:
            logger.warning(
                "islands %s failed as one batch (%s); one by one now", list(batch), words
            )
            if self._checkpoint_files is not None:
                self._checkpoint_files.checkpointer(batch).finish()
            self._waiting.extend((index,) for index in batch if index not in self.ended)
        else:
            self._give_up(batch, words)

    def _give_up(self, batch: Batch, words: str) -> None:
        attempts = self._begun[batch[0]]
        if self._checkpoint_files is not None:
            attempts = max(attempts, self._checkpoint_files.checkpointer(batch).attempts)
        island = Island(IslandReport(batch[0], "failed", message=words, attempts=attempts), None)
        if self._checkpoint_files is not None:
            self._checkpoint_files.keep([island])
        self.ended[batch[0]] = island

    def _show(self, bar: Bar) -> None:
        each, unit = self._work.measure()
        news = self._news.values()
        through = len(self.ended) + sum(fields["through"] for fields in news)
        done = len(self.ended) * (each or 1) + sum(fields["done"] for fields in news)
        shown: dict[str, object] = {}
        if each is not None:  # otherwise it is islands that are counted
            shown["islands"] = f"{through}/{len(self.numbers)}"
        shown |= _summary(self._news)
        if unit == "epochs":
            shown.pop("epochs", None)
        bar.update(done, **shown)


def _words(error: BaseException | None) -> str:
    return "" if error is None else f"{type(error).__name__}: {error}"


def _summary(news: Mapping[Batch, dict[str, Any]]) -> dict[str, object]:
    """The numbers to show beside the progress: of the islands that are under way."""

    def known(name: str) -> list[tuple[int, float]]:
        return [(len(batch), fields[name]) for batch, fields in news.items() if name in fields]

    shown: dict[str, object] = {}
    if heat := known("temperature"):
        shown["lowest_temperature"] = min(value for _, value in heat)
    if epochs := known("epochs"):
        shown["epochs"] = max(value for _, value in epochs)
    if acceptance := known("acceptance"):
        islands = sum(count for count, _ in acceptance)
        shown["acceptance"] = sum(count * value for count, value in acceptance) / islands
    return shown


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
    """Run `islands` islands of `particles` particles in this process, folded into batches that fit.

    Args:
        sampler: the algorithm's settings.
        target: log likelihood and gradient; or targets of one engine with several priors, one
            for each anchor, which the islands take in turn. Only islands of one are folded.
        start: where an island's particles begin.
        islands: how many.
        particles: particles per island.
        seed: island i draws from the stream (seed, i) and from nothing else.
        progress: None for automatic, False for silence, True for always.
        fold: most particles of one batch; an island that has more is a batch of its own.

    Returns:
        The islands in order; see `run_batches`.
    """
    targets = target if isinstance(target, Sequence) else [target]
    priors = [each.prior for each in targets]
    shared = targets[0]
    work = Work(sampler, shared.engine, priors, start, particles, seed, shared.power)
    batches = plan_batches(range(islands), len(priors), sampler.population(particles), fold)
    return run_batches(work, batches, executor=InProcess(), progress=progress)
