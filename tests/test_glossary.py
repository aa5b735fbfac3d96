"""The words of the glossary: each is defined once, and words that were replaced stay away."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest
from repository import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
# Private words, each of which has another one in the glossary now: checkpointer, context, run file,
# saved cells, runner, duplicate, progress, temperature.
RETIRED = {
    "sbmc": {"keeper", "workshop", "journal", "ledger", "bench", "twin", "news", "told"},
    "sbmc_studies": {"workshop", "journal", "twin"},
}


def words_of(name: str) -> set[str]:
    """The words of an identifier: `FileKeeper`, `file_keeper` and `KEEPERS` all have "keeper"."""
    parts = [part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    return {*parts, *(part.removesuffix("s") for part in parts)}


def identifiers(text: str) -> Iterator[tuple[int, str]]:
    """Names of variables, arguments, attributes, functions and classes, with their lines."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.arg | ast.keyword) and node.arg:
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, node.name


def retired_names(package: str, text: str) -> list[str]:
    return [
        f"{name} in line {line}"
        for line, name in identifiers(text)
        if RETIRED[package] & words_of(name)
    ]


@pytest.mark.parametrize("package", RETIRED)
def test_retired_words_name_nothing(package):
    for path in (ROOT / package).rglob("*.py"):
        assert not RETIRED[package] & words_of(path.stem), path
        assert retired_names(package, path.read_text("utf-8")) == [], path


@pytest.mark.parametrize(
    "text", ["FileKeeper()", "def tell(bench): ...", "run.twins = 1", "f(news=2)", "KEEPERS = 1"]
)
def test_a_planted_word_is_found(text):
    assert len(retired_names("sbmc", text)) == 1


def test_every_word_is_defined_once_and_explained():
    rows = [line for line in GLOSSARY.read_text("utf-8").splitlines() if line.startswith("| **")]
    words = [word for row in rows for word in re.findall(r"\*\*(.+?)\*\*", row.split("|")[1])]
    assert len(words) > 60
    assert [word for word, count in Counter(words).items() if count > 1] == []
    assert [row for row in rows if not row.split("|")[2].strip()] == []
