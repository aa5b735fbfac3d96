"""The Tab key: what shells are offered, by the protocol that typer speaks with them."""

import os
import subprocess
import sys

import pytest
from repository import ROOT

from sbmc.cli import completion
from sbmc.likelihoods.choice import NAMED
from sbmc_studies.commands import completion as studies
from sbmc_studies.experiments import settings
from sbmc_studies.experiments.methods import METHODS
from sbmc_studies.figures.catalogue import NAMES
from sbmc_studies.runs.confidence import PROTOCOLS


def offered(line: str) -> list[str]:
    """What bash is offered for the last word of a line."""
    words = line.split(" ")
    protocol = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "sbmc"],
        env={**os.environ, **protocol, "PYTHONPATH": str(ROOT), "_SBMC_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sbmc ru", ["run"]),
        ("sbmc embed ", ["text", "images"]),
        ("sbmc run d", ["digits"]),
        ("sbmc run digits --method map,s-h", ["map,s-hmc"]),
        ("sbmc figure mnist7 r", ["roc", "risk-coverage", "reliability", "ranks"]),
        ("sbmc run digits --start ", ["prior", "anchor", "ensemble"]),
        ("sbmc explain net.py:Net --path ", ["auto", "fused", "vmap", "loop"]),
        ("sbmc head ", []),  # bash offers files then
    ],
)
def test_words_are_completed(line, expected):
    assert offered(line) == expected


def test_bash_completes_by_the_script_that_is_shown(tmp_path):
    command = tmp_path / "sbmc"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m sbmc "$@"\n')
    command.chmod(0o755)
    script = """
source <(_SBMC_COMPLETE=source_bash sbmc)
COMP_WORDS=(sbmc table mn) COMP_CWORD=2
_sbmc_completion sbmc
echo "${COMPREPLY[@]}"
complete -p sbmc
"""
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    words, binding = done.stdout.splitlines()
    assert words == "mnist7 mnist", done.stderr
    assert "-o default" in binding  # files, where nothing is offered


def test_nothing_heavy_is_imported_for_it():
    code = """
import os, sys
os.environ.update(_SBMC_COMPLETE="complete_bash", COMP_WORDS="sbmc run ", COMP_CWORD="2")
from sbmc.cli import main
try:
    main([])
finally:
    print(*{"torch", "numpy", "rich.console"} & set(sys.modules), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert "digits" in done.stdout.split()
    assert done.stderr.split() == []


def test_the_lists_have_the_names_that_commands_take():
    assert set(studies.METHODS) == set(METHODS)
    assert (*NAMES, "ranks") == studies.FIGURES
    assert studies.PROTOCOLS == PROTOCOLS
    assert studies.STARTS == settings.STARTS
    assert studies.ANCHORS == settings.ANCHORS
    assert studies.COVARIANCES == settings.COVARIANCES
    assert set(completion.LIKELIHOODS) <= set(NAMED)


def test_several_words_have_commas_between_them_and_none_comes_twice():
    complete = completion.offer(["map", "de", "de-s-hmc"], several=True)
    assert complete("de,d") == ["de,de-s-hmc"]
    assert complete("") == ["map", "de", "de-s-hmc"]
