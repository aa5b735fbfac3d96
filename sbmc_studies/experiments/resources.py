"""Data and trained networks that the runs of one process share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sbmc_studies.data import load_dataset
from sbmc_studies.experiments.experiment import get_experiment

if TYPE_CHECKING:
    from sbmc.datasets import DataBundle
    from sbmc_studies.experiments.run_spec import RunSpec


@dataclass
class Resources:
    """Data and trained networks that the runs of one process share.

    A shared network counts in full in the cost of each run that uses it, as measured when it was
    trained: a record says what its run would have cost alone.

    Args:
        progress: None for automatic, False for silence, True for lines where there is no terminal.
    """

    progress: bool | None = None
    _shared: dict[tuple, Any] = field(default_factory=dict)

    def get_or_make(self, key: tuple, make: Callable[[], Any]) -> Any:
        """The object that is stored under a key; it is made when it is first asked for.

        Args:
            key: all that decides what is made.
            make: makes it.

        Returns:
            The object.
        """
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    def data(self, spec: RunSpec) -> DataBundle:
        """The data of a run: all of them, or the fraction that its settings name.

        Raises:
            BadInput: the data are missing, or there is no such experiment.
        """
        name, fraction = get_experiment(spec.experiment).dataset, spec.settings.get("fraction")
        key = ("data", name, spec.seed, spec.data_dir)
        data = self.get_or_make(key, lambda: load_dataset(name, spec.data_dir, spec.seed))
        if fraction is None:
            return data
        return self.get_or_make((*key, fraction), lambda: data.part(fraction, spec.seed))
