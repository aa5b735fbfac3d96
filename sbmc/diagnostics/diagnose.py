"""`diagnose`: convergence and mixing of a posterior, in its parameters and its predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import Phrase, is_number, require, require_choice, require_count
from sbmc.diagnostics.autocorrelation import effective_sample_size, integrated_autocorrelation_time
from sbmc.diagnostics.convergence import as_weights, nested_rhats, rhat
from sbmc.diagnostics.draws import FEWEST_DRAWS
from sbmc.diagnostics.layout import Layout, as_quantities, find_layout
from sbmc.diagnostics.quantities import log_likelihood, log_prior, predictions, projected
from sbmc.diagnostics.report import Diagnostics, Extent, Summary
from sbmc.posterior.posterior import Posterior
from sbmc.prior.gaussian import AnchoredPrior
from sbmc.randomness import generator

SUPERCHAINS = ("islands", "starts")


def diagnose(
    posterior: Posterior,
    inputs: Any = None,
    *,
    data: Any = None,
    prior: AnchoredPrior | Sequence[AnchoredPrior] | None = None,
    power: float | None = None,
    superchains: str = "islands",
    draws: int | None = None,
    projections: int = 100,
    seed: int = 0,
) -> Diagnostics:
    """R-hat, nested R-hat, ESS and IACT of parameters, log density and predictions.

    With several draws of each chain (`HMC(draws=...)`), R-hat, ESS and IACT are those of all chains
    of all islands. With one draw, and for SMC, there is nested R-hat alone. With one draw of one
    island, and for the mixture of `s="auto"`, whose members have different targets, there is
    nothing to compare: the notes say so, and what the run itself found.

    Args:
        posterior: of `fit`. Statistics need several islands, or four draws of each chain.
        inputs: inputs whose predictions are diagnosed: the probability of each class, or each
            output.
        data: `(inputs, targets)`, the training data, whose log likelihood is diagnosed. It costs
            one forward epoch for each draw. With the prior it also gives the log density of the
            target, up to a constant.
        prior: the anchored prior, or one for each island: those of `fit` if not given. A posterior
            from a file of before has none; see `sbmc.prior.gaussian.anchored_prior`.
        power: of the likelihood in that density; that of `fit` if not given.
        superchains: what nested R-hat compares: `"islands"`, or `"starts"`, chain i of all islands
            against the others, for chains that began at the members of an ensemble.
        draws: per chain; by the settings of the run if not given.
        projections: if there are more parameters than this, so many random projections of them are
            diagnosed, each parameter in units of its standard deviation.
        seed: of the projections.

    Returns:
        The diagnostics; print them for a table.

    Raises:
        BadInput: an argument breaks its rule.
        ImportError: ArviZ, which is needed for four draws or more, is not installed.

    Examples:
        >>> import sbmc
        >>> from torch import nn
        >>> x = torch.randn(20, 2)
        >>> run = {"sampler": sbmc.HMC(steps=4), "particles": 5, "islands": 3, "progress": False}
        >>> posterior = sbmc.fit(nn.Linear(2, 2), (x, (x[:, 0] > 0).long()), **run)
        >>> found = diagnose(posterior, inputs=x)
        >>> [each.name for each in found.summaries], round(found.nested_expected, 3)
        (['parameters', 'predictions'], 1.095)
    """
    require(isinstance(posterior, Posterior), "posterior", "a sbmc.Posterior", posterior)
    require_choice("superchains", superchains, SUPERCHAINS)
    require_count("projections", projections)
    rng = generator(seed)
    layout = find_layout(posterior, draws)
    if reason := _nothing_to_compare(posterior, layout, superchains):
        notes = (reason, *_own_verdict(posterior))
        return Diagnostics(layout.islands, layout.chains, layout.draws, (), None, notes)
    if prior is None and data is not None:
        prior = posterior.priors
    power = posterior.power if power is None else power
    priors = _as_priors(prior, posterior, data)
    good = is_number(power) and 0 < power < math.inf
    require(good, "power", "positive and finite", power)
    theta = posterior.positions.flatten(0, 1).to(posterior.dtype)
    groups: list[tuple[str, Tensor]] = [projected(theta, projections, rng)]
    if data is not None:
        value = log_likelihood(posterior, data)
        groups.append(("log likelihood", value.unsqueeze(1)))
        if priors:
            each = zip(posterior.positions, priors, strict=True)
            density = power * value + torch.cat(
                [log_prior(rows, prior_of_island) for rows, prior_of_island in each]
            )
            groups.append(("log density", density.unsqueeze(1)))
    if inputs is not None:
        groups.append(("predictions", predictions(posterior, inputs)))
    weights = _chain_weights(posterior, layout, superchains)
    summaries = [
        _summarise(name, as_quantities(layout, values), weights, superchains)
        for name, values in groups
    ]
    expected = None
    if layout.draws == 1 and len(weights) > 1:
        expected = math.sqrt(1 + float((weights**2).sum(1).mean()))
    return Diagnostics(
        islands=layout.islands,
        chains=layout.chains,
        draws=layout.draws,
        summaries=tuple(summaries),
        nested_expected=expected,
        notes=tuple(_notes(posterior, layout, superchains)),
    )


def _as_priors(
    prior: AnchoredPrior | Sequence[AnchoredPrior] | None, posterior: Posterior, data: Any
) -> list[AnchoredPrior]:
    """One prior for each island; an empty list if none is given."""
    if prior is None:
        return []
    require(data is not None, "data", "given with `prior`", data)
    islands, _, dim = posterior.positions.shape
    priors: list[Any] = list(prior) if isinstance(prior, Sequence) else [prior] * islands
    good = len(priors) == islands and all(
        isinstance(each, AnchoredPrior) and each.dim == dim for each in priors
    )
    rule = f"an AnchoredPrior of {dim} parameters, or one for each of {islands} islands"
    require(good, "prior", rule, Phrase("another"))
    return priors


def _nothing_to_compare(posterior: Posterior, layout: Layout, superchains: str) -> str:
    """Why there are no statistics; empty if there are some."""
    if posterior.mixture is not None:
        return (
            "This is a mixture of posteriors with different targets, between which R-hat says "
            "nothing. Give `s` and several `islands`, or `draws` of a sampler, to compare chains."
        )
    groups, size = layout.islands, layout.chains
    if superchains == "starts":
        groups, size = size, groups
    if layout.draws >= FEWEST_DRAWS or (groups > 1 and size * layout.draws > 1):
        return ""
    return (
        f"There is nothing to compare: nested R-hat needs at least two {superchains} of several "
        f"draws, R-hat and the effective sample size need {FEWEST_DRAWS} draws of a chain. "
        "fit(..., islands=4) gives the former, a sampler with draws=20 the latter."
    )


def _own_verdict(posterior: Posterior) -> list[str]:
    """What the run found out about itself, in sentences."""
    health = posterior.health
    if not health.figures:
        return []
    settling = posterior.settings.get("settling")
    verdict = f"Health: {health}" + ("." if health.ok else "")
    return [verdict, *([str(settling)] if settling else [])]


def _chain_weights(posterior: Posterior, layout: Layout, superchains: str) -> np.ndarray:
    """Weights of chains inside their superchains; the weights of islands do not matter."""
    weights = layout.by_chain(posterior.within.cpu()).sum(2).numpy()
    weights = weights.T if superchains == "starts" else weights
    return as_weights(weights, weights.shape)


def _summarise(name: str, values: np.ndarray, weights: np.ndarray, superchains: str) -> Summary:
    draws, count = values.shape[2:]
    chains = values.reshape(-1, draws, count)
    statistics: dict[str, Extent | None] = {}
    if draws >= FEWEST_DRAWS:
        each = [chains[..., i] for i in range(count)]
        if len(chains) > 1:
            statistics["rhat"] = _extent([rhat(x) for x in each])
        statistics["effective_sample_size"] = _extent([effective_sample_size(x) for x in each], min)
        statistics["integrated_autocorrelation_time"] = _extent(
            [integrated_autocorrelation_time(x) for x in each]
        )
    nested = values.swapaxes(0, 1) if superchains == "starts" else values
    if len(nested) > 1 and nested.shape[1] * draws > 1:
        statistics["nested_rhat"] = _extent(nested_rhats(nested, weights).tolist())
    return Summary(name, count, **statistics)


def _extent(values: list[float], worst: Any = max) -> Extent:
    """Worst value and median; quantities that never change are left out."""
    defined = [value for value in values if not math.isnan(value)]
    if not defined:
        return Extent(math.nan, math.nan)
    return Extent(float(worst(defined)), float(np.median(defined)))


def _notes(posterior: Posterior, layout: Layout, superchains: str) -> list[str]:
    notes = []
    if layout.draws < FEWEST_DRAWS:
        notes.append(f"R-hat, ESS and IACT need {FEWEST_DRAWS} draws of each chain.")
    within = posterior.within
    if not torch.allclose(within, within.mean(1, keepdim=True)):
        notes.append("Particles count by their weights inside islands.")
    chains = "start" in posterior.settings and posterior.settings.get("sampler") != "SMC"
    alike = superchains == "islands" and posterior.settings.get("anchors", 1) == 1
    if chains and alike and layout.islands > 1:
        notes.append(
            "Chains of different islands started alike: nested R-hat sees islands that differ, "
            "not chains that are all still on their way."
        )
    return notes
