"""Next-token data: targets are shifted by one, blocks do not leak, rare targets are dropped."""

import gzip
import hashlib
import os
from collections import Counter
from pathlib import Path

import pytest
import torch
from tiny_language import TEXT, folder_of_weights, needs_transformers, real_model, use_stand_in

from sbmc.checks import BadInput
from sbmc.language import text_states
from sbmc_studies.data import DATASETS, DataNotFound, shakespeare
from sbmc_studies.data.shakespeare import frequent_tokens, next_token_data, read_text, split_blocks

BLOCK, CLASSES = 8, 12
SHARED = os.environ.get("SBMC_DATA", "")


@pytest.fixture
def source(tmp_path, monkeypatch):
    use_stand_in(monkeypatch)
    weights = folder_of_weights(tmp_path / "tiny")
    return text_states(TEXT, weights, cache=tmp_path / "cache", block=BLOCK)


@pytest.fixture
def data(source):
    return next_token_data(source, CLASSES)


def expected_pairs(source, blocks):
    """Hidden state and next token, position by position, in plain Python."""
    blocks_before_the_test = range(len(source.tokens) - len(source.tokens) // 10)
    times = Counter(
        int(token) for block in blocks_before_the_test for token in source.tokens[block, 1:]
    )
    ranked = sorted(times, key=lambda token: (-times[token], token))[:CLASSES]
    pairs = []
    for block in blocks:
        for position in range(BLOCK - 1):
            target = int(source.tokens[block, position + 1])
            if target in ranked:
                pairs.append((source.states[block, position].float(), ranked.index(target)))
    return torch.stack([state for state, _ in pairs]), [label for _, label in pairs]


def test_parts_follow_one_another_by_position(source, data):
    count = len(source.tokens)
    test = count - count // 10
    validation = test - test // 10
    borders = {"train": (0, validation), "validation": (validation, test), "test": (test, count)}
    for name, border in borders.items():
        states, labels = expected_pairs(source, range(*border))
        inputs, targets = getattr(data, name)
        assert torch.equal(inputs, states)
        assert targets.tolist() == labels


def test_rare_targets_are_dropped_from_all_parts(source, data):
    kept = len(data.train[1]) + len(data.validation[1]) + len(data.test[1])
    positions = len(source.tokens) * (BLOCK - 1)
    assert 0.5 * positions < kept < positions
    assert len(source.vocabulary) > CLASSES
    assert int(data.train_and_validation[1].max()) == CLASSES - 1


def test_no_target_comes_from_another_block(source):
    everything = next_token_data(source, 2)
    # With a border between blocks crossed, there would be one target more in each block.
    twos = (source.tokens[:, 1:].unsqueeze(-1) == frequent_tokens(source.tokens[:, 1:], 2)).any(-1)
    found = len(everything.train_and_validation[1]) + len(everything.test[1])
    assert found == int(twos.sum())


def test_the_frozen_layer_has_the_rows_of_the_classes(source, data):
    chosen = frequent_tokens(source.tokens[: len(source.tokens) - len(source.tokens) // 10, 1:], 3)
    rows = [source.vocabulary.tolist().index(int(token)) for token in chosen]
    assert torch.equal(data.frozen["output"][:3], source.output[rows])
    assert data.frozen["output"].shape == (CLASSES, source.states.shape[-1])


def test_the_record_names_weights_and_text(source, data):
    assert data.about == {
        "weights": "tiny",
        "weights_sha256": hashlib.sha256(b"some weights").hexdigest(),
        "text_sha256": hashlib.sha256(TEXT.encode()).hexdigest(),
        "block": BLOCK,
    }
    assert data.checksum == source.checksum


def test_training_and_validation_share_memory(data):
    inputs, labels = data.train_and_validation
    assert inputs.data_ptr() == data.train[0].data_ptr()
    assert torch.equal(labels, torch.cat([data.train[1], data.validation[1]]))


def test_test_data_do_not_choose_the_classes(source):
    last = len(source.tokens) - len(source.tokens) // 10
    changed = source.tokens.clone()
    changed[last:] = source.vocabulary[0]
    other = type(source)(**{**vars(source), "tokens": changed})
    assert torch.equal(
        next_token_data(other, CLASSES).frozen["output"],
        next_token_data(source, CLASSES).frozen["output"],
    )


def test_part_of_the_data(data):
    some = data.part(0.3, seed=1)
    assert len(some.train[1]) == round(0.3 * len(data.train[1]))
    assert len(some.validation[1]) == round(0.3 * len(data.validation[1]))
    assert some.test is data.test
    rows = {tuple(row) for row in data.train[0].tolist()}
    assert all(tuple(row) in rows for row in some.train[0].tolist())
    assert torch.equal(some.train[0], data.part(0.3, seed=1).train[0])
    assert not torch.equal(some.train[0], data.part(0.3, seed=2).train[0])
    assert len(some.train_and_validation[1]) == len(some.train[1]) + len(some.validation[1])
    assert data.part(1.0, seed=0) is data
    for fraction in (0.0, 1.5):
        with pytest.raises(BadInput, match="`fraction` must be in"):
            data.part(fraction, seed=0)


def test_too_few_tokens_or_blocks_are_refused(source):
    with pytest.raises(BadInput, match=r"`classes` must be at most the .* tokens that occur"):
        next_token_data(source, 1000)
    with pytest.raises(BadInput, match="`classes` must be a whole number"):
        next_token_data(source, 1)
    with pytest.raises(BadInput, match="`text` must be at least three blocks long"):
        split_blocks(2)


def test_texts(tmp_path):
    packed, plain, other = (tmp_path / name for name in ("a.txt.gz", "b.txt", "c.gz"))
    packed.write_bytes(gzip.compress(b"wherefore"))
    plain.write_text("wherefore")
    other.write_bytes(b"not packed")
    assert read_text(packed) == read_text(plain) == "wherefore"
    with pytest.raises(BadInput, match="must be tiny Shakespeare"):
        read_text(plain, shakespeare.SHA256)
    with pytest.raises(BadInput, match="must be a text, but reading failed"):
        read_text(other)


def test_without_the_text_the_message_says_what_it_is(tmp_path, monkeypatch):
    monkeypatch.delenv("SBMC_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "shakespeare" in DATASETS
    with pytest.raises(DataNotFound, match=r"tinyshakespeare\.txt\.gz.*char-rnn"):
        shakespeare.load()


@pytest.mark.skipif(
    not SHARED or not (Path(SHARED) / shakespeare.FILE).is_file(),
    reason="tinyshakespeare.txt.gz is not in the folder that $SBMC_DATA names",
)
def test_the_real_text():
    text = read_text(Path(SHARED) / shakespeare.FILE, shakespeare.SHA256)
    assert len(text) == 1_115_394
    assert text.startswith("First Citizen:\nBefore we proceed any further, hear me speak.")


@needs_transformers
def test_the_whole_path_with_a_real_model(tmp_path):
    source = text_states(
        TEXT, real_model(tmp_path / "llama"), cache=tmp_path / "cache", block=BLOCK
    )
    data = next_token_data(source, CLASSES)
    own = (data.test[0] @ data.frozen["output"].T).log_softmax(-1)
    assert own.shape == (len(data.test[1]), CLASSES)
    assert bool(torch.isfinite(own).all())
