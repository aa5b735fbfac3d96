"""What `checkpoint=` takes and refuses."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from sbmc.checks import BadInput
from sbmc.islands.checkpoints import CheckpointAt, as_checkpoint


def test_what_it_takes():
    at = CheckpointAt("run", every=0)
    assert as_checkpoint(at) is at
    assert as_checkpoint(None) is None
    assert as_checkpoint(Path("run")) == CheckpointAt(Path("run"), every=60.0)
    assert as_checkpoint("memory://run") == CheckpointAt("memory://run")
    assert CheckpointAt("run", every=math.inf).every == math.inf


@pytest.mark.parametrize("value", ["", "  ", b"run", 3, True, ["run"]])
def test_paths_that_are_none(value):
    with pytest.raises(BadInput, match="`checkpoint` must be a folder's path"):
        as_checkpoint(value)


@pytest.mark.parametrize("every", [-1, math.nan, "60", None, True])
def test_intervals_that_are_none(every):
    with pytest.raises(BadInput, match="`every` must be a number of seconds from 0, but got"):
        CheckpointAt("run", every=every)
