"""What is on disk is in the package: nothing that the code reads at run time is left behind."""

import fnmatch
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from repository import ROOT

import sbmc

PACKAGES = ["sbmc", "sbmc_serve", "sbmc_studies"]
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
    hooks = {"custom": {"path": "hatch_build.py"}}
    targets = project["tool"]["hatch"]["build"]["targets"]
    assert targets["wheel"] == {"packages": PACKAGES, "hooks": hooks}
    assert set(project["tool"]["hatch"]["build"]) == {"targets"}
    included = targets["sdist"]["include"]
    assert {f"/{package}" for package in PACKAGES} <= set(included)
    assert "/hatch_build.py" in included  # without it an sdist cannot be built
    assert [path for path in included if not (ROOT / path.strip("/")).exists()] == []


def test_the_version_is_in_one_place_and_the_others_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"] == {"path": "sbmc/__init__.py"}
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == sbmc.__version__
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[:2] == ["Unreleased", f"{sbmc.__version__} ({citation['date-released']})"]


def test_classifiers_name_the_pythons_from_the_oldest_on():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line]
    assert project["requires-python"] == f">={named[0]}"
    assert named == sorted(named, key=lambda version: int(version.partition(".")[2]))


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
