"""Checkpoints: a run that was stopped or killed continues where it was, with the same bits.

    manifest.json                   what decides the bits, the batches, the threads
    batch-00000-00007.safetensors   state of the batch of islands 0 to 7, while it runs
    island-00003.safetensors        an island that has ended: particles, weights, report
    .lock                           names the process that uses the folder, while it runs

Every file is written under a temporary name and then renamed, so that a file with its final name
is always complete.
"""

from sbmc.islands.checkpoints.checkpoint import (
    BatchPlanner,
    Checkpoint,
    CheckpointFiles,
    copy_islands,
    saved_manifest,
)
from sbmc.islands.checkpoints.checkpointer import FileCheckpointer, Stopped
from sbmc.islands.checkpoints.lock import locked, locked_checkpoint, refuse_if_locked
from sbmc.islands.checkpoints.manifest import differences
from sbmc.islands.checkpoints.options import CheckpointAt, as_checkpoint
from sbmc.islands.checkpoints.results import is_final
from sbmc.islands.checkpoints.store import CheckpointError, open_store

__all__ = [
    "BatchPlanner",
    "Checkpoint",
    "CheckpointAt",
    "CheckpointError",
    "CheckpointFiles",
    "FileCheckpointer",
    "Stopped",
    "as_checkpoint",
    "copy_islands",
    "differences",
    "is_final",
    "locked",
    "locked_checkpoint",
    "open_store",
    "refuse_if_locked",
    "saved_manifest",
]
