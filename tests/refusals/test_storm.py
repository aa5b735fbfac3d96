"""Thousands of wrong calls and command lines: each works, or is refused in words, and ends.

`PYTHONPATH=tests python -m refusals.storm` prints the counts.
"""

import pytest
from refusals import command_lines, public, storm
from refusals.verdicts import (
    ENDLESS,
    IN_WORDS,
    INTERNAL,
    SKLEARN,
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
# Of all calls, in `make test`; the others are slow tests.
A_PART = 0.25


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Odd paths are written to, too."""
    monkeypatch.chdir(tmp_path)


def failures(verdicts):
    return [str(each)[:300] for each in verdicts if each.outcome in (INTERNAL, ENDLESS, TAKEN)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("share", [A_PART, pytest.param(1.0, marks=pytest.mark.slow)])
def test_every_wrong_call_ends_and_is_refused_in_words(share):
    verdicts = list(storm.storm(share=share))
    assert failures(verdicts) == []
    found = counts(verdicts)
    assert len(verdicts) >= FEWEST_CALLS
    # A generator whose right arguments do not work would be refused for those.
    assert found[WORKED] > 500
    assert found[IN_WORDS] > FEWEST_CALLS / 2
    # scikit-learn's words are for the tables of estimators alone.
    assert found[SKLEARN] < 0.02 * len(verdicts)


@pytest.mark.filterwarnings("ignore")
def test_everything_public_is_called_wrongly_or_listed_with_a_reason():
    names, tried = dict(public.public_names()), public.tried(storm.subjects())
    not_tried = {name for name, value in names.items() if id(value) not in tried}
    assert sorted(not_tried - set(public.LEFT_OUT)) == []
    # What is listed is public, takes arguments, and is not tried after all.
    assert sorted(set(public.LEFT_OUT) - not_tried) == []


@pytest.mark.filterwarnings("ignore")
def test_right_arguments_work():
    verdicts = [
        call(each.function, each.right, (each.name, "", ""), set(), [])
        for each in storm.subjects()
        if each.name not in storm.NEVER_WORK
    ]
    assert [str(each) for each in verdicts if each.outcome != WORKED] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("share", [A_PART, pytest.param(1.0, marks=pytest.mark.slow)])
def test_every_wrong_command_line_ends_and_is_refused_in_words(share):
    verdicts = list(command_lines.storm(share))
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


def test_words_of_scikit_learn_are_told_from_our_own():
    from sklearn.utils.validation import check_array

    def reads_a_table(X):
        check_array(X)

    options = {"X": [[float("nan")]]}
    assert call(reads_a_table, options, ("f", "X", "nan"), {"X"}, []).outcome == SKLEARN


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
