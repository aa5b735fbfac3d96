"""The paper's claims: which hold on these records, which do not and why, and which lack records."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sbmc.report.markup import Html, cut, el, join
from sbmc.report.numbers import count
from sbmc.report.page import Section
from sbmc_studies.paper.numbers import table_names
from sbmc_studies.report.claims import CheckedClaim, check_claims
from sbmc_studies.report.paper_tables import paper_label
from sbmc_studies.report.study_view import StudyView, lacking_section

_TITLE = "Claims, checked on these records"


def build(view: StudyView) -> Section | None:
    """A list of each kind; None for a study without claims."""
    claims = check_claims(view.study)
    if not claims:
        return None
    held, failed, open_ = (
        [each for each in claims if each.holds is kind] for kind in (True, False, None)
    )
    if len(open_) == len(claims):
        text = f"All {count(len(claims), 'claim')} of this study need further runs. With them:"
        return lacking_section("claims", _TITLE, text, f"sbmc table {view.study.name}")
    intro = (
        f"Of {count(len(claims), 'claim')} {len(held)} hold, {len(failed)} do not, and "
        f"{len(open_)} cannot be decided, because a record is missing. Each is an ordering or a "
        "bound that the paper’s tables show, or that we add; numbers are means over seeds."
    )
    parts = [
        el("p", intro),
        _list(f"Do not hold ({len(failed)})", failed, folded=False),
        _list(f"Hold ({len(held)})", held),
        _list(f"Record missing ({len(open_)})", open_[: view.limits.keys]),
        view.omitted(min(len(open_), view.limits.keys), len(open_), "open claim"),
    ]
    return Section("claims", _TITLE, join(parts))


def _list(title: str, claims: Sequence[CheckedClaim], folded: bool = True) -> Html | None:
    if not claims:
        return None
    entries = el("ul", *map(_entry, claims), class_="claims")
    return el("details", el("summary", title), entries, open=not folded)


def _with_labels(text: str) -> str:
    """Replace the names of our data files by what the paper calls its tables."""
    return re.sub(r"\w+", lambda m: paper_label(m[0]) if m[0] in table_names() else m[0], text)


def _entry(each: CheckedClaim) -> Html:
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
