"""Laplace: its covariance against dense Hessians, its draws by the noise that makes them."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from sbmc.baselines import laplace
from sbmc.checks import BadInput
from sbmc.likelihoods import Gaussian
from sbmc.model.parameters import select_parameters
from sbmc.randomness import Stream, generator
from sbmc.training import train_map

pytest.importorskip("laplace")

V, NOISE = 0.4, 0.2
STRUCTURES = ["full", "diag", "kron"]


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_data(examples: int = 25):
    inputs = draw(examples, 4)
    return inputs, (inputs[:, :3] + draw(examples, 3, seed=9)).argmax(-1)


def make_layer(bias: bool = True) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(4, 3, bias=bias).double()


def make_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def root(model, data, structure, **changes) -> torch.Tensor:
    """The matrix R of θ = θ* + z R, from the draws and the noise they were made of."""
    dim = select_parameters(model).dim
    settings = {"prior_variance": V, "samples": 2 * dim, "progress": False, **changes}
    posterior = laplace(model, data, structure=structure, **settings)
    streams = [generator(0, Stream.LAPLACE, k) for k in range(2 * dim)]
    noise = torch.stack([torch.randn(dim, generator=g, dtype=torch.float64) for g in streams])
    offsets = posterior.positions[0] - posterior.space.flatten(model)
    solved = torch.linalg.lstsq(noise, offsets).solution
    # Twice as many draws as unknowns: they all come from one linear map.
    torch.testing.assert_close(noise @ solved, offsets, rtol=1e-6, atol=1e-8)
    return solved


def covariance(*arguments, **changes) -> torch.Tensor:
    matrix = root(*arguments, **changes)
    return matrix.T @ matrix


def dense(model, log_posterior) -> torch.Tensor:
    """−∇² log posterior at the model's weights, by autograd, inverted."""
    space = select_parameters(model)
    hessian = torch.autograd.functional.hessian(
        lambda theta: log_posterior(space.split(theta)), space.flatten(model)
    )
    return -hessian


def logistic_precision(model, data, variance=V) -> torch.Tensor:
    def log_posterior(named):
        inputs, labels = data
        outputs = torch.func.functional_call(model, named, (inputs,))
        likelihood = outputs.log_softmax(-1).gather(1, labels[:, None]).sum()
        return likelihood - sum(t.square().sum() for t in named.values()) / (2 * variance)

    return dense(model, log_posterior)


def test_logistic_regression_full_and_diagonal_are_the_exact_hessian():
    # For a linear model the Gauss-Newton matrix is the Hessian.
    layer, data = make_layer(), make_data()
    precision = logistic_precision(layer, data)
    ours = covariance(layer, data, "full")
    torch.testing.assert_close(ours, torch.linalg.inv(precision), rtol=1e-5, atol=1e-7)
    ours = covariance(layer, data, "diag")
    torch.testing.assert_close(ours, torch.diag(1 / precision.diagonal()), rtol=1e-8, atol=1e-10)


def kronecker_precision(layer, data) -> torch.Tensor:
    """K-FAC by its definition: mean of Λ times sum of x xᵀ for the weights, sum of Λ for biases."""
    inputs, _ = data
    probabilities = layer(inputs).softmax(-1).detach()
    curvature = torch.diag_embed(probabilities) - torch.einsum(
        "ni,nj->nij", probabilities, probabilities
    )
    weight = torch.kron(curvature.mean(0), inputs.T @ inputs)
    whole = torch.block_diag(weight, curvature.sum(0))
    return whole + torch.eye(len(whole), dtype=torch.float64) / V


def test_logistic_regression_kronecker_is_its_definition():
    layer, data = make_layer(), make_data()
    expected = torch.linalg.inv(kronecker_precision(layer, data))
    ours = covariance(layer, data, "kron")
    torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-9)
    by_batches = covariance(layer, data, "kron", batch_size=7)
    torch.testing.assert_close(by_batches, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("variance", [1 / V, V * 25], ids=["1/v for v", "a mean for a sum"])
def test_a_wrong_scale_of_the_prior_is_caught(variance):
    layer, data = make_layer(), make_data()
    wrong = torch.linalg.inv(logistic_precision(layer, data, variance))
    assert (covariance(layer, data, "full") - wrong).abs().max() > 0.05


@pytest.mark.parametrize("structure", ["full", "kron"])
def test_linear_regression_has_the_exact_posterior_covariance(structure):
    layer, inputs = make_layer(bias=False), draw(25, 4)
    precision = torch.kron(torch.eye(3, dtype=torch.float64), inputs.T @ inputs) / NOISE
    precision += torch.eye(12, dtype=torch.float64) / V
    family = Gaussian(noise_variance=NOISE)
    ours = covariance(layer, (inputs, draw(25, 3, seed=2)), structure, likelihood=family)
    torch.testing.assert_close(ours, torch.linalg.inv(precision), rtol=1e-5, atol=1e-7)


def test_a_vector_of_variances_is_used():
    layer, data = make_layer(), make_data()
    variances = torch.linspace(0.1, 2, 15, dtype=torch.float64)
    curvature = logistic_precision(layer, data) - torch.eye(15, dtype=torch.float64) / V
    expected = torch.linalg.inv(curvature + torch.diag(1 / variances))
    ours = covariance(layer, data, "full", prior_variance=variances)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_part_of_the_network_is_drawn_and_the_rest_stays(structure):
    net, data = make_net(), make_data()
    posterior = laplace(net, data, prior_variance=V, structure=structure, parameters="last")
    assert posterior.space.names == ("2.weight", "2.bias")
    # The final layer on fixed features is a model of its own.
    features = net[1](net[0](data[0])).detach()
    alone = laplace(net[2], (features, data[1]), prior_variance=V, structure=structure)
    torch.testing.assert_close(posterior.positions, alone.positions, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_cost_settings_purity_and_seeds(structure):
    data = make_data()
    net = train_map(make_net(), data, prior_variance=V, max_epochs=5, progress=False)
    net.train()
    own = {name: value.clone() for name, value in net.state_dict().items()}

    def run(**changes):
        return laplace(net, data, prior_variance=V, structure=structure, **changes)

    before = torch.random.get_rng_state()
    posterior = run(samples=3)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(value, own[name]) for name, value in net.state_dict().items())
    assert net.training
    assert not hasattr(net, "output_size")
    assert all(parameter.grad is None for parameter in net.parameters())
    assert posterior.positions.shape == (1, 3, 43)
    assert posterior.weights.tolist() == [pytest.approx([1 / 3] * 3)]
    passes = 43 if structure == "full" else 3
    assert posterior.cost.anchor_epochs == posterior.cost.total_epochs == 5 + passes
    assert posterior.settings["structure"] == structure
    torch.testing.assert_close(run(samples=5).positions[:, :3], posterior.positions)
    assert torch.equal(run(samples=3).positions, posterior.positions)
    assert not torch.equal(run(samples=3, seed=1).positions, posterior.positions)
    with torch.no_grad():  # whatever the caller's mode is
        assert torch.equal(run(samples=3).positions, posterior.positions)
    assert posterior.predict(data[0]).probs.shape == (25, 3)


def test_convolutions_in_single_precision():
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)
    )
    images, labels = draw(20, 1, 4, 4), torch.arange(20) % 3
    posterior = laplace(net, (images, labels), prior_variance=0.1, samples=4)
    assert posterior.positions.dtype == torch.float32
    assert torch.isfinite(posterior.positions).all()
    spread = posterior.positions[0].std(0)
    # Never wider than the prior: four draws of a standard deviation of at most 0.32. The largest
    # of 47 such estimates exceeds 3.2 times it with a probability below 1e-5.
    assert spread.min() > 0
    assert spread.max() < 3.2 * 0.1**0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"structure": "kronn"}, "`structure` must be one of .* Did you mean 'kron'"),
        ({"samples": 0}, "`samples` must be a positive integer"),
        ({"batch_size": 0}, "`batch_size` must be a positive integer"),
        ({"seed": -1}, r"`seed` must be an integer from 0 to 2\*\*128 - 1, but got -1\."),
        ({"prior_variance": 0.0}, "`prior_variance` must be positive and finite"),
        ({"prior_variance": torch.ones(43)}, "`prior_variance` must be one number for the str"),
        ({"prior_variance": torch.ones(2), "structure": "diag"}, "must be one number or 43"),
        ({"likelihood": lambda o, t: o.sum(-1)}, "`likelihood` must be 'categorical' or Gauss"),
        ({"anchor_epochs": -1}, "`anchor_epochs` must be a non-negative number"),
        ({"progress": 1}, "`progress` must be True, False or None"),
        ({"data": ((draw(5, 4), draw(5, 4)), torch.zeros(5).long())}, "`data` must be a pair of"),
        ({"data": (draw(5, 4), torch.full((5,), 3))}, "`targets` must be class labels below"),
        ({"model": nn.Linear(200, 101), "structure": "full"}, "at most 20000 parameters"),
    ],
)
def test_bad_input_is_refused_in_words(changes, message):
    settings = {"prior_variance": V, **changes}
    model, data = settings.pop("model", make_net()), settings.pop("data", make_data())
    with pytest.raises(BadInput, match=message):
        laplace(model, data, **settings)


def test_layers_without_kronecker_factors_are_refused():
    net = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Linear(5, 3)).double()
    with pytest.raises(BadInput, match="`model` must have layers that laplace-torch knows"):
        laplace(net, make_data(), prior_variance=V)
    assert laplace(net, make_data(), prior_variance=V, structure="diag").positions.shape[2] == 53


def test_a_module_that_returns_a_dict_is_refused_with_the_remedy():
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, inputs):
            return {"logits": self.layer(inputs)}

    data = torch.randn(20, 2), torch.arange(20) % 2
    with pytest.raises(BadInput, match=r"wrap it in a module that returns its logits.*type dict"):
        laplace(Wrapped(), data, prior_variance=1.0)


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "laplace", None)
    with pytest.raises(ImportError, match=r"pip install 'sbmc\[laplace\]'"):
        laplace(make_net(), make_data(), prior_variance=V)
