"""An engine from a model and its data: over the final layer alone where only that varies."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sbmc.likelihoods import Likelihood
from sbmc.log import logger
from sbmc.model.data import Examples, count, rows
from sbmc.model.forward import Forward, build_forward
from sbmc.model.frozen_part import SplitModel, split_model
from sbmc.model.functional import evaluation_copy
from sbmc.model.parameters import ParameterSpace
from sbmc.target.engine import LikelihoodEngine, Source
from sbmc.target.memory_needs import bytes_of
from sbmc.target.probing import describe_rows, evaluate, some_rows, with_neighbour


class EngineBuilder:
    """Checks data against the model when made; builds the engine when called.

    Args:
        model: the network, in the dtype and on the device of the data.
        space: the sampled parameters.
        likelihood: of the model's outputs.
        examples: the data.
        path: how the model is evaluated.
        chunk_size: examples per chunk; by rule if not given.

    Raises:
        BadInput: targets that the likelihood cannot use, or a model that does not take the inputs.
    """

    def __init__(
        self,
        model: nn.Module,
        space: ParameterSpace,
        likelihood: Likelihood,
        examples: Examples,
        path: str = "auto",
        chunk_size: int | None = None,
    ) -> None:
        few = rows(examples.inputs, 0, 2)
        self._split: SplitModel | None = split_model(model, space, few)
        self._source = self._whole = Source(model, space)
        if self._split is not None:
            few = self._split.features(few)
            self._source = Source(self._split.head, self._split.space)
        self._forward: Forward = build_forward(*self._source, few, path)
        with torch.no_grad():
            outputs = self._forward(space.flatten(model).unsqueeze(0), self._forward.prepare(few))
        targets = likelihood.check(examples.targets, outputs[0])
        self._examples = Examples(examples.inputs, targets)
        self._likelihood = likelihood
        self._features = (
            0 if self._split is None else bytes_of(Examples(few, targets[:0])) // count(few)
        )
        self.chunk_size = None if chunk_size is None else int(chunk_size)

    def probe(self, anchor: Tensor) -> dict[str, Any]:
        """What the model and the likelihood give on a few rows, at an anchor and beside it.

        Args:
            anchor: `(dim,)`.

        Returns:
            Plain values for `target.probing.disagreement`, with what inputs and targets look like.
        """
        model, space = self._whole
        # A split holds a copy of the whole model already, of which the body may be large.
        split = self._split
        module = evaluation_copy(model, space) if split is None else split.model
        inputs = some_rows(self._examples.inputs)
        targets = some_rows(self._examples.targets)
        assert isinstance(targets, Tensor)
        looks = {"inputs": describe_rows(inputs), "targets": describe_rows(targets)}
        points = with_neighbour(anchor)
        try:
            found = evaluate(module, space, points, inputs, self._likelihood, targets)
        # A user's likelihood may fail where no particle will ever be.
        except Exception as error:
            logger.info("the log likelihood of a few rows is not noted (%s)", error)
            found = evaluate(module, space, points, inputs)
        return {**found, **looks}

    @property
    def features_bytes(self) -> int:
        """What the features take that are computed once, if there are such."""
        return self._features * len(self._examples)

    def __call__(self, point: Tensor) -> LikelihoodEngine:
        """The engine, with chunks by rule until it is settled.

        Args:
            point: parameters `(dim,)` at which a kernel is tried and memory is measured.
        """
        examples = self._examples
        if self._split is not None:
            examples = Examples(self._split.features(examples.inputs), examples.targets)
        parts = self._forward, examples, self._likelihood, point
        return LikelihoodEngine(*parts, source=self._source)
