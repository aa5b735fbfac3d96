"""What an engine is made of, for those who build it again or evaluate its parts on other rows."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from sbmc.likelihoods import Likelihood
from sbmc.model.chunks import Footprint
from sbmc.model.data import Examples, Inputs
from sbmc.model.forward import Forward
from sbmc.model.parameters import ParameterSpace


class Source(NamedTuple):
    """The model and parameters of a forward, so that another process can build it again."""

    model: nn.Module
    space: ParameterSpace


class Parts(NamedTuple):
    """The parts of an engine, for evaluations on other batches."""

    forward: Forward
    examples: Examples
    prepared: Inputs | None  # the inputs as `forward` needs them, if they are stored
    likelihood: Likelihood
    footprint: Footprint
