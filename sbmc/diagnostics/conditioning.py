"""How ill-conditioned a target is, measured, beside the paper's formula.

In whitened coordinates the Hessian of the negative log density is I + A, with
A = −Σ^½ ∇²ℓ(θ) Σ^½. Its largest and smallest eigenvalues decide the step size of a sampler
and how many steps it takes to cross the target. The paper's appendix "A sketch of the theory"
assumes that the smallest eigenvalue of −∇²ℓ is 0, which makes their ratio λ_max·v·s + 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sbmc.checks import BadInput, Phrase, is_number, require
from sbmc.likelihoods import as_likelihood
from sbmc.model.data import as_examples, rows
from sbmc.model.functional import converted
from sbmc.model.parameters import Selection, select_parameters
from sbmc.prior.gaussian import anchored_prior, linear_variance
from sbmc.prior.original import PriorVariance, resolve_prior
from sbmc.randomness import generator
from sbmc.target.builder import EngineBuilder
from sbmc.target.engine import LikelihoodEngine

# Up to this size the full matrix is cheaper than Lanczos' method.
DENSE_DIM = 40
# A product with the Hessian goes forward and backward through the gradient's own computation.
EPOCHS_PER_PRODUCT = 2
# Vectors that Lanczos' method stores. The largest eigenvalue is isolated and takes few; the
# smallest has many neighbours, and more vectors save products, as far as memory allows.
FEW_VECTORS, MANY_VECTORS, MOST_BYTES = 20, 100, 256 * 2**20
MOST_RESTARTS = 200


@dataclass(frozen=True)
class Conditioning:
    """Extreme eigenvalues of the Hessian of the negative log density, in whitened coordinates.

    Attributes:
        s: the scale.
        largest: eigenvalue of I + A.
        smallest: likewise; negative where the log density is not concave, as likelihoods of
            networks hardly ever are.
        likelihood_largest: λ_max, of −∇²ℓ in the model's own coordinates.
        formula: the paper's λ_max·v·s + 1 (with the largest of the variances Σ(s), if they differ).
        epochs: the cost of the measurement; a product with the Hessian counts as two.
    """

    s: float
    largest: float
    smallest: float
    likelihood_largest: float
    formula: float
    epochs: int

    @property
    def condition_number(self) -> float | None:
        """The largest over the smallest eigenvalue; None unless both are positive."""
        return self.largest / self.smallest if self.smallest > 0 else None

    def as_dict(self) -> dict[str, float | None]:
        """Plain values, for JSON."""
        return {**asdict(self), "condition_number": self.condition_number}


def condition_number(
    model: nn.Module,
    data: Any,
    *,
    s: float = 0.1,
    prior_variance: PriorVariance = "auto",
    likelihood: Any = "categorical",
    parameters: Selection = "all",
    covariance: Callable[[float, Tensor], Tensor] = linear_variance,
    at: Tensor | None = None,
    tolerance: float = 1e-3,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Conditioning:
    """Measure the condition number of the anchored posterior that `fit` would sample.

    It uses Lanczos' method on exact products with the Hessian (automatic differentiation, twice),
    or the full matrix for up to 40 parameters. The result holds at the position `at`.

    Args:
        model: the trained network, the anchor; never changed.
        data: the training data, as for `fit`.
        s: as for `fit`, more than 0.
        prior_variance: as for `fit`.
        likelihood: as for `fit`.
        parameters: as for `fit`.
        covariance: the rule Σ(s), as for `fit`, but a function.
        at: where, `(dim,)` in the model's own coordinates, such as `posterior.positions[0, 0]`; the
            anchor if not given.
        tolerance: accuracy of the largest eigenvalue, relative, and of the smallest, absolute (in
            units of the prior's curvature, which is 1).
        seed: of Lanczos' first vector.
        dtype: of the computation. In float32 small eigenvalues drown in the rounding of large ones.

    Returns:
        The eigenvalues, their ratio and the paper's formula.

    Raises:
        BadInput: an argument breaks its rule.
        RuntimeError: Lanczos did not converge, or the model cannot be differentiated twice.

    Examples:
        >>> net = nn.Linear(2, 1, bias=False)
        >>> data = torch.eye(2), torch.zeros(2)
        >>> from sbmc import Gaussian
        >>> found = condition_number(
        ...     net, data, s=0.5, prior_variance=4.0, likelihood=Gaussian(noise_variance=0.5)
        ... )
        >>> round(found.largest, 6), round(found.smallest, 6), round(found.formula, 6)
        (5.0, 5.0, 5.0)
    """
    require(is_number(s) and 0 < s <= 1, "s", "in (0, 1]", s)
    require(is_number(tolerance) and 0 < tolerance < 1, "tolerance", "in (0, 1)", tolerance)
    real = isinstance(dtype, torch.dtype) and dtype.is_floating_point
    require(real, "dtype", "a floating-point torch.dtype", dtype)
    rng = generator(seed)
    space = select_parameters(model, parameters)
    anchor = space.flatten(model).to(dtype)
    examples = as_examples(data).to(dtype=dtype, device=anchor.device)
    network, family = converted(model, dtype, anchor.device), as_likelihood(likelihood)
    original = resolve_prior(
        prior_variance,
        network,
        space,
        dtype=dtype,
        trained=anchor.unsqueeze(0),
        examples=examples,
        likelihood=family,
    ).to(anchor)
    variance, centre = original.variance, original.centre
    prior = anchored_prior(anchor, float(s), variance, covariance=covariance, centre=centre)
    position = anchor if at is None else _as_position(at, anchor)
    # The module itself is used, since fused layers can be differentiated only once.
    build = EngineBuilder(network, space, family, examples, "loop")
    hessian = HessianProducts(build(anchor), position)
    scale = prior.scale
    try:
        low, high = extremes(
            lambda v: v + scale * hessian(scale * v), space.dim, tolerance, rng, anchor
        )
    except torch.linalg.LinAlgError as error:
        raise BadInput(
            "`model` must be a network with finite outputs and derivatives on `data`, but got a "
            "Hessian that is not finite."
        ) from error
    widest = float(scale.max()) ** 2
    if bool((scale == scale[0]).all()):
        steepest = (high - 1) / widest
    else:
        steepest = largest(hessian, space.dim, tolerance, rng, anchor)
    return Conditioning(
        s=float(s),
        largest=high,
        smallest=low,
        likelihood_largest=steepest,
        formula=steepest * widest + 1,
        epochs=EPOCHS_PER_PRODUCT * hessian.products,
    )


def _as_position(at: Tensor, anchor: Tensor) -> Tensor:
    tensor = isinstance(at, Tensor) and at.shape == anchor.shape
    shown = tuple(at.shape) if isinstance(at, Tensor) else type(at).__name__
    require(tensor, "at", f"a tensor ({len(anchor)},)", Phrase(shown))
    require(bool(torch.isfinite(at).all()), "at", "finite", Phrase("NaN or infinity"))
    return at.detach().to(anchor)


class HessianProducts:
    """Products of −∇²ℓ(θ) with vectors, in the model's own coordinates, summed over all data.

    ∇²ℓ v is the gradient of ∇ℓ·v, which automatic differentiation gives exactly (to rounding); a
    kink such as ReLU's counts as flat.

    Args:
        engine: whose likelihood it is.
        theta: where, `(dim,)`.
    """

    def __init__(self, engine: LikelihoodEngine, theta: Tensor) -> None:
        self._parts = engine.parts()
        self._chunk = engine.chunks.examples
        self._theta = theta
        self.products = 0

    def __call__(self, vectors: Tensor) -> Tensor:
        """Products with vectors `(dim,)` or `(count, dim)`."""
        each = vectors.reshape(-1, vectors.shape[-1])
        self.products += len(each)
        theta = self._theta.expand(each.shape).clone().requires_grad_()
        total = torch.zeros_like(each)
        forward, examples, prepared, likelihood = self._parts[:4]
        for start in range(0, len(examples), self._chunk):
            inputs, targets = examples.slice(start, start + self._chunk)
            if prepared is None:
                inputs = forward.prepare(inputs)
            else:
                inputs = rows(prepared, start, start + self._chunk)
            with torch.enable_grad():
                value = likelihood.log_prob(forward(theta, inputs), targets).sum()
                (gradient,) = torch.autograd.grad(value, theta, create_graph=True)
                if not gradient.requires_grad:  # a log likelihood linear in the parameters
                    continue
                (product,) = torch.autograd.grad((gradient * each).sum(), theta)
            total -= product
        return total.view(vectors.shape)


Product = Callable[[Tensor], Tensor]


def extremes(
    product: Product, dim: int, tolerance: float, rng: torch.Generator, like: Tensor
) -> tuple[float, float]:
    """Smallest and largest eigenvalue of a symmetric matrix, given by its products.

    Args:
        product: of the matrix with vectors `(count, dim)`.
        dim: its size.
        tolerance: of the largest, relative; of the smallest, absolute.
        rng: of the first vectors.
        like: dtype and device of the vectors.

    Returns:
        The two eigenvalues.

    Raises:
        RuntimeError: no convergence.
    """
    high = largest(product, dim, tolerance, rng, like)
    # As the largest one of high − B, whose size makes the tolerance an absolute one: relative to
    # the smallest eigenvalue itself, which may be anywhere near zero, it might never be met.
    vectors = max(FEW_VECTORS, min(MANY_VECTORS, MOST_BYTES // (8 * dim)))
    finer = tolerance / max(1.0, high)
    flipped = largest(lambda v: high * v - product(v), dim, finer, rng, like, vectors)
    return high - flipped, high


def largest(
    product: Product,
    dim: int,
    tolerance: float,
    rng: torch.Generator,
    like: Tensor,
    vectors: int = FEW_VECTORS,
) -> float:
    """Largest eigenvalue, to a relative tolerance, by Lanczos' method (ARPACK); see `extremes`."""
    if dim <= DENSE_DIM:
        matrix = product(torch.eye(dim).to(like)).double()
        return float(torch.linalg.eigvalsh((matrix + matrix.T) / 2)[-1])
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    def matvec(vector: np.ndarray) -> np.ndarray:
        tensor = torch.as_tensor(vector.reshape(1, -1)).to(like)
        image = product(tensor)[0].double().cpu().numpy()
        if not np.isfinite(image).all():
            raise RuntimeError("The Hessian is not finite at this position.")
        return image

    first = torch.randn(dim, generator=rng, dtype=torch.float64).numpy()
    operator = LinearOperator((dim, dim), matvec=matvec, dtype=np.float64)
    limits = {"ncv": min(dim, vectors), "maxiter": MOST_RESTARTS}
    options = {"k": 1, "which": "LA", "v0": first, **limits}
    try:
        return float(eigsh(operator, tol=tolerance, return_eigenvectors=False, **options)[0])
    except ArpackNoConvergence as error:
        raise RuntimeError(
            f"An eigenvalue did not converge in {MOST_RESTARTS} restarts of Lanczos' method; a "
            f"larger `tolerance` or dtype=torch.float64 may help."
        ) from error
