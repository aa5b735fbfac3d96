"""The benchmark at equal time: ensembles as large as a sampler's seconds allow."""

import json

import pytest
import torch

from benchmarks import matched


def test_each_sampler_has_an_ensemble_of_its_time_beside_it(tmp_path, capsys):
    out = tmp_path / "matched.json"
    before = torch.get_num_threads()
    arguments = ["--quick", "--experiment", "digits", "--islands", "2", "--set", "s=0.2"]
    try:
        assert matched.main([*arguments, "--threads", "1", "--out", str(out)]) == 0
    finally:
        torch.set_num_threads(before)
    record = json.loads(out.read_text())
    assert (record["benchmark"], record["quick"]) == ("matched", True)
    assert (record["experiment"], record["settings"]) == ("digits", {"s": "0.2"})
    runs = record["runs"]
    methods = [(run["method"], run["islands"]) for run in runs]
    pairs = [(name, 2) for name in matched.SAMPLERS]
    assert methods[:2] == [("map", 1), ("de", 1)]
    assert methods[2::2] == pairs
    assert set(methods[3::2]) == {("de", 1)}
    assert (runs[0]["members"], runs[1]["members"]) == (1, 10)
    for sampler, ensemble in zip(runs[2::2], runs[3::2], strict=True):
        assert sampler["members"] == 2 * sampler["islands"]
        assert ensemble["members"] == matched.members_for(sampler["seconds"], runs[1])
        assert 0 < sampler["accuracy"] <= 1
        # a sampler pays for its anchor
        assert sampler["seconds"] > runs[0]["seconds"]
    table = capsys.readouterr().out
    assert table.startswith("digits: s = 0.2; 1 thread(s)")
    assert table.count("ensemble in as many seconds") == len(pairs)


def test_members_are_counted_from_the_ensemble_of_ten():
    ten = {"seconds": 20.0}
    assert matched.members_for(60.0, ten) == 30
    assert matched.members_for(0.1, ten) == 2


def test_a_gain_is_over_the_seconds_beyond_the_map():
    zero = dict.fromkeys(matched.METRICS[3:], 0.0)

    def run(method, seconds, nll):
        shown = {"accuracy": 0.5, "nll": nll, "ece": None, "epochs": 1.0, "members": 1}
        return {"method": method, "role": method, "islands": 1, "seconds": seconds, **shown, **zero}

    record = {
        **{"experiment": "x", "settings": {}, "threads": 1},
        **{"hardware": {"processor": "p"}, "versions": {"torch": "t"}},
        "runs": [run("map", 10.0, 0.3), run("de", 30.0, 0.2)],
    }
    rows = [line.split(" | ") for line in matched.matched_table(record).splitlines()[4:]]
    assert [row[-1] for row in rows] == ["– |", "5.000 |"]
    assert rows[0][7] == "–"


def test_an_unknown_study_is_refused(capsys):
    with pytest.raises(SystemExit) as stopped:
        matched.main(["--experiment", "mnist"])
    assert stopped.value.code == 2
    assert "`experiment` must be" in capsys.readouterr().err
