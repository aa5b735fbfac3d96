"""`python docs/figures/scale.py`: what s does to a regression with a gap in its data."""

import torch
from drawing import BLUE, GREY, RED, draw, plain
from matplotlib.figure import Figure
from torch import nn

import sbmc
from sbmc.report.pictures import new_picture

SCALES = (0.0, 0.1, 0.3, 1.0)
NOISE = 0.1


def curve_data() -> tuple[torch.Tensor, torch.Tensor]:
    """Forty points of a curve with noise, none of them between −0.2 and 0.5."""
    rng = torch.Generator().manual_seed(2)
    x = torch.cat([torch.linspace(-1, -0.2, 22), torch.linspace(0.5, 1, 18)]).view(-1, 1)
    return x, torch.sin(4 * x) + NOISE * torch.randn(x.shape, generator=rng)


def make(quick: bool) -> Figure:
    """Four panels, one for each s: the particles' curves, and where their mean is 90 % sure."""
    x, y = curve_data()
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
    )
    likelihood = sbmc.Gaussian(noise_variance=NOISE**2)
    epochs = 100 if quick else 3000
    trained = sbmc.train_map(
        network,
        (x, y),
        likelihood=likelihood,
        learning_rate=0.005,
        max_epochs=epochs,
        progress=False,
    )
    grid = torch.linspace(-1.6, 1.6, 161).view(-1, 1)
    figure = new_picture(10, 2.9)
    panels = figure.subplots(1, len(SCALES), sharey=True)
    for axes, s in zip(panels, SCALES, strict=True):
        options = {} if s == 0 else {"sampler": sbmc.HMC(epochs=60 if quick else 6000)}
        posterior = sbmc.fit(
            trained,
            (x, y),
            s=s,
            likelihood=likelihood,
            particles=4 if quick else 20,
            progress=False,
            **options,
        )
        outputs = posterior.samples(grid).outputs().squeeze(-1)
        lower, upper = posterior.predict(grid).interval(0.9, kind="credible")
        axes.fill_between(grid[:, 0], lower[:, 0], upper[:, 0], color=BLUE, alpha=0.2, linewidth=0)
        axes.plot(grid, outputs[:8].T, color=BLUE, linewidth=0.7, alpha=0.7)
        axes.plot(grid, trained(grid).detach(), color=RED, linewidth=1.4)
        axes.plot(x, y, ".", color=GREY, markersize=4)
        axes.set_title(f"s = {s:g}", fontsize=11)
        axes.set(xlabel="input", xlim=(-1.6, 1.6), ylim=(-2.2, 2.2))
        plain(axes)
    panels[0].set_ylabel("target")
    return figure


if __name__ == "__main__":
    draw(make, "scale")
