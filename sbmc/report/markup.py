"""HTML that cannot be broken by what stands in it: every string is escaped unless it is `Html`."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

# What a browser will not have in a page, or what would turn the text around it: controls but for
# tab and newline, halves of surrogate pairs, and the marks of writing direction.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)
_VOID = frozenset(("br", "img", "meta", "link", "hr", "line", "rect", "circle", "path", "polygon"))


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def escape(value: object) -> Html:
    """Make text safe to stand in a page, as content or as the value of an attribute.

    Args:
        value: anything; `Html` comes back as it is.

    Returns:
        The text with `& < > " '` written as entities and unprintable characters replaced.

    Examples:
        >>> escape("<script>alert('s')</script>")
        '&lt;script&gt;alert(&#x27;s&#x27;)&lt;/script&gt;'
    """
    if isinstance(value, Html):
        return value
    return Html(html.escape(_UNPRINTABLE.sub("\ufffd", str(value)), quote=True))


def el(name: str, *children: object, **attributes: object) -> Html:
    """An element.

    Args:
        name: the tag.
        children: strings, which are escaped, or `Html`; None is left out.
        attributes: by name; `class_` is `class`, `data_tip` is `data-tip`. None and False leave one
            out, True makes it bare.

    Returns:
        The element.

    Examples:
        >>> el("p", "1 < 2", class_="note")
        '<p class="note">1 &lt; 2</p>'
    """
    written = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        written.append(f" {attribute}" if value is True else f' {attribute}="{escape(value)}"')
    content = join(children)
    if not content and name in _VOID:
        return Html(f"<{name}{''.join(written)}/>")
    return Html(f"<{name}{''.join(written)}>{content}</{name}>")


def join(parts: Iterable[object], between: str = "") -> Html:
    """Put parts together, each escaped unless it is markup; None is left out."""
    return Html(between.join(escape(part) for part in parts if part is not None))


def cut(text: object, most: int) -> str:
    """Shorten text that came from data, so that no string can fill the page.

    Args:
        text: anything.
        most: characters to keep, the dots included.

    Returns:
        The text on one line, with … at its end if something was left off.

    Examples:
        >>> cut("a long   story", 8)
        'a long …'
    """
    # Only as much is looked at as could be shown, blanks included.
    line = " ".join(str(text)[: 20 * most].split())
    return line if len(line) <= most else line[: most - 1] + "…"
