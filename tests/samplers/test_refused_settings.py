"""Settings that make no sense are refused when they are made, in words that name the setting.

The table of all samplers but SMC, whose own is in `smc/test_settings.py`.
"""

import math
from functools import partial

import pytest

from sbmc import GHMC, HMC, MALA, NUTS, PCN, SGHMC, SGLD, UBU, BadInput

CHAINS = [
    ({"step_size": 0.0}, "`step_size` must be positive and finite, but got 0.0."),
    ({"step_size": -1}, "`step_size` must be positive and finite, but got -1."),
    ({"step_size": math.inf}, "`step_size` must be positive and finite, but got inf."),
    ({"step_size": math.nan}, "`step_size` must be positive and finite, but got nan."),
    ({"step_size": "0.1"}, "`step_size` must be positive and finite, but got '0.1'."),
    ({"acceptance_band": (0.5, 0.2)}, "`acceptance_band` must be within (0, 1) and order"),
    ({"acceptance_band": (0.0, 0.2)}, "`acceptance_band` must be within (0, 1) and order"),
    ({"acceptance_band": (0.5, 1.0)}, "`acceptance_band` must be within (0, 1) and order"),
    ({"shrink": 1.0}, "`shrink` must be in (0, 1), but got 1.0."),
    ({"grow": 1.0}, "`grow` must be above 1, but got 1.0."),
    ({"grow": math.inf}, "`grow` must be above 1, but got inf."),
]
STOCHASTIC = [
    ({"epochs": 0}, "`epochs` must be a positive integer, but got 0"),
    ({"epochs": 1.5}, "`epochs` must be"),
    ({"epochs": True}, "`epochs` must be"),
    ({"batch_size": 0}, "`batch_size` must be a positive integer"),
    ({"step_size": 0.0}, "`step_size` must be positive and finite"),
    ({"step_size": math.inf}, "`step_size` must be"),
    ({"step_size": math.nan}, "`step_size` must be"),
    ({"temperature": -1.0}, "`temperature` must be positive and finite"),
    ({"warmup": 1.0}, "`warmup` must be in [0, 1)"),
    ({"draws": 0}, "`draws` must be"),
    ({"thinning": 0}, "`thinning` must be"),
    ({"epochs": 20, "draws": 4, "thinning": 4}, "fits in the 10 passes after warm-up"),
]
# Settings that a row needs besides its own.
STEPS, SCOUTED = partial(HMC, steps=5), partial(HMC, epochs=40, scout_step_size=0.1)
REFUSED = [
    *((sampler, *row) for sampler in (MALA, PCN) for row in CHAINS),
    *((sampler, *row) for sampler in (SGLD, SGHMC, UBU) for row in STOCHASTIC),
    (HMC, {"steps": 5, "epochs": 5}, "`steps` must be left out when `epochs` is given, but got"),
    (HMC, {"steps": 0}, "`steps` must be a positive integer or None, but got 0."),
    (HMC, {"steps": 2.5}, "`steps` must be a positive integer or None, but got 2.5."),
    (HMC, {"epochs": 1}, "`epochs` must be an integer of at least 2"),
    (STEPS, {"leapfrog": 0}, "`leapfrog` must be a positive integer or None, but got 0."),
    (STEPS, {"leapfrog": 3, "trajectory": 1.0}, "`trajectory` must be left out"),
    (STEPS, {"trajectory": -1.0}, "`trajectory` must be positive and finite"),
    (STEPS, {"step_size": 0.0}, "`step_size` must be positive and finite, but got 0"),
    (STEPS, {"step_size": math.nan}, "`step_size` must be positive and finite"),
    (STEPS, {"warmup": 1.0}, "`warmup` must be in [0, 1), but got 1.0."),
    (STEPS, {"jitter": -0.1}, "`jitter` must be in [0, 1), but got -0.1."),
    (STEPS, {"shrink": 1.5}, "`shrink` must be in (0, 1), but got 1.5."),
    (STEPS, {"acceptance_band": (0.9, 0.2)}, "`acceptance_band` must be within (0"),
    (STEPS, {"launch": -1}, "`launch` must be a non-negative integer, but got -1."),
    (HMC, {"steps": 10, "draws": 6}, "`draws` must be few enough"),
    (HMC, {"epochs": 100, "draws": 2}, "`draws` must be 1 unless the number of steps is known"),
    (
        partial(HMC, epochs=40),
        {"scout": 0},
        "`scout` must be a positive integer or None, but got 0.",
    ),
    (partial(HMC, epochs=40), {"scout": 5}, "`scout_step_size` must be given with `scout`, but"),
    (SCOUTED, {}, "`scout_step_size` must be left out without `scout`"),
    (HMC, {"epochs": 40, "scout_batches": 4}, "`scout_batches` must be left out without `scout`"),
    (SCOUTED, {"scout": 5, "scout_step_size": -1.0}, "`scout_step_size` must be positive and fin"),
    (SCOUTED, {"scout": 5, "scout_batches": 0}, "`scout_batches` must be a"),
    (SCOUTED, {"scout": 39}, "`scout` must be at least 2 less than the bu"),
    (
        SCOUTED,
        {"scout": 20, "precondition": 5},
        "`precondition` must be under a quarter of the epochs that are left (20)",
    ),
    (
        HMC,
        {"splitting": True, "precondition": 2, "epochs": 60},
        "`precondition` must be left out with `splitting`",
    ),
    (
        HMC,
        {"splitting": True, "step_size": 1.6},
        "`step_size` must be at most a quarter turn with `splitting`",
    ),
    (HMC, {"splitting": 1.0}, "`splitting` must be True, False or None"),
    (GHMC, {"friction": 0.0}, "`friction` must be positive and finite, but got 0.0."),
    (GHMC, {"leapfrog": 0}, "`leapfrog` must be a positive integer, but got 0."),
    (GHMC, {"leapfrog": None}, "`leapfrog` must be a positive integer, but got None."),
    (GHMC, {"epochs": 40, "leapfrog": 4, "draws": 9}, "`draws` must be few enough"),
    (PCN, {"step_size": 1.01}, "`step_size` must be in (0, 1], but got 1.01."),
    (SGLD, {"decay": 1.5}, "`decay` must be in [0, 1]"),
    (SGLD, {"delay": 0.0}, "`delay` must be positive"),
    (SGHMC, {"friction": 0.0}, "`friction` must be positive, and below 1 / step_size"),
    (SGHMC, {"step_size": 0.5, "friction": 2.0}, "`friction` must be"),
    (SGHMC, {"friction": 2.0, "gradient_noise": 3.0}, "`gradient_noise` must be from 0 to the"),
    (SGHMC, {"gradient_noise": -1.0}, "`gradient_noise` must be"),
    (UBU, {"friction": -1.0}, "`friction` must be positive and finite"),
    (UBU, {"epochs": 3}, "`epochs` must be an even number"),
    (NUTS, {"warmup_draws": 0}, "`warmup_draws` must be"),
    (NUTS, {"warmup_draws": 10.0}, "`warmup_draws` must be"),
    (NUTS, {"draws": 0}, "`draws` must be"),
    (NUTS, {"draws": True}, "`draws` must be"),
    (NUTS, {"thinning": -1}, "`thinning` must be"),
    (NUTS, {"max_depth": 0}, "`max_depth` must be"),
    (NUTS, {"target_accept": 0.0}, "`target_accept` must be"),
    (NUTS, {"target_accept": 1.0}, "`target_accept` must be"),
    (NUTS, {"target_accept": "high"}, "`target_accept` must be"),
    (NUTS, {"low_rank": "yes"}, "`low_rank` must be"),
    (NUTS, {"temperature": 0.0}, "`temperature` must be"),
    (NUTS, {"temperature": math.inf}, "`temperature` must be"),
]


@pytest.mark.parametrize(("sampler", "settings", "words"), REFUSED)
def test_nonsense_is_refused_when_settings_are_made(sampler, settings, words):
    with pytest.raises(BadInput) as refusal:
        sampler(**settings)
    message = str(refusal.value)
    # Most words say how the message begins; those of a budget say how much fits.
    assert message.startswith(words) if words.startswith("`") else words in message
