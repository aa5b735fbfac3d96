"""The MAP against optima found by other means, and models with a training mode."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from torch import nn

from sbmc.checks import BadInput
from sbmc.likelihoods import Gaussian
from sbmc.model.parameters import select_parameters
from sbmc.training import TrainingHistory, train_ensemble, train_map
from sbmc.training.module import training_mode_layers


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_labels(inputs: torch.Tensor) -> torch.Tensor:
    return (inputs[:, :3] + draw(len(inputs), 3, seed=9)).argmax(-1)


def test_logistic_regression_reaches_the_optimum_of_scikit_learn():
    inputs = draw(80, 4)
    labels = make_labels(inputs)
    # scikit-learn minimises C Σ nll + ‖w‖² / 2, so C is the prior variance.
    reference = LogisticRegression(C=0.3, fit_intercept=False, tol=1e-10, max_iter=1000)
    reference.fit(inputs.numpy(), labels.numpy())
    trained = train_map(
        nn.Linear(4, 3, bias=False).double(),
        (inputs, labels),
        prior_variance=0.3,
        learning_rate=0.05,
        batch_size=80,
        max_epochs=400,
        progress=False,
    )
    expected = torch.as_tensor(reference.coef_)
    torch.testing.assert_close(trained.weight.detach(), expected, rtol=0, atol=1e-5)


def test_gaussian_regression_reaches_the_closed_form():
    inputs, noise, variance = draw(50, 3), 0.2, 0.1
    targets = inputs @ torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64) + 0.4 * draw(50, seed=1)
    gram = inputs.T @ inputs / noise + torch.eye(3, dtype=torch.float64) / variance
    expected = torch.linalg.solve(gram, inputs.T @ targets / noise)
    trained = train_map(
        nn.Linear(3, 1, bias=False).double(),
        (inputs, targets),
        prior_variance=variance,
        likelihood=Gaussian(noise_variance=noise),
        learning_rate=0.05,
        batch_size=50,
        max_epochs=400,
        progress=False,
    )
    torch.testing.assert_close(trained.weight[0].detach(), expected, rtol=0, atol=1e-5)


def test_it_is_member_zero_of_the_ensemble_and_has_its_history():
    inputs = draw(40, 4)
    data, held_out = (
        (inputs[:30], make_labels(inputs)[:30]),
        (inputs[30:], make_labels(inputs)[30:]),
    )
    net = nn.Linear(4, 3).double()
    how = {"max_epochs": 20, "seed": 5, "initial": "reset", "progress": False}
    trained = train_map(net, data, held_out, **how)
    ensemble = train_ensemble(net, data, held_out, members=2, **how)
    torch.testing.assert_close(trained.weight, ensemble[0].weight)
    assert isinstance(trained.history, TrainingHistory)
    assert trained.history.validation_loss == pytest.approx(ensemble.histories[0].validation_loss)
    assert not trained.training


def make_normalised() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3)
    ).double()


def train_normalised(net: nn.Module, **changes) -> nn.Module:
    inputs = draw(120, 4)
    labels = make_labels(inputs)
    settings = {"learning_rate": 0.02, "batch_size": 32, "initial": "model", "progress": False}
    settings["prior_variance"] = 1.0
    held_out = (inputs[80:], labels[80:])
    return train_map(net, (inputs[:80], labels[:80]), held_out, **{**settings, **changes})


def test_batch_norm_and_dropout_train_in_training_mode():
    net = make_normalised()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    state = torch.get_rng_state()
    trained = train_normalised(net)
    history = trained.history
    assert min(history.validation_loss) < history.validation_loss[0] - 0.05
    # Weights and buffers of the best epoch belong together: only then is the loss met.
    inputs = draw(120, 4)
    prior = sum(p.square().sum().item() for p in trained.parameters()) / (2 * 1.0 * 80)
    loss = F.cross_entropy(trained(inputs[80:]), make_labels(inputs)[80:]).item() + prior
    assert loss == pytest.approx(min(history.validation_loss), rel=1e-9)
    assert history.best_epoch < history.epochs
    # 80 examples in batches of 32 are three batches an epoch.
    assert trained[1].num_batches_tracked.item() == 3 * history.best_epoch
    assert torch.equal(torch.get_rng_state(), state), "the global generator is as it was"
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())


def test_dropout_noise_comes_from_the_seed():
    net = make_normalised()
    first = train_normalised(net, max_epochs=3)
    torch.manual_seed(123)
    second = train_normalised(net, max_epochs=3)
    assert torch.equal(first[0].weight, second[0].weight)
    other = train_normalised(net, max_epochs=3, seed=1)
    assert not torch.equal(first[0].weight, other[0].weight)


def test_dropout_is_active_in_training():
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3)).double()
    by_mode = train_normalised(net, max_epochs=2)
    batched = train_normalised(net, max_epochs=2, path="vmap")
    assert (by_mode[0].weight - batched[0].weight).abs().max() > 1e-3


def test_batch_norm_refuses_a_last_batch_of_one():
    with pytest.raises(BadInput, match="`batch_size` must be one that leaves no last batch of one"):
        train_normalised(make_normalised(), batch_size=79)


def test_a_frozen_batch_norm_keeps_its_statistics():
    net = make_normalised()
    trained = train_normalised(net, max_epochs=2, parameters="last", path="module")
    assert torch.equal(trained[1].running_mean, net[1].running_mean)
    assert not torch.equal(trained[4].weight, net[4].weight)


@pytest.mark.parametrize(
    ("layer", "parameters", "found"),
    [
        (nn.BatchNorm1d(4), "all", True),
        (nn.BatchNorm1d(4), "last", False),
        (nn.BatchNorm1d(4), r"^1\.", True),
        (nn.Dropout(0.1), "all", True),
        (nn.Dropout(0.1), "last", False),
        (nn.Dropout(0.0), "all", False),
        (nn.AlphaDropout(0.1), "all", True),
        (nn.RReLU(), "all", True),
        (nn.InstanceNorm1d(4, track_running_stats=True), "all", True),
        (nn.InstanceNorm1d(4), "all", False),
        (nn.MultiheadAttention(4, 2, dropout=0.1), "all", True),
        (nn.MultiheadAttention(4, 2), "all", False),
        (nn.LSTM(4, 4, num_layers=2, dropout=0.1), "all", True),
        (nn.LayerNorm(4), "all", False),
    ],
)
def test_layers_with_a_training_mode_are_found(layer, parameters, found):
    net = nn.Sequential(nn.Linear(4, 4), layer, nn.Linear(4, 3))
    assert training_mode_layers(net, select_parameters(net, parameters)) == (["1"] if found else [])


def test_it_trains_where_gradients_are_switched_off():
    with torch.no_grad():
        trained = train_normalised(nn.Linear(4, 3).double(), max_epochs=2)
    assert trained.history.train_loss[1] < trained.history.train_loss[0]
