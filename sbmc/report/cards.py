"""Cards of single inputs: a picture or a text, what it is, what it is taken for, how sure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sbmc.report.images import data_url
from sbmc.report.markup import Html, el


@dataclass(frozen=True)
class Card:
    """An input: what it is, what it is taken for, and something to look at.

    Attributes:
        truth: what it is.
        verdict: what it is taken for.
        measure: how sure, in words.
        right: whether the two agree; None if that is not known.
        image: `(height, width)` or `(height, width, 3)`, from 0 to 1.
        text: to be quoted.
    """

    truth: str
    verdict: str
    measure: str
    right: bool | None
    image: np.ndarray | None = None
    text: str | None = None


def render_cards(cards: Sequence[Card], class_: str) -> Html:
    """Cards side by side.

    Args:
        cards: the inputs.
        class_: `"certain"` or `"uncertain"`, which have colours of their own.

    Returns:
        A list.
    """
    textual = any(card.image is None for card in cards)
    items = []
    for card in cards:
        picture = None
        if card.image is not None:
            picture = el("img", src=data_url(card.image), alt=f"Picture of {card.truth}")
        quote = el("blockquote", card.text) if card.text else None
        mark = None if card.right is None else " ✓" if card.right else " ✗"
        note = "good" if card.right else "bad"
        truth = el("b", card.truth, mark and el("span", mark, class_=note))
        taken = el("span", f"taken for {card.verdict}")
        measure = el("span", card.measure, class_="measure")
        items.append(el("li", picture, quote, el("div", truth, taken, measure)))
    return el("ul", *items, class_=f"cards {class_}{' texts' if textual else ''}")
