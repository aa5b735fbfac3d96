"""Folders: there and back, what is refused, and what is never fetched or run."""

import inspect
import json
import shutil
import sys
from types import SimpleNamespace

import huggingface_hub
import pretrained_cases as cases
import pytest
import torch
from pretrained_cases import X, Y

import sbmc
from sbmc import BadInput, Distilled, Posterior
from sbmc.report.pretrained import folder as folders


@pytest.fixture
def saved(tmp_path):
    return cases.classes().save_pretrained(tmp_path / "a", license="mit")


def test_there_and_back_with_the_same_bits(saved):
    again = Posterior.from_pretrained(saved, model=cases.network())
    assert torch.equal(again.predict(X).probs, cases.classes().predict(X).probs)
    assert again.health == cases.classes().health


def test_there_and_back_without_a_network_to_give(tmp_path):
    for subject in (cases.table(), cases.exported(tmp_path / "net.pt2")):
        again = Posterior.from_pretrained(subject.save_pretrained(tmp_path / "t", overwrite=True))
        x = torch.zeros(2, 3)
        assert torch.equal(again.predict(x).probs, subject.predict(x).probs)
    distilled = cases.classes().distil(steps=5)
    again = Distilled.from_pretrained(distilled.save_pretrained(tmp_path / "d"))
    assert torch.equal(again.predict(X).probs, distilled.predict(X).probs)


def test_only_safetensors_json_and_markdown_are_written(saved):
    assert sorted(path.name for path in saved.iterdir()) == [
        "README.md", "config.json", "posterior.safetensors",
    ]  # fmt: skip
    posterior = sbmc.load(saved / "posterior.safetensors", cases.network())
    assert torch.equal(posterior.positions, cases.classes().positions)
    config = json.loads((saved / "config.json").read_text("utf-8"))
    assert (config["kind"], config["class"], config["s"]) == ("classes", "Posterior", 0.1)
    assert config["network"] == {"kind": "given", "class": "Sequential"}
    assert config["versions"]["sbmc"] == sbmc.__version__


def test_a_folder_of_ours_is_replaced_and_other_files_are_left_alone(saved):
    (saved / "notes.txt").write_text("mine", "utf-8")
    cases.numbers().save_pretrained(saved)
    assert (saved / "notes.txt").read_text("utf-8") == "mine"
    assert not Posterior.from_pretrained(saved, model=cases.network(1)).likelihood.classification


def test_a_model_of_the_other_class_is_replaced_only_if_that_is_asked_for(saved):
    distilled = cases.classes().distil(steps=2)
    with pytest.raises(
        BadInput, match=r"config\.json, README\.md, posterior\.safetensors would be"
    ):
        distilled.save_pretrained(saved)
    assert Posterior.from_pretrained(saved, model=cases.network())
    distilled.save_pretrained(saved, overwrite=True)
    assert sorted(path.name for path in saved.iterdir()) == [
        "README.md", "config.json", "distilled.safetensors",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", '{"model_type": "bert"}'),
        ("config.json", "no JSON"),
        ("README.md", "# My own text"),
        ("posterior.safetensors", "something"),
    ],
)
def test_foreign_files_are_replaced_only_if_that_is_asked_for(tmp_path, name, content):
    (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(BadInput, match=f"`folder` must be new.*{name} would be replaced"):
        cases.classes().save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text("utf-8") == content
    cases.classes().save_pretrained(tmp_path, overwrite=True)
    assert Posterior.from_pretrained(tmp_path, model=cases.network())


def test_a_card_that_was_edited_is_not_lost(saved):
    card = saved / "README.md"
    card.write_text(card.read_text("utf-8") + "\nMore of my own.\n", "utf-8")
    with pytest.raises(BadInput, match=r"README\.md would be replaced"):
        cases.classes().save_pretrained(saved)
    assert "More of my own" in card.read_text("utf-8")
    assert Posterior.from_pretrained(saved, model=cases.network())


@pytest.mark.parametrize("fails", ["save", "write_json", "atomic_write"])
def test_a_write_that_fails_leaves_no_half_file_and_a_mixed_folder_is_refused(
    saved, fails, monkeypatch
):
    before = {path.name: path.read_bytes() for path in saved.iterdir()}

    def fail(*arguments, **options):
        raise OSError("the disk is full")

    monkeypatch.setattr(Posterior if fails == "save" else folders, fails, fail)
    with pytest.raises(OSError, match="full"):
        cases.numbers().save_pretrained(saved)
    monkeypatch.undo()
    assert sorted(before) == sorted(path.name for path in saved.iterdir())
    if fails == "save":
        assert Posterior.from_pretrained(saved, model=cases.network())
    else:
        with pytest.raises(BadInput, match=r"written together.*Save it again"):
            Posterior.from_pretrained(saved, model=cases.network())


def test_the_wrong_class_and_foreign_folders_are_refused(saved, tmp_path):
    with pytest.raises(BadInput, match=r"one with a Posterior; use sbmc\.Posterior\.from_pretr"):
        Distilled.from_pretrained(saved)
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}', "utf-8")
    with pytest.raises(BadInput, match="is missing or another library's"):
        Posterior.from_pretrained(tmp_path / "bert")
    config = json.loads((saved / "config.json").read_text("utf-8"))
    (saved / "config.json").write_text(json.dumps({**config, "format": 2}), "utf-8")
    with pytest.raises(BadInput, match="in format 1, but got class 'Posterior' in format 2"):
        Posterior.from_pretrained(saved)
    with pytest.raises(BadInput, match="a folder, or an id of the Hub"):
        Posterior.from_pretrained(saved / "README.md")


def test_damaged_weights_are_refused(saved):
    weights = saved / "posterior.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(BadInput, match="undamaged"):
        Posterior.from_pretrained(saved, model=cases.network())
    weights.write_bytes(content[:50])
    with pytest.raises(BadInput, match=r"undamaged posterior\.safetensors"):
        Posterior.from_pretrained(saved)
    weights.unlink()
    with pytest.raises(BadInput, match=r"with the file posterior\.safetensors"):
        Posterior.from_pretrained(saved)


def test_a_network_that_is_code_is_asked_for_and_not_run(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text("raise SystemExit('it was run')", "utf-8")
    monkeypatch.chdir(tmp_path)
    folder = cases.referenced("net.py:net").save_pretrained("a")
    with pytest.raises(BadInput, match=r"is code, 'net\.py:net', which is neither stored nor run"):
        Posterior.from_pretrained(folder)
    assert Posterior.from_pretrained(folder, model=cases.network())


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Repositories in local folders, in the place of the real Hub; what was asked for."""
    asked = []

    def snapshot_download(repo_id, *, revision, allow_patterns, local_files_only):
        asked.append((repo_id, revision, allow_patterns, local_files_only))
        source, copy = tmp_path / "hub" / repo_id, tmp_path / "cache" / repo_id
        if not source.is_dir():
            raise FileNotFoundError(f"404: {repo_id}\nsecond line")
        copy.mkdir(parents=True, exist_ok=True)
        for path in source.iterdir():
            if path.name in allow_patterns:
                shutil.copy(path, copy)
        return str(copy)

    stand_in = SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", stand_in)
    return tmp_path / "hub", asked


def test_the_real_function_finds_a_repository_in_its_cache(tmp_path, monkeypatch):
    """The package's own `snapshot_download`, without a network: its cache is laid out by hand."""
    repository, commit = tmp_path / "models--ann--things", "0" * 40
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit, "utf-8")
    cases.table().save_pretrained(repository / "snapshots" / commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    again = Posterior.from_pretrained("ann/things", local_files_only=True)
    assert torch.equal(again.positions, cases.table().positions)
    with pytest.raises(BadInput, match="that can be fetched, but got 'ann/gone'"):
        Posterior.from_pretrained("ann/gone", local_files_only=True)


def test_what_the_page_uploads_by_exists():
    known = inspect.signature(huggingface_hub.HfApi.upload_folder).parameters
    assert {"folder_path", "repo_id"} <= set(known)
    inspect.signature(huggingface_hub.HfApi.create_repo).bind(None, "you/signs")


def test_the_stand_in_is_called_as_the_real_function_can_be():
    known = inspect.signature(huggingface_hub.snapshot_download).parameters
    assert next(iter(known)) == "repo_id"
    assert {"revision", "allow_patterns", "local_files_only"} <= set(known)


def test_a_repository_is_fetched_two_files_and_no_other(hub):
    folder, asked = hub
    cases.table().save_pretrained(folder / "ann" / "things")
    (folder / "ann" / "things" / "modeling.py").write_text("raise SystemExit", "utf-8")
    (folder / "ann" / "things" / "evil.pkl").write_bytes(b"cos\nsystem\n")
    again = Posterior.from_pretrained("ann/things", revision="v1", local_files_only=True)
    x = torch.zeros(2, 3)
    assert torch.equal(again.predict(x).probs, cases.table().predict(x).probs)
    assert asked == [("ann/things", "v1", ["config.json", "posterior.safetensors"], True)]


def test_a_graph_from_the_hub_is_not_opened(hub, monkeypatch):
    folder, _ = hub
    (folder / "ann").mkdir(parents=True)
    cases.exported(folder / "net.pt2").save_pretrained(folder / "ann" / "graph")

    def run(*arguments, **options):
        raise AssertionError("torch.export.load reads pickles")

    monkeypatch.setattr(torch.export, "load", run)
    with pytest.raises(BadInput, match=r"graph of torch\.export, and torch reads those by pickle"):
        Posterior.from_pretrained("ann/graph")
    monkeypatch.undo()
    # A folder that somebody fetched knowingly is opened, as `sbmc.load` would open its file.
    assert Posterior.from_pretrained(folder / "ann" / "graph")


def test_a_planted_config_does_not_open_the_graph_either(hub, monkeypatch):
    folder, _ = hub
    (folder / "ann").mkdir(parents=True)
    saved = cases.exported(folder / "net.pt2").save_pretrained(folder / "ann" / "graph")
    config = json.loads((saved / "config.json").read_text("utf-8"))
    (saved / "config.json").write_text(json.dumps({**config, "network": {}}), "utf-8")
    monkeypatch.setattr(torch.export, "load", lambda *_, **__: pytest.fail("it was opened"))
    with pytest.raises(BadInput, match=r"graph of torch\.export"):
        Posterior.from_pretrained("ann/graph")


def test_what_cannot_be_fetched_is_said_in_one_line(hub):
    with pytest.raises(BadInput, match=r"that can be fetched, but got 'ann/gone' \(404: ann/gone"):
        Posterior.from_pretrained("ann/gone")
    for source in ("../up", "a/b/c", "-x", "a b", "http://a/b"):
        with pytest.raises(BadInput, match="an id of the Hub such as 'owner/name'"):
            Posterior.from_pretrained(source)
    assert [each[0] for each in hub[1]] == ["ann/gone"]


def test_without_the_package_the_message_names_the_extra(monkeypatch, saved):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"pip install 'sbmc\[hub\]'"):
        Posterior.from_pretrained("ann/things")
    assert Posterior.from_pretrained(saved, model=cases.network())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"evaluate": (X, X)}, "`evaluate` must be labels, one for each row"),
        ({"evaluate": X}, "`evaluate` must be a pair"),
        ({"level": 2}, "`level` must be"),
        ({"name": " "}, "`name` must be other than blank"),
        ({"license": 3}, "`license` must be a text, or None"),
        ({"metadata": {"a": object()}}, "`metadata` must be plain values"),
        ({"overwrite": "yes"}, "`overwrite` must be"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(tmp_path, options, words):
    with pytest.raises(BadInput, match=words):
        cases.classes().save_pretrained(tmp_path / "a", **options)
    assert not (tmp_path / "a").exists()


def test_likelihood_is_for_posteriors(tmp_path):
    folder = cases.classes().distil(steps=2).save_pretrained(tmp_path / "d", evaluate=(X, Y))
    with pytest.raises(BadInput, match="`likelihood` must be left out"):
        Distilled.from_pretrained(folder, likelihood=torch.sub)
