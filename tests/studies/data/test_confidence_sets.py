"""The sets of the confidence classifier: sizes, sources, and nothing in common."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from sbmc.checks import BadInput
from sbmc.confidence.protocols import PARTS, PROTOCOLS
from sbmc_studies.data import load_dataset, mnist7
from sbmc_studies.data.confidence_sets import confidence_sets, digits_indices, mnist7_indices

SHARED = os.environ.get("SBMC_DATA", "")
needs_mnist = pytest.mark.skipif(
    not SHARED or not (Path(SHARED) / mnist7.FILE).is_file(),
    reason="mnist.npz is not in the folder that $SBMC_DATA names",
)


def digits_labels():
    from sklearn.datasets import load_digits

    return load_digits().target


def mnist_like_labels():
    """As many of each digit as MNIST has, in a random order: indices need no images."""
    rng = np.random.default_rng(0)
    counts = {"train": (48_200, 5851, 5949), "test": (8017, 974, 1009)}
    parts = []
    for inside, eights, nines in counts.values():
        labels = np.concatenate([np.arange(inside) % 8, [8] * eights, [9] * nines])
        parts.append(rng.permutation(labels))
    return np.concatenate(parts)


CASES = {"mnist7": (mnist7_indices, mnist_like_labels), "digits": (digits_indices, digits_labels)}


@pytest.mark.parametrize("name", CASES)
def test_clean_sets_are_four_disjoint_sets_unknown_to_the_model(name):
    indices, make_labels = CASES[name]
    labels = make_labels()
    parts = indices("clean", labels)
    assert tuple(parts) == PARTS
    for a, b in itertools.combinations(PARTS, 2):
        assert not parts[a].sources() & parts[b].sources(), (a, b)
    fitted = {"mnist7": 1200, "digits": 1000}[name]
    seen = set(np.flatnonzero(labels < 8)[:fitted].tolist())
    for part in parts.values():
        assert not part.sources() & seen
        # In no form twice, inside a part as well.
        counted = [part.inside, part.perturbed, *part.outside.values()]
        assert len(part.sources()) == sum(map(len, counted))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", CASES)
def test_sources_have_the_labels_that_they_should(name, protocol):
    indices, make_labels = CASES[name]
    labels = make_labels()
    for part in indices(protocol, labels).values():
        assert (labels[part.inside] < 8).all()
        assert (labels[part.perturbed] < 8).all()
        assert (labels[part.outside["8"]] == 8).all()
        assert (labels[part.outside["9"]] == 9).all()


def test_sizes_for_mnist7_are_the_papers():
    labels = mnist_like_labels()
    paper = mnist7_indices("paper", labels)
    sizes = {name: (len(part.inside), part.white_noise) for name, part in paper.items()}
    assert sizes == {"meta_train": (1200, 500), "threshold": (2000, 500), "test": (2000, 500)}
    inside = np.flatnonzero(labels < 8)
    assert np.array_equal(paper["meta_train"].inside, inside[:1200])
    test_images = inside[inside >= 60_000]
    assert np.array_equal(paper["test"].inside, test_images[:2000])
    eights = np.flatnonzero(labels == 8)
    assert np.array_equal(paper["test"].outside["8"], eights[eights >= 60_000][:500])
    # Test images are for the test alone, in both protocols.
    for protocol in PROTOCOLS:
        for name, part in mnist7_indices(protocol, labels).items():
            of_test = {index >= 60_000 for index in part.sources()}
            assert of_test == {name == "test"}
    clean = mnist7_indices("clean", labels)
    assert [len(clean[name].inside) for name in PARTS] == [2000, 2000, 4000, 2000]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_digits_as_tensors(protocol):
    sets = confidence_sets("digits", protocol)
    data = load_dataset("digits")
    for part in sets.values():
        assert part.inputs.shape[1:] == (1, 8, 8)
        assert part.inputs.dtype == torch.float32
        assert len(part.inputs) == len(part.labels)
        assert list(part.ood) == ["8", "9", "white_noise", "perturbed"]
        assert len({len(group) for group in part.ood.values()}) == 1
        assert 0 <= part.inputs.min() <= part.inputs.max() <= 1
    if protocol == "paper":
        seen = data.train_and_validation
        assert torch.equal(sets["meta_train"].inputs, seen[0])
        assert torch.equal(sets["meta_train"].labels, seen[1])
        noise = sets["meta_train"].ood["perturbed"] - seen[0][:100]
        # 6,400 pixels: five standard errors, false alarms below 1 in a million.
        assert abs(noise.std() - 0.5) < 5 * 0.5 / (2 * noise.numel()) ** 0.5


def test_noise_is_drawn_anew_for_each_part_protocol_and_seed():
    everything = [
        part.ood["white_noise"][0]
        for protocol in PROTOCOLS
        for seed in (0, 1)
        for part in confidence_sets("digits", protocol, seed=seed).values()
    ]
    everything.append(load_dataset("digits").ood["white_noise"][0])
    for a, b in itertools.combinations(everything, 2):
        assert not torch.equal(a, b)
    first, again = (confidence_sets("digits", "clean", seed=3)["test"] for _ in range(2))
    assert torch.equal(first.ood["perturbed"], again.ood["perturbed"])


@needs_mnist
def test_mnist_as_tensors():
    sets, data = confidence_sets("mnist7", "paper"), load_dataset("mnist7")
    assert torch.equal(sets["meta_train"].inputs, data.train_and_validation[0])
    assert torch.equal(sets["test"].inputs, data.test[0][:2000])
    assert torch.equal(sets["test"].labels, data.test[1][:2000])
    for digit in ("8", "9"):
        assert torch.equal(sets["test"].ood[digit], data.ood[digit])


def test_bad_names_are_refused():
    with pytest.raises(BadInput, match=r"`name` must be one of 'mnist7', 'digits'.*Did you mean"):
        confidence_sets("digit", "clean")
    with pytest.raises(BadInput, match="`protocol` must be one of paper, clean"):
        confidence_sets("digits", "both")
