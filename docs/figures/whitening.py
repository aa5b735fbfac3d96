"""`python docs/figures/whitening.py`: two weights, as samplers see them."""

import torch
from drawing import BLUE, GREY, RED, draw, plain
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from torch import nn

import sbmc
from sbmc.report.pictures import new_picture

SCALES = (1.0, 0.3, 0.1)
EDGE = 121
REACH = 3.2


def make(quick: bool) -> Figure:
    """The anchored posterior for three s, in whitened coordinates; the prior is a circle in all."""
    rng = torch.Generator().manual_seed(1)
    x = torch.randn(60, 2, generator=rng) * torch.tensor([3.0, 0.4])
    labels = (x @ torch.tensor([0.6, 1.0]) + torch.randn(60, generator=rng) > 0).long()
    network = nn.Linear(2, 1, bias=False)
    trained = sbmc.train_map(
        network,
        (x, labels),
        prior_variance=1.0,
        learning_rate=0.05,
        max_epochs=30 if quick else 300,
        progress=False,
    )
    ticks = torch.linspace(-REACH, REACH, 21 if quick else EDGE)
    grid = torch.cartesian_prod(ticks, ticks)
    figure = new_picture(9, 3.7)
    panels = figure.subplots(1, len(SCALES), sharey=True)
    for axes, s in zip(panels, SCALES, strict=True):
        target = sbmc.build_target(trained, (x, labels), s=s, prior_variance=1.0)
        log_density = target(grid)[0] - grid.square().sum(1) / 2
        log_density = (log_density - log_density.max()).view(len(ticks), -1).T
        # The levels of one, two and three standard deviations of a Gaussian.
        axes.contour(
            ticks,
            ticks,
            log_density,
            [-4.5, -2.0, -0.5],
            colors=BLUE,
            linewidths=1.2,
            linestyles="-",
        )
        for radius in (1, 2, 3):
            axes.add_patch(Circle((0, 0), radius, fill=False, color=GREY, linestyle=":"))
        anchor = trained.weight.detach()[0] / s**0.5 if s == 1 else torch.zeros(2)
        axes.plot(*anchor, "o", color=RED, markersize=5)
        axes.set_title(f"s = {s:g}", fontsize=11)
        axes.set(xlabel="first weight, whitened", aspect="equal")
        plain(axes)
    panels[0].set_ylabel("second weight, whitened")
    return figure


if __name__ == "__main__":
    draw(make, "whitening")
