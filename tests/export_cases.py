"""Posteriors to export, and what their graphs must answer."""

from functools import cache

import torch
from torch import nn

import sbmc
from sbmc.model.data import leaves

torch_rows = torch.Generator().manual_seed(7)
TABLE = torch.randn(60, 4, generator=torch_rows)
PICTURES = torch.randn(30, 1, 8, 8, generator=torch_rows)
SEQUENCES = torch.randn(30, 7, 3, generator=torch_rows)
LABELS = (TABLE[:, 0] * TABLE[:, 1] > 0).long() + (TABLE[:, 2] > 1).long()
# A large mean beside a small spread: what is subtracted first keeps its digits.
NUMBERS = 100 + TABLE[:, :2] * torch.tensor([3.0, 0.1])


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(3, 5, batch_first=True)
        self.head = nn.Linear(5, 3)

    def forward(self, sequences):
        return self.head(self.layer(sequences)[0][:, -1])


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, table, total):
        return self.layer(torch.cat([table, total], 1))


def dense(outputs, hidden=8):
    return nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, outputs))


def convolutional():
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(3, 4, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16, 3),
    )


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)
        self.enter, self.leave = nn.Linear(3, 4), nn.Linear(4, 3)

    def forward(self, sequences):
        return self.leave(self.layer(self.enter(sequences)).mean(1))


def sampled(network, data, particles=4, **options):
    torch.manual_seed(1)
    options = {"s": 0.3, "islands": 2, "particles": particles, "progress": False, **options}
    return sbmc.fit(network(), data, **options)


NAMED = {"table": TABLE, "total": TABLE[:, :2].clone()}
CASES = {
    "mlp": lambda: sampled(lambda: dense(3), (TABLE, LABELS)),
    "cnn": lambda: sampled(convolutional, (PICTURES, LABELS[:30])),
    "lstm": lambda: sampled(Recurrent, (SEQUENCES, LABELS[:30])),
    "attention": lambda: sampled(Attention, (SEQUENCES, LABELS[:30])),
    "named inputs": lambda: sampled(TwoInputs, (NAMED, LABELS)),
    "one logit": lambda: sampled(
        lambda: dense(1), (TABLE, (LABELS > 0).float()), likelihood="bernoulli"
    ),
    "several labels": lambda: sampled(
        lambda: dense(2),
        (TABLE, (TABLE[:, :2] > 0).float()),
        likelihood="multi-label",
    ),
    "known noise": lambda: sampled(
        lambda: dense(2), (TABLE, NUMBERS), likelihood=sbmc.Gaussian(noise_variance=0.5)
    ),
    "learned noise": lambda: sampled(lambda: dense(2), (TABLE, NUMBERS)),
    "noise of the network": lambda: sampled(
        lambda: dense(4), (TABLE, NUMBERS), likelihood=sbmc.Gaussian(noise="network")
    ),
    "mixture": lambda: sampled(lambda: dense(3), (TABLE, LABELS), s="auto"),
}


@cache
def posterior(name):
    return CASES[name]()


@cache
def distilled(name):
    return posterior(name).distil(steps=30, perturbations=60)


def expected(prediction, level=0.9):
    """What a graph answers, from the prediction itself."""
    found = {name: getattr(prediction, name) for name in ("total", "aleatoric", "epistemic")}
    if hasattr(prediction, "probs"):
        return {"probabilities": prediction.probs, **found}
    lower, upper = prediction.interval(level)
    return {"mean": prediction.mean, "lower": lower, "upper": upper, **found}


def new_rows(predictor, count):
    """Rows that neither the fit nor the trace has seen, in the form of its inputs."""
    described = predictor.settings.get("inputs") or predictor.input_description["inputs"]
    rng = torch.Generator().manual_seed(count)
    tensors = [torch.randn(count, *each["shape"], generator=rng) for each in described["leaves"]]
    return dict(zip(described["names"], tensors, strict=True)) if described["names"] else tensors[0]


def largest_gap(answers, prediction, level=0.9):
    """The largest difference of an answer, relative to 1 or, of numbers, to their size."""
    gaps = []
    for name, wanted in expected(prediction, level).items():
        given = torch.as_tensor(answers[name]).double()
        assert given.shape == wanted.shape, name
        size = 1.0 if hasattr(prediction, "probs") else float(wanted.abs().max())
        gaps.append(float((given - wanted).abs().max()) / size)
    return max(gaps)


def tensors_of(inputs):
    return leaves(inputs)
