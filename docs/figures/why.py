"""Draw the README's picture: what a network is sure and wrong about, and what `sbmc` says of it.

A small CNN learns the digits 0 to 7 from 1,000 images of MNIST, and is then shown 8s and 9s, of
which every answer is wrong. The images in the picture are not chosen by hand: they are taken at
equal distances from those that the network gives 95 % or more.

    python docs/figures/why.py

This writes `docs/images/why.png`, and beside this file `why.json` with the figures that the README
quotes. It takes half a minute on two cores, and needs `mnist.npz`, which the loader fetches or
finds in `SBMC_DATA`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import sbmc
from sbmc.report.pictures import new_picture, write_picture
from sbmc.report.theme import light_theme
from sbmc_studies.data import load_dataset

OUT = Path(__file__).parents[1] / "images" / "why.png"
RECORD = Path(__file__).with_suffix(".json")
SURE = 0.95
EPOCHS = 60
SHOWN = 4  # of each digit


@dataclass(frozen=True)
class Answers:
    """What the network and the ensemble say of the images of one digit that neither has seen."""

    digit: str
    images: Tensor
    network: Tensor
    ensemble: Tensor

    def sure(self) -> Tensor:
        """The images that the network is sure about, surest first."""
        order = self.network.amax(1).argsort(descending=True)
        return order[: int((self.network.amax(1) >= SURE).sum())]

    def shown(self) -> Tensor:
        """Some of them, at equal distances in that order."""
        sure = self.sure()
        return sure[torch.linspace(0, len(sure) - 1, SHOWN + 2).round().long()[1:-1]]


def train(inputs: Tensor, labels: Tensor) -> nn.Module:
    """Train a network in the usual way."""
    torch.manual_seed(0)
    net = nn.Sequential(
        *(nn.Conv2d(1, 8, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(256, 8)),
    )
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(inputs)).split(50):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(inputs[rows]), labels[rows]).backward()
            optimiser.step()
    return net


def ask() -> tuple[list[Answers], dict[str, float]]:
    """Train, fit without a knob, and ask both about the digits that were left out.

    Returns:
        Their answers, and the share of the known digits that each of them reads correctly.
    """
    data = load_dataset("mnist7")
    net = train(*data.train)
    budget = sbmc.Budget(trained_epochs=EPOCHS)
    posterior = sbmc.fit(net, data.train, validation=data.validation, budget=budget)
    inputs, labels = data.test
    with torch.no_grad():
        accuracies = {
            "network": float((net(inputs).argmax(1) == labels).double().mean()),
            "ensemble": float((posterior.predict(inputs).labels == labels).double().mean()),
        }
        answers = [
            Answers(digit, images, net(images).softmax(1), posterior.predict(images).probs)
            for digit, images in data.ood.items()
            if digit in ("8", "9")
        ]
    return answers, accuracies


def draw(answers: list[Answers]) -> None:
    """Draw the images, and below each what the two say and how much they doubt it."""
    colours = light_theme()
    whose = (("the network", "network", colours["c1"]), ("sbmc", "ensemble", colours["c0"]))
    figure = new_picture(12, 3.0)
    left, right = figure.subfigures(1, 2, width_ratios=(6, 1))
    title = "8s and 9s, which it has never seen: the answer, and how often it expects to be wrong"
    left.suptitle(title, fontsize=13)
    columns = [(group, int(index)) for group in answers for index in group.shown()]
    axes = left.subplots(2, len(columns), height_ratios=(1.9, 1.6))
    for (group, index), picture, doubts in zip(columns, *axes, strict=True):
        picture.imshow(group.images[index, 0], cmap="gray_r", vmin=0, vmax=1)
        picture.set_axis_off()
        for row, (_, name, colour) in enumerate(whose):
            share, label = getattr(group, name)[index].max(0)
            doubt = 1 - float(share)
            doubts.barh(-row, doubt, color=colour, height=0.26)
            text = f"“{int(label)}”  {in_words(doubt)}"
            doubts.text(0, 0.3 - row, text, color=colour, fontsize=10.5, va="center")
        doubts.set(xlim=(0, 0.5), ylim=(-1.3, 0.5))
        doubts.set_axis_off()
    for row, (name, _, colour) in enumerate(whose):
        place = {"ha": "right", "va": "center", "fontsize": 11, "weight": "bold"}
        axes[1, 0].text(-0.06, 0.15 - row, name, color=colour, **place)
    shares = right.subplots()
    right.suptitle(f"{SURE:.0%} sure, but wrong", fontsize=11.5)
    for place, (name, key, colour) in enumerate(whose):
        share = sure_share(answers, key)
        shares.bar(place, share, color=colour, width=0.7)
        shares.text(place, share, f"{share:.0%}", ha="center", va="bottom", fontsize=12)
        shares.text(place, -0.02, name, ha="center", va="top", fontsize=10.5, color=colour)
    shares.set(ylim=(0, 0.5), xlim=(-0.6, 1.6))
    shares.set_axis_off()
    write_picture(figure, OUT)


def in_words(doubt: float) -> str:
    """A small probability as people say it: 1 in 30."""
    once = 1 / doubt
    size = 10 ** max(0, len(str(int(once))) - 1)
    return f"1 in {round(once / size) * size:,}"


def sure_share(answers: list[Answers], name: str) -> float:
    """The share of images to which one of the two gives a label with 95 % or more."""
    probs = torch.cat([getattr(group, name) for group in answers])
    return float((probs.amax(1) >= SURE).double().mean())


def main() -> None:
    """Write the picture, and what the README says of it."""
    answers, accuracies = ask()
    draw(answers)
    record = {
        "images": sum(len(group.images) for group in answers),
        "sure": {name: sure_share(answers, name) for name in accuracies},
        "accuracy": accuracies,
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
