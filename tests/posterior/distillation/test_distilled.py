"""A distilled network as an object: its predictions, its file, and what it shows of itself."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import sbmc
from sbmc import BadInput, Distilled
from sbmc.posterior.distillation.distilled import DistilledNetwork
from sbmc.posterior.distillation.fidelity import Fidelity
from sbmc.posterior.distillation.heads import ClassHeads, NumberHeads
from sbmc.posterior.distillation.student import Architecture, build_student

INPUTS = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
LOST = Fidelity(10, 0.01, 0.9, 0.8)


def own_network():
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))


def made(kind):
    heads = ClassHeads(2)
    if kind == "numbers":
        heads = NumberHeads(torch.tensor([7.0]), torch.tensor([3.0]))
    architecture = None if kind == "own" else Architecture((4,), heads.columns)
    student = own_network()
    if architecture is not None:
        student = build_student(architecture, torch.float32, 5, INPUTS)
    network = DistilledNetwork(student, heads).eval()
    return Distilled(network, LOST, {"particles": 80, "rows": 3}, architecture)


@pytest.mark.parametrize("kind", ["classes", "numbers", "own"])
def test_a_file_gives_the_same_bits(kind, tmp_path):
    distilled = made(kind)
    distilled.save(tmp_path / "file")
    again = Distilled.load(tmp_path / "file", own_network() if kind == "own" else None)
    first, second = distilled.predict(INPUTS), again.predict(INPUTS)
    assert torch.equal(first.mean, second.mean)
    assert torch.equal(first.epistemic, second.epistemic)
    assert (again.fidelity, again.settings) == (distilled.fidelity, distilled.settings)
    assert again.architecture == distilled.architecture


def test_files_that_are_not_right_are_refused_in_words(tmp_path):
    path = tmp_path / "file"
    made("classes").save(path)
    with pytest.raises(BadInput, match="left out: the file has its own architecture"):
        Distilled.load(path, own_network())
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(BadInput, match="its contents have changed since"):
        Distilled.load(path)
    path.write_bytes(b"nothing")
    with pytest.raises(BadInput, match=r"Distil the posterior again"):
        Distilled.load(path)
    with pytest.raises(BadInput, match="an existing file"):
        Distilled.load(tmp_path / "other")
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(BadInput, match=r"a file that Distilled\.save wrote"):
        Distilled.load(path)
    with pytest.raises(BadInput, match="in an existing folder"):
        made("classes").save(tmp_path / "no" / "file")


def test_a_posteriors_file_is_no_distilled_network(tmp_path):
    posterior = sbmc.fit(nn.Linear(4, 2), (INPUTS, torch.arange(30) % 2), s=0.0)
    posterior.save(tmp_path / "file")
    with pytest.raises(BadInput, match="of format sbmc-posterior"):
        Distilled.load(tmp_path / "file")
    made("classes").save(tmp_path / "distilled")
    with pytest.raises(BadInput, match=r"a file that Posterior\.save wrote"):
        sbmc.load(tmp_path / "distilled", nn.Linear(4, 2))


def test_a_network_of_ones_own_is_asked_for_and_compared(tmp_path):
    made("own").save(tmp_path / "file")
    with pytest.raises(BadInput, match="whose code is not in the file"):
        Distilled.load(tmp_path / "file")
    with pytest.raises(BadInput, match="one with other weights"):
        Distilled.load(tmp_path / "file", nn.Linear(4, 3))


def test_batches_and_forms_of_inputs_give_the_same_answers():
    distilled = made("classes")
    expected = distilled.predict(INPUTS).probs
    loader = DataLoader(TensorDataset(INPUTS, torch.zeros(30)), batch_size=7)
    forms = {
        "array": INPUTS.numpy(),
        "doubles": INPUTS.double().numpy(),
        "loader": loader,
        "data set": TensorDataset(INPUTS),
    }
    for name, inputs in forms.items():
        torch.testing.assert_close(distilled.predict(inputs).probs, expected, msg=name)
    torch.testing.assert_close(distilled.predict(INPUTS, batch_size=4).probs, expected)
    numbers = made("numbers")
    joined = numbers.predict(INPUTS, batch_size=4)
    torch.testing.assert_close(joined.interval().lower, numbers.predict(INPUTS).interval().lower)


@pytest.mark.parametrize(
    ("inputs", "options"),
    [(INPUTS[:0], {}), (np.full((2, 4), np.nan), {}), (INPUTS, {"batch_size": 0})],
)
def test_bad_inputs_are_refused(inputs, options):
    with pytest.raises(BadInput):
        made("classes").predict(inputs, **options)


def test_predictions_leave_no_graph_and_can_be_trained_on():
    probs = made("classes").predict(INPUTS).probs
    assert not probs.requires_grad
    assert not probs.is_inference()


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_the_network_is_a_plain_module_that_torch_can_export(kind):
    distilled = made(kind)
    rows = torch.export.Dim("rows", min=2)
    graph = torch.export.export(
        distilled.network, (INPUTS,), dynamic_shapes={"inputs": ({0: rows},)}
    )
    expected = distilled.predict(INPUTS[:11])
    mean, total, aleatoric, epistemic = graph.module()(INPUTS[:11])
    torch.testing.assert_close(mean, expected.mean)
    torch.testing.assert_close(epistemic, expected.epistemic)
    torch.testing.assert_close(aleatoric + epistemic, total)


def test_what_it_shows_of_itself():
    distilled = made("classes")
    assert repr(distilled).startswith(
        "Distilled(classes, weights=5,283; KL from the teacher on 10 "
    )
    page = re.sub(' style="[^"]*"', "", distilled._repr_html_())
    assert "<td>80 networks</td>" in page
    assert "96 units, 48 units, 3 outputs" in page
    assert "<td>90.0%</td>" in page
