import json
import math
import re

import numpy as np
import pytest

from sbmc.checks import BadInput
from sbmc.samplers import HMC, MALA, PCN, SMC

SCHEDULE = (0.1, 0.5, 1.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"mutations": 0},
            "`mutations` must be an integer of at least 1, or one for each of the `t",
        ),
        ({"mutations": 2.5}, "`mutations` must be an integer of at least 1"),
        ({"mutations": True}, "`mutations` must be an integer of at least 1"),
        ({"mutations": "10"}, "`mutations` must be an integer of at least 1"),
        ({"mutations": None}, "`mutations` must be an integer of at least 1"),
        ({"mutations": (3, 3, 3)}, "`mutations` must be an integer of at least 1"),
        ({"mutations": (3, 3), "temperatures": SCHEDULE}, "`mutations` must be an integer of at l"),
        ({"mutations": (3, 0, 3), "temperatures": SCHEDULE}, "`mutations` must be an integer of a"),
        ({"mutations": 1, "eta": 0.1}, "`mutations` must be an integer of at least 2, or one for"),
        ({"eta": 0}, "`eta` must be positive and finite, but got 0."),
        ({"eta": -0.1}, "`eta` must be positive and finite, but got -0.1."),
        ({"eta": math.nan}, "`eta` must be positive and finite, but got nan."),
        ({"eta": "a"}, "`eta` must be positive and finite, but got 'a'."),
        ({"ess": 1.0}, "`ess` must be a fraction in (0, 1), but got 1.0."),
        ({"ess": 0}, "`ess` must be a fraction in (0, 1), but got 0."),
        ({"temperatures": (0.5, 0.9)}, "`temperatures` must be strictly increasing numbers above"),
        ({"temperatures": (0.5, 0.5, 1.0)}, "`temperatures` must be strictly increasing numbers"),
        ({"temperatures": ()}, "`temperatures` must be strictly increasing numbers above 0, the l"),
        ({"temperatures": SCHEDULE, "pilot": True}, "`pilot` must be left out when `temperatures`"),
        ({"step_sizes": (0.1,)}, "`step_sizes` must be left out unless `temperatures` is given"),
        (
            {"step_sizes": (0.1, 0.1), "temperatures": SCHEDULE},
            "`step_sizes` must be one positive number for each of the `temperatures`, but got (0.1",
        ),
        (
            {"step_sizes": (0.1, -0.1, 0.1), "temperatures": SCHEDULE},
            "`step_sizes` must be one positive number for each of the `temperatures`",
        ),
        (
            {"step_sizes": (0.1, 0.1, 1.1), "temperatures": SCHEDULE, "move": PCN()},
            "`step_sizes` must be one positive number for each of the `temperatures`",
        ),
        *(
            (
                {"step_sizes": sizes, "temperatures": SCHEDULE},
                "`step_sizes` must be one positive number for each of the `temperatures`, but got",
            )
            for sizes in (0.1, "abc", (0.1, 0.1, math.inf), (0.1, math.nan, 0.1))
        ),
        (
            {"resampling": "sistematic"},
            "`resampling` must be one of systematic, stratified, residual, multinomial, but got "
            "'sistematic'. Did you mean 'systematic'?",
        ),
        ({"resample_below": 0}, "`resample_below` must be a fraction in (0, 1), or None for alway"),
        ({"resample_below": 1.0}, "`resample_below` must be a fraction in (0, 1), or None for alw"),
        ({"most_temperatures": 0}, "`most_temperatures` must be a positive integer, but got 0."),
        ({"move": "hmc"}, "`move` must be settings of a kernel, such as sbmc.HMC(...), sbmc.MALA("),
        ({"move": HMC}, "`move` must be settings of a kernel"),
        ({"move": None}, "`move` must be settings of a kernel"),
        ({"move": SMC()}, "`move` must be settings of a kernel"),
        ({"move": HMC(steps=3)}, "`move` must be without `steps`: `mutations` says how many steps"),
        ({"move": HMC(epochs=30)}, "`move` must be without `epochs`: `mutations` says how many st"),
        ({"move": HMC(precondition=3)}, "`move` must be without `precondition`: it is for single"),
        (
            {"move": HMC(scout=3, scout_step_size=0.1)},
            "`move` must be without `scout`: it is for single chains",
        ),
        *(
            ({"waste_free": True, **changes}, words)
            for changes, words in [
                ({"eta": 0.1}, "`eta` must be left out with `waste_free`, but got 0.1."),
                ({"resample_below": 0.5}, "`resample_below` must be left out with `waste_free`, b"),
                ({"mutations": 1}, "`mutations` must be an integer of at least 2"),
                (
                    {"mutations": (2, 3), "temperatures": (0.5, 1.0)},
                    "`mutations` must be the same at every temperature with `waste_free`, but got "
                    "(2, 3).",
                ),
            ]
        ),
    ],
)
def test_nonsense_is_refused_when_settings_are_made(changes, words):
    with pytest.raises(BadInput, match="^" + re.escape(words)):
        SMC(**changes)


def test_are_frozen_and_keyword_only():
    with pytest.raises(AttributeError):
        SMC().ess = 0.3
    with pytest.raises(TypeError):
        SMC(3)


def test_defaults_are_the_papers():
    settings = SMC()
    assert (settings.mutations, settings.ess, settings.eta) == (10, 0.5, None)
    assert settings.resampling == "systematic"
    assert settings.resample_below is None
    assert settings.move == HMC(leapfrog=1)
    assert (settings.default_start, settings.default_weights) == ("prior", "evidence")


@pytest.mark.parametrize(
    ("changes", "frozen"),
    [
        ({}, False),
        ({"pilot": True}, True),
        ({"temperatures": SCHEDULE}, False),
        ({"temperatures": SCHEDULE, "step_sizes": (0.1, 0.1, 0.1)}, True),
        ({"temperatures": SCHEDULE, "step_sizes": (0.1, 0.1, 0.1), "eta": 0.1}, False),
        ({"temperatures": SCHEDULE, "move": MALA(step_size=0.1, adapt=False)}, True),
        ({"temperatures": SCHEDULE, "move": MALA(step_size=0.1)}, False),
        ({"temperatures": SCHEDULE, "move": MALA(adapt=False)}, False),
        ({"move": MALA(step_size=0.1, adapt=False)}, False),
    ],
)
def test_frozen_means_that_nothing_adapts(changes, frozen):
    assert SMC(**changes).frozen == frozen


def test_numbers_by_temperature():
    settings = SMC(mutations=(2, 5, 3), temperatures=SCHEDULE, step_sizes=(0.1, 0.2, 0.3))
    assert [settings.mutations_at(i) for i in range(3)] == [2, 5, 3]
    assert [settings.step_size_at(i, 9.0) for i in range(3)] == [0.1, 0.2, 0.3]
    plain = SMC(mutations=4)
    assert [plain.mutations_at(i) for i in range(3)] == [4, 4, 4]
    assert plain.step_size_at(2, 9.0) == 9.0


def test_numbers_of_other_libraries_become_plain_ones():
    settings = SMC(
        mutations=[np.int64(2), np.int32(3)],
        temperatures=[np.float32(0.5), 1],
        step_sizes=[np.float64(0.1), 1],
        ess=np.float32(0.25),
        most_temperatures=np.int64(7),
    )
    assert json.loads(json.dumps(settings.mutations)) == [2, 3]
    assert settings.temperatures == (0.5, 1.0)
    assert settings.step_sizes == (0.1, 1.0)
    values = (*settings.mutations, *settings.temperatures, *settings.step_sizes, settings.ess)
    assert {type(value) for value in values} == {int, float}
    assert type(settings.most_temperatures) is int
    assert SMC(mutations=np.int64(4)).mutations_at(3) == 4
    assert isinstance(hash(settings), int)


def test_population():
    assert SMC(mutations=7).population(10) == 10
    assert SMC(mutations=7, waste_free=True).population(10) == 70
