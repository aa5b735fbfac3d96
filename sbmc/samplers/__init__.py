"""Samplers: one algorithm a file, each with a `State`, an `Info` and a pure batched `step`."""

from sbmc.samplers.auto_hmc import AutoHMC
from sbmc.samplers.ghmc import GHMC
from sbmc.samplers.hmc import HMC
from sbmc.samplers.mala import MALA
from sbmc.samplers.mclmc import MCLMC
from sbmc.samplers.nuts import NUTS
from sbmc.samplers.pcn import PCN
from sbmc.samplers.sghmc import SGHMC
from sbmc.samplers.sgld import SGLD
from sbmc.samplers.smc import SMC
from sbmc.samplers.ubu import UBU

__all__ = ["GHMC", "HMC", "MALA", "MCLMC", "NUTS", "PCN", "SGHMC", "SGLD", "SMC", "UBU", "AutoHMC"]
