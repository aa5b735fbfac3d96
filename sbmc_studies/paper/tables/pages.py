"""Tables in Markdown pages, between marks that say which ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sbmc.checks import BadInput


def fill_marks(
    page: str, name: str, make: Callable[[Sequence[str]], str], *, start: str, end: str
) -> str:
    r"""Put text between all marks of a name.

    Args:
        page: the text of a Markdown page. A mark is `<!-- START: NAME -->`, perhaps with words
            before the arrow, and `<!-- END: NAME -->` after what it stands for.
        name: the name.
        make: from the words of a mark to the text.
        start: what the first mark begins with.
        end: what the second one begins with.

    Returns:
        The page with these texts made anew, and all else as it was.

    Raises:
        BadInput: if the page has no such mark.

    Examples:
        >>> page = "<!-- table: a b -->\nold\n<!-- end: a -->"
        >>> fill_marks(page, "a", " and ".join, start="table", end="end").split("\n")[2]
        'b'
    """
    marked = re.compile(
        rf"(<!-- {start}: ({re.escape(name)})((?: \w+)*) -->\n).*?(<!-- {end}: \2 -->)", re.DOTALL
    )
    if not marked.search(page):
        mark = f"<!-- {start}: {name} -->"
        raise BadInput(f"`write` must be a page with `{mark}` in it, but got none.")
    return marked.sub(lambda mark: f"{mark[1]}\n{make(mark[3].split())}\n\n{mark[4]}", page)
