"""Ranks as processes of this machine, which this process starts and ends.

Connections are on the loopback device alone, and the ranks find each other through a file in a
folder that only this user can read.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile

import torch.distributed as dist

from sbmc.target.shards.child_process import die_with
from sbmc.target.shards.group import RankLost, Ranks
from sbmc.target.shards.meeting import LOOPBACK, join_group, say_ready, wait_for_ranks
from sbmc.target.shards.serving import serve
from sbmc.target.shards.settings import Shards

# A process gets exactly the parent's search path, as a worker of an executor does.
_BEGIN = (
    "import sys; sys.path[:] = sys.argv[6:]; "
    "from sbmc.target.shards.local_ranks import run_rank; run_rank(*sys.argv[1:6])"
)
_THREADS = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB")


class LocalRanks:
    """The other ranks of this process.

    Args:
        shards: how many, and how long to wait for one.

    Raises:
        RankLost: one of them died while it started, or did not start in time.
    """

    def __init__(self, shards: Shards) -> None:
        self.shards, self.owner = shards, os.getpid()
        size, threads = int(shards.ranks), shards.threads_each
        folder = tempfile.mkdtemp(prefix="sbmc-ranks-")
        limits = {f"{name}_NUM_THREADS": str(threads) for name in _THREADS}
        paths = [path or os.getcwd() for path in sys.path]
        settings = str(self.owner), folder, str(size), str(shards.timeout)
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            for rank in range(1, size):
                process = subprocess.Popen(
                    [sys.executable, "-c", _BEGIN, *settings, str(rank), *paths],
                    stdin=subprocess.DEVNULL,
                    stdout=sys.stderr.fileno() if _has_file(sys.stderr) else subprocess.DEVNULL,
                    env={**os.environ, **limits},
                )
                self._processes.append(process)
            store = dist.FileStore(os.path.join(folder, "store"), size)
            wait_for_ranks(store, size, self._has_ended, self.ending)
            group = join_group(store, 0, size, LOOPBACK)
            self.ranks = Ranks(group, shards.timeout, self.ending)
        except BaseException:
            self.close()
            raise
        finally:
            # Now, since a process that is killed leaves what it would remove at its end.
            shutil.rmtree(folder, ignore_errors=True)

    def _has_ended(self, rank: int) -> bool:
        return self._processes[rank - 1].poll() is not None

    def ending(self, rank: int) -> str:
        """How the process of a rank has ended, in words; empty if it has not."""
        process = self._processes[rank - 1]
        try:
            code = process.wait(1.0)  # its connections are closed before its end is known
        except subprocess.TimeoutExpired:
            return ""
        return f"its process ended by signal {-code}" if code < 0 else f"its process ended: {code}"

    @property
    def usable(self) -> bool:
        """Whether all are there, in step, and children of this process."""
        alive = all(process.poll() is None for process in self._processes)
        return alive and self.owner == os.getpid() and not self.ranks.broken

    def close(self) -> None:
        """End all processes at once."""
        if self.owner == os.getpid():  # a forked child has not started them
            for process in self._processes:
                process.kill()
            for process in self._processes:
                process.wait()


def run_rank(parent: str, folder: str, size: str, timeout: str, rank: str) -> None:
    """What the process of a rank does; the arguments are texts of the command line."""
    die_with(int(parent))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for rank 0, which ends the others
    store = dist.FileStore(os.path.join(folder, "store"), int(size))
    say_ready(store, int(rank))
    try:
        serve(Ranks(join_group(store, int(rank), int(size), LOOPBACK), float(timeout)))
    except RankLost:
        # Rank 0 says so. Nothing is to be cleaned up here, and a group that has lost a rank may
        # wait for it when it is taken down.
        os._exit(1)


def _has_file(stream: object) -> bool:
    try:
        return stream.fileno() >= 0  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
