"""`sbmc doctor` says what a machine has, and nothing of whose it is."""

import json
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch
from repository import ROOT

from sbmc.cli import machine
from sbmc.model.kernels.native import build


def test_all_sections_are_there(sbmc):
    code, output, errors = sbmc("doctor")
    assert (code, errors) == (0, "")
    for heading in ("versions", "compiled code", "threads", "memory", "extras"):
        assert f"\n{heading}\n" in f"\n{output}"
    assert torch.__version__ in output
    assert metadata.version("numpy") in output
    assert "OMP_WAIT_POLICY" in output


def test_json_has_the_same(sbmc):
    code, output, _ = sbmc("doctor", "--json")
    sections = json.loads(output)
    assert code == 0
    assert sections["versions"]["torch"].startswith(torch.__version__)
    assert set(sections["extras"]) == set(machine.EXTRAS)
    assert sections["threads"]["torch"] == str(torch.get_num_threads())


@pytest.mark.skipif(not build._compilers(), reason="there is no C compiler")
def test_the_home_folder_is_not_shown(sbmc, tmp_path, monkeypatch):
    home = tmp_path / "somebody"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("SBMC_NATIVE", raising=False)
    monkeypatch.setattr(build, "FLAGS", ("-O0", *build.FLAGS[1:]))  # all libraries, and none is run
    _, output, _ = sbmc("doctor")
    assert "somebody" not in output
    assert str(Path("~") / ".cache" / "sbmc" / "native") + " (8 libraries)" in output
    assert output.count("C code, compiled and loaded") == 8


def test_without_a_compiler_it_says_so_and_what_to_do(sbmc, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "_compilers", list)
    monkeypatch.delenv("SBMC_NATIVE", raising=False)
    code, output, _ = sbmc("doctor")
    assert code == 0
    assert "none; install gcc or clang" in output
    assert output.count("torch, since there is no C code (there is no C compiler)") == 8


def test_native_code_that_is_turned_off(sbmc, monkeypatch):
    monkeypatch.setenv("SBMC_NATIVE", "0")
    assert sbmc("doctor")[1].count("torch, since SBMC_NATIVE=0") == 8


def test_a_missing_extra_comes_with_its_command(monkeypatch):
    monkeypatch.setitem(machine.EXTRAS, "ray", ("no-such-package",))
    assert machine._extras()["ray"] == "no-such-package missing: pip install 'sbmc[ray]'"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with 3.11")
def test_the_extras_are_those_of_the_package():
    import tomllib

    with (ROOT / "pyproject.toml").open("rb") as file:
        declared = tomllib.load(file)["project"]["optional-dependencies"]
    names = {
        extra: tuple(need.partition(">=")[0].partition("<")[0] for need in needs)
        for extra, needs in declared.items()
        if extra not in ("docs", "dev")
    }
    assert names == machine.EXTRAS
