"""Recording what a module does with its inputs, operation by operation.

The module, a private copy of it, is called on two batches of different sizes, and every operation
that reaches torch's dispatcher is written down. Numbers that differ between the two calls follow
the number of examples; everything else is a constant. Since operations are recorded and not lines
of Python, it does not matter whether a layer is a module, a function or a method of a tensor.

Recording is private to its thread: nothing of torch or of any other module is replaced meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from sbmc.model.data import Inputs, count, leaves, tree_map
from sbmc.model.functional import call_model, evaluation_copy
from sbmc.model.parameters import ParameterSpace, named_tensors
from sbmc.model.recording import (
    Constant,
    Input,
    Operation,
    Parameter,
    Recording,
    Reference,
    Result,
    Size,
    Unsupported,
    operator,
    pruned,
)

BATCHES = (2, 3)  # sizes of the two calls
# Operations that torch could take apart further, but which are better left as they are.
WHOLE = {
    *("linear", "matmul", "conv1d", "conv2d", "layer_norm", "batch_norm", "embedding_bag"),
    *("scaled_dot_product_attention", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d"),
    *("reshape", "flatten", "unflatten"),
}
DROPOUT = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
# These pass a value on: nothing is written into a recorded value, so that no copy is needed.
COPYING = ("aten.clone.default", "aten.lift_fresh.default", "aten.alias.default")


def record(model: nn.Module, space: ParameterSpace, inputs: Inputs) -> Recording:
    """Write down what a module does, in evaluation mode.

    Args:
        model: the network; a copy of it is called, the module itself is not touched.
        space: the sampled parameters, which appear by name. All others are constants.
        inputs: a few examples.

    Returns:
        The operations, those that the output does not need left out.

    Raises:
        Unsupported: the code looks at values, draws random numbers, writes into a part of a tensor,
            or does other things for different numbers of examples.

    Examples:
        >>> from sbmc.model.parameters import select_parameters
        >>> net = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
        >>> recording = record(net, select_parameters(net), torch.zeros(2, 3))
        >>> [operation.name for operation in recording.operations]
        ['aten.linear.default', 'aten.relu.default']
    """
    copied = evaluation_copy(model, space)
    first, second = (_call(copied, space, _some(inputs, size)) for size in BATCHES)
    return pruned(_joined(first, second))


def _some(inputs: Inputs, size: int) -> Inputs:
    index = torch.arange(size) % count(inputs)
    # New tensors: the model may write into what it is given.
    return tree_map(lambda t: t[index.to(t.device)], inputs)


class _NoShortcuts(TorchFunctionMode):
    """Attention layers look for such a mode, and leave out their code without derivatives."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def without_shortcuts() -> TorchFunctionMode:
    """A context in which no layer uses code that has no derivatives; of this thread alone."""
    return _NoShortcuts()


def _call(module: nn.Module, space: ParameterSpace, inputs: Inputs) -> Recording:
    tensors = named_tensors(module)
    recorder = _Recorder({name: tensors[name] for name in space.names}, inputs)
    try:
        # In inference mode operations are seen as they are called, before they are taken apart.
        with torch.inference_mode(), without_shortcuts(), recorder:
            output = call_model(module, {}, inputs)
    except Unsupported:
        raise
    except Exception as error:  # whatever a user's code does
        text = str(error).partition("\n")[0]
        reason = f"a forward that cannot be recorded ({type(error).__name__}: {text})"
        raise Unsupported(reason) from error
    reference = recorder.reference(output)
    # Copies made here, outside inference mode, can be saved for a backward pass.
    constants = tuple(t.clone() if t.is_inference() else t for t in recorder.constants)
    names = {id(tensor): name for name, tensor in tensors.items()}
    known = tuple(names.get(id(tensor), "") for tensor in recorder.constants)
    return Recording(tuple(recorder.operations), constants, reference, space, known)


class _Recorder(TorchDispatchMode):
    """Writes operations down while they are carried out."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import its compiler here, which takes a second, to keep out of its way."""
        return False

    def __init__(self, parameters: dict[str, Tensor], inputs: Inputs) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self.constants: list[Tensor] = []
        self._values = WeakTensorKeyDictionary()
        for name, tensor in parameters.items():
            self._values.setdefault(tensor, Parameter(name))
        for position, tensor in enumerate(leaves(inputs)):
            self._values[tensor] = Input(position)

    def reference(self, tensor: Tensor) -> Reference:
        """What stands for a tensor."""
        if tensor not in self._values:
            self._values[tensor] = Constant(len(self.constants))
            self.constants.append(tensor)
        return self._values[tensor]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        packet = func.overloadpacket.__name__
        if packet in DROPOUT:
            if args[2]:
                raise Unsupported("dropout that is active in evaluation mode")
            return args[0]
        if packet not in WHOLE:
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        self._refuse(func, packet, args, kwargs)
        if func._schema.is_mutable:
            return self._written(func, args, kwargs)
        result = func(*args, **kwargs)
        if str(func) in COPYING:
            self._values[result] = self.reference(args[0])
        else:
            self._note(func, args, kwargs, result)
        return result

    def _refuse(self, func: Any, packet: str, args: Any, kwargs: dict[str, Any]) -> None:
        if packet == "_local_scalar_dense":
            raise Unsupported("Python code that looks at values")
        masks = packet == "index" and any(
            t is not None and t.dtype in (torch.bool, torch.uint8) for t in args[1]
        )
        if torch.Tag.dynamic_output_shape in func.tags and (masks or packet != "index"):
            raise Unsupported(f"{packet}, whose shape depends on values")
        attends = packet == "scaled_dot_product_attention"
        probability = kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0) if attends else 1.0
        if torch.Tag.nondeterministic_seeded in func.tags and probability > 0:
            raise Unsupported(f"random numbers ({packet})")

    def _written(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """An operation that writes into a tensor: recorded as one that gives a new tensor."""
        target = args[0] if args else None
        names = [a.name for a in func._schema.arguments if a.alias_info and a.alias_info.is_write]
        if names != ["self"] or not isinstance(target, Tensor):
            raise Unsupported(f"{func.overloadpacket.__name__}, which writes into its arguments")
        reference = self.reference(target)
        if func is torch.ops.aten.detach_.default:
            return func(*args, **kwargs)
        if isinstance(reference, (Parameter, Constant)):
            raise Unsupported("a forward that changes parameters or buffers")
        storage = target.untyped_storage().data_ptr()
        for other in list(self._values):
            if other is not target and other.untyped_storage().data_ptr() == storage:
                raise Unsupported("writing into a part of a tensor")
        name = f"{str(func).rpartition('.')[0].removesuffix('_')}.{func._overloadname}"
        try:
            functional = operator(name)
        except AttributeError as error:
            raise Unsupported(f"{func.overloadpacket.__name__} in place") from error
        # Kept before the value changes, since what was recorded refers to it as it was.
        arguments = self._arguments(functional, args, kwargs)
        result = func(*args, **kwargs)
        self._append(name, *arguments, result)
        self._values[target] = Result(len(self.operations) - 1)
        return result

    def _note(self, func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> None:
        self._append(str(func), *self._arguments(func, args, kwargs), result)
        position = len(self.operations) - 1
        if isinstance(result, Tensor):
            self._values[result] = Result(position)
        elif isinstance(result, (list, tuple)):
            for item, each in enumerate(result):
                if isinstance(each, Tensor):
                    self._values[each] = Result(position, item)

    def _append(self, name: str, arguments: Any, keywords: Any, result: Any) -> None:
        shape = tuple(result.shape) if isinstance(result, Tensor) else None
        self.operations.append(Operation(name, arguments, keywords, shape))

    def _arguments(self, func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """All arguments in the order of the schema, those that were left out by their defaults."""
        positional, named = [], []
        for index, argument in enumerate(func._schema.arguments):
            if index < len(args):
                value = args[index]
            else:
                value = kwargs.get(argument.name, argument.default_value)
            if argument.kwarg_only:
                if argument.name in kwargs:
                    named.append((argument.name, self._referred(value)))
            else:
                positional.append(self._referred(value))
        return tuple(positional), tuple(named)

    def _referred(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.reference(value)
        if isinstance(value, (list, tuple)):
            return [self._referred(each) for each in value]
        return value


def _joined(first: Recording, second: Recording) -> Recording:
    """One recording of two, in which numbers that differ follow the number of examples."""
    names = [[operation.name for operation in each.operations] for each in (first, second)]
    if names[0] != names[1] or first.output != second.output:
        raise Unsupported("other operations for another number of examples")
    operations = [
        Operation(
            a.name,
            _general(a.arguments, b.arguments),
            _general(a.keywords, b.keywords),
            None if a.shape is None else _general(a.shape, b.shape),
        )
        for a, b in zip(first.operations, second.operations, strict=True)
    ]
    for ours, theirs in zip(first.constants, second.constants, strict=True):
        if ours.shape != theirs.shape or not torch.equal(ours, theirs):
            raise Unsupported("constants that depend on the number of examples")
    return replace(first, operations=tuple(operations))


def _general(a: Any, b: Any) -> Any:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(a) != len(b):
            raise Unsupported("other arguments for another number of examples")
        return type(a)(_general(x, y) for x, y in zip(a, b, strict=True))
    if type(a) is not type(b):
        raise Unsupported("other arguments for another number of examples")
    if a == b:
        return a
    if type(a) is int:
        slope, rest = divmod(b - a, BATCHES[1] - BATCHES[0])
        if rest == 0:
            return Size(slope, a - slope * BATCHES[0])
    raise Unsupported("arguments that depend on the number of examples")
