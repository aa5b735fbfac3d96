"""What was read from a file of data: inputs, perhaps targets, and a name for each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from sbmc.checks import Phrase, require

TargetUse = Literal["ignored", "optional", "required"]
"""Whether targets are looked for at all, and whether data without them are refused."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of data, ready for a network.

    Attributes:
        inputs: `(rows, ...)`.
        targets: of the rows, as the likelihood takes them; None if the file has none.
        names: of the rows: their numbers from 1, or the names of their files.
        named_by: `"row"` or `"file"`.
        source: the file or folder, for messages.
        describe: the number of a row, from 0 -> a text that shows it to a reader; or None.
        classes: the names of the classes, in the order of the labels; None for numbers.
    """

    inputs: Tensor
    targets: Tensor | None
    names: Sequence[str]
    named_by: str
    source: str
    describe: Callable[[int], str] | None = None
    classes: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.inputs)

    def with_targets(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets.

        Raises:
            BadInput: there are no targets.
        """
        rule = "rows with their targets, to compare answers with"
        require(self.targets is not None, "data", rule, Phrase(f"{self.source}, without them"))
        assert self.targets is not None
        return self.inputs, self.targets


def class_name(classes: Sequence[str] | None, label: Any) -> str:
    """The name of a class, or its number if there are no names.

    Examples:
        >>> class_name(("cat", "dog"), 1), class_name(None, 1)
        ('dog', '1')
    """
    return str(int(label)) if classes is None else classes[int(label)]
