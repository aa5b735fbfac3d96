"""Tables between marks on a page, so that a command can put newer ones in their place."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sbmc.checks import Phrase, require


def begin_mark(name: str) -> str:
    """The comment before a table."""
    return f"<!-- table: {name} -->"


def end_mark(name: str) -> str:
    """The comment after a table."""
    return f"<!-- end: {name} -->"


def fill(text: str, name: str, lines: Sequence[str]) -> str:
    r"""A page's text with lines between the marks of a table.

    Args:
        text: the page.
        name: the table's.
        lines: what is to stand between the marks.

    Returns:
        The page's new text.

    Raises:
        BadInput: the page does not have the marks, once and in their order.

    Example:
        >>> fill("a <!-- table: t --> old <!-- end: t --> b", "t", ["new"])
        'a <!-- table: t -->\n\nnew\n\n<!-- end: t --> b'
    """
    marks = [begin_mark(name), end_mark(name)]
    parts = re.split(f"({'|'.join(map(re.escape, marks))})", text)
    rule = f"a page with the marks {' and '.join(marks)}"
    require(parts[1::2] == marks, "write", rule, Phrase("one without"))
    content = "\n".join(lines).strip()
    return f"{parts[0]}{marks[0]}\n\n{content}\n\n{marks[1]}{parts[4]}"
