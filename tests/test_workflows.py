"""The files for the host of the repository can be read, and name only what exists.

They cannot be run here (docs/releasing.md says so); this is what can be known of them without.
"""

import re
import tomllib

import pytest
import yaml
from repository import ROOT

HOST = ROOT / ".github"
WORKFLOWS = sorted((HOST / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (HOST / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
MAKE = re.compile(r"\bmake (?:-s )?([a-z][a-z-]*)")
SCRIPT = re.compile(r"(?<![\w/.])(\.ci/[\w-]+)")


def read(path):
    return yaml.safe_load(path.read_text("utf-8"))


def jobs():
    return [(path, name, job) for path in WORKFLOWS for name, job in read(path)["jobs"].items()]


def commands(path):
    steps = [step for job in read(path)["jobs"].values() for step in job["steps"]]
    return "\n".join(step["run"] for step in steps if "run" in step)


def make_targets():
    text = (ROOT / "Makefile").read_text("utf-8")
    return {
        name
        for line in re.findall(r"^([a-z][a-z -]*):(?!=)", text, re.MULTILINE)
        for name in line.split()
    }


def missing(text):
    """Targets of make and scripts that commands name and that do not exist."""
    targets = [f"make {name}" for name in MAKE.findall(text) if name not in make_targets()]
    return targets + [path for path in SCRIPT.findall(text) if not (ROOT / path).is_file()]


def test_there_are_tests_docs_and_release():
    assert [path.stem for path in WORKFLOWS] == ["docs", "release", "tests"]
    assert [path.stem for path in FORMS] == ["bug", "feature", "question", "wrong_result"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_commands_name_what_exists(path):
    assert missing(commands(path)) == []


def test_a_target_or_script_that_is_gone_is_found():
    assert missing("make nothing PYTHON=python\n.ci/gone --now") == ["make nothing", ".ci/gone"]
    assert missing("make test PYTHON=python\nmake -s wheel\n.ci/run") == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_version(path):
    used = [
        step["uses"]
        for job in read(path)["jobs"].values()
        for step in job["steps"]
        if "uses" in step
    ]
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", name)] == []


def test_jobs_have_a_system_a_limit_and_steps_of_one_kind():
    for path, name, job in jobs():
        assert {"runs-on", "timeout-minutes", "steps"} <= set(job), (path.name, name)
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), (path.name, name, step)
        needed = job.get("needs", [])
        for other in [needed] if isinstance(needed, str) else needed:
            assert other in read(path)["jobs"], (path.name, name)


def test_only_what_publishes_may_write():
    for path in WORKFLOWS:
        assert read(path)["permissions"] == {"contents": "read"}
    writing = {name: job["permissions"] for _, name, job in jobs() if "permissions" in job}
    rights = [set(permissions) for permissions in writing.values()]
    assert set(writing) == {"publish"}
    assert all(each <= {"id-token", "pages"} for each in rights)
    assert "secrets." not in "".join(path.read_text("utf-8") for path in WORKFLOWS)


def test_the_pythons_are_those_of_the_classifiers():
    matrix = read(HOST / "workflows" / "tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line]
    assert matrix["python"] == named
    assert len(matrix["system"]) == 3


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_have_what_the_host_asks_for(path):
    form = read(path)
    assert {"name", "description", "body"} <= set(form)
    names = [part["id"] for part in form["body"]]
    assert len(set(names)) == len(names)
    for part in form["body"]:
        assert part["type"] in ("textarea", "input", "dropdown")
        assert part["attributes"]["label"]


def test_addresses_are_those_of_the_project():
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    own = re.compile(r"https://[\w.]*sbmc-project[\w./-]*|https://github\.com/sbmc[\w./-]*")
    files = [*HOST.rglob("*.yml"), ROOT / "SECURITY.md", ROOT / "CODE_OF_CONDUCT.md"]
    found = [address for path in files for address in own.findall(path.read_text("utf-8"))]
    assert found
    known = (urls["Repository"], urls["Homepage"])
    assert [address for address in found if not address.startswith(known)] == []
