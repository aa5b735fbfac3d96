"""Writes and reads a folder of three files: the weights, `config.json` and the card, `README.md`.

Each file is written completely or not at all, and `config.json` last. It has the digest of the
weights, so that a folder whose writing was interrupted, or whose files belong to different
posteriors, is recognised when it is opened.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import nn

from sbmc.checks import BadInput, Phrase, describe_value, require, require_flag, require_path
from sbmc.posterior.distillation.distilled import Distilled
from sbmc.posterior.posterior import Posterior
from sbmc.posterior.recipe import EXPORTED, REFERENCE
from sbmc.posterior.saving import load, read_recipe
from sbmc.prediction.predictive import checked_level
from sbmc.report.pretrained.card import CardText, model_card
from sbmc.report.pretrained.facts import FILES, Facts, facts_of
from sbmc.report.pretrained.front_matter import require_plain
from sbmc.report.pretrained.hub import fetch
from sbmc.report.pretrained.measuring import Measured, measure_on
from sbmc.storage.files import atomic_write, parse_json, write_json
from sbmc.storage.provenance import software_versions

CONFIG, CARD = "config.json", "README.md"
LIBRARY, FORMAT = "sbmc", 1


def write_folder(
    subject: Posterior | Distilled,
    folder: str | Path,
    *,
    evaluate: Any = None,
    evaluated_on: str = "data of the author's choice",
    level: float = 0.9,
    name: str | None = None,
    description: str = "",
    license: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a folder; see `Shareable.save_pretrained`."""
    final = require_path("folder", folder)
    require(not final.is_file(), "folder", "a folder, not a file", str(folder))
    require_flag("overwrite", overwrite)
    level = checked_level(level)
    texts = {"evaluated_on": evaluated_on, "name": name, "description": description}
    for key, value in {**texts, "license": license}.items():
        optional = key in ("name", "license")
        rule = "a text, or None" if optional else "a text"
        require(isinstance(value, str) or (optional and value is None), key, rule, value)
        require_plain(key, value)
    require(name is None or bool(name.strip()), "name", "other than blank", name)
    good = metadata is None or isinstance(metadata, Mapping)
    require(good, "metadata", "a mapping of plain values by name", metadata)
    require_plain("metadata", metadata)
    if not overwrite:
        _require_ours(final, class_of(type(subject)))
    measured = None
    if evaluate is not None:
        measured = measure_on(subject, evaluate, evaluated_on, level)
    class_name = class_of(type(subject))
    facts = facts_of(subject)
    title = name or final.absolute().name or class_name
    text = CardText(title, description, license, metadata or {})
    card = model_card(class_name, facts, text, measured)
    final.mkdir(parents=True, exist_ok=True)
    subject.save(final / FILES[class_name])
    with atomic_write(final / CARD) as temporary:
        temporary.write_text(card, "utf-8", newline="\n")
    digest = _contents_digest(final / FILES[class_name])
    write_json(final / CONFIG, _config(class_name, facts, measured, digest, card))
    for file in set(FILES.values()) - {FILES[class_name]}:
        (final / file).unlink(missing_ok=True)  # of a model of the other class, overwritten
    return final


def read_folder(
    class_name: str,
    source: str | Path,
    *,
    model: nn.Module | None = None,
    likelihood: Any = None,
    revision: str | None = None,
    local_files_only: bool = False,
) -> Posterior | Distilled:
    """Read a folder; see `Shareable.from_pretrained`."""
    path = require_path("source", source)
    require_flag("local_files_only", local_files_only)
    good = revision is None or (isinstance(revision, str) and bool(revision.strip()))
    require(good, "revision", "the name of a branch, a tag or a commit, or None", revision)
    good = model is None or isinstance(model, nn.Module)
    require(good, "model", "a torch.nn.Module, or None", model)
    fetched = not path.is_dir()
    if fetched:
        require(not path.exists(), "source", "a folder, or an id of the Hub", str(source))
        path = fetch(str(source), (CONFIG, FILES[class_name]), revision, local_files_only)
    else:
        require(revision is None, "revision", "left out for a local folder", revision)
    config = _read_config(path, class_name)
    file = path / FILES[class_name]
    require(file.is_file(), "source", f"a folder with the file {file.name}", str(source))
    digest = _contents_digest(file)
    if digest != config.get("contents"):
        raise BadInput(
            f"`source` must be a folder whose files were written together, but got {str(source)!r},"
            f" where {CONFIG} describes another {file.name}. Save it again."
        )
    if class_name == "Distilled":
        require(likelihood is None, "likelihood", "left out for a distilled network", likelihood)
        return Distilled.load(file, model)
    if model is None:
        _require_no_code(file, fetched=fetched)
    return load(file, model, likelihood=likelihood)


def _require_no_code(file: Path, *, fetched: bool) -> None:
    """Refuse a network whose making would run code; the file decides, since a config may lie."""
    recipe = read_recipe(file)
    if recipe is not None and recipe.kind == REFERENCE:
        reference = describe_value(recipe.network.get("reference"))
        raise BadInput(
            f"`model` must be given, since the network of this posterior is code, {reference}, "
            "which is neither stored nor run, but got nothing. Import it yourself."
        )
    if recipe is not None and recipe.kind == EXPORTED and fetched:
        raise BadInput(
            "`model` must be given, since the network in this file is a graph of torch.export, "
            "and torch reads those by pickle, which can run any code, but got nothing. If you "
            "trust its author, fetch the repository with huggingface_hub and give the folder."
        )


def class_of(kind: type) -> str:
    """`"Posterior"` or `"Distilled"`, also of classes derived from them."""
    return "Posterior" if issubclass(kind, Posterior) else "Distilled"


def _config(
    class_name: str, facts: Facts, measured: Measured | None, digest: str, card: str
) -> dict[str, Any]:
    return {
        "library_name": LIBRARY,
        "format": FORMAT,
        "class": class_name,
        "file": FILES[class_name],
        "contents": digest,
        "card": _digest(card),
        "kind": facts.kind,
        "network": facts.network,
        "inputs": facts.inputs,
        "data": {"rows": facts.rows, **facts.recipe},
        **facts.settings,
        "metrics": None
        if measured is None
        else {"data": measured.name, "rows": measured.rows, **measured.values},
        "versions": software_versions(),
    }


def _require_ours(folder: Path, class_name: str) -> None:
    """Refuse to replace files that `write_folder` did not write, or that were edited since."""
    names = [name for name in (CONFIG, CARD, *FILES.values()) if (folder / name).exists()]
    if not names:
        return
    config = _parsed(folder / CONFIG)
    ours = config.get("library_name") == LIBRARY and config.get("class") == class_name
    if ours and CARD in names:
        ours = _digest(_text(folder / CARD)) == config.get("card")
        names = names if ours else [CARD]
    if not ours:
        raise BadInput(
            f"`folder` must be new, or as save_pretrained left it, but got {str(folder)!r}, where "
            f"{', '.join(names)} would be replaced. Choose another folder, or give overwrite=True."
        )


def _read_config(folder: Path, class_name: str) -> dict[str, Any]:
    config = _parsed(folder / CONFIG)
    rule = "a folder that save_pretrained of sbmc wrote"
    got = Phrase(f"{str(folder)!r}, whose {CONFIG} is missing or another library's")
    require(config.get("library_name") == LIBRARY, "source", rule, got)
    held = config.get("class")
    got = Phrase(f"one with a {held}; use sbmc.{held}.from_pretrained")
    require(held == class_name or held not in FILES, "source", f"a folder with a {class_name}", got)
    got = Phrase(f"class {held!r} in format {config.get('format')!r}")
    known = held == class_name and config.get("format") == FORMAT
    require(known, "source", f"a folder with a {class_name} in format {FORMAT}", got)
    return config


def _parsed(path: Path) -> dict[str, Any]:
    try:
        content = parse_json(_text(path))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _contents_digest(file: Path) -> str:
    """The digest that a file of weights has of its own contents; `load` compares the two."""
    try:
        with safe_open(file, framework="pt") as opened:
            texts = opened.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise BadInput(
            f"`source` must have an undamaged {file.name}, but got one that cannot be read "
            f"({json.dumps(str(error))[:200]}). Take another copy."
        ) from None
    return str(texts.get("digest"))
