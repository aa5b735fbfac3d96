"""Many trainings as one batch are what `train_map` makes of each alone."""

import math

import pytest
import torch
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.likelihoods import as_likelihood
from sbmc.model.data import as_examples
from sbmc.model.parameters import select_parameters
from sbmc.training.settings import TrainingSettings
from sbmc.tuning import training
from sbmc.tuning.folds import make_folds
from sbmc.tuning.training import Job, train_jobs

HOW = TrainingSettings(
    prior_variance=1.0, learning_rate=0.05, batch_size=16, max_epochs=15, window=1, patience=1,
    initial="prior", seed=4,
)  # fmt: skip
VARIANCES = (0.05, 5.0)


def examples(count=90):
    inputs = torch.randn(count, 1, 6, 6)
    return as_examples((inputs, (inputs.mean((1, 2, 3)) > 0).long()))


def networks():
    small = nn.Sequential(nn.Flatten(), nn.Linear(36, 5), nn.Tanh(), nn.Linear(5, 2))
    convolution = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 2)
    )
    normed = nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    return {"dense": small, "convolution": convolution, "batch norm": normed}


def run(model, data, jobs, settings=HOW, likelihood="categorical"):
    found, reports = {}, []
    train_jobs(
        model, select_parameters(model), data, as_likelihood(likelihood), jobs, settings,
        found.__setitem__, reports.append,
    )  # fmt: skip
    assert sorted(found) == list(range(len(jobs)))
    assert reports == sorted(reports)
    assert reports[-1] == len(jobs) * settings.max_epochs
    return found


@pytest.mark.parametrize(
    ("name", "group"), [("dense", 48), ("dense", 4), ("convolution", 48), ("batch norm", 48)]
)
def test_each_job_is_what_train_map_makes_of_its_rows(name, group, monkeypatch):
    monkeypatch.setattr(training, "GROUP_JOBS", group)
    torch.manual_seed(0)
    model, data = networks()[name], examples()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    folds = make_folds(data.targets, 3, seed=0, share=0.2)
    jobs = [Job(v, fold.train, fold.validation) for v in VARIANCES for fold in folds]
    found = run(model, data, jobs)
    epochs = []
    for index, job in enumerate(jobs):
        alone = sbmc.train_map(
            model, data.select(job.train), data.select(job.validation), seed=4, batch_size=16,
            prior_variance=job.variance, learning_rate=0.05, max_epochs=15, window=1, patience=1,
            initial="prior",
        )  # fmt: skip
        assert found[index].epochs == alone.history.epochs
        epochs.append(found[index].epochs)
        for key, value in alone.state_dict().items():
            # `train_map` has its gradients from the compiled kernel and the jobs theirs from
            # autograd: after some hundred steps they differ by what rounding has grown to.
            trained = found[index].model.state_dict()[key]
            torch.testing.assert_close(trained, value, rtol=1e-4, atol=1e-4)
    assert len(set(epochs)) > 1, "jobs have to leave the batch one after another"
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_inputs_that_are_too_large_to_prepare_are_prepared_batch_by_batch(monkeypatch):
    model, data = networks()["convolution"], examples()
    folds = make_folds(data.targets, 2, seed=0)
    jobs = [Job(1.0, fold.train, fold.validation) for fold in folds]
    usual = run(model, data, jobs)
    monkeypatch.setattr(training, "PREPARED_BYTES", 0)
    lean = run(model, data, jobs)
    for index in usual:
        pairs = zip(usual[index].model.parameters(), lean[index].model.parameters(), strict=True)
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in pairs)


def test_a_job_that_fails_leaves_the_others_alone():
    data = as_examples((torch.randn(40, 3), torch.randn(40)))
    data.targets[:5] = 1e30  # its square overflows
    model = nn.Linear(3, 1)
    rows = torch.arange(5, 40)
    good = Job(1.0, rows[:30], rows[30:])
    bad = Job(1.0, torch.arange(30), rows[30:])
    data = as_examples((data.inputs, data.targets[:, None]))
    found = run(model, data, [bad, good], likelihood=sbmc.Gaussian(noise_variance=1.0))
    assert found[0].model is None
    assert found[0].epochs == 1
    weights = torch.cat([each.reshape(-1) for each in found[1].model.parameters()])
    assert math.isfinite(float(weights.detach().sum()))


def test_jobs_of_different_sizes_are_refused():
    data = examples(20)
    rows = torch.arange(20)
    jobs = [Job(1.0, rows[:10], rows[10:]), Job(1.0, rows[:11], rows[11:])]
    with pytest.raises(BadInput, match="`jobs` must be of one number of training rows"):
        train_jobs(
            networks()["dense"], select_parameters(networks()["dense"]), data,
            as_likelihood("categorical"), jobs, HOW, lambda index, trained: None,
        )  # fmt: skip
