"""`python docs/figures/islands.py`: how much each island of SMC counts."""

import torch
from drawing import BLUE, GREY, draw, plain
from matplotlib.figure import Figure
from sklearn.datasets import make_moons
from torch import nn

import sbmc
from sbmc.report.pictures import new_picture

ISLANDS = 8


def make(quick: bool) -> Figure:
    """The weights of eight islands by their evidence, for islands of 10 and of 200 particles."""
    points, labels = make_moons(200, noise=0.25, random_state=0)
    data = torch.tensor(points, dtype=torch.float32), torch.tensor(labels)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    # A prior that is given, and not widened by the data, so that its evidence means something.
    prior_variance = 1.0
    trained = sbmc.train_map(
        network,
        data,
        prior_variance=prior_variance,
        max_epochs=10 if quick else 200,
        progress=False,
    )
    figure = new_picture(9, 2.7)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, particles in zip(panels, (10, 200), strict=True):
        posterior = sbmc.fit(
            trained,
            data,
            s=0.45,
            prior_variance=prior_variance,
            sampler=sbmc.SMC(mutations=1 if quick else 5),
            particles=min(particles, 20) if quick else particles,
            islands=ISLANDS,
            progress=False,
        )
        weights = torch.softmax(torch.as_tensor(posterior.log_evidence), 0)
        axes.bar(range(1, ISLANDS + 1), weights, color=BLUE)
        axes.axhline(1 / ISLANDS, color=GREY, linestyle="--", linewidth=1)
        axes.set_title(
            f"{particles} particles: worth {posterior.island_ess:.1f} of {ISLANDS} islands",
            fontsize=11,
        )
        axes.set(xlabel="island", ylim=(0, 1))
        plain(axes)
    panels[0].set_ylabel("weight by evidence")
    return figure


if __name__ == "__main__":
    import warnings

    # Few particles collapse and their evidence rests on few islands: that is what the figure shows.
    warnings.simplefilter("ignore")
    draw(make, "island_weights")
