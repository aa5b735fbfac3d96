"""A Laplace approximation around a trained network, fitted by laplace-torch."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.checks import BadInput, Phrase, require
from sbmc.likelihoods import Likelihood, known_variance
from sbmc.model.data import Examples, Inputs
from sbmc.model.parameters import ParameterSpace
from sbmc.progress import Bar, open_progress
from sbmc.storage.optional import load_laplace, without_script_warning


def fit_laplace(
    model: nn.Module,
    space: ParameterSpace,
    examples: Examples,
    likelihood: Likelihood,
    *,
    structure: str,
    prior_precision: Tensor,
    prior_mean: float | Tensor = 0.0,
    batch_size: int = 256,
    progress: bool | None = False,
) -> Any:
    """Fit a Gaussian with the curvature of the posterior at the model's weights.

    Args:
        model: the trained network; never changed.
        space: the parameters that it is over.
        examples: the training data.
        likelihood: categorical or Gaussian.
        structure: `"kron"`, `"diag"` or `"full"`.
        prior_precision: one number, or what laplace-torch takes for this structure.
        prior_mean: one number or `(dim,)`.
        batch_size: examples in a batch.
        progress: None shows a bar on a terminal, True always shows progress, False never.

    Returns:
        The fitted object of laplace-torch.

    Raises:
        BadInput: a model with layers that laplace-torch does not know, or whose outputs are no
            tensor.
        ImportError: laplace-torch is not installed.
    """
    package = load_laplace()
    module = copy.deepcopy(model).eval()
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name in space.names)
    _require_tensor(module, examples)
    noise = {}
    variance = known_variance(likelihood)
    if variance is not None:
        noise["sigma_noise"] = variance**0.5
    approximation = package.Laplace(
        module,
        "regression" if noise else "classification",
        subset_of_weights="all",
        hessian_structure=structure,
        prior_precision=prior_precision,
        prior_mean=prior_mean,
        **noise,
    )
    total = len(examples)
    with (
        torch.enable_grad(),
        open_progress(progress, "Laplace", total=total, unit="examples") as bar,
    ):
        try:
            with without_script_warning():
                approximation.fit(_Batches(examples, batch_size, bar))
        except NotImplementedError as error:
            raise BadInput(
                f"`model` must have layers that laplace-torch knows for {structure!r} "
                f"(linear ones and convolutions), but got {error}."
            ) from error
        except SystemExit as error:  # what laplace-torch does with a matrix that is not finite
            raise BadInput(
                "`model` must be a network with finite outputs and gradients on the data, but got "
                "a curvature that is not finite."
            ) from error
    return approximation


def _require_tensor(module: nn.Module, examples: Examples) -> None:
    """Refuse outputs that are no tensor: laplace-torch calls the module itself."""
    with torch.no_grad():
        outputs = module(examples.slice(0, 1)[0])
    rule = (
        "one that returns a tensor for laplace-torch: wrap it in a module that returns its logits"
    )
    got = Phrase(f"one that returns a value of type {type(outputs).__name__}")
    require(isinstance(outputs, Tensor), "model", rule, got)


class _Batches:
    """The examples in their order, as what laplace-torch takes for a loader.

    A `DataLoader` would draw from the global generator at every start.
    """

    def __init__(self, examples: Examples, size: int, bar: Bar) -> None:
        self.dataset = examples
        self._size, self._bar = size, bar

    def __len__(self) -> int:
        return -(-len(self.dataset) // self._size)

    def __iter__(self) -> Iterator[tuple[Inputs, Tensor]]:
        for start in range(0, len(self.dataset), self._size):
            yield self.dataset.slice(start, start + self._size)
            self._bar.update(min(start + self._size, len(self.dataset)))
