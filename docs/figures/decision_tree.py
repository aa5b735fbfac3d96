"""`python docs/figures/decision_tree.py`: the tree of docs/how_to_choose.md, drawn and listed.

Both are made from `STEPS`, so that neither can differ from the other. The script writes the
picture, docs/images/decision_tree.svg, and the list between its marks on the page.
"""

from __future__ import annotations

import textwrap
from html import escape
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parents[1]
PICTURE = DOCS / "images" / "decision_tree.svg"
PAGE = DOCS / "how_to_choose.md"
BEGIN, END = "<!-- tree -->", "<!-- end tree -->"

WIDTH, MARGIN, GAP = 900, 20, 26
QUESTION_WIDTH, ANSWER_WIDTH = 350, 430
LINE, PADDING = 19, 12
# The width of a letter of each kind, about, in the units of the drawing.
LETTERS, CODE_LETTERS = 7.6, 8.4
QUESTION, ANSWER, LAST = ("#e8f0fb", "#2f5fa8"), ("#e9f6ee", "#2c7a4b"), ("#fdf1e2", "#a8662f")


class Step(NamedTuple):
    """A question, and what to do if the answer is yes.

    Attributes:
        question: what to ask oneself.
        call: the code to write.
        answer: what it does, in words.
        link: the page that says more.
        goes_on: whether the next question comes after a yes too, and not after a no alone.
    """

    question: str
    call: str
    answer: str
    link: str
    goes_on: bool = True


STEPS = (
    Step(
        "Are the data a plain table, and is there no network yet?",
        "sbmc.SBMCClassifier().fit(X, y)",
        "Or SBMCRegressor, for numbers. Both make a network, train it and sample around it.",
        "sklearn.md",
        goes_on=False,
    ),
    Step(
        "Is the network still untrained?",
        "net = sbmc.train_map(net, train, validation)",
        "Train it, by this function or in a loop of your own.",
        "start_here.md",
    ),
    Step(
        "Does it have millions of weights, or a frozen body?",
        'sbmc.fit(net, train, parameters="last")',
        "Sample the last layer or adapters alone. Everything below is computed once.",
        "speed.md#what-is-frozen-is-computed-once",
    ),
    Step(
        "Are there labelled rows that it was not trained on?",
        "sbmc.fit(net, train, validation=rows)",
        "The rows decide how much the network, s\u00a0=\u00a00.1 and s\u00a0=\u00a01 count. "
        "Without such rows, sbmc.fit(net, train) takes s\u00a0=\u00a00.1 or less.",
        "automatic.md",
    ),
    Step(
        "Did fit warn that the posterior is not ok?",
        "posterior.health.remedies",
        "They are calls that can be copied. Most of them give the chains more time: budget=20.",
        "diagnostics.md",
    ),
    Step(
        "Do strange inputs matter more than time?",
        "sbmc.fit(..., s=1, start=sbmc.train_ensemble(...))",
        "The full posterior disagrees most on such inputs.",
        "#start",
    ),
    Step(
        "Do you need the evidence of the model?",
        "sbmc.fit(..., sampler=sbmc.SMC())",
        "Sequential Monte Carlo estimates it. Chains do not.",
        "smc.md",
    ),
)
DONE = ("posterior.predict(x)", "Predict, and save the posterior.")


def box(
    x: float, y: float, width: float, lines: list[str], colours: tuple[str, str], code: int
) -> str:
    """A rounded box with lines of text, of which the first `code` are in a fixed width."""
    height = height_of(len(lines))
    fill, stroke = colours
    parts = [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" '
        f'fill="{fill}" stroke="{stroke}"/>'
    ]
    for number, line in enumerate(lines):
        family = ' font-family="monospace" font-size="13"' if number < code else ""
        top = y + PADDING + 11 + LINE * number
        parts.append(f'<text x="{x + PADDING}" y="{top}"{family}>{escape(line)}</text>')
    return "".join(parts)


def texts(step: Step) -> tuple[list[str], list[str], list[str]]:
    """The lines of a step: of its question, of its call and of its answer."""
    return (
        textwrap.wrap(step.question, int(QUESTION_WIDTH / LETTERS)),
        textwrap.wrap(step.call, int(ANSWER_WIDTH / CODE_LETTERS), break_long_words=False),
        textwrap.wrap(step.answer, int(ANSWER_WIDTH / LETTERS) - 2),
    )


def height_of(lines: int) -> float:
    """The height of a box with so many lines."""
    return LINE * lines + 2 * PADDING - 6


def picture() -> str:
    """The tree as SVG: questions on the left, downwards for no, to the right for yes."""
    shapes: list[str] = []
    right = WIDTH - MARGIN - ANSWER_WIDTH
    middle = MARGIN + QUESTION_WIDTH / 2
    y, above = float(MARGIN), None
    for step in STEPS:
        question, call, answer = texts(step)
        tall, low = height_of(len(call) + len(answer)), height_of(len(question))
        top = y + (tall - low) / 2
        centre = y + tall / 2
        shapes.append(box(MARGIN, top, QUESTION_WIDTH, question, QUESTION, 0))
        shapes.append(box(right, y, ANSWER_WIDTH, [*call, *answer], ANSWER, len(call)))
        shapes.append(arrow(MARGIN + QUESTION_WIDTH, centre, right, centre, "yes"))
        if above is not None:
            shapes.append(arrow(middle, above[0], middle, top, above[1]))
        above = top + low, "then" if step.goes_on else "no"
        y += tall + GAP
    shapes.append(arrow(middle, above[0], middle, y, above[1]))
    shapes.append(box(MARGIN, y, QUESTION_WIDTH, list(DONE), LAST, 1))
    height = y + LINE * 2 + 2 * PADDING + MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        'font-family="sans-serif" font-size="14" fill="#1f2937">'
        "<title>Which call to write, as a tree of questions</title>"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#6b7280"/></marker></defs>'
        f'<rect width="{WIDTH}" height="{height:g}" rx="10" fill="white"/>'
    )
    return head + "".join(shapes) + "</svg>\n"


def arrow(x: float, y: float, to_x: float, to_y: float, word: str) -> str:
    """An arrow to the right with a word above it, or down with a word beside it."""
    path = f'<path d="M{x:g} {y:g} L{to_x:g} {to_y:g}" stroke="#6b7280" marker-end="url(#tip)"/>'
    if word == "yes":
        return (
            f'{path}<text x="{(x + to_x) / 2:g}" y="{y - 6:g}" text-anchor="middle">{word}</text>'
        )
    return f'{path}<text x="{x + 10:g}" y="{(y + to_y) / 2 + 5:g}">{word}</text>'


def nested_list() -> str:
    """The same tree as a nested list, in Markdown."""
    lines = []
    for number, step in enumerate(STEPS, start=1):
        lines.append(f"{number}. {step.question}")
        lines.append(f"    - Yes: `{step.call}`. {step.answer} [More]({step.link})")
        if not step.goes_on:
            lines.append(f"    - No: go on with question {number + 1}.")
    lines.append(f"{len(STEPS) + 1}. In the end: `{DONE[0]}`. {DONE[1]}")
    return "\n".join(lines)


def with_list(page: str) -> str:
    """A page's text with the list between its marks."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{nested_list()}\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PICTURE.write_text(picture(), "utf-8")
    PAGE.write_text(with_list(PAGE.read_text("utf-8")), "utf-8")
    print(PICTURE)
