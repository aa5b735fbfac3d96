"""YAML of any plain values, read back by PyYAML and by huggingface_hub."""

import random
import sys

import pytest
import yaml
from huggingface_hub import ModelCard, metadata_load

from sbmc.checks import BadInput
from sbmc.report.pretrained.front_matter import front_matter, require_plain

AWKWARD = [
    "", " ", "no", "null", "1e5", "0x1F", "2026-11-18", "- a", "# b", "a: b", "'", '"', "\\", "---",
    "...", "{", "]", "%a", "@b", "`c", "&d", "*e", "!f", "|", ">", "?", "a\nb", "\t", "\r", "\x00",
    "\x07", "\x85", "\xa0", "\u2028", "\ufeff", "\U0001f600", "\U000e0001", "中文", "é",
]  # fmt: skip


def read_back(content):
    text = front_matter(content)
    head, body, tail = text.partition("---\n")[2].rpartition("---\n")
    assert (body, tail) == ("---\n", "")
    return yaml.safe_load(head)


@pytest.mark.parametrize("text", AWKWARD)
def test_any_text_comes_back_as_value_key_and_item(text):
    assert read_back({"a": text, "b": [text, {"c": text}]}) == {"a": text, "b": [text, {"c": text}]}
    assert read_back({text: 1}) == {text: 1}


@pytest.mark.parametrize(
    "number",
    [0, -3, 10**20, 0.1, 1e-05, 1e22, -2.5e-300, sys.float_info.max, 5e-324, True, False, None],
)
def test_numbers_and_truth_values_come_back_with_their_types(number):
    found = read_back({"a": number})["a"]
    assert found == number
    assert type(found) is type(number)


def nested(rng, depth):
    if depth == 0 or rng.random() < 0.3:
        return rng.choice([*AWKWARD, 1, 0.5, None, True])
    if rng.random() < 0.5:
        return [nested(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice(AWKWARD) + str(i): nested(rng, depth - 1) for i in range(rng.randrange(4))}


def test_a_thousand_random_trees_come_back():
    rng = random.Random(0)
    for _ in range(1000):
        tree = {"tree": nested(rng, 4)}
        assert read_back(tree) == tree


def test_the_hub_reads_the_same(tmp_path):
    content = {"license": "mit", "tags": ["a: b", "#c"], "language": "en"}
    (tmp_path / "README.md").write_text(front_matter(content) + "\n# Text\n\n---\n", "utf-8")
    assert metadata_load(tmp_path / "README.md") == content
    assert ModelCard.load(tmp_path / "README.md").data.to_dict() == content


@pytest.mark.parametrize("value", [object(), {1: 2}, [float("nan")], float("inf"), "\ud800", {"a"}])
def test_what_is_not_plain_is_refused(value):
    with pytest.raises(BadInput, match="`metadata` must be"):
        require_plain("metadata", {"a": value})


def test_values_without_end_are_refused():
    endless = []
    endless.append(endless)
    with pytest.raises(BadInput, match="at most 20 deep"):
        require_plain("metadata", {"a": endless})
