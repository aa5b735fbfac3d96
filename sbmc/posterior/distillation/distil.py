"""`posterior.distil`: a posterior of many networks, learned by one."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from sbmc.checks import BadInput, Phrase, is_number, require, require_count
from sbmc.likelihoods import DenseCategorical, Gaussian, Rescaled
from sbmc.log import logger
from sbmc.model.calling import errors_in_words, require_weights
from sbmc.model.data import (
    Inputs,
    as_examples,
    as_inputs,
    check_inputs,
    count,
    join_inputs,
    leaves,
    rows,
    tree_map,
)
from sbmc.model.dataset_inputs import arity_of
from sbmc.posterior.distillation.distilled import Distilled, DistilledNetwork
from sbmc.posterior.distillation.fidelity import Fidelity, measure_fidelity, parts_of
from sbmc.posterior.distillation.heads import (
    ClassHeads,
    Heads,
    Parts,
    check_columns,
    number_heads,
)
from sbmc.posterior.distillation.perturbations import perturbed
from sbmc.posterior.distillation.student import (
    Architecture,
    build_student,
    input_size,
    take_size,
)
from sbmc.posterior.distillation.training import Lessons, Schedule, call, train_student
from sbmc.posterior.input_batches import held_inputs, weighted_particles
from sbmc.randomness import Stream, generator
from sbmc.target.probe import describe_rows

if TYPE_CHECKING:
    from sbmc.posterior.posterior import Posterior

# Perturbations of each row, at most; of all rows together; and numbers in all of them.
EACH, ALL, NUMBERS = 80, 100_000, 2**27
# Which random numbers are for what.
WEIGHTS, SPLIT, PERTURBATIONS, BATCHES, CHECK = range(5)


class Source(NamedTuple):
    """The rows from which a student learns."""

    inputs: Inputs
    targets: Tensor | None  # of the first rows; only to measure what was lost


def distil(
    posterior: Posterior,
    network: nn.Module | None = None,
    data: Any = None,
    *,
    inputs: Any = None,
    perturbations: int | None = None,
    held_out: float = 0.1,
    schedule: Schedule | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Distilled:
    """Train one network to answer as a posterior does; see `Posterior.distil`."""
    schedule = schedule or Schedule()
    _check_options(network, perturbations, held_out)
    _refuse_likelihood(posterior)
    source = _source(posterior, data)
    _check_rows(posterior, source.inputs)
    split = generator(seed, Stream.DISTILLATION, SPLIT)
    learned, held = _split(count(source.inputs), float(held_out), split)
    originals = _chosen(source.inputs, learned)
    if inputs is not None:
        originals = _joined(originals, _ready(posterior, inputs))
    pool = _with_perturbations(originals, network, perturbations, seed)
    teacher = parts_of(posterior.predict(pool, progress=progress))
    heads = _heads_for(teacher, count(originals))
    student, architecture = _student(network, heads, originals, posterior, seed)
    # Rows that are no table's are divided by their size for the training alone; see `take_size`.
    size = 1.0
    if architecture is not None and not architecture.is_table:
        size = input_size(leaves(originals)[0])
    lessons = Lessons(
        pool if size == 1 else tree_map(lambda tensor: tensor / size, pool),
        heads.lessons(teacher, posterior.dtype),
        count(originals),
    )
    batches = generator(seed, Stream.DISTILLATION, BATCHES)
    train_student(student, heads, lessons, schedule, batches, progress)
    take_size(student, size)
    settings = {
        "teacher": posterior.origin,
        "health": str(posterior.health),
        "particles": len(weighted_particles(posterior).weights),
        "rows": count(originals),
        "perturbations": count(pool) - count(originals),
        "steps": schedule.steps,
        "learning_rate": schedule.learning_rate,
        "seed": seed,
        "inputs": describe_rows(rows(source.inputs, 0, 2)),
    }
    distilled = Distilled(DistilledNetwork(student, heads).eval(), None, settings, architecture)
    distilled.fidelity = _measured(posterior, distilled, _held(source, held), seed)
    logger.info("distilled %d networks: %s", settings["particles"], distilled.fidelity)
    return distilled


def _check_options(network: Any, perturbations: Any, held_out: Any) -> None:
    good = network is None or isinstance(network, nn.Module)
    require(good, "network", "a torch.nn.Module, or None", network)
    require_count("perturbations", perturbations, 0, optional=True)
    good = is_number(held_out) and 0 < held_out < 1
    require(good, "held_out", "a share of the rows, between 0 and 1", held_out)


def _refuse_likelihood(posterior: Posterior) -> None:
    """Refuse what neither a Dirichlet nor a normal distribution describes."""
    likelihood = posterior.likelihood
    if likelihood.kind == "classes" and not isinstance(likelihood, DenseCategorical):
        return
    plain = likelihood.base if isinstance(likelihood, Rescaled) else likelihood
    rule = "one of classes with a label for each row, or of numbers with Gaussian noise"
    got = Phrase(f"one with the likelihood {plain.name!r}; `posterior.thin(k)` makes it smaller")
    require(isinstance(plain, Gaussian), "posterior", rule, got)


def _check_rows(posterior: Posterior, inputs: Inputs) -> None:
    """Refuse, in words, rows that the networks do not take, or of which each is several."""
    shape = tuple(posterior.predict(rows(inputs, 0, 2)).mean.shape)
    got = Phrase(f"rows with predictions of shape {shape[1:]}")
    require(len(shape) == 2, "data", "rows with one label each, or one list of numbers", got)


def _source(posterior: Posterior, data: Any) -> Source:
    """The rows that were given, or those that the posterior was fitted to."""
    several = (arity_of(posterior.input_description) or 1) > 1
    pair = isinstance(data, (tuple, list)) and len(data) == 2 and not several
    if data is None:
        data = posterior.training_data
        if data is None:
            raise BadInput(
                "`data` must be given for a posterior that does not know its training data, such "
                "as one from a file, but got None. Give the inputs that it was fitted to: "
                "posterior.distil(data=x)."
            )
    elif not pair and not isinstance(data, DataLoader):
        return Source(_ready(posterior, data), None)
    examples = as_examples(data)
    targets = examples.targets
    if posterior.likelihood.classification and targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets[:, 0]  # labels in a column, as a network with one logit takes them
    return Source(_ready(posterior, examples.inputs), targets)


def _ready(posterior: Posterior, inputs: Any) -> Inputs:
    """Inputs as tensors in the dtype and on the device of the posterior."""
    tensors = as_inputs(held_inputs(posterior, inputs))
    check_inputs(tensors, "data")
    like = posterior.positions

    def convert(tensor: Tensor) -> Tensor:
        dtype = posterior.dtype if tensor.is_floating_point() else tensor.dtype
        return tensor.to(like.device, dtype)

    return tree_map(convert, tensors)


def _split(total: int, share: float, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Numbers of the rows to learn from, and of those that are held out."""
    require(total >= 2, "data", "at least two rows", Phrase(f"{total}"))
    order = torch.randperm(total, generator=rng)
    most = min(total - 1, max(1, round(share * total)))
    return order[most:], order[:most]


def _chosen(inputs: Inputs, index: Tensor) -> Inputs:
    return tree_map(lambda tensor: tensor[index.to(tensor.device)], inputs)


def _held(source: Source, index: Tensor) -> Source:
    targets = None if source.targets is None else source.targets[index.to(source.targets.device)]
    return Source(_chosen(source.inputs, index), targets)


def _joined(first: Inputs, second: Inputs) -> Inputs:
    """Rows one after the other, in the structure of the first."""
    fits = [tuple(t.shape[1:]) for t in leaves(first)], [tuple(t.shape[1:]) for t in leaves(second)]
    require(fits[0] == fits[1], "inputs", f"rows of shape {fits[0]}, as the data are", fits[1])
    return join_inputs([first, second])


def _with_perturbations(
    originals: Inputs, network: nn.Module | None, perturbations: int | None, seed: int
) -> Inputs:
    """The rows, and then perturbations of them, as many as were asked for or as the rule says."""
    if not (isinstance(originals, Tensor) and originals.is_floating_point()):
        if network is None or perturbations:
            raise BadInput(
                "`network` must be given, and `perturbations` left out, where `data` are not one "
                f"tensor of numbers, but got {'no' if network is None else 'a'} network and "
                f"perturbations={perturbations}. Rows off the data can be given as `inputs`."
            )
        return originals
    total = perturbations
    if total is None:
        each = max(1, originals[:1].numel())
        total = min(EACH * len(originals), ALL, NUMBERS // each)
    rng = generator(seed, Stream.DISTILLATION, PERTURBATIONS)
    parts = [originals]
    while total > 0:
        parts.append(perturbed(originals, rng)[:total])
        total -= len(parts[-1])
    return torch.cat(parts)


def _heads_for(teacher: Parts, originals: int) -> Heads:
    if teacher.total.ndim == 1:
        return ClassHeads(teacher.mean.shape[-1])
    return number_heads(teacher.mean[:originals])


def _student(
    network: nn.Module | None, heads: Heads, inputs: Inputs, posterior: Posterior, seed: int
) -> tuple[nn.Module, Architecture | None]:
    """A copy of the network that was given, or one by the shape of the inputs."""
    device = posterior.positions.device
    if network is not None:
        require_weights(network, "network")
        copied = copy.deepcopy(network).to(device, posterior.dtype).eval()
        few = rows(inputs, 0, 2)
        with torch.no_grad(), errors_in_words(copied, few):
            check_columns(heads, call(copied, few))
        return copied, None
    assert isinstance(inputs, Tensor)  # or a network was asked for
    architecture = Architecture(tuple(inputs.shape[1:]), heads.columns)
    number = int(torch.randint(2**62, (), generator=generator(seed, Stream.DISTILLATION, WEIGHTS)))
    return build_student(architecture, posterior.dtype, number, inputs).to(device), architecture


def _measured(posterior: Posterior, distilled: Distilled, held: Source, seed: int) -> Fidelity:
    """What was lost on rows that were held out, and on perturbations of them."""
    both = posterior.predict(held.inputs), distilled.predict(held.inputs)
    off_data = None
    if isinstance(held.inputs, Tensor) and held.inputs.is_floating_point():
        moved = perturbed(held.inputs, generator(seed, Stream.DISTILLATION, CHECK))
        off_data = posterior.predict(moved), distilled.predict(moved)
    return measure_fidelity(*both, held.targets, off_data)
