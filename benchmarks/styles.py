"""`python -m benchmarks.styles`: networks as users write them, beside what they are measured by.

One evaluation (log likelihood and gradient over all data, ten particles) at a time, the ways in
turn; a ratio is the median over the turns. A class with functional layers is beside the same
`nn.Sequential`; a residual network with BatchNorm, a Transformer encoder and a transformer with
adapters are beside `torch.func.vmap` of the whole model, which is what there was for them before.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks import options as shared
from benchmarks.tables import line, machine_words
from benchmarks.transformer import Transformer
from benchmarks.workloads import HEADS, draw_positions, target_of, users_target
from sbmc.model.data import Examples
from sbmc.model.parameters import select_parameters
from sbmc.target.target import Target

PARTICLES = 10


class FunctionalNet(nn.Module):
    """The MNIST7 network in the style of PyTorch's own tutorials."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.fc = nn.Linear(4 * (side // 2) ** 2, 8)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        logits: Tensor = self.fc(x.view(x.size(0), -1))
        return logits


def sequential_net(side: int) -> nn.Sequential:
    """The same as a sequence of layers."""
    layers = nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(4 * (side // 2) ** 2, 8))


class Block(nn.Module):
    """Two convolutions with BatchNorm, and their input added to what they give."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        same = before == after and stride == 1
        projection = nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
        self.short = nn.Identity() if same else nn.Sequential(*projection)

    def forward(self, x: Tensor) -> Tensor:
        """What the block gives."""
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.short(x))


class ResNet8(nn.Module):
    """Seven convolutions in three blocks and a first one, and a linear layer."""

    def __init__(self, width: int, classes: int = 10) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        blocks = Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2)
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(4 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.blocks(F.relu(self.bn(self.conv(x))))
        logits: Tensor = self.fc(x.mean((2, 3)))
        return logits


class Encoder(nn.Module):
    """Words, places, two blocks of torch's own encoder, a mean and a linear layer."""

    def __init__(self, vocabulary: int, length: int, width: int, classes: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        block = nn.TransformerEncoderLayer(
            width, HEADS, 4 * width, activation="gelu", batch_first=True
        )
        self.blocks = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.fc = nn.Linear(width, classes)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.fc(self.blocks(self.words(ids) + self.places).mean(1))
        return logits


@dataclass(frozen=True)
class Comparison:
    """A network, what it is measured by, and how it has to compare.

    Attributes:
        title: one line for the table.
        network: makes it.
        beside: makes the other network; None for the same one by `vmap`.
        inputs: makes that many inputs.
        examples: how many.
        classes: how many labels there are.
        required: the other's time over the network's own; below it the benchmark fails.
    """

    title: str
    network: Callable[[], nn.Module]
    beside: Callable[[], nn.Module] | None
    inputs: Callable[[int], Tensor]
    examples: int
    classes: int
    required: float


def comparisons(quick: bool) -> dict[str, Comparison]:
    """All of them, in their real or in tiny sizes."""
    side, count, width = (8, 16, 4) if quick else (28, 1_200, 16)
    pixels, images = (8, 12) if quick else (32, 200)
    length, texts, hidden, words = (4, 8, 8, 11) if quick else (32, 128, 64, 1_000)

    def ids(n: int) -> Tensor:
        return torch.randint(words, (n, length))

    return {
        "functional": Comparison(
            "MNIST7 network as a class, beside nn.Sequential",
            lambda: FunctionalNet(side),
            lambda: sequential_net(side),
            lambda n: torch.rand(n, 1, side, side),
            count,
            8,
            0.9,
        ),
        "resnet": Comparison(
            f"ResNet of eight layers with BatchNorm, {images} × 3 × {pixels} × {pixels}",
            lambda: ResNet8(width),
            None,
            lambda n: torch.rand(n, 3, pixels, pixels),
            images,
            10,
            1.5,
        ),
        "encoder": Comparison(
            f"Transformer encoder of two blocks, {texts} × {length} tokens",
            lambda: Encoder(words, length, hidden),
            None,
            ids,
            texts,
            2,
            1.5,
        ),
        "adapters": Comparison(
            f"transformer with adapters, {texts} × {length} tokens",
            lambda: Transformer(words, length, hidden, 4, 2, HEADS),
            None,
            ids,
            texts,
            2,
            1.0,
        ),
    }


def measure(comparison: Comparison, repeats: int) -> dict[str, Any]:
    """Time both in turn.

    Returns:
        The row of the record; `ratio` is the median over the turns of the other's time over ours.

    Raises:
        RuntimeError: they do not compute the same.
    """
    torch.manual_seed(0)
    network = comparison.network().eval()
    inputs = comparison.inputs(comparison.examples)
    examples = Examples(inputs, torch.randint(comparison.classes, (comparison.examples,)))
    ours = users_target(network, examples)
    if comparison.beside is None:
        other = target_of(network, examples, "vmap")
    else:
        beside = comparison.beside().eval()
        space = select_parameters(beside)
        space.write(select_parameters(network).flatten(network), beside)
        other = users_target(beside, examples)
    positions = draw_positions(ours, PARTICLES)
    first, second = ours(positions), other(positions)
    gap = (first.gradient - second.gradient).abs().max() / second.gradient.abs().max()
    if not float(gap) < 1e-3:
        raise RuntimeError(f"{comparison.title}: gradients differ by {float(gap):.1e}")
    times: list[tuple[float, float]] = []
    for _ in range(repeats):
        times.append((_seconds(ours, positions), _seconds(other, positions)))
    return {
        "title": comparison.title,
        "particles": PARTICLES,
        "path": ours.engine.path,
        "kernel": ours.engine.kernel,
        "chunks": vars(ours.engine.chunks),
        "seconds": statistics.median(mine for mine, _ in times),
        "other_seconds": statistics.median(theirs for _, theirs in times),
        "ratio": statistics.median(theirs / mine for mine, theirs in times),
        "required": comparison.required,
    }


def _seconds(target: Target, positions: Tensor) -> float:
    began = time.perf_counter()
    target(positions)
    return time.perf_counter() - began


def styles_table(record: dict[str, Any]) -> str:
    """Markdown, from the record alone."""
    lines = [
        f"Medians of {record['repeats']} turns; {machine_words(record)}. Seconds of one evaluation "
        f"for {PARTICLES} particles:",
        "",
        line(["network", "sbmc", "beside", "ratio", "required", ""]),
        "|---|---:|---:|---:|---:|---|",
    ]
    for row in record["rows"]:
        mark = "✓" if row["ratio"] >= row["required"] else "✗"
        figures = f"{row['seconds']:.3g}", f"{row['other_seconds']:.3g}", f"{row['ratio']:.2f}×"
        lines.append(line([row["title"], *figures, f"{row['required']:.1f}×", mark]))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the record, print the table.

    Returns:
        The exit code: 1 if a required ratio is missed, except with `--quick`.
    """
    parser = shared.make_parser("styles", __doc__, repeats=9)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="leave the others out")
    options = shared.parse(parser, arguments)
    chosen = comparisons(options.quick)
    unknown = set(options.only or ()) - set(chosen)
    if unknown:
        parser.error(f"`only` must be among {', '.join(chosen)}, but got {sorted(unknown)}.")
    rows = []
    for name, comparison in chosen.items():
        if not options.only or name in options.only:
            print(name, file=sys.stderr, flush=True)
            rows.append({"name": name, **measure(comparison, options.repeats)})
    record = shared.write_record(options, "styles", {"repeats": options.repeats, "rows": rows})
    print(styles_table(record))
    if options.quick:
        return 0
    return shared.tell_failures(
        [
            f"{row['title']}: {row['ratio']:.2f}×, {row['required']:.1f}× required"
            for row in rows
            if row["ratio"] < row["required"]
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
