"""Embedding in shards: order kept, a killed run goes on with the same bits, files checked."""

import json

import numpy as np
import pytest
import torch
from embedding.stand_ins import Letters

from sbmc.checks import BadInput
from sbmc.embedding import Embedded, Source, embed, load_embedded

WORDS = tuple(f"word {number}" for number in range(21))
LABELS = tuple(number % 3 for number in range(21))


def source(words=WORDS, labels=LABELS):
    return Source(words, tuple(f"{w}.txt" for w in words), labels, ("a", "b", "c"), words)


def test_the_file_has_everything_in_order(tmp_path):
    out = tmp_path / "out" / "words.npz"
    made = embed(source(), Letters(), out, progress=False)
    found = load_embedded(out)
    expected = Letters()(WORDS)
    assert np.array_equal(found.inputs.numpy(), expected)
    assert found.inputs.dtype == torch.float32
    assert found.labels.tolist() == list(LABELS)
    assert found.class_names == ("a", "b", "c")
    assert found.names[20] == "word 20.txt"
    assert found.about["model"] == "letters"
    assert found.about["checksum"] == found.checksum == made.checksum
    assert [path.name for path in out.parent.iterdir()] == ["words.npz"]
    with np.load(out, allow_pickle=False) as file:
        assert set(file.files) == {"inputs", "labels", "class_names", "names", "about"}


def test_a_killed_run_goes_on_with_the_same_bits(tmp_path):
    whole = embed(source(), Letters(), tmp_path / "whole.npz", progress=False)
    out = tmp_path / "cut.npz"
    with pytest.raises(KeyboardInterrupt):
        embed(source(), Letters(fail_at=3), out, progress=False)
    assert not out.exists()
    parts = tmp_path / "cut.npz.parts"
    shards = sorted(path.name for path in parts.glob("*.npy"))
    assert shards == ["shard-000000000.npy", "shard-000000008.npy"]
    (parts / shards[1]).write_bytes((parts / shards[1]).read_bytes()[:-7])  # cut short
    encoder = Letters()
    embed(source(), encoder, out, progress=False)
    assert encoder.calls == 2  # the damaged shard and the one that was missing
    assert not parts.exists()
    assert out.read_bytes() == (tmp_path / "whole.npz").read_bytes()
    assert load_embedded(out).checksum == whole.checksum


def test_what_is_there_is_not_embedded_again_nor_overwritten(tmp_path):
    out = tmp_path / "out.npz"
    embed(source(), Letters(), out, progress=False)
    again = Letters()
    embed(source(), again, out, progress=False)
    assert again.calls == 0
    for other, encoder in [
        (source(WORDS[:5], LABELS[:5]), Letters()),
        (source(labels=LABELS[::-1]), Letters()),
        (source(), Letters(seed=1)),
    ]:
        with pytest.raises(BadInput, match="`out` must be a new file, or --force"):
            embed(other, encoder, out, progress=False)
    found = embed(source(), Letters(seed=1), out, force=True, progress=False)
    assert found.about["seed"] == 1


def test_shards_of_another_model_are_not_taken(tmp_path):
    out = tmp_path / "out.npz"
    with pytest.raises(KeyboardInterrupt):
        embed(source(), Letters(fail_at=2), out, progress=False)
    with pytest.raises(BadInput, match="shards of other items or another model"):
        embed(source(), Letters(seed=1), out, progress=False)
    found = embed(source(), Letters(seed=1), out, force=True, progress=False)
    assert np.array_equal(found.inputs.numpy(), Letters(seed=1)(WORDS))


def test_progress_counts_what_was_done_before(tmp_path, capsys):
    out = tmp_path / "out.npz"
    with pytest.raises(KeyboardInterrupt):
        embed(source(), Letters(fail_at=2), out, progress=False)
    embed(source(), Letters(), out, progress=True)
    assert "embedding: 21 items to do, 8 of them done before" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (np.zeros((3, 4)), r"`encoder` must give \(8, features\)"),
        (np.zeros(8), "but got the shape"),
        (np.full((8, 2), np.nan), "`encoder` must be one of finite values"),
    ],
)
def test_encoders_that_are_refused(tmp_path, answer, words):
    encoder = Letters()
    encoder.__class__ = type("Wrong", (Letters,), {"__call__": lambda self, items: answer})
    with pytest.raises(BadInput, match=words):
        embed(source(), encoder, tmp_path / "out.npz", progress=False)


def test_files_of_ones_own_will_do(tmp_path):
    path = tmp_path / "own.npz"
    np.savez(path, inputs=np.eye(3), labels=np.array([0, 2, 1], dtype=np.uint8))
    found = load_embedded(path)
    assert found.class_names == ("0", "1", "2")
    assert found.inputs.dtype == torch.float32
    np.savez(path, inputs=np.eye(3))
    assert load_embedded(path).labels is None


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.eye(2)}, "one with an array `inputs`"),
        ({"inputs": np.zeros(3)}, "inputs (examples, features)"),
        ({"inputs": np.array([[np.inf]])}, "finite inputs"),
        ({"inputs": np.eye(2), "labels": np.array([0.5, 1.0])}, "2 whole-numbered labels"),
        ({"inputs": np.eye(2), "labels": np.array([0])}, "2 whole-numbered labels"),
        ({"inputs": np.eye(2), "labels": np.array([0, -1])}, "labels from 0"),
        (
            {"inputs": np.eye(2), "labels": np.array([0, 2]), "class_names": np.array(["a", "b"])},
            "labels below its 2 classes",
        ),
    ],
)
def test_files_that_are_refused(tmp_path, arrays, words):
    path = tmp_path / "own.npz"
    np.savez(path, **arrays)
    with pytest.raises(BadInput) as refusal:
        load_embedded(path)
    assert words in str(refusal.value)


def test_damage_shows(tmp_path):
    path = tmp_path / "out.npz"
    embed(source(), Letters(), path, progress=False)
    with np.load(path) as file:
        arrays = dict(file)
    arrays["inputs"] = arrays["inputs"] + 1
    np.savez(path, **arrays)
    with pytest.raises(BadInput, match="its checksum does not fit"):
        load_embedded(path)
    path.write_bytes(b"not a zip file")
    with pytest.raises(BadInput, match=r"must be a readable \.npz file"):
        load_embedded(path)
    with pytest.raises(BadInput, match=r"an \.npz file that exists"):
        load_embedded(tmp_path / "nothing.npz")
    with pytest.raises(BadInput, match=r"`path` must be a file name that ends in \.npz"):
        Embedded(torch.eye(2)).save(tmp_path / "out.txt")


def test_hostile_names_stay_text(tmp_path):
    names = ("../../etc/passwd", "<script>alert(1)</script>", "a\nb", "ü")
    made = Embedded(torch.eye(4), torch.tensor([0, 1, 0, 1]), names[:2], names, {"model": names[1]})
    found = load_embedded(made.save(tmp_path / "out.npz"))
    assert found.names == names
    assert found.class_names == names[:2]
    assert json.loads(json.dumps(found.about))["model"] == names[1]
