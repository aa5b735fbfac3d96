"""`python -m benchmarks.corners`: absurd priors and first step sizes end healthy, or warned of.

Two small networks are trained on the embedded digits and sampled with every pair of six prior
variances and seven first step sizes of `AutoHMC`, in a run that goes through all its phases. A run
ends ok, warned or with an exception. Whether particles have moved is measured here, apart from the
verdict: a run is frozen if its median particle has come less than a tenth as far from the network
as in the run that went farthest with the same prior. A frozen run that is called ok is a failure.
The record is written after every run, and a run that is in it is not made again.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import sbmc
from benchmarks import options as shared
from benchmarks.nine_networks import mlp
from benchmarks.tables import line
from sbmc.datasets import digits

VARIANCES = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
STEP_SIZES = (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0)
# Ten batches in half of the epochs, then steps on all data, then exact moves.
ROWS, EPOCHS, PARTICLES = 640, 48, 10
TRAINING_EPOCHS, BATCH, LEARNING_RATE = 60, 64, 1e-3
# Of the distance that is usual with the same prior.
FROZEN = 0.1
QUICK_EPOCHS = 24


def small_cnn() -> nn.Sequential:
    """One convolution, pooling and a linear layer, on flat pixels."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 8, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(72, 10),
    )


NETWORKS: dict[str, Callable[[], nn.Module]] = {"mlp 2x64": lambda: mlp(2, 64), "cnn": small_cnn}


def load_rows() -> tuple[Tensor, Tensor]:
    """The first of the embedded digits, as flat pixels, and their labels."""
    inputs, labels = digits.load().train
    return inputs[:ROWS].flatten(1), labels[:ROWS]


def train(name: str, data: tuple[Tensor, Tensor], epochs: int = TRAINING_EPOCHS) -> nn.Module:
    """A network trained with Adam."""
    inputs, labels = data
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = NETWORKS[name]()
        optimiser = torch.optim.Adam(model.parameters(), LEARNING_RATE)
        for _ in range(epochs):
            for rows in torch.randperm(len(labels)).split(BATCH):
                optimiser.zero_grad()
                F.cross_entropy(model(inputs[rows]), labels[rows]).backward()
                optimiser.step()
    return model.eval()


def measure(
    model: nn.Module, data: tuple[Tensor, Tensor], variance: float, step_size: float, epochs: int
) -> dict[str, Any]:
    """One run.

    Args:
        model: a trained network.
        data: what it was trained on.
        variance: v of the prior N(0, v).
        step_size: the first one.
        epochs: of each particle.

    Returns:
        `outcome` (`ok`, `warned` or `exception`), its `reasons`, and how far each particle has
        come from the network, as root mean square over the weights (`distance`, a list).
    """
    row: dict[str, Any] = {"variance": variance, "step_size": step_size}
    sampler = sbmc.AutoHMC(epochs=epochs, step_size=step_size)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            posterior = sbmc.fit(
                model,
                data,
                prior_variance=variance,
                sampler=sampler,
                particles=PARTICLES,
                progress=False,
            )
        # Whatever it is, it goes into the table: an exception says what is wrong, too.
        except Exception as error:
            return {**row, "outcome": "exception", "reasons": [repr(error)], "distance": []}
    warned = any(issubclass(each.category, sbmc.HealthWarning) for each in caught)
    weights = torch.cat([each.detach().flatten() for each in model.parameters()])
    distance = (posterior.positions[0] - weights).double().square().mean(-1).sqrt()
    return {
        **row,
        "outcome": "warned" if warned else "ok",
        "reasons": list(posterior.health.reasons),
        "distance": distance.tolist(),
        "acceptance": posterior.health.figures["acceptance"],
        "last_step_size": posterior.islands[0].step_size,
    }


def frozen_runs(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs whose median particle has stayed near the network; the verdict is not asked.

    Args:
        rows: runs of several networks and variances, as `measure` gives them, with `network`.

    Returns:
        Those that came less than a tenth as far as the farthest with the same prior, or nowhere.

    Example:
        >>> rows = [{"network": "a", "variance": 1.0, "distance": [d]} for d in (1.0, 0.5, 0.01)]
        >>> [row["distance"] for row in frozen_runs(rows)]
        [[0.01]]
    """
    farthest: dict[tuple[str, float], float] = {}
    for row in rows:
        key = row["network"], row["variance"]
        farthest[key] = max(farthest.get(key, 0.0), _median(row["distance"]))
    return [
        row
        for row in rows
        if row["distance"]
        and not _median(row["distance"]) > FROZEN * farthest[row["network"], row["variance"]]
    ]


def unreported(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Frozen runs that were called ok."""
    return [row for row in frozen_runs(rows) if row["outcome"] == "ok"]


def corners_table(record: dict[str, Any]) -> str:
    """A row for each network and variance, a column for each first step size, then the counts."""
    rows = record["rows"]
    frozen = {_key(row) for row in frozen_runs(rows)}
    sizes = sorted({row["step_size"] for row in rows})
    headings = ["network", "prior variance", *(f"first step {size:g}" for size in sizes)]
    lines = [line(headings), line(["---"] * len(headings))]
    for network, variance in dict.fromkeys((row["network"], row["variance"]) for row in rows):
        cells = {
            row["step_size"]: row["outcome"] + (", frozen" if _key(row) in frozen else "")
            for row in rows
            if (row["network"], row["variance"]) == (network, variance)
        }
        lines.append(line([network, f"{variance:g}", *(cells.get(size, "–") for size in sizes)]))
    counts = {
        outcome: sum(row["outcome"] == outcome for row in rows)
        for outcome in ("ok", "warned", "exception")
    }
    words = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return "\n".join(
        [
            f"{len(rows)} runs: {words}; {len(frozen)} frozen, of which {len(unreported(rows))} "
            "were called ok.",
            "",
            *lines,
        ]
    )


def _key(row: dict[str, Any]) -> tuple[str, float, float]:
    return row["network"], row["variance"], row["step_size"]


def _median(values: Sequence[float]) -> float:
    """The median; 0 of nothing, or of what is not a number."""
    median = float(torch.tensor(values).median()) if values else 0.0
    return median if math.isfinite(median) else 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the record lacks, and print the table; 1 if a frozen run was called ok."""
    parser = shared.make_parser("corners", __doc__)
    options = shared.parse(parser, arguments)
    variances = VARIANCES[::5] if options.quick else VARIANCES
    step_sizes = STEP_SIZES[::3] if options.quick else STEP_SIZES
    epochs = QUICK_EPOCHS if options.quick else EPOCHS
    names = ["cnn"] if options.quick else list(NETWORKS)
    rows = json.loads(options.out.read_text("utf-8"))["rows"] if options.out.exists() else []
    there = {_key(row) for row in rows}
    data = load_rows()
    for name in names:
        model = train(name, data)
        for variance in variances:
            for step_size in step_sizes:
                if (name, variance, step_size) in there:
                    continue
                found = measure(model, data, variance, step_size, epochs)
                rows.append({"network": name, **found})
                shared.write_record(options, "corners", {"epochs": epochs, "rows": rows})
    print(corners_table({"rows": rows}))
    return shared.tell_failures(
        [
            f"{row['network']}, variance {row['variance']:g}, first step {row['step_size']:g}: "
            "particles stayed where they were, and the verdict is ok"
            for row in unreported(rows)
        ]
        + [
            f"{row['network']}, variance {row['variance']:g}, first step {row['step_size']:g}: "
            f"{row['reasons'][0]}"
            for row in rows
            if row["outcome"] == "exception"
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
