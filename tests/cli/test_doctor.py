"""`sbmc doctor` says what a machine has, and nothing of whose it is."""

import json
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch
from repository import ROOT

from sbmc.cli import kernel_check, machine
from sbmc.model.kernels.native import build

needs_compiler = pytest.mark.skipif(not build._compilers(), reason="there is no C compiler")


@pytest.fixture(autouse=True)
def _nothing_chosen(monkeypatch):
    monkeypatch.delenv("SBMC_NATIVE", raising=False)


@needs_compiler
def test_all_sections_are_there(sbmc):
    code, output, errors = sbmc("doctor")
    assert (code, errors) == (0, "")
    for heading in ("versions", "compiled code", "threads", "memory", "data", "extras"):
        assert f"\n{heading}\n" in f"\n{output}"
    assert torch.__version__ in output
    assert metadata.version("numpy") in output
    assert "OMP_WAIT_POLICY" in output


@needs_compiler
def test_json_has_the_same(sbmc):
    code, output, _ = sbmc("doctor", "--json")
    sections = json.loads(output)
    assert code == 0
    assert sections["versions"]["torch"].startswith(torch.__version__)
    assert set(sections["extras"]) == set(machine.EXTRAS)
    assert sections["threads"]["torch"] == str(torch.get_num_threads())


@needs_compiler
def test_the_home_folder_is_not_shown(sbmc, tmp_path, monkeypatch):
    home = tmp_path / "somebody"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SBMC_DATA", str(home / "data"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(build, "FLAGS", ("-O0", *build.FLAGS[1:]))  # it is compiled sooner
    code, output, _ = sbmc("doctor")
    assert code == 0
    assert "somebody" not in output
    assert str(Path("~") / ".cache" / "sbmc" / "native") + " (8 libraries)" in output
    assert "8 of 8 loaded" in output
    assert "~/data (not there)" in output


@needs_compiler
def test_the_kernel_is_named_and_has_been_run(sbmc):
    sections = json.loads(sbmc("doctor", "--json")[1])["compiled code"]
    assert sections["kernel"] == build.code_of("chain")
    assert sections["runs"].startswith("yes, ")
    assert kernel_check.difference_from_torch() <= kernel_check.TOLERANCE


@needs_compiler
def test_a_kernel_with_wrong_numbers_does_not_run(sbmc, monkeypatch):
    monkeypatch.setattr(kernel_check, "difference_from_torch", lambda: 0.02)
    code, output, _ = sbmc("doctor")
    assert code == 1
    assert "no, 2e-02 from torch" in output
    assert "No compiled kernel runs: its numbers differ" in output


@needs_compiler
def test_parts_that_are_missing_are_named(sbmc, tmp_path, monkeypatch):
    broken = tmp_path / "head.c"
    broken.write_text("this is no C\n")
    parts = {**kernel_check.LIBRARIES, "linear heads": (broken, ("sbmc_head",))}
    monkeypatch.setattr(kernel_check, "LIBRARIES", parts)
    code, output, _ = sbmc("doctor")
    assert code == 1
    assert "7 of 8 parts; linear heads by torch (" in output


def test_without_a_compiler_it_says_so_and_what_to_do(sbmc, monkeypatch):
    monkeypatch.setattr(build, "_compilers", list)
    for how in ((), ("--json",)):
        code, output, _ = sbmc("doctor", *how)
        assert code == 1
        assert "none; gcc, clang or what CC names would be used" in output
        assert "none, torch does the work (there is no C compiler)" in output
    assert "Everything works, but more slowly." in sbmc("doctor")[1]


def test_native_code_that_is_turned_off(sbmc, monkeypatch):
    monkeypatch.setenv("SBMC_NATIVE", "0")
    code, output, _ = sbmc("doctor")
    assert code == 0
    assert "none, since SBMC_NATIVE=0: torch does the work" in output


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
        if extra not in ("gallery", "dev")
    }
    assert names == machine.EXTRAS
