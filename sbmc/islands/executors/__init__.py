"""Who runs the islands: this process, others of this machine, a Ray cluster, or a pool of yours."""

from typing import TYPE_CHECKING, Any

from sbmc.islands.executors.choice import as_executor, executors
from sbmc.islands.executors.contract import Done, Executor, Session, Tell
from sbmc.islands.executors.futures import Futures
from sbmc.islands.executors.in_process import InProcess

if TYPE_CHECKING:
    from sbmc.islands.executors.processes import Processes
    from sbmc.islands.executors.ray_cluster import Ray

__all__ = [
    "Done",
    "Executor",
    "Futures",
    "InProcess",
    "Processes",
    "Ray",
    "Session",
    "Tell",
    "as_executor",
    "executors",
]


def __getattr__(name: str) -> Any:
    # Most runs need neither; they are imported when they are first asked for.
    if name == "Processes":
        from sbmc.islands.executors.processes import Processes

        return Processes
    if name == "Ray":
        from sbmc.islands.executors.ray_cluster import Ray

        return Ray
    raise AttributeError(f"module 'sbmc.islands.executors' has no attribute {name!r}")
