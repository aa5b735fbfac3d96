"""Trains, samples and scores the cells of a tuning that have not been saved yet."""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from dataclasses import dataclass
from typing import Any

from torch import nn

from sbmc.fitting.compute import USUAL_COMPUTE, Compute
from sbmc.fitting.fit import fit
from sbmc.likelihoods import Likelihood
from sbmc.model.data import Examples
from sbmc.model.parameters import ParameterSpace
from sbmc.posterior.posterior import Posterior
from sbmc.prediction.metrics import accuracy, ece, nll, rmse
from sbmc.prediction.prediction import Prediction
from sbmc.progress import open_progress
from sbmc.storage.provenance import hardware_summary, software_versions
from sbmc.training.settings import TrainingSettings
from sbmc.tuning.folds import Fold
from sbmc.tuning.grid import beyond
from sbmc.tuning.result import Cell, Tuning
from sbmc.tuning.saved_cells import SavedCells
from sbmc.tuning.training import Job, Trained, train_jobs


@dataclass
class TuningRunner:
    """Trains, samples and scores.

    Args:
        model: the network; never changed.
        space: the parameters that are trained and sampled.
        family: the likelihood.
        examples: all examples, checked.
        folds: the folds of the examples.
        training: settings of training, except the prior variance.
        options: arguments of `fit`, except s, the prior variance and the island.
        saved_cells: the cells that are done; those that follow are added to it.
        progress: as for `fit`.
    """

    model: nn.Module
    space: ParameterSpace
    family: Likelihood
    examples: Examples
    folds: list[Fold]
    training: TrainingSettings
    options: dict[str, Any]
    saved_cells: SavedCells
    progress: bool | None

    def search(
        self, variances: tuple[float, ...], scales: tuple[float, ...], extensions: int
    ) -> Tuning:
        """Choose v, then s."""
        self._train(variances)
        grid = list(variances)
        added: list[float] = []
        for _ in range(extensions):
            further = beyond(grid, self.saved_cells.update(extended=tuple(added)).v)
            if further is None:
                break
            added.append(further)
            grid = sorted([*grid, further])
            self._train((further,))
        chosen = self.saved_cells.update(extended=tuple(added)).v
        self.saved_cells.drop_models(but=[chosen])
        self._sample(chosen, scales)
        return self.saved_cells.update(
            complete=True, versions=software_versions(), hardware=hardware_summary()
        )

    def _train(self, variances: tuple[float, ...]) -> None:
        """Train the MAP of every v and fold that is missing, as one batch."""
        cells = [(v, k) for v in variances for k in range(len(self.folds))]
        self._train_cells(
            [cell for cell in cells if not self.saved_cells.has(cell[0], None, cell[1])]
        )

    def _train_cells(self, cells: list[tuple[float, int]]) -> None:
        if not cells:
            return
        jobs = [Job(v, self.folds[k].train, self.folds[k].validation) for v, k in cells]
        values = sorted({v for v, _ in cells})
        shown = f"v = {values[0]:g}" if len(values) == 1 else f"{len(values)} values of v"
        name = f"training, {shown}, {len(cells)} networks"
        total = len(jobs) * self.training.max_epochs
        with open_progress(self.progress, name, total=total, unit="epochs") as bar:

            def finished(index: int, trained: Trained) -> None:
                v, fold = cells[index]
                scores = {} if trained.model is None else self._score_map(trained.model, v, fold)
                cell = Cell(v, None, fold, scores, trained.epochs, round(trained.seconds, 3))
                self.saved_cells.add(cell, trained.model)

            train_jobs(
                self.model,
                self.space,
                self.examples,
                self.family,
                jobs,
                self.training,
                finished,
                bar.update,
            )

    def _sample(self, v: float, scales: tuple[float, ...]) -> None:
        """Run the sampler at every s and fold that is missing, one after another."""
        count = len(self.folds)
        missing = [
            (s, k) for s in scales for k in range(count) if not self.saved_cells.has(v, s, k)
        ]
        # The networks are missing if a folder was copied without them.
        absent = [k for k in range(count) if self.saved_cells.model(v, k, self.model) is None]
        self._train_cells([(v, k) for k in absent if any(k == fold for _, fold in missing)])
        name = f"sampling, v = {v:g}, {len(scales)} values of s"
        total = len(scales) * count
        with open_progress(
            self.progress, name, total=total, unit="fits", before=total - len(missing)
        ) as bar:
            for done, (s, fold) in enumerate(missing, total - len(missing)):
                bar.update(done, s=s, fold=fold + 1)
                self.saved_cells.add(self._fit(v, s, fold))
            bar.update(total)

    def _fit(self, v: float, s: float, fold: int) -> Cell:
        model = self.saved_cells.model(v, fold, self.model)
        if model is None:  # its training failed
            return Cell(v, s, fold, {}, 0.0, 0.0)
        if s == 0:
            map_cell = self.saved_cells.get(v, None, fold)
            return Cell(v, s, fold, map_cell.scores, 0.0, 0.0)
        began = time.perf_counter()
        examples = self.examples.select(self.folds[fold].seen)
        try:
            with warnings.catch_warnings():
                # A collapsed population, or weight on one island, shows in the score.
                warnings.simplefilter("ignore", RuntimeWarning)
                posterior = fit(
                    model,
                    examples,
                    s=s,
                    prior_variance=v,
                    **{**self.options, "compute": self._compute(fold)},
                )
        except RuntimeError:
            return Cell(v, s, fold, {}, 0.0, round(time.perf_counter() - began, 3))
        scores = self._score(posterior, fold)
        epochs = posterior.cost.epochs + posterior.cost.forward_epochs
        return Cell(v, s, fold, scores, epochs, round(time.perf_counter() - began, 3))

    def _compute(self, fold: int) -> Compute:
        # Every fold has its own noise, which is the same for every s.
        compute = self.options.get("compute", USUAL_COMPUTE)
        return dataclasses.replace(compute, anchor_epochs=0.0, first_island=fold)

    def _score_map(self, model: nn.Module, v: float, fold: int) -> dict[str, float]:
        names = ("likelihood", "parameters")
        same = {name: self.options[name] for name in names}
        few = self.examples.select(self.folds[fold].validation)
        return self._score(fit(model, few, s=0, prior_variance=v, progress=False, **same), fold)

    def _score(self, posterior: Posterior, fold: int) -> dict[str, float]:
        inputs, targets = self.examples.select(self.folds[fold].held_out)
        prediction = posterior.predict(inputs)
        if isinstance(prediction, Prediction):
            probs = prediction.probs
            scores = {
                "nll": nll(probs, targets),
                "accuracy": accuracy(probs, targets),
                "ece": ece(probs, targets),
            }
        else:
            scores = {"nll": nll(prediction, targets), "rmse": rmse(prediction, targets)}
        finite = all(map(math.isfinite, scores.values()))
        return {name: float(f"{value:.8g}") for name, value in scores.items()} if finite else {}
