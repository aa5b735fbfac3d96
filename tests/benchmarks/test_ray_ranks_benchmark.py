"""The benchmark of ranks on Ray; its record is on the page, and says that nothing was lost."""

from __future__ import annotations

import json
import random
import threading

import pytest

from benchmarks import ray_ranks


def test_the_page_has_the_record_and_the_record_says_that_nothing_was_lost():
    text = ray_ranks.PAGE.read_text("utf-8")
    assert ray_ranks.fill(text, ray_ranks.shared.RECORDS) == text
    record = json.loads((ray_ranks.shared.RECORDS / "ray_ranks.json").read_text("utf-8"))
    assert record["same_bits"] == [True, True]
    assert record["outcomes"] == ["completed"] * record["islands"]
    assert record["results"] == record["islands"]
    assert sum(record["killed"].values()) == ray_ranks.KILLS
    # An island has an attempt more for each of its workers that was killed while it ran.
    assert record["islands"] < sum(record["attempts"]) <= record["islands"] + ray_ranks.KILLS


def test_whoever_kills_stops_when_the_run_is_over(tmp_path):
    (tmp_path / "batch-0").touch()
    killer = ray_ranks.Killer(random.Random(0), kills=3)
    thread = threading.Thread(target=killer.run, args=(tmp_path,))
    thread.start()
    killer.over.set()
    thread.join(10)
    assert not thread.is_alive()
    assert killer.killed == []


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
def test_it_runs_in_a_short_form(tmp_path):
    assert ray_ranks.main(["--quick", "--out", str(tmp_path / "record.json")]) == 0
