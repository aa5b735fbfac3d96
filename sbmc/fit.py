"""`sbmc.fit`: from a trained network and its data to a posterior."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.anchoring import Anchoring, resolve_anchors, resolve_start
from sbmc.building import TargetBuilder
from sbmc.checks import Phrase, is_whole, require
from sbmc.collecting import Subject, collect, points, report_failures, warn_of_collapse
from sbmc.curvature import diagonal_fisher
from sbmc.examples import as_examples
from sbmc.forward import check_path
from sbmc.forward.functional import converted
from sbmc.islands import run_islands, start_at_prior
from sbmc.likelihoods import as_likelihood
from sbmc.log import logger
from sbmc.parameters import Selection, select_parameters
from sbmc.posterior import Posterior, check_weighting
from sbmc.prior import AnchoredPrior, Variance, resolve_variance, step_weight
from sbmc.randomness import Stream, generator
from sbmc.samplers import HMC, SMC
from sbmc.samplers.contract import Sampler
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.smc.diagnostics import SMCRun
from sbmc.samplers.smc.pilot import learn
from sbmc.target import Target


def fit(
    model: nn.Module,
    data: Any,
    *,
    s: float | None = None,
    prior_variance: Variance = 1.0,
    sampler: Sampler | None = None,
    particles: int = 10,
    islands: int = 1,
    seed: int = 0,
    start: Any = None,
    anchors: Any = None,
    island_weights: str | None = None,
    parameters: Selection = "all",
    likelihood: Any = "categorical",
    alpha: Callable[[float], float] = step_weight,
    covariance: str | Callable[[float, Tensor], Tensor] = "linear",
    factor_variance: float | None = None,
    split: float | None = None,
    posterior_temperature: float = 1.0,
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
    P islands of N particles sample it independently. `factor_variance` and `split` put another
    prior around the anchor, and a `posterior_temperature` T raises the product to the power 1/T.

    Args:
        model: the trained network; never changed. It is evaluated in evaluation mode. Any way of
            training will do for an anchor: the MAP, averaged weights (SWA; of an `AveragedModel`
            give its `.module`), a network trained with dropout.
        data: the training data: `(inputs, targets)`, a map-style `Dataset` or a `DataLoader`.
        s: 0 returns the anchor alone, at no cost; 1 is the full posterior, whatever the anchor. If
            neither `factor_variance` nor `split` stands for it, it is 0.1 unless given.
        prior_variance: v of the original prior N(0, v): a number, a mapping from patterns on
            parameter names, or a tensor `(dim,)`.
        sampler: settings of the algorithm, such as `HMC(epochs=160)`, the default, or `SMC()`.
        particles: N, chains or particles per island.
        islands: P.
        seed: decides all noise; island i has the same noise whatever the number of islands.
        start: where chains begin: `"anchor"` (plus a little noise; the default), `"prior"` (as in
            the paper), an ensemble, or a list of modules, whose weights the particles take in turn.
            SMC begins at the prior and nowhere else.
        anchors: an anchor for each island: an ensemble or a list of modules, which the islands take
            in turn, with the sampled weights of `model` left unused. What is not sampled must be
            the same in all of them. A pilot of SMC learns at the first.
        island_weights: how islands are combined: `"evidence"` (SMC's default, and for it alone) or
            `"equal"`, which is the only way with `anchors`: evidence compares islands of one prior.
        parameters: which ones are sampled: `"all"`, `"last"`, a regular expression or a predicate.
        likelihood: `"categorical"`, `sbmc.Gaussian(noise_variance=...)`, or a callable
            `(outputs, targets) -> (examples,)`.
        alpha: the rule α(s).
        covariance: the rule Σ(s): `"linear"`, s·v; `"laplace"`, s·v / (1 + (1 − s)·v·F) with F the
            diagonal of the Fisher information at the anchor; or a function of s and the prior
            variances `(dim,)`.
        factor_variance: f > 0, instead of `s`: the prior is N(0, v)·N(anchor, f).
        split: a in (0, 1), instead of `s`: the prior is the diagonal Laplace approximation
            N(anchor, (a·F + a/v)^{-1}) of the fraction a of the likelihood with the prior
            N(0, v/a), and what is sampled is the rest of the likelihood, to the power 1 − a.
        posterior_temperature: T > 0: below 1 a cold posterior, whose prior has T times the variance
            and whose likelihood has the power 1/T.
        anchor_epochs: what the anchors cost, for the accounts; read from the training histories of
            the model, or of all `anchors`, where there are some.
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
    scheme = Anchoring(s, factor_variance, split, posterior_temperature, alpha, covariance)
    _require_positive_integers(particles=particles, islands=islands)
    if chunk_size is not None:
        _require_positive_integers(chunk_size=chunk_size)
    generator(seed)  # refuses a bad seed
    check_path(path)
    algorithm, start, weighting = _resolve_sampler(sampler, start, island_weights, anchors)
    space = select_parameters(model, parameters)
    own = space.flatten(model)
    dtype = own.dtype if dtype is None else dtype
    real = isinstance(dtype, torch.dtype) and dtype.is_floating_point
    require(real, "dtype", "a floating-point torch.dtype", dtype)
    like = own.to(torch.device(own.device if device is None else device), dtype)
    variance = resolve_variance(prior_variance, space, dtype).to(like.device)
    places, anchor_cost = resolve_anchors(model, anchors, anchor_epochs, space, like)
    places = places[: int(islands)]
    family = as_likelihood(likelihood)
    scheme.check(places, variance, family)
    begin = resolve_start(start, space, like)
    examples = as_examples(data).to(dtype=dtype, device=like.device)
    subject = Subject(converted(model, dtype, like.device), space, family)
    settings = {
        **scheme.describe(),
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
    if anchors is not None:
        settings["anchors"] = len(places)
    build = TargetBuilder(*subject, examples, path, chunk_size)
    if scheme.is_point:
        return points(subject, places, anchor_cost, settings)
    # Chunks follow from shapes alone: any prior will do until the anchors' own are known.
    target = build(AnchoredPrior(places[0], variance.sqrt(), places[0]), scheme.power)
    settings |= {"path": target.path, "chunks": dataclasses.asdict(target.chunks)}
    began = time.perf_counter()
    priors, prior_epochs = _build_priors(scheme, places, variance, target)
    if prior_epochs:
        settings["prior_epochs"] = prior_epochs
    targets = [target.with_prior(prior) for prior in priors]
    if isinstance(algorithm, SMC) and algorithm.pilot:
        algorithm, pilot = _run_pilot(algorithm, targets[0], int(particles), int(seed))
        settings["pilot_epochs"] = pilot.epochs
        settings["pilot_forward_epochs"] = pilot.forward_epochs
        settings["frozen"] = _describe_sampler(algorithm)
    results = run_islands(
        algorithm,
        targets,
        begin,
        islands=int(islands),
        particles=int(particles),
        seed=int(seed),
        progress=progress,
    )
    seconds = time.perf_counter() - began
    report_failures(results, throw)
    posterior = collect(results, priors, subject, anchor_cost, seconds, settings, scheme.power)
    warn_of_collapse(posterior)
    return posterior


def _resolve_sampler(
    sampler: Sampler | None, start: Any, island_weights: str | None, anchors: Any
) -> tuple[Sampler, Any, str]:
    """The algorithm, where it starts and how its islands are combined, checked together."""
    algorithm: Sampler = HMC() if sampler is None else sampler
    good = isinstance(algorithm, Sampler) and dataclasses.is_dataclass(algorithm)
    require(good, "sampler", "settings such as sbmc.HMC(...) or sbmc.SMC(...)", sampler)
    start = algorithm.default_start if start is None else start
    usual = algorithm.default_weights if anchors is None else "equal"
    weighting = usual if island_weights is None else island_weights
    check_weighting(weighting)
    if algorithm.default_weights == "evidence":
        # Tempering begins at temperature 0, whose target is the prior.
        named = start if isinstance(start, str) else Phrase("members")
        require(start == "prior", "start", f"'prior' for {type(algorithm).__name__}", named)
    else:
        rule = f"'equal' for {type(algorithm).__name__}, which estimates no evidence"
        require(weighting == "equal", "island_weights", rule, weighting)
    if anchors is not None:
        rule = "'equal' with `anchors`, since evidence compares islands of one prior only"
        require(weighting == "equal", "island_weights", rule, weighting)
    return algorithm, start, weighting


def _require_positive_integers(**values: Any) -> None:
    for name, value in values.items():
        require(is_whole(value) and value >= 1, name, "a positive integer", value)


def _build_priors(
    scheme: Anchoring, anchors: Tensor, variance: Tensor, target: Target
) -> tuple[list[AnchoredPrior], int]:
    """The prior around each anchor, and the epochs that went into their curvature."""
    if not scheme.curved:
        return [scheme.prior(anchor, variance) for anchor in anchors], 0
    parts, priors, epochs = target.parts(), [], 0
    for index, anchor in enumerate(anchors):
        found = diagonal_fisher(parts, anchor)
        epochs += found.epochs
        information = found.diagonal.to(variance)
        if bool(torch.isfinite(information).all()):
            priors.append(scheme.prior(anchor, variance, information))
        else:
            # Its islands are to fail, as they do where the likelihood is not finite; others go on.
            logger.warning("the curvature at anchor %d is not finite", index)
            priors.append(AnchoredPrior(anchor, torch.full_like(anchor, torch.nan), anchor))
    return priors, epochs


def _describe_variance(variance: Variance) -> Any:
    if isinstance(variance, Mapping):
        return {
            pattern: "tensor" if isinstance(value, Tensor) and value.ndim else float(value)
            for pattern, value in variance.items()
        }
    return "per parameter" if isinstance(variance, Tensor) and variance.ndim else float(variance)


def _run_pilot(sampler: SMC, target: Target, particles: int, seed: int) -> tuple[SMC, SMCRun]:
    """Freeze what adapts, by a run whose noise no island shares."""
    rng = generator(seed, Stream.PILOT)
    start = start_at_prior(target.prior, rng, sampler.population(particles))
    return learn(sampler, target, IslandNoise([rng], particles, target.prior.mean.device), start)


def _describe_sampler(sampler: Any) -> dict[str, Any]:
    """Settings as plain values; a move stands with its name."""
    plain = {}
    for item in dataclasses.fields(sampler):
        value = getattr(sampler, item.name)
        if dataclasses.is_dataclass(value):
            value = {"name": type(value).__name__, **_describe_sampler(value)}
        plain[item.name] = list(value) if isinstance(value, tuple) else value
    return plain
