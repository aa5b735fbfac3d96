"""Runs of the command line that are stopped in the middle, and what is left of them."""

from pathlib import Path

import forked
import torch

import sbmc
from sbmc.islands.checkpoints import FileCheckpointer
from sbmc_studies.records.record import read_record

TRAINING = ["--set", "max_epochs=2", "--set", "batch_size=256"]
CHAINS = ["--set", "leapfrog=1", "--set", "step_size=0.05", "--particles", "2"]
SHORT = ["--method", "s-hmc", *TRAINING, *CHAINS, "--steps", "5", "--quiet", "--save-posterior"]


def seed_folders(out):
    return sorted({path.parent for path in Path(out).rglob("run.json")})


def seed_folder(out):
    (folder,) = seed_folders(out)
    return folder


def record_of(out):
    return seed_folder(out) / "record.json"


def posterior(folder, network):
    return sbmc.load(folder / "posterior.sbmc", network)


def require_same(one, other, network):
    """Metrics, particles and weights agree to the bit."""
    ours, theirs = read_record(one / "record.json"), read_record(other / "record.json")
    assert ours.metrics == theirs.metrics
    assert ours.settings == theirs.settings
    assert ours.outcome == theirs.outcome == "completed"
    for name in ("epochs", "forward_epochs", "anchor_epochs", "total_epochs"):
        assert ours.cost[name] == theirs.cost[name]
    mine, yours = posterior(one, network), posterior(other, network)
    assert torch.equal(mine.positions, yours.positions)
    assert torch.equal(mine.weights, yours.weights)


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def stop_after(monkeypatch, snapshots):
    """Ctrl-C when islands have offered so many snapshots; each is written down before."""
    original, left = FileCheckpointer.offer_snapshot, [snapshots]

    def offer_snapshot(checkpointer, part, make):
        original(checkpointer, part, make)
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(FileCheckpointer, "offer_snapshot", offer_snapshot)


def stopped(command, monkeypatch, *arguments, snapshots=3):
    """A run that was stopped in the middle."""
    with monkeypatch.context() as patch:
        stop_after(patch, snapshots)
        code, _, errors = command("run", "digits", *arguments, "--checkpoint-every", 0)
    assert code == 130, errors
    return errors


def start(arguments, folder):
    """A run of the command line in a process of its own."""
    return forked.Child(["-m", "sbmc", *arguments], cwd=folder)
