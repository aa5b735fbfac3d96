"""Only the last layer: uncertainty for a network whose body stays as it is.

    python examples/last_layer.py [--quick]

The body's features are computed once; sampling then costs as much as for a linear model, however
large the body is.
"""

import argparse

import torch
from torch import nn

import sbmc
from sbmc.datasets import load_dataset

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--quick", action="store_true", help="too short to mean anything: for tests")
quick = parser.parse_args().quick

data = load_dataset("digits")

# A network that somebody else trained, in whatever way: here with dropout, by a plain loop.
torch.manual_seed(0)
network = nn.Sequential(
    nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 8)
)
inputs, labels = data.train
optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
for _ in range(10 if quick else 200):
    optimiser.zero_grad()
    nn.functional.cross_entropy(network(inputs), labels).backward()
    optimiser.step()

# Frozen parameters are never sampled. `parameters="last"` alone would do: this makes it plain.
for parameter in network[:-1].parameters():
    parameter.requires_grad_(False)

posterior = sbmc.fit(
    network,
    data.train_and_validation,
    s=0.25,
    prior_variance=1.0,
    parameters="last",
    sampler=sbmc.HMC(epochs=80 if quick else 160),
    particles=10,
)
everything = sum(parameter.numel() for parameter in network.parameters())
print(
    f"{posterior.space.dim} of {everything} parameters sampled: {', '.join(posterior.space.names)}"
)

prediction = posterior.predict(data.test[0])
accuracy = (prediction.labels == data.test[1]).double().mean()
print(f"accuracy {accuracy:.3f}, epistemic entropy {prediction.epistemic.mean():.3f}")
for group, strangers in data.ood.items():
    print(f"  {group:12s} epistemic entropy {posterior.predict(strangers).epistemic.mean():.3f}")
