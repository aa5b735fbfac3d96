"""A language model that is small enough for tests: a stand-in, and a real one of `transformers`."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from sbmc.language import frozen_model, hidden_states

TEXT = "To be, or not to be, that is the question. Whether 'tis nobler in the mind to suffer. " * 12
WIDTH = 6

needs_transformers = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("transformers", "accelerate")),
    reason="transformers and accelerate are not installed",
)


class StandIn:
    """Tokens are characters; a hidden state is a mean of what came before it in the block."""

    def __init__(self, weights, stop_after=None):
        self.weights, self.calls, self._stop_after = weights, 0, stop_after
        self.tokenizer = self
        rng = torch.Generator().manual_seed(3)
        self.table = torch.randn(128, WIDTH, generator=rng)

    def tokens(self, text):
        return torch.tensor([ord(letter) for letter in text])

    def decode(self, tokens):
        return "".join(map(chr, tokens))

    def states(self, blocks):
        self.calls += 1
        if self._stop_after is not None and self.calls > self._stop_after:
            raise KeyboardInterrupt
        order = torch.arange(1, blocks.shape[1] + 1).view(1, -1, 1)
        return self.table[blocks].cumsum(1) / order

    def output_rows(self, tokens):
        return self.table[tokens]


def folder_of_weights(path: Path, content: bytes = b"some weights") -> Path:
    """A folder that looks like a model's, for `find_weights`."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "model.safetensors").write_bytes(content)
    (path / "config.json").write_text(json.dumps({"model_type": "stand-in"}))
    return path


def use_stand_in(monkeypatch, stop_after=None) -> list[StandIn]:
    """Let `text_states` load a stand-in; returns those that it has loaded."""
    loaded: list[StandIn] = []

    def load(weights: frozen_model.Weights) -> StandIn:
        loaded.append(StandIn(weights, stop_after))
        return loaded[-1]

    monkeypatch.setattr(hidden_states, "load_frozen", load)
    return loaded


def real_model(path: Path, **settings) -> Path:
    """Write a tiny Llama with a tokenizer of characters, as `save_pretrained` does."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = {chr(code): code for code in range(128)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="\x00"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(path)
    torch.manual_seed(5)
    config = LlamaConfig(
        **{
            "vocab_size": 128,
            "hidden_size": 8,
            "intermediate_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "tie_word_embeddings": True,
            **settings,
        }
    )
    LlamaForCausalLM(config).save_pretrained(path)
    return path
