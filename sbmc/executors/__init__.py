"""Who runs the islands: this process, others of this machine, a Ray cluster, or a pool of yours."""

from typing import TYPE_CHECKING, Any

from sbmc.executors.choice import as_executor, executors
from sbmc.executors.contract import Done, Executor, Session, Tell
from sbmc.executors.futures import Futures
from sbmc.executors.in_process import InProcess

if TYPE_CHECKING:
    from sbmc.executors.processes import Processes
    from sbmc.executors.ray_cluster import Ray

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
        from sbmc.executors.processes import Processes

        return Processes
    if name == "Ray":
        from sbmc.executors.ray_cluster import Ray

        return Ray
    raise AttributeError(f"module 'sbmc.executors' has no attribute {name!r}")
