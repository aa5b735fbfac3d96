"""What training says about its progress: epochs that were trained, and whether it stopped early."""

import re

import torch
from torch import nn

import sbmc

INPUTS = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
# Labels without a pattern, so that the validation loss soon rises.
LABELS = torch.randint(2, (60,), generator=torch.Generator().manual_seed(1))
TRAIN, VALIDATION = (INPUTS[:40], LABELS[:40]), (INPUTS[40:], LABELS[40:])
OPTIONS = {"learning_rate": 0.05, "progress": True, "prior_variance": 1.0}


def test_a_network_that_stops_early_has_the_epochs_that_it_was_trained(capsys):
    trained = sbmc.train_map(nn.Linear(3, 2), TRAIN, VALIDATION, max_epochs=1000, **OPTIONS)
    epochs = trained.history.epochs
    assert epochs < 1000
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"training: {epochs}/1000 epochs, stopped early, validation loss ")


def test_members_are_added_up(capsys):
    ensemble = sbmc.train_ensemble(
        nn.Linear(3, 2), TRAIN, VALIDATION, members=3, member_chunk=2, max_epochs=500, **OPTIONS
    )
    total = sum(history.epochs for history in ensemble.histories)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"training 3 members: {total}/1500 epochs, stopped early, still tr")


def test_training_to_the_end_does_not_stop_early(capsys):
    sbmc.train_map(nn.Linear(3, 2), TRAIN, max_epochs=4, **OPTIONS)
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.match(r"training: 4/4 epochs, ended after ", last)
