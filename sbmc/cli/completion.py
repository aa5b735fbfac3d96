"""What the Tab key offers: `sbmc --install-completion` teaches it to a shell.

Names are listed here and not imported from where they are used, because that would import torch,
and a key must answer at once. Tests compare the lists with what they stand for. Where nothing is
offered, shells offer files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

LIKELIHOODS = ("categorical", "gaussian")
PATHS = ("auto", "fused", "vmap", "loop")
SELECTIONS = ("all", "last")
TABLE_LIKELIHOODS = ("categorical", "gaussian-network", "gaussian", "student-t")
CHANNELS = ("grey", "colour")
DTYPES = ("float32", "bfloat16", "float16")


def offer(
    names: Iterable[str] | Callable[[], Iterable[str]], *, several: bool = False
) -> Callable[[str], list[str]]:
    """Make the function that completes a word.

    Args:
        names: the words there are, or a function that lists them.
        several: whether words may follow each other with commas between them.

    Returns:
        A function of what was typed, for `autocompletion` of typer's options.

    Examples:
        >>> offer(["map", "de", "s-hmc"])("m")
        ['map']
        >>> offer(["map", "de", "s-hmc"], several=True)("map,s")
        ['map,s-hmc']
    """

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",") if several else ("", "", incomplete)
        found = names() if callable(names) else names
        taken = before.split(",")
        return [
            f"{before}{comma}{name}"
            for name in found
            if name.startswith(last) and not (several and name in taken)
        ]

    return complete
