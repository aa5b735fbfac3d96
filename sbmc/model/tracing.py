"""A module's graph, recorded without touching any other module of the process.

`torch.fx.Tracer.trace` replaces `nn.Module.__call__`, `nn.Module.__getattr__` and some functions
while it records. They are replaced for the whole process: a module that another thread calls at
that moment is recorded too, or fails. Here the module is a private copy, and what is replaced is
the class of each of its parts, by a subclass that nobody else has an object of.
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, fx, nn

# The code of every module call, by which a call shows on the stack.
_MODULE_CALL = nn.Module._call_impl.__code__


def trace(model: nn.Module) -> fx.Graph:
    """Record what a module does with its inputs.

    The graph is the one that `torch.fx.Tracer().trace(model)` gives, and what that refuses is
    refused here. Other threads may call modules, and record others, at the same time.

    Args:
        model: a copy that nobody else uses; its parts change their class for a moment.

    Returns:
        The graph.

    Raises:
        Exception: whatever a forward does with a symbolic value that such a value cannot do.

    Example:
        >>> graph = trace(nn.Sequential(nn.Linear(3, 2), nn.ReLU()))
        >>> [node.op for node in graph.nodes]
        ['placeholder', 'call_module', 'call_module', 'output']
    """
    return _Tracer().trace(model)


class _Recorded(nn.Module):
    """What stands before the class of a part while it is traced."""

    _sbmc_tracer: ClassVar[_Tracer]

    def __init_subclass__(cls) -> None:
        # Not passed on: a class may keep a list of its subclasses, or ask for arguments.
        pass

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._sbmc_tracer.call_module(self, super().__call__, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        tracer = self._sbmc_tracer
        return tracer.getattr(name, value, tracer.parameter_proxies)


class _Tracer(fx.Tracer):
    """Torch's tracer with another `trace`; all the rest is inherited."""

    def __init__(self) -> None:
        # No function of any Python module is replaced; there is no rule for one that could be.
        super().__init__(autowrap_modules=())  # type: ignore[arg-type]
        self.parameter_proxies: dict[str, fx.Proxy] = {}
        self._parts: dict[nn.Module, str] = {}
        self._leaf_functions = _functions_to_leave_whole()

    def trace(self, root: Any, concrete_args: Any = None) -> fx.Graph:
        """Record `root`, a private copy of a module."""
        self.root = root
        self.root_module_name = root._get_name()
        self._parts = {part: name for name, part in root.named_modules()}
        self.submodule_paths = dict(self._parts)
        self.tensor_attrs = {
            value: f"{name}.{attribute}" if name else attribute
            for part, name in self._parts.items()
            for attribute, value in vars(part).items()
            if isinstance(value, Tensor)
        }
        self.graph = fx.Graph(tracer_cls=type(self))
        own_classes = {part: type(part) for part in self._parts}
        recorded = {kind: self._recorded(kind) for kind in set(own_classes.values())}
        function, args = self.create_args_for_root(type(root).forward, True, concrete_args)
        try:
            for part, kind in own_classes.items():
                object.__setattr__(part, "__class__", recorded[kind])
            self.create_node("output", "output", (self.create_arg(function(*args)),), {})
        finally:
            for part, kind in own_classes.items():
                object.__setattr__(part, "__class__", kind)
        return self.graph

    def _recorded(self, kind: type[nn.Module]) -> type[nn.Module]:
        # The name and the Python module tell the tracer which layers are torch's own.
        names = {
            "__module__": kind.__module__,
            "__qualname__": kind.__qualname__,
            "_sbmc_tracer": self,
        }
        made: Any = type(kind)  # by its own metaclass, if it has one
        return cast(type[nn.Module], made(kind.__name__, (_Recorded, kind), names))

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        """Add a node, unless torch's own tracer would have stopped before."""
        self._refuse_foreign_calls()
        return super().create_node(*args, **kwargs)

    def _refuse_foreign_calls(self) -> None:
        """Refuse what happens inside a module, or a function, that is not to be looked into.

        Torch's tracer stops at the call itself. Here it shows when the first operation follows.
        """
        frame = sys._getframe(2)
        while frame is not None and frame.f_code is not _Tracer.trace.__code__:
            if frame.f_code is _MODULE_CALL and frame.f_locals["self"] not in self._parts:
                raise NameError("module is not installed as a submodule")
            if frame.f_code in self._leaf_functions:
                raise NameError(f"{frame.f_code.co_name} is wrapped by torch.fx.wrap")
            if frame.f_globals.get("__name__", "").startswith("torch._dynamo"):
                raise RuntimeError("a compiled function cannot be traced")
            frame = frame.f_back  # type: ignore[assignment]


def _functions_to_leave_whole() -> set[CodeType]:
    """Code of the functions that were given to `torch.fx.wrap`."""
    registered = getattr(torch.fx._symbolic_trace, "_wrapped_fns_to_patch", {})
    functions = [place.get(name) for (_, name), place in list(registered.items())]
    return {function.__code__ for function in functions if hasattr(function, "__code__")}
