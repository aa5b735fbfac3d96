"""A stream of data as an engine takes it: targets checked, and features of the frozen part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torch import Tensor

from sbmc.checks import Phrase, require
from sbmc.likelihoods import Likelihood
from sbmc.model.data import Examples
from sbmc.model.frozen_part import SplitModel
from sbmc.model.streams import Streamed


@dataclass(frozen=True)
class EngineStream:
    """The mini-batches of all data, one after another.

    Args:
        examples: the stream, and a few of its rows.
        likelihood: checks the targets.
        outputs: of the network for the first few rows, `(rows, ...)`.
        split: computes the features that the engine takes; None if it takes the inputs.
    """

    examples: Streamed
    likelihood: Likelihood
    outputs: Tensor
    split: SplitModel | None

    @property
    def rows(self) -> int:
        """The number of rows in a pass."""
        return self.examples.rows

    @property
    def ordered(self) -> bool:
        """Whether rows can be read in any order."""
        return self.examples.stream.source.ordered

    def read_pass(self, order: Iterable[Tensor], size: int, seed: int) -> Iterator[Examples]:
        """The mini-batches of one pass; see `sbmc.model.streams.Stream.read_pass`."""
        for batch in self.examples.read_pass(order, size, seed):
            inputs = batch.inputs if self.split is None else self.split.features(batch.inputs)
            yield Examples(inputs, self.likelihood.check(batch.targets, self.outputs))


def require_all_data(stream: EngineStream | None) -> None:
    """Refuse to evaluate all data at once where they are streamed."""
    rule = "data that are held in memory or mapped from files, for an evaluation of all of them"
    shown = "data that are streamed; samplers on mini-batches, such as sbmc.SGHMC, take these"
    require(stream is None, "data", rule, Phrase(shown))
