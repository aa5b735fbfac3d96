"""The result: a weighted ensemble of parameter vectors that predicts with its uncertainty."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, cast

import torch
from torch import Tensor, nn

from sbmc.checks import require
from sbmc.islands.cost import Cost
from sbmc.islands.health import Health, assess
from sbmc.islands.island import IslandReport
from sbmc.likelihoods import Likelihood
from sbmc.model.calling import errors_in_words
from sbmc.model.data import Inputs, rows, tree_map
from sbmc.model.frozen_part import SplitModel
from sbmc.model.parameters import ParameterSpace
from sbmc.model.predicting import Predictor, build_evaluator
from sbmc.model.threads import Lock
from sbmc.posterior.compression import Compressible
from sbmc.posterior.dtypes import as_dtype, stored_as
from sbmc.posterior.living.methods import Living
from sbmc.posterior.mixture import Mixture
from sbmc.posterior.notebook import posterior_card
from sbmc.posterior.origin import fingerprint, origin_digest
from sbmc.posterior.sharing import Shareable
from sbmc.posterior.streaming import models, predict, samples
from sbmc.posterior.weights import Evidence, check_weighting, island_weights, mean_evidence
from sbmc.prediction.kinds import PredictionT
from sbmc.prediction.mixture import mixed_prediction
from sbmc.prediction.predictive import checked_level
from sbmc.prediction.samples import Samples
from sbmc.randomness import require_short_seed
from sbmc.target.probe import describe_rows

if TYPE_CHECKING:
    from sbmc.confidence import BaseConfidence
    from sbmc.posterior.living.reference import Reference
    from sbmc.posterior.recipe import Recipe
    from sbmc.prior.gaussian import AnchoredPrior


class Posterior(Compressible, Living, Shareable, Generic[PredictionT]):
    """A weighted ensemble of the model's parameters.

    For a type checker it is a `Posterior` of what it predicts; see `sbmc.prediction.kinds`.

    Attributes:
        positions: `(islands, particles, dim)` in the model's own coordinates. Several draws of a
            chain count as further particles. Islands that failed are not included. Their dtype may
            be a shorter one than `dtype` (`Compute.store_dtype`), and under a `memory_limit` they
            may be in a mapped file.
        weights: `(islands, particles)` float64, summing to 1.
        within: weights inside each island, every row summing to 1.
        weighting: how islands are combined, `"evidence"`, `"equal"` or, of a mixture, `"stacked"`.
        log_evidence: `(islands,)` float64; zero for MCMC and ensembles, which estimate none. Of a
            mixture, the logs of the islands' weights.
        islands: one report per island, failed ones included.
        cost: the cost of the run.
        settings: all that decided the result, as plain values.
        fitted_confidence: the result of `confidence`, saved and loaded with the posterior; or None.
        recipe: how to make the network and its inputs again, saved and loaded with the posterior;
            None unless `sbmc fit` made it.
    """

    def __init__(
        self,
        model: nn.Module,
        space: ParameterSpace,
        likelihood: Likelihood,
        positions: Tensor,
        *,
        log_evidence: Tensor,
        islands: Sequence[IslandReport],
        cost: Cost,
        settings: dict[str, Any],
        within: Tensor | None = None,
        weighting: str = "equal",
    ) -> None:
        self._model = copy.deepcopy(model)
        self._space = space
        self._likelihood = likelihood
        self.positions = positions
        if within is None:
            within = torch.full(positions.shape[:2], 1 / positions.shape[1], dtype=torch.float64)
        self.within = within
        self.weighting = weighting
        self.log_evidence = log_evidence
        self.weights = island_weights(log_evidence, within, weighting)
        self.islands = list(islands)
        self.cost = cost
        self.settings = settings
        self._evaluator: tuple[Predictor, SplitModel | None] | None = None
        self._evaluator_lock = Lock()
        self._origin: tuple[Tensor, int, Tensor, str] | None = None
        self.fitted_confidence: BaseConfidence | None = None
        self.recipe: Recipe | None = None
        self._reference: Reference | None = None
        self._input_description: dict[str, Any] | None = None
        # The data of `fit`, as given, for `distil`, `thin` and `update`; neither copied nor saved.
        self.training_data: Any = None
        # Of each island, set by `fit`: for diagnostics of the target's density, and for `update`.
        self.priors: list[AnchoredPrior] | None = None
        self.power = 1.0

    def __getstate__(self) -> dict[str, Any]:
        """What is copied or pickled: no data, and no evaluator, which is made when needed."""
        return {**self.__dict__, "_evaluator": None, "training_data": None}

    def __repr__(self) -> str:
        islands, particles, dim = self.positions.shape
        health = self.health
        # A posterior that was not sampled has no health to show.
        verdict = f", health={health.word!r}" if health.figures or health.ok is None else ""
        return f"Posterior(islands={islands}, particles={particles}, dim={dim}{verdict})"

    def _repr_html_(self) -> str:
        """HTML for a notebook: sizes, cost and health, with what to do if it is not ok."""
        return posterior_card(self)

    @property
    def model(self) -> nn.Module:
        """The network, with the weights of the anchor."""
        return self._model

    @property
    def dtype(self) -> torch.dtype:
        """The dtype in which predictions are computed, whatever the positions are stored as."""
        stored = "store_dtype" in self.settings
        return as_dtype(self.settings["dtype"]) if stored else self.positions.dtype

    @property
    def space(self) -> ParameterSpace:
        """The sampled parameters."""
        return self._space

    @property
    def likelihood(self) -> Likelihood:
        """The likelihood of the model's outputs."""
        return self._likelihood

    @property
    def input_description(self) -> dict[str, Any] | None:
        """Shapes, types and ranges of inputs and targets, if they are known; see `target.probe`."""
        probe = self.settings.get("probe")
        if not isinstance(probe, dict) or "inputs" not in probe:
            return self._input_description
        return {name: probe.get(name) for name in ("inputs", "targets")}

    @property
    def origin(self) -> str:
        """A digest of all that predictions depend on; it ties a confidence to its posterior."""
        version = 0 if self.positions.is_inference() else self.positions._version
        if self._origin is not None:
            positions, cached_version, weights, digest = self._origin
            if (
                positions is self.positions
                and cached_version == version
                and weights is self.weights
            ):
                return digest
        model = fingerprint(self._model, self._space)
        digest = origin_digest(self.positions, self.weights, self._space, model)
        self._origin = (self.positions, version, self.weights, digest)
        return digest

    @property
    def health(self) -> Health:
        """Whether particles moved and were accepted, with reasons and remedies; see `Health`."""
        return assess(self.islands, self.settings)

    @property
    def mixture(self) -> Mixture | None:
        """What a posterior of `s="auto"` is made of, with its weights; None for another one."""
        described = self.settings.get("mixture")
        return None if described is None else Mixture.from_dict(described)

    @property
    def island_ess(self) -> float:
        """Effective number of islands, 1 / Σ W_p²; near 1, one island has almost all weight."""
        return float(1 / self.weights.sum(1).square().sum())

    @property
    def evidence(self) -> Evidence | None:
        """The evidence of all islands together, Σ_p Z_p / P, as a log, with its standard error.

        It is None for MCMC and ensembles, which estimate none, and for islands with different
        anchors, whose priors differ: `log_evidence` has the value of each island. It is also None
        if the prior was chosen from the data, which makes the evidence too high to compare models
        by: `settings["evidence_withheld"]` says how. Islands of one run are still weighted by it.
        """
        if "evidence_withheld" in self.settings:
            return None
        if self.settings.get("anchors", 1) > 1:
            return None
        if any(r.outcome == "completed" and r.log_evidence is None for r in self.islands):
            return None
        return mean_evidence(self.log_evidence)

    def reweighted(self, weighting: str) -> Posterior[PredictionT]:
        """The same islands, combined in another way.

        Args:
            weighting: `"evidence"` or `"equal"`.

        Returns:
            A posterior that shares everything else with this one.

        Raises:
            BadInput: it is neither, or it is evidence for islands whose priors differ.
        """
        check_weighting(weighting, "weighting")
        good = weighting == "equal" or "anchors" not in self.settings
        rule = "'equal' with `anchors`, since evidence compares islands of one prior only"
        require(good, "weighting", rule, weighting)
        other = copy.copy(self)
        other.weighting = weighting
        other.weights = island_weights(self.log_evidence, self.within, weighting)
        other.settings = {**self.settings, "island_weights": weighting}
        other.fitted_confidence = None  # it has learned the features of these weights
        return other

    def predict(
        self,
        inputs: Any,
        *,
        batch_size: int | None = None,
        memory_limit: int | str | None = None,
        progress: bool | None = False,
        keep: str | None = None,
    ) -> PredictionT:
        """Predictive distribution of the ensemble, streamed in batches.

        Args:
            inputs: inputs of the model: a tensor, an array or a pandas table, a tuple or dict of
                them; a map-style `Dataset`, Hugging Face's included, which is read into memory; or
                a `DataLoader`, in its own order and batches. Targets of the last two are ignored.
            batch_size: examples per batch; by rule if not given.
            memory_limit: of this process, as for `Compute`; not for a `DataLoader`. What is
                predicted is not counted: its size is that of the inputs.
            progress: None for automatic, True for always.
            keep: `"outputs"` to keep what every particle says, `(particles, examples, ...)`, so
                that further questions (`interval`, `crps`, ...) need no second pass. Otherwise the
                prediction holds on to the posterior and the inputs, and computes it again.

        Returns:
            A `Prediction` for classification, otherwise a `RegressionPrediction`.

        Raises:
            BadInput: inputs are empty or not finite, or the limit is too small.
        """
        prediction = predict(
            self,
            inputs,
            batch_size=batch_size,
            memory_limit=memory_limit,
            progress=progress,
            keep=keep,
        )
        return cast("PredictionT", prediction)  # the likelihood decides which it is

    def samples(self, inputs: Any) -> Samples:
        """The outputs of every particle, with the particles' weights.

        Nothing is computed before it is asked for, and then for some examples at a time:

            for outputs in posterior.samples(x):  # (particles, rows, ...)

        Args:
            inputs: as for `predict`, but no `DataLoader`.

        Returns:
            The samples: `weights`, `outputs()` for all at once, `kept()`, indexing. Outputs are
            what the likelihood takes: logits, means, or means and what describes their noise.

        Raises:
            BadInput: inputs are a `DataLoader`.
        """
        return samples(self, inputs)

    def models(self) -> Iterator[tuple[nn.Module, float]]:
        """Go through the particles as modules.

        Yields:
            A copy of the model in evaluation mode with the weights of a particle, and the weight of
            this particle in the mixture. Particles of weight zero are left out, and so is noise
            that was learned beside the network: the module is what `fit` was given.
        """
        return models(self)

    def confidence(
        self,
        data: Any,
        ood: Any = None,
        *,
        threshold: float | str = "f1",
        seed: int = 0,
        width: Any = None,
        level: float = 0.9,
    ) -> Any:
        """Say when not to trust a prediction: a score, and a decision to answer or abstain.

        For classes a meta-classifier learns which predictions are wrong or out of domain. Numbers
        are answered where an interval of the width that you allow is likely to have the target.

        Args:
            data: `(inputs, targets)` in domain, preferably data that the model was not fitted to.
            ood: out-of-domain inputs, or groups of them by name; None to detect only errors.
            threshold: for classes: a number from 0 to 1, or `"f1"`: the F1-optimal one, by
                cross-validation.
            seed: of the meta-classifier.
            width: for numbers: the widest interval that is of use, a number or one for each output.
            level: for numbers: the probability that such an interval must have.

        Returns:
            A `Confidence`, or an `IntervalConfidence` for numbers; both have `score`, `abstain`,
            `decide` and `calibrate`. It is also stored as `fitted_confidence` and saved by `save`.

        Raises:
            BadInput: data of one class only (see `sbmc.confidence.fit_confidence`), or numbers
                without a width.
        """
        from sbmc.confidence import fit_confidence, fit_interval_confidence

        checked_level(level)
        require_short_seed(seed)
        options: dict[str, Any] = {"origin": self.origin}
        if self._likelihood.classification:
            require(width is None, "width", "left out for classes, which have no intervals", width)
            options |= {"threshold": threshold, "seed": seed}
            self.fitted_confidence = fit_confidence(self.predict, data, ood, **options)
        else:
            options |= {"width": width, "level": level}
            self.fitted_confidence = fit_interval_confidence(self.predict, data, ood, **options)
        return self.fitted_confidence

    def to_arviz(self, *, draws: int | None = None) -> Any:
        """The posterior as `arviz.InferenceData`; needs the extra `pip install 'sbmc[arviz]'`.

        Args:
            draws: per chain; by the settings of the run if not given.

        Returns:
            See `sbmc.diagnostics.arviz.to_arviz`.

        Raises:
            ImportError: ArviZ is not installed.
        """
        from sbmc.diagnostics.arviz import to_arviz

        return to_arviz(self, draws=draws)

    def save(self, path: str | Path, *, dtype: torch.dtype | str | None = None) -> None:
        """Write a file (safetensors), which `sbmc.load` reads; positions are stored in `dtype`."""
        from sbmc.posterior.saving import save

        save(self if dtype is None else stored_as(self, dtype), self._model, path)

    def _predict_batch(
        self, weights: Tensor, chosen: Tensor | None, batch: Inputs, most: int | None = None
    ) -> Any:
        theta = self.positions.flatten(0, 1)
        batch = tree_map(lambda t: t.to(theta.device), batch)
        with torch.no_grad(), errors_in_words(self._model, batch, "inputs"):
            predictor, split = self._predictor_for(batch)
            inputs = batch if split is None else split.features(batch)
            parts = predictor.outputs(theta, inputs, self.dtype, most, chosen)
            return mixed_prediction(self._likelihood, ((o, weights[part]) for part, o in parts))

    def outputs(
        self, theta: Tensor, inputs: Inputs, most: int | None = None, chosen: Tensor | None = None
    ) -> Tensor:
        """The network's outputs `(particles, examples, K)` at parameters `(particles, dim)`.

        At most `most` particles go through the model together; by rule if it is None. `chosen` has
        the indices of those that are to go through; all if it is None.
        """
        with torch.no_grad(), errors_in_words(self._model, inputs, "inputs"):
            predictor, split = self._predictor_for(inputs)
            features = inputs if split is None else split.features(inputs)
            parts = predictor.outputs(theta, features, self.dtype, most, chosen)
            return torch.cat([outputs for _, outputs in parts])

    def _predictor_for(self, inputs: Inputs) -> tuple[Predictor, SplitModel | None]:
        """The predictor, which is built by the first thread that needs it."""
        with self._evaluator_lock:
            if self._evaluator is None:
                few = tree_map(lambda t: t.to(self.positions.device), rows(inputs, 0, 2))
                forward, split = build_evaluator(self._model, self._space, few, inputs)
                self._input_description = {"inputs": describe_rows(few)}
                few = few if split is None else split.features(few)
                theta = self.positions.flatten(0, 1)[0].to(self.dtype)
                self._evaluator = Predictor.build(forward, theta, few), split
            return self._evaluator
