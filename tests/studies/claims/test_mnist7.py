"""The paper's claims and ours, on the committed records. A missing record is a failure."""

import pytest
from repository import RECORDS

from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.settings import resolve
from sbmc_studies.paper.claims.claim import check_claim
from sbmc_studies.paper.claims.mnist7 import CLAIMS, HEADLINE, SHORTFALLS
from sbmc_studies.records.record import Record, write_record


@pytest.mark.parametrize("claim", [*CLAIMS, *HEADLINE], ids=lambda claim: claim.name)
def test_claim_holds_on_the_committed_records(claim):
    verdict = check_claim(claim, RECORDS)
    assert "missing" not in verdict.evidence
    # A shortfall is listed openly, and only as long as it is one.
    expected = claim.name not in SHORTFALLS
    assert verdict.holds is expected, f"{verdict.statement}: {verdict.evidence}"


# What the claims themselves do, on made-up records. Each number is set so that all claims hold;
# the tests then move one of them.
GOOD = {
    ("map", "paper"): {"accuracy": 0.92},
    ("de", "paper"): {"accuracy": 0.925, "entropy.epistemic.ood.all": 0.1},
    ("hmc", "paper"): {"accuracy": 0.80},
    ("s-hmc", "paper"): {
        "accuracy": 0.9201,
        "entropy.epistemic.ood.all": 0.201,
        "entropy.epistemic.correct": 0.05,
        "entropy.epistemic.incorrect": 0.1501,
    },
    ("smc", "paper"): {"accuracy": 0.80},
    ("s-smc", "paper"): {
        "accuracy": 0.90,
        "nll": 0.28,
        "entropy.epistemic.ood.all": 0.1,
        "entropy.epistemic.incorrect": 0.1,
        "equal.accuracy": 0.9301,
        "equal.nll": 0.23,
        "equal.entropy.epistemic.ood.all": 0.201,
        "equal.entropy.epistemic.incorrect": 0.2,
    },
    ("hmc", "best"): {
        "accuracy": 0.9401,
        "nll": 0.2119,
        "entropy.epistemic.correct": 0.12,
        "entropy.epistemic.incorrect": 0.5,
    },
}


def write_all(out, seeds=range(5), **change):
    for (method, preset), metrics in GOOD.items():
        metrics = {**metrics, **change.get(f"{method}_{preset}".replace("-", ""), {})}
        for islands in (1,) if method == "map" else (1, 8):
            if method == "s-smc" and islands == 1:
                # One island is the same under both weightings.
                own = {n: v for n, v in metrics.items() if not n.startswith("equal.")}
                metrics_here = {**own, **{f"equal.{n}": v for n, v in own.items()}}
            else:
                metrics_here = metrics
            experiment, overrides = get_experiment("mnist7"), {"islands": islands}
            settings = resolve(experiment, get_method(method), preset, overrides)
            for seed in seeds:
                record = Record(
                    experiment="mnist7",
                    method=method,
                    settings=settings,
                    seed=seed,
                    data={"name": "mnist7", "checksum": "0"},
                    cost=dict.fromkeys(
                        (
                            "epochs",
                            "forward_epochs",
                            "anchor_epochs",
                            "total_epochs",
                            "wall_seconds",
                        ),
                        1.0,
                    ),
                    metrics=metrics_here,
                    islands=[],
                    outcome="completed",
                )
                write_record(out, record)


def failing(out):
    return {claim.name for claim in (*CLAIMS, *HEADLINE) if not check_claim(claim, out).holds}


def test_all_claims_can_hold(tmp_path):
    write_all(tmp_path)
    assert failing(tmp_path) == set()


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({"shmc_paper": {"accuracy": 0.919}}, {"accuracy-p1", "accuracy-p8"}),
        (
            {"de_paper": {"entropy.epistemic.ood.all": 0.11}},
            {"out-of-domain-p1", "out-of-domain-p8", "smc-out-of-domain"},
        ),
        ({"shmc_paper": {"entropy.epistemic.correct": 0.06}}, {"mistakes-p1", "mistakes-p8"}),
        ({"hmc_paper": {"accuracy": 0.88}}, {"full-posterior"}),
        ({"smc_paper": {"accuracy": 0.88}}, {"smc-full-posterior"}),
        ({"ssmc_paper": {"equal.accuracy": 0.919}}, {"smc-accuracy"}),
        ({"ssmc_paper": {"equal.entropy.epistemic.ood.all": 0.19}}, {"smc-out-of-domain"}),
        ({"ssmc_paper": {"equal.entropy.epistemic.incorrect": 0.09}}, {"smc-islands"}),
        ({"ssmc_paper": {"nll": 0.225, "equal.nll": 0.223}}, {"smc-weights"}),
        ({"hmc_best": {"accuracy": 0.939}}, {"headline-accuracy"}),
        ({"hmc_best": {"nll": 0.213}}, {"headline-nll"}),
        ({"hmc_best": {"entropy.epistemic.correct": 0.151}}, {"headline-entropy"}),
        ({"hmc_best": {"entropy.epistemic.incorrect": 0.36}}, {"headline-entropy"}),
    ],
)
def test_each_claim_can_fail(tmp_path, change, broken):
    write_all(tmp_path, **change)
    assert failing(tmp_path) == broken


def test_missing_records_fail_every_claim(tmp_path):
    everything = {claim.name for claim in (*CLAIMS, *HEADLINE)}
    assert failing(tmp_path) == everything
    write_all(tmp_path, seeds=range(4))
    assert failing(tmp_path) == everything
    assert "missing" in check_claim(CLAIMS[0], tmp_path).evidence
