"""The result of `diagnose`, as numbers and as a table."""

from __future__ import annotations

import io
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sbmc.storage.html_tables import html_table

if TYPE_CHECKING:
    from rich.table import Table

HEADINGS = ("quantity", "number", "R-hat", "nested R-hat", "ESS", "IACT")


@dataclass(frozen=True)
class Extent:
    """A statistic over several quantities: its worst value and its median."""

    worst: float
    median: float

    def __str__(self) -> str:
        if self.worst == self.median:
            return f"{self.worst:.4g}"
        return f"{self.worst:.4g} / {self.median:.4g}"


@dataclass(frozen=True)
class Summary:
    """The diagnostics of one group of quantities; None for those that need more draws.

    Attributes:
        name: what the quantities are, such as `parameters` or `random projections`.
        quantities: how many.
        rhat: between all chains; needs two chains of four draws.
        nested_rhat: between superchains; needs two of them.
        effective_sample_size: of all draws of all chains; needs four draws.
        integrated_autocorrelation_time: in draws; needs four draws.
    """

    name: str
    quantities: int
    rhat: Extent | None = None
    nested_rhat: Extent | None = None
    effective_sample_size: Extent | None = None
    integrated_autocorrelation_time: Extent | None = None


@dataclass(frozen=True)
class Diagnostics:
    """Diagnostics of a posterior. Print it for a table.

    Attributes:
        islands: how many completed.
        chains: per island.
        draws: per chain.
        summaries: one for each group of quantities; none where there is nothing to compare.
        nested_expected: nested R-hat of independent draws from one distribution, √(1 + 1/M) for
            equal weights; None for several draws of a chain, where it depends on how they mix.
        notes: what a reader should know about these numbers.
    """

    islands: int
    chains: int
    draws: int
    summaries: tuple[Summary, ...]
    nested_expected: float | None
    notes: tuple[str, ...]

    def __getitem__(self, name: str) -> Summary:
        """The summary with that name."""
        for summary in self.summaries:
            if summary.name == name:
                return summary
        raise KeyError(f"{name!r} is none of {[each.name for each in self.summaries]}")

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def __rich__(self) -> Table:
        from rich.table import Table

        table = Table(title=self._title, caption="\n".join(self._remarks))
        table.add_column(HEADINGS[0])
        for heading in HEADINGS[1:]:
            table.add_column(heading, justify="right", no_wrap=True)
        for row in self._rows():
            table.add_row(*row)
        return table

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        if not self.summaries:
            return html_table([], caption=self._title, notes=self.notes)
        return html_table(self._rows(), caption=self._title, headings=HEADINGS, notes=self._remarks)

    @property
    def _remarks(self) -> list[str]:
        remarks = ["worst / median over the quantities"]
        if self.nested_expected is not None:
            remarks.append(f"nested R-hat of independent draws: {self.nested_expected:.4g}")
        return [*remarks, *self.notes]

    def _rows(self) -> list[list[str]]:
        rows = []
        for each in self.summaries:
            statistics = (
                each.rhat,
                each.nested_rhat,
                each.effective_sample_size,
                each.integrated_autocorrelation_time,
            )
            cells = ["–" if value is None else str(value) for value in statistics]
            rows.append([each.name, str(each.quantities), *cells])
        return rows

    @property
    def _title(self) -> str:
        return f"{self.islands} islands × {self.chains} chains × {self.draws} draws"

    def __str__(self) -> str:
        from rich.console import Console

        if not self.summaries:
            return "\n".join([self._title, *self.notes])
        page = io.StringIO()
        Console(file=page, width=100, color_system=None).print(self)
        return page.getvalue().rstrip()
