"""Particles of LoRA as adapters of PEFT: a folder for each, and the weights of the mixture.

    <folder>/particle_000/adapter_config.json + adapter_model.safetensors
    <folder>/particle_001/...
    <folder>/weights.json        which particle is where, and its weight

Any program that loads adapters of PEFT loads one of them; the mean of their predictions, with
these weights, is the posterior's. What the layers compute and how their weights are called is
PEFT's business: names come from its own functions, and the configuration is the user's own.
"""

from __future__ import annotations

import copy
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, is_whole, require, require_count, require_path
from sbmc.language.lora import LoraHead
from sbmc.model.noise import NOISE
from sbmc.posterior.posterior import Posterior
from sbmc.storage.arrays import as_tensor
from sbmc.storage.files import write_json
from sbmc.storage.optional import load_peft

WEIGHTS, INDEX = "adapter_model.safetensors", "weights.json"
FORMAT, VERSION = "sbmc-adapters", 1
# Other ways to begin change the weights of the model below, which an adapter does not hold.
PLAIN_STARTS = (True, False, "gaussian", "orthogonal")


def save_adapters(
    posterior: Posterior,
    folder: str | os.PathLike[str],
    *,
    particles: Sequence[int] | None = None,
) -> Path:
    """Write particles over the LoRA parameters of a PEFT model as ordinary adapters of PEFT.

    `peft.PeftModel.from_pretrained(base, folder / "particle_000")` loads one of them, on the model
    that the adapter was made for. Rank, alpha and target modules are those of the user's own
    configuration; what PEFT stores besides LoRA's factors (a new output layer, say) is stored too,
    each particle's own if it was sampled.

    Args:
        posterior: of `sbmc.fit(peft_model, ...)`. Noise that was learned beside the network has no
            place in an adapter, and is left out.
        folder: a new or empty one.
        particles: which ones, by their places in `posterior.weights.flatten()`; None for all of
            positive weight.

    Returns:
        The folder. Its file `weights.json` names the adapters and their weights in the mixture,
        which sum to one if none is left out.

    Raises:
        BadInput: no parameter of LoRA was sampled, or one that no adapter holds; the folder is in
            use; or there is no such particle.
        ImportError: peft is not installed.
    """
    final = _new_folder(folder)
    chosen = _chosen(posterior, particles)
    prefix, model, adapter = _peft_model(posterior)
    base = model.get_base_model()
    config = copy.deepcopy(model.peft_config[adapter])
    config.inference_mode = True
    name = config.base_model_name_or_path or getattr(base, "name_or_path", None) or None
    config.base_model_name_or_path = name
    # Without a task, PEFT notes the class of the model.
    kind = type(base)
    automatic = {"base_model_class": kind.__name__, "parent_library": kind.__module__}
    options = {} if config.task_type else {"auto_mapping_dict": automatic}
    frozen = {key: value for key, value in model.state_dict().items() if torch.is_tensor(value)}
    with _written(final) as temporary:
        for place, theta in chosen.items():
            values = _values(posterior, theta)
            sampled = {key.removeprefix(prefix): value for key, value in values.items()}
            stored = load_peft().get_peft_model_state_dict(
                model,
                state_dict={**frozen, **sampled},
                adapter_name=adapter,
                save_embedding_layers=False,
            )
            _require_all_stored(sampled, stored)
            _write_adapter(temporary / folder_name(place), stored, config, options)
        _write_index(temporary, posterior, chosen, name)
    return final


def save_head_adapters(
    posterior: Posterior,
    folder: str | os.PathLike[str],
    *,
    vocabulary: int,
    tokens: Any = None,
    module: str = "lm_head",
    base_model: str | None = None,
    particles: Sequence[int] | None = None,
) -> Path:
    """Write particles of a `LoraHead` as adapters of PEFT for the output layer of the whole model.

    PEFT's layer computes W h + (alpha / r) B A h; with alpha = r that is `LoraHead`. Where the
    head has some of the vocabulary as classes, B gets a row of zeros for each other token: the
    logits of classes are the head's, and those of other tokens the model's own. So probabilities
    agree with the posterior's after the other tokens are left out. Hidden states that were stored
    in float16 differ from the model's by their rounding.

    Args:
        posterior: whose network is a `LoraHead`.
        folder: a new or empty one.
        vocabulary: rows of the model's output layer.
        tokens: the row of each class, `(classes,)`; None if all rows are classes, in their order.
        module: what the model calls its output layer.
        base_model: the name or folder of the model, for the configuration; None for none.
        particles: as for `save_adapters`.

    Returns:
        The folder, as `save_adapters` writes it.

    Raises:
        BadInput: another network, tokens that do not fit, or as for `save_adapters`.
        ImportError: peft is not installed.
    """
    final = _new_folder(folder)
    require_count("vocabulary", vocabulary)
    for argument, text in (("module", module), ("base_model", base_model)):
        good = isinstance(text, str) and bool(text.strip())
        require(good or (text is None and argument == "base_model"), argument, "a name", text)
    chosen = _chosen(posterior, particles)
    head = posterior.model
    rule = "one whose network is a LoraHead; save_adapters takes models of PEFT"
    require(isinstance(head, LoraHead), "posterior", rule, _network_of(posterior))
    assert isinstance(head, LoraHead)
    rows = _token_rows(tokens, head.base.weight.shape[0], vocabulary)
    rank = head.down.weight.shape[0]
    config = load_peft().LoraConfig(
        task_type="CAUSAL_LM",
        r=rank,
        lora_alpha=rank,
        target_modules=[module],
        base_model_name_or_path=base_model,
        inference_mode=True,
    )
    with _written(final) as temporary:
        for place, theta in chosen.items():
            values = _values(posterior, theta)
            down = values.get("down.weight", head.down.weight.detach())
            up = values.get("up.weight", head.up.weight.detach())
            whole = up.new_zeros(vocabulary, rank)
            whole[rows.to(up.device)] = up
            layer = f"base_model.model.{module}"
            stored = {f"{layer}.lora_A.weight": down, f"{layer}.lora_B.weight": whole}
            _write_adapter(temporary / folder_name(place), stored, config, {})
        _write_index(temporary, posterior, chosen, base_model)
    return final


def folder_name(place: int) -> str:
    """The name of a particle's folder.

    Examples:
        >>> folder_name(7)
        'particle_007'
    """
    return f"particle_{place:03d}"


def _chosen(posterior: Any, particles: Any) -> dict[int, Tensor]:
    """The vectors `(dim,)` of the chosen particles, by their places."""
    require(isinstance(posterior, Posterior), "posterior", "an sbmc.Posterior", posterior)
    weights = posterior.weights.flatten()
    theta = posterior.positions.flatten(0, 1)
    if particles is None:
        places = weights.nonzero()[:, 0].tolist()
    else:
        rule = f"different whole numbers from 0 to {len(weights) - 1}, at least one of them"
        listed = isinstance(particles, list | tuple | range) and len(particles) > 0
        good = listed and all(is_whole(each) and 0 <= each < len(weights) for each in particles)
        require(good and len(set(particles)) == len(particles), "particles", rule, particles)
        places = [int(each) for each in particles]
    return {place: theta[place] for place in places}


def _values(posterior: Posterior, theta: Tensor) -> dict[str, Tensor]:
    """The sampled tensors of a particle by name, without noise beside the network."""
    parts = posterior.space.split(theta.to(posterior.dtype))
    return {name: value for name, value in parts.items() if name != NOISE}


def _network_of(posterior: Posterior) -> Phrase:
    return Phrase(f"one over a {type(posterior.model).__name__}")


def _peft_model(posterior: Posterior) -> tuple[str, Any, str]:
    """The PEFT model in the posterior's network: its prefix, itself, and its active adapter."""
    found = [
        (f"{name}." if name else "", each)
        for name, each in posterior.model.named_modules()
        if isinstance(getattr(each, "peft_config", None), dict) and hasattr(each, "get_base_model")
    ]
    rule = "one over the LoRA parameters of a PEFT model (get_peft_model makes one)"
    if isinstance(posterior.model, LoraHead):
        rule += "; a LoraHead is for save_head_adapters"
    require(len(found) == 1, "posterior", rule, _network_of(posterior))
    (prefix, model) = found[0]
    adapter = model.active_adapter
    one = isinstance(adapter, str) and adapter in model.peft_config
    require(one, "posterior", "one whose PEFT model has one active adapter", Phrase(f"{adapter}"))
    config = model.peft_config[adapter]
    method = str(getattr(config.peft_type, "value", config.peft_type))
    lora = method == "LORA" and any("lora_" in name for name in posterior.space.names)
    require(lora, "posterior", rule, Phrase(f"one of PEFT's method {method} without LoRA's"))
    start = config.init_lora_weights
    rule = f"one whose init_lora_weights is one of {PLAIN_STARTS}: others change the model below"
    require(start in PLAIN_STARTS, "posterior", rule, start)
    return prefix, model, adapter


def _require_all_stored(sampled: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> None:
    held = {id(value) for value in stored.values()}
    missing = [name for name, value in sampled.items() if id(value) not in held]
    if missing:
        raise BadInput(
            "`posterior` must be one of parameters that an adapter of PEFT holds, but got "
            f"{missing[0]!r} among the sampled ones. Name it in modules_to_save of the LoraConfig, "
            "or leave it out of `parameters` of sbmc.fit."
        )


def _token_rows(tokens: Any, classes: int, vocabulary: int) -> Tensor:
    rule = f"the row of each of the {classes} classes: different whole numbers below {vocabulary}"
    if tokens is None:
        same = Phrase(f"nothing, for a vocabulary of {vocabulary}")
        require(classes == vocabulary, "tokens", rule, same)
        return torch.arange(vocabulary)
    rows = as_tensor(tokens, "tokens")
    whole = rows.ndim == 1 and len(rows) == classes and not rows.is_floating_point()
    whole = whole and rows.dtype != torch.bool and not rows.is_complex()
    shown = Phrase(f"{rows.dtype} {tuple(rows.shape)}")
    require(whole, "tokens", rule, shown)
    inside = bool(((rows >= 0) & (rows < vocabulary)).all()) and len(rows.unique()) == classes
    require(inside, "tokens", rule, Phrase("others, or some of them twice"))
    return rows.long()


def _new_folder(folder: Any) -> Path:
    final = require_path("folder", folder)
    free = not final.exists() or (final.is_dir() and not any(final.iterdir()))
    require(free, "folder", "a new folder, or an empty one", str(final))
    return final


@contextmanager
def _written(final: Path) -> Iterator[Path]:
    """A folder that gets its name when all is in it; nothing is left if an error comes before."""
    final.absolute().parent.mkdir(parents=True, exist_ok=True)
    temporary = final.absolute().with_name(f".{final.name}.{secrets.token_hex(4)}.part")
    temporary.mkdir()
    try:
        yield temporary
        if final.exists():
            final.rmdir()
        os.replace(temporary, final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_adapter(
    folder: Path, stored: Mapping[str, Tensor], config: Any, options: Mapping[str, Any]
) -> None:
    from safetensors.torch import save_file

    # A safetensors file holds no two names of one tensor, and no views.
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in stored.items()}
    folder.mkdir()
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    config.save_pretrained(str(folder), **options)


def _write_index(
    folder: Path, posterior: Posterior, chosen: Mapping[int, Tensor], base: str | None
) -> None:
    weights = posterior.weights.flatten().tolist()
    content = {
        "format": FORMAT,
        "version": VERSION,
        "base_model": base,
        "likelihood": posterior.likelihood.describe()["name"],
        "health": str(posterior.health),
        "adapters": [
            {"folder": folder_name(place), "particle": place, "weight": weights[place]}
            for place in chosen
        ],
    }
    write_json(folder / INDEX, content)
