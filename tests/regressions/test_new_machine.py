"""What failed on a machine that had never run the package before."""

import ast
import os
import signal
import subprocess
import sys
import tomllib
import warnings

import forked
import pytest
from repository import ROOT

from sbmc.storage import optional as extras

PLACE = ROOT / "sbmc" / "storage" / "optional.py"
# Both announce the refactoring of ArviZ: nutpie because it imports ArviZ itself.
ANNOUNCING = {"arviz", "nutpie"}

USE = """
import sbmc, torch
from torch import nn
x = torch.randn(20, 2)
sampler = sbmc.NUTS(warmup_draws=10, draws=2)
posterior = sbmc.fit(nn.Linear(2, 2), (x, (x[:, 0] > 0).long()), sampler=sampler, particles=2,
                     progress=False)
posterior.to_arviz()
"""

# As ArviZ 0.23 does it, with a second warning that is none of ours to keep back.
PACKAGE = """
import warnings
warnings.warn("\\nArviZ is undergoing a major refactor to improve flexibility", FutureWarning)
warnings.warn({other!r}, FutureWarning)
"""


def new_home(folder):
    """The environment of a user who has no files yet."""
    for name in ("home", "cache"):
        (folder / name).mkdir()
    return {
        **os.environ,
        "HOME": str(folder / "home"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }


def test_the_first_import_of_arviz_is_silent(tmp_path):
    # An empty HOME has no stamp of today, so ArviZ announces its refactoring.
    done = forked.run(["-W", "error", "-c", USE], cwd=tmp_path, env=new_home(tmp_path))
    # Not that it is empty: where fonts take long to find, Matplotlib says that it looks for them.
    assert done.returncode == 0, done.stderr
    assert "ArviZ" not in done.stdout + done.stderr
    assert (tmp_path / "cache" / "arviz" / "daily_warning").exists(), "ArviZ had nothing to say"


@pytest.fixture
def no_arviz(tmp_path, monkeypatch):
    """A path on which the test may put an ArviZ of its own, which has not been imported yet."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "arviz"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "arviz.py"
    sys.modules.pop("arviz", None)


def test_only_the_announcement_is_kept_from_the_user(no_arviz):
    no_arviz.write_text(PACKAGE.format(other="something else will change"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        extras.load_arviz()
    assert [str(each.message) for each in caught] == ["something else will change"]


def test_an_announcement_after_the_import_is_shown(no_arviz):
    no_arviz.write_text(PACKAGE.format(other="ArviZ is undergoing a major refactor"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        extras.load_arviz()
        with pytest.raises(FutureWarning):
            warnings.warn("ArviZ is undergoing a major refactor", FutureWarning, stacklevel=1)


def test_processes_that_import_arviz_at_once_do_not_trip_over_its_stamp(no_arviz):
    # Each writes the stamp under one temporary name, and only the first finds it to rename.
    lost = no_arviz.parent / "lost"
    no_arviz.write_text(
        "from pathlib import Path\n"
        f"stamp = Path({str(lost)!r})\n"
        "if not stamp.exists():\n"
        "    stamp.touch()\n"
        "    raise FileNotFoundError('daily_warning.tmp')\n"
        "found = True\n"
    )
    assert extras.load_arviz().found


def imports(path):
    """Packages that a file imports anywhere, or asks pytest to import, if any of them announces."""
    text = path.read_text("utf-8")
    if not any(name in text for name in ANNOUNCING):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]
        elif isinstance(node, ast.Call) and "import" in ast.unparse(node.func):
            yield from (each.value for each in node.args if isinstance(each, ast.Constant))


def test_one_place_imports_what_announces():
    folders = ("sbmc", "tests", "benchmarks")  # examples do as users do
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    others = [str(path) for path in files if path != PLACE and ANNOUNCING & set(imports(path))]
    assert others == []
    assert set(imports(PLACE)) >= ANNOUNCING


def test_ctrl_c_reaches_tests_and_what_they_start():
    # A job in the background begins with SIGINT ignored, and what it starts inherits that.
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    words = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


@pytest.mark.integration
def test_the_tests_of_ctrl_c_pass_as_a_job_in_the_background(tmp_path):
    files = [
        "islands/test_scheduler.py",
        "islands/executors/test_processes.py",
        "samplers/test_nuts.py",
    ]
    words = ["-q", "-p", "no:cacheprovider", "-k", "ctrl_c or interrupting or in_time"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *(str(ROOT / "tests" / file) for file in files)],
        cwd=ROOT,
        env=new_home(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "8 passed" in done.stdout


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_the_python_that_is_asked_for_is_the_same_everywhere():
    oldest = project()["project"]["requires-python"].removeprefix(">=")
    assert oldest == "3.11"
    assert project()["tool"]["ruff"]["target-version"] == "py" + oldest.replace(".", "")
    assert f"Python {oldest} or later" in (ROOT / "Makefile").read_text("utf-8")
    assert f"Python {oldest}" in (ROOT / "README.md").read_text("utf-8")
    assert [name for name in project()["project"]["dependencies"] if "tomli" in name] == []


def test_what_leaves_make_test_is_still_run_by_ci():
    def recipe(target):
        words = ["make", "--always-make", "--dry-run", "-o", ".venv/.installed", target]
        return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert '-m "not slow and not integration"' in recipe("test")
    assert "-m integration" in recipe("test-integration")
    assert recipe("test-all").count("pytest") == 2
    text = (ROOT / ".ci" / "run").read_text("utf-8")
    for command in ("make demo", "make test", "make test-integration", "make check"):
        assert command in text


LOOK = """
import os, signal, sys
assert not any(os.listdir(os.environ[name]) for name in ("HOME", "XDG_CACHE_HOME", "TMPDIR"))
assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
assert not any(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
assert os.environ["PIP_CONFIG_FILE"].endswith("before/.config/pip/pip.conf")
assert os.environ["NPM_CONFIG_USERCONFIG"].endswith("before/.npmrc")
assert "PYTHONPATH" not in os.environ
sys.exit(7)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it is where CI runs")
def test_the_new_machine_of_ci_is_new_and_passes_failures_on(tmp_path):
    home = tmp_path / "before"
    (home / ".config" / "pip").mkdir(parents=True)
    (home / ".config" / "pip" / "pip.conf").touch()
    (home / ".npmrc").touch()
    done = subprocess.run(
        [ROOT / ".ci" / "new-machine", sys.executable, "-c", LOOK],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHON": sys.executable}
        | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, ""), done.stdout
