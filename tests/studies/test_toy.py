import json
from pathlib import Path

import numpy as np
import pytest
import torch
from repository import RECORDS
from rich.console import Console

from sbmc.checks import BadInput
from sbmc.randomness import Stream, generator
from sbmc.report.limits import Limits
from sbmc.samplers.nuts import NUTS
from sbmc_studies.figures.toy import build, draw_toy
from sbmc_studies.paper.toy import Toy, read_toy, run_toy, toy_table, toy_verdicts
from sbmc_studies.paper.toy import run as study
from sbmc_studies.paper.toy.target import Case, ToyTarget, density, find_mode
from sbmc_studies.records.record import Record, read_record

RECORDS = RECORDS / "toy" / "nuts"
SEEDS = range(5)
FALLING = {1.0: (11.0, 0.5), 0.25: (4.0, 0.2), 0.1: (2.5, 0.1)}
RISING = {1.0: (11.0, 0.5), 0.5: (20.0, 1.0), 0.25: (80.0, 8.0)}
GRID = np.linspace(-4, 4, 8001)
CASES = [Case("s", 1.0), Case("s", 0.25), Case("T", 1.0), Case("T", 0.25)]


def made_up(scales, temperatures):
    """A run with given tables {value: (IACT, standard error)}."""
    tables = {"s": scales, "T": temperatures}
    metrics = {}
    for family, table in tables.items():
        for value, (iact, error) in table.items():
            name = Case(family, value).name
            metrics |= {f"iact.{name}": iact, f"iact_se.{name}": error}
            metrics[f"epochs_per_draw.{name}"] = 3.0
    settings = {"scales": list(scales), "temperatures": list(temperatures)}
    record = Record("toy", "nuts", settings, 0, {}, {}, metrics, [], "completed")
    return Toy(record, Path("nowhere"), {})


def stored(seed):
    """The committed run of a seed; of one setting only, so that they can be compared."""
    (folder,) = RECORDS.glob(f"*/seed-{seed}")
    return read_toy(folder)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A short run of three targets, and the folder it was written to."""
    out = tmp_path_factory.mktemp("toy")
    values = {"scales": (1.0, 0.1), "temperatures": (1.0, 0.35)}
    return run_toy(out, 3, draws=400, chains=4, **values, progress=False), out


class TestTarget:
    def test_the_anchor_is_the_highest_mode(self):
        posterior = density(Case("s", 1.0), GRID)
        assert GRID[posterior.argmax()] == pytest.approx(find_mode(), abs=1e-3)

    @pytest.mark.parametrize("case", CASES)
    def test_gradient_is_that_of_the_value(self, case):
        target = ToyTarget(case)
        z = torch.linspace(-2, 2, 9, dtype=torch.float64).unsqueeze(1)
        ahead, behind = (target(z + step).log_likelihood for step in (1e-6, -1e-6))
        slope = (ahead - behind) / 2e-6
        torch.testing.assert_close(target(z).gradient[:, 0], slope, rtol=1e-6, atol=1e-6)
        assert target.evaluations.gradient == 3 * 9

    @pytest.mark.parametrize("case", CASES)
    def test_the_sampler_s_target_is_the_density(self, case):
        # λ·ℓ(z) − z²/2, as a density of θ, up to a constant.
        target = ToyTarget(case)
        theta = torch.linspace(-1.5, 1.5, 31, dtype=torch.float64)
        z = target.prior.to_whitened(theta.unsqueeze(1))
        value = case.power * target(z).log_likelihood - z[:, 0].square() / 2
        expected = np.log(np.interp(theta.numpy(), GRID, density(case, GRID)))
        gap = value.numpy() - expected
        assert np.ptp(gap) < 1e-4

    def test_the_cold_posterior_is_the_posterior_to_the_power(self):
        posterior, cold = density(Case("T", 1.0), GRID), density(Case("T", 0.25), GRID)
        expected = posterior**4 / np.trapezoid(posterior**4, GRID)
        np.testing.assert_allclose(cold, expected, rtol=1e-9, atol=1e-12)

    def test_s_and_t_of_one_are_the_posterior(self):
        np.testing.assert_array_equal(density(Case("s", 1), GRID), density(Case("T", 1), GRID))

    def test_there_are_two_modes_which_s_removes_and_t_keeps(self):
        def modes(case):
            values = density(case, GRID)
            return int(((values[1:-1] > values[:-2]) & (values[1:-1] > values[2:])).sum())

        assert [modes(Case("s", s)) for s in (1.0, 0.1)] == [2, 1]
        assert [modes(Case("T", t)) for t in (1.0, 0.25)] == [2, 2]

    @pytest.mark.parametrize("case", [Case("s", 0.0), Case("s", 2.0), Case("T", 0.0), Case("x", 1)])
    def test_other_values_are_refused(self, case):
        with pytest.raises(BadInput):
            case.prior()


class TestRun:
    def test_the_record_stands_in_its_place_and_reads_back(self, small):
        toy, out = small
        path = toy.folder / "record.json"
        assert path.relative_to(out).parts[:2] == ("toy", "nuts")
        assert toy.folder.name == "seed-3"
        assert read_record(path).metrics == json.loads(path.read_text())["metrics"]
        again = read_toy(toy.folder)
        assert again.record.metrics == toy.record.metrics
        assert all(np.array_equal(again.curves[name], toy.curves[name]) for name in toy.curves)
        assert sum(file.stat().st_size for file in toy.folder.iterdir()) < 2**20

    def test_short_chains_already_show_the_order(self, small):
        # IACTs of about 2.5, 11 and 35: at 1,600 draws each, some 6 standard errors apart.
        metrics = small[0].record.metrics
        assert metrics["iact.s.0.1"] < metrics["iact.s.1"] < metrics["iact.T.0.35"]
        assert metrics["iact.s.1"] == metrics["iact.T.1"]

    def test_curves_begin_where_they_must(self, small):
        curves = small[0].curves
        for case in (*small[0].cases("s"), *small[0].cases("T")):
            assert curves[f"acf.{case.name}"][0] == pytest.approx(1)
            assert np.trapezoid(curves[f"density.{case.name}"], curves["theta"]) == pytest.approx(1)

    def test_a_seed_decides_the_numbers(self):
        def values(seed):
            streams = [generator(seed, Stream.ISLANDS, 0, i) for i in range(2)]
            case = Case("s", 0.25)
            short = NUTS(warmup_draws=40, draws=20)
            return study.chain_values(case, study.run_case(case, short, streams))

        assert np.array_equal(values(1), values(1))
        assert not np.array_equal(values(1), values(2))

    def test_chains_have_the_target_s_moments(self):
        # Alarm rate below 1e-5: 5 standard errors of the mean of 24 independent chains.
        case = Case("s", 0.25)
        streams = [generator(5, Stream.ISLANDS, 0, i) for i in range(24)]
        runs = study.run_case(case, NUTS(warmup_draws=100, draws=100), streams)
        means = study.chain_values(case, runs).mean(1)
        expected = np.trapezoid(GRID * density(case, GRID), GRID)
        assert abs(means.mean() - expected) < 5 * means.std(ddof=1) / np.sqrt(len(means))

    def test_bad_arguments_are_refused_before_anything_is_written(self, tmp_path):
        bad = ({"seed": -1}, {"chains": 1}, {"draws": 0}, {"scales": (2.0,)}, {"temperatures": [0]})
        for arguments in bad:
            with pytest.raises(BadInput):
                run_toy(tmp_path, progress=False, **arguments)
        assert not list(tmp_path.iterdir())

    def test_a_folder_without_a_record_is_refused(self, tmp_path):
        with pytest.raises(BadInput, match="readable record"):
            read_toy(tmp_path)

    def test_jackknife_error_is_of_the_right_size(self):
        # Independent draws: the IACT is 1, and its error is what it varies by from run to run.
        rng = np.random.default_rng(0)
        runs = rng.normal(size=(30, 6, 300))
        found = np.mean([study.jackknife_error(run) for run in runs])
        true = np.std([study.integrated_autocorrelation_time(run) for run in runs])
        assert 0.4 * true < found < 2.5 * true


class TestClaims:
    def test_they_hold_where_they_are_true(self):
        assert [verdict.holds for verdict in toy_verdicts([made_up(FALLING, RISING)])] == [
            True,
            True,
        ]

    def test_they_fail_where_the_order_is_wrong(self):
        verdicts = toy_verdicts([made_up(RISING, FALLING)])
        assert [verdict.holds for verdict in verdicts] == [False, False]

    def test_they_fail_where_the_errors_are_large(self):
        unsure = {value: (iact, iact) for value, (iact, _) in FALLING.items()}
        assert not toy_verdicts([made_up(unsure, RISING)])[0].holds

    def test_more_runs_have_smaller_errors(self):
        unsure = {value: (iact, iact / 2) for value, (iact, _) in FALLING.items()}
        toys = [made_up(unsure, RISING)] * 16
        assert [toy_verdicts(some)[0].holds for some in (toys[:1], toys)] == [False, True]

    def test_runs_of_different_settings_are_refused(self):
        with pytest.raises(BadInput, match="same settings"):
            toy_verdicts([made_up(FALLING, RISING), made_up(RISING, RISING)])

    def test_one_value_is_no_evidence(self):
        assert not toy_verdicts([made_up({1.0: (11.0, 0.5)}, RISING)])[0].holds


class TestShow:
    def test_table_has_a_row_for_each_s_and_t(self):
        console = Console(width=120)
        toy = made_up(FALLING, RISING)
        with console.capture() as captured:
            console.print(toy_table(toy))
        text = captured.get()
        assert text.index("s = 1 ") < text.index("s = 0.25") < text.index("s = 0.1 ")
        assert "T = 0.25" in text
        assert "80.00" in text

    def test_figure_is_drawn_from_the_stored_run(self, small, tmp_path):
        path = draw_toy(read_toy(small[0].folder), tmp_path / "new" / "toy.png")
        assert path.read_bytes().startswith(b"\x89PNG")

    def test_figures_have_all_curves_with_their_iact(self, small):
        toy = small[0]
        figures = build(toy, Limits(points=1000))
        labels = [[curve.style.label for curve in each.chart.curves] for each in figures]
        assert labels == [["s = 1", "s = 0.1"], ["T = 1", "T = 0.35"]] * 2
        density = figures[0].chart.curves[1]
        np.testing.assert_allclose(density.y, toy.curves["density.s.0.1"], rtol=1e-5)
        np.testing.assert_allclose(density.x, toy.curves["theta"], rtol=1e-5)
        memory = figures[3].chart.curves[1]
        np.testing.assert_allclose(memory.y, toy.curves["acf.T.0.35"], rtol=1e-5)
        assert memory.note == f"IACT {toy.record.metrics['iact.T.0.35']:.1f}"


class TestStoredRecords:
    def test_the_paper_s_claims_hold(self):
        for verdict in toy_verdicts([stored(seed) for seed in SEEDS]):
            assert verdict.holds, f"{verdict.statement}: {verdict.evidence}"

    @pytest.mark.parametrize("seed", SEEDS)
    def test_chains_shared_their_time_between_the_modes_as_they_should(self, seed):
        # Alarm rate 1e-5 for each case: 4.4 standard errors of as many draws as the IACT leaves.
        toy = stored(seed)
        count = toy.record.settings["islands"] * toy.record.settings["draws"]
        for case in (*toy.cases("s"), *toy.cases("T")):
            values = density(case, GRID)
            share = np.trapezoid(np.where(GRID < 0, values, 0), GRID)
            iact = toy.record.metrics[f"iact.{case.name}"]
            error = np.sqrt(share * (1 - share) * max(1, iact) / count)
            assert abs(toy.record.metrics[f"lower_mode.{case.name}"] - share) < 4.4 * error

    @pytest.mark.slow
    def test_a_new_run_bears_them_out(self, tmp_path):
        toy = run_toy(tmp_path, 11, progress=False)
        metrics = toy.record.metrics
        assert 2 * metrics["iact.s.0.1"] < metrics["iact.s.1"] < metrics["iact.T.0.25"] / 2
