"""`to_arviz`: every value is found again, under its parameter's name, chain and draw."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest
import torch
from diagnostics.posteriors import make_net, normal_values, posterior_of

from sbmc import BadInput
from sbmc.diagnostics import rhat
from sbmc.diagnostics.arviz import to_arviz
from sbmc.islands.island import IslandReport
from sbmc.storage.optional import load_arviz

arviz = load_arviz()


def test_values_come_back_by_name_chain_and_draw():
    values = normal_values(2, 3, 5)
    data = to_arviz(posterior_of(values))
    start = 0
    for name, parameter in make_net().named_parameters():
        size = parameter.numel()
        own = values[..., start : start + size].reshape(6, 5, *parameter.shape)
        np.testing.assert_array_equal(data.posterior[name].to_numpy(), own.numpy())
        assert data.posterior[name].dims[:2] == ("chain", "draw")
        start += size
    assert start == values.shape[-1]
    assert set(data.posterior.data_vars) == {name for name, _ in make_net().named_parameters()}


def test_chains_know_their_island_and_particle():
    values = normal_values(2, 3, 4)
    data = to_arviz(posterior_of(values))
    assert data.posterior["island"].to_numpy().tolist() == [0, 0, 0, 1, 1, 1]
    assert data.posterior["particle"].to_numpy().tolist() == [0, 1, 2, 0, 1, 2]
    second = data.posterior["0.weight"].to_numpy()[data.sample_stats["island"] == 1]
    np.testing.assert_array_equal(second.reshape(3, 4, -1), values[1, ..., :6].numpy())


def test_arviz_computes_from_it_what_we_do():
    values = normal_values(2, 3, 20).cumsum(2)
    found = arviz.rhat(to_arviz(posterior_of(values)))["2.bias"].to_numpy()
    ours = [rhat(values[..., 14 + i].reshape(6, 20)) for i in range(3)]
    np.testing.assert_allclose(found, ours)


def test_one_draw_of_many_chains_goes_without_a_warning():
    assert to_arviz(posterior_of(normal_values(4, 5, 1))).posterior.sizes["chain"] == 20


def test_weights_acceptance_and_settings_are_there():
    within = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.25, 0.25]], dtype=torch.float64)
    posterior = posterior_of(
        normal_values(2, 3, 1),
        within=within,
        weighting="evidence",
        log_evidence=torch.tensor([0.0, math.log(3)], dtype=torch.float64),
        settings={"sampler": "SMC", "s": 0.1},
    )
    data = to_arviz(posterior)
    weights = data.sample_stats["weight"].to_numpy()
    expected = within * torch.tensor([[0.25], [0.75]])
    np.testing.assert_allclose(weights, expected.reshape(6, 1).numpy())
    assert weights.sum() == pytest.approx(1)
    assert data.sample_stats.attrs["weighted"] == 1
    np.testing.assert_allclose(data.sample_stats.attrs["acceptance"], [0.5, 0.6])
    np.testing.assert_allclose(data.sample_stats.attrs["step_size"], [0.01, 0.02])
    assert np.isnan(data.sample_stats.attrs["log_evidence"]).all()
    assert json.loads(data.posterior.attrs["settings"])["s"] == 0.1
    assert json.loads(data.posterior.attrs["cost"])["epochs"] == 9.0


def test_equal_weights_are_called_so():
    data = to_arviz(posterior_of(normal_values(3, 7, 1)))
    assert data.posterior.attrs["weighted"] == 0


def test_failed_islands_are_left_out_of_the_attributes():
    reports = [
        IslandReport(0, "completed", acceptance=0.9),
        IslandReport(1, "failed", acceptance=0.1),
        IslandReport(2, "completed", acceptance=0.8),
    ]
    data = to_arviz(posterior_of(normal_values(2, 3, 1), reports=reports))
    np.testing.assert_allclose(data.sample_stats.attrs["acceptance"], [0.9, 0.8])


def test_it_survives_a_file(tmp_path):
    pytest.importorskip("h5netcdf")
    posterior = posterior_of(normal_values(2, 3, 5))
    to_arviz(posterior).to_netcdf(str(tmp_path / "posterior.nc"))
    again = arviz.from_netcdf(str(tmp_path / "posterior.nc"))
    np.testing.assert_array_equal(
        again.posterior["2.weight"], to_arviz(posterior).posterior["2.weight"]
    )


def test_draws_can_be_given_and_must_fit():
    posterior = posterior_of(normal_values(2, 6, 1))
    assert to_arviz(posterior, draws=3).posterior.sizes == {"chain": 4, "draw": 3} | {
        dim: size
        for dim, size in to_arviz(posterior).posterior.sizes.items()
        if dim not in ("chain", "draw")
    }
    with pytest.raises(BadInput, match="`draws` must be a positive divisor of the 6 rows"):
        to_arviz(posterior, draws=4)


def test_a_missing_arviz_is_asked_for_by_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pip install 'sbmc\[arviz\]'"):
        to_arviz(posterior_of(normal_values(2, 3, 1)))
