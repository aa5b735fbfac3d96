"""The benchmarks of islands on several workers run and write what the page needs."""

import json

import pytest
from repository import ROOT

from benchmarks import (
    checkpoint_overhead,
    many_islands,
    scaling,
    scaling_page,
    scaling_tables,
    simulation,
)
from benchmarks.watching import Seen, Watched
from benchmarks.workloads import get_workload
from sbmc import InProcess, Processes

IMAGE = ROOT / "docs" / "images" / "scaling.png"


def read(path):
    return json.loads(path.read_text("utf-8"))


class SaysTwo(InProcess):
    """Stands in for two processes of this machine; one at least is started for real."""

    workers, folds = 2, False


def test_scaling_compares_one_worker_with_two(tmp_path, capsys, monkeypatch):
    def one_for_real(workers, threads):
        if workers == 1:
            return Processes(workers=1, threads=threads)
        return SaysTwo(fold=1, threads=threads)

    monkeypatch.setattr(scaling, "Processes", one_for_real)
    out = tmp_path / "scaling.json"
    assert scaling.main(["--quick", "--without-ray", "--out", str(out)]) == 0
    record = read(out)
    rows = {row["way"]: row for row in record["rows"]}
    assert [row["workers"] for row in record["rows"]] == [1, 2, 1]
    for row in rows.values():
        assert len(row["runs"]) == record["repeats"]
        assert row["seconds"] > 0
        assert row["with_start_up"] >= row["seconds"]
    one = rows[scaling.ONE]
    assert len(one["batch_seconds"]) == one["islands"] == 3
    # 32 images of 8 × 8 and the model go out; two particles come back from an island.
    assert one["payload_bytes"] > 32 * 64 * 4
    network = get_workload("mnist7", quick=True).network()
    assert one["result_bytes"] == 2 * 4 * sum(each.numel() for each in network.parameters())
    assert record["failures"] == []
    assert "processes, 2 workers" in capsys.readouterr().out


def test_two_workers_that_gain_too_little_are_a_failure():
    def record(gain):
        return {"needed": 1.6, "two_over_one": {"sampling": gain, "with_start_up": 9.9}}

    assert scaling.find_failures(record(1.6)) == []
    (failure,) = scaling.find_failures(record(1.59))
    assert "two workers are 1.59 times as fast as one, 1.6 needed" in failure


def test_islands_that_differ_stop_the_benchmark(monkeypatch):
    real, calls = scaling.run_islands, []

    def wrong(plan, executor, quick):
        seen, positions = real(plan, InProcess(fold=1, threads=1), quick)
        calls.append(executor)
        return seen, positions + (len(calls) > 1)

    monkeypatch.setattr(scaling, "run_islands", wrong)
    with pytest.raises(RuntimeError, match="differ from those of one worker"):
        scaling.measure(scaling.QUICK, True, {})


def test_checkpoints_are_written_and_timed(tmp_path, capsys):
    out = tmp_path / "record.json"
    arguments = ["--quick", "--out", str(out), "--folder", str(tmp_path)]
    assert checkpoint_overhead.main(arguments) == 0
    record = read(out)
    rows = {row["interval"]: row for row in record["rows"]}
    assert list(rows) == ["none", "default", "a tenth of an island", "every place"]
    assert rows["none"]["states"] == rows["none"]["writing"] == 0
    assert rows["none"]["over_none"] == 1
    # One when an island begins, and nothing more within a minute.
    assert rows["default"]["states"] == 3
    assert rows["every place"]["states"] > 3
    assert all(0 < row["writing"] < 1 for row in record["rows"][1:])
    assert list(tmp_path.iterdir()) == [out], "what was written is removed"
    assert "the default" in capsys.readouterr().out


def test_checkpoints_that_cost_too_much_are_a_failure():
    def record(writing, state):
        names = ("allowed", "default_writing", "state_per_default_interval")
        return dict(zip(names, (0.02, writing, state), strict=True))

    assert checkpoint_overhead.find_failures(record(0.019, 0.019)) == []
    (first,) = checkpoint_overhead.find_failures(record(0.021, 0.0))
    assert "writing took 2.1% of the run, 2% allowed" in first
    (second,) = checkpoint_overhead.find_failures(record(0.0, 0.02))
    assert "a state every 60 s would take 2.0%" in second


def test_many_islands_measures_every_way(tmp_path, capsys, monkeypatch):
    def stand_in(workers, threads):
        assert workers == many_islands.WORKERS == SaysTwo.workers
        return SaysTwo(fold=1, threads=threads)

    monkeypatch.setattr(many_islands, "Processes", stand_in)
    out = tmp_path / "record.json"
    assert many_islands.main(["--quick", "--without-ray", "--out", str(out)]) == 0
    record = read(out)
    here, other = record["rows"]
    assert (here["way"], here["driver_per_island"]) == (many_islands.HERE, None)
    assert other["driver_per_island"] > 0
    expected = (other["seconds"] * 2 - here["seconds"]) / 6
    assert other["overhead_per_island"] == pytest.approx(expected)
    assert [row["under_way"] for row in record["driver"]] == [2, 4]
    assert all(row["seconds_per_island"] > 0 < row["seconds_per_news"] for row in record["driver"])
    assert "overhead per island" in capsys.readouterr().out


@pytest.mark.slow
def test_many_islands_go_through_ray(tmp_path):
    out = tmp_path / "record.json"
    assert many_islands.main(["--quick", "--out", str(out)]) == 0
    rows = read(out)["rows"]
    assert [row["under_way"] for row in rows] == [1, 2, 2, 6]


def test_a_watched_executor_keeps_so_many_under_way():
    plan = many_islands.QUICK
    seen, _ = many_islands.run_islands(plan, InProcess(fold=1, threads=1), None)
    assert seen.opened <= seen.begun < seen.ended
    assert len(seen.batch_seconds) == plan.islands
    assert sum(seen.batch_seconds) <= seen.ended - seen.opened
    most = []

    class Counting(InProcess):
        def open(self, job, checkpoint_files, report_progress):
            session, under_way = super().open(job, checkpoint_files, report_progress), [0]
            submit, wait = session.submit, session.wait

            def more(batch):
                under_way[0] += 1
                most.append(under_way[0])
                submit(batch)

            def fewer(timeout):
                done = wait(timeout)
                under_way[0] -= len(done)
                return done

            session.submit, session.wait = more, fewer
            return session

    many_islands.run_islands(plan, Counting(fold=1, threads=1), 4)
    assert max(most) == 4
    assert Watched(InProcess(fold=7), Seen()).fold == 7


@pytest.fixture
def measured(tmp_path):
    """Records of a machine on which everything is simple."""
    times = [2.0, 2.0, 2.0, 2.0]
    way = {"islands": 4, "epochs": 20, "batch_seconds": times, "start_up_seconds": 3.0}
    way |= {"payload_bytes": 1_250_000, "result_bytes": 125_000}
    rows = [{**way, "way": scaling.ONE}, {**way, "way": scaling.TWO}]
    driver = {"Ray": (2, 0.001), "Ray, all islands handed over at once": (1004, 0.0015)}
    many = [{"way": n, "under_way": u, "driver_per_island": d} for n, (u, d) in driver.items()]
    states = [{"interval": "every place", "seconds_per_state": 0.01}]
    crowds = [(10, 1e-5, 2e-5), (1010, 3e-5, 1.02e-3)]
    names = ("under_way", "seconds_per_island", "seconds_per_news")
    driver = [dict(zip(names, row, strict=True)) for row in crowds]
    for name, found in (
        ("scaling", rows), ("many_islands", many), ("checkpoint_overhead", states)
    ):  # fmt: skip
        (tmp_path / f"{name}.json").write_text(json.dumps({"rows": found, "driver": driver}))
    return tmp_path


def test_constants_come_from_the_records(measured):
    found = simulation.read_constants(measured)
    assert found["epoch_seconds"] == pytest.approx(0.1)
    assert found["island_seconds"] == pytest.approx(16.0)
    assert found["spread"] == 0
    assert found["submit"] == 0.001
    # Half a millisecond more with 502 under way than with 2, and 20 µs in a thousand.
    assert found["crowd"] == pytest.approx(1e-6 + 2e-8)
    assert found["news_crowd"] == pytest.approx(1e-6)
    assert found["news"] == pytest.approx(1e-5)
    cluster = simulation.cluster_of(found, workers=5, days=2.0)
    assert (cluster.start, cluster.payload, cluster.write) == (3.0, 0.001, 0.01)
    assert cluster.submit == pytest.approx(0.0011)
    assert cluster.failure_rate == pytest.approx(1 / 172_800)
    with pytest.raises(SystemExit, match=r"python -m benchmarks\.scaling makes it"):
        simulation.read_constants(measured / "nowhere")


def test_the_drivers_limit_is_where_it_is_always_busy(measured):
    found = simulation.read_constants(measured)
    limit = simulation.driver_limit(found, 16.0)
    assert limit * (0.0011 + 1.02e-6 * limit) == pytest.approx(16.0)
    flat = {**found, "crowd": 0.0}
    assert simulation.driver_limit(flat, 11.0) == pytest.approx(10_000)


def test_drawn_times_have_their_mean_and_spread():
    times = simulation.draw_times(20_000, 10.0, 0.3, seed=1)
    assert sum(times) / 20_000 == pytest.approx(10.0, rel=0.01)  # standard error 0.2 %
    assert simulation.draw_times(3, 10.0, 0.0, seed=1) == pytest.approx([10.0] * 3)
    assert times == simulation.draw_times(20_000, 10.0, 0.3, seed=1)


def test_the_simulation_writes_its_record_and_picture(measured, capsys):
    out, picture = measured / "simulation.json", measured / "scaling.png"
    words = ["--quick", "--records", str(measured), "--out", str(out), "--picture", str(picture)]
    assert simulation.main(words) == 0
    record = read(out)
    assert {row["workers"] for row in record["grid"]} == {1, 10}
    # One worker is idle only while it starts, gets the work, and waits for the driver.
    (alone,) = (r for r in record["grid"] if (r["islands"], r["workers"]) == (100, 1))
    assert alone["efficiency"] == pytest.approx(1600 / (1600 + 3.001 + 100 * 0.0011), rel=1e-6)
    ended = [row for row in record["failures"] if row["retries"] is None]
    assert all(row["given_up"] == 0 for row in ended)
    assert picture.stat().st_size > 1_000
    printed = capsys.readouterr().out
    assert scaling_tables.simulation_table(record) in printed
    first = out.read_text()
    assert simulation.main(words) == 0
    assert out.read_text() == first


def test_a_quick_record_is_not_shown(tmp_path):
    (tmp_path / "simulation.json").write_text('{"quick": true}')
    text = scaling_page.PAGE.read_text("utf-8")
    with pytest.raises(SystemExit, match="made with --quick"):
        scaling_page.fill(text, tmp_path)


def test_the_page_shows_the_records():
    text = scaling_page.PAGE.read_text("utf-8")
    assert scaling_page.fill(text, scaling_page.RECORDS) == text
    assert IMAGE.exists()


def test_committed_records_meet_what_is_required():
    scaled = read(scaling_page.RECORDS / "scaling.json")
    assert scaling.find_failures(scaled) == scaled["failures"] == []
    writing = read(scaling_page.RECORDS / "checkpoint_overhead.json")
    assert checkpoint_overhead.find_failures(writing) == writing["failures"] == []


@pytest.mark.parametrize("benchmark", [scaling, checkpoint_overhead, many_islands, simulation])
def test_bad_options_are_refused(benchmark, capsys):
    with pytest.raises(SystemExit) as stopped:
        benchmark.main(["--repeats", "0"])
    assert stopped.value.code == 2
    assert "`repeats` must be a positive integer, but got 0." in capsys.readouterr().err
