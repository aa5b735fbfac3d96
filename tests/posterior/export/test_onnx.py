"""Graphs in ONNX Runtime: equal to `predict`, and in a process that has neither sbmc nor torch."""

import importlib.util
import json
import os
import subprocess
import sys

import export_cases as cases
import numpy as np
import pytest
import torch
from torch import nn

import sbmc
from sbmc.checks import BadInput

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.integration,
    # In CI they are required: a test that is skipped there would never run.
    pytest.mark.skipif(
        bool(missing) and not os.environ.get("CI"),
        reason=f"pip install 'sbmc[onnx]': {', '.join(missing)} missing",
    ),
]


def opened(path):
    import onnxruntime

    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def answers_of(path, inputs):
    session = opened(path)
    names = [each.name for each in session.get_inputs()]
    fed = {name: t.numpy() for name, t in zip(names, cases.tensors_of(inputs), strict=True)}
    found = session.run(None, fed)
    return dict(zip([each.name for each in session.get_outputs()], found, strict=True))


@pytest.mark.parametrize("name", list(cases.CASES))
def test_a_posterior_in_onnx_runtime(name, tmp_path):
    posterior = cases.posterior(name)
    exported = posterior.export(tmp_path / "a.onnx", abstain=("total", 0.5))
    for count in (1, 17):
        x = cases.new_rows(posterior, count)
        prediction = posterior.predict(x)
        answers = answers_of(exported.path, x)
        assert tuple(answers) == exported.outputs
        assert cases.largest_gap(answers, prediction) < 1e-5
        flags = (prediction.total >= 0.5).flatten(1).any(1) if prediction.total.ndim > 1 else None
        wanted = prediction.total >= 0.5 if flags is None else flags
        assert answers["abstain"].tolist() == wanted.tolist()
    assert exported.unrolled == (name in ("cnn", "lstm"))


@pytest.mark.parametrize("name", ["mlp", "learned noise"])
def test_a_distilled_network_in_onnx_runtime(name, tmp_path):
    distilled = cases.distilled(name)
    exported = distilled.export(tmp_path / "a.onnx")
    x = cases.new_rows(distilled, 9)
    assert cases.largest_gap(answers_of(exported.path, x), distilled.predict(x)) < 1e-5


def test_the_score_of_a_confidence(tmp_path):
    posterior = cases.sampled(lambda: cases.dense(3), (cases.TABLE, cases.LABELS))
    confidence = posterior.confidence((cases.TABLE, cases.LABELS), 4 * cases.TABLE)
    exported = posterior.export(tmp_path / "a.onnx")
    x = cases.new_rows(posterior, 50)
    answers = answers_of(exported.path, x)
    assert np.abs(answers["score"] - confidence.score(x).numpy()).max() < 1e-5
    assert answers["abstain"].tolist() == confidence.abstain(x).tolist()
    assert 0 < answers["abstain"].sum() < 50


def test_the_score_of_an_interval(tmp_path):
    posterior = cases.sampled(lambda: cases.dense(2), (cases.TABLE, cases.NUMBERS))
    confidence = posterior.confidence((cases.TABLE, cases.NUMBERS), width=[200.0, 150.0])
    exported = posterior.export(tmp_path / "a.onnx", interval=None)
    x = cases.new_rows(posterior, 30)
    answers = answers_of(exported.path, x)
    assert np.abs(answers["score"] - confidence.score(x).numpy()).max() < 1e-5
    assert answers["abstain"].tolist() == confidence.abstain(x).tolist()
    assert exported.outputs == ("mean", "total", "aleatoric", "epistemic", "score", "abstain")


def test_tables_in_original_units(tmp_path):
    rng = np.random.default_rng(0)
    table = rng.normal(1e6, 3.0, size=(60, 3))
    target = 1e3 + table[:, 0] - 1e6 + rng.normal(size=60)
    estimator = sbmc.SBMCRegressor(random_state=0).fit(table, target)
    posterior = estimator.posterior_
    exported = posterior.export(tmp_path / "a.onnx")
    session = opened(exported.path)
    assert session.get_inputs()[0].type == "tensor(double)"
    answers = answers_of(exported.path, torch.from_numpy(table[:7]))
    assert cases.largest_gap(answers, posterior.predict(table[:7])) < 1e-5


def test_the_file_says_what_it_is(tmp_path):
    posterior = cases.posterior("learned noise")
    exported = posterior.export(tmp_path / "a.onnx", interval=0.8, abstain=("width", 2))
    session = opened(exported.path)
    described = session.get_modelmeta().custom_metadata_map
    assert described["what"] == "posterior of 8 networks for numbers"
    assert described["health"] == str(posterior.health)
    assert described["abstain_where"].endswith("is at least 2")
    assert json.loads(described["likelihood"]) == posterior.likelihood.describe()
    assert list(json.loads(described["outputs_meaning"])) == list(exported.outputs)
    shapes = [each.shape for each in (*session.get_inputs(), *session.get_outputs())]
    assert [shape[0] for shape in shapes] == ["batch"] * 8
    content = exported.path.read_bytes()
    assert b"site-packages" not in content
    assert str(cases.__file__).rpartition("/")[0].encode() not in content


ALONE = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("sbmc", "torch", "onnx", "onnxscript"):
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
import json
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
rows = np.load(sys.argv[2])
names = [each.name for each in session.get_outputs()]
answers = dict(zip(names, session.run(None, {session.get_inputs()[0].name: rows})))
assert not {"sbmc", "torch"} & set(sys.modules)
print(json.dumps({name: each.tolist() for name, each in answers.items()}))
"""


@pytest.mark.parametrize("name", ["mlp", "learned noise"])
def test_it_runs_without_sbmc_and_without_torch(name, tmp_path):
    posterior = cases.posterior(name)
    exported = posterior.export(tmp_path / "a.onnx")
    x = cases.new_rows(posterior, 5)
    np.save(tmp_path / "rows.npy", x.numpy())
    command = [sys.executable, "-c", ALONE, str(exported.path), str(tmp_path / "rows.npy")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert cases.largest_gap(json.loads(done.stdout), posterior.predict(x)) < 1e-5


def test_an_operation_that_the_runtime_lacks_is_refused(tmp_path):
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 2)).double()
    data = cases.PICTURES.double(), (cases.LABELS[:30] > 0).long()
    posterior = cases.sampled(lambda: network, data)
    assert posterior.export(tmp_path / "a.pt2").difference < 1e-10
    # ONNX Runtime has no convolution in float64.
    with pytest.raises(BadInput, match=r"got ONNX, and .*Conv.*posterior\.distil\(\)"):
        posterior.export(tmp_path / "a.onnx")
    assert not (tmp_path / "a.onnx").exists()


def test_nothing_of_the_exporter_is_printed(tmp_path, caplog, capfd):
    cases.posterior("mlp").export(tmp_path / "a.onnx")
    assert [each.message for each in caplog.records if each.levelname == "WARNING"] == []
    assert capfd.readouterr() == ("", "")
