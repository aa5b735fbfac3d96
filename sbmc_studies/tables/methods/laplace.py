"""A linearised Laplace approximation of all weights (laplace-torch), its noise learned.

For numbers laplace-torch has one noise variance. The network has one output, and is trained with
noise that it learns; then noise and prior precision maximise the marginal likelihood, as the
package's documentation does it for regression.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from sbmc.likelihoods import Gaussian
from sbmc.prediction.predictive import PredictiveMixture
from sbmc.storage.optional import load_laplace
from sbmc_studies.tables.methods.fitted import Fitted, NotSupported
from sbmc_studies.tables.recipe import Prepared, train_members

# The marginal likelihood is maximised by so many steps of Adam, with this learning rate.
STEPS, RATE = 100, 0.1
# Rows whose Jacobians are held at once.
ROWS = 200


def laplace(prepared: Prepared) -> Fitted:
    """The full Gauss-Newton matrix; predictions by the linearised network."""
    try:
        package = load_laplace()
    except ImportError as error:
        raise NotSupported(str(error)) from error
    began = time.perf_counter()
    numbers = not prepared.split.is_classification
    if numbers:
        model = train_members(prepared, 1, Gaussian(), outputs=1)[0]
    else:
        model = train_members(prepared, 1)[0]
    inputs, targets = prepared.train
    rows = TensorDataset(inputs, targets.unsqueeze(1) if numbers else targets)
    try:
        with warnings.catch_warnings():
            # It warns of its own defaults, which are meant here, and of packages that it uses.
            warnings.simplefilter("ignore")
            kind = "regression" if numbers else "classification"
            approximation: Any = package.Laplace(
                model, kind, subset_of_weights="all", hessian_structure="full"
            )
            approximation.fit(DataLoader(rows, batch_size=ROWS))
            _maximise_evidence(approximation, numbers)
    # The package raises whatever its back end does where a matrix is singular.
    except Exception as error:
        raise NotSupported(f"laplace-torch: {str(error).partition(chr(10))[0][:200]}") from error
    seconds = time.perf_counter() - began
    about = {"prior_precision": float(approximation.prior_precision.mean())}
    if numbers:
        about["noise"] = float(approximation.sigma_noise)

    def predict(test: np.ndarray) -> PredictiveMixture | Tensor:
        parts = [approximation(part) for part in prepared.scaled_inputs(test).split(ROWS)]
        if not numbers:
            return torch.cat(parts).detach().double()
        means = torch.cat([mean.flatten() for mean, _ in parts]).detach()
        variances = torch.cat([variance.flatten() for _, variance in parts]).detach()
        scales = (variances.double() + about["noise"] ** 2).sqrt()
        return prepared.mixture(means[None], scales[None], torch.ones(1))

    return Fitted(predict, seconds, about)


def _maximise_evidence(approximation: Any, numbers: bool) -> None:
    """Set prior precision, and for numbers the noise, to the maximum of the marginal likelihood."""
    logs = torch.zeros(2 if numbers else 1, requires_grad=True)
    adam = torch.optim.Adam([logs], lr=RATE)
    for _ in range(STEPS):
        adam.zero_grad()
        values = logs.exp()
        noise = {"sigma_noise": values[1]} if numbers else {}
        evidence = approximation.log_marginal_likelihood(prior_precision=values[0], **noise)
        (-evidence).backward()
        adam.step()
    with torch.no_grad():
        approximation.prior_precision = logs[0].exp().detach()
        if numbers:
            approximation.sigma_noise = logs[1].exp().detach()
