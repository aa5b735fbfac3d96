"""Who runs the islands: this process, others of this machine, a Ray cluster, or a pool of yours."""

from sbmc.executors.choice import as_executor, executors
from sbmc.executors.contract import Done, Executor, Session, Tell
from sbmc.executors.futures import Futures
from sbmc.executors.in_process import InProcess
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
