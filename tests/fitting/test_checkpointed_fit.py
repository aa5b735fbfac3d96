"""`fit` with a checkpoint: goes on with the same bits, grows, and refuses what is not its own."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from grouped import in_groups
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.islands.checkpoints import FileCheckpointer, Stopped
from sbmc.islands.checkpoints.manifest import Manifest
from sbmc.islands.executors import InProcess

# Three particles are few.
pytestmark = pytest.mark.filterwarnings("ignore:The population of", "ignore:The evidence leaves")

DATA = (
    torch.randn(24, 3, generator=torch.Generator().manual_seed(0)),
    torch.randint(2, (24,), generator=torch.Generator().manual_seed(1)),
)
SAMPLERS = {
    "hmc": sbmc.HMC(steps=8, trajectory=1.0),
    "scouted": sbmc.HMC(epochs=24, scout=4, scout_step_size=0.05),
    "sghmc": sbmc.SGHMC(epochs=16, batch_size=5),
    "smc": sbmc.SMC(mutations=5),
    "pilot": sbmc.SMC(mutations=5, pilot=True),
    "waste-free": sbmc.SMC(mutations=5, waste_free=True),
}


def make_net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def run(place=None, **options):
    given = {"s": 0.4, "particles": 3, "islands": 2, "progress": False, "sampler": SAMPLERS["hmc"]}
    return sbmc.fit(make_net(), DATA, **in_groups(given | options | {"checkpoint": place}))


def at(path):
    return sbmc.CheckpointAt(path, every=0)


def same(one, other):
    assert torch.equal(one.positions, other.positions)
    assert torch.equal(one.weights, other.weights)
    assert torch.equal(one.log_evidence, other.log_evidence)
    assert one.islands == other.islands


class StopAt:
    """Stops a run at its k-th snapshot, with the snapshot written, as Ctrl-C would."""

    def __init__(self, monkeypatch):
        self.left = None
        offer_snapshot = FileCheckpointer.offer_snapshot

        def counted(checkpointer, part, make):
            offer_snapshot(checkpointer, part, make)
            if self.left is not None:
                self.left -= 1
                if self.left < 0:
                    raise Stopped("on purpose")

        monkeypatch.setattr(FileCheckpointer, "offer_snapshot", counted)


@pytest.mark.parametrize("name", list(SAMPLERS))
@pytest.mark.parametrize("fold", [None, 1])
def test_a_stopped_run_goes_on_with_the_same_bits(tmp_path, monkeypatch, name, fold):
    options = {"sampler": SAMPLERS[name], "executor": InProcess(fold=fold)}
    expected = run(**options)
    stops = StopAt(monkeypatch)
    for snapshots in (0, 1, 2):
        stops.left = snapshots
        with pytest.raises(KeyboardInterrupt):
            run(at(tmp_path), **options)
    stops.left = None
    found = run(at(tmp_path), **options)
    same(found, expected)
    attempts = [report.attempts for report in found.islands]
    assert attempts == [4, 4] if fold is None else sum(attempts) == 2 + 3
    assert found.cost.total_epochs == expected.cost.total_epochs
    assert found.settings == expected.settings


def test_a_finished_run_computes_nothing(tmp_path, monkeypatch):
    first = run(at(tmp_path))
    monkeypatch.setattr(sbmc.HMC, "run", lambda *a, **k: pytest.fail("it was run again"))
    again = run(at(tmp_path))
    same(again, first)
    seconds = sum(report.seconds for report in first.islands)
    assert again.cost.wall_seconds == pytest.approx(seconds)


def test_a_finished_run_can_be_combined_in_another_way(tmp_path):
    options = {"sampler": SAMPLERS["smc"]}
    by_evidence = run(at(tmp_path), **options)
    equally = run(at(tmp_path), island_weights="equal", **options)
    same(equally, by_evidence.reweighted("equal"))


def test_more_islands_extend_a_run_and_leave_the_old_ones(tmp_path):
    options = {"executor": InProcess(fold=1)}
    run(at(tmp_path), **options)
    old = {path.name: path.read_bytes() for path in tmp_path.glob("island-*")}
    found = run(at(tmp_path), islands=5, **options)
    assert {name: (tmp_path / name).read_bytes() for name in old} == old
    same(found, run(islands=5, **options))
    with pytest.raises(BadInput, match=r"`islands` must be at least those of the checkpoint .* 5"):
        run(at(tmp_path), islands=2, **options)


def test_the_pilot_of_an_extended_run_is_the_first_one(tmp_path):
    options = {"sampler": SAMPLERS["pilot"], "executor": InProcess(fold=1)}
    first = run(at(tmp_path), **options)
    more = run(at(tmp_path), islands=3, **options)
    assert more.settings["frozen"] == first.settings["frozen"]
    same(more, run(islands=3, **options))


def test_first_island_gives_the_later_islands_of_a_run():
    options = {"executor": InProcess(fold=1)}
    whole = run(islands=4, **options)
    later = run(first_island=2, **options)
    assert torch.equal(later.positions, whole.positions[2:])
    assert [report.index for report in later.islands] == [2, 3]


def other_data():
    return DATA[0] + 1e-3, DATA[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"s": 0.3}, r"\bs is 0.4 there and 0.3 here"),
        ({"seed": 4}, "seed is 0 there and 4 here"),
        ({"particles": 4}, "particles is 3 there and 4 here"),
        ({"sampler": sbmc.HMC(steps=9, trajectory=1.0)}, "steps is 8 there and 9 here"),
        ({"prior_variance": 2.0}, "prior_variance is 'auto' there and 2.0 here"),
        ({"dtype": torch.float64}, "dtype"),
        ({"start": "prior"}, "start"),
        ({"path": "loop"}, "path is '?fused'? there and '?loop'? here"),
        ({"chunk_size": 7}, "chunks.examples"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_another_run_is_refused_with_the_difference_named(tmp_path, options, words):
    run(at(tmp_path))
    with pytest.raises(BadInput, match=rf"`checkpoint` must be of the same run.*{words}"):
        run(at(tmp_path), **options)


def test_other_data_another_model_and_another_version_are_refused(tmp_path, monkeypatch):
    run(at(tmp_path))
    common = {"s": 0.4, "particles": 3, "islands": 2, "sampler": SAMPLERS["hmc"]}
    common["compute"] = sbmc.Compute(checkpoint=at(tmp_path))
    with pytest.raises(BadInput, match=r"same run.*data"):
        sbmc.fit(make_net(), other_data(), **common)
    network = make_net()
    network[0].weight.data[0, 0] += 1
    with pytest.raises(BadInput, match=r"same run.*anchor"):
        sbmc.fit(network, DATA, **common)
    wider = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    with pytest.raises(BadInput, match=r"same run.*model"):
        sbmc.fit(wider, DATA, **common)
    monkeypatch.setattr(sbmc, "__version__", "9.9")
    with pytest.raises(BadInput, match=r"versions.sbmc is .* there and '?9.9'? here"):
        run(at(tmp_path))


def without_setting(folder, name):
    """A checkpoint as it was written before a setting of the sampler existed."""
    manifest = Manifest.from_json((folder / "manifest.json").read_bytes(), str(folder))
    del manifest.identity["sampler_settings"][name]
    (folder / "manifest.json").write_bytes(manifest.to_json())


def test_a_checkpoint_from_before_an_optional_setting_goes_on(tmp_path, monkeypatch):
    """`noise` came later, and None is the stream of before."""
    sampler = SAMPLERS["sghmc"]
    undisturbed = run(sampler=sampler)
    stop = StopAt(monkeypatch)
    stop.left = 5
    with pytest.raises(KeyboardInterrupt):
        run(at(tmp_path), sampler=sampler)
    without_setting(tmp_path, "noise")
    stop.left = None
    same(run(at(tmp_path), sampler=sampler), undisturbed)


def test_a_checkpoint_from_before_is_refused_for_what_it_cannot_be(tmp_path):
    run(at(tmp_path), sampler=SAMPLERS["sghmc"])
    without_setting(tmp_path, "noise")
    other = dataclasses.replace(SAMPLERS["sghmc"], noise="philox")
    with pytest.raises(BadInput, match=r"noise is missing there and 'philox' here"):
        run(at(tmp_path), sampler=other)
    without_setting(tmp_path, "warmup")
    with pytest.raises(BadInput, match=r"warmup is missing there and 0\.5 here"):
        run(at(tmp_path), sampler=SAMPLERS["sghmc"])


def test_threads_are_those_of_the_first_call(tmp_path, monkeypatch):
    run(at(tmp_path), executor=InProcess(fold=1, threads=1))
    assert json.loads((tmp_path / "manifest.json").read_text())["threads"] == 1
    seen = []
    inner = sbmc.HMC.run

    def watched(self, *args):
        seen.append(torch.get_num_threads())
        return inner(self, *args)

    monkeypatch.setattr(sbmc.HMC, "run", watched)
    run(at(tmp_path), islands=3, executor=InProcess(fold=1, threads=2))
    assert seen == [1]


def test_a_place_that_cannot_be_written_is_found_before_anything_is_computed(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(sbmc.HMC, "run", lambda *a, **k: pytest.fail("it was run"))
    with pytest.raises(BadInput, match="`checkpoint`"):
        run(tmp_path / "file" / "folder")


@pytest.mark.parametrize(
    ("name", "value"), [("retries", -1), ("retries", 1.5), ("first_island", -1)], ids=str
)
def test_bad_numbers_are_refused(name, value):
    with pytest.raises(BadInput, match=f"`{name}` must be a non-negative integer"):
        run(**{name: value})
