"""The paper's claims: which hold on these records, which do not and why, which cannot be told."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sbmc.report.markup import Html, cut, el, join
from sbmc.report.numbers import count
from sbmc_studies.paper.numbers import table_names
from sbmc_studies.report.claims import Decided, decide_claims
from sbmc_studies.report.paper_tables import paper_label
from sbmc_studies.report.view import Section, View, missing

_TITLE = "Claims, checked on these records"


def build(view: View) -> Section | None:
    """A list of each kind; None for a study that no claim is made of."""
    found = decide_claims(view.study)
    if not found:
        return None
    held, failed, open_ = (
        [each for each in found if each.holds is kind] for kind in (True, False, None)
    )
    if len(open_) == len(found):
        words = f"All {count(len(found), 'claim')} of this study need further runs. With them:"
        return Section("claims", _TITLE, missing(words, f"sbmc table {view.study.name}"))
    words = (
        f"Of {count(len(found), 'claim')} {len(held)} hold, {len(failed)} do not, and "
        f"{len(open_)} cannot be decided, because a record is missing. Each is an ordering or a "
        "bound that the paper’s tables show, or that we add; numbers are means over seeds."
    )
    parts = [
        el("p", words),
        _list(f"Do not hold ({len(failed)})", failed, folded=False),
        _list(f"Hold ({len(held)})", held),
        _list(f"Record missing ({len(open_)})", open_[: view.limits.keys]),
        view.omitted(min(len(open_), view.limits.keys), len(open_), "open claim"),
    ]
    return Section("claims", _TITLE, join(parts))


def _list(title: str, some: Sequence[Decided], folded: bool = True) -> Html | None:
    if not some:
        return None
    entries = el("ul", *map(_entry, some), class_="claims")
    return el("details", el("summary", title), entries, open=not folded)


def _with_labels(words: str) -> str:
    """The paper's own names instead of those of its tables as data."""
    return re.sub(r"\w+", lambda m: paper_label(m[0]) if m[0] in table_names() else m[0], words)


def _entry(each: Decided) -> Html:
    mark, class_ = {
        True: ("✓ holds", "good"),
        False: ("✗ does not hold", "bad"),
        None: ("– record missing", None),
    }[each.holds]
    parts: list[object] = [el("span", mark, class_=class_), f" {each.statement}: "]
    parts.append(cut(each.evidence, 300))
    if each.where:
        parts.append(el("small", f" ({_with_labels(each.where)})"))
    if each.holds is False:
        why = each.why or "no reason is known"
        parts.append(el("p", f"Why: {' '.join(why.split())}.", class_="why"))
    return el("li", *parts)
