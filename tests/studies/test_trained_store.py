import copy
import shutil

import pytest
import torch
from study_specs import make_spec
from torch import nn

from sbmc_studies.experiments import trained_store
from sbmc_studies.experiments.context import prepare_context
from sbmc_studies.experiments.execution import Execution
from sbmc_studies.experiments.resources import Resources

TINY = {"max_epochs": 2, "batch_size": 256, "particles": 2}


def context(folder, seed=0, retrain=False, execution=None, **overrides):
    fields = {"execution": execution or Execution()}
    spec = make_spec("digits", "s-hmc", {**TINY, **overrides}, seed, **fields)
    spec.settings.update(swa_epochs=3, warmup_epochs=1)  # for the anchor that is averaged
    return prepare_context(spec, Resources(progress=False), folder, retrain=retrain)


def require_same(ours, theirs):
    assert ours.histories == theirs.histories
    assert ours.seconds == theirs.seconds
    assert ours.summary() == theirs.summary()
    for one, other in zip(ours.models, theirs.models, strict=True):
        assert repr(one) == repr(other)
        assert one.training == other.training
        assert one.state_dict().keys() == other.state_dict().keys()
        assert all(
            torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True)
        )
    ours, theirs = ours.posterior(1), theirs.posterior(1)
    assert torch.equal(ours.positions, theirs.positions)
    assert ours.cost.total_epochs == theirs.cost.total_epochs


@pytest.mark.parametrize("kind", ["map", "swa", "mc-dropout", "ensemble"])
def test_networks_come_back_as_they_were(tmp_path, kind):
    def trained(given):
        return given.ensemble(2) if kind == "ensemble" else given.anchor(kind)

    first = trained(context(tmp_path))
    require_same(trained(context(tmp_path)), first)
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("trained-")
    before = path.read_bytes()
    trained(context(tmp_path))
    assert path.read_bytes() == before


def test_networks_of_other_settings_or_damaged_ones_are_not_used(tmp_path, caplog):
    first = context(tmp_path).anchor()
    for other in ({"seed": 1}, {"max_epochs": 1}, {"prior_variance": 0.2}):
        again = context(tmp_path, **other).anchor()
        assert again.histories != first.histories
    path = tmp_path / "trained-anchor.safetensors"
    context(tmp_path).anchor()  # the last of them was another's
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with caplog.at_level("WARNING"):
        again = context(tmp_path).anchor()
    assert "is damaged" in caplog.text
    assert again.seconds != first.seconds
    assert [h.train_loss for h in again.histories] == [h.train_loss for h in first.histories]


def test_the_folder_comes_before_what_this_process_has_trained(tmp_path):
    stored = context(tmp_path)
    stored.anchor()
    shared = context(None)
    mine = shared.anchor()
    with torch.no_grad():
        next(mine.models[0].parameters()).add_(1)  # as if other threads had trained it
    shared.folder = tmp_path
    theirs = shared.anchor()
    assert not torch.equal(next(theirs.models[0].parameters()), next(mine.models[0].parameters()))


def test_nothing_is_kept_without_a_folder_or_a_checkpoint(tmp_path):
    context(tmp_path, execution=Execution(checkpoint_every=None)).anchor()
    context(None).anchor()
    assert not list(tmp_path.iterdir())


def test_buffers_of_an_ensemble_come_back(tmp_path):
    def with_norm():
        given = context(tmp_path)
        torch.manual_seed(0)
        given.network = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 4), nn.BatchNorm1d(4), nn.Linear(4, 8)
        )
        return given

    first = with_norm().ensemble(2)
    again = with_norm().ensemble(2)
    norm, other = copy.deepcopy(first.models[1][2]), again.models[1][2]
    assert not torch.equal(norm.running_mean, first.models[0][2].running_mean)
    assert torch.equal(norm.running_mean, other.running_mean)
    assert torch.equal(first.posterior(2).positions, again.posterior(2).positions)


def run_folder(root, method, digest, seed=0):
    folder = root / "digits" / method / digest / f"seed-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_another_run_takes_what_was_trained_and_keeps_it(tmp_path):
    first = context(run_folder(tmp_path, "s-hmc", "aaa")).anchor()
    folder = run_folder(tmp_path, "s-smc", "bbb")
    require_same(context(folder, s=0.2).anchor(), first)
    shutil.rmtree(run_folder(tmp_path, "s-hmc", "aaa"))
    require_same(context(folder, s=0.2).anchor(), first)


def test_what_other_training_or_packages_made_is_not_taken(tmp_path, monkeypatch):
    first = context(run_folder(tmp_path, "s-hmc", "aaa")).anchor()
    shorter = context(run_folder(tmp_path, "s-hmc", "bbb"), max_epochs=1).anchor()
    assert [history.epochs for history in shorter.histories] == [1]
    other = context(run_folder(tmp_path, "s-hmc", "aaa", seed=1), seed=1).anchor()
    assert other.histories != first.histories
    again = context(run_folder(tmp_path, "s-hmc", "ccc"), retrain=True)
    assert again.anchor().seconds != first.seconds
    monkeypatch.setattr(trained_store, "software_versions", lambda: {"torch": "another"})
    assert context(run_folder(tmp_path, "s-hmc", "ddd")).anchor().seconds != first.seconds
