"""The network inside `torch.compile`, averaged weights, or copies for several devices."""

from __future__ import annotations

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from sbmc.log import logger

_WRAPPERS = (AveragedModel, DataParallel, DistributedDataParallel)


def unwrapped(model: nn.Module) -> nn.Module:
    """The network itself, where a module is only a way to call or to train it.

    Weights of particles are put into the network, of which the code of `torch.compile` and the
    copies of `DataParallel` would know nothing.

    Args:
        model: a network, or one inside `torch.compile(...)`, `AveragedModel`, `DataParallel` or
            `DistributedDataParallel`, or several of these.

    Returns:
        The network, which is the same object. Whatever is no such module is returned as it is.

    Examples:
        >>> net = nn.Linear(2, 1)
        >>> unwrapped(nn.DataParallel(net)) is net
        True
    """
    while (inner := _inside(model)) is not None:
        logger.info("model: took the %s out of its %s", type(inner).__name__, type(model).__name__)
        model = inner
    return model


def _inside(model: nn.Module) -> nn.Module | None:
    if isinstance(model, _WRAPPERS):
        return model.module
    # The class of compiled modules takes a second to import, so it is known by its attribute.
    return getattr(model, "_modules", {}).get("_orig_mod")
