"""Training the networks of the gauntlet as a user's script does: a loop, an optimiser, epochs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sbmc.datasets.bundle import DataBundle
from sbmc.training.history import TrainingHistory
from sbmc_studies.gauntlet.networks import adapt, build_pair_network
from sbmc_studies.gauntlet.pairs import Pair

# Of the network that the pair "mnist-lora" adapts.
_BASE_TRAINING = {"optimiser": "adamw", "learning_rate": 1e-3, "epochs": 8, "batch_size": 64}


@dataclass(frozen=True)
class Trained:
    """A trained network, in evaluation mode, and what it took."""

    model: nn.Module
    epochs: int
    seconds: float


def train_pair(pair: Pair, data: DataBundle, seed: int, member: int = 0) -> Trained:
    """Train the network of a pair on its training rows.

    Args:
        pair: which.
        data: its data.
        seed: of the run.
        member: of a deep ensemble; member 0 is the network that is handed to `fit`.

    Returns:
        The network. It has its `TrainingHistory` as `.history`, from which `fit` takes its budget.
    """
    began = time.perf_counter()
    with torch.random.fork_rng():
        torch.manual_seed(1_000 * seed + member)
        if pair.network["kind"] == "lora":
            model = _adapted(pair, data)
        else:
            shape = tuple(data.train[0].shape[1:])
            model = build_pair_network(pair.network, shape, data.classes)
        losses = _train(model, data.train, pair.training)
    seconds = time.perf_counter() - began
    model.history = TrainingHistory(  # type: ignore[assignment]
        member=member, train_loss=losses, best_epoch=len(losses), seconds=seconds
    )
    return Trained(model.eval(), len(losses), seconds)


def _adapted(pair: Pair, data: DataBundle) -> nn.Module:
    """A network trained on other images, inverted, with adjustments that are still zero."""
    sizes = {name: value for name, value in pair.network.items() if name != "rank"}
    base = build_pair_network(
        {**sizes, "kind": "transformer"}, tuple(data.train[0].shape[1:]), data.classes
    )
    others = data.frozen["other_inputs"], data.frozen["other_labels"]
    _train(base, (1 - others[0], others[1]), _BASE_TRAINING)
    return adapt(base, pair.network["rank"])  # type: ignore[arg-type]


def _train(
    model: nn.Module, rows: tuple[Tensor, Tensor], settings: Mapping[str, Any]
) -> list[float]:
    """Mean losses of the epochs."""
    inputs, labels = rows
    optimiser = _optimiser(model, settings)
    model.train()
    losses = []
    for _ in range(settings["epochs"]):
        total = 0.0
        for index in torch.randperm(len(labels)).split(settings["batch_size"]):
            optimiser.zero_grad()
            loss = F.cross_entropy(model(inputs[index]), labels[index])
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * len(index)
        losses.append(total / len(labels))
    return losses


def _optimiser(model: nn.Module, settings: Mapping[str, Any]) -> torch.optim.Optimizer:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    rate, decay = settings["learning_rate"], settings.get("weight_decay", 0.0)
    if settings["optimiser"] == "sgd":
        momentum = settings.get("momentum", 0.0)
        return torch.optim.SGD(trained, rate, momentum=momentum, weight_decay=decay)
    if settings["optimiser"] == "adam":
        return torch.optim.Adam(trained, rate, weight_decay=decay)
    return torch.optim.AdamW(trained, rate, weight_decay=decay)
