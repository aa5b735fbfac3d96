"""Made-up records with the arrays of the meta-classifier beside them, for figures and tables.

Every number follows from the method, the seed and the protocol by a formula that a test can repeat.
"""

import numpy as np

from sbmc.confidence import ConfidenceReport
from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.settings import resolve
from sbmc_studies.records.record import Record, write_record
from sbmc_studies.runs.confidence import arrays_file

COST = dict.fromkeys(
    ("epochs", "forward_epochs", "anchor_epochs", "total_epochs", "wall_seconds"), 1.0
)
GROUPS = ["correct", "incorrect", "8", "9", "white_noise", "perturbed"]


def metrics(level=0.0):
    """Metrics of a record: in the clean protocol all are 0.01 below the paper's."""
    found = {"accuracy": 0.9 + level, "nll": 0.2 - level, "ece": 0.05}
    for infix, shift in (("", 0.0), ("clean.", -0.01)):
        for rule in ("default", "optimal_f1"):
            start = f"confidence.{infix}{rule}."
            names = ("precision", "recall", "f1", "accuracy", "auc_roc")
            for place, name in enumerate(names):
                found[start + name] = 0.5 + 0.05 * place + level + shift
            found[start + "threshold"] = 0.5 if rule == "default" else 0.25
        found |= {f"confidence.{infix}aurc.mixed": 0.2, f"confidence.{infix}aurc.in_domain": 0.01}
        found[f"ood.{infix}epistemic.auroc"] = 0.8 + level + shift
    return found


def entropies_of(level=0.0):
    """Entropies of all groups, which differ by group and kind."""
    found = {}
    for place, group in enumerate(GROUPS):
        name = group if group in ("correct", "incorrect") else f"ood.{group}"
        found[f"entropy.aleatoric.{name}"] = 0.1 * (place + 1)
        found[f"entropy.epistemic.{name}"] = 0.2 * (place + 1) + level
    return found


def arrays(seed=0, bend=2.0):
    """Arrays of one seed; `bend` shapes the ROC curve, t -> 1 - (1 - t)^bend."""
    line = np.linspace(0, 1, 101)
    step = 0.01 * seed
    found = {
        "roc.false_positive_rate": line,
        "roc.true_positive_rate": 1 - (1 - line) ** bend,
        "two_level.thresholds": line,
        "two_level.accuracy": 0.5 + 0.2 * line + step,
        "risk_coverage.mixed.coverage": np.linspace(0.1 + step, 1, 50),
        "risk_coverage.mixed.risk": np.linspace(0.1 + step, 1, 50) / 2,
        "risk_coverage.in_domain.coverage": np.linspace(0.1 + step, 1, 50),
        "risk_coverage.in_domain.risk": np.linspace(0.1 + step, 1, 50) / 10,
        "entropy.groups": np.array(GROUPS),
        "entropy.classes": np.arange(3),
        "confusion.default": np.array([[80 + seed, 20 - seed], [30, 10]]),
        "confusion.optimal_f1": np.array([[60, 40], [5, 15]]),
    }
    for kind in ("model", "score"):
        count = np.array([0, 4, 30 + 10 * seed, 50])
        found[f"reliability.{kind}.count"] = count
        found[f"reliability.{kind}.probability"] = np.array([np.nan, 0.3, 0.6 + step, 0.9])
        found[f"reliability.{kind}.frequency"] = np.array([np.nan, 0.5, 0.5, 0.8 + step])
    for place, kind in enumerate(("total", "aleatoric", "epistemic")):
        share = (1.0, 0.7, 0.3)[place]
        groups = share * (np.arange(6) + 1.0 + seed)
        groups[1] = np.nan if seed == 1 else groups[1]  # a seed without incorrect predictions
        found[f"entropy.groups.{kind}"] = groups
        found[f"entropy.classes.{kind}"] = share * (np.arange(3) + 1.0)
    return found


def write(
    out,
    method="s-hmc",
    seed=0,
    islands=8,
    level=0.0,
    bend=2.0,
    confidence=True,
    preset="paper",
    more=None,
    **settings,
):
    """Write a record of mnist7 and, unless told otherwise, both files of arrays.

    `more` has further metrics; other keywords are settings that differ from the preset.
    """
    study = get_experiment("mnist7")
    overrides = settings if method == "map" else {"islands": islands, **settings}
    record = Record(
        experiment="mnist7",
        method=method,
        settings=resolve(study, get_method(method), preset, overrides),
        seed=seed,
        data={"name": "mnist7", "checksum": "0"},
        cost=COST,
        metrics={**metrics(level), **entropies_of(level), **(more or {})}
        if confidence
        else {"accuracy": 0.9},
        islands=[],
        outcome="completed",
    )
    folder = write_record(out, record).parent
    if confidence:
        for protocol, shape in (("paper", bend), ("clean", bend + 1)):
            report = ConfidenceReport(protocol, {}, arrays(seed, shape))
            report.save(arrays_file(folder, protocol))
    return record
