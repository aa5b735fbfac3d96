"""`sbmc.tune`: v first, then s, by cross-validation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from torch import nn

from sbmc.checks import Phrase, require, require_choice, require_path
from sbmc.fitting.compute import Compute
from sbmc.fitting.preparation import describe_sampler
from sbmc.fitting.request import FitRequest
from sbmc.likelihoods import Categorical, Custom, as_likelihood, known_variance
from sbmc.model.data import Examples, as_examples
from sbmc.model.parameters import Selection, select_parameters
from sbmc.model.wrappers import unwrapped
from sbmc.prior.options import Prior, changed_options
from sbmc.randomness import generator
from sbmc.samplers import HMC
from sbmc.samplers.contract import Sampler
from sbmc.storage.digests import digest
from sbmc.training.settings import TrainingSettings, require_count
from sbmc.training.setup import checked_data
from sbmc.tuning.folds import make_folds, subset
from sbmc.tuning.grid import s_grid, v_grid
from sbmc.tuning.result import Tuning
from sbmc.tuning.runner import TuningRunner
from sbmc.tuning.saved_cells import SavedCells

# How often a grid of v is extended at most: four half decades.
EXTENSIONS = 4


def tune(
    model: nn.Module,
    data: Any,
    *,
    v: float | Sequence[float] | None = None,
    s: float | Sequence[float] | None = None,
    folds: int = 5,
    sampler: Sampler | None = None,
    particles: int = 10,
    start: str | None = None,
    seed: int = 0,
    likelihood: Any = "categorical",
    parameters: Selection = "all",
    learning_rate: float = 1e-3,
    batch_size: int = 64,
    max_epochs: int = 1000,
    window: int = 10,
    patience: int = 5,
    validation_share: float = 0.1,
    examples: int | None = None,
    extensions: int = EXTENSIONS,
    fit_options: Mapping[str, Any] | None = None,
    folder: str | PathLike[str] | None = None,
    about: Mapping[str, Any] | None = None,
    progress: bool | None = None,
) -> Tuning:
    """Choose the prior variance v, and then the scale s, by K-fold cross-validation.

    As in the paper, v is a parameter of the model and is chosen first, for the MAP. Then s is
    chosen with v fixed, for the sampler. The criterion is the mean over folds of

        −(1/n) Σ log p(y_i | x_i)

    on the n examples that were held out. Each fold trains a MAP from the start, stopped early on a
    share of its own training examples, so that no held-out example is used before it is scored. All
    folds and all v are trained as one batch. If the best v lies at the edge of its grid, the grid
    grows.

    Args:
        model: the network; its weights do not matter, and are never changed.
        data: training data, as for `fit`. Keep test data out of it.
        v: values of v to try; 0.01 to 10 in half decades if not given. One alone is not chosen.
        s: values of s to try; 0, 0.05, 0.1, 0.2, 0.3, 0.5 and 1 if not given. 0 is the MAP.
        folds: K.
        sampler: settings of the algorithm, `HMC(epochs=160)` if not given.
        particles: N.
        start: where chains begin, as for `fit`: `"anchor"` or `"prior"`.
        seed: of the folds, of training and of sampling.
        likelihood: `"categorical"` or `sbmc.Gaussian(noise_variance=...)`.
        parameters: which ones are trained and sampled, as for `fit`.
        learning_rate: of training, as are the next four; see `train_ensemble`.
        batch_size: examples in a mini-batch.
        max_epochs: passes at most.
        window: epochs in the moving average of the validation loss.
        patience: epochs without a lower average before stopping.
        validation_share: of the examples that are not held out, which part stops training early.
        examples: use so many of the examples, chosen at random; all if not given.
        extensions: values of v that may be added at the edge of the grid.
        fit_options: further arguments of `fit`, such as
            `{"prior": sbmc.Prior(covariance="laplace")}`.
        folder: where every score is saved as soon as it is computed. The same call continues one
            that was stopped; a call with other grids adds to it.
        about: name and checksum of the data, for the file.
        progress: None shows a bar on a terminal; True always shows something; False nothing.

    Returns:
        The tuning: `.v`, `.s`, and the scores in `.v_points` and `.s_points`.

    Raises:
        BadInput: an argument breaks its rule; found before any computing.
        RuntimeError: no value could be scored.

    Examples:
        >>> import torch
        >>> inputs = torch.randn(60, 2)
        >>> data = inputs, (inputs[:, 0] > 0).long()
        >>> found = tune(nn.Linear(2, 2), data, v=[0.1, 1.0], s=[0.0, 0.1], folds=3, extensions=0,
        ...              sampler=HMC(steps=2, leapfrog=1), particles=2, max_epochs=3)
        >>> [point.value for point in found.v_points], [point.value for point in found.s_points]
        ([0.1, 1.0], [0.0, 0.1])
    """
    variances, scales = v_grid(v), s_grid(s)
    require_count("particles", particles)
    require_count("extensions", extensions, 0)
    generator(seed)  # refuses a bad seed
    algorithm: Sampler = HMC(epochs=160) if sampler is None else sampler
    good = isinstance(algorithm, Sampler) and dataclasses.is_dataclass(algorithm)
    require(good, "sampler", "settings such as sbmc.HMC(...) or sbmc.SMC(...)", sampler)
    begin = algorithm.default_start if start is None else start
    rule = "'anchor' or 'prior': there is no ensemble on every fold"
    require_choice("start", begin, ["anchor", "prior"], rule)
    for name, mapping in (("fit_options", fit_options), ("about", about)):
        good = mapping is None or isinstance(mapping, Mapping)
        good = good and all(isinstance(key, str) for key in mapping or ())
        require(good, name, "a dict with texts as keys, or None", mapping)
    known = [item.name for item in dataclasses.fields(FitRequest)]
    for name in fit_options or ():
        require_choice("fit_options", name, known, "arguments of `fit` by their names")
    location = None if folder is None else require_path("folder", folder)
    usable = location is None or not location.exists() or location.is_dir()
    require(usable, "folder", "the path of a folder, not of a file", location)
    family = as_likelihood(likelihood)
    rule = "'categorical' or sbmc.Gaussian(noise_variance=...), whose predictions have a score"
    good = isinstance(family, Categorical) or known_variance(family) is not None
    shown = "a callable" if isinstance(family, Custom) else f"{family.name} of other noise"
    require(good, "likelihood", rule, Phrase(shown))
    training = TrainingSettings(
        prior_variance=1.0,
        learning_rate=learning_rate,
        batch_size=batch_size,
        max_epochs=max_epochs,
        window=window,
        patience=patience,
        initial="prior",
        seed=seed,
    )
    model = unwrapped(model)
    space = select_parameters(model, parameters)
    checked = checked_data(model, space, as_examples(data), None, family).train
    data_digest = digest(checked.inputs, checked.targets)
    if examples is not None:
        rows = subset(checked.targets, examples, seed, stratify=family.classification)
        checked = Examples(*checked.select(rows))
    parts = make_folds(
        checked.targets, folds, seed, share=validation_share, stratify=family.classification
    )
    settings = {
        "folds": int(folds),
        "sampler": type(algorithm).__name__,
        "sampler_settings": describe_sampler(algorithm),
        "particles": int(particles),
        "start": begin,
        "parameters": list(space.names),
        "learning_rate": float(learning_rate),
        "batch_size": int(batch_size),
        "max_epochs": int(max_epochs),
        "window": int(window),
        "patience": int(patience),
        "validation_share": float(validation_share),
        "examples": None if examples is None else int(examples),
        "fit_options": _describe_options(fit_options or {}),
        "data": data_digest,
    }
    beginning = Tuning(settings, int(seed), variances, scales, data=dict(about or {}))
    saved_cells = SavedCells(location, beginning)
    options = {
        **(fit_options or {}),
        "likelihood": likelihood,
        "parameters": parameters,
        "sampler": algorithm,
        "particles": int(particles),
        "start": begin,
        "seed": int(seed),
        "progress": False,
    }
    runner = TuningRunner(
        model, space, family, checked, parts, training, options, saved_cells, progress
    )
    return runner.search(variances, scales, int(extensions))


def _describe_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Arguments of `fit` as text; the options of a group are listed by their names."""
    plain: dict[str, Any] = {}
    for name, value in options.items():
        plain |= changed_options(value) if isinstance(value, (Prior, Compute)) else {name: value}
    return {name: str(value) for name, value in plain.items()}
