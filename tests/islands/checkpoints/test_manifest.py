"""The manifest comes back, damage is refused, and every difference is said."""

from __future__ import annotations

import json
import math
import re

import pytest

from sbmc.checks import BadInput
from sbmc.islands.checkpoints.manifest import FORMAT, VERSION, Manifest, differences

IDENTITY = {"s": 0.25, "sampler": {"name": "hmc", "steps": 20, "eta": None}, "data": "ab" * 32}
SUMS = "(checksum 1a1a1a1a there and 2b2b2b2b here)"
MANIFEST = Manifest(IDENTITY, [(0, 2), (4,), (1, 3)], threads=2)


def refused(data, words):
    with pytest.raises(BadInput, match=re.escape(words)):
        Manifest.from_json(data, "runs/first")


def test_it_comes_back():
    manifest = Manifest({**IDENTITY, "x": 0.1 + 0.2}, MANIFEST.batches, 3)
    assert Manifest.from_json(manifest.to_json(), "") == manifest
    assert manifest.islands == [0, 1, 2, 3, 4]
    content = json.loads(manifest.to_json())
    assert (content["format"], content["version"]) == (FORMAT, VERSION) == ("sbmc-checkpoint", 1)


def test_other_formats_and_versions_are_refused():
    content = json.loads(MANIFEST.to_json())
    rule = "`checkpoint` must be of format sbmc-checkpoint version 1, but got 'runs/first' of "
    refused(json.dumps({**content, "version": 2}).encode(), f"{rule}sbmc-checkpoint version 2.")
    refused(json.dumps({"format": "zarr"}).encode(), f"{rule}zarr version None.")


def test_a_damaged_one_is_refused():
    data = MANIFEST.to_json()
    rule = "`checkpoint` must be a folder with an undamaged manifest.json, but got 'runs/first'."
    refused(data[:-1], rule)
    refused(b"", rule)
    refused(b"[1]", rule)
    refused(b"\xff\xfe", rule)
    refused(data.replace(b'"threads": 2', b'"threads": 3'), rule)
    # Any flipped bit is noticed, the format's and version's own words aside.
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 2
        try:
            found = Manifest.from_json(bytes(changed), "")
        except BadInput:
            continue
        assert found == MANIFEST, place


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ({"s": 0.25}, {"s": 0.1}, ["s is 0.25 there and 0.1 here"]),
        ({"s": 1}, {"s": 1.0}, []),
        ({"s": 1}, {"s": True}, ["s is 1 there and True here"]),
        ({"s": math.nan}, {"s": math.nan}, []),
        ({"s": math.nan}, {"s": 1.0}, ["s is nan there and 1.0 here"]),
        ({"s": None}, {}, ["s is None there and missing here"]),
        ({}, {"s": None}, ["s is missing there and None here"]),
        ({"s": "missing"}, {}, ["s is 'missing' there and missing here"]),
        ({"a": {"b": {"c": "x"}}}, {"a": {"b": {"c": "y"}}}, ["a.b.c is 'x' there and 'y' here"]),
        ({"a": [1, 2]}, {"a": (1, 2)}, []),
        ({"a": []}, {"a": ()}, []),
        ({"a": [1, 2]}, {"a": [1, 3]}, ["a.1 is 2 there and 3 here"]),
        ({"a": [1]}, {"a": [1, 3]}, ["a.1 is missing there and 3 here"]),
        (
            {"a": {"b": 1}},
            {"a": 2},
            ["a.b is 1 there and missing here", "a is missing there and 2 here"],
        ),
        (
            {"b": 1, "a": 1},
            {"a": 2, "c": 1, "b": 2},
            ["b is 1 there and 2 here", "a is 1 there and 2 here", "c is missing there and 1 here"],
        ),
        ({"data": "1a" * 32}, {"data": "2b" * 32}, [f"data differ {SUMS}"]),
        ({"m": {"model": "1a" * 32}}, {"m": {"model": "2b" * 32}}, [f"m.model differs {SUMS}"]),
        ({"data": "1a" * 32}, {}, ["data is checksum 1a1a1a1a there and missing here"]),
        ({"f": "x" * 100}, {"f": 1}, ["f is '" + "x" * 58 + "… there and 1 here"]),
        (IDENTITY, json.loads(json.dumps(IDENTITY)), []),
    ],
)
def test_every_difference_is_said(old, new, words):
    assert differences(old, new) == words


def test_integer_names_are_those_that_json_made_of_them():
    assert differences(json.loads(json.dumps({"a": {1: 2}})), {"a": {1: 2}}) == []
