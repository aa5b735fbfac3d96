"""A budget is counted in trainings or seconds, and says where its numbers come from."""

import pytest
from torch import nn

from sbmc.checks import BadInput
from sbmc.fitting.budget import FEWEST_EPOCHS, MOST_EPOCHS, Budget, as_budget
from sbmc.training.history import TrainingHistory


def trained(epochs):
    net = nn.Linear(2, 2)
    net.history = TrainingHistory(train_loss=[0.0] * epochs)
    return net


@pytest.mark.parametrize(
    ("given", "trainings", "seconds"),
    [
        (None, 4.0, None),
        (3, 3.0, None),
        (0.5, 0.5, None),
        ("30s", None, 30.0),
        (" 1.5 min ", None, 90.0),
        ("2h", None, 7200.0),
        (Budget(trainings=2), 2.0, None),
    ],
)
def test_a_budget_is_read_from_what_people_write(given, trainings, seconds):
    budget = as_budget(given)
    assert (budget.trainings, budget.seconds) == (trainings, seconds)


def test_what_is_told_comes_before_what_the_model_remembers_and_that_before_the_rule():
    net = trained(70)
    told = Budget(trained_epochs=12).training_length(net, examples=100)
    remembered = Budget().training_length(net, examples=100)
    by_rule = Budget().training_length(nn.Linear(2, 2), examples=100)
    assert (told.epochs, remembered.epochs, by_rule.epochs) == (12, 70, MOST_EPOCHS)
    assert "trained_epochs" in told.reason
    assert "remembered" in remembered.reason
    assert "assumed" in by_rule.reason


def test_the_rule_gives_large_data_few_passes_within_bounds():
    def epochs(examples):
        return Budget().training_length(nn.Linear(2, 2), examples).epochs

    assert epochs(10) == MOST_EPOCHS
    assert epochs(10**7) == FEWEST_EPOCHS
    assert MOST_EPOCHS > epochs(4_000) > FEWEST_EPOCHS


def test_epochs_are_trainings_times_their_length_or_seconds_over_what_one_takes():
    assert Budget(trainings=5).epochs(trained(20), examples=100) == 100
    timed = Budget(seconds=6).epochs(trained(20), examples=100, seconds_per_epoch=0.5)
    assert timed == 12


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: as_budget("soon"), "a time such as '30s' or '2min'"),
        (lambda: as_budget("30"), "a number of trainings"),
        (lambda: as_budget(True), "a number of trainings"),
        (lambda: Budget(trainings=0), "`trainings` must be positive"),
        (lambda: Budget(seconds=float("inf")), "`seconds` must be positive and at most"),
        (lambda: Budget(trainings=1, seconds=1), "either `trainings` or `seconds`"),
        (lambda: Budget(extend=0.5), "`extend` must be at least 1 and finite"),
        (lambda: Budget(stop_early=1), "`stop_early` must be True or False"),
        (lambda: Budget(stop_early=False, extend=2), "`extend` must be 1 where `stop_early` is"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(BadInput) as refusal:
        make()
    assert message in str(refusal.value)
