"""A limit on memory: kept by the process that runs, or refused before anything is computed."""

from __future__ import annotations

import json
import re
import sys

import forked
import pytest
import torch
from grouped import in_groups
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.islands.process_memory import parse_bytes, peak_bytes, resident_bytes
from sbmc.samplers.contract import VECTORS

DATA = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
EXAMPLES = DATA, (DATA[:, 0] > 0).long()
SHORT = sbmc.HMC(steps=2, leapfrog=1, step_size=0.1)
ROOMY = resident_bytes() + 2**32


@pytest.fixture
def net():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU6(), nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GiB", 2**31),
        ("500 MB", 500 * 10**6),
        ("1.5kb", 1500),
        ("  .5 MiB ", 2**19),
        ("123", 123),
        ("7B", 7),
        (99, 99),
    ],
)
def test_sizes_in_words(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("bad", ["", "MB", "2 apples", "-3MB", "1e9", 1.5, True, 0, -1, "0"])
def test_bad_limits_are_refused(net, bad):
    with pytest.raises(BadInput, match="`memory_limit` must be"):
        sbmc.fit(net, EXAMPLES, compute=sbmc.Compute(memory_limit=bad))


def test_a_limit_that_cannot_be_kept_is_refused_with_both_figures(net, monkeypatch):
    monkeypatch.setattr("sbmc.islands.sampling.run_batches", lambda *a, **k: pytest.fail("sampled"))
    with pytest.raises(BadInput) as refused:
        sbmc.fit(net, EXAMPLES, compute=sbmc.Compute(memory_limit="50MB"))
    text = str(refused.value)
    assert text.startswith("`memory_limit` must be at least ")
    assert "\n" not in text
    assert re.search(r"\d [MG]B", text.partition("which")[0])  # other tests may have made it large
    assert text.endswith("but got 50.0 MB.")


def test_a_limit_that_is_ample_changes_nothing(net):
    free = sbmc.fit(net, EXAMPLES, sampler=SHORT, islands=2)
    kept = sbmc.fit(
        net, EXAMPLES, sampler=SHORT, islands=2, compute=sbmc.Compute(memory_limit=ROOMY)
    )
    assert torch.equal(free.positions, kept.positions)
    assert free.settings == kept.settings
    assert (free.cost.memory_limit, kept.cost.memory_limit) == (None, ROOMY)


def test_what_was_expected_and_measured_is_in_the_cost(net):
    cost = sbmc.fit(net, EXAMPLES, sampler=SHORT).cost
    assert cost.expected_bytes > 50 * 10**6
    assert cost.peak_bytes == pytest.approx(peak_bytes(), rel=0.2)


def test_the_first_line_says_what_is_expected(net, capsys):
    sbmc.fit(net, EXAMPLES, sampler=SHORT, progress=True)
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith("sampling: 2 steps to do; memory: ")
    assert first.endswith(("MB at most", "GB at most"))  # by what the process holds already


def wide():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4000), nn.ReLU6(), nn.Linear(4000, 2))


def test_fewer_islands_are_folded_first(monkeypatch):
    net, islands = wide(), 8
    one = (VECTORS + 1) * 10 * 24_002 * 4
    monkeypatch.setattr("sbmc.islands.memory_budget.resident_bytes", lambda: 10**9)
    free = sbmc.expect(net, EXAMPLES, sampler=SHORT, islands=islands)
    batches = []
    for together in (8, 7, 3, 1):
        limit = free.bytes - (islands - together) * one
        found = sbmc.expect(
            net, EXAMPLES, sampler=SHORT, islands=islands, compute=sbmc.Compute(memory_limit=limit)
        )
        assert found.bytes <= limit
        assert any(note.startswith("memory: ") for note in found.notes)
        batches.append(found.batches)
    assert free.batches == batches[0] == 1
    assert batches == [1, 2, 4, 8]


def test_chunks_are_smaller_where_folding_less_is_not_enough(net, monkeypatch):
    monkeypatch.setattr("sbmc.islands.memory_budget.resident_bytes", lambda: 10**9)
    free = sbmc.fit(wide(), EXAMPLES, sampler=SHORT)
    taken = free.cost.expected_bytes
    limit = taken - 2**20
    kept = sbmc.fit(wide(), EXAMPLES, sampler=SHORT, compute=sbmc.Compute(memory_limit=limit))
    assert kept.cost.expected_bytes <= limit < taken
    there, here = free.settings["chunks"], kept.settings["chunks"]
    assert here["examples"] * here["particles"] < there["examples"] * there["particles"]
    torch.testing.assert_close(kept.positions, free.positions, rtol=1e-3, atol=1e-3)


def test_a_chunk_size_stays_what_it_is(monkeypatch):
    monkeypatch.setattr("sbmc.islands.memory_budget.resident_bytes", lambda: 10**9)
    # On the other path a network with large activations goes through particle by particle anyway.
    options = {"sampler": SHORT, "chunk_size": 40, "path": "vmap"}
    taken = sbmc.fit(wide(), EXAMPLES, **in_groups(options)).cost.expected_bytes
    options["memory_limit"] = taken - 2**21
    kept = sbmc.fit(wide(), EXAMPLES, **in_groups(options))
    assert kept.settings["chunks"]["examples"] == 40
    assert kept.settings["chunks"]["particles"] < 10


def test_a_checkpoint_goes_on_with_the_chunks_it_was_begun_with(tmp_path, monkeypatch):
    monkeypatch.setattr("sbmc.islands.memory_budget.resident_bytes", lambda: 10**9)

    def fit(islands, **options):
        compute = sbmc.Compute(checkpoint=tmp_path / "run", **options)
        return sbmc.fit(wide(), EXAMPLES, sampler=SHORT, islands=islands, compute=compute)

    taken = sbmc.fit(wide(), EXAMPLES, sampler=SHORT).cost.expected_bytes
    limit = taken + 3 * 10**6  # snapshots are written
    begun = fit(1, memory_limit=limit)
    usual = sbmc.fit(wide(), EXAMPLES, sampler=SHORT).settings["chunks"]
    assert begun.settings["chunks"] != usual
    more = fit(2)
    assert more.settings["chunks"] == begun.settings["chunks"]
    assert torch.equal(more.positions[:1], begun.positions)
    with pytest.raises(BadInput, match="as the checkpoint was begun"):
        fit(2, memory_limit=10**9)


def test_workers_are_counted_each_by_itself(net):
    processes = sbmc.Processes(workers=2, threads=1)
    found = sbmc.expect(
        net, EXAMPLES, islands=4, compute=sbmc.Compute(executor=processes, memory_limit=ROOMY)
    )
    assert found.bytes <= ROOMY
    assert found.total_bytes > 2 * found.bytes


SCRIPT = """
import json, sys, torch, sbmc
from torch import nn
from sbmc.islands.process_memory import peak_bytes, resident_bytes
torch.manual_seed(0)
if sys.argv[1] == "folds":
    net = nn.Sequential(nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10))
    data, islands, room = torch.randn(200, 300), 8, 120
else:
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU6(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU6(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    data, islands, room = torch.randn(24, 1, 56, 56), 1, 90
data = data, torch.arange(len(data)) % 10
sampler = sbmc.HMC(steps=2, leapfrog=1, step_size=1e-3)
options = dict(sampler=sampler, islands=islands, progress=False)
# What libraries load when they are first used is not the run's.
sbmc.fit(net, tuple(each[:2] for each in data), sampler=sampler, particles=2)
limit = resident_bytes() + room * 10**6
# On the other path a network with large activations takes little: one particle at a time.
path = "auto" if sys.argv[1] == "folds" else "vmap"
kept = sbmc.fit(net, data, compute=sbmc.Compute(memory_limit=limit, path=path), **options)
if sys.argv[1] == "folds":
    kept.predict(data[0])
peaks = [peak_bytes()]
free = sbmc.fit(net, data, compute=sbmc.Compute(path=path), **options)  # as if it were ignored
peaks += [peak_bytes()]
expected = [kept.cost.expected_bytes, free.cost.expected_bytes]
print(json.dumps({"limit": limit, "peaks": peaks, "expected": expected}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured otherwise elsewhere")
@pytest.mark.parametrize("case", ["folds", "chunks"])
def test_the_process_keeps_its_limit_and_would_not_without(case):
    found = json.loads(forked.run(["-c", SCRIPT, case], check=True).stdout)
    print(found)
    # An estimate from shapes: docs/gotchas.md asks for a tenth of room, for what allocators waste.
    assert found["peaks"][0] <= 1.1 * found["limit"] < found["peaks"][1]
    # A limit that is kept with room to spare would say nothing of the estimate. The second run is
    # made on top of what the allocator kept of the first.
    for peak, expected, most in zip(found["peaks"], found["expected"], (1.15, 1.25), strict=True):
        assert 0.6 * expected < peak < most * expected
