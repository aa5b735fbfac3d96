"""What a stacked posterior is made of: its members, their weights and how they were chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sbmc.storage.html_tables import html_table


@dataclass(frozen=True)
class MixtureMember:
    """One member of a mixture.

    Attributes:
        name: the network itself, or the prior that was sampled around it.
        s: the scale of the prior; 0 for the network itself.
        weight: its share of the mixture; 0 if it was left out.
        log_score: mean log predictive density on the unseen rows.
        left_out: why it has no share; empty if it has one.
    """

    name: str
    s: float
    weight: float
    log_score: float
    left_out: str = ""


@dataclass(frozen=True)
class Mixture:
    """Members whose predictions are mixed, with weights from rows that none of them has seen.

    Attributes:
        members: the network itself first, then several networks, then what was sampled.
        rows: how many unseen rows decided the weights.
        source: where those rows come from, in words.
        output_factors: what the outputs of the networks were multiplied by, so that they fit the
            unseen rows: of the one that was given, then of those that were trained beside it.
    """

    members: tuple[MixtureMember, ...]
    rows: int
    source: str
    output_factors: tuple[float, ...] = ()

    def __str__(self) -> str:
        lines = [f"weights by stacking on {self.rows} unseen rows ({self.source})"]
        width = max(len(member.name) for member in self.members)
        for member in self.members:
            note = f"   left out: {member.left_out}" if member.left_out else ""
            lines.append(
                f"  {member.weight:6.3f}  {member.name:{width}}  "
                f"log score {member.log_score:+.3f}{note}"
            )
        if self.output_factors:
            factors = ", ".join(f"{each:.2f}" for each in self.output_factors)
            one = len(self.output_factors) == 1
            lines.append(f"  outputs of the network{'' if one else 's'} multiplied by {factors}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        title, *lines = str(self).splitlines()
        # The last column says why a member is left out, if any is.
        width = 4 if any(member.left_out for member in self.members) else 3
        rows = [
            (m.name, f"{m.weight:.3f}", f"{m.log_score:+.3f}", m.left_out)[:width]
            for m in self.members
        ]
        headings = ("member", "weight", "log score", "why it is left out")[:width]
        notes = [line.strip() for line in lines[len(rows) :]]
        return html_table(rows, caption=title, headings=headings, notes=notes)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "members": [asdict(member) for member in self.members]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Mixture:
        """The mixture that `as_dict` described."""
        members = tuple(MixtureMember(**member) for member in content["members"])
        factors = tuple(float(each) for each in content.get("output_factors", ()))
        return cls(members, int(content["rows"]), str(content["source"]), factors)
