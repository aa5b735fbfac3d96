"""What README and docs print is run: Python code for real, shell commands up to the run itself.

Python blocks of a file share one namespace, in the order of the page. A block that takes minutes
has the comment `<!-- test: slow -->` on a line before it and is run by `make test-slow`.
"""

import json
import re
import shlex
import subprocess
import tomllib
from dataclasses import dataclass

import pytest
from repository import ROOT

from sbmc.cli.help import examples_of
from sbmc.cli.main import _all_commands, main

PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")],
    key=lambda path: path.name,
)
# Their code is that of examples/, which `make test-gallery` runs with the packages that it needs.
GALLERY = ROOT / "docs" / "gallery"
SHELLS = ("sh", "bash", "shell", "console")

FENCE = re.compile(
    r"^(?P<mark><!-- test: slow -->\s*\n)?```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```\s*$",
    re.MULTILINE | re.DOTALL,
)
INDENTED = re.compile(r"^    (?:\$ )?((?:sbmc|make) .*)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    line: int
    slow: bool


def blocks(text):
    return [
        Block(
            match["language"],
            match["code"],
            text.count("\n", 0, match.start("code")) + 1,
            match["mark"] is not None,
        )
        for match in FENCE.finditer(text)
    ]


def commands(text):
    """Lines of shell blocks that call `sbmc` or `make`, without prompt, comment and variables."""
    lines = [
        line
        for block in blocks(text)
        if block.language in SHELLS
        for line in block.code.replace("\\\n", " ").splitlines()
    ]
    lines += INDENTED.findall(FENCE.sub("", text))
    found = []
    for line in lines:
        # A remark stands after a # or, in tables of commands, after two spaces.
        line = re.split(r"\s#|\s{2,}", line.strip().removeprefix("$ "))[0]
        line = re.sub(r"^(?:\w+=\S* )+", "", line)
        if line.split(" ")[0] in ("sbmc", "make"):
            found.append(line)
    return found


def run_blocks(path, chosen):
    namespace = {"__name__": "__main__"}
    for block in chosen:
        # Blank lines before the code, so that a traceback names the line of the page.
        source = "\n" * (block.line - 1) + block.code
        exec(compile(source, str(path), "exec"), namespace)


def name(path):
    return str(path.relative_to(ROOT))


def with_python(slow):
    pages = []
    for page in PAGES:
        if GALLERY in page.parents:
            continue
        python = [each for each in blocks(page.read_text("utf-8")) if each.language == "python"]
        if any(each.slow for each in python) if slow else python:
            pages.append(page)
    return pages


# What README and docs show must not end with a posterior that is not ok.
@pytest.mark.filterwarnings("error::sbmc.islands.health.HealthWarning")
@pytest.mark.parametrize("page", with_python(slow=False), ids=name)
def test_python_on_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    python = [each for each in blocks(page.read_text("utf-8")) if each.language == "python"]
    run_blocks(page, [block for block in python if not block.slow])


@pytest.mark.slow
@pytest.mark.parametrize("page", with_python(slow=True), ids=name)
def test_slow_python_on_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    python = [each for each in blocks(page.read_text("utf-8")) if each.language == "python"]
    run_blocks(page, python)


ALL_COMMANDS = sorted({line for page in PAGES for line in commands(page.read_text("utf-8"))})
HELP = [line.split(" #")[0].split(" >")[0].strip() for line in examples_of(_all_commands())]


SBMC_COMMANDS = sorted({*(line for line in ALL_COMMANDS if line.startswith("sbmc ")), *HELP})


@pytest.mark.parametrize("command", SBMC_COMMANDS)
def test_sbmc_command_is_understood(command, tmp_path, monkeypatch, capsys):
    assert "--install-completion" not in command, "a test must not write into anyone's shell"
    # Everything up to the run itself: names, options and settings are read and checked.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sbmc_studies.commands.run.run", lambda specs, out, **options: 0)
    monkeypatch.setattr("sbmc_studies.commands.run.run_toy_study", lambda *arguments, **options: 0)
    monkeypatch.setattr("sbmc_studies.commands.run.run_gauntlet", lambda *arguments, **options: 0)
    monkeypatch.setattr("sbmc_studies.commands.run.run_tables", lambda *arguments, **options: 0)
    monkeypatch.setattr("sbmc_studies.commands.run.run_mnist", lambda *arguments, **options: 0)
    monkeypatch.setattr("sbmc_studies.commands.run.run_reviewers", lambda *arguments, **options: 0)
    monkeypatch.setattr("sbmc_studies.commands.tune.run_tune", lambda plan, out, **options: 0)
    for worker in (
        "run_fit",
        "run_predict",
        "run_evaluate",
        "run_report",
        "run_export",
        "run_drift",
        "run_card",
    ):
        monkeypatch.setattr(f"sbmc.cli.posterior_work.{worker}", lambda *given, **options: 0)
    monkeypatch.setattr("sbmc_serve.running.run_serve", lambda *arguments, **options: 0)
    monkeypatch.setattr("sbmc.cli.embed.run_embed", lambda *arguments, **options: 0)
    monkeypatch.setattr("sbmc.cli.head.show_head", lambda *arguments, **options: 0)
    monkeypatch.setattr("sbmc.cli.explaining.explain_own_model", lambda *arguments, **options: None)
    workers = ["table.show_table", "table.write_table", "figure.draw_figure", "report.make_report"]
    workers += ["table.show_index", "table.write_index", "table.show_confidence"]
    workers += ["resume.resume", "resume.extend", "resume.merge"]
    for worker in workers:
        monkeypatch.setattr(f"sbmc_studies.commands.{worker}", lambda *arguments, **options: None)
    code = main(shlex.split(command)[1:])
    assert code == 0, capsys.readouterr().err


@pytest.mark.parametrize("command", [line for line in ALL_COMMANDS if line.startswith("make ")])
def test_make_target_exists(command):
    done = subprocess.run(
        [*shlex.split(command), "-n"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


README = (ROOT / "README.md").read_text("utf-8")


def test_readme_shows_code_and_commands():
    assert any(block.language == "python" for block in blocks(README))
    assert "pip install sbmc" in README
    assert {"make demo", "make test"} <= set(commands(README))


LANDING_PAGE = (ROOT / "docs" / "index.md").read_text("utf-8")


@pytest.mark.parametrize("page", [README, LANDING_PAGE], ids=["README", "landing page"])
def test_the_figures_of_the_picture_are_quoted(page):
    record = json.loads((ROOT / "docs" / "figures" / "why.json").read_text("utf-8"))
    words = " ".join(page.split())
    sure, right = record["sure"], record["accuracy"]
    assert f"It is 95 % sure of {100 * sure['network']:.0f} % of them." in words
    assert f"and 95 % sure of {100 * sure['ensemble']:.0f} %." in words
    shares = f"{100 * right['ensemble']:.1f} %, the network {100 * right['network']:.1f} %"
    assert f"of the digits that it knows it reads {shares}" in words


def test_the_eight_lines_of_the_landing_page_are_those_of_the_readme():
    python = [
        [each.code for each in blocks(page) if each.language == "python"]
        for page in (README, LANDING_PAGE)
    ]
    assert python[0] == python[1]


def test_readme_is_short():
    assert README.count("\n") <= 130


def test_readmes_links_work_on_a_package_index_too():
    """That is, they are absolute, and begin with an address of the project."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    repository, site = urls["Repository"], urls["Homepage"]
    raw = repository.replace("github.com", "raw.githubusercontent.com")
    targets = re.findall(r"\]\(([^)]+)\)", FENCE.sub("", README))
    assert len(targets) > 20
    elsewhere = [each for each in targets if not each.startswith((repository, site, raw))]
    assert not elsewhere
    files = [
        re.sub(r"#.*", "", each).removeprefix(start)
        for each in targets
        for start in (f"{repository}/blob/main/", f"{raw}/main/")
        if each.startswith(start)
    ]
    assert files
    assert all((ROOT / file).is_file() for file in files)


def test_blocks_and_commands_are_found():
    page = (
        "# Title\n\n```python\nx = 1\n```\n\n<!-- test: slow -->\n```python\ny = x\n```\n"
        "```sh\n$ sbmc run digits   # a remark\nSBMC_DATA=. sbmc run mnist7 --s 0.1\nls\n```\n"
        "text\n\n    make demo        what it does\n    python -m sbmc\n"
    )
    first, second = (block for block in blocks(page) if block.language == "python")
    assert (first.code, first.line, first.slow) == ("x = 1\n", 4, False)
    assert (second.code, second.slow) == ("y = x\n", True)
    assert commands(page) == ["sbmc run digits", "sbmc run mnist7 --s 0.1", "make demo"]


def test_a_block_that_fails_fails_its_page(tmp_path):
    with pytest.raises(NameError, match="undefined"):
        run_blocks(tmp_path / "page.md", [Block("python", "undefined\n", 3, False)])
