"""Posteriors of the embedded digits at several s, for the page to play with.

One network, 64-64-8, is trained on 800 handwritten digits from 0 to 7 and stopped early on 200
others. Around it, `sbmc.fit` samples posteriors with its default settings: s = 0 is the network
itself, s = 1 the full posterior. Digits 8 and 9 were never seen. It takes some seconds, once.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from sbmc import __version__
from sbmc.checks import BadInput
from sbmc.datasets import digits
from sbmc.datasets.locate import cache_dir
from sbmc.fitting.fit import fit
from sbmc.posterior.posterior import Posterior
from sbmc.posterior.saving import load
from sbmc.progress import open_progress
from sbmc.training import train_map

ABOUT = "8 × 8 pictures of the digits 0 to 7. It was never shown an 8 or a 9."
VALUES_OF_S = (0.0, 0.05, 0.1, 0.3, 1.0)
DEFAULT_S = 0.1
PARTICLES = 80
SEED = 0


def digits_posteriors(
    folder: Path | None = None, *, progress: bool | None = None
) -> dict[str, Posterior]:
    """The posteriors by name, `s=0.1` first; made at the first call and kept in files.

    Args:
        folder: where they are kept; the user's cache, `~/.cache/sbmc`, if not given.
        progress: of making them: None shows a bar on a terminal, False nothing.

    Returns:
        The posteriors.
    """
    place = cache_dir() if folder is None else folder
    place.mkdir(parents=True, exist_ok=True)
    paths = {s: place / f"digits-{__version__}-{PARTICLES}-s{s:g}.sbmc" for s in VALUES_OF_S}
    found = {s: _kept(path) for s, path in paths.items()}
    missing = [s for s, posterior in found.items() if posterior is None]
    if missing:
        data = digits.load()
        with open_progress(progress, "digits", total=len(missing) + 1, unit="posteriors") as bar:
            network = train_map(_network(), data.train, validation=data.validation, seed=SEED)
            for done, s in enumerate(missing):
                bar.update(done + 1)
                made = fit(network, data.train, s=s, particles=PARTICLES, seed=SEED, progress=False)
                # Uncertainties drift from those of rows that the network was not fitted to.
                made.make_reference(data.validation[0])
                made.save(paths[s])
                found[s] = made
            bar.update(len(missing) + 1)
    order = [DEFAULT_S, *(s for s in VALUES_OF_S if s != DEFAULT_S)]
    return {f"s={s:g}": posterior for s in order if (posterior := found[s]) is not None}


def _network() -> nn.Module:
    torch.manual_seed(SEED)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))


def _kept(path: Path) -> Posterior | None:
    """The posterior of a file; None if there is none, or none that can be read."""
    try:
        return load(path, _network())
    except BadInput:
        return None
