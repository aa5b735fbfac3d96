"""Sequential Monte Carlo: a population that is tempered from the prior to the posterior."""

from sbmc.samplers.smc.settings import SMC

__all__ = ["SMC"]
