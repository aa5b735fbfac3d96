"""The networks of the gauntlet, written as users write them: classes, functional layers, views.

None of them is made for this library: what its kernels do not cover runs on a slower path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sbmc_studies.gauntlet.texts import LENGTH, VOCABULARY


def build_pair_network(
    settings: Mapping[str, Any], input_shape: tuple[int, ...], classes: int
) -> nn.Module:
    """Build a network of the list with torch's own initial weights, from its global generator.

    Args:
        settings: `kind` and its sizes, as the list of pairs has them.
        input_shape: of one input.
        classes: number of outputs.

    Returns:
        The network.
    """
    sizes = {name: value for name, value in settings.items() if name != "kind"}
    return _KINDS[settings["kind"]](input_shape, classes, **sizes)


def _mlp(input_shape: tuple[int, ...], classes: int, layers: int, units: int) -> nn.Module:
    sizes = [int(torch.Size(input_shape).numel()), *[units] * layers]
    hidden = [
        part for before, after in pairwise(sizes) for part in (nn.Linear(before, after), nn.ReLU())
    ]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(units, classes))


def _last_layer(input_shape: tuple[int, ...], classes: int, units: int) -> nn.Module:
    return _mlp(input_shape, classes, layers=1, units=units)


def _head(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Linear(input_shape[0], classes)


class ConvNet(nn.Module):
    """Two convolutions with pooling, then a hidden layer."""

    def __init__(self, input_shape: tuple[int, ...], classes: int, channels: list[int]) -> None:
        super().__init__()
        first, second = channels
        self.conv1 = nn.Conv2d(input_shape[0], first, 3, padding=1)
        self.conv2 = nn.Conv2d(first, second, 3, padding=1)
        self.hidden = nn.Linear(second * (input_shape[1] // 4) * (input_shape[2] // 4), 64)
        self.out = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.out(F.relu(self.hidden(torch.flatten(x, 1))))


class _Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(y)))


class ResNet(nn.Module):
    """Residual blocks with batch normalisation; large images are halved first."""

    def __init__(
        self, input_shape: tuple[int, ...], classes: int, channels: int, blocks: int
    ) -> None:
        super().__init__()
        stride = 2 if input_shape[1] > 16 else 1
        self.stem = nn.Conv2d(input_shape[0], channels, 3, stride=stride, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.blocks = nn.Sequential(*(_Block(channels) for _ in range(blocks)))
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.blocks(F.relu(self.norm(self.stem(x))))
        return self.head(x.mean((2, 3)))


class LeNet5(nn.Module):
    """LeCun's network of 1998, with ReLU and maxima in the place of tanh and means."""

    def __init__(self, input_shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(input_shape[0], 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        side = (input_shape[1] // 2 - 4) // 2
        self.fc1 = nn.Linear(16 * side * side, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return self.fc3(F.relu(self.fc2(x)))


class _WideningBlock(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.shortcut: nn.Module = nn.Identity()
        if before != after:
            projection = nn.Conv2d(before, after, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.shortcut(x) + self.norm2(self.conv2(y)))


class ResNet8(nn.Module):
    """Eight layers: a stem that halves the image, three blocks of two layers, a head."""

    def __init__(self, input_shape: tuple[int, ...], classes: int, channels: int) -> None:
        super().__init__()
        widths = channels, channels, 2 * channels, 4 * channels
        self.stem = nn.Conv2d(input_shape[0], channels, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.blocks = nn.Sequential(
            *(
                _WideningBlock(before, after, 1 if before == after else 2)
                for before, after in pairwise(widths)
            )
        )
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.blocks(F.relu(self.norm(self.stem(x))))
        return self.head(x.mean((2, 3)))


class LSTMClassifier(nn.Module):
    """Reads an image row by row; the last state answers."""

    def __init__(self, input_shape: tuple[int, ...], classes: int, units: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_shape[-1], units, batch_first=True)
        self.out = nn.Linear(units, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        states, _ = self.lstm(x.squeeze(1))
        return self.out(states[:, -1])


class RowTransformer(nn.Module):
    """A Transformer encoder over the rows of an image, with a learned position for each."""

    def __init__(
        self, input_shape: tuple[int, ...], classes: int, width: int, layers: int, heads: int
    ) -> None:
        super().__init__()
        self.embed = nn.Linear(input_shape[-1], width)
        self.position = nn.Parameter(0.02 * torch.randn(input_shape[-2], width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, 2 * width, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.embed(x.squeeze(1)) + self.position
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x).mean(1))


class Adapted(nn.Module):
    """A linear layer with a low-rank adjustment: W x + B A x, of which A and B are trained."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.lora_B = nn.Parameter(torch.zeros(layer.out_features, rank))

    @property
    def weight(self) -> Tensor:
        """W + B A, which torch's own Transformer layer asks for in evaluation mode."""
        return self.layer.weight + self.lora_B @ self.lora_A

    @property
    def bias(self) -> Tensor:
        """The layer's own."""
        return self.layer.bias

    def forward(self, x: Tensor) -> Tensor:
        """The layer's outputs, adjusted."""
        return self.layer(x) + (x @ self.lora_A.T) @ self.lora_B.T


def adapt(network: RowTransformer, rank: int) -> RowTransformer:
    """Freeze a network, and put adjustments into its last block and its output layer."""
    network.requires_grad_(False)
    block: Any = network.blocks[-1]
    block.linear1, block.linear2 = Adapted(block.linear1, rank), Adapted(block.linear2, rank)
    network.out = Adapted(network.out, rank)  # type: ignore[assignment]
    return network


def _lora(
    input_shape: tuple[int, ...], classes: int, width: int, layers: int, heads: int, rank: int
) -> nn.Module:
    return adapt(RowTransformer(input_shape, classes, width, layers, heads), rank)


class Bert(nn.Module):
    """A BERT made by configuration; the mean of its states answers."""

    def __init__(
        self, input_shape: tuple[int, ...], classes: int, width: int, layers: int, heads: int
    ) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel

        settings = BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=2 * width,
            max_position_embeddings=LENGTH,
            hidden_dropout_prob=0.1,
            attn_implementation="eager",
        )
        self.network = BertModel(settings, add_pooling_layer=False)
        self.out = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.out(self.network(x).last_hidden_state.mean(1))


class GPT2(nn.Module):
    """A GPT-2 made by configuration; the mean of its states answers."""

    def __init__(
        self, input_shape: tuple[int, ...], classes: int, width: int, layers: int, heads: int
    ) -> None:
        super().__init__()
        from transformers import GPT2Config, GPT2Model

        settings = GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=LENGTH,
            n_embd=width,
            n_layer=layers,
            n_head=heads,
            bos_token_id=None,
            eos_token_id=None,
            attn_implementation="eager",
        )
        self.network = GPT2Model(settings)
        self.out = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.out(self.network(x, use_cache=False).last_hidden_state.mean(1))


_KINDS: dict[str, Callable[..., nn.Module]] = {
    "mlp": _mlp,
    "last-layer": _last_layer,
    "head": _head,
    "cnn": ConvNet,
    "resnet": ResNet,
    "lenet5": LeNet5,
    "resnet8": ResNet8,
    "lstm": LSTMClassifier,
    "transformer": RowTransformer,
    "lora": _lora,
    "bert": Bert,
    "gpt2": GPT2,
}
