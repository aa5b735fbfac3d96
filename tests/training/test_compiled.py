"""Training in C: what autograd gives within rounding, and what plain PyTorch gives in the end."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from chain_networks import CHAINS, CLASSES, HEADS, needs_compiler
from planting import planted
from torch import nn

from sbmc import train_map
from sbmc.likelihoods import Gaussian
from sbmc.model.kernels.native import adam, chain_batches, sgd
from sbmc.model.threads import torch_threads
from sbmc.training import SGD, Adam, compiled, ensemble, train_ensemble
from sbmc.training.members import BATCHED, COMPILED, ONE_BY_ONE

pytestmark = needs_compiler
EXAMPLES = 70


def problem(name="paper", examples=EXAMPLES, seed=5):
    build, shape = {**CHAINS, **HEADS}[name]
    torch.manual_seed(seed)
    net, inputs = build(), torch.randn(examples, *shape)
    net(inputs)  # lazy layers
    labels = (inputs.flatten(1)[:, :CLASSES] + 0.5 * torch.randn(examples, CLASSES)).argmax(-1)
    return net.eval(), (inputs, labels)


def train(name="paper", **options):
    net, data = problem(name)
    validation = problem(name, 40, seed=6)[1]
    usual = {"members": 3, "max_epochs": 2, "batch_size": 16, "prior_variance": 0.5}
    return train_ensemble(net, data, validation, **{**usual, **options}, progress=False)


def by_autograd(monkeypatch, *args, **options):
    with monkeypatch.context() as patch:
        patch.setattr(ensemble, "compile_training", lambda *parts: None)
        return train(*args, **options)


@pytest.fixture(autouse=True)
def _without_dropout(monkeypatch):
    """Layers for which training is another function are no matter here."""
    monkeypatch.setattr(ensemble, "training_mode_layers", lambda model, space: [])


@pytest.fixture
def used(monkeypatch):
    """What was compiled for each training."""
    found = []

    def compile_training(*parts):
        found.append(compiled.compile_training(*parts))
        return found[-1]

    monkeypatch.setattr(ensemble, "compile_training", compile_training)
    return found


def same(ours, theirs, tolerance=2e-5):
    for mine, expected in zip(ours.histories, theirs.histories, strict=True):
        assert mine.train_loss == pytest.approx(expected.train_loss, rel=tolerance)
        assert mine.validation_loss == pytest.approx(expected.validation_loss, rel=tolerance)
        assert mine.best_epoch == expected.best_epoch
    off = float((ours.positions - theirs.positions).abs().max())
    return off <= tolerance * float(theirs.positions.abs().max())


@pytest.mark.parametrize("name", ["mlp", "paper", "two convolutions with stride", "gelu", "head"])
def test_first_steps_are_those_of_autograd(name, monkeypatch, used):
    """Where a gradient is zero but for rounding, Adam makes a step of it: biases are not zero."""
    ours = train(name, initial="prior")
    assert used[0] is not None
    assert same(ours, by_autograd(monkeypatch, name, initial="prior"))


def test_a_prior_for_each_weight_and_centres_of_the_members(monkeypatch, used):
    dim = sum(p.numel() for p in problem("mlp")[0].parameters())
    options = {"prior_variance": torch.linspace(0.1, 2.0, dim), "anchored": True}
    ours = train("mlp", **options)
    assert used[0] is not None
    assert same(ours, by_autograd(monkeypatch, "mlp", **options))


def test_one_centre_that_is_not_zero_is_that_of_every_member(used):
    """Learned noise has a prior around another number; it is handed over as one row for all."""
    torch.manual_seed(0)
    inputs = torch.randn(60, 3)
    data = inputs, inputs.sum(1) + 0.1 * torch.randn(60)
    options = {"members": 3, "max_epochs": 5, "prior_variance": 0.5, "progress": False}
    together = train_ensemble(nn.Linear(3, 1), data, **options)
    alone = train_ensemble(nn.Linear(3, 1), data, **options, member_chunk=1)
    assert all(used)
    assert torch.equal(together.positions, alone.positions)
    losses = [[h.train_loss for h in each.histories] for each in (together, alone)]
    assert losses[0] == losses[1]


def test_gaussian_noise(used):
    net, (inputs, _) = problem("mlp")
    targets = inputs[:, :CLASSES].sin()
    options = {"members": 2, "max_epochs": 2, "batch_size": 16, "progress": False}
    family = Gaussian(noise_variance=0.3)
    data = inputs, targets
    ours = train_ensemble(net, data, data, likelihood=family, **options)
    assert used[0] is not None
    exact = train_ensemble(net, data, data, likelihood=family, path="loop", **options)
    assert used[1] is None
    assert same(ours, exact)


def test_members_have_the_same_bits_on_any_number_of_threads_and_in_any_group():
    whole = train(members=5).positions
    for threads in (2, 3):
        with torch_threads(threads):
            assert torch.equal(train(members=5).positions, whole)
    assert torch.equal(train(members=5, member_chunk=2).positions, whole)
    assert torch.equal(train(members=2).positions, whole[:2])


def test_validation_data_that_are_not_kept_laid_out(monkeypatch):
    whole = train()
    monkeypatch.setattr(compiled, "may_store", lambda size: False)
    monkeypatch.setattr(compiled, "VALIDATION_ROWS", 11)
    parts = train()
    for a, b in zip(whole.histories, parts.histories, strict=True):
        assert a.validation_loss == pytest.approx(b.validation_loss, rel=1e-6)


def test_a_member_that_is_not_finite_fails_alone(monkeypatch):
    start = ensemble.start_members

    def broken(*parts):
        theta, orders = start(*parts)
        theta[1, 0] = math.nan
        return theta, orders

    monkeypatch.setattr(ensemble, "start_members", broken)
    found = train(members=3)
    assert found.members == (0, 2)
    assert torch.isfinite(found.positions).all()
    monkeypatch.undo()
    monkeypatch.setattr(ensemble, "training_mode_layers", lambda model, space: [])
    assert torch.equal(found.positions, train(members=3).positions[[0, 2]])


def test_what_has_no_kernel_is_trained_by_autograd(monkeypatch, used):
    net, data = problem("mlp")
    options = {"members": 2, "max_epochs": 1, "progress": False}
    train_ensemble(net.double(), data, **options)
    train_ensemble(net.float(), data, path="vmap", **options)
    monkeypatch.setenv("SBMC_NATIVE", "0")
    train_ensemble(net, data, **options)
    assert used == [None] * 3


def test_one_member_is_the_map(used):
    net, data = problem("mlp")
    options = {"max_epochs": 3, "initial": "model", "batch_size": 16, "progress": False}
    one = train_map(net, data, **options)
    first = train_ensemble(net, data, members=2, **options)[0]
    assert used[0] is not None
    for a, b in zip(one.parameters(), first.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_wrong_kernel_is_found_out_and_not_used(tmp_path, monkeypatch, used):
    exact = by_autograd(monkeypatch)
    bug = "sums[i] *= factor[i];", "sums[i] *= 1.0f;"
    with planted(monkeypatch, tmp_path, chain_batches, *bug):
        found = train()
    assert used == [None]
    assert same(found, exact)


# Our settings, and what torch has instead; a decay that is part of the gradient is the prior's.
OPTIMISERS = {
    "adam": (Adam(0.1), lambda weights: torch.optim.Adam([weights], lr=0.1)),
    "adamw": (
        Adam(0.1, weight_decay=0.3),
        lambda weights: torch.optim.AdamW([weights], lr=0.1, weight_decay=0.3),
    ),
    "sgd": (SGD(0.1), lambda weights: torch.optim.SGD([weights], lr=0.1)),
    "momentum": (
        SGD(0.1, momentum=0.9),
        lambda weights: torch.optim.SGD([weights], lr=0.1, momentum=0.9),
    ),
}


class TestSteps:
    def steps(self, name, theta, gradients, centres, precision, in_c):
        """Ours, and torch's in float64 on the same gradients with the prior's pull."""
        optimiser, make = OPTIMISERS[name]
        ours, exact = theta.clone(), theta.double().clone().requires_grad_()
        state, reference = optimiser.init(ours), make(exact)
        for gradient in gradients:
            offset = exact.detach() - (0 if centres is None else centres.double())
            if in_c:
                state, penalty = optimiser.compiled_step(ours, gradient, centres, precision, state)
                expected = 0.5 * (precision.double() * offset.square()).sum(-1)
                torch.testing.assert_close(penalty, expected, rtol=1e-4, atol=1e-6)
            else:
                pull = precision * (ours - (0 if centres is None else centres))
                state = optimiser.step(ours, gradient + pull, state)
            exact.grad = gradient.double() + precision.double() * offset
            reference.step()
        return ours.double(), exact.detach()

    @pytest.mark.parametrize("name", OPTIMISERS)
    @pytest.mark.parametrize("shape", [(1, 1), (2, 16), (3, 37)])
    @pytest.mark.parametrize("centred", [False, True])
    @pytest.mark.parametrize("in_c", [False, True])
    def test_are_those_of_torch(self, name, shape, centred, in_c):
        rng = torch.Generator().manual_seed(1)
        theta, *gradients = (torch.randn(*shape, generator=rng) for _ in range(9))
        centres = torch.randn(*shape, generator=rng) if centred else None
        precision = torch.linspace(0.1, 0.7, shape[1])
        ours, exact = self.steps(name, theta, gradients, centres, precision, in_c)
        torch.testing.assert_close(ours, exact, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize(
        ("name", "module", "right", "wrong"),
        [
            ("adam", adam, "a->second * v", "a->first * v"),
            ("adam", adam, "square_root(v) / a->root", "square_root(v)"),
            ("adam", adam, "offset -= load(centre);", "offset -= 0.0f;"),
            ("adam", adam, "memcpy(second + i, rest[5], size);", ""),
            ("adamw", adam, "a->kept * x", "x"),
            ("momentum", sgd, "a->momentum * velocity[i]", "velocity[i]"),
            ("momentum", sgd, "theta[i] - centre[i]", "theta[i]"),
            ("momentum", sgd, "velocity += dim", "velocity += 0"),
        ],
    )
    def test_wrong_ones_are_caught(self, name, module, right, wrong, tmp_path, monkeypatch):
        bug = planted(monkeypatch, tmp_path, module, right, wrong)
        with bug, pytest.raises(AssertionError):
            self.test_are_those_of_torch(name, (3, 37), centred=True, in_c=True)


@pytest.mark.parametrize("name", ["adamw", "momentum"])
def test_an_ensemble_is_trained_by_the_optimiser_that_was_given(name, monkeypatch, used):
    given = {"optimiser": OPTIMISERS[name][0]}
    ours = train("mlp", **given)
    assert used[0] is not None
    assert same(ours, by_autograd(monkeypatch, "mlp", **given))
    assert not torch.equal(ours.positions, train("mlp").positions)


def test_the_engine_is_told(monkeypatch):
    assert train("mlp").engine == COMPILED
    assert by_autograd(monkeypatch, "mlp").engine == BATCHED
    assert train("mlp", path="module").engine == ONE_BY_ONE


def plain_validation_loss(data, validation, epochs, member):
    """What a user of PyTorch writes: one network, torch's layers, Adam and loss."""
    torch.manual_seed(1000 + member)
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    optimiser, (inputs, labels) = torch.optim.Adam(net.parameters(), 0.01), data
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs)).split(50):
            decay = sum(p.square().sum() for p in net.parameters()) / (2 * len(inputs))
            loss = F.cross_entropy(net(inputs[rows]), labels[rows]) + decay
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    with torch.no_grad():
        return float(F.cross_entropy(net(validation[0]), validation[1]))


def test_ten_members_validate_as_a_loop_of_plain_trainings_does(used):
    """Means of ten, within two per cent; that of ten others differs by half a per cent."""
    rng = torch.Generator().manual_seed(2)
    rule = torch.tensor([[2.0, 0, 0, 1], [0, 2, 0, -1], [0, 0, 2, 0]])

    def draw(count):
        inputs = torch.randn(count, 4, generator=rng)
        scores = inputs @ rule.T + torch.randn(count, 3, generator=rng)
        return inputs, scores.argmax(-1)

    data, validation, epochs = draw(500), draw(500), 30
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    ten = train_ensemble(
        net,
        data,
        members=10,
        max_epochs=epochs,
        batch_size=50,
        learning_rate=0.01,
        progress=False,
    )
    assert used[0] is not None
    with torch.no_grad():
        ours = [float(F.cross_entropy(each(validation[0]), validation[1])) for each in ten]
    plain = [plain_validation_loss(data, validation, epochs, member) for member in range(10)]
    assert sum(ours) == pytest.approx(sum(plain), rel=0.02)
    assert min(ours) > 0
