"""`python -m benchmarks.conditioning`: rows from one measurement are what others would say."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from benchmarks import conditioning
from sbmc.diagnostics import Conditioning, condition_number


def test_other_scales_follow_from_one_measurement():
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    data = torch.randn(15, 2, dtype=torch.float64), torch.arange(15) % 2
    whole = condition_number(net, data, s=1.0, prior_variance=0.7)
    for s in (0.01, 0.3):
        own = condition_number(net, data, s=s, prior_variance=0.7).as_dict()
        derived = conditioning.rescaled(whole, s).as_dict()
        for name in ("s", "largest", "smallest", "likelihood_largest", "formula"):
            assert derived[name] == pytest.approx(own[name], rel=1e-9), name


def test_it_prints_a_row_for_each_scale(monkeypatch, capsys):
    asked = []

    def measured(model, data, **options):
        asked.append(options["s"])
        return Conditioning(options["s"], 11.0, -1.0, 100.0, 11.0, epochs=8)

    monkeypatch.setattr(conditioning, "condition_number", measured)
    code = conditioning.main(["--experiment", "digits", "--quick", "--s", "0.1", "1"])
    assert code == 0
    assert asked == [1.0]
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "| 0.1 | anchor | 2 | 0.8 | 2.5 | 2 | 100 |"
    assert lines[3] == "| 1 | anchor | 11 | -1 | none: not log-concave there | 11 | 100 |"
    assert lines[-1] == "The measurements took 8 epochs."


def test_bad_options_are_refused(capsys):
    for arguments in (["--threads", "0"], ["--experiment", "mnits7"]):
        with pytest.raises(SystemExit):
            conditioning.main(arguments)
    words = capsys.readouterr().err
    assert "`threads` must be a positive integer, but got 0." in words
    assert "mnist7" in words
