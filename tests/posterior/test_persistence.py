"""Saved and loaded: the same bits, and words for every file or model that is not the right one."""

from __future__ import annotations

import json
import operator
import pickle
import re
import struct
from dataclasses import replace

import pytest
import torch
from grouped import in_groups
from safetensors.torch import save_file
from torch import nn

import sbmc
from sbmc import HMC, SMC, BadInput, Custom, Gaussian, load
from sbmc.posterior.saving import VERSION

INPUTS = torch.randn(9, 4, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(9) % 3
QUICK = HMC(steps=2, leapfrog=1, step_size=0.1)


def make_net(seed=2, width=5, activation=nn.Tanh):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(4, width), nn.BatchNorm1d(width), activation(), nn.Linear(width, 3)
    )


def fitted(net=None, **options):
    data = INPUTS, options.pop("targets", LABELS)
    settings = {"sampler": QUICK, "particles": 2, "islands": 2, **options}
    return sbmc.fit(net or make_net(), data, **in_groups(settings))


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "posterior.safetensors"
    fitted(parameters="last").save(path)
    return path


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"parameters": "last"},
        {"parameters": lambda name: "bias" in name},
        {"s": 0},
        {"dtype": torch.float64},
        {"likelihood": Gaussian(noise_variance=0.3), "targets": torch.randn(9, 3)},
        {"prior_variance": {"weight": 0.5, "bias": torch.tensor(2.0)}},
        {"path": "vmap"},
        {"factor_variance": 0.2},
        {"covariance": "laplace"},
        {"split": 0.3},
        {"s": 1.0, "posterior_temperature": 0.5},
        {"anchors": [make_net(seed=3), make_net(seed=4)], "split": 0.3},
    ],
)
def test_a_loaded_posterior_predicts_the_same_bits(tmp_path, options):
    posterior = fitted(**options)
    path = tmp_path / "a file with spaces"
    posterior.save(str(path))
    again = load(str(path), make_net())
    assert torch.equal(again.positions, posterior.positions)
    assert torch.equal(again.weights, posterior.weights)
    assert torch.equal(again.log_evidence, posterior.log_evidence)
    assert again.positions.dtype == posterior.positions.dtype
    assert again.islands == posterior.islands
    assert again.cost == posterior.cost
    assert again.settings == json.loads(json.dumps(posterior.settings))
    ours, theirs = again.predict(INPUTS), posterior.predict(INPUTS)
    assert torch.equal(ours.particles.outputs(), theirs.particles.outputs())
    for name, value in vars(replace(theirs, particles=None)).items():
        found = getattr(ours, name)
        same = torch.equal if isinstance(value, torch.Tensor) else operator.eq
        assert name == "particles" or same(found, value), name
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_the_sampled_weights_of_the_model_do_not_matter(tmp_path):
    posterior = fitted()
    posterior.save(tmp_path / "p")
    other = load(tmp_path / "p", make_net(seed=7))
    assert torch.equal(other.predict(INPUTS).probs, posterior.predict(INPUTS).probs)


def test_the_model_is_left_alone(saved):
    net = make_net().train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    load(saved, net).predict(INPUTS)
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_an_ensemble_with_statistics_of_its_own(tmp_path):
    data = INPUTS[:8], LABELS[:8]
    ensemble = sbmc.train_ensemble(make_net(), data, members=2, max_epochs=2, batch_size=4)
    posterior = ensemble.posterior()
    posterior.save(tmp_path / "e")
    again = load(tmp_path / "e", make_net())
    assert torch.equal(again.predict(INPUTS).probs, posterior.predict(INPUTS).probs)


def test_saving_again_replaces_the_file(tmp_path):
    path = tmp_path / "p"
    fitted(seed=1).save(path)
    posterior = fitted(seed=2)
    posterior.save(path)
    assert torch.equal(load(path, make_net()).positions, posterior.positions)


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "p"
    fitted().save(path)
    before = path.read_bytes()

    def fails(tensors, file, metadata):
        file.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr("safetensors.torch.save_file", fails)
    with pytest.raises(OSError, match="no space left"):
        fitted(seed=3).save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["p"]


@pytest.mark.parametrize("name", ["no/such/folder/p", "."])
def test_places_that_cannot_be_written(tmp_path, name):
    with pytest.raises(
        BadInput, match=r"`path` must be (in an existing folder|the name of a file)"
    ):
        fitted().save(tmp_path / name)


def test_nothing_is_unpickled(saved, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("pickle was used")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    net = make_net()
    assert load(saved, net).positions.shape == (2, 2, 18)


# The seeds are such that no population collapses, and no island outweighs the others.
CAREFUL = SMC(mutations=4, resample_below=0.5, ess=0.7)


@pytest.mark.parametrize("weighting", ["evidence", "equal"])
def test_an_smc_posterior_comes_back_with_its_weights_and_its_reports(tmp_path, weighting):
    posterior = fitted(
        sampler=CAREFUL, particles=8, islands=3, s=0.05, seed=5, island_weights=weighting
    )
    posterior.save(tmp_path / "p")
    again = load(tmp_path / "p", make_net())
    # Weights that were carried to the end: not equal inside an island.
    assert posterior.within.std() > 0
    assert torch.equal(again.within, posterior.within)
    assert torch.equal(again.weights, posterior.weights)
    assert torch.equal(again.log_evidence, posterior.log_evidence)
    assert again.weighting == weighting
    assert again.evidence == posterior.evidence
    assert again.islands == posterior.islands
    assert all(island.temperatures[-1]["temperature"] == 1 for island in again.islands)
    assert again.settings == json.loads(json.dumps(posterior.settings))
    assert torch.equal(again.first(2).weights, posterior.first(2).weights)
    assert torch.equal(again.predict(INPUTS).probs, posterior.predict(INPUTS).probs)
    other = "equal" if weighting == "evidence" else "evidence"
    assert torch.equal(again.reweighted(other).weights, posterior.reweighted(other).weights)


# Other models


def frozen_weights_changed():
    net = make_net()
    with torch.no_grad():
        net[0].weight[0, 0] += 1e-6
    return net


def buffers_changed():
    net = make_net()
    net[1].running_mean += 1
    return net


DIFFERENT = "another structure, other frozen weights or other buffers."


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: make_net(width=6), "`model` must be one whose 3.weight has shape (3, 5), but got"),
        (lambda: nn.Linear(4, 3), "one whose 3.weight has shape (3, 5), but got no such parameter"),
        (
            lambda: make_net(activation=nn.ReLU),
            f"the one that the file was made with, but got {DIFFERENT}",
        ),
        (frozen_weights_changed, DIFFERENT),
        (buffers_changed, DIFFERENT),
        (lambda: make_net().double(), None),
        (lambda: "net", "`model` must be a torch.nn.Module, but got 'net'."),
    ],
)
def test_another_model(saved, build, words):
    if words is None:
        # Twice the precision is the same model: it is converted to what the file has.
        assert load(saved, build()).positions.dtype == torch.float32
        return
    with pytest.raises(BadInput, match=re.escape(words)):
        load(saved, build())


# Damaged and foreign files


def refused(path, words):
    with pytest.raises(BadInput, match=re.escape(words)) as found:
        load(path, make_net())
    assert str(path) in str(found.value)


def test_a_missing_file(tmp_path):
    refused(tmp_path / "none", "`path` must be an existing file, but got ")
    refused(tmp_path, "`path` must be an existing file, but got ")


@pytest.mark.parametrize("keep", [0, 4, 100, 0.5, 0.9, 0.999])
def test_a_truncated_file(saved, keep):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: keep if isinstance(keep, int) else int(keep * len(whole))])
    refused(saved, "`path` must be an undamaged posterior file, but got ")


def test_any_changed_byte_is_noticed(saved):
    whole = saved.read_bytes()
    for place in [*range(0, len(whole), 53), len(whole) - 1]:
        changed = bytearray(whole)
        changed[place] ^= 1
        saved.write_bytes(bytes(changed))
        with pytest.raises(BadInput, match="`path` must be"):
            load(saved, make_net())


def test_other_files(tmp_path):
    path = tmp_path / "p"
    path.write_text("some words that are no posterior")
    refused(path, "`path` must be an undamaged posterior file, but got ")
    save_file({"weight": torch.ones(2)}, path)
    refused(path, "`path` must be a file that Posterior.save wrote, but got ")
    save_file({"weight": torch.ones(2)}, path, metadata={"sbmc": "{}", "digest": ""})
    refused(path, "`path` must be a file that Posterior.save wrote, but got ")
    torch.save({"positions": torch.ones(2)}, path)
    refused(path, "`path` must be an undamaged posterior file, but got ")


def test_a_file_of_a_later_format(saved, monkeypatch, tmp_path):
    monkeypatch.setattr("sbmc.posterior.saving.VERSION", VERSION + 1)
    later = tmp_path / "later"
    fitted().save(later)
    monkeypatch.undo()
    kind = "sbmc-posterior version"
    words = f"of format {kind} {VERSION}, but got {kind} {VERSION + 1}."
    with pytest.raises(BadInput, match=re.escape(words)):
        load(later, make_net())


def test_the_header_is_plain_json(saved):
    content = saved.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    words = json.loads(header["__metadata__"]["sbmc"])
    assert words["names"] == ["3.weight", "3.bias"]
    assert words["settings"]["particles"] == 2


# Callables


def scores(outputs, targets):
    return outputs.log_softmax(-1).gather(-1, targets[:, None]).squeeze(-1)


@pytest.mark.parametrize("likelihood", [scores, Custom(scores, classification=True)])
def test_a_callable_has_to_be_given_again(tmp_path, likelihood):
    posterior = fitted(likelihood=likelihood)
    posterior.save(tmp_path / "p")
    for wrong in (None, 3):
        words = "`likelihood` must be the callable that the posterior was made with, but got"
        with pytest.raises(BadInput, match=re.escape(words)):
            load(tmp_path / "p", make_net(), likelihood=wrong)
    for given in (scores, likelihood):
        again = load(tmp_path / "p", make_net(), likelihood=given)
        ours, theirs = again.predict(INPUTS), posterior.predict(INPUTS)
        assert type(ours) is type(theirs)
        assert torch.equal(ours.total, theirs.total)


def test_a_likelihood_that_the_file_has_is_not_given_again(saved):
    with pytest.raises(BadInput, match="`likelihood` must be left out: the file has its own, 'cat"):
        load(saved, make_net(), likelihood=scores)
