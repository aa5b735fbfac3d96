"""Compiled code is loaded only if it is the user's own, and a fit says which code it runs."""

from __future__ import annotations

import logging
import os
import shutil
import stat
from pathlib import Path

import pytest
import torch
from grouped import in_groups
from torch import nn

import sbmc
from sbmc.model.kernels.native import build, chain, head, planes
from sbmc.model.parameters import select_parameters
from sbmc.posterior.merging import merge

pytestmark = [
    # Runs as short as these are no posteriors, and may be told so.
    pytest.mark.filterwarnings("ignore:The posterior is not ok"),
    pytest.mark.skipif(not build._compilers(), reason="there is no C compiler"),
]

SOURCE = Path(chain.__file__).with_name("stem.c")
FUNCTIONS = ("sbmc_stem_forward", "sbmc_stem_backward")
# Nothing here asks how fast the code is, and it is compiled again and again.
QUICK = ("-O1", *build.FLAGS[1:])
DATA = torch.linspace(-1, 1, 60).view(20, 3), torch.arange(20) % 2


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache, and no library that was loaded before."""
    monkeypatch.delenv("SBMC_NATIVE", raising=False)
    monkeypatch.setattr(build, "FLAGS", QUICK)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(planes, "_found", planes._Found())
    for module in (chain, head):
        module._load.cache_clear()
    yield tmp_path / "sbmc" / "native"
    for module in (chain, head):
        module._load.cache_clear()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A cache in which the library was compiled once, to be copied."""
    home = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home))
        patch.setattr(build, "FLAGS", QUICK)
        build.load(SOURCE, FUNCTIONS)
    return home / "sbmc" / "native"


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def only_library(folder):
    (library,) = folder.glob("*.so")
    return library


def test_the_folder_is_the_users_alone(folder):
    folder.mkdir(parents=True, mode=0o755)  # as earlier versions made it
    build.load(SOURCE, FUNCTIONS)
    assert mode_of(folder) == 0o700
    assert not mode_of(only_library(folder)) & 0o077


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_may_write_to_is_not_used(folder, mode, caplog):
    folder.mkdir(parents=True)
    folder.chmod(mode)
    (folder / "planted.so").write_text("")
    with caplog.at_level(logging.WARNING, "sbmc"):
        library = build.load(SOURCE, FUNCTIONS)
    assert not library._name.startswith(str(folder))
    assert [file.name for file in folder.iterdir()] == ["planted.so"]
    assert "others may write to it" in caplog.text
    assert "XDG_CACHE_HOME" in caplog.text


def test_a_folder_of_another_user_is_not_used(folder, compiled, monkeypatch, caplog):
    shutil.copytree(compiled, folder)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    with caplog.at_level(logging.WARNING, "sbmc"):
        library = build.load(SOURCE, FUNCTIONS)
    assert not library._name.startswith(str(folder))
    assert "it belongs to another user" in caplog.text


def spoil(library, how):
    if how == "changed":
        library.write_bytes(library.read_bytes() + b"x")
    elif how == "writable":
        library.chmod(0o777)
    elif how == "no digest":
        build._digest_file(library).unlink()
    else:
        build._digest_file(library).write_bytes(b"\xff\xfe")


@pytest.mark.parametrize("how", ["changed", "writable", "no digest", "unreadable digest"])
def test_a_library_that_is_not_as_it_was_made_is_compiled_anew(folder, compiled, how, caplog):
    shutil.copytree(compiled, folder)
    library = only_library(folder)
    assert build._is_intact(library)
    good, inode = library.read_bytes(), library.stat().st_ino
    spoil(library, how)
    caplog.clear()
    with caplog.at_level(logging.INFO, "sbmc"):
        build.load(SOURCE, FUNCTIONS)
    assert "is compiled anew" in caplog.text
    assert library.stat().st_ino != inode
    assert library.read_bytes() == good
    assert build._is_intact(library)


def make_net():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def fit(net=None, **options):
    options = {"sampler": sbmc.HMC(steps=2), "particles": 2, "progress": False, **options}
    return sbmc.fit(make_net() if net is None else net, DATA, **in_groups(options))


def test_a_library_without_the_function_falls_back_to_torch(tmp_path, monkeypatch, caplog):
    empty = tmp_path / "chain.c"
    empty.write_text("int nothing_of_use(void) { return 0; }\n")
    monkeypatch.setattr(chain, "SOURCE", empty)
    with caplog.at_level(logging.INFO, "sbmc"):
        posterior = fit()
    assert posterior.settings["kernel"] is None
    assert "the compiled library has no sbmc_chain" in posterior.settings["kernel_reason"]
    assert "has no sbmc_chain" in caplog.text
    assert posterior.predict(DATA[0]).probs.shape == (20, 2)


@pytest.mark.parametrize(
    ("net", "options", "variable", "kernel", "words"),
    [
        (make_net, {}, None, "chain", ""),
        (make_net, {}, "0", None, "SBMC_NATIVE=0"),
        (make_net, {"path": "vmap"}, None, None, "there is none for the vmap path"),
        (make_net, {"dtype": torch.float64}, None, None, "torch.float64 on cpu"),
        (lambda: nn.Linear(3, 2), {}, None, "head", ""),
        (lambda: nn.Linear(3, 2), {}, "0", "linear", "head: SBMC_NATIVE=0"),
    ],
)
def test_settings_and_log_say_which_kernel_runs_and_why(
    net, options, variable, kernel, words, monkeypatch, caplog
):
    if variable is not None:
        monkeypatch.setenv("SBMC_NATIVE", variable)
    with caplog.at_level(logging.INFO, "sbmc"):
        settings = fit(net(), **options).settings
    assert settings["kernel"] == kernel
    reason = settings["kernel_reason"]
    assert words in reason
    assert bool(reason) == bool(words)
    said = next(line for line in caplog.messages if line.startswith("kernel: "))
    assert (kernel or "autograd does the work") in said
    assert words in said


def test_the_reason_is_no_part_of_what_a_run_is(tmp_path, monkeypatch):
    net, dim = make_net(), select_parameters(make_net()).dim
    folder = tmp_path / "checkpoint"
    first = fit(net, checkpoint=folder)
    monkeypatch.setattr("sbmc.target.engine.choose_kernel", _with_another_reason)
    again = fit(net, checkpoint=folder, islands=2)
    assert again.settings["kernel_reason"] == "in other words"
    assert torch.equal(again.positions[:1], first.positions)
    other = fit(net, first_island=1)
    assert merge([first, other]).positions.shape == (2, 2, dim)


def _with_another_reason(*parts):
    from sbmc.model.kernels.choice import choose_kernel

    return choose_kernel(*parts)._replace(reason="in other words")
