"""Samplers: one algorithm a file, each with a `State`, an `Info` and a pure batched `step`."""

from sbmc.samplers.hmc import HMC

__all__ = ["HMC"]
