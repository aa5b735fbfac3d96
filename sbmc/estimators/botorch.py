"""A posterior as a model of BoTorch, for Bayesian optimisation with its acquisition functions.

    model = SBMCModel(posterior)
    acquisition = qLogExpectedImprovement(model, best_f=y.max())
    candidates, _ = optimize_acqf(acquisition, bounds, q=2, num_restarts=8, raw_samples=128)

It needs the extra `pip install 'sbmc[botorch]'`.
"""

from __future__ import annotations

import copy
from typing import Any, Never

import torch
from torch import Tensor, nn

from sbmc.checks import BadInput, Phrase, describe_value, is_whole, require
from sbmc.model.calling import errors_in_words
from sbmc.model.data import as_inputs, check_inputs
from sbmc.model.forward import build_forward
from sbmc.model.functional import converted
from sbmc.posterior.input_batches import weighted_particles
from sbmc.posterior.posterior import Posterior
from sbmc.storage.arrays import require_plain
from sbmc.storage.optional import without_script_warning
from sbmc.target.probe import made_up_rows

try:
    with without_script_warning():
        from botorch.acquisition.objective import PosteriorTransform
        from botorch.models.model import Model
        from botorch.models.transforms.input import InputTransform
        from botorch.models.transforms.outcome import OutcomeTransform
        from botorch.posteriors.ensemble import EnsemblePosterior
        from botorch.sampling.get_sampler import GetSampler
        from botorch.sampling.index_sampler import IndexSampler
except ImportError as error:
    raise ImportError(
        "Models for Bayesian optimisation are BoTorch's, which is not installed: "
        "pip install 'sbmc[botorch]'"
    ) from error

__all__ = ["ParticlePosterior", "ParticleSampler", "SBMCModel"]

REFIT = (
    "Particles cannot be conditioned in closed form as a Gaussian process can: fit again with the "
    "new rows (sbmc.fit, or posterior.update), and make a new model of the result."
)


class ParticlePosterior(EnsemblePosterior):
    """What all particles say at some points, as a joint distribution over points and outputs.

    It is the mixture itself and not a sample of it, so that variances are those of
    `RegressionPrediction`:

        variance = Σ_i w_i (v_i − mean)²  [ + Σ_i w_i σ_i²  with noise ]

    BoTorch's `EnsemblePosterior` divides the first sum by 1 − Σ_i w_i².

    Args:
        values: what particles predict, `(*batch, particles, q, outputs)`.
        weights: of the particles, `(particles,)`.
        noise: variances of the observations, in the shape of `values`; None for none.
    """

    def __init__(self, values: Tensor, weights: Tensor, noise: Tensor | None = None) -> None:
        super().__init__(values, weights)
        self.noise = noise

    @property
    def variance(self) -> Tensor:
        """The variance of each output at each point, `(*batch, q, outputs)`."""
        shares = self.weights[:, None, None]
        spread = (shares * (self.values - self.mean.unsqueeze(-3)).square()).sum(-3)
        return spread if self.noise is None else spread + (shares * self.noise).sum(-3)

    def rsample(self, sample_shape: torch.Size | None = None) -> Tensor:
        """Draws `(*sample_shape, *batch, q, outputs)`, each of one particle for all points."""
        shape = torch.Size([1]) if sample_shape is None else torch.Size(sample_shape)
        drawn = torch.multinomial(self.weights, shape.numel() * self._batches, replacement=True)
        indices = drawn.view(shape + self.batch_shape)
        normal = torch.randn(self._extended_shape(shape)).to(self.values)
        return self.at(indices, normal)

    def at(self, indices: Tensor, normal: Tensor) -> Tensor:
        """The draws that some particles and some noise give; differentiable.

        Args:
            indices: of particles, `(*samples, *batch)`.
            normal: standard normal numbers, in a shape that goes with the draws.
        """
        samples = indices.shape[: indices.ndim - len(self.batch_shape)]
        draws = self.rsample_from_base_samples(samples, indices)
        if self.noise is None:
            return draws
        variances = ParticlePosterior(self.noise, self.weights)
        return draws + variances.rsample_from_base_samples(samples, indices).sqrt() * normal

    @property
    def _batches(self) -> int:
        return self.batch_shape.numel()


class ParticleSampler(IndexSampler):
    """Draws for acquisition functions: every particle as often as its weight says.

    With n draws, particle i is drawn ⌊n w_i⌋ or ⌈n w_i⌉ times (systematic resampling), and the same
    draws serve all t-batches. Acquisition functions are so sums over the particles, the same
    function for every restart; of particles with equal weights they are exact if n is a multiple of
    their number. Like BoTorch's samplers it is made with the `sample_shape` of the draws, and with
    the `seed` of the first draw, of the order, and of noise.
    """

    def forward(self, posterior: Any) -> Tensor:
        """The draws, `(*sample_shape, *batch, q, outputs)`."""
        count, (points, outputs) = self.sample_shape.numel(), posterior.values.shape[-2:]
        generator = torch.Generator().manual_seed(self.seed)
        # Uniform numbers for indices first: noise must not depend on how many points there are.
        shift = torch.rand((), generator=generator, dtype=torch.float64)
        order = torch.randperm(count, generator=generator)
        ends = posterior.weights.detach().cpu().double().cumsum(0)
        marks = (torch.arange(count) + shift) / count * ends[-1]
        indices = torch.searchsorted(ends, marks, right=True).clamp(max=len(ends) - 1)[order]
        ones = [1] * len(posterior.batch_shape)
        shape = self.sample_shape + posterior.batch_shape
        indices = indices.view(*self.sample_shape, *ones).expand(shape)
        normal = torch.randn(
            (*self.sample_shape, *ones, points, outputs), generator=generator, dtype=torch.float64
        )
        return posterior.at(indices.to(posterior.device), normal.to(posterior.values))


@GetSampler.register(ParticlePosterior)
def _sampler_of_particles(
    posterior: ParticlePosterior, sample_shape: torch.Size, *, seed: int | None = None
) -> ParticleSampler:
    return ParticleSampler(sample_shape=sample_shape, seed=seed)


class SBMCModel(Model):
    """A posterior of numbers as a model of BoTorch, differentiable in the points.

    Acquisition functions by Monte Carlo (`qLogExpectedImprovement`, `qUpperConfidenceBound`,
    `qLogNoisyExpectedImprovement`, ...) take it, `optimize_acqf` climbs by its gradients.

    Args:
        posterior: of a network that takes rows `(examples, columns)` and predicts numbers; or a
            fitted `SBMCRegressor`.
        outcome_transform: of BoTorch, if the targets of `fit` were transformed by it: predictions
            are transformed back.
        input_transform: of BoTorch, if the inputs of `fit` were transformed by it.
        inputs: two or more rows, where the posterior does not know what its inputs look like.
        dtype: to compute in. Predictions have the dtype of the points.

    Raises:
        BadInput: a posterior of classes, or of a network that takes no rows of numbers.

    Examples:
        >>> import sbmc
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> run = {"sampler": sbmc.HMC(steps=4), "particles": 3, "progress": False}
        >>> posterior = sbmc.fit(nn.Linear(1, 1), (x, 2 * x), likelihood="gaussian", **run)
        >>> model = SBMCModel(posterior)
        >>> points = torch.zeros(5, 2, 1, dtype=torch.float64, requires_grad=True)
        >>> model.posterior(points).mean.shape, model.posterior(points).values.shape
        (torch.Size([5, 2, 1]), torch.Size([5, 3, 2, 1]))
    """

    def __init__(
        self,
        posterior: Any,
        *,
        outcome_transform: OutcomeTransform | None = None,
        input_transform: InputTransform | None = None,
        inputs: Any = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        self.sbmc_posterior = _numbers(posterior)
        good = isinstance(dtype, torch.dtype) and dtype.is_floating_point
        require(good, "dtype", "a floating-point dtype of torch", dtype)
        for name, kind, transform in (
            ("outcome_transform", OutcomeTransform, outcome_transform),
            ("input_transform", InputTransform, input_transform),
        ):
            good = transform is None or isinstance(transform, kind)
            require(good, name, f"an {kind.__name__} of BoTorch, or None", transform)
            if isinstance(transform, nn.Module):  # BoTorch asks whether there is an attribute
                setattr(self, name, transform.eval())
        theta, weights, chosen = weighted_particles(self.sbmc_posterior)
        self._theta = (theta if chosen is None else theta[chosen]).to(dtype)
        self._weights = weights
        few = _few_rows(self.sbmc_posterior, inputs, self._theta)
        network = converted(self.sbmc_posterior.model, dtype, self._theta.device)
        # With gradients, so that what is chosen is known to give the model's own.
        self._networks = build_forward(network, self.sbmc_posterior.space, few)
        self._outputs = list(range(self._moments(few)[0].shape[-1]))

    @property
    def num_outputs(self) -> int:
        """How many numbers are predicted at a point."""
        return len(self._outputs)

    @property
    def batch_shape(self) -> torch.Size:
        """One model, no batch of models."""
        return torch.Size()

    def forward(self, X: Tensor) -> Tensor:
        """What particles predict, `(*batch, particles, q, outputs)` for `(*batch, q, columns)`."""
        return self._values_and_noise(X)[0]

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Any:
        """The joint distribution of what is predicted at some points.

        Args:
            X: points, `(*batch, q, columns)`.
            output_indices: which outputs; all if None.
            observation_noise: whether to add the noise of the likelihood, for distributions of
                observations and not of the function.
            posterior_transform: of BoTorch; it is given the result.

        Returns:
            A `ParticlePosterior`, or what the transform makes of it.

        Raises:
            BadInput: points of another shape, or noise given as numbers.
        """
        rule = "True or False: the likelihood of the posterior knows the noise"
        require(isinstance(observation_noise, bool), "observation_noise", rule, observation_noise)
        good = posterior_transform is None or isinstance(posterior_transform, PosteriorTransform)
        rule = "a PosteriorTransform of BoTorch, or None"
        require(good, "posterior_transform", rule, posterior_transform)
        outputs = self._chosen(output_indices, "output_indices")
        _require_points(X)
        self.eval()
        values, variances = self._values_and_noise(self.transform_inputs(X))
        noise = variances if observation_noise else None
        transform: Any = getattr(self, "outcome_transform", None)
        if transform is not None:
            values, noise = transform.untransform(values, noise, X=X)
        noise = None if noise is None else noise[..., outputs]
        found = ParticlePosterior(values[..., outputs], self._weights, noise)
        return found if posterior_transform is None else posterior_transform(posterior=found, X=X)

    def subset_output(self, idcs: list[int]) -> SBMCModel:
        """The same model with some of its outputs."""
        other = copy.copy(self)
        other._outputs = self._chosen(idcs, "idcs")
        return other

    def condition_on_observations(self, X: Tensor, Y: Tensor, **kwargs: Any) -> Never:
        """Refused: what particles say cannot be conditioned in closed form.

        Raises:
            BadInput: always, with what to do instead.
        """
        raise BadInput(
            "`condition_on_observations` must be called on a model that can be conditioned, but "
            f"got a posterior of particles. {REFIT}"
        )

    def fantasize(self, X: Tensor, sampler: Any, **kwargs: Any) -> Never:
        """Refused, as `condition_on_observations` is; knowledge gradients need it.

        Raises:
            BadInput: always, with what to do instead.
        """
        raise BadInput(
            "`fantasize` must be called on a model that can be conditioned, but got a posterior of "
            f"particles. {REFIT} Acquisition functions that do not look ahead need none of it, "
            "such as qLogExpectedImprovement."
        )

    def _chosen(self, indices: Any, name: str) -> list[int]:
        """Which outputs of the posterior these are."""
        if indices is None:
            return self._outputs
        count = len(self._outputs)
        good = isinstance(indices, list) and all(
            is_whole(index) and -count <= index < count for index in indices
        )
        require(good and indices, name, f"a list of indices of the {count} outputs", indices)
        return [self._outputs[index] for index in indices]

    def _set_transformed_inputs(self) -> None:
        """Nothing: there are no training inputs here, and BoTorch would warn of that."""

    def _values_and_noise(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances of particles, `(*batch, particles, q, outputs)`, as `X` is."""
        _require_points(X)
        rows = X.reshape(-1, X.shape[-1]).to(self._theta)
        posterior = self.sbmc_posterior
        with errors_in_words(posterior.model, rows, "X"):
            mean, variance = self._moments(rows)
        if X.requires_grad and torch.is_grad_enabled():
            rule = "the points of a network that is differentiable in them"
            given = Phrase("a network whose outputs have no gradient: it detaches or rounds them")
            require(mean.requires_grad, "X", rule, given)
        shape = len(self._theta), *X.shape[:-1], mean.shape[-1]
        values, noise = (each.reshape(shape).movedim(0, -3).to(X) for each in (mean, variance))
        return values, noise

    def _moments(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances `(particles, rows, outputs)` of what the likelihood makes of rows."""
        outputs = self._networks(self._theta, self._networks.prepare(rows))
        mean, variance = self.sbmc_posterior.likelihood.moments(outputs)
        if not isinstance(variance, Tensor):
            variance = torch.full_like(mean, variance)
        return mean.reshape(*mean.shape[:2], -1), variance.expand_as(mean).reshape(
            *mean.shape[:2], -1
        )


def _numbers(given: Any) -> Posterior:
    """The posterior of what was given, which must be of numbers."""
    posterior = getattr(given, "posterior_", given)
    if not isinstance(posterior, Posterior):
        unfitted = hasattr(given, "fit") and hasattr(given, "get_params")
        hint = " Call its fit first." if unfitted else ""
        raise BadInput(
            "`posterior` must be a posterior of sbmc.fit or a fitted SBMCRegressor, but got "
            f"{describe_value(given)}.{hint}"
        )
    if posterior.likelihood.classification:
        raise BadInput(
            "`posterior` must be one of numbers, since acquisition functions compare numbers, but "
            f"got one of classes (likelihood {posterior.likelihood.name!r}). Optimise a number, "
            "such as the score that the classes were made from."
        )
    return posterior


def _few_rows(posterior: Posterior, inputs: Any, like: Tensor) -> Tensor:
    """Some rows of inputs, given or made up."""
    described = (posterior.input_description or {}).get("inputs") or {}
    if inputs is None and not described:
        raise BadInput(
            "`inputs` must be given where the posterior does not know the shape of its inputs, "
            "but got None. Give a few rows: SBMCModel(posterior, inputs=x[:2])."
        )
    few = made_up_rows(described, like) if inputs is None else as_inputs(inputs)
    check_inputs(few, "inputs")
    if not isinstance(few, Tensor) or few.ndim != 2 or not few.is_floating_point():
        got = tuple(few.shape) if isinstance(few, Tensor) else f"a {type(few).__name__}"
        raise BadInput(
            "`inputs` must be rows of numbers, (examples, columns), since BoTorch's points are "
            f"vectors, but got inputs of {got}. Put a module that reshapes them first, and fit it."
        )
    return few[:3].to(like)


def _require_points(X: Any) -> None:
    if isinstance(X, Tensor):
        require_plain(X, "X")
    good = isinstance(X, Tensor) and X.ndim >= 2 and X.is_floating_point()
    shown = Phrase(f"shape {tuple(X.shape)} of {X.dtype}") if isinstance(X, Tensor) else X
    require(good, "X", "a floating-point tensor of points, (*batch, q, columns)", shown)
