"""A run's folder: refused for other runs, grown by more islands, and nothing run twice."""

from __future__ import annotations

import json
import pickle
import re
import uuid
from dataclasses import replace

import pytest
import torch

from sbmc.checks import BadInput
from sbmc.islands.checkpoints import Checkpoint, CheckpointAt, Stopped, copy_islands
from sbmc.islands.checkpoints.checkpoint import batch_name
from sbmc.islands.checkpoints.manifest import NAME
from sbmc.islands.island import Island, IslandReport
from sbmc.samplers.snapshot import Snapshot

IDENTITY = {
    "s": 0.25,
    "sampler": {"name": "hmc", "steps": 20},
    "data": "0123456789abcdef" * 4,
    "model": "fedcba9876543210" * 4,
    "version": "0.1.0",
}


def pairs(islands):
    islands = list(islands)
    return [tuple(islands[i : i + 2]) for i in range(0, len(islands), 2)]


def island(index, outcome="completed"):
    rng = torch.Generator().manual_seed(index)
    positions = torch.randn(3, 2, generator=rng) if outcome == "completed" else None
    return Island(IslandReport(index, outcome), positions)


def opened(path, islands=range(5), planner=pairs, identity=IDENTITY, threads=2, needed=1000):
    return Checkpoint.open(CheckpointAt(path, 5.0), identity, islands, planner, threads, needed)


@pytest.fixture(params=["local", "memory"])
def path(request, tmp_path):
    if request.param == "local":
        return tmp_path / "deep" / "run"
    return f"memory://{uuid.uuid4().hex}/run"


def contents(checkpoint):
    return {name: checkpoint.store.read(name) for name in checkpoint.store.names()}


def test_a_new_folder_gets_a_manifest(path):
    checkpoint = opened(path)
    assert checkpoint.store.names() == [NAME]
    assert checkpoint.batches == checkpoint.open_batches() == [(0, 1), (2, 3), (4,)]
    assert (checkpoint.threads, checkpoint.every, checkpoint.finished()) == (2, 5.0, {})
    assert checkpoint.path == str(path)
    content = json.loads(checkpoint.store.read(NAME))
    assert content["identity"] == IDENTITY


def test_batches_and_threads_are_those_of_the_beginning(path):
    before = contents(opened(path))
    again = opened(path, planner=lambda islands: [tuple(islands)], threads=7)
    assert (again.batches, again.threads) == ([(0, 1), (2, 3), (4,)], 2)
    assert contents(again) == before


def test_finished_islands_come_back_and_their_batches_are_not_open(path):
    checkpoint = opened(path)
    checkpoint_files = pickle.loads(pickle.dumps(checkpoint.checkpoint_files()))
    checkpoint_files.save_islands([island(0), island(1, "stuck")])
    checkpoint_files.save_islands([island(2), island(3, "failed")])
    for each in (checkpoint, opened(path)):
        finished = each.finished()
        assert list(finished) == [0, 1, 2]
        assert torch.equal(finished[2].positions, island(2).positions)
        assert finished[1].report == IslandReport(1, "stuck")
        assert each.open_batches() == [(2, 3), (4,)]  # a batch runs as a whole
    checkpoint_files.save_islands([island(2), island(3)])
    checkpoint_files.save_islands([island(4, "non-finite")])
    assert checkpoint.open_batches() == [(4,)]
    assert list(checkpoint.finished()) == [0, 1, 2, 3]


def test_a_damaged_island_opens_its_batch_again(path):
    checkpoint = opened(path)
    checkpoint.checkpoint_files().save_islands([island(index) for index in range(5)])
    assert checkpoint.open_batches() == []
    name = "island-00003.safetensors"
    checkpoint.store.write(name, checkpoint.store.read(name)[:-1])
    assert opened(path).open_batches() == [(2, 3)]


def test_a_site_s_keeper_goes_on_where_another_was(path):
    checkpoint_files = opened(path).checkpoint_files()
    checkpointer = checkpoint_files.checkpointer((0, 1), stop=lambda: True)
    assert checkpointer.every == 5.0
    checkpointer.begin()
    with pytest.raises(Stopped):
        checkpointer.offer_snapshot("steps", lambda: Snapshot({}, {"step": 3}))
    assert opened(path).store.names("batch") == ["batch-00000-00001.safetensors"]
    alone = checkpoint_files.checkpointer(
        (0,)
    )  # the fold's first island alone has a snapshot of its own
    assert (alone.attempts, alone.has("steps")) == (0, False)
    again = checkpoint_files.checkpointer((0, 1))
    assert again.attempts == 1
    assert again.restore("steps") == Snapshot({}, {"step": 3})


def test_states_of_batches_that_have_ended_are_removed_when_it_is_opened(path):
    checkpoint = opened(path)
    checkpoint_files = checkpoint.checkpoint_files()
    for batch in [(0, 1), (0,), (2, 3), (2,), (3,), (4,)]:
        checkpoint_files.checkpointer(batch).begin()
    checkpoint_files.save_islands(
        [island(0), island(1), island(2)]
    )  # killed before the states were removed
    left = [batch_name(batch) for batch in [(2, 3), (3,), (4,)]]
    assert opened(path).store.names("batch") == left


def refused(path, words, **options):
    with pytest.raises(BadInput, match=re.escape(words)):
        opened(path, **options)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"s": 0.1}, "s is 0.25 there and 0.1 here"),
        ({"sampler": {"name": "hmc", "steps": 10}}, "sampler.steps is 20 there and 10 here"),
        ({"sampler": {"name": "smc"}}, "sampler.name is 'hmc' there and 'smc' here; sampler.steps"),
        ({"data": "f" * 64}, "data differ (checksum 01234567 there and ffffffff here)"),
        ({"model": "f" * 64}, "model differs (checksum fedcba98 there and ffffffff here)"),
        ({"version": "0.2.0"}, "version is '0.1.0' there and '0.2.0' here"),
        ({"more": 1}, "more is missing there and 1 here"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_with_the_difference(path, change, words):
    before = contents(opened(path))
    rule = f"`checkpoint` must be of the same run, but got {str(path)!r}, where {words}"
    refused(path, rule, identity={**IDENTITY, **change})
    assert contents(opened(path)) == before


def test_five_differences_are_named_and_the_others_counted(path):
    many = {f"x{i}": i for i in range(8)}
    opened(path, identity=many)
    words = "x4 is 4 there and 5 here; and 3 more."
    refused(path, words, identity={name: value + 1 for name, value in many.items()})


def test_an_identity_that_json_changes_is_still_the_same(path):
    opened(path, identity={"sizes": (1, 2), "by": {1: 0.1}})
    opened(path, identity={"sizes": (1, 2), "by": {1: 0.1}})


def test_fewer_islands_are_refused(path):
    opened(path)
    rule = f"`islands` must be at least those of the checkpoint {str(path)!r}, which has 5, but got"
    refused(path, f"{rule} 3 of them, without 3, 4.", islands=range(3))
    refused(path, f"{rule} 5 of them, without 0, 1, 2, 3, 4.", islands=range(5, 10))


def check_extended(path, planner=pairs):
    checkpoint = opened(path)
    checkpoint.checkpoint_files().save_islands([island(index) for index in range(5)])
    before = contents(checkpoint)
    wider = opened(path, islands=range(8), planner=planner, threads=9)
    assert wider.batches == [(0, 1), (2, 3), (4,), (5, 6), (7,)]
    assert wider.threads == 2
    assert wider.open_batches() == [(5, 6), (7,)]
    assert list(wider.finished()) == [0, 1, 2, 3, 4]
    after = contents(wider)
    assert {name for name in after if after[name] != before.get(name)} == {NAME}
    assert opened(path, islands=range(8)).batches == wider.batches
    refused(path, "which has 8", islands=range(5))


def test_a_run_is_extended_and_its_old_batches_stay(path):
    check_extended(path)


def test_planning_the_old_islands_anew_is_caught(path, monkeypatch):
    from sbmc.islands.checkpoints import checkpoint

    def anew(where, old, islands, planner):
        return replace(old, batches=planner(islands))

    monkeypatch.setattr(checkpoint, "_extended", anew)
    with pytest.raises(AssertionError):
        check_extended(path)


def test_islands_need_not_begin_at_zero(path):
    checkpoint = opened(path, islands=range(100, 103))
    checkpoint.checkpoint_files().save_islands([island(100), island(101), island(5)])
    assert list(checkpoint.finished()) == [100, 101]  # 5 is none of its own
    assert checkpoint.open_batches() == [(102,)]


def test_a_plan_that_loses_an_island_is_refused(path):
    refused(path, "`planner` must be one that gives each island", planner=lambda islands: [(0, 1)])


def test_folders_that_are_no_checkpoints_are_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    rule = "`checkpoint` must be an empty folder, or one with a manifest.json, but got "
    refused(tmp_path, f"{rule}{str(tmp_path)!r} with thesis.tex.")
    refused(tmp_path / "thesis.tex", "must be a folder that can be written to")
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / ".manifest.json.7.abcd.part").write_text("")  # killed while it wrote its first file
    assert opened(empty).store.names() == [NAME]


def test_a_damaged_or_foreign_manifest_is_refused_and_kept(tmp_path):
    for text in ("{", '{"format": "sbmc-checkpoint", "version": 2}'):
        (tmp_path / NAME).write_text(text)
        refused(tmp_path, "`checkpoint` must be ")
        assert (tmp_path / NAME).read_text() == text


def test_too_little_space_is_found_before_anything_is_written(tmp_path):
    refused(tmp_path / "run", "000000.0 GB of space, but got", needed=10**24)
    assert list((tmp_path / "run").iterdir()) == []


def test_finished_islands_are_copied_and_nothing_else(tmp_path):
    source = opened(tmp_path / "a", islands=range(6))
    source.checkpoint_files().save_islands(
        [island(0), island(1, "failed"), island(2, "stuck"), island(3), island(5)]
    )
    target = opened(
        tmp_path / "b", islands=range(5), planner=lambda islands: [(i,) for i in islands]
    )
    target.checkpoint_files().save_islands([island(0), island(3, "failed")])
    before = target.store.read("island-00000.safetensors")
    assert copy_islands(source, tmp_path / "b") == [2, 3]  # 0 is there, 1 failed, 5 is not wanted
    assert list(target.finished()) == [0, 2, 3]
    assert torch.equal(target.finished()[3].positions, island(3).positions)
    assert target.store.read("island-00000.safetensors") == before
    assert copy_islands(tmp_path / "a", target) == []


def test_islands_of_another_run_are_not_copied(tmp_path):
    opened(tmp_path / "a")
    target = opened(tmp_path / "b", identity={**IDENTITY, "s": 0.1})
    with pytest.raises(BadInput, match=r"of the same run, but got .*/a', where s is 0.25 there"):
        copy_islands(tmp_path / "a", target)
    with pytest.raises(BadInput, match=r"must be a folder with a manifest.json, but got .*none"):
        copy_islands(tmp_path / "none", target)
