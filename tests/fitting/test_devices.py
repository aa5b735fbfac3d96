"""Where tensors are: nothing mixes devices, as far as that can be tested without a GPU."""

from __future__ import annotations

import pytest
import torch
from every_sampler import every_run, small
from placement import ACCELERATOR, AcceleratorTensor, MixedDevices, pretended_accelerator
from torch import nn

import sbmc
from sbmc.diagnostics.diagnose import diagnose
from sbmc.samplers.noise import IslandNoise

INPUTS = torch.randn(24, 3, generator=torch.Generator().manual_seed(1))
LABELS = (INPUTS[:, 0] > 0).long()
CLASSES = "categorical", LABELS, 2
NUMBERS = sbmc.Gaussian(noise_variance=0.5), INPUTS[:, :1] * 2, 1
both_likelihoods = pytest.mark.parametrize(
    ("likelihood", "targets", "outputs"), [CLASSES, NUMBERS], ids=["categorical", "gaussian"]
)

few_islands = pytest.mark.filterwarnings("ignore:The evidence leaves", "ignore:The population of")


def network(outputs: int) -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, outputs))


def test_a_mixture_of_devices_is_refused():
    with pretended_accelerator() as device:
        there = torch.ones(3, device=device)
        assert there.device == (there + 1).device == ACCELERATOR
        assert (there * torch.tensor(2.0)).tolist() == [2.0] * 3  # a number may come from the CPU
        with pytest.raises(MixedDevices, match=r"shape \(3,\)"):
            there + torch.ones(3)
        with pytest.raises(MixedDevices):
            torch.stack([there, torch.ones(3)])
        with pytest.raises(MixedDevices):
            torch.ones(3)[there > 0]
        assert type(there.cpu()) is torch.Tensor
        assert there[torch.tensor([0, 1])].tolist() == [1.0, 1.0]


def test_gradients_are_computed_there():
    with pretended_accelerator() as device:
        weight = torch.ones(2, 3).to(device).requires_grad_()
        (gradient,) = torch.autograd.grad((weight @ torch.ones(3, device=device)).sum(), weight)
        assert isinstance(gradient, AcceleratorTensor)
        assert gradient.tolist() == [[1.0] * 3] * 2


def fitted(model, targets, **options):
    """A short run on the accelerator, which has to stay there and to predict from CPU inputs."""
    compute = {"device": ACCELERATOR, "throw": True, **options.pop("compute", {})}
    posterior = sbmc.fit(
        model,
        (INPUTS, targets),
        **{"particles": 4, "islands": 2, **options},
        compute=sbmc.Compute(**compute),
    )
    assert isinstance(posterior.positions, AcceleratorTensor)
    assert posterior.predict(INPUTS) is not None
    return posterior


@every_run
@both_likelihoods
@few_islands
def test_every_sampler_stays_on_its_device(sampler, likelihood, targets, outputs):
    with pretended_accelerator():
        fitted(network(outputs), targets, sampler=small(sampler), likelihood=likelihood)


@pytest.mark.parametrize("path", ["fused", "vmap", "loop"])
@pytest.mark.parametrize("sampler", [sbmc.HMC(steps=2), sbmc.SGHMC(epochs=2, batch_size=7)])
def test_every_path_stays_on_its_device(path, sampler):
    with pretended_accelerator():
        fitted(network(2), LABELS, sampler=sampler, compute={"path": path})


@pytest.mark.parametrize(
    "options",
    [
        {"parameters": "last"},
        {"start": "prior"},
        {"prior": sbmc.Prior(covariance="laplace")},
        {"sampler": sbmc.SGHMC(epochs=2, batch_size=7, noise="philox")},
        {"sampler": sbmc.SMC(mutations=1, move=sbmc.PCN())},
        {"prior_variance": sbmc.WeightDecay(1e-3)},
        {
            "likelihood": lambda outputs, targets: (
                -nn.functional.cross_entropy(outputs, targets, reduction="none")
            )
        },
    ],
    ids=["last layer", "prior", "laplace", "philox", "smc", "weight decay", "callable"],
)
@few_islands
def test_every_form_of_a_run_stays_on_its_device(options):
    with pretended_accelerator():
        fitted(network(2), LABELS, **{"sampler": sbmc.HMC(steps=2), **options})


def test_the_same_numbers_as_on_the_cpu():
    """The noise is drawn on the CPU, so a run elsewhere differs by rounding alone."""
    options = {"sampler": sbmc.SGHMC(epochs=2, batch_size=7), "particles": 4}
    here = sbmc.fit(network(2), (INPUTS, LABELS), **options)
    with pretended_accelerator():
        there = fitted(network(2), LABELS, islands=1, **options)
        torch.testing.assert_close(there.positions.cpu(), here.positions)


@both_likelihoods
@pytest.mark.parametrize("initial", ["model", "reset", "prior"])
def test_training_stays_on_the_device_of_the_model(likelihood, targets, outputs, initial):
    with pretended_accelerator() as device:
        model = network(outputs).to(device)
        data = INPUTS, targets
        options = {"likelihood": likelihood, "initial": initial, "batch_size": 7, "max_epochs": 2}
        trained = sbmc.train_map(model, data, data, **options)
        assert next(trained.parameters()).device == ACCELERATOR
        ensemble = sbmc.train_ensemble(model, data, members=2, anchored=True, **options)
        assert isinstance(ensemble.positions, AcceleratorTensor)
        assert ensemble.posterior().predict(INPUTS) is not None


def test_training_with_batch_norm_stays_on_the_device():
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Dropout(0.1), nn.Linear(5, 2))
    with pretended_accelerator() as device:
        data = INPUTS, LABELS
        trained = sbmc.train_map(model.to(device), data, data, max_epochs=2, batch_size=8)
        fitted(trained, LABELS, sampler=sbmc.HMC(steps=2), parameters="0")


def test_a_convolution_stays_on_its_device():
    images = torch.randn(12, 1, 6, 6)
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU6(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 2)
    )
    with pretended_accelerator() as device:
        compute = sbmc.Compute(device=device, throw=True)
        data = images, LABELS[:12]
        sampler = sbmc.SGHMC(epochs=1, batch_size=5)
        assert sbmc.fit(model, data, sampler=sampler, compute=compute).predict(images) is not None
        assert sbmc.train_map(model.to(device), data, data, max_epochs=1) is not None


def test_a_tensor_left_on_the_cpu_is_found(monkeypatch):
    """The planted bug: noise that is not sent to the device where it is used."""
    draw = IslandNoise.normal
    monkeypatch.setattr(IslandNoise, "normal", lambda self, *size: draw(self, *size).cpu())
    with pretended_accelerator(), pytest.raises(RuntimeError, match="MixedDevices"):
        fitted(network(2), LABELS, sampler=sbmc.HMC(steps=2))


def test_what_is_made_of_a_posterior_stays_on_its_device(tmp_path):
    options = {"sampler": sbmc.HMC(steps=10, draws=4)}
    with pretended_accelerator() as device:
        one = fitted(network(2), LABELS, **options, islands=1)
        other = fitted(network(2), LABELS, **options, islands=1, compute={"first_island": 1})
        both = sbmc.merge([one, other])
        assert both.predict(INPUTS) is not None
        assert diagnose(both, INPUTS) is not None
        assert both.first(1).predict(INPUTS) is not None
        both.save(tmp_path / "posterior")
        again = sbmc.load(tmp_path / "posterior", network(2).to(device))
        assert torch.equal(again.predict(INPUTS).probs, both.predict(INPUTS).probs)


def test_a_run_that_goes_on_from_a_checkpoint_stays_on_its_device(tmp_path):
    options = {"sampler": sbmc.HMC(steps=2), "compute": {"checkpoint": tmp_path / "run"}}
    with pretended_accelerator():
        fitted(network(2), LABELS, islands=1, **options)
        fitted(network(2), LABELS, islands=2, **options)
