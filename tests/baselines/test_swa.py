"""SWA against plain PyTorch: the average of the weights at the ends of epochs."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import update_bn

from sbmc.baselines import swa, train_swa
from sbmc.checks import BadInput
from sbmc.randomness import Stream, generator

V = 0.5


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_data(examples: int = 50, seed: int = 0):
    inputs = draw(examples, 4, seed=seed)
    return inputs, (inputs[:, :3] + draw(examples, 3, seed=seed + 9)).argmax(-1)


def make_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def make_normalised() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).double()


def run(model=None, **changes):
    settings = {
        "prior_variance": V,
        "epochs": 7,
        "warmup_epochs": 3,
        "learning_rate": 0.05,
        "swa_learning_rate": 0.01,
        "batch_size": 16,
        "initial": "prior",
        "progress": False,
    }
    data = changes.pop("train", make_data())
    held_out = changes.pop("validation", None)
    return train_swa(make_net() if model is None else model, data, held_out, **settings | changes)


def flat(model) -> torch.Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach()


def plain_path(net, epochs=7, warmup=3, variance=V) -> torch.Tensor:
    """The weights at the ends of epochs, as a user of PyTorch would write it."""
    inputs, labels = make_data()
    stream = generator(0, Stream.TRAINING, 0)
    start = torch.randn(flat(net).numel(), generator=stream, dtype=torch.float64)
    nn.utils.vector_to_parameters(start * math.sqrt(variance), net.parameters())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    path = []
    for epoch in range(1, epochs + 1):
        if epoch > warmup:
            optimizer.param_groups[0]["lr"] = 0.01
        for index in torch.randperm(50, generator=stream).split(16):
            optimizer.zero_grad()
            penalty = sum(p.square().sum() for p in net.parameters()) / (2 * variance * 50)
            (F.cross_entropy(net(inputs[index]), labels[index]) + penalty).backward()
            optimizer.step()
        path.append(flat(net))
    return torch.stack(path)


def test_it_is_the_mean_of_the_epochs_after_the_warm_up():
    expected = plain_path(make_net())[3:].mean(0)
    torch.testing.assert_close(flat(run()), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("first", [0, 2, 4])
def test_another_choice_of_epochs_would_be_seen(first):
    # The planted bug: an average that begins an epoch too early, too late, or with the warm-up.
    wrong = plain_path(make_net())[first:].mean(0)
    assert (flat(run()) - wrong).abs().max() > 1e-4


def test_the_rate_is_fixed_from_the_first_averaged_epoch_on(monkeypatch):
    rates = []
    own = swa._epoch

    def watch(module, optimizer, *rest):
        rates.append(optimizer.param_groups[0]["lr"])
        return own(module, optimizer, *rest)

    monkeypatch.setattr(swa, "_epoch", watch)
    run()
    assert rates == pytest.approx([0.05] * 3 + [0.01] * 4)


def test_the_weights_that_are_collected_have_the_result_as_their_mean():
    from sbmc.likelihoods import Categorical
    from sbmc.model.parameters import select_parameters
    from sbmc.training.setup import checked_data

    net, path = make_net(), []
    space = select_parameters(net)
    settings = swa.SWASettings(
        prior_variance=V,
        seed=0,
        epochs=7,
        warmup_epochs=3,
        learning_rate=0.05,
        swa_learning_rate=0.01,
        momentum=0.9,
        batch_size=16,
        initial="prior",
    )
    data = checked_data(net, space, make_data(), None, Categorical())
    done = swa.run_swa(net, space, data, settings, path.append, False)
    torch.testing.assert_close(torch.stack(path), plain_path(make_net())[3:])
    torch.testing.assert_close(flat(done.model), torch.stack(path).mean(0))


def test_running_statistics_belong_to_the_average():
    net = make_normalised()
    ours = run(net)
    reference = make_normalised()
    path = plain_path(reference)
    torch.testing.assert_close(flat(ours), path[3:].mean(0), rtol=1e-9, atol=1e-11)
    nn.utils.vector_to_parameters(path[3:].mean(0), reference.parameters())
    stale = reference[1].running_mean.clone()
    update_bn(make_data()[0].split(16), reference)
    torch.testing.assert_close(ours[1].running_mean, reference[1].running_mean)
    torch.testing.assert_close(ours[1].running_var, reference[1].running_var)
    assert (reference[1].running_mean - stale).abs().max() > 1e-3
    assert not ours.training
    assert torch.equal(net[1].running_mean, torch.zeros(8, dtype=torch.float64))


def test_by_default_it_starts_at_the_models_own_weights():
    net, how = make_net(), {"epochs": 1, "warmup_epochs": 0, "swa_learning_rate": 1e-9}
    started = train_swa(net, make_data(), prior_variance=V, progress=False, **how)
    torch.testing.assert_close(flat(started), flat(net), rtol=0, atol=1e-6)
    assert (flat(run(**how)) - flat(net)).abs().max() > 0.1


def test_frozen_layers_keep_weights_and_statistics():
    net = make_normalised()
    net(make_data()[0])
    ours = run(net, parameters="last")
    assert torch.equal(ours[0].weight, net[0].weight)
    assert torch.equal(ours[1].running_mean, net[1].running_mean)
    assert not torch.equal(ours[3].weight, net[3].weight)
    assert all(parameter.requires_grad for parameter in ours.parameters())


def test_the_history_has_the_loss_with_its_prior():
    held_out = make_data(30, seed=4)
    ours = run(validation=held_out)
    history = ours.history
    assert history.epochs == len(history.validation_loss) == history.best_epoch == 7
    prior = flat(ours).square().sum().item() / (2 * V * 50)
    loss = F.cross_entropy(ours(held_out[0]), held_out[1]).item() + prior
    assert history.validation_loss[-1] == pytest.approx(loss, rel=1e-9)
    assert run(epochs=1, warmup_epochs=0, batch_size=50).history.train_loss[0] == pytest.approx(
        first_loss(), rel=1e-12
    )


def first_loss() -> float:
    net, (inputs, labels) = make_net(), make_data()
    start = torch.randn(
        flat(net).numel(), generator=generator(0, Stream.TRAINING, 0), dtype=torch.float64
    )
    nn.utils.vector_to_parameters(start * math.sqrt(V), net.parameters())
    penalty = flat(net).square().sum().item() / (2 * V * 50)
    return F.cross_entropy(net(inputs), labels).item() + penalty


def test_a_vector_of_variances_is_used():
    same = run(prior_variance=torch.full((43,), V, dtype=torch.float64))
    torch.testing.assert_close(flat(same), flat(run()))
    tight = torch.full((43,), V, dtype=torch.float64)
    tight[-3:] = 1e-3
    assert (flat(run(prior_variance=tight))[-3:].abs() < flat(run())[-3:].abs()).all()


def test_the_same_seed_gives_the_same_bits_and_nothing_else_changes():
    net = nn.Sequential(make_normalised(), nn.Dropout(0.2), nn.Linear(3, 3).double())
    own = {name: value.clone() for name, value in net.state_dict().items()}
    before = torch.random.get_rng_state()
    ours = run(net)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(value, own[name]) for name, value in net.state_dict().items())
    assert net.training
    assert all(parameter.grad is None for parameter in net.parameters())
    assert torch.equal(flat(run(net)), flat(ours))
    assert not torch.equal(flat(run(net, seed=1)), flat(ours))
    with torch.no_grad():  # whatever the caller's mode is
        assert torch.equal(flat(run(net)), flat(ours))


def test_a_loss_that_is_not_finite_ends_in_words():
    with pytest.raises(RuntimeError, match=r"stopped being finite in epoch .* lower learning_rate"):
        run(train=(make_data()[0] * 1e305, make_data()[1]), learning_rate=1e6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "`epochs` must be a positive integer"),
        ({"warmup_epochs": 7}, "`warmup_epochs` must be fewer than the 7 epochs, but got 7"),
        ({"warmup_epochs": -1}, "`warmup_epochs` must be a non-negative integer"),
        ({"learning_rate": 0.0}, r"`learning_rate` must be positive and at most 1e\+06, but got 0"),
        (
            {"swa_learning_rate": math.inf},
            r"`swa_learning_rate` must be positive and at most 1e\+06",
        ),
        ({"momentum": 1.0}, "`momentum` must be at least 0 and less than 1"),
        ({"batch_size": 0}, "`batch_size` must be a positive integer"),
        ({"prior_variance": torch.ones(2)}, "`prior_variance` must be one number or 43"),
        ({"initial": "zero"}, "`initial` must be one of model, reset, prior, but got 'zero'"),
        ({"seed": 0.5}, r"`seed` must be an integer from 0 to 2\*\*128 - 1, but got 0\.5\."),
        ({"progress": "yes"}, "`progress` must be True, False or None"),
        ({"model": make_normalised(), "batch_size": 7}, "`batch_size` must be one that leaves no"),
    ],
)
def test_bad_input_is_refused_in_words(changes, message):
    with pytest.raises(BadInput, match=message):
        run(**changes)
