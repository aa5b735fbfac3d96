"""Graphs of torch.export: they answer as `predict` does, for any number of rows."""

import json
import re
import subprocess
import sys
import zipfile

import export_cases as cases
import pytest
import torch
from torch import nn
from torch.distributions import Laplace

import sbmc
from sbmc.checks import BadInput
from sbmc.posterior.export import export as module
from sbmc.posterior.export.formats import METADATA_FILE, Onnx


def loaded(path):
    extra = {METADATA_FILE: ""}
    program = torch.export.load(path, extra_files=extra)
    described = json.loads(extra[METADATA_FILE])

    def answer(inputs):
        return dict(
            zip(described["outputs"], program.module()(*cases.tensors_of(inputs)), strict=True)
        )

    return answer, described


@pytest.mark.parametrize(
    "name", ["mlp", "cnn", "lstm", "attention", "named inputs", "several labels"]
)
def test_classes(name, tmp_path):
    posterior = cases.posterior(name)
    exported = posterior.export(tmp_path / "a.pt2", abstain=("epistemic", 0.01))
    answer, _ = loaded(exported.path)
    for count in (1, 2, 11):
        x = cases.new_rows(posterior, count)
        prediction = posterior.predict(x)
        answers = answer(x)
        assert cases.largest_gap(answers, prediction) < 1e-5
        flags = prediction.epistemic >= 0.01
        wanted = flags if flags.ndim == 1 else flags.any(1)
        assert answers["abstain"].tolist() == wanted.tolist()
    assert exported.unrolled == (name in ("cnn", "lstm"))


def test_numbers(tmp_path):
    posterior = cases.posterior("learned noise")
    exported = posterior.export(tmp_path / "a.pt2", interval=0.8, abstain=("deviation", 3.0))
    answer, described = loaded(exported.path)
    x = cases.new_rows(posterior, 5)
    prediction = posterior.predict(x)
    assert cases.largest_gap(answer(x), prediction, 0.8) < 1e-5
    assert described["interval"] == "0.8"
    assert exported.inputs == ("inputs",)
    assert not exported.unrolled


LIKELIHOODS = {
    "student-t": (sbmc.StudentT(), cases.NUMBERS[:, :1] - 100),
    "poisson": ("poisson", cases.LABELS.float().unsqueeze(1)),
    "laplace": (sbmc.Likelihood.of(lambda o: Laplace(o, 0.5)), cases.NUMBERS[:, :1] - 100),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_other_noise_has_mean_and_variances_but_no_interval(name, tmp_path):
    likelihood, targets = LIKELIHOODS[name]
    posterior = cases.sampled(lambda: cases.dense(1), (cases.TABLE, targets), likelihood=likelihood)
    with pytest.raises(BadInput, match="`interval` must be None for the likelihood"):
        posterior.export(tmp_path / "a.pt2")
    exported = posterior.export(tmp_path / "a.pt2", interval=None, abstain=("deviation", 2.0))
    x = cases.new_rows(posterior, 5)
    answers, prediction = loaded(exported.path)[0](x), posterior.predict(x)
    for part in ("mean", "total", "aleatoric", "epistemic"):
        wanted = getattr(prediction, part)
        assert torch.allclose(answers[part].double(), wanted, rtol=1e-5, atol=1e-5)
    assert exported.outputs == ("mean", "total", "aleatoric", "epistemic", "abstain")


ALONE = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "sbmc":
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
import torch

program = torch.export.load(sys.argv[1]).module()
print([part.shape[0] for part in program(torch.zeros(5, 4))])
"""


@pytest.mark.integration
def test_it_opens_without_sbmc(tmp_path):
    exported = cases.posterior("mlp").export(tmp_path / "a.pt2")
    command = [sys.executable, "-c", ALONE, str(exported.path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[5, 5, 5, 5]"


def test_a_distilled_network(tmp_path):
    distilled = cases.distilled("mlp")
    exported = distilled.export(tmp_path / "a.pt2", abstain=("error", 0.3))
    answer, described = loaded(exported.path)
    x = cases.new_rows(distilled, 6)
    answers = answer(x)
    assert cases.largest_gap(answers, distilled.predict(x)) < 1e-5
    assert not any(each.requires_grad for each in answers.values())
    assert next(distilled.network.parameters()).requires_grad  # the network itself is unchanged
    assert described["what"] == "one network for classes, distilled from 8"
    assert "KL from the teacher" in described["fidelity"]
    assert described["health"] == str(cases.posterior("mlp").health)


def test_the_file_says_what_it_is(tmp_path):
    posterior = cases.posterior("mlp")
    exported = posterior.export(tmp_path / "a.pt2", abstain=("epistemic", 0.25))
    described = loaded(exported.path)[1]
    assert described["what"] == "posterior of 8 networks for classes"
    assert described["made_by"] == f"sbmc {sbmc.__version__}"
    assert described["health"] == str(posterior.health)
    assert described["abstain_quantity"] == "epistemic"
    assert float(described["abstain_threshold"]) == 0.25
    assert "nats" in described["units"]
    assert list(json.loads(described["outputs_meaning"])) == described["outputs"]
    assert re.match(r".*a\.pt2 \(torch\.export, .* differs from predict by .*e-", str(exported))


def test_the_file_names_no_path_of_this_machine(tmp_path):
    path = cases.posterior("mlp").export(tmp_path / "a.pt2").path
    with zipfile.ZipFile(path) as archive:
        content = b"".join(archive.read(name) for name in archive.namelist())
    assert str(cases.__file__).rpartition("/")[0].encode() not in content
    assert b"site-packages" not in content


def test_rows_may_be_given_where_shapes_are_not_known(tmp_path):
    fitted = cases.posterior("mlp")
    unknown = sbmc.Posterior(
        fitted.model,
        fitted.space,
        fitted.likelihood,
        fitted.positions,
        log_evidence=fitted.log_evidence,
        islands=fitted.islands,
        cost=fitted.cost,
        settings={},
    )
    with pytest.raises(BadInput, match=r"`inputs` must be given .* inputs=x\[:2\]"):
        unknown.export(tmp_path / "a.pt2")
    exported = unknown.export(tmp_path / "a.pt2", inputs=cases.TABLE[:1])
    x = cases.new_rows(fitted, 4)
    assert cases.largest_gap(loaded(exported.path)[0](x), fitted.predict(x)) < 1e-5


def test_particles_without_weight_are_left_out(tmp_path):
    thinned = cases.posterior("mlp").thin(3, cases.TABLE)
    exported = thinned.export(tmp_path / "a.pt2")
    assert loaded(exported.path)[1]["networks"] == str(int((thinned.weights > 0).sum()))
    x = cases.new_rows(cases.posterior("mlp"), 3)
    assert cases.largest_gap(loaded(exported.path)[0](x), thinned.predict(x)) < 1e-5


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("a.pth", r".onnx (ONNX) or .pt2 (torch.export), but got"),
        ("gone/a.pt2", "in an existing folder"),
        (5, "the path of a file"),
    ],
)
def test_paths_that_are_refused(path, words, tmp_path):
    given = tmp_path / path if isinstance(path, str) else path
    with pytest.raises(BadInput, match=re.escape(words)):
        cases.posterior("mlp").export(given)


def test_an_interval_that_is_no_probability_is_refused(tmp_path):
    with pytest.raises(BadInput, match="`interval` must be between 0 and 1"):
        cases.posterior("learned noise").export(tmp_path / "a.pt2", interval=90)


class LooksAtValues(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x) if float(x.sum()) > -1e9 else self.layer(-x)


def test_a_network_that_cannot_be_traced_is_refused_and_nothing_is_written(tmp_path):
    one_by_one = sbmc.Compute(path="loop")
    posterior = cases.sampled(LooksAtValues, (cases.TABLE, cases.LABELS), compute=one_by_one)
    (tmp_path / "a.pt2").write_text("before")
    with pytest.raises(BadInput, match=r"torch\.export, and .*posterior\.distil\(\)"):
        posterior.export(tmp_path / "a.pt2")
    assert [each.name for each in tmp_path.iterdir()] == ["a.pt2"]
    assert (tmp_path / "a.pt2").read_text() == "before"


def test_a_graph_with_a_part_for_each_of_many_networks_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_UNROLLED", 7)
    with pytest.raises(BadInput, match=r"at most 7 particles .* got 8\. .*posterior\.thin\(7\)"):
        cases.posterior("lstm").export(tmp_path / "a.pt2")
    assert not list(tmp_path.iterdir())


def test_wrong_answers_are_not_written(tmp_path, monkeypatch):
    right = module.ClassMixture.forward

    def planted(self, outputs):  # a mixture that forgets the weights of its particles
        self.weights = torch.full_like(self.weights, 1 / len(self.weights))
        return right(self, outputs)

    uneven = cases.posterior("mlp").thin(3, cases.TABLE)
    monkeypatch.setattr(module.ClassMixture, "forward", planted)
    with pytest.raises(BadInput, match="its answers differ from those of predict by"):
        uneven.export(tmp_path / "a.pt2")
    assert not list(tmp_path.iterdir())


def test_weights_that_one_onnx_file_cannot_have_are_refused(monkeypatch):
    monkeypatch.setattr("sbmc.posterior.export.formats.load_onnx", lambda: None)
    with pytest.raises(BadInput, match=r"less than 2 GB .* got weights of 3 GB.*posterior\.thin"):
        Onnx().prepare(3_000_000_000)
