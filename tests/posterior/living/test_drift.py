"""Drift: nothing is seen where nothing moved, planted shifts are, and files keep the reference."""

import copy
import json

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import sbmc
from sbmc import BadInput
from sbmc.posterior.living.drift import Drift, Shift
from sbmc.posterior.living.input_features import MOST_COLUMNS, feature_names, input_features
from sbmc.posterior.living.reference import MOST_ROWS, Reference

SHORT = sbmc.HMC(steps=4, leapfrog=3, step_size=0.2)


def noise(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def labelled(x):
    return x, (x.flatten(1)[:, 0] > 0).long()


def network(columns=3, outputs=2):
    torch.manual_seed(2)
    return nn.Sequential(nn.Flatten(), nn.Linear(columns, 5), nn.Tanh(), nn.Linear(5, outputs))


def fitted(data, columns=3, **options):
    options = {"s": 0.1, "sampler": SHORT, "particles": 4, "progress": False, **options}
    return sbmc.fit(network(columns), data, **options)


@pytest.fixture(scope="module")
def posterior():
    return fitted(labelled(noise(0, 600, 3)))


def test_rows_like_those_of_training_raise_no_more_alarms_than_promised(posterior):
    """A correct test fails here with a probability below 1e-6."""
    trials, level = 150, 0.2
    posterior.make_reference(noise(1, 500, 3))
    alarms = sum(
        posterior.drift(noise(100 + seed, 60, 3), level=level).drifted for seed in range(trials)
    )
    assert alarms <= binom.isf(1e-6, trials, level)


def test_a_shift_of_one_column_is_found_and_named(posterior):
    x = noise(3, 300, 3)
    x[:, 1] += 0.6
    drift = posterior.drift(x)
    assert drift.drifted
    assert drift.inputs_drifted
    moved = drift.moved(drift.inputs)
    assert [each.name for each in moved] == ["column 1"]
    assert moved[0].distance > 0
    assert "Inputs: 1 of 3 moved (p < 0.0001): column 1 is higher" in drift.explain()
    assert "column 1" in drift._repr_html_()


def test_a_reference_is_shown_in_a_line(posterior):
    shown = repr(copy.copy(posterior).make_reference(noise(3, 30, 3)))
    parts = "uncertainties=['total', 'aleatoric', 'epistemic']"
    assert shown == f"Reference(rows=30, held_out=True, features=3, {parts})"


def test_nothing_that_moved_is_said_to_be_still(posterior):
    drift = posterior.drift(noise(4, 300, 3))
    assert not drift.drifted
    assert drift.explain().startswith("No drift was found.")
    assert "Inputs: 0 of 3 moved (p = " in drift.explain()
    assert "none found" in drift._repr_html_()
    assert drift.p_value > 0.05


@pytest.mark.parametrize("change", ["brighter", "noisier", "upside down"])
def test_changed_pictures_are_found(change):
    """They differ in the mean, in the standard deviation, or in neither of the two."""
    shape = torch.linspace(0, 1, 64).reshape(1, 8, 8)
    clean = shape + 0.1 * noise(5, 400, 1, 8, 8)
    posterior = fitted((clean, (clean.mean((1, 2, 3)) > 0.5).long()), 64)
    x = shape + 0.1 * noise(6, 200, 1, 8, 8)
    assert not posterior.drift(x).inputs_drifted
    changed = {
        "brighter": x + 0.05,
        "noisier": x + 0.2 * noise(7, *x.shape),
        "upside down": x.flip(2),
    }
    drift = posterior.drift(changed[change])
    assert drift.inputs_drifted
    assert len(drift.inputs) == MOST_COLUMNS
    first = {"brighter": "mean", "noisier": "standard deviation"}.get(change)
    if first:
        assert drift.moved(drift.inputs)[0].name == first


def test_uncertainties_are_compared_too(posterior):
    posterior.make_reference(noise(8, 500, 3))
    far = posterior.drift(0.02 * noise(9, 200, 3))  # near the decision boundary
    assert far.uncertainties_drifted
    assert far.moved(far.uncertainties)[0].distance > 0


def overfitted():
    """A network that knows its rows by heart, noise included, and the posterior around it."""
    x = noise(10, 200, 10)
    data = x, ((x[:, 0] + x[:, 1] * x[:, 2]) > 0).long()
    layers = nn.Linear(10, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 2)
    options = {"max_epochs": 400, "prior_variance": 100.0, "progress": False}
    net = sbmc.train_map(nn.Sequential(*layers), data, **options)
    return sbmc.fit(net, data, s=1.0, progress=False)


def test_training_rows_as_a_reference_need_a_margin():
    """A network is surer of what it was trained on: without the margin this is a false alarm."""
    posterior = overfitted()
    drift = posterior.drift(noise(11, 600, 10))
    assert drift.p_uncertainties < 0.001
    assert not drift.held_out
    assert not drift.drifted
    assert "training rows" in drift.explain()
    posterior.make_reference(noise(12, 600, 10))
    held_out = posterior.drift(noise(11, 600, 10))
    assert held_out.held_out
    assert not held_out.drifted
    assert held_out.p_uncertainties > 0.01
    assert "training rows" not in held_out.explain()


def test_values_that_were_collected_over_time_give_the_same_result(posterior):
    posterior.make_reference(noise(8, 500, 3))
    reference = posterior.reference
    x = noise(13, 90, 3) + 0.3
    parts = [x[:20], x[20:50], x[50:]]
    predictions = [posterior.predict(part) for part in parts]
    collected = reference.compare(
        inputs=np.concatenate([reference.features(part) for part in parts]),
        total=torch.cat([each.total for each in predictions]),
        epistemic=torch.cat([each.epistemic for each in predictions]).tolist(),
    )
    assert collected == posterior.drift(x)


def test_a_confidence_is_watched_with_its_score():
    x, labels = labelled(noise(14, 400, 3))
    posterior = fitted((x[:200], labels[:200]))
    assert "score" not in posterior.reference.uncertainties
    posterior.confidence((x[200:], labels[200:]), 8 * noise(15, 100, 3))
    reference = posterior.reference
    assert {"score", "abstained"} <= set(reference.uncertainties)
    names = [each.name for each in posterior.drift(x).uncertainties]
    assert names == ["total", "epistemic", "score"]
    drift = reference.compare(abstained=[1.0] * 50)
    assert drift.uncertainties[0].distance > 0.5


def test_the_reference_is_saved_and_comes_back(posterior, tmp_path):
    posterior.make_reference(noise(8, 500, 3))
    posterior.save(tmp_path / "a.sbmc")
    loaded = sbmc.load(tmp_path / "a.sbmc", network())
    assert loaded.training_data is None
    assert loaded.reference == posterior.reference
    assert loaded.drift(noise(16, 50, 3)) == posterior.drift(noise(16, 50, 3))
    text = json.dumps(loaded.reference.to_dict())
    assert Reference.from_dict(json.loads(text)) == loaded.reference
    assert len(text) < 5_000


def test_rounded_particles_keep_the_reference(posterior, tmp_path):
    posterior.save(tmp_path / "a.sbmc", dtype="bfloat16")
    loaded = sbmc.load(tmp_path / "a.sbmc", network())
    assert loaded.reference.uncertainties == posterior.reference.uncertainties
    assert not loaded.drift(noise(4, 300, 3)).drifted


def test_a_file_of_before_has_none_and_says_what_to_do(posterior, tmp_path):
    bare = copy.copy(posterior)
    bare._reference = None
    bare.save(tmp_path / "a.sbmc")
    loaded = sbmc.load(tmp_path / "a.sbmc", network())
    assert loaded.reference is None
    with pytest.raises(BadInput, match=r"make_reference"):
        loaded.drift(noise(0, 5, 3))
    loaded.make_reference(noise(1, 50, 3))
    assert not loaded.drift(noise(2, 50, 3)).drifted


def test_another_posterior_of_the_same_inputs_keeps_their_part(tmp_path):
    posterior = fitted(labelled(noise(0, 100, 3)), islands=2)
    posterior.save(tmp_path / "a.sbmc")
    loaded = sbmc.load(tmp_path / "a.sbmc", network())
    loaded.weights = loaded.weights.flip(1) * torch.tensor([[0.5], [1.5]])
    drift = loaded.drift(noise(1, 50, 3))
    assert drift.uncertainties == ()
    assert len(drift.inputs) == 3


def test_a_data_set_that_fails_does_not_prevent_saving(tmp_path, caplog):
    posterior = fitted(labelled(noise(0, 100, 3)))
    posterior.training_data = TensorDataset(noise(0, 10, 4), torch.zeros(10).long())
    with caplog.at_level("INFO", "sbmc"):
        posterior.save(tmp_path / "a.sbmc")
    assert "no reference" in caplog.text
    assert sbmc.load(tmp_path / "a.sbmc", network()).reference is None


class Counted(TensorDataset):
    """Counts the rows that are read."""

    read = 0

    def __getitem__(self, index):
        Counted.read += 1
        return super().__getitem__(index)


@pytest.mark.parametrize("loader", [False, True])
def test_of_a_large_data_set_few_rows_are_read(posterior, loader):
    data = Counted(*labelled(noise(0, 3000, 3)))
    bound = copy.copy(posterior)
    bound._reference = None
    bound.training_data = DataLoader(data, batch_size=64, shuffle=True) if loader else data
    Counted.read = 0
    before = torch.get_rng_state()
    assert bound.reference.rows == MOST_ROWS
    assert Counted.read == 2 * MOST_ROWS  # once, and once more to see that they are the same
    assert torch.equal(torch.get_rng_state(), before)


def test_names_of_columns():
    assert feature_names(noise(0, 4, 2), ["a", "b"]) == ("a", "b")
    assert feature_names(noise(0, 4, 2), ["a"]) == ("column 0", "column 1")
    assert len(feature_names((noise(0, 4, 2), noise(0, 4, 6, 6)))) == 2 + MOST_COLUMNS


def test_projections_are_what_the_docstring_says():
    x = noise(0, 3, 50)
    features = input_features(x)
    assert features.shape == (3, MOST_COLUMNS)
    assert features[:, 0] == pytest.approx(x.double().mean(1).numpy())
    assert features[:, 1] == pytest.approx(x.double().std(1, correction=0).numpy())
    signs = input_features(torch.eye(50))[:, 2:] * 50**0.5
    assert np.allclose(np.abs(signs), 1)
    assert len(np.unique(signs, axis=1).T) == MOST_COLUMNS - 2
    assert features[:, 2:] == pytest.approx(x.double().numpy() @ signs / 50**0.5)


def test_the_p_value_of_a_group_is_corrected():
    shifts = tuple(Shift(str(k), 0.6, 0.004, 0.0, 1.0) for k in range(5))
    drift = Drift(10, 100, True, 0.05, shifts, ())
    assert drift.p_inputs == pytest.approx(0.02)
    assert drift.p_value == pytest.approx(0.04)
    assert drift.drifted
    assert not Drift(10, 100, True, 0.03, shifts, ()).drifted


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({}, "epistemic"),
        ({"epistemic": []}, "epistemic"),
        ({"total": [float("nan")]}, "total"),
        ({"score": [0.5]}, "score.*make_reference"),
        ({"inputs": np.zeros((3, 2))}, "inputs"),
        ({"epistemic": [0.1], "level": 1.5}, "level"),
    ],
)
def test_what_cannot_be_compared_is_refused(posterior, arguments, match):
    with pytest.raises(BadInput, match=match):
        posterior.reference.compare(**arguments)


def test_inputs_of_another_shape_are_refused(posterior):
    with pytest.raises(BadInput, match=r"rows of shape \(3,\)"):
        posterior.drift(noise(0, 5, 4))


def test_a_damaged_reference_is_refused():
    with pytest.raises(BadInput, match="content"):
        Reference.from_dict({"rows": 3})


def test_pictures_of_another_size_are_not_compared():
    """They have as many features: two summaries and thirty projections."""
    torch.manual_seed(0)
    pictures = torch.rand(40, 1, 8, 8)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    posterior = sbmc.fit(network, (pictures, torch.arange(40) % 2), s=0.1)
    reference = posterior.reference
    again = Reference.from_dict(json.loads(json.dumps(reference.to_dict())))
    for each in (reference, again):
        assert each.features(pictures).shape == (40, 32)
        with pytest.raises(BadInput, match=r"rows of shape \(1, 8, 8\).*got rows of shape \(1, 9"):
            each.features(torch.rand(5, 1, 9, 9))
    with pytest.raises(BadInput, match="`inputs` must be rows of shape"):
        posterior.drift(torch.rand(5, 1, 9, 9))
    before = {name: value for name, value in reference.to_dict().items() if name != "shapes"}
    assert Reference.from_dict(before).features(pictures).shape == (40, 32)
