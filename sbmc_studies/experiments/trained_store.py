"""Trained networks in the folder of a run: one that goes on starts from the same bits.

So does a run of the same experiment and seed whose training is the same, in the same folder of
records: another s, another sampler. Networks are trained once.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbmc.islands.checkpoints import open_store
from sbmc.islands.checkpoints.codec import Damaged, pack, unpack
from sbmc.log import logger
from sbmc.storage.provenance import software_versions
from sbmc.training.history import TrainingHistory

if TYPE_CHECKING:
    from torch import nn

    from sbmc_studies.experiments.context import Trained

# (networks, their histories) -> the same, as a method wants them
Rebuild = Callable[[Sequence["nn.Module"], Sequence[TrainingHistory], float], "Trained"]

Found = tuple[dict[str, Any], dict[str, Any]]  # tensors, metadata


class TrainedStore:
    """Keeps networks in `trained-<kind>.safetensors`: their weights, histories and seconds.

    Args:
        folder: of the run, at its place among records.
        alone: take nothing from other runs.
    """

    def __init__(self, folder: Path, alone: bool = False) -> None:
        self._folder = folder
        self._store = open_store(folder)
        self._alone = alone

    def write(self, kind: str, key: Any, trained: Trained) -> None:
        """Write networks, unless the same are there.

        Args:
            kind: what they are for.
            key: plain values that decide what training makes of them.
            trained: the networks.

        Raises:
            CheckpointError: the file could not be written.
        """
        if self._found(kind, key) is not None:
            return
        tensors = {
            f"{index}/{name}": tensor
            for index, model in enumerate(trained.models)
            for name, tensor in model.state_dict().items()
        }
        metadata = {
            "kind": kind,
            "key": _plain(key),
            "seconds": trained.seconds,
            "histories": [asdict(history) for history in trained.histories],
            "versions": software_versions(),
        }
        self._store.write(_name(kind), pack(tensors, metadata))

    def read(self, kind: str, key: Any, network: nn.Module, rebuild: Rebuild) -> Trained | None:
        """The networks that were written under this key, by this run or another, or None.

        Args:
            kind: what they are for.
            key: as in `write`.
            network: of the same structure; never changed.
            rebuild: makes the result of networks, histories and seconds.
        """
        found = self._found(kind, key) or self._elsewhere(kind, key)
        if found is None:
            return None
        tensors, metadata = found
        histories = [TrainingHistory(**each) for each in metadata["histories"]]
        models = []
        for index, history in enumerate(histories):
            model = copy.deepcopy(network).eval()
            head = f"{index}/"
            own = {n.removeprefix(head): t for n, t in tensors.items() if n.startswith(head)}
            model.load_state_dict(own)
            model.history = history  # type: ignore[assignment]
            models.append(model)
        return rebuild(models, histories, metadata["seconds"])

    def _elsewhere(self, kind: str, key: Any) -> Found | None:
        """From another run with this seed, if the same packages trained it."""
        if self._alone or not self._folder.name.startswith("seed-"):
            return None
        experiment = self._folder.resolve().parents[2]  # of <experiment>/<method>/<hash>/seed-<k>
        for path in sorted(experiment.glob(f"*/*/{self._folder.name}/{_name(kind)}")):
            found = TrainedStore(path.parent, alone=True)._found(kind, key)
            if found is not None and found[1].get("versions") == software_versions():
                logger.info("networks trained by another run are used: %s", path)
                return found
        return None

    def _found(self, kind: str, key: Any) -> Found | None:
        data = self._store.read(_name(kind))
        if data is None:
            return None
        try:
            tensors, metadata = unpack(data)
        except Damaged as error:
            where = self._store.where(_name(kind))
            logger.warning("%s is damaged (%s): training again", where, error)
            return None
        return (tensors, metadata) if metadata.get("key") == _plain(key) else None


def _name(kind: str) -> str:
    return f"trained-{kind}.safetensors"


def _plain(key: Any) -> Any:
    """The key as JSON gives it back: without tuples."""
    return json.loads(json.dumps(key))
