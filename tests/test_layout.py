"""The rules of the layout, checked on the tree itself: rooms, import order, sizes.

Imports go one way, down the list `ORDER`. What a function imports when it is called ("late") is
allowed where a reason is given in `LATE`, and nowhere else.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from repository import ROOT

MOST_ENTRIES = 28
MOST_LINES = 400
MOST_LATE = 20
PACKAGES = ["sbmc", "sbmc_serve", "sbmc_studies", "tests", "benchmarks", "examples"]

# From the bottom up: a room imports from itself and from rooms above it in this list.
ORDER = [
    "sbmc.checks",
    "sbmc.log",
    "sbmc.progress",
    "sbmc.randomness",
    "sbmc.storage",
    "sbmc.likelihoods",
    "sbmc.model",
    "sbmc.prior",
    "sbmc.target",
    "sbmc.samplers",
    "sbmc.islands",
    "sbmc.prediction",
    "sbmc.posterior",
    "sbmc.training",
    "sbmc.fitting",
    "sbmc.baselines",
    "sbmc.diagnostics",
    "sbmc.confidence",
    "sbmc.datasets",
    "sbmc.tuning",
    "sbmc.estimators",
    "sbmc.embedding",
    "sbmc.language",
    "sbmc.report",
    "sbmc.cli",
    "sbmc.__main__",
    "sbmc_serve",
    "sbmc_studies.data",
    "sbmc_studies.experiments",
    "sbmc_studies.records",
    "sbmc_studies.runs",
    "sbmc_studies.paper",
    "sbmc_studies.gauntlet",
    "sbmc_studies.mnist",
    "sbmc_studies.tables",
    "sbmc_studies.reviewers",
    "sbmc_studies.figures",
    "sbmc_studies.report",
    "sbmc_studies.tuning",
    "sbmc_studies.commands",
]


# What is imported when a function is called, and why. Anything else is imported at the top.
_UP = "a method of the posterior calls what is built upon posteriors"
_QUICK = "`sbmc --help` needs no torch; a command imports its work when it is called"
LATE = {
    "sbmc.likelihoods.likelihood imports sbmc.likelihoods.from_distribution": "it makes one",
    "sbmc.posterior.compression imports sbmc.posterior.first_islands": "it makes a posterior",
    "sbmc.posterior.living.methods imports sbmc.fitting.updating": _UP,
    "sbmc.posterior.posterior imports sbmc.confidence": _UP,
    "sbmc.posterior.posterior imports sbmc.diagnostics.arviz": _UP,
    "sbmc.posterior.posterior imports sbmc.posterior.saving": "saving and loading make posteriors",
    "sbmc.posterior.sharing imports sbmc.report.pretrained.folder": "a card is a page of measures",
    "sbmc.posterior.saving imports sbmc.confidence.storage": "a file may have a confidence",
    "sbmc.cli.doctor imports sbmc.cli.machine": _QUICK,
    "sbmc.cli.embed imports sbmc.embedding": _QUICK,
    "sbmc.cli.explain imports sbmc.cli.explaining": _QUICK,
    "sbmc.cli.head imports sbmc.embedding": _QUICK,
    "sbmc.cli.posterior_commands imports sbmc.cli.posterior_work": _QUICK,
    "sbmc_serve.command imports sbmc_serve.running": _QUICK,
    "sbmc_studies.commands.loading imports sbmc_studies.commands.work": _QUICK,
}


class Import(NamedTuple):
    module: str  # which imports
    imported: str
    late: bool  # inside a function


def modules(package: str) -> dict[str, Path]:
    found = {}
    for path in (ROOT / package).rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


MODULES = {**modules("sbmc"), **modules("sbmc_serve"), **modules("sbmc_studies")}


def imports_of(module: str, text: str) -> Iterator[Import]:
    tree = ast.parse(text)
    # What is imported for the type checker alone is not imported when the program runs.
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [name if name in MODULES else node.module for name in names]
        elif isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            continue
        for name in dict.fromkeys(found):
            if name.split(".")[0] in ("sbmc", "sbmc_serve", "sbmc_studies"):
                yield Import(module, name, id(node) not in top)


IMPORTS = [
    each
    for module, path in sorted(MODULES.items())
    for each in imports_of(module, path.read_text("utf-8"))
]


def rank(module: str) -> int:
    """Where a module stands; the longest name in the list that fits it decides."""
    fits = [room for room in ORDER if module == room or module.startswith(room + ".")]
    assert fits, f"{module} is not in ORDER"
    return ORDER.index(max(fits, key=len))


def against_the_order(imports) -> list[str]:
    return [
        f"{each.module} imports {each.imported}"
        for each in imports
        # The package itself is its version and its public names, which are imported when asked for.
        if each.imported != "sbmc" and "." in each.module
        if rank(each.imported) > rank(each.module)
    ]


def test_imports_go_one_way():
    assert against_the_order(each for each in IMPORTS if not each.late) == []


def test_late_imports_are_few_and_each_has_its_reason():
    statements = [f"{each.module} imports {each.imported}" for each in IMPORTS if each.late]
    assert set(statements) - LATE.keys() == set(), "import it at the top, or give a reason in LATE"
    assert LATE.keys() - set(statements) == set(), "these are gone: take them out of LATE"
    # A module may import another one in several functions, and each statement counts.
    assert len(statements) <= MOST_LATE


def test_the_library_never_imports_what_is_built_upon_it():
    upon = ("sbmc_serve", "sbmc_studies")
    found = [
        each
        for each in IMPORTS
        if each.module.split(".")[0] == "sbmc" and each.imported.split(".")[0] in upon
    ]
    assert found == []


def test_the_server_and_the_studies_do_not_know_each_other():
    packages = {(each.module.split(".")[0], each.imported.split(".")[0]) for each in IMPORTS}
    assert not {("sbmc_serve", "sbmc_studies"), ("sbmc_studies", "sbmc_serve")} & packages


def test_a_planted_import_is_found():
    text = "from sbmc.posterior.posterior import Posterior\n\ndef f():\n    import sbmc_studies\n"
    planted = list(imports_of("sbmc.model.data", text))
    assert [each.late for each in planted] == [False, True]
    assert against_the_order(planted[:1]) == ["sbmc.model.data imports sbmc.posterior.posterior"]


def test_the_library_has_few_rooms():
    entries = [each.name for each in (ROOT / "sbmc").iterdir() if each.name != "__pycache__"]
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_is_too_long(package):
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in (ROOT / package).rglob("*.py")
    }
    long = {path: lines for path, lines in lengths.items() if lines > MOST_LINES}
    assert long == {} or package in ("tests", "benchmarks"), long
