"""The one form of words for bad input, and the logger that stays silent."""

import os
import subprocess
import sys

import pytest

from sbmc.checks import BadInput, edit_distance, nearest, require


def test_a_rule_that_holds_is_silent():
    assert require(True, "step_size", "positive", 0.1) is None


def test_the_message_names_argument_rule_and_value():
    with pytest.raises(BadInput) as refused:
        require(False, "step_size", "positive", -0.1)
    assert str(refused.value) == "`step_size` must be positive, but got -0.1."


def test_strings_are_quoted_so_that_empty_ones_are_seen():
    with pytest.raises(BadInput, match=r"`method` must be known, but got ''\."):
        require(False, "method", "known", "")


def test_bad_input_is_a_value_error():
    assert issubclass(BadInput, ValueError)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("s-hcm", " Did you mean 's-hmc'?"),
        ("S-SMC", " Did you mean 's-smc'?"),
        ("mp", " Did you mean 'MAP'?"),
        ("elephant", ""),
        ("", ""),
    ],
)
def test_nearest(typed, expected):
    assert nearest(typed, ["MAP", "s-hmc", "s-smc"]) == expected


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("scale", ""),  # shares letters with sampler, in no place of theirs
        ("samplr", " Did you mean 'sampler'?"),
        ("particels", " Did you mean 'particles'?"),
        ("partikel", " Did you mean 'particles'?"),
        ("prior_var", " Did you mean 'prior_variance'?"),
        ("layers", " Did you mean 'hidden_layers'?"),
        ("sede", " Did you mean 'seed'?"),
        ("x", ""),
        ("s" * 10_000, ""),
    ],
)
def test_only_what_is_near_is_suggested(typed, expected):
    known = ["sampler", "particles", "prior_variance", "hidden_layers", "s", "seed"]
    assert nearest(typed, known) == expected


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [("", "", 0), ("", "abc", 3), ("ab", "ba", 1), ("abcd", "acbd", 1), ("kitten", "sitting", 3)],
)
def test_edit_distance(first, second, distance):
    assert edit_distance(first, second) == edit_distance(second, first) == distance


def test_nearest_of_nothing():
    assert nearest("s-hmc", []) == ""


def messages_on_stderr(level):
    """What a fresh process shows, since handlers are attached when the module is imported."""
    code = "from sbmc.log import logger; [getattr(logger, n)(n) for n in ('debug', 'warning')]"
    environment = {key: value for key, value in os.environ.items() if key != "SBMC_LOG"}
    if level is not None:
        environment["SBMC_LOG"] = level
    # The parent's search path, so that the child imports the package under test.
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stderr.splitlines()


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (None, []),
        ("debug", ["sbmc DEBUG: debug", "sbmc WARNING: warning"]),
        ("WARNING", ["sbmc WARNING: warning"]),
        (
            "loud",
            [
                "sbmc WARNING: `SBMC_LOG` must be one of debug, info, warning, but got 'loud'.",
                "sbmc WARNING: warning",
            ],
        ),
    ],
)
def test_log_level_from_the_environment(level, expected):
    assert messages_on_stderr(level) == expected
