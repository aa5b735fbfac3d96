"""`posterior.confidence`: fitted, bound to its posterior, saved and loaded with it."""

import pytest
import torch
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.likelihoods import as_likelihood
from sbmc.posterior.ensemble import ensemble_posterior


def examples(count, seed):
    rng = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 2, generator=rng)
    return inputs, (inputs[:, 0] + 0.5 * torch.randn(count, generator=rng) > 0).long()


MODEL = nn.Linear(2, 2)
OUTSIDE = torch.tensor([[0.0, 9.0]]).repeat(40, 1) + examples(40, 5)[0]


@pytest.fixture(scope="module")
def posterior():
    return sbmc.fit(MODEL, examples(60, 0), s=1, particles=4, islands=2, progress=False)


@pytest.fixture(scope="module")
def confidence(posterior):
    return posterior.confidence(examples(200, 1), OUTSIDE, threshold=0.5)


def test_it_is_kept_and_takes_inputs(posterior, confidence):
    inputs, _ = examples(50, 2)
    assert posterior.fitted_confidence is confidence
    assert confidence.origin == posterior.origin == posterior.predict(inputs).origin
    assert torch.equal(confidence.score(inputs), confidence.score(posterior.predict(inputs)))


def test_predictions_of_other_posteriors_are_refused(posterior, confidence):
    inputs, _ = examples(5, 2)
    other = posterior.first(1)
    assert other.fitted_confidence is None
    with pytest.raises(BadInput, match="one of another posterior"):
        confidence.score(other.predict(inputs))
    # The same islands, in equal parts as before: the same posterior.
    same = posterior.reweighted("equal")
    assert same.fitted_confidence is None
    assert len(confidence.score(same.predict(inputs))) == 5


def test_a_change_of_positions_is_noticed(posterior):
    changed = posterior.first(2)
    before = changed.origin
    assert before == posterior.origin
    changed.positions = changed.positions.clone()
    assert changed.origin == before
    changed.positions[0, 0, 0] += 1.0
    assert changed.origin != before


def test_saved_and_loaded_with_the_posterior(posterior, confidence, tmp_path):
    confidence.calibrate(examples(400, 3), alpha=0.2, delta=0.1)
    posterior.save(tmp_path / "posterior.safetensors")
    again = sbmc.load(tmp_path / "posterior.safetensors", MODEL)
    inputs, _ = examples(30, 4)
    restored = again.fitted_confidence
    assert again.origin == posterior.origin
    assert restored.guaranteed == confidence.guaranteed
    first, second = confidence.decide(inputs), restored.decide(inputs)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    posterior.first(1).save(tmp_path / "plain.safetensors")
    assert sbmc.load(tmp_path / "plain.safetensors", MODEL).fitted_confidence is None


def test_a_point_estimate_and_an_ensemble_have_one_too():
    for members in (1, 3):
        ensemble = sbmc.train_ensemble(
            MODEL, examples(60, 0), members=members, max_epochs=5, progress=False
        )
        points = ensemble_posterior(ensemble, as_likelihood("categorical"))
        found = points.confidence(examples(200, 1), OUTSIDE, threshold=0.5)
        features = points.predict(examples(20, 2)[0]).features()
        assert (features[:, 4:] == 0).all() == (members == 1)
        assert found.score(OUTSIDE).shape == (40,)
