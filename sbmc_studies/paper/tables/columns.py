"""Which columns a study's tables have: those of its groups, and what is to be said of them."""

from __future__ import annotations

from sbmc_studies.experiments.experiment import Experiment
from sbmc_studies.paper.numbers import groups
from sbmc_studies.paper.tables.lines import Column

# Tables of all studies with images of digits: the groups together.
COLUMNS = (
    Column("accuracy", "accuracy %", 1),
    Column("nll", "NLL", 3),
    Column("entropy.epistemic.correct", "H_ep correct", 3),
    Column("entropy.epistemic.incorrect", "H_ep incorrect", 3),
    Column("entropy.epistemic.ood.all", "H_ep OOD", 3),
)
# Studies whose groups are too different to be one number, in kind and in size: digits of entropies.
_BY_GROUP = {"imdb": 5, "cifar10": 4}
# The columns of the paper's table of GPT-2.
_LANGUAGE = (
    Column("accuracy", "accuracy %", 2),
    Column("nll", "NLL", 3),
    *(
        Column(f"entropy.{kind}.{name}", f"{symbol} {name}", 3)
        for kind, symbol in (("total", "H_tot"), ("epistemic", "H_ep"))
        for name in ("correct", "incorrect")
    ),
)

NOTES = {
    "imdb": (
        "The paper's Brier score for IMDb is of one class; it is doubled here, to the sum over "
        "classes. Its ECE (0.37 to 0.44) cannot be the usual one, which is at most the root of the "
        "Brier score of one class; ours is the usual one, so the two are not compared. Embeddings "
        "and out-of-domain texts are not the paper's: texts are cut at 128 tokens, and groups "
        "have 485 to 3,000 texts of other products."
    ),
    "cifar10": (
        "Features and out-of-domain pictures are not the paper's: another ResNet-50 on pictures "
        "enlarged to 128 × 128, features divided by 6, Tiny ImageNet for close, 13 corruptions for "
        "corrupt, re-cropped house numbers for far; 2,600 to 3,000 pictures a group."
    ),
}


def table_columns(experiment: Experiment) -> tuple[Column, ...]:
    """The columns of a study's own table.

    Args:
        experiment: whose.

    Returns:
        For digits and MNIST7, accuracy, NLL and H_ep of correct, incorrect and all out-of-domain
        predictions; for shakespeare those of the paper's table; for others, Brier score and ECE
        too, and each out-of-domain group.
    """
    if experiment.name == "shakespeare":
        return _LANGUAGE
    if experiment.name not in _BY_GROUP:
        return COLUMNS
    return (*first_order(ece=True), *entropies(experiment, "epistemic"))


def first_order(*, ece: bool) -> tuple[Column, ...]:
    """Accuracy, NLL and Brier score, and ECE where it is asked for."""
    columns = (
        Column("accuracy", "accuracy %", 2),
        Column("nll", "NLL", 3),
        Column("brier", "Brier", 3),
    )
    return (*columns, Column("ece", "ECE", 3)) if ece else columns


def entropies(experiment: Experiment, kind: str) -> tuple[Column, ...]:
    """Mean entropies of correct and incorrect predictions, and of each out-of-domain group.

    Args:
        experiment: whose groups.
        kind: `"epistemic"` or `"total"`.

    Returns:
        The columns.
    """
    digits = _BY_GROUP.get(experiment.name, 3)
    symbol = {"epistemic": "H_ep", "total": "H_tot"}[kind]
    inside = [(f"entropy.{kind}.{name}", f"{symbol} {name}") for name in ("correct", "incorrect")]
    outside = [
        (f"entropy.{kind}.ood.{name}", f"{symbol} {name.replace('_', ' ')}")
        for name in groups(experiment.name)
    ]
    return tuple(Column(metric, heading, digits) for metric, heading in (*inside, *outside))
