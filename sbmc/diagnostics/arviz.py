"""A posterior as ArviZ's InferenceData, for its plots and tables."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np

from sbmc.diagnostics.layout import find_layout
from sbmc.posterior.posterior import Posterior
from sbmc.storage.optional import load_arviz


def to_arviz(posterior: Posterior, *, draws: int | None = None) -> Any:
    """The posterior as `arviz.InferenceData`.

    Every particle of every island is a chain, island after island; its draws are the chain's.

    **Weights.** ArviZ knows none: its summaries and plots count all draws alike. That is right for
    chains and ensembles. Where particles (SMC) or islands (evidence) have unequal weights, use
    those in `sample_stats["weight"]`, which sum to 1, or resample by them first; the attribute
    `weighted` of the group says whether they matter. Particles of SMC are not chains: they
    share ancestors, and R-hat between them has no meaning.

    Args:
        posterior: a posterior of `fit`, or an ensemble.
        draws: per chain; by the settings of the run if not given.

    Returns:
        InferenceData with the groups

        - `posterior`: each parameter by its name in the model, `(chain, draw, *shape)`, with the
          coordinates `island` and `particle` along `chain`;
        - `sample_stats`: `weight`, `(chain, draw)`, and as attributes, one for each island:
          `acceptance`, `step_size`, `epochs`, `log_evidence`, NaN where not known.

        Attributes of both: `settings` and `cost` as JSON.

    Raises:
        BadInput: `draws` does not fit.
        ImportError: ArviZ is not installed; the message names the extra.

    Examples:
        >>> import sbmc, torch
        >>> x = torch.randn(20, 2)
        >>> run = {"sampler": sbmc.HMC(steps=4, draws=2), "particles": 3, "progress": False}
        >>> posterior = sbmc.fit(torch.nn.Linear(2, 2), (x, (x[:, 0] > 0).long()), **run)
        >>> to_arviz(posterior).posterior["weight"].shape
        (3, 2, 2, 2)
    """
    arviz = load_arviz()
    layout = find_layout(posterior, draws)
    by_chain = layout.by_chain(posterior.positions.detach().to("cpu", posterior.dtype)).flatten(
        0, 1
    )
    named = {name: value.numpy() for name, value in posterior.space.split(by_chain).items()}
    weights = posterior.weights.detach().cpu()
    shared = {
        "settings": json.dumps(posterior.settings, default=str),
        "cost": json.dumps(posterior.cost.as_dict()),
    }
    # Failed islands have reports but no positions.
    reports = [report for report in posterior.islands if report.outcome == "completed"]
    statistics = ("acceptance", "step_size", "epochs", "log_evidence")
    per_island = {
        name: np.array([getattr(report, name) for report in reports], dtype=np.float64)
        for name in statistics
    }
    uneven = float(weights.max()) > float(weights.min()) * (1 + 1e-9)
    with warnings.catch_warnings():
        # Many short chains are what this package is for.
        warnings.filterwarnings("ignore", message="More chains")
        result = arviz.from_dict(
            posterior=named,
            sample_stats={"weight": layout.by_chain(weights).flatten(0, 1).numpy()},
            posterior_attrs={**shared, "weighted": int(uneven)},
            sample_stats_attrs={**shared, "weighted": int(uneven), **per_island},
        )
    island, particle = np.divmod(np.arange(layout.islands * layout.chains), layout.chains)
    for group in ("posterior", "sample_stats"):
        labelled = result[group].assign_coords(
            island=("chain", island), particle=("chain", particle)
        )
        setattr(result, group, labelled)
    return result
