"""Runs islands as tasks of a Ray cluster, or of a local one that is started for the run."""

from __future__ import annotations

import contextlib
import math
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sbmc.checks import BadInput, Phrase, is_number, require, require_count
from sbmc.islands.checkpoints import CheckpointFiles, Stopped
from sbmc.islands.executors.contract import (
    GRACE,
    PROGRESS_INTERVAL,
    Done,
    Executor,
    ProgressCallback,
    Session,
    WorkerLost,
    available_cores,
)
from sbmc.islands.executors.ray_connection import import_ray, one_machine, quietly, shutdown
from sbmc.islands.executors.ray_ranks import RayRanks, in_place, place_ranks
from sbmc.islands.executors.serialization import as_done, attempt, digest_of, pack_job
from sbmc.islands.job import Batch
from sbmc.log import logger
from sbmc.target.shards import ranks_of, started_by

if TYPE_CHECKING:
    from sbmc.islands.job import Job

# Seconds after which the size of a cluster is read again: it may grow with its tasks.
_GROWTH = 5.0
# CPUs or GPUs that one island may reserve: more than any machine has.
MOST_UNITS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Ray(Executor):
    """Run every island as a task of Ray.

    If Ray is initialised already, that connection is used. Otherwise `address`, or the environment
    variable RAY_ADDRESS, names a cluster to join. Without either, a local cluster is started for
    the run, which listens on the loopback interface only. The job is put into Ray's object store
    once.

    A task sees only the GPUs that Ray has given to it: with `sbmc.Compute(device="cuda")` and
    `gpus=1` every island computes on a GPU of its own.

    With `sbmc.Compute(shards=4)` an island is four tasks, its ranks, for which a placement group
    keeps places, on one machine or on several. Each rank has the `cpus` and `gpus`.

    Args:
        address: the address of a cluster: `"auto"`, `"host:port"` or `"ray://host:port"`. Its
            machines need sbmc, and all that the model imports.
        workers: the largest number of islands at a time; as many as fit if not given.
        cpus: CPUs of each island, or of each of its ranks; torch uses as many threads.
        gpus: GPUs, likewise; a fraction lets islands share one.

    Raises:
        BadInput: a setting breaks its rule.

    Examples:
        >>> Ray(workers=2, cpus=0.5).threads_each
        1
        >>> Ray(gpus=-1)
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `gpus` must be a number from 0 to 1,000,000, but got -1.
    """

    name: ClassVar[str] = "ray"
    summary: ClassVar[str] = "a Ray cluster, or a local one; an island in each task"
    address: str | None = None
    workers: int | None = None
    cpus: float = 1
    gpus: float = 0

    def __post_init__(self) -> None:
        good = self.address is None or (isinstance(self.address, str) and self.address != "")
        require(good, "address", "that of a Ray cluster, such as 'host:6379'", self.address)
        require_count("workers", self.workers, optional=True)
        good = is_number(self.cpus) and 0 < self.cpus <= MOST_UNITS
        require(good, "cpus", f"a positive number, at most {MOST_UNITS:,}", self.cpus)
        good = is_number(self.gpus) and 0 <= self.gpus <= MOST_UNITS
        require(good, "gpus", f"a number from 0 to {MOST_UNITS:,}", self.gpus)

    @property
    def threads_each(self) -> int:
        """Threads that torch may use for a batch."""
        return max(1, int(self.cpus))

    def open(
        self, job: Job, checkpoint_files: CheckpointFiles | None, report_progress: ProgressCallback
    ) -> Session:
        """Join the cluster or start one, and put the job into its object store."""
        payload, ranks = pack_job(job, checkpoint_files), ranks_of(job.engine)
        import_ray()
        started = self._connect(ranks)
        try:
            self._require_room(started, ranks)
            return _Session(self, payload, report_progress, started, ranks)
        except BaseException:
            if started:
                shutdown()
            raise

    def _connect(self, ranks: int = 1) -> bool:
        """Connect to Ray; return whether this session has to end the connection."""
        import ray

        if ray.is_initialized():
            return False
        quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        address = self.address or os.environ.get("RAY_ADDRESS")
        if address is not None:
            with quietly():
                try:
                    ray.init(address=address, **quiet)
                except (ConnectionError, ValueError, RuntimeError) as error:
                    rule = "that of a Ray cluster that can be reached"
                    require(False, "address", rule, Phrase(f"{address!r} ({error})"))
            return True
        if self.workers is not None:
            cores = math.ceil(self.workers * ranks * self.cpus)
        elif ranks > 1:  # an island's ranks share the cores of this machine if they have to
            cores = max(available_cores(), math.ceil(ranks * self.cpus))
        else:
            cores = available_cores()
        with quietly(), one_machine():
            ray.init(
                address="local",
                num_cpus=cores,
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                _system_config={"worker_niceness": 0},
                **quiet,
            )
        return True

    def _require_room(self, started: bool, ranks: int = 1) -> None:
        """Refuse resources that the cluster does not have: Ray would wait for them for ever."""
        import ray

        for name, kind, needed in (("cpus", "CPU", self.cpus), ("gpus", "GPU", self.gpus)):
            nodes = [node["Resources"].get(kind, 0) for node in ray.nodes() if node["Alive"]]
            most = max(nodes, default=0)
            # A cluster that was joined may grow.
            may_grow = not started or self.address is not None
            if needed > most:
                rule = f"at most what a machine of the cluster has, {most:g}"
                require(may_grow, name, rule, needed)
                logger.warning("an island needs %s = %g, and no machine has that yet", name, needed)
            elif needed and (room := sum(int(node / needed + 1e-9) for node in nodes)) < ranks:
                rule = f"so few that the cluster has room for the {ranks} ranks of an island"
                require(may_grow, name, rule, Phrase(f"{needed:g}, of which it has {room}"))
                logger.warning(
                    "an island has %d ranks of %s = %g, and the cluster has room for %d: the run "
                    "waits until it grows",
                    *(ranks, name, needed, room),
                )


def _board() -> type:
    """The class of an actor. Ray sends it as it is, so that its process does not import sbmc."""

    class Board:
        """Collects the progress of tasks, and tells them whether to stop."""

        def __init__(self) -> None:
            self.progress: dict[Batch, dict[str, Any]] = {}
            self.is_stopping = False

        def report_progress(self, batch: Batch, fields: dict[str, Any]) -> None:
            self.progress[batch] = fields

        def take(self) -> dict[Batch, dict[str, Any]]:
            progress, self.progress = self.progress, {}
            return progress

        def stop(self) -> None:
            self.is_stopping = True

        def stopping(self) -> bool:
            return self.is_stopping

    return Board


class _Session(Session):
    def __init__(
        self,
        settings: Ray,
        payload: bytes,
        report_progress: ProgressCallback,
        started: bool,
        ranks: int,
    ) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._settings, self._report_progress, self._started = settings, report_progress, started
        self._ranks = ranks
        self._digest, self._payload = digest_of(payload), ray.put(payload)
        self._task: Any = ray.remote(_task)
        this_node = NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=True
        )
        actor: Any = ray.remote(_board()).options(
            num_cpus=0, max_restarts=-1, scheduling_strategy=this_node
        )
        self._board: Any = actor.remote()
        self._reading: Any = None
        self._under_way: dict[Any, Batch] = {}
        self._places: dict[Any, Any] = {}  # the placement groups of islands with ranks
        self._stopping = False
        self._deadline: float | None = None
        self._slots, self._asked = 0, -_GROWTH

    @property
    def window(self) -> int:  # type: ignore[override]
        """`workers` if given, else twice as many as fit, so that no worker has to wait."""
        import ray

        if self._settings.workers is not None:
            return self._settings.workers
        if time.monotonic() - self._asked >= _GROWTH:
            self._asked = time.monotonic()
            has = ray.cluster_resources()
            rooms = [has.get("CPU", 0) / self._settings.cpus]
            if self._settings.gpus:
                rooms.append(has.get("GPU", 0) / self._settings.gpus)
            self._slots = max(1, int(min(rooms) / self._ranks))
        return 2 * self._slots

    def submit(self, batch: Batch) -> None:
        settings = self._settings
        resources, places = (settings.cpus, settings.gpus), None
        # The scheduler counts retries, the same way for all executors.
        options = {"num_cpus": settings.cpus, "num_gpus": settings.gpus, "max_retries": 0}
        if self._ranks > 1:
            places = place_ranks(self._ranks, *resources)
            options = in_place(places, 0, *resources)
        # In a list, so that a task fetches the job only if its process does not have it.
        arguments = [self._payload], self._digest, batch, self._board
        of_ranks = resources if self._ranks > 1 else None
        reference = self._task.options(**options).remote(*arguments, of_ranks)
        self._under_way[reference], self._places[reference] = batch, places

    def wait(self, timeout: float) -> list[Done]:
        import ray

        if self._stopping:
            self._stop_tasks()
        references = list(self._under_way)
        ready, _ = ray.wait(references, num_returns=1, timeout=timeout)
        if ready:
            ready, _ = ray.wait(references, num_returns=len(references), timeout=0)
        self._forward_progress()
        done = [self._done(reference, self._under_way.pop(reference)) for reference in ready]
        for reference in ready:
            self._free(reference)
        return done

    def _free(self, reference: Any) -> None:
        """Give back the places of an island, which ends what still runs there."""
        places = self._places.pop(reference)
        if places is not None:
            from ray.util.placement_group import remove_placement_group

            remove_placement_group(places)

    def _done(self, reference: Any, batch: Batch) -> Done:
        import ray
        from ray import exceptions

        try:
            return as_done(batch, ray.get(reference))
        except exceptions.TaskCancelledError as error:
            return Done(batch, error=Stopped(str(error)))
        # A task returns the errors of its computation. This error came before, such as a missing
        # sbmc.
        except exceptions.RayTaskError as error:
            raise BadInput(
                f"`executor` must be a Ray cluster whose machines can run sbmc, but got {error}"
            ) from error
        # The worker, its machine or its result was lost.
        except exceptions.RayError as error:
            message = str(error).strip().splitlines()[0] if str(error).strip() else ""
            return Done(batch, error=WorkerLost(f"{type(error).__name__}: {message}"), lost=True)

    def _forward_progress(self) -> None:
        """Report the progress that the board has collected, without waiting for it."""
        import ray

        if self._reading is None:
            self._reading = self._board.take.remote()
        ready, _ = ray.wait([self._reading], timeout=0)
        if not ready:
            return
        progress: dict[Batch, dict[str, Any]] = {}
        with contextlib.suppress(ray.exceptions.RayError):  # the board may be lost with its machine
            progress = ray.get(self._reading)
        self._reading = None
        running = set(self._under_way.values())
        for batch, fields in progress.items():
            if batch in running:
                self._report_progress(batch, fields)

    def _stop_tasks(self) -> None:
        import ray

        if self._deadline is None:
            self._deadline = time.monotonic() + GRACE
            self._board.stop.remote()
        elif time.monotonic() > self._deadline:
            for reference in self._under_way:
                ray.cancel(reference, force=True)

    def stop(self) -> None:
        self._stopping = True

    def close(self) -> None:
        import ray

        with contextlib.suppress(ray.exceptions.RayError):
            for reference in self._under_way:
                ray.cancel(reference, force=True)
            for reference in list(self._places):
                self._free(reference)
            ray.kill(self._board)
        if self._started:
            shutdown()


def _task(
    payload: list[Any],
    digest: str,
    batch: Batch,
    board: Any,
    rank_resources: tuple[float, float] | None,
) -> bytes:
    """The function that runs on the cluster; with the CPUs and GPUs of a rank if it has others."""
    import ray

    asked, pending, stopping = 0.0, None, False

    def report_progress(batch: Batch, fields: dict[str, Any]) -> None:
        with contextlib.suppress(
            Exception
        ):  # a failure while reporting progress must not stop an island
            board.report_progress.remote(batch, fields)

    def stop() -> bool:
        nonlocal asked, pending, stopping
        with contextlib.suppress(Exception):
            if pending is None and time.monotonic() - asked >= PROGRESS_INTERVAL:
                asked, pending = time.monotonic(), board.stopping.remote()
            elif pending is not None and ray.wait([pending], timeout=0)[0]:
                answer, pending = pending, None
                stopping = stopping or ray.get(answer)
        return stopping

    ranks: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if rank_resources is not None:
        ranks = started_by(lambda shards: RayRanks(shards, *rank_resources))
    with ranks:
        return attempt(lambda: ray.get(payload[0]), digest, batch, report_progress, stop)
