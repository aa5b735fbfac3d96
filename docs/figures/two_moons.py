"""`python docs/figures/two_moons.py`: total, aleatoric and epistemic entropy over a plane."""

import torch
from drawing import draw
from matplotlib.figure import Figure
from sklearn.datasets import make_moons
from torch import nn

import sbmc
from sbmc.report.pictures import new_picture

EDGE = 60


def make(quick: bool) -> Figure:
    """Three panels over the same plane, in the same colours: darker is less certain."""
    points, labels = make_moons(200, noise=0.3, random_state=0)
    data = torch.tensor(points, dtype=torch.float32), torch.tensor(labels)
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)
    )
    trained = sbmc.train_map(
        network,
        data,
        prior_variance=1.0,
        learning_rate=0.01,
        max_epochs=20 if quick else 300,
        progress=False,
    )
    posterior = sbmc.fit(
        trained,
        data,
        s=1,
        prior_variance=1.0,
        sampler=sbmc.HMC(epochs=40 if quick else 3000),
        particles=4 if quick else 40,
        progress=False,
    )
    across, up = torch.linspace(-3.5, 4.5, EDGE), torch.linspace(-3.0, 3.5, EDGE)
    grid = torch.cartesian_prod(across, up)
    prediction = posterior.predict(grid)
    figure = new_picture(10, 3.1)
    panels = figure.subplots(1, 3, sharey=True)
    shown = None
    for axes, name in zip(panels, ("total", "aleatoric", "epistemic"), strict=True):
        values = getattr(prediction, name).view(EDGE, EDGE).T
        shown = axes.pcolormesh(
            across, up, values, cmap="Purples", vmin=0, vmax=0.7, rasterized=True
        )
        for label, marker, colour in ((0, "o", "#e69f00"), (1, "^", "#009e73")):
            chosen = points[labels == label]
            axes.plot(*chosen.T, marker, color=colour, markersize=2.5, markeredgewidth=0)
        axes.set_title(name, fontsize=11)
        axes.set(xlabel="first input", aspect="equal")
    panels[0].set_ylabel("second input")
    figure.colorbar(shown, ax=panels, label="entropy, nats", shrink=0.9)
    return figure


if __name__ == "__main__":
    draw(make, "two_moons")
