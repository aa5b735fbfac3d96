"""Executors run the islands: in this process, in others, on a Ray cluster, or in your own pool."""

from sbmc.islands.executors.choice import as_executor, executors
from sbmc.islands.executors.contract import Done, Executor, ProgressCallback, Session
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
    "ProgressCallback",
    "Ray",
    "Session",
    "as_executor",
    "executors",
]
