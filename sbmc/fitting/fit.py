"""`sbmc.fit`: from a trained network and its data to a posterior."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor as FuturesExecutor
from os import PathLike
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.checks import is_whole, require
from sbmc.fitting.collecting import collect, points, report_failures, warn_of_few_islands
from sbmc.fitting.preparing import describe_sampler, prepare
from sbmc.islands.checkpoints import CheckpointAt, as_checkpoint, refuse_if_locked
from sbmc.islands.executors import Executor
from sbmc.islands.health import warn_if_not_ok
from sbmc.islands.memory_budget import with_peak
from sbmc.islands.movement import with_movement
from sbmc.islands.sampling import sample_islands
from sbmc.model.parameters import Selection
from sbmc.posterior.posterior import Posterior
from sbmc.prior.gaussian import Variance, step_weight
from sbmc.samplers.contract import Sampler


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
    memory_limit: int | str | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    executor: str | Executor | FuturesExecutor | None = None,
    checkpoint: str | PathLike[str] | CheckpointAt | None = None,
    first_island: int = 0,
    retries: int = 2,
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
        memory_limit: of each process that runs islands, libraries and data included: bytes, or
            words such as `"2GiB"` and `"500 MB"`. Chunks, folds and threads are chosen to stay
            inside; a run that cannot is refused at once.
        dtype: of parameters and data; the model's if not given.
        device: where to compute; the model's if not given.
        executor: who runs the islands: `"in-process"` (the default; islands that fit are folded
            into one batch), `"processes"`, `"ray"`, settings such as `sbmc.Processes(workers=4)`,
            or any `concurrent.futures.Executor`.
        checkpoint: a folder, or `sbmc.CheckpointAt(folder, every=seconds)`: every island writes
            down where it is, and the same call goes on where a stopped run was, with the same
            bits. A finished run with more `islands` is extended. A folder has one run at a time.
        first_island: the number of the first island; with it, two machines can each make some
            islands of one run, for `sbmc.merge`.
        retries: how often an island is tried again whose worker was lost, or, where there is a
            checkpoint to go on from, whose computation failed.
        progress: None shows a bar on a terminal; True always shows something; False nothing.
        throw: raise if an island fails, rather than go on with the others.

    Returns:
        The posterior.

    Raises:
        BadInput: an argument breaks its rule; found before any computing.
        RuntimeError: every island failed, or one did and `throw` is set.

    Example:
        >>> import sbmc
        >>> net = nn.Linear(2, 2)
        >>> data = torch.randn(20, 2), torch.randint(2, (20,))
        >>> posterior = fit(net, data, s=0.1, sampler=sbmc.HMC(steps=8), particles=4)
        >>> posterior.positions.shape
        torch.Size([1, 4, 6])
    """
    arguments = dict(locals())
    del arguments["progress"], arguments["throw"], arguments["retries"]
    require(is_whole(retries) and retries >= 0, "retries", "a non-negative integer", retries)
    refuse_if_locked(as_checkpoint(checkpoint))
    prepared = prepare(**arguments)
    if prepared.work is None:
        return points(prepared.subject, prepared.anchors, prepared.anchor_epochs, prepared.settings)
    began = time.perf_counter()
    results, pilot, resumed = sample_islands(
        prepared.work,
        prepared.numbers,
        executor=prepared.executor,
        place=prepared.place,
        identity=prepared.identity,
        retries=int(retries),
        progress=progress,
        memory=prepared.memory,
    )
    results = with_movement(results, prepared.work)
    settings = prepared.settings
    if pilot:
        settings |= {**pilot, "frozen": describe_sampler(pilot["frozen"])}
    seconds = prepared.seconds + time.perf_counter() - began
    if resumed:
        seconds = sum(island.report.seconds for island in results)
    report_failures(results, throw)
    posterior = collect(
        results,
        prepared.work.priors,
        prepared.subject,
        prepared.anchor_epochs,
        seconds,
        settings,
        prepared.power,
    )
    posterior.cost = with_peak(posterior.cost, prepared.memory, prepared.executor)
    warn_of_few_islands(posterior)
    warn_if_not_ok(posterior.health, stacklevel=2)
    return posterior
