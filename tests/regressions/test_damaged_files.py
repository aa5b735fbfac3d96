"""Files that are damaged, crafted or edited by hand: words and a remedy, never a raw traceback.

Nor another result in silence: what a damaged file says is not used.
"""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from grouped import in_groups
from safetensors.torch import load_file, save_file
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.islands.checkpoints import open_store
from sbmc.islands.checkpoints.pilot import read_pilot
from sbmc.storage.digests import contents_digest

# Three particles are few.
pytestmark = pytest.mark.filterwarnings("ignore:The population of", "ignore:The evidence leaves")

X = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
DATA = X, torch.arange(12) % 2
DEEP = "[" * 100_000 + "]" * 100_000


def make_net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Linear(3, 2)


def fit(place=None, **options):
    quick = {"particles": 3, "islands": 2, "progress": False}
    quick["sampler"] = sbmc.HMC(steps=3, leapfrog=1)
    return sbmc.fit(make_net(), DATA, **in_groups(quick | options | {"checkpoint": place}))


# The pilot of SMC

PILOT = {"sampler": sbmc.SMC(mutations=2, pilot=True), "islands": 1, "prior_variance": 20.0, "s": 1}


@pytest.fixture(scope="module")
def piloted(tmp_path_factory):
    place = tmp_path_factory.mktemp("pilot") / "run"
    fit(place, **PILOT)
    return place


@pytest.fixture
def pilot(piloted, tmp_path):
    """The path of a pilot whose island is still to be run."""
    place = tmp_path / "run"
    shutil.copytree(piloted, place)
    (place / "island-00000.safetensors").unlink()
    return place / "pilot.json"


def test_a_pilot_with_any_byte_changed_is_refused(pilot):
    whole, store = pilot.read_bytes(), open_store(pilot.parent)
    check = PILOT["sampler"].check_learned
    before, passed = read_pilot(store, check), 0
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1
        pilot.write_bytes(bytes(changed))
        try:
            # Of a number with 17 digits, the last may be another and the number the same.
            assert read_pilot(store, check) == before
            passed += 1
        except BadInput:
            continue
    assert passed <= 3


def test_a_damaged_pilot_is_refused_with_a_remedy_that_works(pilot):
    expected = fit(**PILOT).positions
    pilot.write_bytes(pilot.read_bytes().replace(b"0.", b"0.1", 1))
    with pytest.raises(BadInput, match=r"`checkpoint` must be .*pilot\.json") as caught:
        fit(pilot.parent, **PILOT)
    assert "Delete that file" in str(caught.value)
    pilot.unlink()
    assert torch.equal(fit(pilot.parent, **PILOT).positions, expected)


@pytest.mark.parametrize("keep", [0, 1, 0.5, 0.99])
def test_a_pilot_that_was_cut_is_refused(pilot, keep):
    whole = pilot.read_bytes()
    pilot.write_bytes(whole[: keep if isinstance(keep, int) else int(keep * len(whole))])
    with pytest.raises(BadInput, match=r"pilot\.json"):
        fit(pilot.parent, **PILOT)


BAD_PILOTS = {
    "list": lambda old: [],
    "text": lambda old: "pilot",
    "deep": lambda old: DEEP,
    "nothing": lambda old: {},
    "less": lambda old: {k: v for k, v in old.items() if k != "epochs"},
    "more": lambda old: {**old, "other": 1},
    "falling": lambda old: {**old, "temperatures": old["temperatures"][::-1]},
    "words": lambda old: {**old, "temperatures": "hot"},
    "fewer": lambda old: {**old, "step_sizes": old["step_sizes"][:-1]},
    "negative": lambda old: {**old, "step_sizes": [-0.1] * len(old["step_sizes"])},
    "nan": lambda old: {**old, "step_sizes": [float("nan")] * len(old["step_sizes"])},
    "mutations": lambda old: {**old, "mutations": "many"},
    "cost": lambda old: {**old, "epochs": "many"},
    "infinite": lambda old: {**old, "forward_epochs": float("inf")},
}


@pytest.mark.parametrize("name", BAD_PILOTS)
def test_a_pilot_without_digest_that_cannot_be_right_is_refused(pilot, name):
    old = json.loads(pilot.read_bytes())
    old.pop("digest", None)
    bad = BAD_PILOTS[name](old)
    pilot.write_text(bad if bad is DEEP else json.dumps(bad))
    with pytest.raises(BadInput, match=r"`checkpoint` must be .*pilot\.json"):
        fit(pilot.parent, **PILOT)


def test_a_pilot_of_before_without_digest_is_read(pilot, monkeypatch):
    old = json.loads(pilot.read_bytes())
    assert old.pop("digest")
    pilot.write_text(json.dumps(old))
    expected = fit(**PILOT).positions
    monkeypatch.setattr(
        "sbmc.samplers.smc.settings.learn", lambda *a: pytest.fail("a second pilot")
    )
    assert torch.equal(fit(pilot.parent, **PILOT).positions, expected)


# Saved posteriors


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("posterior") / "p"
    fit().save(path)
    return path


def crafted(saved, path, change):
    """The file with other contents and the digest that belongs to them."""
    from safetensors import safe_open

    with safe_open(saved, framework="pt") as file:
        words = json.loads(file.metadata()["sbmc"])
    tensors = load_file(saved)
    text = change(words, tensors)
    text = json.dumps(words) if text is None else text
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(tensors, path, metadata={"sbmc": text, "digest": contents_digest(text, tensors)})
    return path


def words_with(**values):
    return lambda words, tensors: words.update(values)


def words_without(name):
    return lambda words, tensors: words.pop(name) and None


def tensors_with(**made):
    def change(words, tensors):
        tensors |= {name: make(tensors[name]) for name, make in made.items()}

    return change


def report_with(**values):
    return lambda words, tensors: words["islands"][0].update(values)


def cost_with(**values):
    return lambda words, tensors: words["cost"].update(values)


def drop_an_island(words, tensors):
    words["islands"].pop()


def one_value(value):
    def make(tensor):
        tensor = tensor.clone()
        tensor.view(-1)[0] = value
        return tensor

    return make


NAMES = ("names", "shapes", "likelihood", "islands", "cost", "weighting", "settings", "model")
CRAFTED = {
    "words: list": lambda words, tensors: "[]",
    "words: number": lambda words, tensors: "3",
    "words: no JSON": lambda words, tensors: "{",
    "words: deep": lambda words, tensors: DEEP,
    "words: empty": lambda words, tensors: "{}",
    **{f"without {name}": words_without(name) for name in NAMES},
    **{f"{name}: null": words_with(**{name: None}) for name in NAMES},
    **{f"{name}: number": words_with(**{name: 3}) for name in NAMES},
    **{f"{name}: words": words_with(**{name: "some words"}) for name in NAMES},
    **{f"{name}: list": words_with(**{name: [[1], "a"]}) for name in NAMES},
    "version: list": words_with(version=[2]),
    "names: twice": words_with(names=["weight", "weight"]),
    "names: more": words_with(names=["weight", "bias", "other"]),
    "shapes: negative": words_with(shapes=[[2, 3], [-2]]),
    "shapes: huge": words_with(shapes=[[2, 3], [10**30]]),
    "shapes: half": words_with(shapes=[[2, 3], [0.5]]),
    "shapes: other": words_with(shapes=[[2, 3], [3]]),
    "likelihood: unknown": words_with(likelihood={"name": "cauchy"}),
    "likelihood: no noise": words_with(likelihood={"name": "gaussian"}),
    "likelihood: noise": words_with(likelihood={"name": "gaussian", "noise_variance": "little"}),
    "likelihood: negative": words_with(likelihood={"name": "gaussian", "noise_variance": -1}),
    "likelihood: no name": words_with(likelihood={}),
    "islands: none": words_with(islands=[]),
    "islands: fewer": drop_an_island,
    "island: number": words_with(islands=[1, 2]),
    "island: more": report_with(other=1),
    "island: index": report_with(index="first"),
    "island: outcome": report_with(outcome=["completed"]),
    "island: failed": report_with(outcome="failed"),
    "island: epochs": report_with(epochs="many"),
    "island: evidence": report_with(log_evidence="high"),
    "island: temperatures": report_with(temperatures=3),
    "cost: more": cost_with(other=1),
    "cost: words": cost_with(epochs="many"),
    "cost: null": cost_with(total_epochs=None),
    "weighting: other": words_with(weighting="by hand"),
    "confidence: words": words_with(confidence="high"),
    "confidence: object": words_with(confidence={}),
    "confidence: version": words_with(confidence={"version": 1, "settings": 3}),
    "positions: flat": tensors_with(positions=lambda t: t.flatten()),
    "positions: scalar": tensors_with(positions=lambda t: torch.tensor(1.0)),
    "positions: wide": tensors_with(positions=lambda t: torch.cat([t, t], -1)),
    "positions: none": tensors_with(positions=lambda t: t[:0], within=lambda t: t[:0]),
    "positions: integers": tensors_with(positions=lambda t: t.long()),
    "positions: complex": tensors_with(positions=lambda t: t.to(torch.complex64)),
    "positions: NaN": tensors_with(positions=one_value(float("nan"))),
    "positions: infinite": tensors_with(positions=one_value(float("inf"))),
    "within: flat": tensors_with(within=lambda t: t.flatten()),
    "within: integers": tensors_with(within=lambda t: t.long()),
    "within: negative": tensors_with(within=one_value(-0.5)),
    "within: NaN": tensors_with(within=one_value(float("nan"))),
    "within: large": tensors_with(within=lambda t: 2 * t),
    "within: zero": tensors_with(within=lambda t: 0 * t),
    "evidence: flat": tensors_with(log_evidence=lambda t: t[:1]),
    "evidence: square": tensors_with(log_evidence=lambda t: t.expand(2, -1)),
    "evidence: NaN": tensors_with(log_evidence=one_value(float("nan"))),
    "evidence: infinite": tensors_with(log_evidence=one_value(float("inf"))),
    "evidence: integers": tensors_with(log_evidence=lambda t: t.long()),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_posterior_is_refused_in_words(saved, tmp_path, name):
    path = crafted(saved, tmp_path / "p", CRAFTED[name])
    with pytest.raises(BadInput) as caught:
        sbmc.load(path, make_net())
    assert " must be " in str(caught.value)


def test_a_crafted_posterior_with_no_other_contents_is_read(saved, tmp_path):
    path = crafted(saved, tmp_path / "p", lambda words, tensors: None)
    assert torch.equal(sbmc.load(path, make_net()).positions, fit().positions)


def test_a_header_of_a_huge_size_is_refused(saved, tmp_path):
    whole = saved.read_bytes()
    for size in (2**63, 2**40, len(whole)):
        (tmp_path / "p").write_bytes(size.to_bytes(8, "little") + whole[8:])
        with pytest.raises(BadInput, match="`path` must be an undamaged posterior file"):
            sbmc.load(tmp_path / "p", make_net())


def test_weights_that_could_not_be_loaded_are_not_saved(tmp_path):
    posterior = fit()
    posterior.within = -posterior.within
    with pytest.raises(BadInput, match="weights"):
        posterior.save(tmp_path / "p")
    assert list(tmp_path.iterdir()) == []


def test_two_writers_at_one_path_have_names_of_their_own(tmp_path, monkeypatch):
    """One of two saves of a process may not rename or remove the file of the other."""
    from safetensors import torch as safetensors

    names = []
    real = safetensors.save_file

    def noted(tensors, file, metadata):
        names.append(str(file))
        real(tensors, file, metadata=metadata)

    monkeypatch.setattr(safetensors, "save_file", noted)
    posterior = fit()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: posterior.save(tmp_path / "p"), range(8)))
    assert len(set(names)) == 8
    assert os.listdir(tmp_path) == ["p"]
    assert torch.equal(sbmc.load(tmp_path / "p", make_net()).positions, posterior.positions)


def test_a_saved_posterior_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *a, name=name, real=real: calls.append(name) or real(*a)
        )
    fit().save(tmp_path / "p")
    assert calls == ["fsync", "replace", "fsync"]


# A nearly full disk


def full(monkeypatch, free):
    usage = type(shutil.disk_usage("/"))(10**9, 10**9 - free, free)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)


def test_a_finished_checkpoint_opens_on_a_full_disk(tmp_path, monkeypatch):
    expected = fit(tmp_path / "run")
    full(monkeypatch, 0)

    def no_space(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sbmc.islands.checkpoints.store.LocalStore._put", no_space)
    assert torch.equal(fit(tmp_path / "run").positions, expected.positions)
    with pytest.raises(BadInput, match="`checkpoint` must be a folder"):
        fit(tmp_path / "run", islands=3)


def test_only_what_is_left_of_a_run_has_to_fit(tmp_path, monkeypatch):
    options = {"executor": sbmc.InProcess(fold=1), "islands": 8}
    expected = fit(tmp_path / "run", **options)
    (tmp_path / "run" / "island-00007.safetensors").unlink()
    whole = 2 * 8 * 3 * 3 * 4 * 8  # bytes_on_disk of all islands
    full(monkeypatch, whole // 8)
    assert torch.equal(fit(tmp_path / "run", **options).positions, expected.positions)
    (tmp_path / "run" / "island-00007.safetensors").unlink()
    full(monkeypatch, whole // 8 - 100)
    with pytest.raises(BadInput, match="of space"):
        fit(tmp_path / "run", **options)
