"""Which rows a network was not trained on, remembered by those who set them aside.

The memory is beside the network, not in it: a copy of the network does not carry the rows along,
and a file of it does not contain them.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from torch import nn

from sbmc.model.data import Examples

_UNSEEN: WeakKeyDictionary[nn.Module, Examples] = WeakKeyDictionary()


def remember_unseen_rows(model: nn.Module, rows: Examples) -> None:
    """Note that a network was not trained on these rows."""
    _UNSEEN[model] = rows


def remembered_rows(model: nn.Module) -> Examples | None:
    """The rows that were noted for this very network, if there are any."""
    return _UNSEEN.get(model) if isinstance(model, nn.Module) else None
