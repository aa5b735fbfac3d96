"""What the estimators choose where the user says nothing: network, training, rows set aside.

All such choices are here and nowhere else.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from sbmc.fitting.budget import Budget

ACTIVATION: type[nn.Module] = nn.ReLU

# ---- classes: a mixture around a network that stops early ----------------------------------------

HIDDEN_LAYERS = (64, 64)
# The share of rows that training does not see. They stop it, and then choose s.
VALIDATION_FRACTION = 0.15
# With fewer rows set aside, nothing is: they could neither stop training nor choose s.
FEWEST_VALIDATION_ROWS = 2

# Adam's step size, which suits batches of the sizes below.
LEARNING_RATE = 3e-3
SMALLEST_BATCH, LARGEST_BATCH = 8, 64
# Small tables are gone through more often, so that all trainings may take so many steps.
STEPS = 8_000
FEWEST_EPOCHS, MOST_EPOCHS = 40, 1_000
# Without rows to stop it, training is shorter.
MOST_EPOCHS_UNSTOPPED = 200
# Training stops when the validation loss, averaged over some epochs, has not improved for this
# share of all epochs.
WINDOW, PATIENCE_SHARE = 5, 0.05

# Sampling costs so many trainings at the least; tables are small, and their networks cheap.
LEAST_TRAININGS = 5.0
# A training that stops early is short, and a few of them are too little for chains to get anywhere
# on a small table: all chains together go through at least so many rows, or so often through all.
LEAST_ROWS_SAMPLED, MOST_LEAST_EPOCHS = 12_000_000, 3_000

# ---- numbers: the full posterior, by long chains from networks that are trained to the end -------
#
# Chosen on rows held out of the training parts of UCI tables: networks that stop early are worse to
# begin at, and rows that are set aside are missed more than what they choose is worth.

NUMBERS_HIDDEN_LAYERS = (50,)
LIKELIHOOD = "gaussian-network"
NUMBERS_VALIDATION_FRACTION = 0.0
NUMBERS_LEARNING_RATE = 5e-3
# All trainings go through about so many rows.
ROWS_TRAINED, FEWEST_EPOCHS_TO_THE_END = 2_000_000, 200
# Nine networks more are trained, and the rest goes to ten chains. Where so many trainings take
# more than this, in rows · parameters · epochs, there are fewer: a network of a million weights
# would take hours.
NUMBERS_TRAININGS, MOST_WORK = 90.0, 3e11


def training_to_the_end(rows: int) -> dict[str, Any]:
    """How a network for numbers is trained where no rows stop it, as options of `sbmc.train_map`.

    Args:
        rows: of the training data.

    Returns:
        The options.

    Examples:
        >>> training_to_the_end(5_000)["max_epochs"]
        400
    """
    epochs = min(max(ROWS_TRAINED // rows, FEWEST_EPOCHS_TO_THE_END), MOST_EPOCHS)
    return {
        "learning_rate": NUMBERS_LEARNING_RATE,
        "batch_size": _batch_size(rows),
        "max_epochs": epochs,
    }


def budget_of_numbers(rows: int, parameters: int, trained_epochs: float) -> Budget:
    """What sampling may cost where no rows were set aside and the user says nothing.

    Args:
        rows: of the training data.
        parameters: of the network.
        trained_epochs: passes over the rows that its training made.

    Returns:
        Ninety trainings; for large networks as many as are affordable, and five at least.

    Examples:
        >>> [budget_of_numbers(10_000, each, 200).trainings for each in (1_000, 10_000, 1_000_000)]
        [90.0, 15.0, 5.0]
    """
    affordable = MOST_WORK / (rows * parameters * trained_epochs)
    return Budget(trainings=min(NUMBERS_TRAININGS, max(LEAST_TRAININGS, affordable)))


def training_options(rows: int, stopped: bool) -> dict[str, Any]:
    """How the network is trained, as options of `sbmc.train_map`.

    Args:
        rows: of the training data.
        stopped: whether there are rows that stop the training.

    Returns:
        The options.

    Examples:
        >>> training_options(1_000, stopped=True)["max_epochs"]
        512
    """
    batch_size = _batch_size(rows)
    most = MOST_EPOCHS if stopped else MOST_EPOCHS_UNSTOPPED
    epochs = min(max(STEPS * batch_size // rows, FEWEST_EPOCHS), most)
    return {
        "learning_rate": LEARNING_RATE,
        "batch_size": batch_size,
        "max_epochs": epochs,
        "window": WINDOW,
        "patience": max(WINDOW, round(PATIENCE_SHARE * epochs)),
    }


def sampling_budget(rows: int, trained_epochs: float) -> Budget:
    """What sampling may cost where the user says nothing.

    Args:
        rows: of the training data.
        trained_epochs: passes over them that the training of the network made.

    Returns:
        Five trainings, or more if these were short.

    Examples:
        >>> sampling_budget(10_000, trained_epochs=100).trainings
        12.0
    """
    least = min(LEAST_ROWS_SAMPLED / rows, MOST_LEAST_EPOCHS)
    return Budget(trainings=max(LEAST_TRAININGS, least / trained_epochs))


def _batch_size(rows: int) -> int:
    return min(max(rows // 8, SMALLEST_BATCH), LARGEST_BATCH)
