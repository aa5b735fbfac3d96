"""Ranking a pool: exact on particles made by hand, batches without copies, ties in their order."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import sbmc
from sbmc import BadInput
from sbmc.posterior.living.ranking import SCORES, greedy_batch

SHORT = sbmc.HMC(steps=4, leapfrog=2, step_size=0.2)
NOISE = 0.25


def by_hand(weights, likelihood=None):
    """A posterior whose particles are these matrices `(particles, outputs, columns)`."""
    weights = torch.tensor(weights)
    net = nn.Linear(weights.shape[-1], weights.shape[1], bias=False)
    likelihood = likelihood or sbmc.Categorical()
    data = torch.zeros(4, weights.shape[-1]), torch.zeros(4, dtype=torch.long)
    if not likelihood.classification:
        data = data[0], torch.zeros(4, weights.shape[1])
    options = {"sampler": SHORT, "particles": len(weights), "progress": False}
    posterior = sbmc.fit(net, data, s=0.1, likelihood=likelihood, **options)
    posterior.positions = weights.reshape(1, len(weights), -1).clone()
    return posterior


@pytest.fixture(scope="module")
def classes():
    """Two particles that agree along the first column and not along the second."""
    return by_hand([[[3.0, 9.0], [-3.0, -9.0]], [[3.0, -9.0], [-3.0, 9.0]]])


@pytest.fixture(scope="module")
def numbers():
    """Means x·(1, 2, 0) and x·(1, −2, 1): variances (2 x_2 − x_3 / 2)²."""
    particles = [[[1.0, 2.0, 0.0]], [[1.0, -2.0, 1.0]]]
    return by_hand(particles, sbmc.Gaussian(noise_variance=NOISE))


POOL = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [0.1, 0.1]])


def test_scores_of_classes_are_their_formulas(classes):
    prediction = classes.predict(POOL)
    probs = prediction.probs.numpy()
    two = np.sort(probs, axis=1)
    expected = {
        "epistemic": prediction.epistemic.numpy(),
        "bald": prediction.epistemic.numpy(),
        "total": -(probs * np.log(probs)).sum(1),
        "variation": 1 - two[:, 1],
        "margin": two[:, 0] - two[:, 1],
    }
    for by, values in expected.items():
        ranking = classes.rank(POOL, by=by)
        assert ranking.scores.numpy() == pytest.approx(np.sort(values)[::-1], abs=1e-12)
        assert values[ranking.indices] == pytest.approx(ranking.scores.numpy(), abs=1e-12)
    # Particles contradict each other at the first row, and are unsure together at the third.
    assert classes.rank(POOL, k=1).indices.tolist() == [0]
    assert classes.rank(POOL).scores[0] == pytest.approx(math.log(2), abs=1e-3)
    assert classes.rank(POOL).indices[-1] in (1, 2)


def test_scores_of_numbers_are_their_formulas(numbers):
    pool = torch.tensor([[5.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    variance = np.array([0.0, 4.0, 0.25])
    ranking = numbers.rank(pool)
    assert ranking.indices.tolist() == [1, 2, 0]
    assert ranking.scores.numpy() == pytest.approx(np.sort(variance)[::-1], abs=1e-9)
    total = numbers.rank(pool, by="total").scores.numpy()
    assert total == pytest.approx(np.sort(variance + NOISE)[::-1], abs=1e-9)
    bald = numbers.rank(pool, by="bald").scores.numpy()
    assert bald == pytest.approx(0.5 * np.log1p(np.sort(variance)[::-1] / NOISE), abs=1e-9)


def test_ties_stay_in_their_order(classes):
    pool = torch.zeros(7, 2)
    for by in set(SCORES) - {"random"}:
        assert classes.rank(pool, by=by).indices.tolist() == list(range(7))
    assert classes.rank(pool, k=7, batch=True).indices.tolist() == list(range(7))


def test_chance_follows_its_seed(classes):
    pool = torch.zeros(50, 2)
    one, same, other = (classes.rank(pool, "random", seed=s).indices for s in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert sorted(one.tolist()) == list(range(50))


def information(deviations, noise, rows):
    """½ log det(1 + K / σ²) of some rows, by its definition."""
    some = deviations[list(rows)]
    scaled = some @ some.T / noise[list(rows)].unsqueeze(0)
    return 0.5 * torch.linalg.slogdet(torch.eye(len(some)).double() + scaled).logabsdet.item()


def test_gains_add_up_to_the_information_and_each_is_the_largest():
    rng = torch.Generator().manual_seed(0)
    deviations = torch.randn(9, 4, generator=rng, dtype=torch.float64)
    noise = 0.1 + torch.rand(9, generator=rng, dtype=torch.float64)
    chosen, gains = greedy_batch(deviations, noise, 6)
    assert len(set(chosen.tolist())) == 6
    for k in range(1, 7):
        before = chosen[: k - 1].tolist()
        now = information(deviations, noise, chosen[:k].tolist())
        assert gains[:k].sum().item() == pytest.approx(now, rel=1e-9)
        others = [row for row in range(9) if row not in before]
        best = max(information(deviations, noise, [*before, row]) for row in others)
        assert now == pytest.approx(best, rel=1e-9)


def test_a_greedy_pair_is_near_the_best_of_all_pairs():
    rng = torch.Generator().manual_seed(1)
    deviations = torch.randn(12, 3, generator=rng, dtype=torch.float64)
    noise = torch.full((12,), 0.2, dtype=torch.float64)
    best = max(
        information(deviations, noise, pair) for pair in itertools.combinations(range(12), 2)
    )
    chosen, _ = greedy_batch(deviations, noise, 2)
    # The guarantee of a greedy choice is 1 − 1/e of the best.
    assert information(deviations, noise, chosen.tolist()) >= (1 - 1 / math.e) * best


def test_a_batch_does_not_take_copies(classes, numbers):
    copies = torch.tensor([[0.0, 1.0]]).repeat(5, 1)
    pool = torch.cat([copies, torch.tensor([[0.3, 0.35], [-0.2, 0.3]])])
    alone = classes.rank(pool, k=3)
    assert set(alone.indices.tolist()) <= set(range(5))
    together = classes.rank(pool, k=2, batch=True)
    assert together.indices[0] == 0
    assert together.scores[1] < together.scores[0]
    directions = torch.tensor([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 3.0]])
    three = by_hand(
        [[[0.0, 2.0, 0.0]], [[0.0, -2.0, 0.0]], [[0.0, 0.0, 0.5]], [[0.0, 0.0, -0.5]]],
        sbmc.Gaussian(noise_variance=0.01),
    )
    assert three.rank(directions, k=2).indices.tolist() == [0, 1]
    assert three.rank(directions, k=2, batch=True).indices.tolist() == [0, 2]


def test_labels_that_are_all_noise_may_be_asked_twice():
    """Two rows of four times the noise: a second label of the better one says more."""
    deviations = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.5]], dtype=torch.float64)
    noise = torch.full((3,), 4.0, dtype=torch.float64)
    assert greedy_batch(deviations, noise, 2)[0].tolist() == [0, 1]


@pytest.fixture(scope="module")
def sampled():
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))
    labels = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    return sbmc.fit(net, (x, labels), s=1.0, sampler=SHORT, progress=False)


def test_loaders_and_data_sets_are_streamed(sampled):
    pool = torch.randn(70, 3, generator=torch.Generator().manual_seed(1))
    expected = sampled.rank(pool, k=20)
    data = TensorDataset(pool, torch.zeros(70).long())
    loader = DataLoader(data, batch_size=8)
    for given in (data, loader, pool.numpy()):
        ranking = sampled.rank(given, k=20)
        assert torch.equal(ranking.indices, expected.indices)
        torch.testing.assert_close(ranking.scores, expected.scores)
    batch = sampled.rank(pool, k=20, batch=True)
    assert torch.equal(sampled.rank(data, k=20, batch=True).indices, batch.indices)
    assert "batch=True" in repr(batch)
    assert len(batch) == 20


def test_a_batch_is_chosen_among_the_best_rows(sampled, monkeypatch):
    from sbmc.posterior.living import ranking

    pool = torch.randn(70, 3, generator=torch.Generator().manual_seed(1))
    best = set(sampled.rank(pool, k=30).indices.tolist())
    monkeypatch.setattr(ranking, "MOST_CANDIDATES", 30)
    assert set(sampled.rank(pool, k=10, batch=True).indices.tolist()) <= best


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"by": "entropy"}, "by"),
        ({"k": 0}, "k"),
        ({"k": 100}, "at most the 4 rows"),
        ({"batch": True}, "`k` must be given"),
        ({"batch": True, "k": 2, "by": "total"}, "by"),
        ({"pool": torch.zeros(0, 2)}, "inputs"),
    ],
)
def test_wrong_arguments_are_refused(classes, arguments, match):
    with pytest.raises(BadInput, match=match):
        classes.rank(**{"pool": POOL, **arguments})


def test_loaders_that_cannot_be_counted_are_refused(classes, numbers):
    data = TensorDataset(POOL, torch.zeros(4).long())
    with pytest.raises(BadInput, match="shuffl"):
        classes.rank(DataLoader(data, shuffle=True))
    with pytest.raises(BadInput, match="twice"):
        classes.rank(DataLoader(data), k=2, batch=True)
    with pytest.raises(BadInput, match="for numbers"):
        numbers.rank(torch.zeros(2, 3), by="margin")


def test_the_first_of_a_batch_is_the_best_alone_with_its_information(sampled):
    pool = torch.randn(40, 3, generator=torch.Generator().manual_seed(2))
    alone, together = sampled.rank(pool, k=1), sampled.rank(pool, k=40, batch=True)
    assert together.indices[0] == alone.indices[0]
    torch.testing.assert_close(together.scores[:1], alone.scores)
    assert sorted(together.indices.tolist()) == list(range(40))
