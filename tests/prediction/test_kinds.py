"""What type checkers say of users' files: right ones pass, wrong ones do not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT

from sbmc.fitting.request import FitOptions, FitRequest
from sbmc.likelihoods.choice import NAMED, OfClasses, OfNumbers

BEGINNING = """\
import sbmc
import torch
from torch import Tensor, nn

net = nn.Linear(2, 3)
x = torch.randn(20, 2)
data = x, torch.randint(3, (20,))

"""

GOOD = (
    BEGINNING
    + """\
posterior = sbmc.fit(net, data)
probs: Tensor = posterior.predict(x).probs
labels: Tensor = posterior.predict(x).labels

numbers = sbmc.fit(net, (x, torch.randn(20, 3)), particles=4, progress=False)
mean: Tensor = numbers.predict(x).mean
lower: Tensor = numbers.predict(x).interval(0.9).lower
cdf: Tensor = numbers.predict(x).cdf(mean)

classes = sbmc.fit(net, data, likelihood=sbmc.Categorical(), s=0.1, sampler=sbmc.HMC(steps=2))
classes.predict(x).probs.sum()
sbmc.merge([classes, classes]).first(1).reweighted("equal").predict(x).probs.sum()
prediction: sbmc.Prediction = classes.predict(x)
sbmc.fit(net, data, likelihood="gaussian").predict(x).interval().width.mean()
known: sbmc.Posterior[sbmc.Prediction] = sbmc.fit(net, data)
sbmc.load("file", net).predict(x).probs.sum()
sbmc.train_ensemble(net, data, members=2).posterior().predict(x).mean.sum()
sbmc.SBMCClassifier().fit(x, x).predictive(x).probs.sum()
sbmc.SBMCRegressor().fit(x, x).predictive(x).cdf(x)


def entropy(posterior: sbmc.Posterior) -> Tensor:
    answer: Tensor = posterior.predict(torch.zeros(1, 2)).total
    return answer


def density(outputs: Tensor, targets: Tensor) -> Tensor:
    return -(outputs - targets).square().sum(1)


entropy(classes)
entropy(sbmc.fit(net, data, likelihood=density))
"""
)

# A line, and what mypy says of it.
WRONG = {
    'sbmc.fit(net, data, likelihood="gaussian").predict(x).probs': 'has no attribute "probs"',
    "sbmc.fit(net, data, likelihood=sbmc.StudentT()).predict(x).probs": 'no attribute "probs"',
    "sbmc.fit(net, data, likelihood=sbmc.Categorical()).predict(x).cdf(x)": 'no attribute "cdf"',
    "sbmc.SBMCRegressor().fit(x, x).predictive(x).probs": 'has no attribute "probs"',
    "sbmc.fit(net, data).predict(x).probabilities": 'has no attribute "probabilities"',
    "sbmc.fit(net, data, particle=3)": 'did you mean "particles"?',
    'sbmc.fit(net, data, particles="3")': "No overload variant",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("users")
    (folder / "good.py").write_text(GOOD)
    (folder / "wrong.py").write_text(BEGINNING + "\n".join(WRONG) + "\n")
    return folder


def complaints(output: str) -> dict[tuple[str, int], str]:
    """What a checker says, by file and line."""
    found: dict[tuple[str, int], str] = {}
    for line in output.splitlines():
        place, error, message = line.strip().partition(" error: ")
        if error:
            name, number = Path(place.split(":")[0]).name, int(place.split(":")[1])
            found[name, number] = found.get((name, number), "") + message + "\n"
    return found


def wrong_lines() -> dict[tuple[str, int], str]:
    first = BEGINNING.count("\n") + 1
    return {("wrong.py", first + k): text for k, text in enumerate(WRONG.values())}


@pytest.mark.integration  # half a minute, until its cache is there
def test_mypy_accepts_right_files_and_refuses_wrong_ones(files):
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
    cache = f"--cache-dir={ROOT / '.mypy_cache' / 'users'}"
    done = subprocess.run(
        [*command, cache, "good.py", "wrong.py"],
        cwd=files,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    found, expected = complaints(done.stdout), wrong_lines()
    assert found.keys() == expected.keys(), done.stdout
    assert all(text in found[line] for line, text in expected.items()), done.stdout


@pytest.mark.integration
@pytest.mark.skipif(not shutil.which("pyright"), reason="pyright is not installed")
def test_pyright_accepts_right_files_and_refuses_wrong_ones(files):
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    (files / "pyrightconfig.json").write_text(
        '{"typeCheckingMode": "strict", "reportUnusedImport": "none", '
        f'"extraPaths": ["{ROOT}", "{packages}"]}}'
    )
    done = subprocess.run(["pyright"], cwd=files, capture_output=True, text=True)
    assert complaints(done.stdout.replace(" - error", ": error")).keys() == wrong_lines().keys()


def test_the_options_that_a_checker_sees_are_those_of_the_request():
    stated = dict(FitOptions.__annotations__)
    fields = dict(FitRequest.__annotations__)
    for name in ("model", "data", "_", "likelihood"):
        fields.pop(name)
    assert {name: each.__forward_arg__ for name, each in stated.items()} == fields


def test_every_likelihood_with_a_name_is_known_to_be_of_classes_or_of_numbers():
    def names_and_classes(union):
        literal, *others = union.__args__
        return set(literal.__args__), set(others)

    names, kinds = names_and_classes(OfClasses)
    other_names, other_kinds = names_and_classes(OfNumbers)
    assert not names & other_names
    assert names | other_names == set(NAMED)
    for name, make in NAMED.items():
        likelihood = make()
        assert likelihood.classification == (name in names)
        assert type(likelihood) in (kinds if name in names else other_kinds)
