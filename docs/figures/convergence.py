"""`python docs/figures/convergence.py`: how the error of a mean falls with P, and with N.

A straight line with known noise has a posterior in closed form, so that errors can be measured. SMC
has fixed temperatures and step sizes: then the theory holds for any number of particles.
"""

import torch
from drawing import BLUE, GREY, ORANGE, draw, plain
from matplotlib.figure import Figure
from torch import Tensor, nn

import sbmc
from sbmc.report.pictures import new_picture

NOISE_VARIANCE = 0.05
SIZES = (1, 2, 4, 8, 16, 32, 64)


def line_data() -> tuple[Tensor, Tensor]:
    """Twelve points of a line through the origin."""
    rng = torch.Generator().manual_seed(3)
    x = torch.linspace(-1, 1, 12).view(-1, 1)
    return x, 1.5 * x + NOISE_VARIANCE**0.5 * torch.randn(x.shape, generator=rng)


def exact_mean(x: Tensor, y: Tensor) -> Tensor:
    """The posterior mean of the slope under the prior N(0, 1)."""
    return (x * y).sum() / (x.square().sum() + NOISE_VARIANCE)


def grouped_errors(means: Tensor, weights: Tensor, exact: Tensor, size: int) -> Tensor:
    """Mean squared error of estimates from groups of so many islands each."""
    groups = len(means) // size
    means, weights = (each[: groups * size].view(groups, size) for each in (means, weights))
    estimates = (weights * means).sum(1) / weights.sum(1)
    return (estimates - exact).square().mean()


def make(quick: bool) -> Figure:
    """Left: islands of ten particles, in two weightings. Right: the same number of chains."""
    x, y = line_data()
    exact = exact_mean(x, y)
    torch.manual_seed(0)
    islands = 128 if quick else 4096
    options = {
        "s": 1,
        "prior_variance": 1.0,
        "likelihood": sbmc.Gaussian(noise_variance=NOISE_VARIANCE),
        "islands": islands,
        "progress": False,
    }
    smc = sbmc.SMC(mutations=1, temperatures=(0.02, 0.2, 1.0), step_sizes=(0.3, 0.15, 0.1))
    network = nn.Linear(1, 1, bias=False)
    population = sbmc.fit(network, (x, y), sampler=smc, particles=10, start="prior", **options)
    means = population.positions.mean((1, 2)).double()
    evidence = torch.as_tensor(population.log_evidence).double()
    weights = (evidence - evidence.max()).exp()
    chains = sbmc.fit(
        network,
        (x, y),
        sampler=sbmc.HMC(steps=40, step_size=0.2, adapt=False),
        particles=1,
        **options,
    )
    single = chains.positions.flatten().double()
    figure = new_picture(9, 3.1)
    left, right = figure.subplots(1, 2)
    equal = torch.ones_like(weights)
    for label, chosen, colour, marker in (
        ("by evidence", weights, BLUE, "o"),
        ("equal weights", equal, ORANGE, "s"),
    ):
        errors = [grouped_errors(means, chosen, exact, size) for size in SIZES]
        left.loglog(SIZES, errors, marker=marker, color=colour, markersize=4, label=label)
    errors = [grouped_errors(single, equal, exact, size) for size in SIZES]
    right.loglog(SIZES, errors, marker="o", color=BLUE, markersize=4, label="independent chains")
    for axes, first in ((left, grouped_errors(means, weights, exact, 4) * 4), (right, errors[0])):
        axes.loglog(
            SIZES, [first / size for size in SIZES], color=GREY, linestyle="--", label="1 / size"
        )
        axes.set_xticks(SIZES, [str(size) for size in SIZES])
        axes.minorticks_off()
        axes.legend(frameon=False, fontsize=9)
        plain(axes)
    left.set(xlabel="islands of ten particles, P", ylabel="mean squared error")
    left.set_title("SMC, moves far too short", fontsize=11)
    right.set(xlabel="chains, N·P")
    right.set_title("HMC, long enough", fontsize=11)
    return figure


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    draw(make, "convergence")
