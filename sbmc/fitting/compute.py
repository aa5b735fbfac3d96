"""`sbmc.Compute`: where and how islands are computed, and how they are put together."""

from __future__ import annotations

import math
from concurrent.futures import Executor as FuturesExecutor
from dataclasses import dataclass
from os import PathLike

import torch

from sbmc.checks import is_number, require, require_count, require_flag
from sbmc.islands.checkpoints import CheckpointAt, as_checkpoint
from sbmc.islands.executors import Executor, InProcess, as_executor
from sbmc.islands.process_memory import parse_bytes
from sbmc.model.devices import as_device
from sbmc.model.forward import check_path
from sbmc.posterior.weights import check_weighting
from sbmc.prior.options import changed_options
from sbmc.target.shards import Shards, as_shards


@dataclass(frozen=True, kw_only=True, repr=False)
class Compute:
    """Where and how `fit` computes, apart from what is sampled.

    Args:
        executor: what runs the islands: `"in-process"` (the default; islands are folded into
            batches), `"processes"`, `"ray"`, settings such as `sbmc.Processes(workers=4)`,
            or any `concurrent.futures.Executor`.
        checkpoint: a folder, or `sbmc.CheckpointAt(folder, every=seconds)`: every island saves its
            state, and the same call continues a run that was stopped, with the same bits. A
            finished run with more `islands` is extended. Only one run can use a folder at a time.
        memory_limit: of each process that runs islands, libraries and data included: bytes, or
            a text such as `"2GiB"` or `"500 MB"`. Chunks, batches and threads are chosen to stay
            inside, and finished particles that do not fit are on disk; a run that cannot is refused
            at once.
        device: where to compute; the model's if not given.
        dtype: of parameters and data; the model's if not given.
        store_dtype: of the finished particles in the posterior: `torch.bfloat16` takes half the
            memory and the disk space of float32. Particles that are sampled never have it, since
            small steps would be rounded away, and predictions compute in `dtype`.
        shards: how many processes an island has, each with a part of the data, or
            `sbmc.Shards(...)`. `"torchrun"` takes those that torchrun has started.
        retries: how often an island is tried again whose worker was lost or, if there is a
            checkpoint to continue from, whose computation failed.
        chunk_size: examples per chunk; by rule if not given.
        path: how the model is evaluated: `"auto"`, `"fused"`, `"vmap"` or `"loop"`.
        first_island: the number of the first island; with it, two machines can each make some
            islands of one run, for `sbmc.merge`.
        island_weights: how islands are combined: `"evidence"` (SMC's default, and for it alone) or
            `"equal"`, which is the only way with `anchors`: evidence compares islands of one prior.
        anchor_epochs: the cost of the anchors; by default it is read from the training histories of
            the model or of all `anchors`, if they have some.
        throw: raise an error if an island fails, rather than continue with the others.
        streaming: whether a data set or a loader is read anew in each pass instead of being held
            in memory: for samplers on mini-batches, which then have batches that the particles of
            an island share. By default it is held, unless it is iterable, or takes more than
            `memory_limit`, or 4 GiB without a limit.
        augment: consent to data whose rows differ each time they are read, as by random
            augmentation. They are streamed. What is sampled is no posterior of the data then: the
            log likelihood is a mean over augmentations.

    Raises:
        BadInput: a value breaks its rule.

    Examples:
        >>> Compute(executor="processes", retries=0)
        Compute(executor='processes', retries=0)
        >>> Compute(retries=-1)
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `retries` must be a non-negative integer, but got -1.
    """

    executor: str | Executor | FuturesExecutor | None = None
    checkpoint: str | PathLike[str] | CheckpointAt | None = None
    memory_limit: int | str | None = None
    device: torch.device | str | None = None
    dtype: torch.dtype | None = None
    store_dtype: torch.dtype | None = None
    shards: int | str | Shards | None = None
    retries: int = 2
    chunk_size: int | None = None
    path: str = "auto"
    first_island: int = 0
    island_weights: str | None = None
    anchor_epochs: float | None = None
    throw: bool = False
    streaming: bool | None = None
    augment: bool = False

    def __post_init__(self) -> None:
        if self.executor is not None:
            as_executor(self.executor)
        as_checkpoint(self.checkpoint)
        if self.memory_limit is not None:
            parse_bytes(self.memory_limit)
        if self.device is not None:
            as_device(self.device)
        shards = as_shards(self.shards)
        if shards is not None and shards.by_torchrun:
            here = as_executor(self.executor).name == InProcess.name
            rule = "'in-process' with torchrun's ranks, which are the processes of one island"
            require(here, "executor", rule, self.executor)
        for name in ("dtype", "store_dtype"):
            value = getattr(self, name)
            real = isinstance(value, torch.dtype) and value.is_floating_point
            require(value is None or real, name, "a floating-point torch.dtype", value)
        for name in ("retries", "first_island"):
            value = getattr(self, name)
            require_count(name, value, 0)
        size = self.chunk_size
        require_count("chunk_size", size, optional=True)
        check_path(self.path)
        if self.island_weights is not None:
            check_weighting(self.island_weights)
        epochs = self.anchor_epochs
        good = epochs is None or (is_number(epochs) and 0 <= epochs < math.inf)
        require(good, "anchor_epochs", "a non-negative number", epochs)
        require_flag("throw", self.throw)
        require_flag("streaming", self.streaming, optional=True)
        require_flag("augment", self.augment)
        rule = "left out, or True, with `augment`: rows that are held are the same in each pass"
        require(not self.augment or self.streaming is not False, "streaming", rule, self.streaming)

    def __repr__(self) -> str:
        """The options that differ from the defaults."""
        shown = ", ".join(f"{name}={value!r}" for name, value in changed_options(self).items())
        return f"Compute({shown})"


USUAL_COMPUTE = Compute()
