"""A posterior as one file: safetensors with JSON metadata, no pickle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.checks import BadInput, Phrase, require, require_path
from sbmc.islands.cost import Cost
from sbmc.islands.island import IslandReport
from sbmc.likelihoods import Likelihood
from sbmc.likelihoods.choice import OF_FUNCTIONS, from_description
from sbmc.model.calling import require_weights
from sbmc.model.functional import converted
from sbmc.model.noise import NOISE, with_noise
from sbmc.model.parameters import ParameterSpace, named_tensors
from sbmc.model.wrappers import unwrapped
from sbmc.posterior.dtypes import as_dtype
from sbmc.posterior.living.reference import Reference, reference_to_save
from sbmc.posterior.origin import fingerprint
from sbmc.posterior.posterior import Posterior
from sbmc.posterior.recipe import GRAPH, Recipe
from sbmc.posterior.saved_contents import check_contents, check_weights
from sbmc.posterior.saved_priors import priors_from_state, priors_to_state
from sbmc.posterior.saved_probe import (
    compare,
    description_of,
    first_and_last,
    record_outputs,
)
from sbmc.prediction.kinds import EitherPrediction
from sbmc.storage.digests import contents_digest
from sbmc.storage.files import atomic_write, parse_json

FORMAT = "sbmc-posterior"
VERSION = 2


def save(posterior: Posterior, model: nn.Module, path: str | Path) -> None:
    """Write a posterior; see `Posterior.save`. The file is written completely or not at all."""
    from safetensors.torch import save_file

    final = require_path("path", path)
    require(final.parent.is_dir(), "path", "in an existing folder", str(path))
    require(not final.is_dir(), "path", "the name of a file, not of a folder", str(path))
    space = posterior.space
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "names": list(space.names),
        "shapes": [list(shape) for shape in space.shapes],
        "model": fingerprint(model, space),
        "likelihood": posterior.likelihood.describe(),
        "islands": [report.as_dict() for report in posterior.islands],
        "cost": posterior.cost.as_dict(),
        "weighting": posterior.weighting,
        "settings": posterior.settings,
        "probe": record_outputs(posterior, model),
    }
    tensors = {
        "positions": posterior.positions.contiguous(),
        "within": posterior.within.contiguous(),
        "log_evidence": posterior.log_evidence.contiguous(),
    }
    metadata["priors"], more = priors_to_state(posterior.priors, posterior.power, space)
    tensors |= more
    reference = reference_to_save(posterior)
    if reference is not None:
        metadata["reference"] = reference.to_dict()
    if posterior.recipe is not None:
        metadata["recipe"] = posterior.recipe.as_dict()
        if posterior.recipe.graph is not None:
            tensors[GRAPH] = posterior.recipe.graph
    if posterior.fitted_confidence is not None:
        metadata["confidence"], more = _confidence_storage().to_state(posterior.fitted_confidence)
        tensors |= more
    check_weights(posterior.positions, posterior.within, posterior.log_evidence, _need_to_save)
    text = json.dumps(metadata)
    texts = {"sbmc": text, "digest": contents_digest(text, tensors)}
    with atomic_write(final) as temporary:
        save_file(tensors, temporary, metadata=texts)


def _need_to_save(condition: bool, rule: str, value: object) -> None:
    require(condition, "posterior", f"one with {rule}", value)


def load(
    path: str | Path,
    model: nn.Module | None = None,
    *,
    likelihood: Callable[..., Any] | Likelihood | None = None,
) -> Posterior[EitherPrediction]:
    """Read a posterior that `Posterior.save` wrote.

    Args:
        path: the file.
        model: the network it was made with: the same architecture, frozen weights and buffers. The
            sampled weights may differ, since the file holds those. Never changed. It may be left
            out for a file that has its own network: one of `sbmc fit` for a table, or one of an
            exported graph.
        likelihood: the callable, if the posterior was made with one: code is not stored.

    Returns:
        The posterior; it predicts the same bits as the one that was saved.

    Raises:
        BadInput: there is no such file, it is damaged or of another kind; it has no network, and
            none is given; or the model has another structure, other frozen weights or buffers, or
            other outputs on a few made-up rows. A different `likelihood` is recognised likewise.
    """
    if model is not None:
        require(isinstance(model, nn.Module), "model", "a torch.nn.Module", model)
        model = unwrapped(model)
        require_weights(model)
    metadata, tensors = _read(require_path("path", path))
    recipe = _recipe(metadata, tensors)
    if model is None:
        model = recipe.build_network() if recipe is not None else None
        rule = "the network that the file was made with, since this file has none of its own"
        require(model is not None, "model", rule, Phrase("nothing"))
    assert model is not None
    space = ParameterSpace(
        tuple(metadata["names"]), tuple(torch.Size(shape) for shape in metadata["shapes"])
    )
    family = _likelihood(metadata["likelihood"], likelihood)
    _require_parameters(model, space)
    device = next(model.parameters()).device
    settings = metadata["settings"]
    dtype = tensors["positions"].dtype
    if "store_dtype" in settings:
        dtype = as_dtype(settings["dtype"])
    network = converted(model, dtype, device)
    if NOISE in space.names:
        columns = space.sizes[space.names.index(NOISE)]
        network = with_noise(network, torch.zeros(columns))
    require(
        fingerprint(network, space) == metadata["model"],
        "model",
        "the one that the file was made with",
        Phrase("another structure, other frozen weights or other buffers"),
    )
    positions = tensors["positions"].to(device)
    ends = first_and_last(positions, dtype)
    compare(metadata.get("probe"), network, space, family, ends)
    posterior = Posterior(
        network,
        space,
        family,
        positions,
        log_evidence=tensors["log_evidence"],
        islands=[IslandReport(**report) for report in metadata["islands"]],
        cost=Cost(**metadata["cost"]),
        settings=settings,
        within=tensors["within"],
        weighting=metadata["weighting"],
    )
    posterior._input_description = description_of(metadata.get("probe"))
    posterior.recipe = recipe
    if metadata.get("priors") is not None:
        known = metadata["priors"], tensors, space, len(positions), device
        posterior.priors, posterior.power = priors_from_state(*known)
    if metadata.get("reference") is not None:
        posterior._reference = _reference(path, metadata["reference"])
    if metadata.get("confidence") is not None:
        posterior.fitted_confidence = _confidence(path, metadata["confidence"], tensors, posterior)
    return posterior


def read_recipe(path: str | Path) -> Recipe | None:
    """How to make the network and the inputs of a posterior's file again.

    Args:
        path: the file.

    Returns:
        The recipe that `sbmc fit` stored; None for a file of `Posterior.save` alone.

    Raises:
        BadInput: there is no such file, or it is damaged or of another kind.
    """
    return _recipe(*_read(require_path("path", path)))


def _recipe(metadata: dict[str, Any], tensors: dict[str, Tensor]) -> Recipe | None:
    content = metadata.get("recipe")
    return None if content is None else Recipe.from_file(content, tensors)


def _confidence_storage() -> Any:
    from sbmc.confidence import storage

    return storage


def _reference(path: Any, content: Any) -> Reference:
    try:
        return Reference.from_dict(content)
    except BadInput as error:
        raise BadInput(
            f"`path` must be a posterior file with a complete reference, but got {str(path)!r} "
            f"({error}). Save the posterior again."
        ) from None


def _confidence(path: Any, state: Any, tensors: dict[str, Tensor], posterior: Posterior) -> Any:
    try:
        confidence = _confidence_storage().from_state(state, tensors)
        confidence.bind(posterior.predict, posterior.origin)
    # Any error means that the file is at fault.
    except Exception as error:
        raise BadInput(
            f"`path` must be a posterior file with a complete confidence, but got {str(path)!r} "
            f"({type(error).__name__}: {error}). Save the posterior again."
        ) from error
    return confidence


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    from safetensors import SafetensorError, safe_open

    require(path.is_file(), "path", "an existing file", str(path))
    try:
        with safe_open(path, framework="pt") as file:
            texts = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise BadInput(
            f"`path` must be an undamaged posterior file, but got {str(path)!r} ({error}). "
            "Give a file that `sbmc fit` or posterior.save(path) wrote."
        ) from None
    good = {"sbmc", "digest"} <= set(texts) and {"positions", "within", "log_evidence"} <= set(
        tensors
    )
    require(good, "path", "a file that Posterior.save wrote", str(path))
    intact = contents_digest(texts["sbmc"], tensors) == texts["digest"]
    damaged = Phrase(f"{str(path)!r}, whose contents have changed since it was written")
    require(intact, "path", "an undamaged posterior file", damaged)
    try:
        metadata = parse_json(texts["sbmc"])
    except ValueError as error:
        metadata = error
    rule = "a file that Posterior.save wrote"
    require(isinstance(metadata, dict), "path", rule, Phrase(f"{str(path)!r} with other metadata"))
    kind = metadata.get("format"), metadata.get("version")
    got = Phrase(f"{kind[0]} version {kind[1]}")
    require(kind == (FORMAT, VERSION), "path", f"of format {FORMAT} version {VERSION}", got)
    check_contents(metadata, tensors, str(path))
    return metadata, tensors


def _require_parameters(model: nn.Module, space: ParameterSpace) -> None:
    tensors = named_tensors(model)
    for name, shape in zip(space.names, space.shapes, strict=True):
        if name == NOISE:  # a parameter of the likelihood, which the network does not have
            continue
        has = tuple(tensors[name].shape) if name in tensors else Phrase("no such parameter")
        require(has == tuple(shape), "model", f"one whose {name} has shape {tuple(shape)}", has)


def _likelihood(description: dict[str, Any], given: Any) -> Likelihood:
    """The likelihood of a file; its function, if it has one, is given."""
    name = description["name"]
    if name not in OF_FUNCTIONS:
        require(given is None, "likelihood", f"left out: the file has its own, {name!r}", given)
        return from_description(description)
    kind = OF_FUNCTIONS[name]
    rule = "the callable that the posterior was made with"
    good = isinstance(given, kind) or (callable(given) and not isinstance(given, Likelihood))
    require(good, "likelihood", rule, given)
    return given if isinstance(given, kind) else from_description(description, given)
