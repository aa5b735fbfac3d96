"""The parts of a data set."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import require
from sbmc.randomness import Stream, generator


@dataclass(frozen=True, eq=False, repr=False)
class DataBundle:
    """A classification data set: in-domain splits, and inputs from outside the domain.

    Attributes:
        name: as `load_dataset` knows it.
        checksum: SHA-256 of the source arrays, for the records.
        classes: how many labels there are, 0 to `classes` − 1.
        train: `(inputs, labels)`, what the anchor is trained on.
        validation: `(inputs, labels)`, for early stopping and for the choice of settings.
        test: `(inputs, labels)`, for nothing but the final measurement.
        ood: out-of-domain inputs by group, in the order in which tables list them.
        frozen: tensors that a network on these inputs needs and does not learn.
        about: what a record says about the source besides its checksum, such as a model's weights.
    """

    name: str
    checksum: str
    classes: int
    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    ood: dict[str, Tensor]
    frozen: Mapping[str, Tensor] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    def part(self, fraction: float, seed: int) -> DataBundle:
        """The data set with so much of its training and validation examples, drawn at random.

        Test and out-of-domain examples are left as they are.

        Args:
            fraction: in (0, 1].
            seed: decides which examples.

        Returns:
            A data set of the same kind; of fraction 1, itself.

        Raises:
            BadInput: if the fraction is out of range, or leaves nothing.
        """
        require(0 < fraction <= 1, "fraction", "in (0, 1]", fraction)
        if fraction == 1:
            return self
        inputs, labels = self.train_and_validation
        before = len(self.train[1])
        chosen_rows = []
        for index, (start, size) in enumerate(((0, before), (before, len(labels) - before))):
            order = torch.randperm(size, generator=generator(seed, Stream.SPLIT, index))
            few = order[: round(fraction * size)].sort().values  # in the order of the data
            require(len(few) > 0, "fraction", "enough for one example of each part", fraction)
            chosen_rows.append(few + start)
        count, chosen = len(chosen_rows[0]), torch.cat(chosen_rows)
        # In one tensor, train before validation, so that joining them again needs no copy.
        inputs, labels = inputs[chosen], labels[chosen]
        return replace(
            self,
            train=(inputs[:count], labels[:count]),
            validation=(inputs[count:], labels[count:]),
        )

    @property
    def train_and_validation(self) -> tuple[Tensor, Tensor]:
        """Training and validation examples together: the data that samplers condition on.

        The paper's authors train the anchor on `train`, stop it early on `validation`, and give
        their samplers both. A sampler has no early stopping to hold data back for.
        """
        (inputs, labels), (more_inputs, more_labels) = self.train, self.validation
        return torch.cat([inputs, more_inputs]), torch.cat([labels, more_labels])

    def __repr__(self) -> str:
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        sizes = ", ".join(f"{name}={len(labels)}" for name, (_, labels) in parts.items())
        groups = {name: len(inputs) for name, inputs in self.ood.items()}
        return f"DataBundle({self.name!r}, classes={self.classes}, {sizes}, ood={groups})"


def checksum(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of arrays of bytes: of names, shapes and values, not of how a file packs them.

    Args:
        arrays: uint8 arrays by name; their order counts.

    Returns:
        64 hexadecimal digits.
    """
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(f"{name}{tuple(array.shape)}{array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
