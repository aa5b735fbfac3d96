"""The arguments of `fit`, stated once; `expect` and others take the same."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ParamSpec, TypedDict, TypeVar

from torch import nn

from sbmc.checks import nearest, require, require_flag
from sbmc.fitting.compute import USUAL_COMPUTE, Compute
from sbmc.model.parameters import Selection
from sbmc.model.wrappers import unwrapped
from sbmc.prior.options import USUAL_PRIOR, Prior
from sbmc.prior.original import PriorVariance
from sbmc.samplers.contract import Sampler

DEFAULT_PARTICLES = 10


@dataclass(frozen=True, eq=False)
class FitRequest:
    """The arguments of a call of `fit`; its docstring explains the fields.

    Raises:
        BadInput: `prior` or `compute` is of another type.
    """

    model: nn.Module
    data: Any
    _: KW_ONLY
    s: float | str | None = None
    prior_variance: PriorVariance = "auto"
    likelihood: Any = None
    weights: Any = None
    sampler: Sampler | None = None
    budget: Any = None
    validation: Any = None
    particles: int | None = None
    islands: int = 1
    parameters: Selection = "all"
    start: Any = None
    anchors: Any = None
    seed: int = 0
    prior: Prior = USUAL_PRIOR
    compute: Compute = USUAL_COMPUTE
    progress: bool | None = None

    @property
    def particle_count(self) -> int:
        """N, as given or by default."""
        return DEFAULT_PARTICLES if self.particles is None else self.particles

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", unwrapped(self.model))
        require(isinstance(self.prior, Prior), "prior", "sbmc.Prior(...)", self.prior)
        require(isinstance(self.compute, Compute), "compute", "sbmc.Compute(...)", self.compute)
        require_flag("progress", self.progress, optional=True)


class FitOptions(TypedDict, total=False):
    """The keywords of `FitRequest` but `likelihood`, for the overloads of `fit`.

    A type checker has to see them in writing; a test compares them with the fields above.
    """

    s: float | str | None
    prior_variance: PriorVariance
    weights: Any
    sampler: Sampler | None
    budget: Any
    validation: Any
    particles: int | None
    islands: int
    parameters: Selection
    start: Any
    anchors: Any
    seed: int
    prior: Prior
    compute: Compute
    progress: bool | None


Arguments = ParamSpec("Arguments")
Request = TypeVar("Request")
Result = TypeVar("Result")


def takes_arguments_of(
    request_class: Callable[Arguments, Request],
) -> Callable[[Callable[[Request], Result]], Callable[Arguments, Result]]:
    """Turn a function of a request into a function of the request's arguments.

    The signature, for `help`, for editors and for the type checker, is that of the request.

    Args:
        request_class: `FitRequest`.

    Returns:
        A decorator.

    Raises:
        TypeError: the decorated function is called with an argument that it does not have. The
            message names the group of options that the argument belongs to, or the nearest name.

    Examples:
        >>> @takes_arguments_of(FitRequest)
        ... def count(request):
        ...     return request.particle_count * request.islands
        >>> count(nn.Linear(1, 1), None, islands=3)
        30
        >>> count(nn.Linear(1, 1), None, retries=0)
        Traceback (most recent call last):
        ...
        TypeError: `retries` is an option of `compute`: count(..., compute=sbmc.Compute(retries=0)).
    """
    signature = inspect.signature(request_class)

    def decorate(function: Callable[[Request], Result]) -> Callable[Arguments, Result]:
        @functools.wraps(function)
        def with_arguments(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
            _refuse_unknown(function.__name__, options, signature.parameters)
            signature.bind(*args, **options)  # its error names a missing argument without the class
            return function(request_class(*args, **options))

        returned = inspect.signature(function).return_annotation
        shown = signature.replace(return_annotation=returned)
        vars(with_arguments)["__signature__"] = shown
        return with_arguments

    return decorate


def _refuse_unknown(function: str, options: dict[str, Any], known: Iterable[str]) -> None:
    unknown = [name for name in options if name not in known]
    groups = {"prior": Prior, "compute": Compute}
    moved = {
        group: [name for name in unknown if name in {item.name for item in fields(options_class)}]
        for group, options_class in groups.items()
    }
    for name in unknown:
        if not any(name in names for names in moved.values()):
            raise TypeError(f"{function}() has no argument `{name}`.{nearest(name, known)}")
    if unknown:
        calls = [
            f"{group}=sbmc.{groups[group].__name__}"
            f"({', '.join(f'{name}={_short(options[name])}' for name in names)})"
            for group, names in moved.items()
            if names
        ]
        where = " and ".join(
            f"{', '.join(f'`{name}`' for name in names)} "
            f"{'are options' if len(names) > 1 else 'is an option'} of `{group}`"
            for group, names in moved.items()
            if names
        )
        raise TypeError(f"{where}: {function}(..., {', '.join(calls)}).")


def _short(value: object) -> str:
    """A value as Python code, or dots if its representation is long or not code."""
    text = repr(value)
    return "..." if len(text) > 60 or text.startswith("<") else text
