"""Holds the finished particles of a run in a file, where they do not fit into memory.

A particle is sampled in one visit, from its start to its end: particles that wait have only a
random stream, and those that run are in memory, with momenta and gradients, in the dtype of the
run. So all that has to lie somewhere between visits is what has ended. Each island that ends is
written into its place in a mapped file, and its memory is handed back; nothing is rounded, so that
the posterior has the same bits as one whose islands were held in memory.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from sbmc.islands.checkpoints import CheckpointAt, open_store
from sbmc.islands.checkpoints.store import LocalStore
from sbmc.islands.island import Island
from sbmc.storage.mapped import mapped_tensor, release_pages


def scratch_folder(location: CheckpointAt | None) -> str | None:
    """Where the file of a run is: beside its checkpoint, if that is on a disk of this machine.

    Args:
        location: of the checkpoint; None for none.

    Returns:
        The folder; None stands for the folder for temporary files (`TMPDIR`).
    """
    store = None if location is None else open_store(location.path)
    return store.folder if isinstance(store, LocalStore) else None


class ParticlesOnDisk:
    """Room in a mapped file for the finished particles of all islands.

    Args:
        numbers: the numbers of the islands of the run.
        apart: how many of them are the particles of one island, sampled apart; 1 if they are not.
        folder: where the file is; None for the folder for temporary files.

    Examples:
        >>> import torch
        >>> from sbmc.islands.island import IslandReport
        >>> room = ParticlesOnDisk(range(4, 8), apart=2)
        >>> for k in range(4, 8):
        ...     _ = room.keep(Island(IslandReport(k, "completed"), torch.full((3, 5), float(k))))
        >>> room.island(2).shape, room.island(3)[:, 0].tolist()
        (torch.Size([6, 5]), [6.0, 7.0, 6.0, 7.0, 6.0, 7.0])
    """

    def __init__(self, numbers: range, apart: int = 1, folder: str | None = None) -> None:
        self._numbers, self._apart, self._folder = numbers, apart, folder
        self._room: Tensor | None = None  # (islands, rows of each number, apart, dim)

    def keep(self, island: Island) -> Island:
        """Write the particles of an island into the file.

        Args:
            island: that has ended. One that is given again is written to the same place.

        Returns:
            The same island with its particles in the file; one that failed has none.

        Raises:
            OSError: the disk has too little space; found when the first island ends.
        """
        index = island.report.index
        # A checkpoint's folder may have islands in it that are no part of the run.
        if island.positions is None or index not in self._numbers:
            return island
        if self._room is None:
            rows, dim = island.positions.shape
            shape = len(self._numbers) // self._apart, rows, self._apart, dim
            self._room = mapped_tensor(shape, island.positions.dtype, self._folder)
        number, particle = divmod(index - self._numbers[0], self._apart)
        place = self._room[number, :, particle]
        place.copy_(island.positions)
        release_pages(place)
        return replace(island, positions=place)

    def island(self, index: int) -> Tensor:
        """All particles of an island, `(rows * apart, dim)`: a draw of all before the next draw."""
        assert self._room is not None  # an island has ended
        return self._room[index - self._numbers[0] // self._apart].flatten(0, 1)
