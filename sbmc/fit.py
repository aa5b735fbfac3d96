"""`sbmc.fit`: from a trained network and its data to a posterior."""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.checks import BadInput, Phrase, is_number, is_whole, nearest, require
from sbmc.examples import Examples, as_examples, rows
from sbmc.forward import Forward, build_forward, check_path
from sbmc.forward.functional import converted
from sbmc.head import SplitModel, split_model
from sbmc.islands import (
    Island,
    IslandReport,
    Start,
    run_islands,
    start_at_anchor,
    start_at_members,
    start_at_prior,
)
from sbmc.likelihoods import Likelihood, as_likelihood
from sbmc.log import logger
from sbmc.parameters import ParameterSpace, Selection, select_parameters
from sbmc.posterior import Cost, Posterior, check_weighting
from sbmc.prior import (
    AnchoredPrior,
    Variance,
    anchored_prior,
    linear_variance,
    resolve_variance,
    step_weight,
)
from sbmc.randomness import Stream, generator
from sbmc.samplers import HMC, SMC
from sbmc.samplers.contract import Sampler
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.smc.diagnostics import SMCRun
from sbmc.samplers.smc.pilot import learn
from sbmc.target import Chunks, Target

# Warn when the evidence leaves fewer effective islands than this.
FEWEST_EFFECTIVE = 2.0


def fit(
    model: nn.Module,
    data: Any,
    *,
    s: float = 0.1,
    prior_variance: Variance = 1.0,
    sampler: Sampler | None = None,
    particles: int = 10,
    islands: int = 1,
    seed: int = 0,
    start: Any = None,
    island_weights: str | None = None,
    parameters: Selection = "all",
    likelihood: Any = "categorical",
    alpha: Callable[[float], float] = step_weight,
    covariance: Callable[[float, Tensor], Tensor] = linear_variance,
    anchor_epochs: float | None = None,
    path: str = "auto",
    chunk_size: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    progress: bool | None = None,
    throw: bool = False,
) -> Posterior:
    """Sample the anchored posterior around a trained network (Algorithm 1 of the paper).

    The target is the likelihood times N(α(s)·anchor, Σ(s)), with the model's weights as the anchor;
    P islands of N particles sample it independently.

    Args:
        model: the trained network; never changed. It is evaluated in evaluation mode.
        data: the training data: `(inputs, targets)`, a map-style `Dataset` or a `DataLoader`.
        s: 0 returns the anchor alone, at no cost; 1 is the full posterior, whatever the anchor.
        prior_variance: v of the original prior N(0, v): a number, a mapping from patterns on
            parameter names, or a tensor `(dim,)`.
        sampler: settings of the algorithm, such as `HMC(epochs=160)`, the default, or `SMC()`.
        particles: N, chains or particles per island.
        islands: P.
        seed: decides all noise; island i has the same noise whatever the number of islands.
        start: where chains begin: `"anchor"` (plus a little noise; the default), `"prior"` (as in
            the paper), an ensemble, or a list of modules, whose weights the particles take in turn.
            SMC begins at the prior and nowhere else.
        island_weights: how islands are combined: `"evidence"` (SMC's default, and for it alone) or
            `"equal"`.
        parameters: which ones are sampled: `"all"`, `"last"`, a regular expression or a predicate.
        likelihood: `"categorical"`, `sbmc.Gaussian(noise_variance=...)`, or a callable
            `(outputs, targets) -> (examples,)`.
        alpha: the rule α(s).
        covariance: the rule Σ(s), a function of s and the prior variances `(dim,)`.
        anchor_epochs: what the anchor cost, for the accounts; read from the model's training
            history where there is one.
        path: how the model is evaluated: `"auto"`, `"fused"`, `"vmap"` or `"loop"`.
        chunk_size: examples per chunk; by rule if not given.
        dtype: of parameters and data; the model's if not given.
        device: where to compute; the model's if not given.
        progress: None shows a bar on a terminal; True always shows something; False nothing.
        throw: raise if an island fails, rather than go on with the others.

    Returns:
        The posterior.

    Raises:
        BadInput: an argument breaks its rule; found before any computing.
        RuntimeError: every island failed, or one did and `throw` is set.

    Example:
        >>> net = nn.Linear(2, 2)
        >>> data = torch.randn(20, 2), torch.randint(2, (20,))
        >>> posterior = fit(net, data, s=0.1, sampler=HMC(steps=3), particles=4, islands=2)
        >>> posterior.positions.shape
        torch.Size([2, 4, 6])
    """
    require(is_number(s) and 0 <= s <= 1, "s", "in [0, 1]", s)
    _require_positive_integers(particles=particles, islands=islands)
    if chunk_size is not None:
        _require_positive_integers(chunk_size=chunk_size)
    generator(seed)  # refuses a bad seed
    check_path(path)
    algorithm: Sampler = HMC() if sampler is None else sampler
    good = isinstance(algorithm, Sampler) and dataclasses.is_dataclass(algorithm)
    require(good, "sampler", "settings such as sbmc.HMC(...) or sbmc.SMC(...)", sampler)
    start = algorithm.default_start if start is None else start
    weighting = algorithm.default_weights if island_weights is None else island_weights
    check_weighting(weighting)
    if algorithm.default_weights == "evidence":
        # Tempering begins at temperature 0, whose target is the prior.
        named = start if isinstance(start, str) else Phrase("members")
        require(start == "prior", "start", f"'prior' for {type(algorithm).__name__}", named)
    else:
        rule = f"'equal' for {type(algorithm).__name__}, which estimates no evidence"
        require(weighting == "equal", "island_weights", rule, weighting)
    space = select_parameters(model, parameters)
    anchor = space.flatten(model)
    dtype = anchor.dtype if dtype is None else dtype
    real = isinstance(dtype, torch.dtype) and dtype.is_floating_point
    require(real, "dtype", "a floating-point torch.dtype", dtype)
    place = torch.device(anchor.device if device is None else device)
    anchor = anchor.to(place, dtype)
    variance = resolve_variance(prior_variance, space, dtype).to(place)
    prior = None
    if s > 0:
        prior = anchored_prior(anchor, s, variance, alpha=alpha, covariance=covariance)
    family = as_likelihood(likelihood)
    begin = _resolve_start(start, space, anchor)
    anchor_cost = _anchor_epochs(model, anchor_epochs)
    examples = as_examples(data).to(dtype=dtype, device=place)
    network = converted(model, dtype, place)
    settings = {
        "s": float(s),
        "prior_variance": _describe_variance(prior_variance),
        "particles": int(particles),
        "islands": int(islands),
        "seed": int(seed),
        "start": start if isinstance(start, str) else "members",
        "parameters": parameters if isinstance(parameters, str) else "predicate",
        "sampler": type(algorithm).__name__,
        "sampler_settings": _describe_sampler(algorithm),
        "island_weights": weighting,
        "dtype": str(dtype),
    }
    build = _TargetBuilder(network, space, family, examples, path, chunk_size)
    if prior is None:
        return _point(network, space, family, anchor, anchor_cost, settings)
    target = build(prior)
    settings |= {"path": target.path, "chunks": dataclasses.asdict(target.chunks)}
    began = time.perf_counter()
    if isinstance(algorithm, SMC) and algorithm.pilot:
        algorithm, pilot = _run_pilot(algorithm, target, int(particles), int(seed))
        settings["pilot_epochs"] = pilot.epochs
        settings["pilot_forward_epochs"] = pilot.forward_epochs
        settings["frozen"] = _describe_sampler(algorithm)
    results = run_islands(
        algorithm,
        target,
        begin,
        islands=int(islands),
        particles=int(particles),
        seed=int(seed),
        progress=progress,
    )
    seconds = time.perf_counter() - began
    _report_failures(results, throw)
    posterior = _collect(results, prior, network, space, family, anchor_cost, seconds, settings)
    _warn_of_collapse(posterior)
    return posterior


class _TargetBuilder:
    """Checks data against the model when made; builds the target when a prior is at hand."""

    def __init__(
        self,
        model: nn.Module,
        space: ParameterSpace,
        likelihood: Likelihood,
        examples: Examples,
        path: str,
        chunk_size: int | None,
    ) -> None:
        few = rows(examples.inputs, 0, 2)
        self._split: SplitModel | None = split_model(model, space, few)
        self._forward: Forward
        if self._split is None:
            self._forward = build_forward(model, space, few, path)
        else:
            few = self._split.features(few)
            self._forward = build_forward(self._split.head, self._split.space, few, path)
        with torch.no_grad():
            outputs = self._forward(space.flatten(model).unsqueeze(0), self._forward.prepare(few))
        targets = likelihood.check(examples.targets, outputs[0])
        self._examples = Examples(examples.inputs, targets)
        self._likelihood = likelihood
        self._chunk_size = chunk_size

    def __call__(self, prior: AnchoredPrior) -> Target:
        examples = self._examples
        if self._split is not None:
            examples = Examples(self._split.features(examples.inputs), examples.targets)
        target = Target(self._forward, examples, self._likelihood, prior)
        if self._chunk_size is not None:
            size = min(int(self._chunk_size), len(examples))
            target.chunks = Chunks(size, target.chunks.particles)
        return target


def _require_positive_integers(**values: Any) -> None:
    for name, value in values.items():
        require(is_whole(value) and value >= 1, name, "a positive integer", value)


def _anchor_epochs(model: nn.Module, given: float | None) -> float:
    """What the anchor cost: as given, or else as its training history says."""
    if given is None:
        found = getattr(getattr(model, "history", None), "epochs", 0)
        return float(found) if is_number(found) else 0.0
    good = is_number(given) and 0 <= given < math.inf
    require(good, "anchor_epochs", "a non-negative number", given)
    return float(given)


def _resolve_start(start: Any, space: ParameterSpace, anchor: Tensor) -> Start:
    if isinstance(start, str):
        named = {"anchor": start_at_anchor, "prior": start_at_prior}
        if start not in named:
            raise BadInput(
                f"`start` must be 'anchor', 'prior', an ensemble or a list of modules, "
                f"but got {start!r}.{nearest(start, named)}"
            )
        return named[start]
    # A module may be iterable (Sequential), but its layers are not what is meant.
    several = isinstance(start, Iterable) and not isinstance(start, nn.Sequential)
    models = list(start) if several else []
    good = bool(models) and all(isinstance(m, nn.Module) for m in models)
    given = Phrase("no modules" if several and not models else type(start).__name__)
    require(good, "start", "'anchor', 'prior', an ensemble or a list of modules", given)
    rows = []
    for index, member in enumerate(models):
        tensors = dict(member.named_parameters())
        same = all(
            name in tensors and tensors[name].shape == shape
            for name, shape in zip(space.names, space.shapes, strict=True)
        )
        other = Phrase(f"another module at {index}")
        require(same, "start", "modules with the parameters of `model`", other)
        rows.append(space.flatten(member).to(anchor))
    members = torch.stack(rows)
    finite = bool(torch.isfinite(members).all())
    require(finite, "start", "modules of finite weights", Phrase("NaN or infinity"))
    return start_at_members(members)


def _describe_variance(variance: Variance) -> Any:
    if isinstance(variance, Mapping):
        return {
            pattern: "tensor" if isinstance(value, Tensor) and value.ndim else float(value)
            for pattern, value in variance.items()
        }
    return "per parameter" if isinstance(variance, Tensor) and variance.ndim else float(variance)


def _point(
    model: nn.Module,
    space: ParameterSpace,
    likelihood: Likelihood,
    anchor: Tensor,
    anchor_epochs: float,
    settings: dict[str, Any],
) -> Posterior:
    """The Dirac at the anchor, for s = 0: no sampling, no epochs."""
    return Posterior(
        model,
        space,
        likelihood,
        anchor.view(1, 1, -1).clone(),
        log_evidence=torch.zeros(1, dtype=torch.float64),
        islands=[IslandReport(0, "completed")],
        cost=Cost(0.0, 0.0, anchor_epochs, anchor_epochs, 0.0),
        settings={**settings, "particles": 1, "islands": 1},
    )


def _report_failures(results: list[Island], throw: bool) -> None:
    failed = [island.report for island in results if island.positions is None]
    if not failed:
        return
    words = "; ".join(f"island {r.index}: {r.message}" for r in failed)
    if throw or len(failed) == len(results):
        raise RuntimeError(f"{len(failed)} of {len(results)} islands failed ({words}).")
    warnings.warn(
        f"{len(failed)} of {len(results)} islands failed and are left out ({words}).",
        RuntimeWarning,
        stacklevel=3,
    )


def _run_pilot(sampler: SMC, target: Target, particles: int, seed: int) -> tuple[SMC, SMCRun]:
    """Freeze what adapts, by a run whose noise no island shares."""
    rng = generator(seed, Stream.PILOT)
    start = start_at_prior(target.prior, rng, sampler.population(particles))
    return learn(sampler, target, IslandNoise([rng], particles, target.prior.mean.device), start)


def _warn_of_collapse(posterior: Posterior) -> None:
    """Say in words that an ensemble is smaller than it looks."""
    collapsed = [report for report in posterior.islands if report.collapsed]
    if collapsed:
        first = collapsed[0]
        warnings.warn(
            f"The population of {len(collapsed)} of {len(posterior.islands)} islands has collapsed "
            f"(island {first.index}: {first.collapsed}). Epistemic uncertainty will be too small. "
            f"More mutations, more particles or more islands would help.",
            RuntimeWarning,
            stacklevel=3,
        )
    count, effective = len(posterior.log_evidence), posterior.island_ess
    # Two islands can hardly ever count as two; they are let off at one and a half.
    if posterior.weighting == "evidence" and effective < min(FEWEST_EFFECTIVE, 0.75 * count):
        warnings.warn(
            f"The evidence leaves {effective:.2f} effective islands of {count} "
            f"(`posterior.island_ess`): predictions rest on few of them. More particles make the "
            f'evidence less noisy; `island_weights="equal"` uses all islands.',
            RuntimeWarning,
            stacklevel=3,
        )


def _describe_sampler(sampler: Any) -> dict[str, Any]:
    """Settings as plain values; a move stands with its name."""
    plain = {}
    for item in dataclasses.fields(sampler):
        value = getattr(sampler, item.name)
        if dataclasses.is_dataclass(value):
            value = {"name": type(value).__name__, **_describe_sampler(value)}
        plain[item.name] = list(value) if isinstance(value, tuple) else value
    return plain


def _collect(
    results: list[Island],
    prior: AnchoredPrior,
    model: nn.Module,
    space: ParameterSpace,
    likelihood: Likelihood,
    anchor_epochs: float,
    seconds: float,
    settings: dict[str, Any],
) -> Posterior:
    kept = [island for island in results if island.positions is not None]
    positions = torch.stack(
        [prior.to_parameters(i.positions) for i in kept if i.positions is not None]
    )
    spent = sum(island.report.epochs for island in results) + settings.get("pilot_epochs", 0)
    forward = sum(island.report.forward_epochs for island in results)
    forward += settings.get("pilot_forward_epochs", 0)
    total = spent * settings["particles"] + anchor_epochs
    weighted = [island.weights for island in kept if island.weights is not None]
    logger.debug("%d islands in %.1f s", len(results), seconds)
    return Posterior(
        model,
        space,
        likelihood,
        positions,
        log_evidence=torch.tensor(
            [island.report.log_evidence or 0.0 for island in kept], dtype=torch.float64
        ),
        islands=[island.report for island in results],
        cost=Cost(spent / len(results), forward / len(results), anchor_epochs, total, seconds),
        settings=settings,
        within=torch.stack(weighted) if weighted else None,
        weighting=settings["island_weights"],
    )
