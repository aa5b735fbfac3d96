"""Another likelihood or another `forward` is another run, whatever the module's structure says.

A checkpoint, `merge` and `load` compare outputs and log likelihoods on a few rows, up to rounding.
"""

from __future__ import annotations

import json
import re

import pytest
import torch
from grouped import in_groups
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

import sbmc
from sbmc.checks import BadInput
from sbmc.islands.checkpoints.manifest import json_digest
from sbmc.storage.digests import contents_digest

X = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()
QUICK = sbmc.HMC(steps=3, leapfrog=1, step_size=0.1)


class Net(nn.Module):
    """Two networks of one class, of one structure and one state, that compute different things."""

    def __init__(self, activation=torch.tanh, factor=1.0):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)
        self.activation, self.factor = activation, factor

    def forward(self, x):
        return self.last(self.activation(self.first(x))) * self.factor


def scores(outputs, targets):
    return outputs.log_softmax(-1).gather(-1, targets[:, None]).squeeze(-1)


def tempered(outputs, targets):
    return 0.5 * scores(outputs, targets)


def rounded(outputs, targets):
    return scores(outputs, targets) * (1 + 3e-7)


def fit(net=None, data=(X, Y), **options):
    plain = {"s": 0.2, "particles": 2, "islands": 2, "sampler": QUICK, "progress": False}
    return sbmc.fit(net or Net(), data, **in_groups(plain | options))


FORWARD = "outputs of the model on rows of the data differ"
LIKELIHOOD = "log likelihood of rows of the data differs"
OTHERS = {
    "activation": ({}, {"net": Net(torch.relu)}, FORWARD),
    "nearly the same": ({}, {"net": Net(factor=1.01)}, FORWARD),
    "head": ({"parameters": "last"}, {"net": Net(torch.relu), "parameters": "last"}, FORWARD),
    "likelihood": ({"likelihood": scores}, {"likelihood": tempered}, LIKELIHOOD),
}
SAME = {
    "rounding": ({}, {"net": Net(factor=1 + 3e-7)}),
    "rounded likelihood": ({"likelihood": scores}, {"likelihood": rounded}),
    "another lambda": (
        {"likelihood": lambda o, t: scores(o, t)},
        {"likelihood": lambda o, t: scores(o, t)},
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_checkpoint_of_another_target_is_refused(tmp_path, name):
    begun, other, words = OTHERS[name]
    fit(checkpoint=tmp_path, **begun)
    with pytest.raises(BadInput, match=f"`checkpoint` must be of the same run.*{words}") as caught:
        fit(checkpoint=tmp_path, **other)
    assert "or another folder" in str(caught.value)


@pytest.mark.parametrize("name", SAME)
def test_a_checkpoint_of_the_same_target_goes_on(tmp_path, name):
    begun, again = SAME[name]
    first = fit(checkpoint=tmp_path, **begun)
    assert torch.equal(fit(checkpoint=tmp_path, **again).positions, first.positions)


@pytest.mark.parametrize("name", OTHERS)
def test_islands_of_two_targets_are_not_merged(name):
    one, other, words = OTHERS[name]
    with pytest.raises(BadInput, match=f"must be parts of one run.*{words}"):
        sbmc.merge([fit(**one), fit(first_island=2, **other)])


@pytest.mark.parametrize("name", SAME)
def test_islands_of_one_target_are_merged(name):
    one, other = SAME[name]
    assert len(sbmc.merge([fit(**one), fit(first_island=2, **other)]).islands) == 4


def test_other_data_are_named_and_not_what_follows_from_them():
    with pytest.raises(BadInput, match=r"identity\.data differ") as caught:
        sbmc.merge([fit(), fit(data=(X + 1, Y), first_island=2)])
    assert "outputs" not in str(caught.value)


def without_kernel(monkeypatch):
    monkeypatch.setattr("sbmc.target.engine.choose_kernel", lambda *a: (None, "it is switched off"))


def test_which_kernel_computes_belongs_to_a_checkpoint_and_not_to_a_file(tmp_path, monkeypatch):
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    posterior = fit(net, checkpoint=tmp_path / "run")
    posterior.save(tmp_path / "p")
    if posterior.settings["kernel"] is None:
        pytest.skip("no compiler: there is one kernel alone")
    without_kernel(monkeypatch)
    with pytest.raises(BadInput, match="kernel is 'chain' there and None here"):
        fit(net, checkpoint=tmp_path / "run")
    assert torch.equal(sbmc.load(tmp_path / "p", net).positions, posterior.positions)


# Saved posteriors


@pytest.mark.parametrize("options", [{}, {"s": 0}, {"parameters": "last"}], ids=str)
def test_a_module_with_another_forward_is_not_loaded(tmp_path, options):
    fit(**options).save(tmp_path / "p")
    words = "`model` must be the one that the file was made with, but got one whose outputs differ"
    for other in (Net(torch.relu), Net(factor=1.01)):
        with pytest.raises(BadInput, match=re.escape(words)) as caught:
            sbmc.load(tmp_path / "p", other)
        assert "forward" in str(caught.value)
    for same in (Net(), Net(factor=1 + 3e-7), Net().double()):
        sbmc.load(tmp_path / "p", same)


def test_a_module_that_cannot_be_called_is_not_loaded(tmp_path):
    def broken(x):
        raise RuntimeError("not today")

    fit().save(tmp_path / "p")
    with pytest.raises(BadInput, match=r"`model` must be .*not today"):
        sbmc.load(tmp_path / "p", Net(broken))


def test_another_likelihood_is_not_loaded(tmp_path):
    fit(likelihood=scores).save(tmp_path / "p")
    sbmc.load(tmp_path / "p", Net(), likelihood=rounded)
    words = "`likelihood` must be the callable that the posterior was made with"
    with pytest.raises(BadInput, match=re.escape(words)):
        sbmc.load(tmp_path / "p", Net(), likelihood=tempered)


def test_what_was_loaded_can_be_saved_and_is_compared_again(tmp_path):
    fit().save(tmp_path / "p")
    sbmc.load(tmp_path / "p", Net()).save(tmp_path / "q")
    sbmc.load(tmp_path / "p", Net()).first(1).save(tmp_path / "r")
    for name in ("q", "r"):
        with pytest.raises(BadInput, match="whose outputs differ"):
            sbmc.load(tmp_path / name, Net(torch.relu))


def test_an_ensemble_is_compared_once_it_has_predicted(tmp_path, caplog):
    ensemble = sbmc.train_ensemble(Net(), (X, Y), members=2, max_epochs=1).posterior()
    with caplog.at_level("INFO", logger="sbmc"):
        ensemble.save(tmp_path / "unknown")
    assert "not compared" in caplog.text
    sbmc.load(tmp_path / "unknown", Net(torch.relu))
    ensemble.predict(X)
    ensemble.save(tmp_path / "known")
    with pytest.raises(BadInput, match="whose outputs differ"):
        sbmc.load(tmp_path / "known", Net(torch.relu))


def test_no_row_of_the_data_is_in_the_file(tmp_path):
    torch.manual_seed(0)
    pictures = torch.rand(4, 3, 64, 64)
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 2))
    fit(net, (pictures, torch.tensor([0, 1, 0, 1])), parameters=".bias").save(tmp_path / "p")
    content = (tmp_path / "p").read_bytes()
    assert len(content) < 20_000
    for row in pictures:
        assert row.flatten()[:4].numpy().tobytes() not in content


class Tokens(nn.Module):
    def __init__(self, activation=torch.tanh):
        super().__init__()
        torch.manual_seed(1)
        self.embedding, self.last = nn.Embedding(11, 4), nn.Linear(4, 2)
        self.activation = activation

    def forward(self, input_ids, attention_mask):
        kept = attention_mask[..., None].to(self.last.weight.dtype)
        hidden = (self.embedding(input_ids) * kept).sum(1) / kept.sum(1)
        return self.last(self.activation(hidden))


def test_inputs_by_name_and_of_integers(tmp_path):
    tokens = torch.arange(60).reshape(20, 3) % 11
    inputs = {"input_ids": tokens, "attention_mask": torch.ones(20, 3, dtype=torch.long)}
    data = inputs, torch.arange(20) % 2
    posterior = fit(Tokens(), data)
    posterior.save(tmp_path / "p")
    sbmc.load(tmp_path / "p", Tokens())
    with pytest.raises(BadInput, match="whose outputs differ"):
        sbmc.load(tmp_path / "p", Tokens(torch.relu))
    with pytest.raises(BadInput, match=FORWARD):
        sbmc.merge([posterior, fit(Tokens(torch.relu), data, first_island=2)])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types(tmp_path, dtype):
    fit(Net().to(dtype), dtype=dtype).save(tmp_path / "p")
    sbmc.load(tmp_path / "p", Net().to(dtype))
    with pytest.raises(BadInput, match="whose outputs differ"):
        sbmc.load(tmp_path / "p", Net(functional.softplus).to(dtype))


# What was written before


def test_a_checkpoint_of_before_goes_on(tmp_path):
    first = fit(checkpoint=tmp_path)
    path = tmp_path / "manifest.json"
    content = json.loads(path.read_text())
    del content["digest"], content["identity"]["probe"]
    path.write_text(json.dumps({**content, "digest": json_digest(content)}))
    assert torch.equal(fit(checkpoint=tmp_path).positions, first.positions)


def test_a_posterior_of_before_is_loaded_and_merged(tmp_path):
    fit().save(tmp_path / "new")
    with safe_open(tmp_path / "new", framework="pt") as file:
        words = json.loads(file.metadata()["sbmc"])
    del words["probe"], words["settings"]["probe"]
    text, tensors = json.dumps(words), load_file(tmp_path / "new")
    save_file(
        tensors, tmp_path / "old", metadata={"sbmc": text, "digest": contents_digest(text, tensors)}
    )
    old = sbmc.load(tmp_path / "old", Net())
    assert len(sbmc.merge([old, fit(first_island=2)]).islands) == 4
    assert len(sbmc.merge([fit(first_island=2), old]).islands) == 4


# What it costs


def test_few_rows_are_evaluated():
    seen = []

    class Counted(Net):
        def forward(self, x):
            seen.append(len(x))
            return super().forward(x)

    data = X.repeat(100, 1), Y.repeat(100)
    fit(Counted(), data, s=0)
    assert sum(seen) < 40


def test_a_likelihood_that_fails_beside_the_anchor_is_sampled_all_the_same():
    anchor = Net()(X).detach()

    def picky(outputs, targets):
        if (outputs.detach() - anchor[: len(outputs)]).abs().max() > 0.5 and len(outputs) == 3:
            raise RuntimeError("too far")
        return scores(outputs, targets)

    posterior = fit(likelihood=picky, path="loop")
    assert posterior.settings["probe"]["outputs"]
    assert not posterior.settings["probe"]["log_likelihood"]


class Flat(Net):
    def forward(self, x):
        return super().forward(x)[:, 0]


def test_outputs_without_an_axis_of_their_own(tmp_path):
    def squares(outputs, targets):
        return -(outputs - targets).square()

    posterior = fit(Flat(), (X, X[:, 1]), likelihood=squares)
    posterior.save(tmp_path / "p")
    sbmc.load(tmp_path / "p", Flat(), likelihood=squares)
    with pytest.raises(BadInput, match="`likelihood` must be the callable"):
        sbmc.load(tmp_path / "p", Flat(), likelihood=lambda o, t: 2 * squares(o, t))
