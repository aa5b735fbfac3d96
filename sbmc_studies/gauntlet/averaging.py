"""Methods that average what SGD passes through: SWA, SWAG, and the anchor of SMS-UBU."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import sbmc
from sbmc.baselines import swag, train_swa
from sbmc_studies.gauntlet.fitted import (
    WITHOUT_VALIDATION,
    Fitted,
    NotSupported,
    PairRun,
    default_arguments,
    fitted_by,
    mixture_of,
    sampled,
)
from sbmc_studies.gauntlet.training import optimiser_of

# Of SGD while weights are averaged: that of SWAG's paper, and lower ones for networks on which it
# diverges, such as BERT. An epoch may add so much to the loss that the training ended with.
SWA_RATES, SWA_RISE = (0.01, 1e-3, 1e-4, 1e-5), 0.1
# Of UBU's usual step size, which large data and steep networks do not bear.
UBU_PARTS = (1.0, 0.3, 0.1, 0.03, 0.01)


def swa(run: PairRun) -> Fitted:
    """The mean of the weights that SGD passes through (Izmailov et al., 2018), as one network."""
    began = time.perf_counter()
    settings, trials = _averaging(run)
    averaged = train_swa(run.network.model, run.data.train, **settings)
    seconds = run.network.seconds + time.perf_counter() - began
    return Fitted(mixture_of([averaged]), seconds, 2 * run.passes + trials)


def swag_posterior(run: PairRun) -> Fitted:
    """SWAG with ten draws (Maddox et al., 2019): the network, trained for as long again."""
    trained = run.network
    began = time.perf_counter()
    settings, trials = _averaging(run)
    posterior = swag(trained.model, run.data.train, **settings)
    seconds = trained.seconds + time.perf_counter() - began
    return fitted_by(posterior, seconds, 2 * run.passes + trials)


def sms_ubu(run: PairRun) -> Fitted:
    """SMS-UBU's recipe: an anchor by SWA, a Gaussian factor of variance 1/50, UBU (Paulin 2025).

    The anchor averages the network, trained for as long again; ten chains share three trainings.
    The step size is the usual one, or the largest fraction of it with which chains stay finite.
    """
    began = time.perf_counter()
    settings, trials = _averaging(run)
    anchor = train_swa(run.network.model, run.data.train, **settings)
    averaged = time.perf_counter() - began
    began = time.perf_counter()
    # Its passes over the data come in pairs.
    usual = sbmc.UBU(epochs=2 * max(1, 3 * run.passes // 20))
    for part in UBU_PARTS:
        before = time.perf_counter() - began  # what steps that were too large have taken
        try:
            fitted = sampled(
                run,
                **default_arguments(run, WITHOUT_VALIDATION) | {"model": anchor},
                prior_variance=_decay_variance(run),
                prior=sbmc.Prior(factor_variance=1 / 50),
                sampler=replace(usual, step_size=part * usual.step_size),
            )
            break
        except RuntimeError as error:
            if part == UBU_PARTS[-1] or "not finite" not in str(error):
                raise
    about = fitted.about | {"step_size": part * usual.step_size}
    seconds = fitted.seconds + averaged + before
    passes = fitted.passes + run.passes + trials
    return replace(fitted, seconds=seconds, passes=passes, about=about)


def _averaging(run: PairRun) -> tuple[dict[str, Any], int]:
    """Settings of SWA and SWAG, and the epochs that it took to find the learning rate.

    SGD goes on from the network, at the highest rate whose first epoch does not undo its training.
    """
    trained = run.network.model
    _, variance = optimiser_of(run.pair.training, len(run.data.train[1]))
    settings: dict[str, Any] = {
        "parameters": run.pair.parameters,
        "prior_variance": variance,
        "epochs": run.passes,
        "warmup_epochs": 0,
        "batch_size": run.pair.training["batch_size"],
        "seed": run.seed,
        "progress": False,
    }
    bound = trained.history.train_loss[-1] + SWA_RISE  # type: ignore[union-attr, index]
    for trials, rate in enumerate(SWA_RATES, start=1):
        settings |= {"learning_rate": rate, "swa_learning_rate": rate}
        try:
            once = train_swa(trained, run.data.train, **settings | {"epochs": 1})
        except RuntimeError:  # the loss stopped being finite
            continue
        if once.history.train_loss[-1] <= bound:  # type: ignore[union-attr, index]
            return settings, trials
    raise NotSupported(f"SGD undoes the network's training at any rate from {SWA_RATES[-1]:g} on")


def _decay_variance(run: PairRun) -> float:
    """The prior variance that the pair's weight decay stands for; 1 where there is none."""
    decay = run.pair.training.get("weight_decay", 0.0)
    return 1.0 if decay == 0.0 else 1.0 / (decay * len(run.data.train[1]))
