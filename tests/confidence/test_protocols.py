"""Pools are handed out once, so parts have nothing in common."""

import itertools

import numpy as np
import pytest

from sbmc.checks import BadInput
from sbmc.confidence.protocols import (
    PARTS,
    PartIndices,
    Pool,
    Pools,
    check_protocol,
    clean_parts,
    paper_parts,
)


def pools(start, inside=40, group=12):
    first = np.arange(start, start + inside)
    eights = np.arange(start + inside, start + inside + group)
    nines = eights + group
    return Pools(Pool("images", first), {"8": Pool("8s", eights), "9": Pool("9s", nines)})


def shared(parts):
    """Pairs of parts that have a source image in common."""
    return [
        (a, b)
        for a, b in itertools.combinations(parts, 2)
        if parts[a].sources() & parts[b].sources()
    ]


def clean():
    sizes, groups = dict.fromkeys(PARTS, 8), dict.fromkeys(PARTS, 3)
    return clean_parts(pools(100), pools(300), inside=sizes, group=groups)


def test_clean_parts_are_disjoint_in_every_form():
    parts = clean()
    assert tuple(parts) == PARTS
    assert shared(parts) == []
    for part in parts.values():
        assert not set(part.inside) & set(part.perturbed)
        assert (len(part.inside), len(part.perturbed), part.white_noise) == (8, 3, 3)
        assert {digit: len(chosen) for digit, chosen in part.outside.items()} == {"8": 3, "9": 3}
    assert min(parts["test"].sources()) >= 300
    assert max(max(parts[name].sources()) for name in PARTS[:3]) < 300


def test_a_planted_overlap_is_found():
    parts = clean()
    given = parts["threshold"]
    stolen = np.append(given.perturbed[:-1], parts["test"].inside[0])
    parts["threshold"] = PartIndices(given.inside, given.outside, stolen, 3)
    assert shared(parts) == [("threshold", "test")]


def test_paper_parts_learn_from_what_the_model_was_fitted_to():
    seen = np.arange(20)
    parts = paper_parts(seen, pools(100), pools(300), inside=8, group=3, meta_group=4)
    assert list(parts) == ["meta_train", "threshold", "test"]
    assert parts["meta_train"].inside.tolist() == seen.tolist()
    assert parts["meta_train"].perturbed.tolist() == [0, 1, 2, 3]
    assert parts["test"].perturbed.tolist() == parts["test"].inside[:3].tolist()
    assert shared(parts) == []


def test_a_pool_that_is_empty_says_so():
    pool = Pool("8s", np.arange(3))
    pool.take(2)
    with pytest.raises(BadInput, match="at most 1, which remain of the 8s, but got 2"):
        pool.take(2)
    with pytest.raises(BadInput, match="at least the 5 images that noise is added to"):
        paper_parts(np.arange(4), pools(10), pools(200), inside=8, group=3, meta_group=5)


def test_other_protocols_are_refused():
    with pytest.raises(BadInput, match="`protocol` must be one of paper, clean, but got 'dirty'"):
        check_protocol("dirty")
