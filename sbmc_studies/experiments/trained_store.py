"""Trained networks in the folder of a run, so that a resumed run starts from the same bits.

Networks are trained once: a run of the same experiment and seed, in the same folder of records,
reuses them if its training is the same, even if its s or its sampler is another.
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

# Makes `Trained` from the networks, their histories and the seconds that training took.
Rebuild = Callable[[Sequence["nn.Module"], Sequence[TrainingHistory], float], "Trained"]

Contents = tuple[dict[str, Any], dict[str, Any]]  # tensors and metadata of a file


class TrainedStore:
    """Networks in files `trained-<kind>.safetensors`: their weights, histories and seconds.

    Args:
        folder: of the run, in the folder of records.
        only_this_run: take no networks from the folders of other runs.
    """

    def __init__(self, folder: Path, only_this_run: bool = False) -> None:
        self._folder = folder
        self._store = open_store(folder)
        self._only_this_run = only_this_run

    def write(self, kind: str, key: Any, trained: Trained) -> None:
        """Write networks, unless the folder has them already.

        Args:
            kind: what they are for.
            key: plain values that decide what training makes of them.
            trained: the networks.

        Raises:
            CheckpointError: the file could not be written.
        """
        if self._read_file(kind, key) is not None:
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
        """Read the networks that this run or another has written under a key.

        Args:
            kind: what they are for.
            key: as in `write`.
            network: of the same structure; it is copied, and not changed.
            rebuild: makes the result from networks, histories and seconds.

        Returns:
            The networks; None if there are none.
        """
        contents = self._read_file(kind, key) or self._read_other_run(kind, key)
        if contents is None:
            return None
        tensors, metadata = contents
        histories = [TrainingHistory(**each) for each in metadata["histories"]]
        models = []
        for index, history in enumerate(histories):
            model = copy.deepcopy(network).eval()
            prefix = f"{index}/"
            state = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
            model.load_state_dict(state)
            model.history = history  # type: ignore[assignment]
            models.append(model)
        return rebuild(models, histories, metadata["seconds"])

    def _read_other_run(self, kind: str, key: Any) -> Contents | None:
        """From another run with this seed, if the same versions of packages trained them."""
        if self._only_this_run or not self._folder.name.startswith("seed-"):
            return None
        experiment = self._folder.resolve().parents[2]  # of <experiment>/<method>/<hash>/seed-<k>
        for path in sorted(experiment.glob(f"*/*/{self._folder.name}/{_name(kind)}")):
            contents = TrainedStore(path.parent, only_this_run=True)._read_file(kind, key)
            if contents is not None and contents[1].get("versions") == software_versions():
                logger.info("networks trained by another run are used: %s", path)
                return contents
        return None

    def _read_file(self, kind: str, key: Any) -> Contents | None:
        data = self._store.read(_name(kind))
        if data is None:
            return None
        try:
            tensors, metadata = unpack(data)
        except Damaged as error:
            path = self._store.where(_name(kind))
            logger.warning("%s is damaged (%s): training again", path, error)
            return None
        return (tensors, metadata) if metadata.get("key") == _plain(key) else None


def _name(kind: str) -> str:
    return f"trained-{kind}.safetensors"


def _plain(key: Any) -> Any:
    """The key as JSON gives it back: without tuples."""
    return json.loads(json.dumps(key))
