"""`sbmc.fit`: from a trained network and its data to a posterior."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from typing import Any, Unpack, overload

from torch import nn

from sbmc.fitting.assembly import (
    assemble_posterior,
    point_posterior,
    report_failures,
    warn_of_few_islands,
)
from sbmc.fitting.forecast import seconds_per_epoch
from sbmc.fitting.long_chains import begin_at_networks
from sbmc.fitting.mixture import fit_mixture
from sbmc.fitting.preparation import describe_sampler, prepare
from sbmc.fitting.request import FitOptions, FitRequest, takes_arguments_of
from sbmc.fitting.settling import Leftovers, note_settling
from sbmc.fitting.single_fits import single_fits
from sbmc.islands.checkpoints import as_checkpoint, refuse_if_locked
from sbmc.islands.displacement import with_displacement
from sbmc.islands.health import warn_if_not_ok
from sbmc.islands.memory_budget import with_peak
from sbmc.islands.particles_apart import SETTING, join_particles
from sbmc.islands.particles_on_disk import ParticlesOnDisk, scratch_folder
from sbmc.islands.process_memory import format_bytes
from sbmc.islands.sampling import sample_islands
from sbmc.likelihoods import OfClasses, OfNumbers
from sbmc.log import logger
from sbmc.posterior.posterior import Posterior
from sbmc.prediction.kinds import EitherPrediction
from sbmc.prediction.prediction import Prediction
from sbmc.prediction.regression import RegressionPrediction
from sbmc.target.shards import as_shards, with_ranks


# A likelihood that is given says what predictions will be; `sbmc.prediction.kinds` has the rest.
@overload
def fit(
    model: nn.Module, data: Any, *, likelihood: OfClasses, **options: Unpack[FitOptions]
) -> Posterior[Prediction]: ...
@overload
def fit(
    model: nn.Module, data: Any, *, likelihood: OfNumbers, **options: Unpack[FitOptions]
) -> Posterior[RegressionPrediction]: ...
@overload
def fit(
    model: nn.Module, data: Any, *, likelihood: Any = None, **options: Unpack[FitOptions]
) -> Posterior[EitherPrediction]: ...
@takes_arguments_of(FitRequest)
def fit(request: FitRequest) -> Posterior:  # noqa: D417, its arguments are the request's
    """Sample the anchored posterior around a trained network (Algorithm 1 of the paper).

    The target is the likelihood times N(α(s)·anchor, Σ(s)), with the model's weights as the anchor;
    P islands of N particles sample it independently. `prior` has other forms of the prior around
    the anchor, and a temperature T that raises the product to the power 1/T.

    Args:
        model: the trained network; never changed. It is evaluated in evaluation mode. Any way of
            training will do for an anchor: the MAP, averaged weights (SWA), a network trained with
            dropout. Out of `torch.compile`, `AveragedModel`, `DataParallel` and
            `DistributedDataParallel` the network inside is taken.
        data: the training data: `(inputs, targets)` of tensors, arrays or pandas tables, a
            map-style `Dataset` (Hugging Face's too) or a `DataLoader`.
        s: 0 returns the anchor alone, at no cost; 1 is the full posterior, whatever the anchor.
            `"auto"`, the default, mixes the network, two more that are trained beside it, and
            posteriors with s = 0.1 and s = 1 around them, with weights by stacking on rows that the
            network has not seen (`posterior.mixture` shows them). Without such rows it is 0.1, or
            less where chains are too short to explore that. For numbers with noise to learn it is
            1 where the budget has room for long chains.
        prior_variance: the original prior. `"auto"` (the default) has a variance for each layer by
            its type, c / fan_in for weights, and centres gains of normalisation layers at 1:
            `sbmc.describe_prior(model)` shows it, `sbmc.ByLayer(weights=c)` changes it.
            `sbmc.WeightDecay(w)` is the prior that a weight decay stands for; `"evidence"` chooses
            the variances by the marginal likelihood (laplace-torch). v of the prior N(0, v) may
            also be a number, a mapping from patterns on parameter names, or a tensor `(dim,)`.
        sampler: settings of the algorithm, such as `HMC(epochs=160)` or `SMC()`. The default is
            `AutoHMC`, which tunes itself, with as many epochs as the budget allows; and `MCLMC` for
            numbers with noise to learn, from 1,000 epochs a chain on.
        budget: what the default sampler may cost, over all particles together: a number of
            trainings of the network (4 by default: with its own, as many as an ensemble of five
            takes), a time such as `"30s"` or `"2min"`, or `sbmc.Budget(...)`, which also says how
            long the network was trained.
        validation: rows that the network was not trained on, as `data`. They choose s. A model from
            `train_map` remembers those that it was given.
        particles: N, chains or particles per island; 10 by default. In a mixture it is the number
            of chains of each posterior, 6 by default.
        islands: P.
        seed: decides all noise; island i has the same noise whatever the number of islands.
        start: where chains begin: `"anchor"` (plus a little noise; the default), `"prior"` (as in
            the paper), an ensemble, or a list of modules, whose weights the particles take in turn.
            SMC begins at the prior and nowhere else.
        anchors: an anchor for each island: an ensemble or a list of modules, which the islands take
            in turn, with the sampled weights of `model` left unused. What is not sampled must be
            the same in all of them. A pilot of SMC learns at the first.
        parameters: which ones are sampled: `"all"`, `"last"`, a regular expression or a predicate.
        likelihood: of the outputs. None, the default, infers it from the targets' dtype and shape:
            categorical for integers, Bernoulli for 0 and 1 with one output, Gaussian with learned
            noise for numbers; the log and `posterior.settings` say which. Or one of its strings, an
            object such as `sbmc.Gaussian(noise_variance=...)`, `sbmc.Likelihood.of(function)`, or a
            callable `(outputs, targets) -> (examples,)`.
        weights: of the rows of `data`: a weight of 2 is that row twice. Nothing is rescaled.
            `sbmc.class_weights(labels)` makes those that balance classes.
        prior: rarer forms of the prior, such as `sbmc.Prior(covariance="laplace")`, and the
            temperature of the posterior.
        compute: where and how it is computed, such as
            `sbmc.Compute(executor="processes", checkpoint="run")`.
        progress: None shows a bar on a terminal; True always shows something; False nothing.

    Returns:
        The posterior.

    Raises:
        BadInput: an argument breaks its rule; found before any computing.
        RuntimeError: every island failed, or one did and `compute` has `throw`.

    Examples:
        >>> import sbmc, torch
        >>> from torch import nn
        >>> net = nn.Linear(2, 2)
        >>> data = torch.randn(20, 2), torch.randint(2, (20,))
        >>> posterior = fit(net, data, s=0.1, sampler=sbmc.HMC(steps=8), particles=4)
        >>> posterior.positions.shape
        torch.Size([1, 4, 6])
    """
    posterior = with_ranks(lambda: _fit(request), as_shards(request.compute.shards))
    posterior.training_data = request.data
    return posterior


def _fit(request: FitRequest) -> Posterior:
    """The posterior, or the mixture of posteriors, without the data that it is of."""
    fits = single_fits(request, seconds_per_epoch)
    if fits.unseen is None:
        began = time.perf_counter()
        request = begin_at_networks(fits.requests[0], fits.training)
        trained = time.perf_counter() - began
        posterior = _fit_one(request)
        if fits.training.networks:
            posterior.cost = posterior.cost.with_training(fits.training.total_epochs, trained)
    else:
        fit_one = Leftovers(fits.requests, _fit_one).fit if fits.budget else _fit_one
        posterior = fit_mixture(fits.requests, fits.unseen, fits.training, fit_one)
    note_settling(posterior)
    if fits.budget:
        posterior.settings["budget"] = fits.budget
    if fits.s_reason:
        posterior.settings["s_reason"] = fits.s_reason
    warn_if_not_ok(posterior.health)
    if fits.probe_epochs:
        total = posterior.cost.total_epochs + fits.probe_epochs
        posterior.cost = dataclasses.replace(posterior.cost, total_epochs=total)
    return posterior


def _fit_one(request: FitRequest) -> Posterior:
    """One posterior of one target, without the warning of its verdict."""
    compute = request.compute
    refuse_if_locked(as_checkpoint(compute.checkpoint))
    prepared = prepare(request)
    if prepared.job is None:
        return point_posterior(
            prepared.subject, prepared.anchors, prepared.anchor_epochs, prepared.settings
        )
    settings, memory = prepared.settings, prepared.memory
    apart = settings["particles"] if settings.get(SETTING) else 1
    folder = scratch_folder(prepared.location)
    on_disk = None
    if memory is not None and memory.disk:
        on_disk = ParticlesOnDisk(prepared.numbers, apart, folder)
        logger.warning(
            "memory: the finished particles do not fit into the limit; up to %s of disk are used "
            "for them in %s, until the posterior is gone",
            format_bytes(memory.disk),
            folder or tempfile.gettempdir(),
        )
    began = time.perf_counter()
    results, pilot, resumed = sample_islands(
        prepared.job,
        prepared.numbers,
        executor=prepared.executor,
        location=prepared.location,
        identity=prepared.identity,
        retries=int(compute.retries),
        progress=request.progress,
        memory=memory,
        keep=None if on_disk is None else on_disk.keep,
    )
    results = with_displacement(results, prepared.job)
    if settings.get(SETTING):
        results = join_particles(results, apart, on_disk)
    if pilot:
        settings |= {**pilot, "frozen": describe_sampler(pilot["frozen"])}
    seconds = prepared.seconds + time.perf_counter() - began
    if resumed:
        seconds = sum(island.report.seconds for island in results)
    report_failures(results, compute.throw)
    posterior = assemble_posterior(
        results,
        prepared.job.priors,
        prepared.subject,
        prepared.anchor_epochs,
        seconds,
        settings,
        prepared.power,
        on_disk=on_disk is not None,
        folder=folder,
    )
    posterior.cost = with_peak(posterior.cost, memory, prepared.executor)
    warn_of_few_islands(posterior)
    return posterior
