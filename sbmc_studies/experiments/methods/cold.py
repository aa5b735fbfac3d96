"""Cold posteriors: the posterior to the power 1/T."""

from __future__ import annotations

from sbmc_studies.experiments.methods.sampled import sampler_method

METHODS = (
    sampler_method(
        "hmc",
        "cold",
        "cold posterior",
        "cold posterior (s = 1): the posterior to the power 1/T, by HMC; T is "
        "posterior_temperature",
        {"s": 1.0},
    ),
)
