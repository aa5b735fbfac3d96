"""Regression with a gap in the data: uncertain where nothing was measured.

    python examples/regression.py [--quick]

Inputs lie in [-1, -0.3] and [0.3, 1]. What the network says in between is a guess, and the
spread between particles (the epistemic standard deviation) shows it.
"""

import argparse

import torch
from torch import nn

import sbmc

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--quick", action="store_true", help="too short to mean anything: for tests")
quick = parser.parse_args().quick

NOISE = 0.2  # standard deviation of the measurements, known here

rng = torch.Generator().manual_seed(0)
size = 0.3 + 0.7 * torch.rand(40, 1, generator=rng)
x = torch.where(torch.arange(40).view(-1, 1) < 20, -size, size)
y = torch.sin(4 * x) + NOISE * torch.randn(x.shape, generator=rng)

torch.manual_seed(0)  # the first weights of the network
network = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
likelihood = sbmc.Gaussian(noise_variance=NOISE**2)
model = sbmc.train_map(
    network, (x, y), likelihood=likelihood, max_epochs=100 if quick else 300, learning_rate=0.01
)

# s = 1: the full posterior, with the trained network only as the place where chains begin.
posterior = sbmc.fit(
    model,
    (x, y),
    s=1,
    likelihood=likelihood,
    sampler=sbmc.AutoHMC(epochs=800 if quick else 2000),
    particles=20,
)
island = posterior.islands[0]
print(f"acceptance {island.acceptance:.2f}, step size {island.step_size:.3f}, {island.steps} steps")

grid = torch.linspace(-1.5, 1.5, 13).view(-1, 1)
prediction = posterior.predict(grid)
print("    x     truth    mean   epistemic sd")
for value, mean, variance in zip(grid, prediction.mean, prediction.epistemic, strict=True):
    truth = torch.sin(4 * value)
    print(
        f"{value.item():6.2f} {truth.item():8.2f} {mean.item():7.2f} {variance.sqrt().item():9.3f}"
    )

inside = posterior.predict(torch.linspace(-0.15, 0.15, 20).view(-1, 1)).epistemic.mean().sqrt()
covered = torch.cat([torch.linspace(-0.9, -0.4, 20), torch.linspace(0.4, 0.9, 20)]).view(-1, 1)
outside = posterior.predict(covered).epistemic.mean().sqrt()
print(f"epistemic sd inside the gap {inside:.3f}, where there are data {outside:.3f}")
print(f"aleatoric sd everywhere {prediction.aleatoric.sqrt().mean():.3f}: the noise that we gave")
