"""Hidden states are computed once, and gone on with after a kill, with the same bits."""

import signal
from pathlib import Path

import forked
import pytest
import torch
from repository import ROOT
from tiny_language import TEXT, WIDTH, folder_of_weights, needs_transformers, real_model
from tiny_language import use_stand_in as stand_in

from sbmc.checks import BadInput
from sbmc.language import hidden_states, text_states

BLOCK = 8
BLOCKS = len(TEXT) // BLOCK


@pytest.fixture(autouse=True)
def small_files(monkeypatch):
    monkeypatch.setattr(hidden_states, "IN_FILE", 10)


@pytest.fixture
def weights(tmp_path):
    return folder_of_weights(tmp_path / "weights")


def compute(weights, cache, **options):
    return text_states(TEXT, weights, cache=cache, block=BLOCK, progress=False, **options)


def files(cache):
    (folder,) = Path(cache).iterdir()
    return sorted(path.name for path in folder.iterdir())


def test_what_comes_out(weights, tmp_path, monkeypatch):
    stand_in(monkeypatch)
    out = compute(weights, tmp_path / "cache")
    assert out.states.shape == (BLOCKS, BLOCK, WIDTH)
    assert out.states.dtype == torch.float16
    assert out.tokens.flatten().tolist() == [ord(x) for x in TEXT[: BLOCKS * BLOCK]]
    assert [ord(word) for word in out.words] == out.vocabulary.tolist()
    assert out.vocabulary.tolist() == sorted({ord(letter) for letter in TEXT})
    assert out.output.shape == (len(out.vocabulary), WIDTH)


def test_states_are_those_of_each_block_alone(weights, tmp_path, monkeypatch):
    loaded = stand_in(monkeypatch)
    out = compute(weights, tmp_path / "cache")
    (model,) = loaded
    alone = torch.cat([model.states(block.unsqueeze(0)) for block in out.tokens])
    assert torch.equal(out.states, alone.half())


def test_computed_once(weights, tmp_path, monkeypatch):
    loaded = stand_in(monkeypatch)
    first = compute(weights, tmp_path / "cache")
    again = compute(weights, tmp_path / "cache")
    assert len(loaded) == 1
    assert torch.equal(first.states, again.states)
    assert (first.words, first.checksum) == (again.words, again.checksum)
    assert len(files(tmp_path / "cache")) == 1 + -(-BLOCKS // 10)


def test_interrupted_runs_go_on_with_the_same_bits(weights, tmp_path, monkeypatch):
    stand_in(monkeypatch)
    expected = compute(weights, tmp_path / "undisturbed").states
    calls = -(-BLOCKS // hidden_states.TOGETHER)
    stand_in(monkeypatch, stop_after=23)
    with pytest.raises(KeyboardInterrupt):
        compute(weights, tmp_path / "cache")
    kept = files(tmp_path / "cache")
    assert kept == [*(f"states-{i:05d}.safetensors" for i in range(4)), "text.safetensors"]
    loaded = stand_in(monkeypatch)
    found = compute(weights, tmp_path / "cache")
    assert torch.equal(found.states, expected)
    assert loaded[0].calls == calls - 4 * 10 // hidden_states.TOGETHER


CHILD = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from tiny_language import TEXT, StandIn
from sbmc.language import hidden_states

class Deadly(StandIn):
    def states(self, blocks):
        if self.calls == 13:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().states(blocks)

hidden_states.IN_FILE = 10
hidden_states.load_frozen = Deadly
hidden_states.text_states(TEXT, sys.argv[2], cache=sys.argv[3], block=8, progress=False)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_killed_runs_go_on_with_the_same_bits(weights, tmp_path, monkeypatch):
    tests = str(ROOT / "tests")
    cache = str(tmp_path / "cache")
    child = forked.run(["-c", CHILD, tests, weights, cache])
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert [name for name in files(cache) if name.startswith("states")] == [
        "states-00000.safetensors",
        "states-00001.safetensors",
    ]
    stand_in(monkeypatch)
    expected = compute(weights, tmp_path / "undisturbed").states
    assert torch.equal(compute(weights, cache).states, expected)


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_file_is_made_again(weights, tmp_path, monkeypatch, damage, caplog):
    stand_in(monkeypatch)
    expected = compute(weights, tmp_path / "cache").states
    (folder,) = (tmp_path / "cache").iterdir()
    path = folder / "states-00002.safetensors"
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[-40:]
    else:
        data[-1] ^= 1
    path.write_bytes(data)
    loaded = stand_in(monkeypatch)
    assert torch.equal(compute(weights, tmp_path / "cache").states, expected)
    assert loaded[0].calls == 10 / hidden_states.TOGETHER
    assert "is damaged" in caplog.text


def test_other_weights_settings_texts_and_blocks_have_folders_of_their_own(
    weights, tmp_path, monkeypatch
):
    stand_in(monkeypatch)
    cache = tmp_path / "cache"
    found = [compute(weights, cache).checksum]
    (weights / "config.json").write_text("{}")
    found.append(compute(weights, cache).checksum)
    folder_of_weights(weights, b"other weights")
    found.append(compute(weights, cache).checksum)
    found.append(text_states(TEXT + "!", weights, cache=cache, block=BLOCK).checksum)
    found.append(text_states(TEXT, weights, cache=cache, block=BLOCK + 1).checksum)
    assert len(set(found)) == 5
    assert sorted(path.name for path in cache.iterdir()) == sorted(x[:12] for x in found)


def test_progress_says_what_was_done_before(weights, tmp_path, monkeypatch, capsys):
    stand_in(monkeypatch, stop_after=23)
    with pytest.raises(KeyboardInterrupt):
        compute(weights, tmp_path / "cache")
    stand_in(monkeypatch)
    text_states(TEXT, weights, cache=tmp_path / "cache", block=BLOCK, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"hidden states: {BLOCKS} blocks to do, 40 of them done before"
    assert lines[-1].startswith(f"hidden states: {BLOCKS}/{BLOCKS} blocks, ended after")


def test_states_beyond_float16_are_refused(weights, tmp_path, monkeypatch):
    loaded = stand_in(monkeypatch)
    make = hidden_states.load_frozen

    def huge(found):
        model = make(found)
        model.table = model.table * 1e6
        return model

    monkeypatch.setattr(hidden_states, "load_frozen", huge)
    with pytest.raises(BadInput, match="finite in float16"):
        compute(weights, tmp_path / "cache")
    assert len(loaded) == 1


@pytest.mark.parametrize("block", [1, 0, 2.5, True])
def test_blocks_that_make_no_sense_are_refused(weights, tmp_path, block):
    with pytest.raises(BadInput, match="`block` must be an integer of at least 2, but got"):
        text_states(TEXT, weights, cache=tmp_path, block=block)


def test_texts_that_fill_no_block_are_refused(weights, tmp_path, monkeypatch):
    stand_in(monkeypatch)
    with pytest.raises(BadInput, match="`text` must be at least 8 tokens long, but got 3 tokens"):
        text_states("abc", weights, cache=tmp_path / "cache", block=BLOCK)
    with pytest.raises(BadInput, match="`text` must be a non-empty string"):
        text_states("", weights, cache=tmp_path / "cache")


@needs_transformers
def test_a_real_model_interrupted(tmp_path, monkeypatch):
    folder = real_model(tmp_path / "llama")
    expected = compute(folder, tmp_path / "undisturbed")
    assert expected.states.shape == (BLOCKS, BLOCK, 8)
    assert "".join(expected.words) == "".join(sorted(set(TEXT)))
    made = hidden_states._StateFiles._compute

    def stopping(work, tokens):
        if len(files(tmp_path / "cache")) > 5:
            raise KeyboardInterrupt
        return made(work, tokens)

    with monkeypatch.context() as patch:
        patch.setattr(hidden_states._StateFiles, "_compute", stopping)
        with pytest.raises(KeyboardInterrupt):
            compute(folder, tmp_path / "cache")
    assert torch.equal(compute(folder, tmp_path / "cache").states, expected.states)
