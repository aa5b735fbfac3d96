"""Handwritten digits: train, sample, read the uncertainty, save and load.

    python examples/digits.py [--quick]

The network knows the digits 0 to 7. It is then shown 8s and 9s, which it cannot know.
"""

import argparse
import tempfile
from pathlib import Path

import torch
from torch import nn

import sbmc
from sbmc.datasets import load_dataset

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--quick", action="store_true", help="too short to mean anything: for tests")
quick = parser.parse_args().quick

torch.manual_seed(0)  # the first weights of the network
data = load_dataset("digits")  # comes with scikit-learn: nothing is downloaded
network = nn.Sequential(
    nn.Conv2d(1, 4, kernel_size=3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(64, 8),
)

# The anchor. Any network that you trained yourself would do as well.
model = sbmc.train_map(
    network,
    data.train,
    data.validation,
    prior_variance=1.0,
    learning_rate=0.005,  # five times the default: the network is small, and this is soon done
    max_epochs=3 if quick else 1000,
)
print(f"trained for {model.history.epochs} epochs")

# Sampling has no early stopping to hold data back for, so it takes the validation data too.
posterior = sbmc.fit(
    model,
    data.train_and_validation,
    s=0.1,
    prior_variance=1.0,
    sampler=sbmc.HMC(epochs=80 if quick else 160),
    particles=10,
)
island = posterior.islands[0]
print(f"{posterior}: {posterior.cost.epochs:.0f} epochs, acceptance {island.acceptance:.2f}")

inputs, labels = data.test
prediction = posterior.predict(inputs)
right = prediction.labels == labels
print(f"accuracy {right.double().mean():.3f} on {len(labels)} test digits")
print("epistemic entropy, mean:")
print(f"  right         {prediction.epistemic[right].mean():.3f}")
if not right.all():
    print(f"  wrong         {prediction.epistemic[~right].mean():.3f}")
for group, strangers in data.ood.items():
    print(f"  {group:13s} {posterior.predict(strangers).epistemic.mean():.3f}")

print("the test digits that it is least sure of:")
for index in prediction.epistemic.topk(3).indices.tolist():
    probs = prediction.probs[index]
    guesses = [f"{k}: {probs[k]:.2f}" for k in probs.topk(2).indices.tolist()]
    print(f"\n  a {labels[index]}, taken for {', '.join(guesses)}")
    for row in inputs[index, 0]:
        print("  " + "".join(" .:-=+*#%@"[int(9 * pixel)] * 2 for pixel in row))

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "digits.sbmc"
    posterior.save(file)
    again = sbmc.load(file, network)  # the sampled weights are in the file
    assert torch.equal(again.predict(inputs).probs, prediction.probs)
    print(f"\nsaved {file.stat().st_size / 1024:.0f} KiB, loaded, and it predicts the same bits")
