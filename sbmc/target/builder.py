"""Builds the likelihood engine of a model and its data, and the target for a loop of your own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sbmc.checks import is_number, require, require_count
from sbmc.likelihoods import Likelihood, unweighted, without_weights
from sbmc.log import logger
from sbmc.model.data import Examples, as_examples, count, rows
from sbmc.model.devices import as_device
from sbmc.model.forward import check_path, choose_forward
from sbmc.model.frozen_part import MOST_IN_MEMORY, SplitModel, split_model
from sbmc.model.functional import converted, evaluation_copy
from sbmc.model.inferred_likelihood import resolve_likelihood
from sbmc.model.modes import refuse_modes
from sbmc.model.noise import learn_noise, require_noise
from sbmc.model.parameters import ParameterSpace, Selection, select_parameters
from sbmc.model.wrappers import unwrapped
from sbmc.prior.gaussian import anchored_prior
from sbmc.prior.original import PriorVariance, resolve_prior
from sbmc.target.contract import Source
from sbmc.target.engine import LikelihoodEngine
from sbmc.target.memory_needs import bytes_of
from sbmc.target.probe import describe_rows, evaluate, some_rows, with_neighbour
from sbmc.target.target import Target


class EngineBuilder:
    """Checks the data against the model when it is made, and builds the engine when it is called.

    Where a part of the model depends on no sampled parameter, the engine is over the rest alone,
    and its data are the features that the frozen part computes once.

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
        require_noise(likelihood, space)
        few = rows(examples.inputs, 0, 2)
        self._split: SplitModel | None = split_model(model, space, few)
        self._source = self._full_source = Source(model, space)
        if self._split is not None:
            few = self._split.features(few)
            self._source = Source(self._split.head, self._split.space)
        self._forward, self.path_reason = choose_forward(*self._source, few, path)
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
            Plain values for `target.probe.disagreement`, with descriptions of inputs and targets.
        """
        model, space = self._full_source
        # A split model holds a copy of the entire model already, which may be large.
        split = self._split
        module = evaluation_copy(model, space) if split is None else split.model
        inputs = some_rows(self._examples.inputs)
        targets = some_rows(self._examples.targets)
        assert isinstance(targets, Tensor)
        likelihood = unweighted(self._likelihood)
        targets, _ = without_weights(self._likelihood, targets)
        descriptions = {"inputs": describe_rows(inputs), "targets": describe_rows(targets)}
        points = with_neighbour(anchor)
        try:
            values = evaluate(module, space, points, inputs, likelihood, targets)
        # A user's likelihood may fail at such a point, even if no particle ever gets there.
        except Exception as error:
            logger.info("the log likelihood of a few rows could not be computed (%s)", error)
            values = evaluate(module, space, points, inputs)
        return {**values, **descriptions}

    @property
    def frozen_below(self) -> str:
        """Where the model is cut, below which everything is computed once; empty if it is not."""
        return "" if self._split is None else self._split.name

    @property
    def features_bytes(self) -> int:
        """Bytes of the features that are computed once; 0 if there are none."""
        return self._features * len(self._examples)

    def __call__(self, point: Tensor, memory_limit: int | None = None) -> LikelihoodEngine:
        """Build the engine, with chunks by rule until it is settled.

        Args:
            point: parameters `(dim,)` at which a kernel is tried and memory is measured.
            memory_limit: bytes that the process may take; features of more than a quarter of it are
                kept in a file.
        """
        examples = self._examples
        if self._split is not None:
            most = MOST_IN_MEMORY if memory_limit is None else memory_limit // 4
            on_disk = self.features_bytes > min(most, MOST_IN_MEMORY)
            features = self._split.features(examples.inputs, on_disk=on_disk)
            examples = Examples(features, examples.targets)
            where = "in a file" if on_disk else "in memory"
            logger.info("features of %d bytes are kept %s", self.features_bytes, where)
        parts = self._forward, examples, self._likelihood, point
        return LikelihoodEngine(*parts, source=self._source)


def build_target(
    model: nn.Module,
    data: Any,
    *,
    s: float = 0.1,
    prior_variance: PriorVariance = "auto",
    likelihood: Any = None,
    parameters: Selection = "all",
    path: str = "auto",
    chunk_size: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Target:
    """Build the target that `fit` samples for the same arguments, for a loop of your own.

    It is the log likelihood ℓ(θ(z)) and its gradient in the whitened coordinates z of the anchored
    prior, θ = α(s)·anchor + Σ(s)^½ z, with the model's weights as the anchor. The log density
    to sample is ℓ(θ(z)) − ‖z‖²/2, up to a constant.

    Args:
        model: the trained network; never changed. It is evaluated in evaluation mode.
        data: the training data: `(inputs, targets)`, a map-style `Dataset` or a `DataLoader`.
        s: the scale of the anchored prior, 0 < s <= 1; 1 is the full posterior.
        prior_variance: the original prior, as for `fit`.
        likelihood: of the outputs, as for `fit`; None infers it. Noise that is learned is a
            further coordinate, after the weights.
        parameters: which ones are sampled: `"all"`, `"last"`, a regular expression or a predicate.
        path: how the model is evaluated: `"auto"`, `"fused"`, `"vmap"` or `"loop"`.
        chunk_size: examples per chunk; by rule if not given.
        dtype: of parameters and data; the model's if not given.
        device: where to compute; the model's if not given.

    Returns:
        The target, to call `init` and `step` of a sampler with.

    Raises:
        BadInput: an argument breaks its rule.

    Examples:
        >>> from sbmc.samplers import mala
        >>> from sbmc.samplers.noise import IslandNoise
        >>> data = torch.randn(20, 2), torch.randint(2, (20,))
        >>> target = build_target(nn.Linear(2, 2), data, s=0.1)
        >>> state = mala.init(torch.zeros(4, target.dim), target)
        >>> rng = IslandNoise([torch.Generator().manual_seed(0)], particles=4)
        >>> state, info = mala.step(rng, state, target, step_size=torch.full((4,), 0.2))
        >>> state.position.shape, target.evaluations.gradient
        (torch.Size([4, 6]), 8)
    """
    refuse_modes("build_target")
    rule = "in (0, 1]: at 0 the posterior is the network itself, with nothing to sample"
    require(is_number(s) and 0 < s <= 1, "s", rule, s)
    require_count("chunk_size", chunk_size, optional=True)
    check_path(path)
    model = unwrapped(model)
    space = select_parameters(model, parameters)
    weights = space.flatten(model)
    dtype = weights.dtype if dtype is None else dtype
    real = isinstance(dtype, torch.dtype) and dtype.is_floating_point
    require(real, "dtype", "a floating-point torch.dtype", dtype)
    anchor = weights.to(weights.device if device is None else as_device(device), dtype)
    examples = as_examples(data).to(dtype=dtype, device=anchor.device)
    network = converted(model, dtype, anchor.device)
    family = resolve_likelihood(likelihood, network, examples).likelihood
    original = resolve_prior(
        prior_variance,
        network,
        space,
        dtype=dtype,
        trained=anchor.unsqueeze(0),
        examples=examples,
        likelihood=family,
    ).to(anchor)
    noise = learn_noise(network, space, family, examples)
    if noise is not None:
        original = original.with_noise(*noise.prior)
        anchor = noise.append(anchor.unsqueeze(0))[0]
        network, space = noise.wider_model(), noise.wider_space
    prior = anchored_prior(anchor, float(s), original.variance, centre=original.centre)
    prior = original.around(prior)
    engine = EngineBuilder(network, space, family, examples, path)(anchor)
    engine.settle(size=chunk_size)
    return Target(engine, prior)
