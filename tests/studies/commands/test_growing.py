"""Islands that are added to a run, and runs made apart that are put together."""

import re
from pathlib import Path

import torch
from stopping import (
    SHORT,
    TRAINING,
    contents,
    posterior,
    record_of,
    require_same,
    seed_folder,
    seed_folders,
    stopped,
)

from sbmc.islands.checkpoints import open_store
from sbmc.islands.checkpoints.manifest import Manifest
from sbmc_studies.records.record import read_record


def test_extended_is_a_run_of_all_islands(sbmc, network, single):
    code, _, errors = sbmc("run", "digits", *SHORT, "--islands", 2)
    assert code == 0, errors
    old = seed_folder("runs")
    before = contents(old)
    sbmc("run", "digits", *SHORT, "--islands", 4, "--out", "whole")
    options = ["--islands", "+2", "--also-islands", "1,3"]
    code, output, errors = sbmc("extend", old, *options, "--quiet")
    assert (code, errors) == (0, "")
    assert {str(number) for number in (1, 3, 4)} <= set(re.findall(r"│ (\d) │", output))
    assert contents(old) == before
    new = seed_folder("whole").relative_to("whole")
    require_same(Path("runs") / new, seed_folder("whole"), network)
    for name in ("island-00000", "island-00001"):
        copied = Path("runs") / new / "checkpoint" / f"{name}.safetensors"
        assert copied.read_bytes() == (old / "checkpoint" / copied.name).read_bytes()
    code, _, errors = sbmc("extend", old, "--islands", 4)
    assert code == 0
    assert "reused" in errors


def test_folded_islands_stay_as_they_were_when_a_run_is_extended(sbmc, network):
    sbmc("run", "digits", *SHORT, "--islands", 2)
    old = seed_folder("runs")
    assert sbmc("extend", old, "--islands", 3, "--quiet")[0] == 0
    (new,) = (folder for folder in seed_folders("runs") if folder != old)
    grown = posterior(new, network)
    assert torch.equal(grown.positions[:2], posterior(old, network).positions)
    assert len(grown.positions) == 3


def test_a_folder_near_the_root_is_no_run(sbmc):
    # A run is four folders deep in its folder of records, which such a path is not.
    code, output, errors = sbmc("extend", "/no such folder", "--islands", 2)
    assert (code, output) == (2, "")
    assert errors == "sbmc: `run` must be a folder with a run.json, but got '/no such folder'.\n"


def test_extensions_that_are_refused(sbmc, monkeypatch):
    sbmc("run", "digits", *SHORT, "--islands", 2)
    old = seed_folder("runs")

    def refused(*arguments, words):
        before = contents(Path("runs"))
        code, output, errors = sbmc("extend", *arguments)
        assert (code, output, errors.count("\n")) == (2, "", 1), errors
        for word in words:
            assert word in errors
        assert contents(Path("runs")) == before

    refused(old, "--islands", 2, words=["`islands`", "more than the 2", "'2'"])
    refused(old, "--islands", "many", words=["`islands`", "'many'"])
    refused(old, words=["`islands`", "must be given"])
    refused(old, "--islands", 4, "--also-islands", 5, words=["`also_islands`", "(4)", "5"])
    refused(old, "--islands", 4, "--workers", 0, words=["`workers`", "0"])
    refused("runs", "--islands", 4, words=["`run`", "run.json", "'runs'"])
    stopped(sbmc, monkeypatch, *SHORT, "--seed", 1, "--islands", 2)
    refused(old.parent / "seed-1", "--islands", 4, words=["`run`", "sbmc resume"])
    sbmc("run", "digits", "--method", "map", *TRAINING, "--quiet")
    (trained,) = Path("runs/digits/map").glob("*/seed-0")
    refused(trained, "--islands", 4, words=["`run`", "such as s-hmc", "one of map"])
    (old / "checkpoint" / "manifest.json").unlink()
    refused(old, "--islands", 4, words=["`run`", "checkpoint folder"])


def test_merged_is_a_run_of_all_islands(sbmc, network, single):
    for out, options in {"a": [], "b": ["--first-island", 2]}.items():
        code, _, errors = sbmc("run", "digits", *SHORT, "--islands", 2, *options, "--out", out)
        assert code == 0, errors
    a, b = seed_folder("a"), seed_folder("b")
    indices = [each["index"] for each in read_record(b / "record.json").islands]
    assert indices == [2, 3]
    sbmc("run", "digits", *SHORT, "--islands", 4, "--out", "whole")
    code, output, errors = sbmc("merge", b, a, "--out", "both", "--save-posterior", "--quiet")
    assert (code, errors) == (0, "")
    assert "S-HMC∥" in output
    require_same(seed_folder("both"), seed_folder("whole"), network)
    assert {each["attempts"] for each in read_record(record_of("both")).islands} == {1}
    # what was merged can be extended
    assert sbmc("extend", seed_folder("both"), "--islands", 5, "--quiet")[0] == 0


def test_networks_of_another_run_are_started_from(sbmc, monkeypatch, network):
    from sbmc.islands.checkpoints.codec import pack, unpack

    sbmc("run", "digits", *SHORT)
    first = seed_folder("runs")
    path = first / "trained-anchor.safetensors"
    tensors, metadata = unpack(path.read_bytes())
    # as another kind of processor would have trained it
    tensors = {name: tensor * (1 + 1e-6) for name, tensor in tensors.items()}
    path.write_bytes(pack(tensors, metadata))
    there = [*SHORT, "--first-island", 1, "--out", "there", "--trained-from", first]
    code, _, errors = sbmc("run", "digits", *there)
    assert (code, errors) == (0, "")
    assert (seed_folder("there") / path.name).read_bytes() == path.read_bytes()
    for options, words in {
        ("--seed", 1): "seed is 0 there and 1 here",
        ("--s", 0.2): "s is 0.45 there and 0.2 here",
        ("--force",): "`force` must be left out with trained_from",
    }.items():
        code, _, errors = sbmc("run", "digits", *there, *options)
        assert (code, errors.count("\n")) == (2, 1)
        assert words in errors
    path.unlink()
    code, _, errors = sbmc("run", "digits", *there[:-1], first, "--islands", 2)
    assert code == 2
    assert "trained networks in its folder" in errors


def test_merges_that_are_refused(sbmc, monkeypatch, single):
    runs = {
        "a": ["--islands", 1],
        "b": ["--islands", 1, "--first-island", 2],
        "s": ["--islands", 1, "--first-island", 1, "--s", 0.2],
        "seed": ["--islands", 1, "--first-island", 1, "--seed", 1],
    }
    for out, options in runs.items():
        sbmc("run", "digits", *SHORT, *options, "--out", out)
    stopped(sbmc, monkeypatch, *SHORT, "--islands", 1, "--first-island", 1, "--out", "half")
    folders = {out: seed_folder(out) for out in (*runs, "half")}

    def refused(*names, words, out="new"):
        given = ["--out", out] if out else []
        code, output, errors = sbmc("merge", *(folders.get(name, name) for name in names), *given)
        assert (code, output, errors.count("\n")) == (2, "", 1), errors
        for word in words:
            assert word in errors
        assert not seed_folders("new")

    refused("a", "s", words=["`runs`", "parts of one run", "s is 0.2 there and 0.45 here"])
    refused("a", "seed", words=["`runs`", "seed is 1 there and 0 here"])
    refused("a", "a", words=["`runs`", "island 0 in both"])
    refused("a", "b", words=["`runs`", "all islands from 0 to 2", "none with island 1"])
    refused("b", "b", words=["`runs`", "island 2 in both"])
    refused("a", "half", words=["`run`", "sbmc resume"])
    refused("a", words=["`runs`", "at least two"])
    refused("a", "b", words=["`out`", "must be given"], out="")
    refused("a", "nowhere", words=["`run`", "nowhere"])
    # another anchor, by other bits in the stored one
    manifest = open_store(folders["b"] / "checkpoint")
    content = Manifest.from_json(manifest.read("manifest.json"), "")
    content.identity["identity"]["anchor"] = "0123456789abcdef"
    manifest.write("manifest.json", content.to_json())
    refused("a", "b", words=["`runs`", "identity.anchor differs"])


def test_an_extended_run_has_the_pilot_of_the_old_one(sbmc, monkeypatch, network, single):
    tempered = ["--method", "s-smc", *TRAINING, "--particles", 4, "--mutations", 1]
    tempered += ["--set", "pilot=true", "--quiet", "--save-posterior"]
    code, _, errors = sbmc("run", "digits", *tempered, "--islands", 1)
    assert (code, errors) == (0, "")
    sbmc("run", "digits", *tempered, "--islands", 2, "--out", "whole")

    def fails(*args):
        raise AssertionError("a second pilot")

    monkeypatch.setattr("sbmc.samplers.smc.settings.learn", fails)
    old = seed_folder("runs")
    code, _, errors = sbmc("extend", old, "--islands", 2, "--quiet")
    assert (code, errors) == (0, "")
    (new,) = (folder for folder in seed_folders("runs") if folder != old)
    require_same(new, seed_folder("whole"), network)
