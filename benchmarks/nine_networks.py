"""Nine networks that nobody here has tuned for, trained on 400 digits as a user would train them.

Plain ReLU networks of one to four hidden layers, a small residual network with batch
normalisation, and a tiny GPT-2 made by configuration (from the package `transformers`), which reads
a digit as sixteen tokens. `benchmarks.health` samples them all.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CLASSES = 10
ROWS = 400
EPOCHS = 100
BATCH = 32
LEARNING_RATE = 1e-3


class Data(NamedTuple):
    """Digits of 8 × 8 pixels in [0, 1]: 400 to learn from, the others to test on."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


def load_digits(seed: int) -> Data:
    """The digits that scikit-learn carries, split by a permutation that the seed decides."""
    from sklearn import datasets

    found = datasets.load_digits()
    inputs = torch.tensor(found.images / 16, dtype=torch.float32).flatten(1)
    labels = torch.tensor(found.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    first, rest = order[:ROWS], order[ROWS:]
    return Data((inputs[first], labels[first]), (inputs[rest], labels[rest]))


def mlp(layers: int, width: int) -> nn.Sequential:
    """A plain ReLU network with `layers` hidden layers of one width."""
    sizes = [64, *[width] * layers]
    hidden = [
        part for before, after in pairwise(sizes) for part in (nn.Linear(before, after), nn.ReLU())
    ]
    return nn.Sequential(*hidden, nn.Linear(width, CLASSES))


class ResNet(nn.Module):
    """Two residual blocks with batch normalisation, written as such networks usually are."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.blocks = nn.ModuleList(_Block(width) for _ in range(2))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of flat pixels."""
        x = F.relu(self.norm(self.stem(x.view(-1, 1, 8, 8))))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.first(x)))
        return F.relu(x + self.norm2(self.second(y)))


class TinyGPT2(nn.Module):
    """A GPT-2 of two layers that reads 4 × 4 grey levels, 17 of them, and names the digit."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import GPT2Config, GPT2Model

        settings = GPT2Config(
            vocab_size=17,
            n_positions=16,
            n_embd=16,
            n_layer=2,
            n_head=2,
            bos_token_id=None,
            eos_token_id=None,
            attn_implementation="eager",
        )
        self.network = GPT2Model(settings)
        self.score = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of flat pixels, four to a token; the last token answers."""
        small = F.avg_pool2d(x.view(-1, 1, 8, 8), 2).flatten(1)
        tokens = (small * 16).round().long()
        hidden = self.network(tokens, use_cache=False).last_hidden_state
        return self.score(hidden[:, -1])


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "mlp 1x32": lambda: mlp(1, 32),
    "mlp 1x256": lambda: mlp(1, 256),
    "mlp 2x64": lambda: mlp(2, 64),
    "mlp 2x128": lambda: mlp(2, 128),
    "mlp 3x64": lambda: mlp(3, 64),
    "mlp 3x128": lambda: mlp(3, 128),
    "mlp 4x64": lambda: mlp(4, 64),
    "resnet": ResNet,
    "gpt2": TinyGPT2,
}


def train(name: str, data: Data, seed: int) -> nn.Module:
    """A network trained with Adam and no weight decay, as most scripts do."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = NETWORKS[name]()
        model.train()
        optimiser = torch.optim.Adam(model.parameters(), LEARNING_RATE)
        inputs, labels = data.train
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(labels)).split(BATCH):
                optimiser.zero_grad()
                F.cross_entropy(model(inputs[rows]), labels[rows]).backward()
                optimiser.step()
    return model.eval()
