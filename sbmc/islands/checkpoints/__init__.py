"""Checkpoints: a run that was stopped or killed goes on where it was, with the same bits.

    manifest.json                   what decides the bits, the batches, the threads
    batch-00000-00007.safetensors   state of the batch of islands 0 to 7, while it runs
    island-00003.safetensors        an island that has ended: particles, weights, report
    .lock                           while a run is at it: which process

Every file is written under another name first and then renamed, so that it is whole or not there.
"""

from sbmc.islands.checkpoints.checkpoint import (
    Checkpoint,
    CheckpointFiles,
    Plan,
    copy_islands,
    kept_manifest,
)
from sbmc.islands.checkpoints.checkpointer import FileCheckpointer, Stopped
from sbmc.islands.checkpoints.lock import locked, locked_checkpoint, refuse_if_locked
from sbmc.islands.checkpoints.manifest import differences
from sbmc.islands.checkpoints.options import CheckpointAt, as_checkpoint
from sbmc.islands.checkpoints.results import is_final
from sbmc.islands.checkpoints.store import CheckpointError, open_store

__all__ = [
    "Checkpoint",
    "CheckpointAt",
    "CheckpointError",
    "CheckpointFiles",
    "FileCheckpointer",
    "Plan",
    "Stopped",
    "as_checkpoint",
    "copy_islands",
    "differences",
    "is_final",
    "kept_manifest",
    "locked",
    "locked_checkpoint",
    "open_store",
    "refuse_if_locked",
]
