"""Data sets and loaders that are read in passes: the rules, the refusals, and what is sampled."""

from __future__ import annotations

import os
import random
import re
import signal

import numpy as np
import pytest
import torch
from targets import conjugate_regression
from torch import nn
from torch.utils.data import (
    ChainDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    get_worker_info,
)

import sbmc
from sbmc.checks import BadInput
from sbmc.fitting import reach, streaming
from sbmc.model import stream_survey
from sbmc.model.data import Examples
from sbmc.model.streams import MapSource, open_stream
from sbmc.samplers import auto_hmc, inside_a_pass
from sbmc.target.minibatch import MiniBatches
from sbmc.target.streaming import require_all_data
from sbmc.target.target import Evaluation

ROWS = 60
INPUTS = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(0))
TARGETS = (INPUTS[:, 0] > 0).long()
DATA = TensorDataset(INPUTS, TARGETS)
SGHMC = sbmc.SGHMC(epochs=4, step_size=0.01, batch_size=16)


class Iterated(IterableDataset):
    """Rows in order or shuffled; by each worker all of them, or a part of its own."""

    def __init__(self, rows=ROWS, *, shuffle=False, parted=False, length=None):
        self.rows, self.shuffle, self.parted, self.length = rows, shuffle, parted, length

    def __iter__(self):
        order = torch.randperm(self.rows) if self.shuffle else torch.arange(self.rows)
        worker = get_worker_info()
        if worker is not None and self.parted:
            order = torch.arange(worker.id, self.rows, worker.num_workers)
        for i in order.tolist():
            yield INPUTS[i], TARGETS[i]


class Sized(Iterated):
    def __len__(self):
        return self.rows


class Augmented(Dataset):
    """Rows with noise that is another each time."""

    def __init__(self, draw=lambda: float(torch.randn(()))):
        self.draw = draw

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        return INPUTS[index] + 0.1 * self.draw(), TARGETS[index]


class Fails(Dataset):
    """Rows, until so many have been read."""

    def __init__(self, reads):
        self.left = reads

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        self.left -= 1
        if self.left < 0:
            raise OSError("the disk is gone")
        return DATA[index]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def fitted(data, sampler=SGHMC, compute=None, model=None, **options):
    options = {"s": 0.1, "particles": 3, "progress": False, **options}
    compute, model = sbmc.Compute(**(compute or {})), network() if model is None else model
    return sbmc.fit(model, data, sampler=sampler, compute=compute, **options)


def streamed(data, sampler=SGHMC, compute=None, **options):
    return fitted(data, sampler, {"streaming": True, **(compute or {})}, **options)


def refused(words, data, sampler=SGHMC, compute=None, **options):
    with pytest.raises(BadInput, match=re.escape(words)):
        fitted(data, sampler, compute, **options)


def test_a_shared_batch_gives_the_estimates_of_that_batch_for_each_particle():
    held = sbmc.build_target(network(), DATA, s=0.1)
    batches = MiniBatches(held)
    positions = torch.randn(4, held.dim)
    index = torch.tensor([5, 1, 40, 33, 2])
    expected = batches(positions, index.expand(4, -1))
    found = batches.shared(positions, Examples(INPUTS[index], TARGETS[index]))
    torch.testing.assert_close(found.log_likelihood, expected.log_likelihood)
    torch.testing.assert_close(found.gradient, expected.gradient, rtol=1e-4, atol=1e-4)
    assert held.evaluations.gradient == 2 * 4 * 5 // ROWS


def test_settings_say_that_particles_share_batches():
    posterior = streamed(DATA)
    assert posterior.settings["streaming"] is True
    assert posterior.settings["batches"] == "shared by the particles of an island"
    assert "augment" not in posterior.settings
    assert "streaming" not in fitted(DATA).settings
    assert posterior.cost.epochs == 4
    assert posterior.islands[0].steps == 16


@pytest.mark.parametrize(
    "sampler",
    [SGHMC, sbmc.SGLD(epochs=2, step_size=1e-3), sbmc.UBU(epochs=4, step_size=0.01, batch_size=16)],
)
def test_the_loader_decides_nothing(sampler):
    """Neither its shuffling nor its batches nor its workers change a bit."""
    expected = streamed(DATA, sampler).positions
    for loader in (
        DataLoader(DATA, 7, shuffle=True),
        DataLoader(DATA, 100, drop_last=True, num_workers=2),
    ):
        assert torch.equal(streamed(loader, sampler).positions, expected)


def test_an_island_has_the_same_bits_among_others():
    several = streamed(DATA, islands=2)
    assert torch.equal(several.positions[0], streamed(DATA).positions[0])
    assert not torch.equal(several.positions[0], several.positions[1])


@pytest.mark.integration
@pytest.mark.parametrize("parameters", ["all", "last"])
def test_another_process_reads_the_stream_itself(parameters):
    here = streamed(DATA, parameters=parameters)
    there = streamed(DATA, compute={"executor": "processes"}, parameters=parameters)
    assert torch.equal(here.positions, there.positions)


def test_iterable_data_are_streamed_in_any_order():
    plain, shuffled = fitted(Iterated()), fitted(Iterated(shuffle=True))
    assert plain.settings["streaming"]
    # The same rows, and the same few of them that stand for all.
    assert plain.settings["identity"]["data"] == shuffled.settings["identity"]["data"]
    assert plain.settings["probe"] == shuffled.settings["probe"]
    assert torch.equal(fitted(Iterated(shuffle=True)).positions, shuffled.positions)
    loader = DataLoader(Iterated(parted=True), batch_size=9, num_workers=2)
    assert fitted(loader).settings["identity"]["data"] == plain.settings["identity"]["data"]


def test_the_frozen_part_is_computed_for_each_batch():
    posterior = streamed(DATA, parameters="last")
    assert posterior.settings["frozen_below"]
    assert len(posterior.predict(INPUTS).mean) == ROWS


@pytest.mark.parametrize("sampler", [SGHMC, sbmc.AutoHMC(epochs=4)], ids=["sghmc", "auto"])
@pytest.mark.parametrize("between", [0.0, 1e9], ids=["inside a pass", "after a pass"])
def test_a_run_that_was_stopped_goes_on_with_the_same_bits(tmp_path, monkeypatch, between, sampler):
    monkeypatch.setattr(inside_a_pass, "SECONDS_BETWEEN_OFFERS", between)
    # Twenty batches in a pass: their heat is read after the first ten, where the run can stop.
    monkeypatch.setattr(auto_hmc, "batch_size_of", lambda examples: 3)
    monkeypatch.setattr(auto_hmc, "BATCH_SIZE", 1)
    folder = sbmc.CheckpointAt(tmp_path / "run", every=0)
    undisturbed = streamed(DATA, sampler).positions
    with pytest.raises(BadInput, match="an error in its batch"):
        # The first pass over all rows, two of sampling, and a part of the third.
        streamed(Fails(3 * ROWS + 45), sampler, {"checkpoint": folder, "retries": 0})
    resumed = streamed(DATA, sampler, {"checkpoint": folder})
    assert torch.equal(resumed.positions, undisturbed)


def test_the_first_pass_shows_its_progress_also_where_nobody_knows_its_length(capfd):
    for data, total in ((DATA, "/60"), (Iterated(), "")):
        # On standard error, since this is no terminal.
        fitted(data, sbmc.SGHMC(epochs=1, step_size=0.01), {"streaming": True}, progress=True)
        assert f"reading the data: 60{total} rows, ended after" in capfd.readouterr().err


class TestTheDefaultSampler:
    """Without a sampler, a stream is sampled by the one that tunes itself, in passes alone."""

    def test_takes_streams_of_any_kind_and_says_what_it_does(self, caplog):
        caplog.set_level("INFO", logger="sbmc")
        for data in (Iterated(), DataLoader(Iterated(), 7)):
            posterior = fitted(data, None, s=None, budget=1)
            assert posterior.settings["sampler"] == "AutoHMC"
            assert posterior.settings["s"] == 0.1
            assert posterior.settings["batches"] == "shared by the particles of an island"
        assert "mini-batches alone, since the data are streamed; the posterior" in caplog.text
        assert "data are streamed, so that no rows choose s: it is 0.1 by rule" in caplog.text

    def test_counts_all_rows_and_not_those_that_stand_for_all(self, monkeypatch):
        monkeypatch.setattr(stream_survey, "KEPT_ROWS", 16)
        held, budget = fitted(DATA, None, s=None), "4 trainings of 200 epochs (assumed from 60"
        found = streamed(DATA, None, s=None)
        assert budget in found.settings["budget"]
        assert budget in held.settings["budget"]
        assert "a chain on streamed data has 63 at most" in found.settings["budget"]
        assert found.settings["sampler_settings"]["epochs"] == 63
        assert found.cost.epochs == 63

    def test_narrows_s_for_many_rows(self, monkeypatch):
        monkeypatch.setattr(reach, "MANY_EXAMPLES", ROWS // 10)
        posterior = streamed(DATA, None, s=None)
        assert posterior.settings["s"] == 0.01
        assert "mini-batches of 60 examples" in posterior.settings["s_reason"]

    def test_reads_batches_that_can_be_held(self, monkeypatch):
        monkeypatch.setattr(auto_hmc, "STREAMED_BYTES", 12 * 20)  # three floats a row
        monkeypatch.setattr(auto_hmc, "BATCH_SIZE", 1)
        sizes, shared = [], MiniBatches.shared

        def noted(batches, positions, batch):
            sizes.append(len(batch))
            return shared(batches, positions, batch)

        monkeypatch.setattr(MiniBatches, "shared", noted)
        streamed(DATA, sbmc.AutoHMC(epochs=2))
        assert sizes == [20] * 6

    def test_rows_that_come_or_go_are_noticed(self):
        class Longer(Iterated):
            def __iter__(self):
                yield from super().__iter__()
                self.rows += 1

        words = "data of 40 rows in each pass, as in the first, but got 41"
        refused(words, Longer(40), None)

    def test_has_the_posterior_of_a_linear_model_but_for_its_bias(self):
        """Squared errors in units of the exact variance; the median leaves out what blew up."""
        problem = conjugate_regression(3, examples=1_000)
        rows = TensorDataset(problem.inputs, problem.targets)
        posterior = streamed(
            rows,
            sbmc.AutoHMC(epochs=20),
            model=problem.model,
            s=1.0,
            prior_variance=problem.prior_variance,
            likelihood=sbmc.Gaussian(noise_variance=problem.noise_variance),
            particles=10,
            islands=40,
        )
        precision = problem.inputs.T @ problem.inputs / problem.noise_variance
        precision += torch.eye(3, dtype=torch.float64) / problem.prior_variance
        covariance = precision.inverse()
        mean = covariance @ problem.inputs.T @ problem.targets / problem.noise_variance
        errors = (posterior.positions - mean) / covariance.diagonal().sqrt()
        # Annealed steps leave little of the noise of mini-batches.
        of_islands = errors.square().mean((1, 2))
        assert 0.7 < of_islands.median() < 1.4


def test_data_sets_that_are_too_large_are_streamed_and_said(monkeypatch, caplog):
    monkeypatch.setattr(streaming, "STREAM_BYTES", ROWS * 20 - 1)  # three floats and a label
    assert fitted(DATA).settings["streaming"]
    assert "they would take 1.2 kB of memory, more than 1.2 kB" in caplog.text
    assert "streaming" not in fitted(DATA, compute={"streaming": False}).settings
    refused(
        "or hold them in memory, compute=sbmc.Compute(streaming=False)", DATA, sbmc.HMC(steps=2)
    )
    monkeypatch.setattr(streaming, "STREAM_BYTES", ROWS * 20)
    assert "streaming" not in fitted(DATA).settings


def test_augmentation_is_by_consent_reproducible_and_leaves_other_random_numbers_alone():
    refused("two reads that differ; `fit` samples with random augmentation", Augmented())
    refused("two reads that differ", Augmented(), compute={"streaming": True})
    for draw in (
        lambda: float(torch.randn(())),
        lambda: random.gauss(0, 1),
        lambda: np.random.normal(),  # noqa: NPY002
    ):
        torch.manual_seed(1)
        random.seed(1)
        before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1][0]  # noqa: NPY002
        posterior = fitted(Augmented(draw), compute={"augment": True})
        assert posterior.settings["augment"] is True
        after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1][0]  # noqa: NPY002
        # `network()` seeds torch itself.
        assert before[1:] == after[1:]
        again = fitted(Augmented(draw), compute={"augment": True})
        assert torch.equal(again.positions, posterior.positions)
    assert not torch.equal(posterior.positions, streamed(DATA).positions)


def test_augmented_data_are_other_in_each_pass():
    stream = open_stream(MapSource(Augmented(), range(ROWS)), augmented=True)
    order = torch.arange(ROWS).split(16)
    passes = [[batch.inputs for batch in stream.read_pass(order, 16, seed)] for seed in (1, 2, 1)]
    assert not torch.equal(passes[0][0], passes[1][0])
    assert torch.equal(passes[0][0], passes[2][0])


class Interrupted(Dataset):
    """Each worker is interrupted, as by Ctrl-C in a shell, which reaches all processes."""

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        if get_worker_info() is not None:
            os.kill(os.getpid(), signal.SIGINT)
        return DATA[index]


@pytest.mark.integration
def test_ctrl_c_is_for_the_process_that_reads_and_not_for_its_workers():
    loader = DataLoader(Interrupted(), 20, num_workers=2)
    assert torch.equal(streamed(loader).positions, streamed(DATA).positions)


@pytest.mark.integration
def test_persistent_workers_change_nothing_and_a_loader_is_left_as_it_was():
    """A worker that outlives a pass would have other random numbers after a checkpoint."""
    data, expected = Shuffling(), None
    generator = torch.Generator().manual_seed(3)
    for persistent in (False, True):
        loader = DataLoader(
            data, 10, num_workers=2, persistent_workers=persistent, generator=generator
        )
        before = dict(vars(loader))
        positions = fitted(loader).positions
        assert vars(loader) == before
        assert expected is None or torch.equal(positions, expected)
        expected = positions


class Shuffling(IterableDataset):
    """Each worker's part of the rows, in another order each time."""

    def __iter__(self):
        worker = get_worker_info()
        part = torch.arange(worker.id, ROWS, worker.num_workers)
        for i in part[torch.randperm(len(part))].tolist():
            yield INPUTS[i], TARGETS[i]


def test_an_error_of_a_data_set_is_told_with_the_batch():
    for workers in (0, 2):
        words = "data that can be read, but got an error in its batch 0 (the disk is gone)"
        refused(words, DataLoader(Fails(3), 10, num_workers=workers), compute={"streaming": True})


def test_rows_of_other_shapes_are_told_with_both_shapes():
    class Ragged(Iterated):
        def __iter__(self):
            for row, target in super().__iter__():
                yield (row[:2] if self.rows == 40 else row), target

    chained = ChainDataset([Ragged(20), Ragged(40)])
    refused(
        "rows of one shape and dtype in all batches, but got inputs float32 of shape (rows, 2) "
        "with targets int64 of shape (rows) after inputs float32 of shape (rows, 3)",
        DataLoader(chained, 20),
    )


@pytest.mark.parametrize(
    ("words", "data", "options"),
    [
        (
            "an iterable data set whose workers read different rows (each has to read a part of "
            "its own: torch.utils.data.get_worker_info; or num_workers=0), but got each row 2 "
            "times",
            DataLoader(Iterated(), 10, num_workers=2),
            "sghmc",
        ),
        ("`data` must be non-empty, but got 0 examples", Subset(DATA, []), "streamed"),
        ("`data` must be non-empty", DataLoader(Subset(DATA, []), 10), "streamed"),
        ("such as sbmc.SGHMC() or sbmc.AutoHMC with fewer than 64", Iterated(), "hmc"),
        ("epochs, for iterable data, but got AutoHMC", Iterated(), "long"),
        ("without backward passes, such as sbmc.SGHMC", Iterated(), "ubu"),
        ("`streaming` must be left out, or True, for an iterable", Iterated(), "held"),
        ("`data` must be non-empty", Iterated(0), "sghmc"),
        (
            "without drop_last: rows that it drops would be no data",
            DataLoader(Iterated(), 7, drop_last=True),
            "sghmc",
        ),
        (
            "of 60 rows, as its length says (with workers, each has to read a part of its own",
            DataLoader(Sized(), 10, num_workers=2),
            "sghmc",
        ),
        ("since `streaming` is set; or hold them in memory", DATA, "streamed hmc"),
        ("since `augment` is set, but got HMC", Augmented(), "augmented hmc"),
        ("`streaming` must be left out for arrays", (INPUTS, TARGETS), "streamed"),
        ("`augment` must be left out for arrays", (INPUTS, TARGETS), "augmented"),
        ("`s` must be a number, or left out, for streamed data", Iterated(), "auto"),
        ("`weights` must be left out: rows of a stream", Iterated(), "weights"),
        ("`prior_variance` must be other than 'evidence'", Iterated(), "evidence"),
        ("`prior` must be without a covariance of curvature", Iterated(), "laplace"),
        ("`validation` must be left out", Iterated(), "validation"),
    ],
)
@pytest.mark.filterwarnings("ignore:Length of IterableDataset")
def test_what_needs_all_data_is_refused_with_the_remedy(words, data, options):
    chosen = {
        "sghmc": {},
        "hmc": {"sampler": sbmc.HMC(steps=2)},
        "long": {"sampler": sbmc.AutoHMC(epochs=64)},
        "ubu": {"sampler": sbmc.UBU(epochs=2, step_size=0.01)},
        "held": {"compute": {"streaming": False}},
        "streamed": {"compute": {"streaming": True}},
        "streamed hmc": {"sampler": sbmc.HMC(steps=2), "compute": {"streaming": True}},
        "augmented": {"compute": {"augment": True}},
        "augmented hmc": {"sampler": sbmc.HMC(steps=2), "compute": {"augment": True}},
        "auto": {"s": "auto"},
        "weights": {"weights": torch.ones(ROWS)},
        "evidence": {"prior_variance": "evidence"},
        "laplace": {"prior": sbmc.Prior(covariance="laplace")},
        "validation": {"validation": DATA},
    }[options]
    refused(words, data, **chosen)


def test_augmentation_that_is_held_is_refused():
    with pytest.raises(BadInput, match="`streaming` must be left out, or True, with `augment`"):
        sbmc.Compute(augment=True, streaming=False)
    for name in ("augment", "streaming"):
        with pytest.raises(BadInput, match=f"`{name}` must be"):
            sbmc.Compute(**{name: "yes"})


def test_rows_that_come_or_go_are_noticed():
    class Growing(Iterated):
        def __iter__(self):
            self.rows -= 1
            return super().__iter__()

    refused("`data` must be data of 59 rows in each pass, as in the first, but got 58", Growing())


def test_rows_are_checked_as_they_are_read():
    spoiled = INPUTS.clone()
    spoiled[33, 1] = torch.nan
    refused("NaN or infinite", TensorDataset(spoiled, TARGETS), compute={"streaming": True})
    labels = TARGETS.clone()
    labels[-1] = 7
    refused("targets", TensorDataset(INPUTS, labels), compute={"streaming": True})


def test_an_evaluation_of_all_data_is_refused():
    require_all_data(None)
    with pytest.raises(BadInput, match=r"such as sbmc\.SGHMC, take these"):
        require_all_data(object())


def test_the_cost_is_forecast_without_a_pass():
    expected = sbmc.expect(
        network(), DATA, s=0.1, sampler=SGHMC, compute=sbmc.Compute(streaming=True)
    )
    assert expected.epochs == 4


def _of_the_batch_alone(shared):
    def unscaled(self, positions, batch):
        value, gradient = shared(self, positions, batch)
        share = len(batch) / len(self)
        return Evaluation(share * value, share * gradient)

    return unscaled


@pytest.mark.parametrize("spoiled", [False, True])
def test_streams_sample_the_posterior_of_all_rows(monkeypatch, spoiled):
    """Linear regression with known noise: mean and spread of 2 × 40 particles, false alarm 1e-6.

    With batches that stand for themselves alone the posterior would be three times as wide.
    """
    inputs, noise = INPUTS.double(), 0.5
    targets = inputs @ torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64) + 0.3
    model = nn.Linear(3, 1, dtype=torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    columns = torch.cat([inputs, torch.ones(ROWS, 1, dtype=torch.float64)], 1)
    precision = columns.T @ columns / noise + torch.eye(4, dtype=torch.float64)
    mean = torch.linalg.solve(precision, columns.T @ targets / noise)
    deviation = precision.inverse().diagonal().sqrt()
    if spoiled:
        monkeypatch.setattr(MiniBatches, "shared", _of_the_batch_alone(MiniBatches.shared))
    posterior = sbmc.fit(
        model,
        TensorDataset(inputs, targets.unsqueeze(1)),
        s=1.0,
        prior_variance=1.0,
        likelihood=sbmc.Gaussian(noise_variance=noise),
        sampler=sbmc.SGHMC(epochs=150, step_size=0.02, batch_size=6),
        particles=40,
        islands=2,
        progress=False,
        compute=sbmc.Compute(streaming=True),
    )
    particles = posterior.positions.flatten(0, 1)
    # Shared batches make the errors of particles correlated: the bounds have room for that.
    assert ((particles.mean(0) - mean).abs() < 1.5 * deviation).all() or spoiled
    ratio = particles.std(0) / deviation
    assert bool(((ratio > 0.6) & (ratio < 1.6)).all()) is not spoiled


def test_a_stream_is_not_divided_among_ranks():
    refused("`shards` must be left out: ranks hold", DATA, compute={"streaming": True, "shards": 2})
