"""The result of a comparison with a reference: what has moved, and whether that is chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sbmc.storage.html_tables import html_table

# A network is surer of its training rows than of other rows of the same kind. Where training rows
# are the reference, uncertainties have to move by so much to count.
TRAINING_MARGIN = 0.5
# What is listed in words, and in a table.
MOST_SAID, MOST_SHOWN = 3, 10


@dataclass(frozen=True)
class Shift:
    """How one quantity differs from its reference.

    Attributes:
        name: the feature of the inputs, or the uncertainty.
        distance: the largest difference of the two distribution functions (Kolmogorov-Smirnov),
            from −1 to 1; positive if values tend to be larger than those of the reference.
        p_value: of this quantity alone.
        before: the median of the reference.
        now: the median of the new rows.
    """

    name: str
    distance: float
    p_value: float
    before: float
    now: float

    def explain(self) -> str:
        """One phrase."""
        way = "higher" if self.distance > 0 else "lower"
        medians = f"median {self.before:.4g} before, {self.now:.4g} now"
        return f"{self.name} is {way} ({medians}; distance {abs(self.distance):.2f})"


@dataclass(frozen=True)
class Drift:
    """Whether new rows are like those of a reference.

    Each feature of the inputs and each uncertainty is a test of its own (`sbmc.posterior.living`).
    The p-value of a group is the smallest one times the number of tests (Bonferroni). Without a
    shift the probability of `inputs_drifted` is at most half of the level, and so is that of
    `uncertainties_drifted` if the reference is of rows that the network was not fitted to. If it is
    of training rows, uncertainties count as drifted from a distance of 0.5 on.

    Attributes:
        rows: how many new rows there were.
        reference_rows: how many the reference rests on.
        held_out: whether the reference is of rows that the network was not fitted to.
        level: of the test, over both groups.
        inputs: the shift of each feature of the inputs.
        uncertainties: the shift of total, epistemic, and the score of a confidence.
    """

    rows: int
    reference_rows: int
    held_out: bool
    level: float
    inputs: tuple[Shift, ...]
    uncertainties: tuple[Shift, ...]

    @property
    def p_inputs(self) -> float:
        """The p-value of all features of the inputs together."""
        return _joint(self.inputs)

    @property
    def p_uncertainties(self) -> float:
        """The p-value of all uncertainties together."""
        return _joint(self.uncertainties)

    @property
    def p_value(self) -> float:
        """The p-value of inputs and uncertainties together."""
        return min(1.0, 2 * min(self.p_inputs, self.p_uncertainties))

    @property
    def inputs_drifted(self) -> bool:
        """Whether the inputs have moved."""
        return bool(self.moved(self.inputs))

    @property
    def uncertainties_drifted(self) -> bool:
        """Whether the uncertainties have moved."""
        return bool(self.moved(self.uncertainties))

    @property
    def drifted(self) -> bool:
        """Whether anything has moved by more than chance."""
        return self.inputs_drifted or self.uncertainties_drifted

    def moved(self, shifts: Sequence[Shift]) -> list[Shift]:
        """Those of a group that moved by more than chance, the largest distance first.

        Args:
            shifts: `inputs` or `uncertainties`.
        """
        training = shifts is self.uncertainties and not self.held_out
        least = TRAINING_MARGIN if training else 0.0
        enough = self.level / 2 / max(1, len(shifts))
        found = [each for each in shifts if each.p_value <= enough and abs(each.distance) >= least]
        return sorted(found, key=lambda each: -abs(each.distance))

    def explain(self) -> str:
        """What has moved and what has not, in sentences."""
        verdict = "The rows have drifted." if self.drifted else "No drift was found."
        lines = [f"{verdict} {self.rows:,} rows against {self.reference_rows:,} of the reference."]
        for title, shifts in (("Inputs", self.inputs), ("Uncertainties", self.uncertainties)):
            if not shifts:
                continue
            moved = self.moved(shifts)
            head = f"{title}: {len(moved)} of {len(shifts)} moved ({_said(_joint(shifts))})"
            said = "; ".join(each.explain() for each in moved[:MOST_SAID])
            lines.append(f"{head}{': ' if said else ''}{said}.")
        if self.uncertainties and not self.held_out:
            lines.append(
                "The reference is of training rows, of which a network is surer than of others, so "
                f"uncertainties count from a distance of {TRAINING_MARGIN:g} on. "
                "posterior.make_reference(x) takes rows that it was not fitted to."
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Drift(drifted={self.drifted}, p_value={_shown(self.p_value)}, rows={self.rows})"

    def _repr_html_(self) -> str:
        """HTML for a notebook: the verdict, and what moved most."""
        groups = ("inputs", self.inputs), ("uncertainties", self.uncertainties)
        ordered = [
            (group, each, each in self.moved(shifts))
            for group, shifts in groups
            for each in sorted(shifts, key=lambda each: (each.p_value, -abs(each.distance)))
        ]
        some = sorted(ordered, key=lambda each: (not each[2], -abs(each[1].distance)))[:MOST_SHOWN]
        table = [
            [
                group,
                each.name,
                f"{each.before:.4g}",
                f"{each.now:.4g}",
                f"{each.distance:+.2f}",
                _shown(each.p_value),
                "yes" if moved else "no",
            ]
            for group, each, moved in some
        ]
        headings = ["of", "quantity", "median before", "now", "distance", "p-value", "moved"]
        caption = f"sbmc drift: {'found' if self.drifted else 'none found'}"
        notes = self.explain().splitlines()
        return html_table(table, caption=caption, headings=headings, notes=notes)


def _joint(shifts: Sequence[Shift]) -> float:
    """The p-value of several tests together (Bonferroni)."""
    return min([1.0, *(len(shifts) * each.p_value for each in shifts)])


def _said(p_value: float) -> str:
    shown = _shown(p_value)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


def _shown(p_value: float) -> str:
    return "< 0.0001" if p_value < 1e-4 else f"{p_value:.2g}"
