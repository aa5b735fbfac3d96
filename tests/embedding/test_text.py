"""Texts to vectors: the code with a stand-in, and with a tiny model where the package is there."""

import json
import sys

import numpy as np
import pytest
import torch
from torch import nn

from sbmc.checks import BadInput
from sbmc.embedding import TextEncoder, embed, read_texts


class Sentences(nn.Module):
    """Has the face of a SentenceTransformer: means of letters, cut at `max_seq_length`."""

    def __init__(self, limit=16):
        super().__init__()
        torch.manual_seed(0)
        self.letters = nn.Embedding(256, 5)
        self.max_seq_length = limit

    def encode(self, texts, *, batch_size, convert_to_tensor, show_progress_bar):
        assert convert_to_tensor
        assert not show_progress_bar
        assert isinstance(texts, list)
        rows = [torch.tensor(list(text.encode())[: self.max_seq_length]) for text in texts]
        return torch.stack([self.letters(row).mean(0) for row in rows])


def test_texts_are_cut_and_embedded_in_order():
    encoder = TextEncoder(Sentences(), max_tokens=3, batch_size=2)
    found = encoder(["abcdef", "abcxyz", "xyz"])
    assert found.shape == (3, 5)
    assert found.dtype == np.float32
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    assert encoder.about["max_tokens"] == 3
    assert TextEncoder(Sentences()).about["max_tokens"] == 16


def test_half_precision_is_close_and_comes_back_as_float32():
    texts = ["one", "another", "a third"]
    exact, coarse = (TextEncoder(Sentences(), dtype=d)(texts) for d in ("float32", "bfloat16"))
    assert coarse.dtype == np.float32
    assert not np.array_equal(exact, coarse)
    assert np.allclose(exact, coarse, atol=0.02)


def test_the_file_names_the_weights(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "x", "label": 1}\n{"text": "y", "label": 0}\n')
    source = read_texts(tmp_path / "a.jsonl")
    first = embed(source, TextEncoder(Sentences()), tmp_path / "a.npz")
    other = Sentences()
    nn.init.zeros_(other.letters.weight)
    second = embed(source, TextEncoder(other), tmp_path / "b.npz")
    assert first.about["weights"] != second.about["weights"]
    assert first.about["model"] == "Sentences"
    assert first.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_tokens": 17}, "`max_tokens` must be at most the model's 16"),
        ({"max_tokens": 0}, "`max_tokens`"),
        ({"batch_size": 0}, "`batch_size`"),
        ({"dtype": "float8"}, "`dtype` must be one of float32, bfloat16, float16"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(BadInput) as refusal:
        TextEncoder(Sentences(), **options)
    assert words in str(refusal.value)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(BadInput, match="`model` must be the folder of a sentence-transformers"):
        TextEncoder(tmp_path)


def test_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ImportError, match=r"pip install 'sbmc\[text\]'"):
        TextEncoder("some-model")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A BERT of two layers with random weights, saved as sentence-transformers saves models."""
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    folder = tmp_path_factory.mktemp("tiny")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
    words += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    (folder / "vocab.txt").write_text("\n".join(words))
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=32,
    )  # fmt: skip
    inner = folder / "inner"
    transformers.BertModel(config).save_pretrained(inner)
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(inner)
    body = Transformer(str(inner))
    body.max_seq_length = 32
    model = SentenceTransformer(modules=[body, Pooling(16)], device="cpu")
    model.save(str(folder / "model"))
    return folder / "model"


@pytest.mark.filterwarnings("default")  # what the libraries warn of is theirs
def test_a_tiny_model_from_its_folder(tiny, tmp_path):
    texts = ["good film", "bad film " * 30, "so so", "fine", "no"] * 3
    lines = [json.dumps({"text": text, "label": i % 2}) for i, text in enumerate(texts)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    source = read_texts(tmp_path / "a.jsonl")
    encoder = TextEncoder(tiny, max_tokens=16, batch_size=2)
    whole = embed(source, encoder, tmp_path / "a.npz")
    assert whole.inputs.shape == (15, 16)
    assert whole.about["model"] == "model"
    # The order is that of the texts, whatever the library does to make batches.
    for index in (0, 1, 7, 14):
        alone = TextEncoder(tiny, max_tokens=16)([texts[index].strip()])
        assert np.allclose(whole.inputs[index], alone[0], atol=1e-5)
    # Cut at 16 tokens, texts that begin alike are alike.
    long = TextEncoder(tiny, max_tokens=4)(["good film one", "good film two"])
    assert np.allclose(long[0], long[1], atol=1e-6)


@pytest.mark.filterwarnings("default")
def test_a_name_that_is_not_on_this_machine(monkeypatch, tmp_path):
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(BadInput, match="nothing is downloaded: fetch it elsewhere"):
        TextEncoder("nobody/no-such-model")
