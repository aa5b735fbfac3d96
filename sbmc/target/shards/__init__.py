"""The likelihood of one island in several processes, each with a part of the data.

Rank 0 is the process that samples. It broadcasts parameters, every rank evaluates them on its own
examples, and the sums come back to rank 0. The other ranks know neither prior nor sampler.
"""

from sbmc.target.shards.engine import ShardedEngine, ranks_of
from sbmc.target.shards.group import RankLost
from sbmc.target.shards.settings import Shards, as_shards
from sbmc.target.shards.started import started_by
from sbmc.target.shards.torchrun import on_rank_zero, with_ranks

__all__ = [
    "RankLost",
    "ShardedEngine",
    "Shards",
    "as_shards",
    "on_rank_zero",
    "ranks_of",
    "started_by",
    "with_ranks",
]
