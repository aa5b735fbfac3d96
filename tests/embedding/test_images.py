"""Pictures to features by small modules; torchvision's networks where it is installed."""

import numpy as np
import pytest
import torch
from torch import nn

from sbmc.checks import BadInput
from sbmc.embedding import ImageEncoder, embed, read_pictures
from sbmc.embedding.image_encoder import DEVIATION, MEAN, without_head

image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "pictures"
    for number in range(7):
        kind = "cat" if number % 2 else "dog"
        (folder / kind).mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (9 + number, 12, 3), dtype=np.uint8)
        image.fromarray(pixels).save(folder / kind / f"{number}.png")
    return folder


def small():
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1))


def test_features_are_those_of_the_standardised_picture(pictures):
    found = read_pictures(pictures)
    encoder = ImageEncoder(small(), size=8, batch_size=3)
    features = encoder(found.items)
    assert features.shape == (7, 4)
    assert features.dtype == np.float32
    with image.open(found.items[2]) as opened:
        width, height = opened.size
        assert height > width - 3
        short = min(width, height)
        wide, high = max(8, round(width * 8 / short)), max(8, round(height * 8 / short))
        resized = opened.convert("RGB").resize((wide, high), image.Resampling.BILINEAR)
    left, top = (wide - 8) // 2, (high - 8) // 2
    pixels = np.asarray(resized)[top : top + 8, left : left + 8] / 255.0
    standard = (pixels - np.array(MEAN)) / np.array(DEVIATION)
    batch = torch.tensor(standard.transpose(2, 0, 1)[None], dtype=torch.float32)
    with torch.no_grad():
        expected = small()(batch).flatten()
    assert features[2] == pytest.approx(expected.numpy(), abs=1e-5)


def test_grey_and_transparent_pictures(tmp_path):
    for name, mode in (("a.png", "L"), ("b.png", "RGBA"), ("c.gif", "P")):
        image.new(mode, (5, 6)).save(tmp_path / name)
    assert ImageEncoder(small(), size=6)(read_pictures(tmp_path).items).shape == (3, 4)


def test_a_killed_run_goes_on_with_the_same_bits(pictures, tmp_path, monkeypatch):
    from sbmc.embedding import shards

    monkeypatch.setattr(shards, "SHARD_BATCHES", 1)
    source, out = read_pictures(pictures), tmp_path / "cut.npz"
    whole = embed(source, ImageEncoder(small(), size=8, batch_size=2), tmp_path / "whole.npz")
    cut = ImageEncoder(small(), size=8, batch_size=2)
    calls = []

    class Killed:
        about, batch_size = cut.about, cut.batch_size

        def __call__(self, items):
            calls.append(len(items))
            if len(calls) == 3:
                raise KeyboardInterrupt
            return cut(items)

    with pytest.raises(KeyboardInterrupt):
        embed(source, Killed(), out)
    again = embed(source, cut, out)
    assert torch.equal(again.inputs, whole.inputs)
    assert out.read_bytes() == (tmp_path / "whole.npz").read_bytes()
    assert again.class_names == ("cat", "dog")


def test_an_exported_module(pictures, tmp_path):
    batch = torch.export.Dim("batch", min=1, max=64)
    exported = torch.export.export(
        small().eval(), (torch.zeros(2, 3, 8, 8),), dynamic_shapes=({0: batch},)
    )
    path = tmp_path / "features.pt2"
    torch.export.save(exported, path)
    items = read_pictures(pictures).items
    encoder = ImageEncoder(path, size=8, batch_size=4)
    assert np.allclose(encoder(items), ImageEncoder(small(), size=8)(items), atol=1e-6)
    assert encoder.about["model"] == "features.pt2"
    with pytest.raises(BadInput, match="`weights` must be left out for an exported module"):
        ImageEncoder(path, tmp_path / "weights.pt", size=8)


def test_the_users_module_stays_as_it_is(pictures):
    module = small().double().train()
    items = read_pictures(pictures).items
    features = ImageEncoder(module, size=8, dtype="bfloat16")(items)
    assert {each.dtype for each in module.parameters()} == {torch.float64}
    assert module.training
    # And what it learns afterwards changes no features.
    encoder = ImageEncoder(module, size=8, dtype="bfloat16")
    nn.init.zeros_(module[0].weight)
    np.testing.assert_array_equal(encoder(items), features)


def test_half_precision_is_close(pictures):
    items = read_pictures(pictures).items
    exact = ImageEncoder(small(), size=8)(items)
    coarse = ImageEncoder(small(), size=8, dtype="bfloat16")(items)
    assert coarse.dtype == np.float32
    assert not np.array_equal(exact, coarse)
    assert np.allclose(exact, coarse, atol=0.03)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "resnet50"}, "`weights` must be a file of weights (nothing is downloaded"),
        ({"model": "resnet50", "weights": "nothing.pt"}, "`weights` must be a file of weights"),
        ({"model": "nothing.pt2"}, "`model` must be a file .pt2 that exists"),
        ({"size": 0}, "`size` must be a positive whole number"),
        ({"batch_size": 0}, "`batch_size`"),
        ({"dtype": "int8"}, "`dtype` must be one of float32"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(BadInput) as refusal:
        ImageEncoder(**{"model": small(), **options})
    assert words in str(refusal.value)


def test_files_that_are_no_pictures(tmp_path):
    (tmp_path / "a.png").write_bytes(b"not a picture")
    with pytest.raises(BadInput, match=r"`source` must be pictures, but got a\.png"):
        ImageEncoder(small(), size=8)(read_pictures(tmp_path).items)


def test_models_that_give_no_features(pictures):
    items = read_pictures(pictures).items
    with pytest.raises(BadInput, match="`model` must be one that gives"):
        ImageEncoder(nn.Flatten(0), size=8)(items)
    with pytest.raises(BadInput, match="whose last layer is linear"):
        without_head(nn.Sequential(nn.ReLU()))


def test_a_network_of_torchvision(pictures, tmp_path):
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
    torch.manual_seed(0)
    network = models.get_model("resnet18", weights=None)
    path = tmp_path / "weights.pt"
    torch.save(network.state_dict(), path)
    items = read_pictures(pictures).items[:2]
    features = ImageEncoder("resnet18", path, size=32)(items)
    assert features.shape == (2, 512)
    with pytest.raises(BadInput, match="`weights` must be those of resnet34"):
        ImageEncoder("resnet34", path, size=32)
    with pytest.raises(BadInput, match="Did you mean 'resnet18'"):
        ImageEncoder("resnet19", path, size=32)


def test_the_error_names_the_extra(tmp_path, monkeypatch):
    import sys

    weights = tmp_path / "weights.pt"
    weights.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    with pytest.raises(ImportError, match=r"pip install 'sbmc\[vision\]'"):
        ImageEncoder("resnet18", weights)
