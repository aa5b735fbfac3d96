"""What is public, and why some of it is not called wrongly."""

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from refusals.subject import Subject

# The packages whose `__all__` docs/api.md calls public.
PACKAGES = (
    *("sbmc", "sbmc.prediction.metrics", "sbmc.datasets", "sbmc.samplers", "sbmc.baselines"),
    *("sbmc.diagnostics", "sbmc.confidence", "sbmc.embedding", "sbmc.language", "sbmc.training"),
    *("sbmc.tuning", "sbmc.estimators", "sbmc.likelihoods", "sbmc.islands.executors"),
    "sbmc_serve",
    "sbmc.estimators.botorch",
)
RESULT = "a result, which the library makes"
PROTOCOL = "what an object of the user's own must have; only the library calls it"
CHECKED = "gets what `fit` has checked"
STORED = "reads what `save` wrote"
TORCH = "called by torch, inside a network"
# Everything else is called wrongly.
LEFT_OUT = {
    **dict.fromkeys(
        (
            *("Distilled", "Ensemble", "Expectation", "Explanation", "Health", "Posterior"),
            *("Prediction", "Drift", "Ranking", "Reference"),
            *("RegressionPrediction", "TrainingHistory", "DataBundle", "Conditioning", "Summary"),
            *("Diagnostics", "Extent", "RiskCoverage", "ConfidenceReport", "Decision", "Detection"),
            *("Guarantee", "IntervalDecision", "SplitStudy", "HeadRun", "Source", "TextStates"),
            *("FrozenModel", "Weights", "Cell", "Point", "Tuning", "Done", "TargetMoments"),
            *("Confidence", "IntervalConfidence", "BaseConfidence", "ParticlePosterior"),
            *("PosteriorClassifier", "PosteriorRegressor"),
        ),
        RESULT,
    ),
    **dict.fromkeys(("Encoder", "NoisyLikelihood"), PROTOCOL),
    **dict.fromkeys(("Kind", "OfClasses", "OfNumbers"), "an alias of types"),
    **dict.fromkeys(
        (
            *("FromDistribution", "Rescaled", "Weighted", "infer_likelihood", "known_variance"),
            *("unweighted", "without_weights", "within_error"),
        ),
        CHECKED,
    ),
    **dict.fromkeys(("from_state", "to_state"), STORED),
    # Methods, by their classes.
    "LoraHead.forward": TORCH,
    **dict.fromkeys(
        (
            *("ParticleSampler", "ParticleSampler.forward", "SBMCModel.forward"),
            *("ParticlePosterior.rsample", "ParticlePosterior.at", "SBMCModel.subset_output"),
        ),
        "called by BoTorch",
    ),
    "SBMCModel.condition_on_observations": "refuses whatever it is given",
    "SBMCModel.fantasize": "refuses whatever it is given",
    "Posterior.outputs": "one batch that `predict` has checked",
    "DataBundle.part": "for the studies, which check their settings",
    "Drift.moved": "takes `inputs` or `uncertainties` of the drift itself",
    "Reference.from_dict": STORED,
    "Tuning.at": "for the report of a tuning",
    "Tuning.from_dict": STORED,
    "BaseConfidence.score": "abstract",
    **dict.fromkeys(
        ("BaseConfidence.bind", "Confidence.bind", "IntervalConfidence.bind"),
        "`posterior.confidence` and `load` call it",
    ),
    "FrozenModel.tokens": "needs a language model; `text_states` calls it",
    "FrozenModel.states": "needs a language model; `text_states` calls it",
    "FrozenModel.output_rows": "needs a language model; `text_states` calls it",
}
# Classes whose methods only the library calls.
LIBRARY_CALLS = (
    *("sbmc.samplers", "sbmc.likelihoods", "sbmc.islands.executors", "sbmc.prior"),
    *("sbmc.fitting.budget", "sbmc.training.adam", "sbmc.training.sgd"),
    "sbmc.training.early_stopping",
)


def public_names() -> Iterator[tuple[str, Any]]:
    """All public functions and classes that take arguments, and the methods of those classes."""
    seen = set()
    for package in PACKAGES:
        module = import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if not callable(value) or id(value) in seen:
                continue
            seen.add(id(value))
            if takes_arguments(value):
                yield name, value
            if inspect.isclass(value) and not value.__module__.startswith(LIBRARY_CALLS):
                yield from _methods(name, value)


def _methods(name: str, kind: type) -> Iterator[tuple[str, Any]]:
    """The methods of a class, with those that it has from other classes of the library."""
    bases = [each for each in kind.__mro__ if each.__module__.startswith("sbmc.")]
    for method, value in {k: v for base in reversed(bases) for k, v in vars(base).items()}.items():
        function = getattr(value, "__func__", value)
        own = not method.startswith("_") and inspect.isfunction(function)
        if own and takes_arguments(function, fewest=2):
            yield f"{name}.{method}", function


def takes_arguments(function: Any, fewest: int = 1) -> bool:
    """Whether a function can be called wrongly; a method has itself as its first argument."""
    try:
        return len(inspect.signature(function).parameters) >= fewest
    except (TypeError, ValueError):  # an alias of types
        return False


def tried(subjects: list[Subject]) -> set[int]:
    """The functions, methods and classes that are called wrongly, by their identity."""
    found = [each.function if each.public is None else each.public for each in subjects]
    return {id(getattr(each, "__func__", each)) for each in found}
