"""Graphs as files: `.pt2` of torch.export, and `.onnx`, each with its metadata inside."""

from __future__ import annotations

import io
import json
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from sbmc.checks import BadInput, Phrase, require, require_path
from sbmc.model.recorder import without_shortcuts
from sbmc.storage.optional import load_onnx

# The axis of examples, whose length is left open.
BATCH_AXIS = "batch"
# In a .pt2 file, the metadata are in an extra file of this name.
METADATA_FILE = "sbmc.json"
# A message of protocol buffers, which an .onnx file is, must be smaller than 2 GB.
MOST_ONNX_BYTES = 2_000_000_000


class Interface(NamedTuple):
    """What goes into a graph and what comes out."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Format(ABC):
    """A kind of file.

    Attributes:
        name: for the user.
        suffix: of its files.
    """

    name: str
    suffix: str

    @abstractmethod
    def encode(self, program: Any, interface: Interface, metadata: Mapping[str, str]) -> bytes:
        """The bytes of a file with a traced program."""

    @abstractmethod
    def run(self, content: bytes, inputs: Sequence[Tensor]) -> list[Tensor]:
        """What the graph in a file answers."""

    @abstractmethod
    def prepare(self, size: int) -> None:
        """Refuse, before anything is traced, what cannot be written.

        Args:
            size: bytes of all weights.
        """


class TorchExport(Format):
    """The format of `torch.export.save`, which torch opens; sbmc is not needed."""

    name, suffix = "torch.export", ".pt2"

    def prepare(self, size: int) -> None:
        """Nothing is needed."""

    def encode(self, program: Any, interface: Interface, metadata: Mapping[str, str]) -> bytes:
        """The bytes, with the metadata as an extra file."""
        buffer = io.BytesIO()
        named = {**metadata, "inputs": interface.inputs, "outputs": interface.outputs}
        with _quietly():
            torch.export.save(program, buffer, extra_files={METADATA_FILE: json.dumps(named)})
        return buffer.getvalue()

    def run(self, content: bytes, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Load the bytes and call the module that they hold."""
        with _quietly():
            module = torch.export.load(io.BytesIO(content)).module()
            return list(module(*inputs))


class Onnx(Format):
    """ONNX, which many runtimes open; neither torch nor sbmc is needed."""

    name, suffix = "ONNX", ".onnx"

    def prepare(self, size: int) -> None:
        """Refuse missing packages, and more weights than one file can have."""
        load_onnx()
        if size >= MOST_ONNX_BYTES:
            raise BadInput(
                f"`path` must be of a file of less than {MOST_ONNX_BYTES / 1e9:g} GB for ONNX, but "
                f"got weights of {size / 1e9:.3g} GB. Take fewer particles (posterior.thin(k)), "
                "one network (posterior.distil()), or a .pt2 file."
            )

    def encode(self, program: Any, interface: Interface, metadata: Mapping[str, str]) -> bytes:
        """The bytes, with the metadata as properties of the model."""
        with _quietly():
            converted = torch.onnx.export(
                program,
                dynamo=True,
                input_names=list(interface.inputs),
                output_names=list(interface.outputs),
                verbose=False,
            )
            assert converted is not None
            model = converted.model_proto
        _clean(model.graph)
        load_onnx().onnx.helper.set_model_props(model, dict(metadata))
        model.doc_string = metadata.get("what", "")
        return model.SerializeToString()

    def run(self, content: bytes, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Run the graph in ONNX Runtime."""
        runtime = load_onnx().runtime
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]
        fed = {name: each.numpy() for name, each in zip(names, inputs, strict=True)}
        return [torch.from_numpy(each) for each in session.run(None, fed)]


def _clean(graph: Any) -> None:
    """Take out what torch notes about its own code, most of the bytes, and name the open axis."""
    del graph.metadata_props[:]
    del graph.value_info[:]  # shapes in between, which runtimes infer
    for node in graph.node:
        del node.metadata_props[:]
    for value in (*graph.input, *graph.output):
        del value.metadata_props[:]
        for axis in value.type.tensor_type.shape.dim[:1]:
            axis.dim_param = BATCH_AXIS


FORMATS: tuple[Format, ...] = (Onnx(), TorchExport())


def format_of(path: str | Path) -> tuple[Path, Format]:
    """The path, checked, and the format that its name ends in.

    Raises:
        BadInput: it ends in no known one, or cannot be written to.
    """
    final = require_path("path", path)
    known = {each.suffix: each for each in FORMATS}
    rule = "a file whose name ends in " + " or ".join(f"{s} ({f.name})" for s, f in known.items())
    require(final.suffix in known, "path", rule, str(path))
    require(final.parent.is_dir(), "path", "in an existing folder", str(path))
    require(not final.is_dir(), "path", "the name of a file, not of a folder", str(path))
    return final, known[final.suffix]


def trace(graph: nn.Module, inputs: Sequence[Tensor]) -> Any:
    """Trace a graph with an open number of examples.

    Args:
        graph: a module of tensors to a tuple of tensors.
        inputs: at least two examples. (Of one, torch would take the number for fixed.)

    Returns:
        A `torch.export.ExportedProgram`.
    """
    examples = inputs[0].shape[0]
    require(examples >= 2, "inputs", "at least two examples", Phrase(f"{examples}"))
    axis = torch.export.Dim(BATCH_AXIS)
    shapes = {"inputs": tuple({0: axis} for _ in inputs)}
    with _quietly(), _without_validation(), torch.no_grad(), without_shortcuts():
        program = torch.export.export(graph.eval(), tuple(inputs), dynamic_shapes=shapes)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # it has the paths of files on this machine
    return program


@contextmanager
def _without_validation() -> Iterator[None]:
    """Distributions of a user's function would look at the values of their parameters."""
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep back what the exporters say about their own insides, which helps no user."""
    logs = [logging.getLogger(name) for name in ("torch", "torch.onnx", "onnxscript", "onnx_ir")]
    before = [log.level for log in logs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for log in logs:
            log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for log, level in zip(logs, before, strict=True):
                log.setLevel(level)
