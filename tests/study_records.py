"""Made-up records of any study, for tests of what is made from records."""

from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.settings import resolve
from sbmc_studies.records.record import Record, record_path, write_record

KINDS = ("total", "aleatoric", "epistemic")


def write(out, experiment, method, metrics, seeds=range(5), wall=10.0, preset="paper", **overrides):
    """Write completed records of one setting; returns the last record's folder."""
    study = get_experiment(experiment)
    settings = resolve(study, get_method(method), preset, overrides)
    for seed in seeds:
        record = Record(
            experiment=experiment,
            method=method,
            settings=settings,
            seed=seed,
            data={"name": study.dataset, "checksum": "0"},
            cost={
                "epochs": 25.0,
                "forward_epochs": 0.0,
                "anchor_epochs": 25.0,
                "total_epochs": 275.0,
                "wall_seconds": wall,
            },
            metrics=metrics,
            islands=[],
            outcome="completed",
        )
        write_record(out, record)
    return record_path(out, experiment, method, record.hash, record.seed).parent


def entropies(groups, correct=0.01, incorrect=0.02, outside=0.03, kind="epistemic"):
    """Entropies of one kind, all groups alike."""
    start = f"entropy.{kind}"
    return {
        f"{start}.correct": correct,
        f"{start}.incorrect": incorrect,
        f"{start}.id": correct,
        f"{start}.ood.all": outside,
        **{f"{start}.ood.{group}": outside for group in groups},
    }
