"""The model card of a folder: Markdown with the Hub's metadata at its head."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sbmc
from sbmc.report.markup import cut
from sbmc.report.measures import show
from sbmc.report.pretrained.facts import CLASSES, LABELS, NUMBERS, Facts
from sbmc.report.pretrained.front_matter import front_matter
from sbmc.report.pretrained.loading_code import loading_code
from sbmc.report.pretrained.measuring import Measured

TAGS = ("bayesian-deep-learning", "uncertainty", "pytorch")
# Names of classes and columns that a card lists, and letters of each.
MOST_NAMES, MOST_LETTERS = 50, 80
# What Markdown reads as its own: anywhere, and at the beginning of a line.
_SPECIAL = re.compile(r"([\\`*_\[\]|~$]|:(?=//))")
_LEADING = re.compile(r"^(|\d+(?=[.)](?: |$)))(?=[#+=.)-])")
_NO_DATA = (
    "No row of the data is in this folder. The file of weights has what new rows are read by: "
    "types and ranges of inputs and, of a table, the scaling of columns and the values of text "
    "columns."
)
_WHAT = {
    CLASSES: "the probability of each class",
    NUMBERS: "numbers with intervals",
    LABELS: "the probability of each of several labels",
}


@dataclass(frozen=True)
class CardText:
    """What the user says in a card.

    Attributes:
        name: of the model, its title.
        description: a few sentences; empty for none.
        license: as the Hub spells it, such as `"mit"`; None if none is given.
        metadata: further plain values for the head of the card.
    """

    name: str
    description: str = ""
    license: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def model_card(class_name: str, facts: Facts, text: CardText, measured: Measured | None) -> str:
    """Write the card.

    Args:
        class_name: `"Posterior"` or `"Distilled"`.
        facts: what is known.
        text: what the user says.
        measured: metrics; None if none were measured.

    Returns:
        Markdown.
    """
    sections = [
        f"# {plain(text.name)}",
        *_warning(facts),
        _what_it_is(class_name, facts, text),
        f"## Data\n\n{_data(facts)}",
        f"## Cost\n\n{_table(('what', 'how much'), facts.cost)}",
        f"## Health\n\n{_health(facts)}",
        f"## Metrics\n\n{_metrics(facts, measured)}",
        "## Limits\n\n" + "\n".join(f"- {plain(each)}" for each in facts.limits),
        f"## How to load it\n\n{loading_code(class_name, facts)}",
    ]
    head = front_matter(card_metadata(facts, text, measured))
    return head + "\n" + "\n\n".join(section.strip() for section in sections) + "\n"


def card_metadata(facts: Facts, text: CardText, measured: Measured | None) -> dict[str, Any]:
    """The metadata at the head of a card, as the Hub reads them.

    Args:
        facts: what is known.
        text: what the user says; its metadata replace ours but for `library_name`, and its tags
            come after ours.
        measured: metrics, which become a `model-index`.

    Returns:
        Plain values.
    """
    content: dict[str, Any] = {"library_name": "sbmc"}
    if text.license is not None:
        content["license"] = text.license
    task = pipeline_tag(facts)
    if task is not None:
        content["pipeline_tag"] = task
    given = {key: value for key, value in text.metadata.items() if key != "library_name"}
    more = given.pop("tags", ())
    content["tags"] = list(dict.fromkeys([*TAGS, *([more] if isinstance(more, str) else more)]))
    content |= given
    if measured is not None:
        content["model-index"] = [_index_entry(text.name, content.get("pipeline_tag"), measured)]
    return content


def pipeline_tag(facts: Facts) -> str | None:
    """The Hub's name for the task, where what is known of the inputs tells it."""
    kind = facts.recipe.get("kind")
    if kind == "table":
        return "tabular-regression" if facts.kind == NUMBERS else "tabular-classification"
    if kind == "pictures":
        return "image-classification"
    names = (facts.inputs or {}).get("names") or ()
    return "text-classification" if "input_ids" in names and facts.kind == CLASSES else None


def plain(value: object, most: int = 2_000) -> str:
    r"""Text that cannot be read as Markdown or HTML.

    Examples:
        >>> print(plain("<b>*bold*</b>"))
        &lt;b&gt;\*bold\*&lt;/b&gt;
    """
    line = "".join(letter if letter.isprintable() else "�" for letter in cut(value, most))
    escaped = _SPECIAL.sub(r"\\\1", html.escape(line, quote=False))
    return _LEADING.sub(r"\1\\", escaped)


def _index_entry(name: str, task: Any, measured: Measured) -> dict[str, Any]:
    metrics = [
        {"type": key, "value": value, "name": measured.measures[key].label}
        for key, value in measured.values.items()
    ]
    data = {"name": measured.name, "type": "other"}
    return {
        "name": name,
        "results": [{"task": {"type": task or "other"}, "dataset": data, "metrics": metrics}],
    }


def _warning(facts: Facts) -> list[str]:
    health = facts.health
    teacher = str((facts.settings.get("teacher") or {}).get("health", ""))
    if health is not None and health.ok is False:
        return [_quote("**Its health is not ok.**", [*health.reasons, *health.remedies])]
    if health is not None and health.ok is None:
        return [_quote("**Its health was not checked.**", [str(health)])]
    if teacher.startswith("not ok"):
        return [_quote("**The health of its teacher is not ok.**", [teacher])]
    return []


def _quote(title: str, sentences: Iterable[str]) -> str:
    return f"> {title} {' '.join(map(plain, sentences))}"


def _what_it_is(class_name: str, facts: Facts, text: CardText) -> str:
    own = [plain(each) for each in re.split(r"\n\s*\n", text.description) if each.strip()]
    made_by = f"Made by [sbmc](https://github.com/sbmc-project/sbmc) {sbmc.__version__}"
    if class_name == "Posterior":
        what = (
            f"{made_by}: a weighted ensemble of the weights of one network. It predicts "
            f"{_WHAT[facts.kind]}, and says how much of its uncertainty is noise (aleatoric) and "
            "how much more data would take away (epistemic)."
        )
    else:
        what = (
            f"{made_by}: one network that predicts what a whole posterior does, {_WHAT[facts.kind]}"
            " and both parts of the uncertainty, in one forward pass."
        )
    licence = "" if text.license is not None else "No licence was given."
    table = _table(("", ""), facts.sizes)
    return "\n\n".join(part for part in ("## What it is", *own, what, table, licence) if part)


def _data(facts: Facts) -> str:
    known: list[tuple[str, str]] = []
    if facts.rows is not None:
        known.append(("training rows", f"{facts.rows:,}"))
    for number, leaf in enumerate((facts.inputs or {}).get("leaves", ())):
        names = (facts.inputs or {}).get("names")
        name = f"input {names[number]}" if names else "input"
        dtype = str(leaf["dtype"]).removeprefix("torch.")
        known.append((f"{name}, of a row", f"{dtype} {tuple(leaf['shape'])}"))
    recipe = facts.recipe
    if recipe.get("columns"):
        columns = [_column(each) for each in recipe["columns"]]
        known.append((f"columns ({len(columns):,})", _list(columns)))
    if recipe.get("target"):
        known.append(("target", str(recipe["target"])))
    if recipe.get("classes"):
        known.append((f"classes ({len(recipe['classes']):,})", _list(recipe["classes"])))
    if not known:
        return "Nothing is known of the data that it was fitted to."
    return f"{_NO_DATA}\n\n{_table(('what', 'as it was'), known)}"


def _column(column: Mapping[str, Any]) -> str:
    levels = column["levels"]
    return f"{column['name']} (text, {levels} values)" if levels else str(column["name"])


def _list(names: Sequence[object]) -> str:
    shown = [cut(name, MOST_LETTERS) for name in names[:MOST_NAMES]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _health(facts: Facts) -> str:
    health = facts.health
    if health is None:
        teacher = str((facts.settings.get("teacher") or {}).get("health", "not known"))
        losses = _table(("what was lost", ""), facts.losses) if facts.losses else ""
        return f"Of its teacher: {plain(teacher)}\n\n{losses}".strip()
    if not health.figures and health.ok:
        return "ok: nothing was sampled, so there was nothing to check."
    return _table(("", ""), health.rows())


def _metrics(facts: Facts, measured: Measured | None) -> str:
    if measured is None:
        return "None were measured for this card."
    known = measured.measures
    rows = [
        (known[key].label, show(key, value, known), known[key].meaning)
        for key, value in measured.values.items()
    ]
    said = f"Measured on {measured.rows:,} rows: {plain(measured.name)}."
    if measured.abstain:
        said += f" A row counts as not answered where {plain(measured.abstain)}."
    return f"{said}\n\n{_table(('metric', 'value', 'meaning'), rows)}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head)]
    body = [[plain(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [*lines, *body])
