"""Priors in a posterior's file: the same bits, in few numbers."""

import copy

import pytest
import torch
from torch import nn

import sbmc
from sbmc import BadInput
from sbmc.posterior.saved_priors import priors_from_state, priors_to_state

X = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
DATA = X, (X[:, 0] > 0).long()


def fitted(**options):
    options = {"s": 0.1, "sampler": sbmc.HMC(steps=3), "particles": 3, **options}
    torch.manual_seed(1)
    return sbmc.fit(nn.Linear(2, 2), DATA, progress=False, **options)


@pytest.mark.parametrize(
    ("options", "vectors"),
    [
        ({}, ["prior.0.anchor"]),
        ({"s": 1.0}, ["prior.0.anchor"]),
        ({"prior": sbmc.Prior(covariance="laplace")}, ["prior.0.anchor", "prior.0.scale"]),
        ({"prior": sbmc.Prior(posterior_temperature=0.5)}, ["prior.0.anchor"]),
        (
            {"islands": 3, "anchors": [nn.Linear(2, 2), nn.Linear(2, 2)]},
            ["prior.0.anchor", "prior.1.anchor"],
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::sbmc.HealthWarning")
def test_they_come_back_with_the_same_bits(options, vectors, tmp_path):
    posterior = fitted(**options)
    _, tensors = priors_to_state(posterior.priors, posterior.power, posterior.space)
    assert sorted(tensors) == vectors
    posterior.save(tmp_path / "a.sbmc")
    loaded = sbmc.load(tmp_path / "a.sbmc", nn.Linear(2, 2))
    assert loaded.power == posterior.power
    for before, after in zip(posterior.priors, loaded.priors, strict=True):
        for name in ("anchor", "mean", "scale"):
            assert torch.equal(getattr(before, name), getattr(after, name))


@pytest.mark.filterwarnings("ignore::sbmc.HealthWarning")
def test_incomplete_ones_are_refused():
    posterior = fitted()
    state, tensors = priors_to_state(posterior.priors, 1.0, posterior.space)
    place = posterior.space, 1, torch.device("cpu")
    for key in ("priors", "of", "power", "dtype"):
        broken = copy.deepcopy(state)
        del broken[key]
        with pytest.raises(BadInput, match="complete priors"):
            priors_from_state(broken, tensors, *place)
    with pytest.raises(BadInput, match="complete priors"):
        priors_from_state(state, {}, *place)


@pytest.mark.filterwarnings("ignore::sbmc.HealthWarning")
def test_a_posterior_without_them_is_saved_and_not_updated(tmp_path):
    posterior = fitted()
    posterior.priors = None
    posterior.save(tmp_path / "a.sbmc")
    loaded = sbmc.load(tmp_path / "a.sbmc", nn.Linear(2, 2))
    assert loaded.priors is None
    with pytest.raises(BadInput, match=r"file of before.*Fit again"):
        loaded.update(DATA, data=DATA)
