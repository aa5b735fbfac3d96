"""Outputs are scaled to unseen rows by the last layer, and by nothing else."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sbmc.fitting import calibration
from sbmc.fitting.calibration import best_factor, best_factors, calibrate
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
    return calibrate([model], examples, space, likelihood or Categorical())[0]


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


def mixture_loss(factors, logits, labels):
    """The log loss of an equal mixture, by a loop over the rows."""
    loss = 0.0
    for row, label in enumerate(labels.tolist()):
        right = [
            torch.softmax(factor * each[row], -1)[label]
            for factor, each in zip(factors, logits, strict=True)
        ]
        loss -= math.log(float(sum(right)) / len(right))
    return loss


def test_networks_that_are_mixed_share_a_factor_that_fits_their_mixture():
    torch.manual_seed(3)
    labels = torch.randint(3, (600,))
    truth = 2.0 * torch.nn.functional.one_hot(labels, 3).double()
    logits = torch.stack([truth + 2.5 * torch.randn(600, 3) for _ in range(3)])
    alone = torch.tensor([best_factor(each, labels) for each in logits])
    found = torch.tensor(best_factors(logits, labels))
    shared = found / alone
    assert torch.allclose(shared, shared[0].expand(3))
    assert shared[0] > 1.2  # each is right by itself, and the mixture is not sure enough

    def cost(log_shared):
        factors = math.exp(log_shared) * alone
        return mixture_loss(factors, logits, labels) + float(factors.log().square().sum()) / 2

    step = float((calibration.FACTORS[1] / calibration.FACTORS[0]).log())
    least = cost(math.log(shared[0]))
    assert least < min(cost(math.log(shared[0]) + sign * 2 * step) for sign in (-1, 1))
    # A few rows do not decide it.
    few = best_factors(logits[:, :400], labels[:400])
    assert few == pytest.approx([best_factor(each[:400], labels[:400]) for each in logits])
    # The planted bug: factors of networks that are not mixed.
    assert cost(0.0) > least + 1


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
