"""One model, many parameter vectors: three ways to evaluate it, with equal results."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from sbmc.checks import BadInput, require_choice
from sbmc.log import logger
from sbmc.model.calling import errors_in_words, require_dependence, require_rows
from sbmc.model.data import Inputs, rows
from sbmc.model.functional import call_model, evaluation_copy
from sbmc.model.fused import FusedForward
from sbmc.model.loop import LoopForward
from sbmc.model.parameters import ParameterSpace
from sbmc.model.recording import Unsupported
from sbmc.model.vmap import VmapForward

PROBE_EXAMPLES = 2
# Agreement relative to the largest output: far above rounding, far below what a wrong rule gives.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}
COARSE_TOLERANCE = 5e-2  # of the types with 16 bits
GRADIENTS = 10.0  # times as much for gradients, which are sums over more


class Forward(Protocol):
    """A model as a function of many parameter vectors, in evaluation mode."""

    path: str

    @property
    def one_by_one(self) -> bool:
        """Whether particles may as well be evaluated one after another."""

    def prepare(self, inputs: Inputs) -> Inputs:
        """What the first layer needs of the inputs, with the same first axis."""

    def prepared_bytes(self, inputs: Inputs) -> int:
        """Memory that `prepare` would take beyond the inputs."""

    def __call__(self, theta: Tensor, inputs: Inputs, *, stacked: bool = False) -> Tensor:
        """Outputs `(particles, examples, ...)` for `theta` `(particles, dim)`.

        The prepared inputs are shared, `(examples, ...)`, or with `stacked` one batch for each
        particle, `(particles, examples, ...)`. Differentiable in `theta`.
        """


PATHS: dict[str, Callable[[nn.Module, ParameterSpace, Inputs], Forward]] = {
    "fused": FusedForward,
    "vmap": lambda model, space, _: VmapForward(model, space),
    "loop": lambda model, space, _: LoopForward(model, space),
}


def check_path(path: str) -> None:
    """Refuse a path that does not exist."""
    require_choice("path", path, ["auto", *PATHS])


class PathChoice(NamedTuple):
    """A forward, and in words why it is not by a faster path; empty if there is none."""

    forward: Forward
    reason: str


def build_forward(
    model: nn.Module,
    space: ParameterSpace,
    inputs: Inputs,
    path: str = "auto",
    *,
    gradient: bool = True,
) -> Forward:
    """The fastest way to evaluate `model`; see `choose_forward`."""
    return choose_forward(model, space, inputs, path, gradient=gradient).forward


def choose_forward(
    model: nn.Module,
    space: ParameterSpace,
    inputs: Inputs,
    path: str = "auto",
    *,
    gradient: bool = True,
) -> PathChoice:
    """The fastest way to evaluate `model` that gives what the model itself gives.

    Args:
        model: the network; never changed.
        space: the parameters that vary between particles.
        inputs: a few examples to try it on.
        path: `"auto"`, or the one path to use: `"fused"`, `"vmap"` or `"loop"`.
        gradient: whether it has to be differentiable in the parameters.

    Returns:
        A forward whose outputs and gradients on the examples agree with the model's own, and why
        the paths before it would not do.

    Raises:
        BadInput: an unknown path, or one that cannot evaluate this model.
    """
    check_path(path)
    probe = rows(inputs, 0, PROBE_EXAMPLES)
    theta = _two_particles(space.flatten(model))
    # Called before anything else, so that a model that fails on these inputs says so itself.
    with errors_in_words(model, inputs, "inputs"):
        expected = _reference(model, space, theta, probe, gradient)
        require_rows(expected.outputs[0], probe)
    reason = ""
    reasons: list[str] = []
    for name in PATHS if path == "auto" else (path,):
        try:
            forward = PATHS[name](model, space, probe)
            reason = _disagreement(forward, theta, probe, expected)
        except Unsupported as error:
            reason = str(error)
        except Exception as error:  # whatever a user's model meets on a path that is not for it
            reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        if not reason:
            logger.debug("model evaluated by the %s path", name)
            return PathChoice(forward, "; ".join(reasons))
        reasons.append(f"{name}: {reason}")
        logger.info("the %s path cannot evaluate this model (%s)", name, reason)
    raise BadInput(f"`path` must be one that can evaluate this model, but got {path!r} ({reason}).")


def _two_particles(theta: Tensor) -> Tensor:
    """The model's own parameters and others near them, so that a mix-up of particles shows."""
    wave = torch.arange(len(theta), dtype=torch.float64).sin().to(theta)
    return torch.stack([theta, theta + 0.1 * (theta.abs().mean() + 0.1) * wave])


class _Expected(NamedTuple):
    """What the model itself gives: outputs, and gradients where they are wanted."""

    outputs: Tensor  # (particles, examples, ...)
    gradients: Tensor | None  # (particles, dim)


def _reference(
    model: nn.Module, space: ParameterSpace, theta: Tensor, probe: Inputs, gradient: bool
) -> _Expected:
    """What the model itself gives in evaluation mode."""
    module = evaluation_copy(model, ParameterSpace((), ()))
    with torch.no_grad():
        own = call_model(module, {}, probe)
        outputs = torch.stack([own, call_model(module, space.split(theta[1]), probe)])
    if not gradient:
        return _Expected(outputs, None)
    gradients = []
    for row in theta:
        with torch.enable_grad():
            point = row.detach().clone().requires_grad_()
            total = _spread(call_model(module, space.split(point), probe))
            require_dependence(total)
            slope = torch.autograd.grad(total, point)[0]
        gradients.append(slope)
    return _Expected(outputs, torch.stack(gradients))


def _spread(outputs: Tensor) -> Tensor:
    """A sum in which every finite output of one particle has a weight of its own."""
    weights = torch.arange(1, outputs.numel() + 1, device=outputs.device).cos().to(outputs.dtype)
    finite = torch.isfinite(outputs)
    return (torch.where(finite, outputs, 0) * weights.view(outputs.shape)).sum()


def _disagreement(forward: Forward, theta: Tensor, probe: Inputs, expected: _Expected) -> str:
    """Why the forward will not do; nothing if it will."""
    gradient = expected.gradients is not None
    slopes = torch.zeros(())
    with torch.set_grad_enabled(gradient):
        theta = theta.clone().requires_grad_(gradient)
        outputs = forward(theta, forward.prepare(probe))
        if gradient and not outputs.requires_grad:
            return "its outputs do not depend on the sampled parameters"
        if outputs.shape != expected.outputs.shape:
            shapes = tuple(outputs.shape[1:]), tuple(expected.outputs.shape[1:])
            return "its outputs have shape {} where the model's have {}".format(*shapes)
        if gradient:
            (slopes,) = torch.autograd.grad(_spread(outputs[0]) + _spread(outputs[1]), theta)
    if not _close(outputs.detach(), expected.outputs, 1):
        return "its outputs differ from the model's"
    if expected.gradients is not None and not _close(slopes, expected.gradients, GRADIENTS):
        return "its gradients differ from the model's"
    return ""


def _close(ours: Tensor, theirs: Tensor, factor: float) -> bool:
    finite = torch.isfinite(theirs)
    tolerance = factor * TOLERANCES.get(theirs.dtype, COARSE_TOLERANCE)
    scale = float(theirs[finite].abs().max()) if bool(finite.any()) else 0.0
    close = (ours - theirs).abs() <= tolerance * (scale + 1e-6)
    # Infinite logits may be meant (masked classes); they have to be the same ones.
    same = torch.where(finite, close, ours.nan_to_num() == theirs.nan_to_num())
    return bool(same.all())
