"""What is below the sampled parameters is computed once, with the same result."""

from __future__ import annotations

import copy
import importlib
import tempfile
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import sbmc
from sbmc.model import frozen_part
from sbmc.model.cutting import TopPart
from sbmc.model.data import rows
from sbmc.model.forward import build_forward
from sbmc.model.frozen_part import BODY_BATCH, split_model
from sbmc.model.loop import LoopForward
from sbmc.model.parameters import select_parameters
from sbmc.storage.mapped import is_mapped


class Net(nn.Module):
    """A body that notes each batch it is given, and a head."""

    batches: list[int] = []  # noqa: RUF012 (shared by the copies that are made of the model)

    def __init__(self, end=lambda logits: logits):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.5))
        self.head = nn.Linear(6, 3)
        self.end = end

    def forward(self, x):
        Net.batches.append(len(x))
        return self.end(self.head(self.body(x)))


@pytest.fixture
def data():
    Net.batches.clear()
    noise = torch.Generator().manual_seed(1)
    return torch.randn(20, 4, generator=noise), torch.randint(3, (20,), generator=noise)


def in_place(logits):
    logits *= 2
    return logits


def split(net, inputs, parameters="last"):
    return split_model(net, select_parameters(net, parameters), inputs)


@pytest.mark.parametrize("parameters", ["last", "head.weight", "head.bias"])
def test_the_head_on_features_gives_what_the_model_gives(data, parameters):
    net = Net()
    space = select_parameters(net, parameters)
    cut = split_model(net, space, data[0])
    assert cut is not None
    theta = torch.randn(5, space.dim)
    forward = build_forward(cut.head, cut.space, cut.features(data[0][:2]))
    assert forward.path == "fused"
    expected = LoopForward(net, space)(theta, data[0])
    torch.testing.assert_close(forward(theta, cut.features(data[0])), expected)


def test_features_go_through_in_batches():
    Net.batches.clear()
    inputs = torch.randn(2 * BODY_BATCH + 3, 4)
    cut = split(Net(), inputs)
    Net.batches.clear()
    assert cut.features(inputs).shape == (len(inputs), 6)
    assert Net.batches == [BODY_BATCH, BODY_BATCH, 3]
    assert not cut.features(inputs).requires_grad


def test_objects_with_logits_are_cut_too(data):
    assert split(Net(lambda logits: SimpleNamespace(logits=logits)), data[0]) is not None


class Twice(Net):
    def forward(self, x):
        return self.head(self.body(x)) + self.head(self.body(-x))


class TiedHead(nn.Module):
    """The head's weights are also the body's, under a name that comes later."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 4, bias=False)
        self.body = nn.Linear(4, 4, bias=False)
        self.body.weight = self.head.weight

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


class Keyword(Net):
    def forward(self, x):
        return self.head(input=self.body(x))


class Sampled(Net):
    """Cannot be recorded: its code looks at values."""

    def forward(self, x):
        logits = super().forward(x)
        return logits if logits.sum().item() > -1e9 else -logits


@pytest.mark.parametrize(
    ("build", "parameters"),
    [
        (Net, "all"),
        (Net, "body.0"),  # the first layer: there is nothing in front of it
        (TiedHead, "all"),
        (lambda: nn.Linear(4, 3), "last"),
        (lambda: Sampled(torch.relu), "last"),
    ],
)
def test_models_that_cannot_be_cut(build, parameters, data):
    assert split(build(), data[0], parameters) is None


def test_a_model_that_cannot_be_recorded_says_so(data, caplog):
    with caplog.at_level("INFO", "sbmc"):
        assert split(Sampled(torch.relu), data[0]) is None
    assert "computed at every step (Python code that looks at values)" in caplog.text


class Residual(nn.Module):
    """Blocks whose inputs are added to what they give, with attention across a mask."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, 8)
        block = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
        self.blocks = nn.ModuleList(copy.deepcopy(block) for _ in range(3))
        for layer in self.blocks:
            nn.init.normal_(layer.linear1.weight)
        self.down, self.up = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)
        self.fc = nn.Linear(8, 3)

    def forward(self, ids):
        hidden = ids == 0
        hidden = hidden & ~hidden.all(1, keepdim=True)
        x = self.words(ids)
        for block in self.blocks[:-1]:
            x = block(x, src_key_padding_mask=hidden)
        x = x + self.up(self.down(x))
        x = self.blocks[-1](x, src_key_padding_mask=hidden)
        return self.fc(x.mean(1))


def sentences():
    noise = torch.Generator().manual_seed(2)
    return torch.randint(9, (7, 5), generator=noise), torch.randint(3, (7,), generator=noise)


CUTS = [
    (lambda: Net(torch.relu), "last", None),
    (lambda: Net(in_place), "last", None),
    (Twice, "last", None),
    (Keyword, "last", None),
    (Residual, "fc", sentences),
    (Residual, r"blocks\.2\.|fc", sentences),
    (Residual, "down|up", sentences),  # an adapter: values cross beside it
    (Residual, r"blocks\.1\.norm2", sentences),
]


@pytest.mark.parametrize(("build", "parameters", "inputs"), CUTS)
def test_the_cut_model_is_the_model_in_values_and_gradients(build, parameters, inputs, data):
    torch.manual_seed(0)
    net = build().double()
    space = select_parameters(net, parameters)
    batch = data[0].double() if inputs is None else inputs()[0]
    cut = split_model(net, space, batch)
    assert cut is not None
    features = cut.features(batch)
    theta = (space.flatten(net) + 0.1 * torch.randn(3, space.dim).double()).requires_grad_()
    forward = build_forward(cut.head, cut.space, rows(features, 0, 2))
    assert forward.path == "fused"
    outputs = forward(theta, features)
    expected = LoopForward(net, space)(theta, batch)
    torch.testing.assert_close(outputs, expected, rtol=1e-9, atol=1e-10)
    slopes = [torch.autograd.grad((each.sin() * 3).sum(), theta)[0] for each in (outputs, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-8, atol=1e-9)


def test_work_below_the_cut_is_not_done_again(data):
    net = Residual()
    cut = split_model(net, select_parameters(net, "down|up"), sentences()[0])
    kinds = [operation.kind for operation in cut.head.recording.operations]
    assert kinds.count("aten.scaled_dot_product_attention") == 1  # of three
    assert "aten.embedding" not in kinds


def test_features_may_be_kept_in_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    inputs = torch.randn(2 * BODY_BATCH + 3, 4)
    cut = split(Net(), inputs)
    mapped, plain = cut.features(inputs, on_disk=True), cut.features(inputs)
    assert torch.equal(mapped, plain)
    assert (is_mapped(mapped), is_mapped(plain)) == (True, False)
    assert list(tmp_path.iterdir()) == []  # it has no name


def test_large_features_go_to_a_file(data, monkeypatch):
    on_disk = []

    def note(like, examples, asked):
        on_disk.append(asked)
        return like.new_empty((examples, *like.shape[1:]))

    monkeypatch.setattr("sbmc.model.frozen_part._room", note)
    fitted(Net(), data)
    assert on_disk == []  # one batch, in memory
    monkeypatch.setattr("sbmc.target.builder.MOST_IN_MEMORY", 100)
    fitted(Net(), data)
    assert on_disk == [True]


@pytest.mark.parametrize("executor", [None, sbmc.Processes(workers=1)])
def test_adapters_are_sampled_as_without_a_cut(executor, monkeypatch):
    torch.manual_seed(0)
    net = Residual().double()
    compute = sbmc.Compute(executor=executor)
    cut = fitted(net, sentences(), "down|up", compute=compute)
    assert cut.predict(sentences()[0]).probs.shape == (7, 3)
    if executor is None:
        for module in ("sbmc.target.builder", "sbmc.model.predicting"):
            monkeypatch.setattr(importlib.import_module(module), "split_model", lambda *_: None)
    plain = fitted(net, sentences(), "down|up", compute=sbmc.Compute())
    torch.testing.assert_close(cut.positions, plain.positions, rtol=1e-8, atol=1e-10)


def test_a_wrong_cut_is_found_out(monkeypatch, caplog):
    def wrong(self, *features):
        return TopPart.forward(self, *(each.flip(0) for each in features))

    monkeypatch.setattr(frozen_part, "TopPart", type("Wrong", (TopPart,), {"forward": wrong}))
    net = Residual()
    with caplog.at_level("INFO", "sbmc"):
        assert split_model(net, select_parameters(net, "down|up"), sentences()[0]) is None
    assert "gives something else" in caplog.text


def fitted(net, data, parameters="last", **options):
    settings = {"sampler": sbmc.HMC(steps=4, leapfrog=2, step_size=0.1), "particles": 3}
    return sbmc.fit(net, data, parameters=parameters, **settings, **options)


def test_the_body_runs_once_over_the_data_however_long_the_sampling(data):
    net = Net()
    posterior = fitted(net, data)
    # Besides, a few examples on which the model is tried.
    assert Net.batches.count(20) == 1
    assert all(size <= 3 for size in Net.batches if size != 20)
    Net.batches.clear()
    posterior.predict(data[0])
    assert Net.batches.count(20) == 1


def test_cached_is_uncached(data, monkeypatch):
    net = Net().double()
    cached = fitted(net, data)
    for module in ("sbmc.target.builder", "sbmc.model.predicting"):
        monkeypatch.setattr(importlib.import_module(module), "split_model", lambda *_: None)
    plain = fitted(net, data)
    assert plain.settings["kernel"] is None  # where the head alone would have one
    assert cached.settings["kernel"] is not None
    torch.testing.assert_close(cached.positions, plain.positions, rtol=1e-9, atol=1e-12)
    ours, theirs = cached.predict(data[0]).probs, plain.predict(data[0]).probs
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("build", [lambda: Sampled(torch.tanh), lambda: Net(torch.tanh), Twice])
def test_sampling_the_last_layer_where_nothing_can_be_cached(build, data):
    posterior = fitted(build(), data)
    assert posterior.positions.shape == (1, 3, 21)
    assert posterior.predict(data[0]).probs.shape == (20, 3)
