"""Training the networks of the gauntlet, alone and as ensembles, by the library's own trainer.

Members of an ensemble are trained in one batch, by the same compiled code that samples: seconds of
an ensemble and of a posterior are those of one engine. Where training mode is another function
(BatchNorm, dropout), members are trained one after another by autograd, as their posterior is
sampled without the compiled code too. A record says which engine it was.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

import sbmc
from sbmc.datasets.bundle import DataBundle
from sbmc.training import SGD, Adam
from sbmc.training.optimiser import Optimiser
from sbmc_studies.gauntlet.networks import adapt, build_pair_network
from sbmc_studies.gauntlet.pairs import Pair

# Members are trained in these batches, whatever is asked for, so that the network that is handed
# over and the first five of an ensemble of ten are the same in every run.
BATCHES = (range(1), range(1, 5), range(5, 10))
# A prior as wide as this one has no effect in float32: training without weight decay.
FLAT = 1e30
# Of the network that the pair "mnist-lora" adapts.
_BASE_TRAINING = {"optimiser": "adamw", "learning_rate": 1e-3, "epochs": 8, "batch_size": 64}
# A base is trained with a seed apart from those of the members.
_BASE_SEED = 500


@dataclass(frozen=True)
class Trained:
    """A trained network, in evaluation mode, what it took, and the engine that trained it."""

    model: nn.Module
    epochs: int
    seconds: float
    engine: str


def train_batch(pair: Pair, data: DataBundle, seed: int, members: range) -> list[Trained]:
    """Train members of a pair's ensemble on its training rows.

    Args:
        pair: which.
        data: its data.
        seed: of the run.
        members: their numbers, one of `BATCHES`; member 0 is the network that is handed to `fit`.

    Returns:
        The networks, each with its share of the seconds. A network has its `TrainingHistory` as
        `.history`, from which `fit` takes its budget.
    """
    if pair.network["kind"] == "lora" and len(members) > 1:
        # Each member adapts a base of its own, so there is no batch.
        return [train_batch(pair, data, seed, range(i, i + 1))[0] for i in members]
    began = time.perf_counter()
    networks = [fresh_network(pair, data, seed, member) for member in members]
    ensemble = _train(
        networks, data.train, pair.training, 1_000 * seed + members[0], _trained_parameters(pair)
    )
    seconds = (time.perf_counter() - began) / len(members)
    trained = []
    for member, model, history in zip(members, ensemble, ensemble.histories, strict=True):
        model.history = replace(history, member=member)  # type: ignore[assignment]
        trained.append(Trained(model, history.epochs, seconds, ensemble.engine))
    return trained


def fresh_network(pair: Pair, data: DataBundle, seed: int, member: int = 0) -> nn.Module:
    """A member's network before its training; for adapters, with their base trained."""
    shape = tuple(data.train[0].shape[1:])
    with torch.random.fork_rng():
        torch.manual_seed(1_000 * seed + member)
        if pair.network["kind"] != "lora":
            return build_pair_network(pair.network, shape, data.classes)
        sizes = {name: value for name, value in pair.network.items() if name != "rank"}
        base = build_pair_network({**sizes, "kind": "transformer"}, shape, data.classes)
        images, labels = data.frozen["other_inputs"], data.frozen["other_labels"]
        (base,) = _train(
            [base], (1 - images, labels), _BASE_TRAINING, 1_000 * seed + _BASE_SEED + member
        )
        return adapt(base, pair.network["rank"])  # type: ignore[arg-type]


def _trained_parameters(pair: Pair) -> str:
    return "lora" if pair.network["kind"] == "lora" else "all"


def _train(
    networks: list[nn.Module],
    rows: tuple[Tensor, Tensor],
    settings: Mapping[str, Any],
    seed: int,
    parameters: str = "all",
) -> sbmc.Ensemble:
    optimiser, variance = optimiser_of(settings, len(rows[1]))
    return sbmc.train_ensemble(
        networks[0],
        rows,
        members=len(networks),
        prior_variance=variance,
        parameters=parameters,
        seed=seed,
        optimiser=optimiser,
        batch_size=settings["batch_size"],
        max_epochs=settings["epochs"],
        initial=networks,
        progress=False,
    )


def optimiser_of(settings: Mapping[str, Any], examples: int) -> tuple[Optimiser, float]:
    """The optimiser, and the prior variance that a weight decay in the gradient stands for."""
    rate, decay = settings["learning_rate"], settings.get("weight_decay", 0.0)
    if settings["optimiser"] == "adamw":
        return Adam(rate, weight_decay=decay), FLAT
    variance = 1 / (decay * examples) if decay else FLAT
    if settings["optimiser"] == "sgd":
        return SGD(rate, momentum=settings.get("momentum", 0.0)), variance
    return Adam(rate), variance
