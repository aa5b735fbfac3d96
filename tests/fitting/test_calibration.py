"""Outputs are scaled to unseen rows by the last layer, and by nothing else."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sbmc.fitting import calibration
from sbmc.fitting.calibration import best_factor, calibrate
from sbmc.likelihoods import Categorical, Gaussian
from sbmc.model.data import Examples
from sbmc.model.parameters import select_parameters


class Functional(nn.Module):
    """Its last layer in order of definition is not the one that answers."""

    def __init__(self):
        super().__init__()
        self.answer, self.first = nn.Linear(6, 3), nn.Linear(4, 6)

    def forward(self, x):
        return self.answer(F.relu(self.first(x)))


class Bounded(nn.Module):
    """No layer of it scales its outputs."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return torch.tanh(self.layer(x))


def sequential():
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))


@pytest.fixture
def examples():
    torch.manual_seed(0)
    return Examples(torch.randn(50, 4), torch.randint(3, (50,)))


def scaled(model, examples, parameters="all", likelihood=None):
    space = select_parameters(model, parameters)
    return calibrate(model, examples, space, likelihood or Categorical())


@pytest.mark.parametrize("make", [sequential, Functional, lambda: nn.Linear(4, 3)])
def test_the_scaled_network_has_the_outputs_times_the_factor(make, examples):
    torch.manual_seed(1)
    model = make()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)  # labels are random, so that it is far too sure
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = scaled(model, examples)
    assert found.factor < 0.7
    assert torch.allclose(
        found.model(examples.inputs), found.factor * model(examples.inputs), atol=1e-5
    )
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


class WithKeywords(nn.Module):
    """As Hugging Face's models: inputs by name, and a dict of outputs."""

    def __init__(self):
        super().__init__()
        self.net = sequential()

    def forward(self, pixels, labels=None):
        return {"loss": None, "logits": self.net(pixels)}


def test_networks_that_take_a_dict_and_return_one_are_scaled(examples):
    torch.manual_seed(1)
    model = WithKeywords()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
    by_name = Examples({"pixels": examples.inputs}, examples.targets)
    found = scaled(model, by_name)
    assert found.factor == scaled(model.net, examples).factor < 0.7
    before, after = (each(examples.inputs)["logits"] for each in (model, found.model))
    assert torch.allclose(after, found.factor * before, atol=1e-5)


def test_the_factor_is_the_minimum_that_another_way_finds(examples):
    torch.manual_seed(1)
    logits = 5 * torch.randn(50, 3).double()
    free = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([free], max_iter=100, line_search_fn="strong_wolfe")

    def loss():
        optimiser.zero_grad()
        cost = F.cross_entropy(free.exp() * logits, examples.targets, reduction="sum")
        (total := cost + free.square() / 2).backward()
        return total

    optimiser.step(loss)
    step = float((calibration.FACTORS[1] / calibration.FACTORS[0]).log())
    assert best_factor(logits, examples.targets) == pytest.approx(
        float(free.detach().exp()),
        rel=step,  # the grid
    )


def test_rows_that_are_all_right_do_not_make_a_network_infinitely_sure():
    logits = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    assert best_factor(logits, torch.tensor([0, 1])) < 2


@pytest.mark.parametrize(
    ("make", "parameters", "likelihood"),
    [
        (Bounded, "all", None),
        (sequential, "0.weight", None),  # the last layer is not sampled
        (sequential, "all", Gaussian(noise_variance=1.0)),
    ],
)
def test_what_cannot_be_scaled_is_left_as_it_is(make, parameters, likelihood, examples):
    model = make()
    found = scaled(model, examples, parameters, likelihood)
    assert found.factor == 1
    assert torch.equal(found.model(examples.inputs), model(examples.inputs))


def test_a_planted_bug_that_scales_a_layer_before_a_relu_is_caught(examples, monkeypatch):
    torch.manual_seed(1)
    model = sequential()
    monkeypatch.setattr(calibration, "_output_layer", lambda model, *_: model[0])
    found = scaled(model, examples)
    assert not torch.allclose(
        found.model(examples.inputs), found.factor * model(examples.inputs), atol=1e-5
    )
