"""Ensembles: the same as plain PyTorch, member by member, each with its own end."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from sbmc.checks import BadInput
from sbmc.likelihoods import Gaussian
from sbmc.randomness import Stream, generator
from sbmc.training import SGD, Adam, EarlyStopping, train_ensemble
from sbmc.training import ensemble as ensemble_module
from sbmc.training.adam import adam_init, adam_step
from sbmc.training.ensemble import GROUP_MEMBERS, GROUP_PARAMETERS, _group_size
from sbmc.training.group import Problem, train_group
from sbmc.training.settings import TrainingSettings

V = 0.5


def make_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def make_data(examples: int, seed: int = 0, noise: float = 1.0):
    """Three classes from a linear rule with noise: fitted too closely, it validates worse."""
    draws = torch.Generator().manual_seed(seed)
    inputs = torch.randn(examples, 4, generator=draws, dtype=torch.float64)
    rule = torch.tensor([[2.0, 0, 0, 1], [0, 2, 0, -1], [0, 0, 2, 0]], dtype=torch.float64)
    scores = inputs @ rule.T
    scores += noise * torch.randn(scores.shape, generator=draws, dtype=torch.float64)
    return inputs, scores.argmax(-1)


def train(**changes):
    settings = {
        "members": 3,
        "prior_variance": V,
        "learning_rate": 0.02,
        "batch_size": 16,
        "initial": "prior",
        "progress": False,
    }
    model = changes.pop("model", make_net())
    data = changes.pop("train", make_data(60))
    return train_ensemble(model, data, changes.pop("validation", None), **{**settings, **changes})


def plain_training(member: int, epochs: int) -> torch.Tensor:
    """What a user of PyTorch would write for one member, with torch's own Adam and loss."""
    net, (inputs, labels) = make_net(), make_data(60)
    stream = generator(0, Stream.TRAINING, member)
    flat = torch.randn(
        sum(p.numel() for p in net.parameters()), generator=stream, dtype=torch.float64
    )
    nn.utils.vector_to_parameters(flat * math.sqrt(V), net.parameters())
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(epochs):
        for index in torch.randperm(60, generator=stream).split(16):
            optimizer.zero_grad()
            penalty = sum(p.square().sum() for p in net.parameters()) / (2 * V * 60)
            (F.cross_entropy(net(inputs[index]), labels[index]) + penalty).backward()
            optimizer.step()
    return nn.utils.parameters_to_vector(net.parameters()).detach()


def test_every_member_is_what_plain_pytorch_gives():
    # 60 examples in batches of 16: the last batch is short.
    ensemble = train(max_epochs=4)
    expected = torch.stack([plain_training(member, epochs=4) for member in range(3)])
    torch.testing.assert_close(ensemble.positions, expected, rtol=1e-9, atol=1e-11)


def test_adam_is_torchs_and_keeps_its_rows():
    draws = torch.Generator().manual_seed(3)
    start = torch.randn(3, 7, generator=draws, dtype=torch.float64)
    ours, reference = start.clone(), [row.clone().requires_grad_() for row in start]
    optimizers = [torch.optim.Adam([row], lr=0.1) for row in reference]
    state = adam_init(ours)
    kept = [0, 1, 2]
    for step in range(40):
        if step == 20:  # member 1 leaves
            rows = torch.tensor([0, 2])
            ours, state, kept = ours[rows], state.rows(rows), [0, 2]
        gradient = torch.randn(3, 7, generator=draws, dtype=torch.float64)
        state = adam_step(ours, gradient[kept], state, 0.1)
        for member in kept:
            reference[member].grad = gradient[member]
            optimizers[member].step()
    expected = torch.stack([reference[member].detach() for member in kept])
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-13)


def test_the_loss_is_the_mean_nll_plus_the_prior_over_n():
    # One batch: the recorded loss is that of the initial weights, which can be computed by hand.
    history = train(members=2, max_epochs=1, batch_size=60).histories[1]
    net, (inputs, labels) = make_net(), make_data(60)
    noise = torch.randn(43, generator=generator(0, Stream.TRAINING, 1), dtype=torch.float64)
    theta = noise * math.sqrt(V)
    nn.utils.vector_to_parameters(theta, net.parameters())
    expected = F.cross_entropy(net(inputs), labels).item() + theta.square().sum().item() / (
        2 * V * 60
    )
    assert history.train_loss == [pytest.approx(expected, rel=1e-12)]


def test_a_vector_of_variances_is_used_in_start_and_loss():
    same = train(max_epochs=2, prior_variance=torch.full((43,), V, dtype=torch.float64))
    torch.testing.assert_close(same.positions, train(max_epochs=2).positions)
    tight = torch.full((43,), V, dtype=torch.float64)
    tight[-3:] = 1e-8
    ensemble = train(max_epochs=100, prior_variance=tight, learning_rate=1e-3, members=1)
    assert ensemble.positions[:, -3:].abs().max() < 0.02
    assert ensemble.positions[:, :-3].abs().mean() > 0.1


@pytest.fixture(scope="module")
def stopped():
    return train(members=4, validation=make_data(40, seed=1))


def test_members_are_the_same_alone_in_groups_and_in_a_larger_ensemble(stopped):
    alone = train(members=4, validation=make_data(40, seed=1), member_chunk=1)
    larger = train(members=6, validation=make_data(40, seed=1))
    for other in (alone, larger):
        assert [h.epochs for h in other.histories[:4]] == [h.epochs for h in stopped.histories]
        torch.testing.assert_close(other.positions[:4], stopped.positions, rtol=1e-6, atol=1e-8)
    assert (larger.positions[4] - larger.positions[5]).abs().max() > 0.1


def test_members_stop_each_at_its_own_time_by_the_rule(stopped):
    assert len({history.epochs for history in stopped.histories}) > 1
    for history in stopped.histories:
        assert history.outcome == "completed"
        rule = EarlyStopping(10, 5)
        stops = [rule.update(loss) for loss in history.validation_loss]
        assert stops.index(True) + 1 == history.epochs == len(history.validation_loss)
        assert history.epochs == len(history.train_loss) < 1000


def test_the_weights_of_the_lowest_validation_loss_are_kept(stopped):
    inputs, labels = make_data(40, seed=1)
    for model, history in zip(stopped, stopped.histories, strict=True):
        lowest = min(history.validation_loss)
        assert history.validation_loss.index(lowest) + 1 == history.best_epoch < history.epochs
        prior = sum(p.square().sum().item() for p in model.parameters()) / (2 * V * 60)
        loss = F.cross_entropy(model(inputs), labels).item() + prior
        assert loss == pytest.approx(lowest, rel=1e-9)


def test_the_cost_is_counted(stopped):
    each = [history.epochs for history in stopped.histories]
    assert stopped.total_epochs == sum(each)
    assert stopped.epochs == sum(each) / 4
    seconds = [history.seconds for history in stopped.histories]
    assert min(seconds) > 0
    order = sorted(range(4), key=each.__getitem__)
    assert [seconds[i] for i in order] == sorted(seconds)


def test_a_member_that_has_stopped_costs_nothing(stopped):
    from sbmc.likelihoods import Categorical
    from sbmc.model.data import Examples
    from sbmc.model.loop import LoopForward
    from sbmc.model.parameters import select_parameters

    net = make_net()
    forward, rows = LoopForward(net, select_parameters(net)), []

    def learn(theta, inputs):
        rows.append(len(theta))
        return forward(theta, inputs, stacked=True)

    problem = Problem(
        learn, forward, Examples(*make_data(60)), Examples(*make_data(40, seed=1)), Categorical()
    )
    settings = TrainingSettings(
        prior_variance=V,
        learning_rate=0.02,
        batch_size=60,
        max_epochs=1000,
        window=10,
        patience=5,
        initial="prior",
        seed=0,
    )
    orders = [torch.Generator().manual_seed(i) for i in range(4)]
    _, histories = train_group(problem, stopped.positions, [0, 1, 2, 3], orders, settings)
    ends = [history.epochs for history in histories]
    assert len(set(ends)) > 1
    assert rows == [sum(end >= epoch for end in ends) for epoch in range(1, max(ends) + 1)]


def test_models_are_copies_in_evaluation_mode_and_the_module_is_unchanged():
    net = make_net()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    ensemble = train(model=net, max_epochs=2)
    assert len(ensemble) == len(ensemble.models) == 3
    for model, position in zip(ensemble, ensemble.positions, strict=True):
        assert model is not net
        assert not model.training
        assert all(parameter.requires_grad for parameter in model.parameters())
        assert torch.equal(nn.utils.parameters_to_vector(model.parameters()), position)
    assert net.training
    assert all(parameter.grad is None for parameter in net.parameters())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_the_start_can_be_the_models_own_weights():
    net = make_net()
    own = nn.utils.parameters_to_vector(net.parameters()).detach()
    ensemble = train(model=net, max_epochs=1, initial="model", learning_rate=1e-9)
    torch.testing.assert_close(ensemble.positions, own.expand(3, -1), rtol=0, atol=1e-7)
    moved = train(model=net, max_epochs=3, initial="model").positions
    assert (moved[0] - moved[1]).abs().max() > 1e-4, "members differ by their data order"


def test_frozen_parameters_stay():
    net = make_net()
    ensemble = train(model=net, max_epochs=2, parameters="last")
    assert ensemble.positions.shape == (3, 18)
    for model in ensemble:
        assert torch.equal(model[0].weight, net[0].weight)
        assert not torch.equal(model[2].weight, net[2].weight)


@pytest.mark.parametrize("path", ["fused", "vmap", "loop", "module"])
def test_all_paths_agree(path):
    ours = train(max_epochs=3, path=path)
    torch.testing.assert_close(ours.positions, train(max_epochs=3).positions, rtol=1e-8, atol=1e-10)


def test_inputs_prepared_at_once_or_batch_by_batch_are_the_same(monkeypatch):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)
    ).double()
    draws = torch.Generator().manual_seed(0)
    images = torch.randn(50, 1, 4, 4, generator=draws, dtype=torch.float64)
    labels = torch.randint(3, (50,), generator=draws)
    data = {"model": net, "train": (images, labels), "validation": (images[:20], labels[:20])}
    at_once = train(**data, max_epochs=5)
    monkeypatch.setattr(ensemble_module, "PREPARED_BYTES", -1)
    by_batch = train(**data, max_epochs=5)
    torch.testing.assert_close(by_batch.positions, at_once.positions)


def test_a_callable_likelihood_does_not_confuse_members_with_examples():
    # Four members and batches of four: only the order of the axes tells them apart.
    def log_prob(outputs, targets):
        return -F.cross_entropy(outputs, targets, reduction="none")

    ours = train(members=4, batch_size=4, max_epochs=2, likelihood=log_prob)
    expected = train(members=4, batch_size=4, max_epochs=2)
    torch.testing.assert_close(ours.positions, expected.positions)


class Ratio(nn.Module):
    """Takes two inputs; undefined where its weight is negative."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, dtype=torch.float64))

    def forward(self, left, right):
        return (left + right) * self.weight.log()


def train_ratio(**changes):
    x = torch.linspace(-1, 1, 10, dtype=torch.float64)[:, None]
    settings = {
        "prior_variance": 1.0,
        "likelihood": Gaussian(noise_variance=0.1),
        "learning_rate": 1e-3,
        "initial": "prior",
        "progress": False,
    }
    return train_ensemble(Ratio(), ((x, x), x), **{**settings, **changes})


def test_a_member_that_fails_is_reported_and_the_others_go_on(caplog):
    starts = [
        torch.randn(1, generator=generator(0, Stream.TRAINING, m), dtype=torch.float64)
        for m in range(6)
    ]
    good = tuple(m for m, start in enumerate(starts) if start > 0)
    assert 0 < len(good) < 6
    ensemble = train_ratio(members=6, max_epochs=3)
    assert ensemble.members == good
    assert len(ensemble) == len(good)
    assert torch.isfinite(ensemble.positions).all()
    outcomes = [history.outcome for history in ensemble.histories]
    assert outcomes == ["completed" if m in good else "failed" for m in range(6)]
    assert [h.epochs for h in ensemble.histories] == [3 if m in good else 1 for m in range(6)]
    assert caplog.text.count("failed in epoch 1") == 6 - len(good)
    alone = train_ratio(members=6, max_epochs=3, member_chunk=1)
    torch.testing.assert_close(ensemble.positions, alone.positions)


def test_when_every_member_fails_an_error_says_so():
    seed = next(
        seed
        for seed in range(20)
        if torch.randn(1, generator=generator(seed, Stream.TRAINING, 0), dtype=torch.float64) < 0
    )
    with pytest.raises(RuntimeError, match=r"every member \(1\) stopped being finite"):
        train_ratio(members=1, max_epochs=3, seed=seed)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"members": 0}, "`members` must be a positive integer, but got 0"),
        ({"members": True}, "`members` must be a positive integer"),
        ({"batch_size": 2.5}, "`batch_size` must be a positive integer, but got 2.5"),
        ({"max_epochs": -1}, "`max_epochs` must be a positive integer"),
        ({"max_epochs": None}, "`max_epochs` must be given when there are no validation data"),
        ({"window": 0}, "`window` must be a positive integer"),
        ({"patience": 0}, "`patience` must be a positive integer"),
        ({"member_chunk": 0}, "`member_chunk` must be a positive integer"),
        ({"learning_rate": 0.0}, "`learning_rate` must be positive and finite"),
        ({"learning_rate": math.nan}, "`learning_rate` must be positive and finite"),
        ({"prior_variance": -1.0}, "`prior_variance` must be positive and finite, but got -1.0"),
        ({"prior_variance": "wide"}, '`prior_variance` must be "auto", "evidence", a number'),
        (
            {"prior_variance": torch.tensor([1.0, 0.0])},
            "`prior_variance` must be positive and finite",
        ),
        ({"prior_variance": torch.ones(2)}, "`prior_variance` must be one number or 43"),
        (
            {"initial": "piror"},
            "`initial` must be one of model, reset, prior.*Did you mean 'prior'",
        ),
        ({"path": "vmpa"}, "`path` must be one of .*Did you mean 'vmap'"),
        ({"seed": -1}, "`seed` must be an integer from 0"),
        ({"likelihood": "poison"}, "`likelihood` must be"),
        (
            {"train": (torch.zeros(4, 4), torch.tensor([0, 1, 2, 3]))},
            "`targets` must be class labels",
        ),
        (
            {"validation": (torch.zeros(2, 4), torch.tensor([0, 7]))},
            "`targets` must be class labels",
        ),
        ({"model": make_net().requires_grad_(False)}, "`model` must be .*trainable"),
    ],
)
def test_bad_input_is_refused_in_words(changes, message):
    with pytest.raises(BadInput, match=message):
        train(**{"max_epochs": 1, **changes})


def test_groups_are_of_equal_size_and_bounded():
    assert _group_size(10, 6000) == 10
    assert _group_size(80, 6000) == GROUP_MEMBERS == 16
    assert _group_size(17, 6000) == 9
    assert _group_size(8, GROUP_PARAMETERS) == 1
    assert _group_size(8, GROUP_PARAMETERS // 4) == 4
    assert _group_size(3, 10 * GROUP_PARAMETERS) == 1


def test_members_start_at_the_modules_that_are_given():
    """A learning rate of nearly nothing leaves them there."""
    torch.manual_seed(0)
    modules = [nn.Linear(2, 2) for _ in range(3)]
    data = torch.randn(8, 2), torch.randint(2, (8,))
    options = {"members": 3, "max_epochs": 1, "learning_rate": 1e-9, "progress": False}
    ensemble = train_ensemble(modules[0], data, initial=modules, **options)
    for member, module in zip(ensemble, modules, strict=True):
        torch.testing.assert_close(member.weight, module.weight)
    # Noise that is learned beside them starts at the mean of its own prior.
    noisy = train_ensemble(modules[0], (data[0], data[0]), initial=modules, **options)
    assert noisy.positions.shape == (3, 6 + 2)
    for member, module in zip(noisy, modules, strict=True):
        torch.testing.assert_close(member.weight, module.weight)
    mean = Gaussian().noise_prior(data[0]).mean
    torch.testing.assert_close(noisy.positions[:, 6:], mean.expand(3, 2))
    with pytest.raises(BadInput, match="3 modules, one for each member"):
        train_ensemble(modules[0], data, initial=modules[:2], **options)
    with pytest.raises(BadInput, match="with the parameters of `model`"):
        train_ensemble(modules[0], data, initial=[nn.Linear(2, 3)] * 3, **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SGD(0.0), "`learning_rate` must be positive"),
        (lambda: SGD(0.1, momentum=1.0), "`momentum` must be at least 0 and below 1"),
        (lambda: Adam(math.inf), "`learning_rate` must be positive"),
        (lambda: Adam(0.1, weight_decay=-1.0), "`weight_decay` must be at least 0"),
    ],
)
def test_settings_of_optimisers_that_break_their_rule_are_refused(make, message):
    with pytest.raises(BadInput, match=message):
        make()
