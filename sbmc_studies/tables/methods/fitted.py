"""What a method gives back, and how it says that it cannot be run."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from sbmc_studies.tables.scoring import PredictedNumbers


@dataclass(frozen=True)
class Fitted:
    """What a method has come to.

    Attributes:
        predict: from inputs `(rows, features)` in their own units to a distribution in the units
            of the targets or, for classes, to probabilities `(rows, classes)`.
        seconds: of the fit, with the training of whatever it starts from.
        about: what else the record says of it, as plain values.
    """

    predict: Callable[[np.ndarray], PredictedNumbers | Tensor]
    seconds: float
    about: dict[str, Any] = field(default_factory=dict)


class NotSupported(Exception):
    """The method cannot be run on this set or on this machine; the message says why."""


def load_package(name: str, package: str) -> Any:
    """Import a package that need not be installed.

    Args:
        name: of the module.
        package: as pip knows it.

    Returns:
        The module.

    Raises:
        NotSupported: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise NotSupported(f"{package} is not installed: pip install 'sbmc[tables]'") from error
