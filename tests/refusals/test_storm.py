"""Thousands of wrong calls and command lines: each works, or is refused in words, and ends.

`PYTHONPATH=tests python -m refusals.storm` prints the counts.
"""

import pytest
from refusals import command_lines, storm
from refusals.verdicts import (
    ENDLESS,
    IN_WORDS,
    INTERNAL,
    TAKEN,
    WORKED,
    Endless,
    bounded,
    call,
    counts,
    fits,
    judge,
)

from sbmc import BadInput

FEWEST_CALLS, FEWEST_LINES = 10_000, 1_000


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Odd paths are written to, too."""
    monkeypatch.chdir(tmp_path)


def failures(verdicts):
    return [str(each)[:300] for each in verdicts if each.outcome in (INTERNAL, ENDLESS, TAKEN)]


@pytest.mark.filterwarnings("ignore")
def test_every_wrong_call_ends_and_is_refused_in_words():
    verdicts = list(storm.storm())
    assert failures(verdicts) == []
    found = counts(verdicts)
    assert len(verdicts) >= FEWEST_CALLS
    # A generator whose right arguments do not work would be refused for those.
    assert found[WORKED] > 500
    assert found[IN_WORDS] > FEWEST_CALLS / 2


@pytest.mark.filterwarnings("ignore")
def test_right_arguments_work():
    verdicts = [
        call(each.function, each.right, (each.name, "", ""), set(), [])
        for each in storm.subjects()
        if each.name not in storm.NEVER_WORK
    ]
    assert [str(each) for each in verdicts if each.outcome != WORKED] == []


@pytest.mark.filterwarnings("ignore")
def test_every_wrong_command_line_ends_and_is_refused_in_words():
    verdicts = list(command_lines.storm())
    assert failures(verdicts) == []
    assert len(verdicts) >= FEWEST_LINES


def raised(error):
    def function(**_options):
        raise error

    return call(function, {"s": 1}, ("f", "s", "one"), {"s"}, []).outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (BadInput("`s` must be in [0, 1], but got 2."), IN_WORDS),
        (BadInput("`t` must be in [0, 1], but got 2."), INTERNAL),
        (BadInput("`s` is wrong."), INTERNAL),
        (BadInput("`s` must be a tensor, but got a NoneType."), INTERNAL),
        (BadInput("`s` must be in [0, 1], but got " + "9" * 2000), INTERNAL),
        (ValueError("`s` must be in [0, 1], but got 2."), INTERNAL),
        (KeyError("s"), INTERNAL),
        (AssertionError(), INTERNAL),
        (ImportError("pip install 'sbmc[arviz]'"), IN_WORDS),
        (ImportError("no module"), INTERNAL),
    ],
)
def test_planted_errors_are_told_apart(error, outcome):
    assert raised(error) == outcome


def test_a_call_without_end_is_ended():
    def forever():
        while True:
            pass

    with pytest.raises(Endless), bounded(0.05):
        forever()


def test_what_is_taken_against_its_annotation_is_found():
    taken = call(
        lambda flag: flag, {"flag": "False"}, ("f", "flag", ""), {"flag"}, [("False", "bool")]
    )
    assert taken.outcome == TAKEN
    assert fits(True, "bool")
    assert not fits(1, "bool")
    assert fits(None, "int | None")
    assert fits(3, "float")
    assert not fits(3.0, "int")
    assert fits("anything", "str | Sampler")


def test_every_argument_has_to_be_named():
    assert judge(BadInput("`data inputs` must be finite, but got NaN."), {"data"})[0] == IN_WORDS
