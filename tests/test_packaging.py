"""What is on disk is in the package: nothing that the code reads at run time is left behind."""

import fnmatch
import tomllib
from pathlib import Path

import pytest
from repository import ROOT

PACKAGES = ["sbmc", "sbmc_studies"]
# What the package reads or compiles beside its modules.
KINDS = (".css", ".js", ".html", ".toml", ".csv", ".c", ".h")


def shipped():
    """All files below the packages that are no byte code, as paths from the root."""
    below = (path for package in PACKAGES for path in (ROOT / package).rglob("*"))
    files = (path.relative_to(ROOT) for path in below if path.is_file())
    return sorted(path for path in files if "__pycache__" not in path.parts)


def left_out(path, patterns):
    """Whether patterns of a .gitignore leave a file out of a wheel, as hatchling reads them."""
    parents = [str(parent) for parent in path.parents][:-1]
    for pattern in patterns:
        bare = pattern.strip("/")
        anchored = "/" in pattern.rstrip("/")
        places = [*parents, *(() if pattern.endswith("/") else [str(path)])]
        for place in places:
            name = place if anchored else Path(place).name
            if fnmatch.fnmatchcase(name, bare):
                return True
    return False


def patterns():
    lines = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def test_the_wheel_has_the_whole_package_and_no_list_of_its_own():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["build-system"]["build-backend"] == "hatchling.build"
    # With a list of patterns a new kind of file would be forgotten.
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": PACKAGES}
    assert set(project["tool"]["hatch"]["build"]) == {"targets"}
    assert set(PACKAGES) <= set(project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_every_kind_are_there_and_not_ignored(kind):
    # A wheel leaves out what .gitignore does.
    files = [path for path in shipped() if path.suffix == kind]
    assert files, f"no {kind} file: is it a kind of the package still?"
    assert [str(path) for path in files if left_out(path, patterns())] == []


def test_every_folder_with_modules_is_a_package():
    folders = {path.parent for path in shipped() if path.suffix == ".py"}
    assert [str(f) for f in sorted(folders) if not (ROOT / f / "__init__.py").is_file()] == []


@pytest.mark.parametrize(
    ("pattern", "path", "out"),
    [
        ("*.html", "sbmc_studies/report/page.html", True),
        ("build/", "sbmc/build/a.c", True),
        ("build/", "sbmc/build", False),
        ("/runs/", "sbmc/runs/a.csv", False),
        ("/sbmc/*/page.html", "sbmc/report/page.html", True),
        ("report", "sbmc_studies/report/page.html", True),
        ("*.py[cod]", "sbmc_studies/report/page.py", False),
    ],
)
def test_patterns_are_read_as_git_reads_them(pattern, path, out):
    assert left_out(Path(path), [pattern]) is out
