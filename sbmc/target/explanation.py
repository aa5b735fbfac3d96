"""What runs how: a model layer by layer, how long an epoch takes, what would make it faster."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sbmc.checks import require_count
from sbmc.likelihoods import Categorical, Likelihood, as_likelihood
from sbmc.model.calling import errors_in_words, require_rows
from sbmc.model.cutting import find_cut, sampled_operations
from sbmc.model.data import (
    Examples,
    Inputs,
    as_examples,
    as_inputs,
    check_inputs,
    count,
    rows,
    tree_map,
)
from sbmc.model.functional import call_model, evaluation_copy
from sbmc.model.fused import foldable
from sbmc.model.kernels.choice import COMPILED
from sbmc.model.parameters import ParameterSpace, Selection, select_parameters
from sbmc.model.recorder import record
from sbmc.model.recording import Constant, Operation, Parameter, Recording, Unsupported
from sbmc.model.rules import known_by_rule
from sbmc.model.wrappers import unwrapped
from sbmc.storage.html_tables import html_table
from sbmc.target.builder import EngineBuilder
from sbmc.target.engine import LikelihoodEngine

# Examples on which an epoch is timed, and how often; the best time counts.
MEASURED, REPEATS = 256, 3
KERNELS = {
    "chain": "C, the whole chain",
    "head": "C, one layer",
    "linear": "one matrix product over all particles",
    "lowrank": "matrix products over all particles",
}
# Operations that only look at values in another shape.
VIEWS = {
    *("view", "_unsafe_view", "reshape", "flatten", "unflatten", "transpose", "permute", "select"),
    *("slice", "unsqueeze", "squeeze", "expand", "t", "split", "split_with_sizes", "unbind"),
}
ONCE, LOOPED = "frozen, computed once", "one particle after another, by the module's own operations"


class LayerPlan(NamedTuple):
    """How one layer is computed."""

    name: str  # of its parameters, or of the operation
    kind: str
    way: str


@dataclass(frozen=True)
class Explanation:
    """How a model is evaluated for many particles.

    Attributes:
        layers: what is computed, in its order, and how.
        path: `fused`, `vmap` or `loop`.
        kernel: the code that knows the likelihood, too, or None where autograd does the work.
        reasons: why the path and the kernel are no faster ones.
        frozen_below: where the frozen part is cut off; empty if there is none.
        particles: how many the time is for.
        examples: how many are in an epoch.
        measured_examples: on how many of them it was timed.
        seconds_per_epoch: of value and gradient for all particles, scaled to all examples.
        advice: what would make it faster.

    `print` shows a table, and so does a notebook.
    """

    layers: tuple[LayerPlan, ...]
    path: str
    kernel: str | None
    reasons: tuple[str, ...]
    frozen_below: str
    particles: int
    examples: int
    measured_examples: int
    seconds_per_epoch: float
    advice: tuple[str, ...]

    def __str__(self) -> str:
        """The table, the time and the advice."""
        rows = [("layer", "operation", "how"), *self.layers]
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        lines = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}" for a, b, c in rows]
        lines += ["", self._summary()]
        lines += [f"why: {reason}" for reason in self.reasons]
        lines += [f"faster: {line}" for line in self.advice]
        return "\n".join(lines)

    __repr__ = __str__

    def _summary(self) -> str:
        time_of_epoch = f"{self.seconds_per_epoch:.3g} s an epoch for {self.particles} particles"
        if self.measured_examples < self.examples:
            how = f"measured on {self.measured_examples} of {self.examples} examples and scaled"
        else:
            how = f"measured on all {self.examples} examples"
        return f"path {self.path}, kernel {self.kernel or 'none'}: about {time_of_epoch} ({how})"

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        notes = [self._summary(), *self.reasons, *(f"Faster: {line}" for line in self.advice)]
        headings = ("layer", "operation", "how")
        return html_table(
            self.layers, caption="how sbmc evaluates it", headings=headings, notes=notes
        )

    def _ipython_display_(self) -> None:
        """Show the table in IPython, once in a cell: `explain` may be its last line."""
        cell = sys.modules["IPython"].get_ipython().execution_count
        if self.__dict__.get("_shown_in") != cell:
            self.__dict__["_shown_in"] = cell  # not a field: those are what was found
            bundle = {"text/html": self._repr_html_(), "text/plain": str(self)}
            sys.modules["IPython"].display.display(bundle, raw=True)


def explain(
    model: nn.Module,
    x: Any,
    *,
    parameters: Selection = "all",
    likelihood: Any = "categorical",
    particles: int = 10,
    path: str = "auto",
) -> Explanation:
    """Say how a model is evaluated for many particles, layer by layer, and print it.

    Args:
        model: the network; never changed.
        x: inputs, or `(inputs, targets)` as `fit` takes them. Without targets some are made up,
            which changes no time.
        parameters: which ones are sampled, as in `fit`.
        likelihood: of the outputs, as in `fit`.
        particles: how many are evaluated together.
        path: `"auto"`, or one of `"fused"`, `"vmap"`, `"loop"`.

    Returns:
        What was printed, as an object with fields.

    Raises:
        BadInput: an argument breaks its rule.

    Examples:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
        >>> found = explain(net, torch.zeros(5, 2, 2))  # doctest: +ELLIPSIS
        layer  operation  how...
        >>> found.path, found.layers[0].kind
        ('fused', 'linear')
    """
    found = find_explanation(
        model, x, parameters=parameters, likelihood=likelihood, particles=particles, path=path
    )
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        print(found)
    else:
        found._ipython_display_()
    return found


def find_explanation(
    model: nn.Module,
    x: Any,
    *,
    parameters: Selection = "all",
    likelihood: Any = "categorical",
    particles: int = 10,
    path: str = "auto",
) -> Explanation:
    """What `explain` prints, without printing it; the arguments are the same."""
    require_count("particles", particles)
    model = unwrapped(model)
    space = select_parameters(model, parameters)
    family = as_likelihood(likelihood)
    anchor = space.flatten(model)
    examples = _examples(model, x, family).to(dtype=anchor.dtype, device=anchor.device)
    measured = min(MEASURED, len(examples))
    some = Examples(*examples.slice(0, measured))
    builder = EngineBuilder(model, space, family, some, path)
    engine = builder(anchor)
    engine.settle()
    seconds = _seconds(engine, anchor, int(particles)) * len(examples) / measured
    reasons = tuple(each for each in (builder.path_reason, engine.kernel_reason) if each)
    return Explanation(
        layers=tuple(_layers(model, space, some.inputs, engine, builder.frozen_below)),
        path=engine.path,
        kernel=engine.kernel,
        reasons=reasons,
        frozen_below=builder.frozen_below,
        particles=int(particles),
        examples=len(examples),
        measured_examples=measured,
        seconds_per_epoch=seconds,
        advice=tuple(_advice(engine, builder.path_reason)),
    )


def _examples(model: nn.Module, x: Any, likelihood: Likelihood) -> Examples:
    """Inputs with their targets, which are made up where there are none."""
    if not isinstance(x, (Tensor, np.ndarray, dict)):
        return as_examples(x, "x")
    inputs = as_inputs(x, "x")
    check_inputs(inputs, "x")
    own = next(model.parameters())
    inputs = tree_map(lambda t: t.to(own) if t.is_floating_point() else t.to(own.device), inputs)
    few = rows(inputs, 0, 2)
    module = evaluation_copy(model, ParameterSpace((), ()))
    with torch.no_grad(), errors_in_words(model, inputs, "x"):
        outputs = call_model(module, {}, few)
        require_rows(outputs, few)
    if isinstance(likelihood, Categorical):
        return Examples(inputs, torch.zeros(count(inputs), dtype=torch.long))
    return Examples(inputs, torch.zeros(count(inputs), *outputs.shape[1:]))


def _seconds(engine: LikelihoodEngine, anchor: Tensor, particles: int) -> float:
    theta = anchor.repeat(particles, 1)
    engine(theta)
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        engine(theta)
        times.append(time.perf_counter() - began)
    return min(times)


def _layers(
    model: nn.Module, space: ParameterSpace, inputs: Inputs, engine: LikelihoodEngine, cut_at: str
) -> list[LayerPlan]:
    try:
        recording = record(model, space, rows(inputs, 0, 2))
    except Unsupported:
        return _modules(model, space, engine, cut_at)
    above: Collection[int] = range(len(recording.operations))
    if cut_at:
        cut = find_cut(recording)
        # A last layer is cut off whatever is in front of it.
        above = sampled_operations(recording) if cut is None else cut.above
    fuses = engine.path == "fused" and engine.kernel is None
    folded = foldable(recording) if fuses else {}
    plans = []
    for position, operation in enumerate(recording.operations):
        kind = operation.name.split(".")[1]
        if kind in VIEWS:
            continue
        if position not in above:
            way = ONCE
        elif position in folded:
            way = "folded into the layer before it"
        else:
            way = _way(engine, operation)
        plans.append(LayerPlan(_name(recording, operation), kind, way))
    return plans


def _way(engine: LikelihoodEngine, operation: Operation) -> str:
    if engine.kernel is not None:
        return KERNELS.get(engine.kernel, engine.kernel)
    if engine.path != "fused":
        return engine.path
    if engine.chunks.particles == 1:
        return LOOPED
    return "all particles at once" if known_by_rule(operation.name) else "vmap, this operation"


def _name(recording: Recording, operation: Operation) -> str:
    """The layer that an operation's weights belong to; empty for one without weights."""
    for each in operation.references():
        name = ""
        if isinstance(each, Parameter):
            name = each.name
        elif isinstance(each, Constant):
            name = recording.names[each.position]
        if name:
            return name.rpartition(".")[0] or name
    return ""


def _modules(
    model: nn.Module, space: ParameterSpace, engine: LikelihoodEngine, cut_at: str
) -> list[LayerPlan]:
    """Layers by their modules, where operations are not known."""
    sampled = {name.rpartition(".")[0] for name in space.names}
    plans = []
    for name, module in model.named_modules():
        if any(True for _ in module.children()):
            continue
        above = not cut_at or name in sampled
        way = KERNELS.get(engine.kernel or "", engine.path) if above else ONCE
        plans.append(LayerPlan(name, type(module).__name__, way))
    return plans


REMEDIES = {
    "looks at values": "let no Python code look at values (`if x.sum() > 0`, `.item()`)",
    "writing into a part": "join tensors (`torch.cat`, `torch.where`) and write into none",
    "random numbers": "draw no random numbers in evaluation mode",
    "number of examples": "do the same operations whatever the number of examples",
    "running statistics": "give BatchNorm running statistics",
}


def _advice(engine: LikelihoodEngine, path_reason: str) -> list[str]:
    advice = [remedy for sign, remedy in REMEDIES.items() if sign in path_reason]
    if engine.path == "fused" and engine.kernel not in COMPILED:
        why = engine.kernel_reason
        if "float64" in why:
            advice.append(
                "float32 runs in C: `fit(..., compute=sbmc.Compute(dtype=torch.float32))`"
            )
        if "compiler" in why:
            advice.append("with a C compiler (gcc or clang) this model would run in C")
        if "a likelihood that" in why:
            advice.append("categorical, Bernoulli, Gaussian and Student-t likelihoods run in C")
        if "too many" in why:
            advice.append("with fewer sampled parameters (`parameters=`) it would run in C")
        if "not a chain" in why:
            advice.append(
                "convolutions, linear layers, poolings and activations, one after another, run in C"
            )
            advice.append(
                "whatever is below the sampled parameters is computed once (`parameters=`)"
            )
    if torch.get_num_threads() == 1 < (os.cpu_count() or 1):
        advice.append("torch may use one thread only (`torch.set_num_threads`)")
    return advice
