"""Who runs the islands: this process, others of this machine, a Ray cluster, or a pool of yours."""

from sbmc.islands.executors.choice import as_executor, executors
from sbmc.islands.executors.contract import Done, Executor, Session, Tell
from sbmc.islands.executors.futures import Futures
from sbmc.islands.executors.in_process import InProcess
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
