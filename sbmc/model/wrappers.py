"""The network inside `torch.compile`, averaged weights, or copies for several devices."""

from __future__ import annotations

import sys

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from sbmc.checks import Phrase, require
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

    Raises:
        BadInput: a network that is spread over several processes.

    Examples:
        >>> net = nn.Linear(2, 1)
        >>> unwrapped(nn.DataParallel(net)) is net
        True
    """
    while (inner := _inside(model)) is not None:
        logger.info("model: took the %s out of its %s", type(inner).__name__, type(model).__name__)
        model = inner
    _refuse_spread(model)
    return model


def _refuse_spread(model: nn.Module) -> None:
    """Refuse a module of which this process holds a part alone."""
    if not isinstance(model, nn.Module) or "torch.distributed.tensor" not in sys.modules:
        return  # nobody can have spread it
    from torch.distributed.tensor import DTensor

    rule = (
        "whole in this process: FSDP2 and tensor parallelism leave a part of each parameter here "
        "(for data in several processes, keep it whole and give `shards`; a loop of your own can "
        "step a part, see docs/ranks.md)"
    )
    for name, parameter in model.named_parameters():
        got = Phrase(f"the spread parameter {name!r}")
        require(not isinstance(parameter, DTensor), "model", rule, got)


def _inside(model: nn.Module) -> nn.Module | None:
    if isinstance(model, _WRAPPERS):
        return model.module
    # The class of compiled modules takes a second to import, so it is known by its attribute.
    return getattr(model, "_modules", {}).get("_orig_mod")
