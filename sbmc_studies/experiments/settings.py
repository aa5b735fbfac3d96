"""Settings of a run: an experiment's values, then a preset's, then those of the command line.

*Resolved* settings have every value that decides the result: two runs with equal settings and seed
are the same run. The 12-digit hash of the settings names its folder.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sbmc.checks import MOST_COUNT, BadInput, nearest, require
from sbmc_studies.experiments.experiment import PRESETS, Experiment
from sbmc_studies.experiments.samplers import sampler_kinds

if TYPE_CHECKING:
    from sbmc_studies.experiments.methods import Method

Settings = dict[str, Any]

STARTS = ("prior", "anchor", "ensemble")
ANCHORS = ("map", "swa", "mc-dropout")
COVARIANCES = ("linear", "laplace")

# In the settings of every record, used or not, so that records of all methods can be compared.
ALWAYS = ("s", "prior_variance", "particles", "islands", "steps", "leapfrog", "mutations")

# How networks are trained: anchors, ensembles, and the networks of a tuning.
OPTIMISER_SETTINGS = ("learning_rate", "batch_size", "max_epochs", "window", "patience")
TRAINING_SETTINGS = ("prior_variance", *OPTIMISER_SETTINGS)

# Two ways to say one thing: if one of them is given, the preset's value of the other is dropped.
ALTERNATIVES = (
    ("steps", "epochs"),
    ("leapfrog", "trajectory"),
    ("s", "factor_variance"),
    ("s", "split"),
    ("factor_variance", "split"),
)
# For methods that an experiment's file says nothing about: about as many epochs as a training has,
# and the values that docs/design.md recommends.
FALLBACK = {"s": 0.1, "epochs": 160, "start": "anchor", "posterior_temperature": 0.1}


def resolve(
    experiment: Experiment,
    method: Method,
    preset: str = "paper",
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Put the settings of a run together and check them.

    Args:
        experiment: supplies the values that all methods share, and the presets.
        method: says which settings there are.
        preset: `"paper"` or `"best"`.
        overrides: setting names to values, as text or as numbers; they win over the preset.

    Returns:
        Every setting of the method; those of `ALWAYS` that it does not have are None.

    Raises:
        BadInput: if a setting is unknown, breaks its rule, or is fixed by the method.

    Examples:
        >>> from sbmc_studies.experiments.experiment import get_experiment
        >>> from sbmc_studies.experiments.methods import get_method
        >>> digits, method = get_experiment("digits"), get_method("de")
        >>> settings = resolve(digits, method, overrides={"islands": "2"})
        >>> settings["particles"], settings["islands"], settings["steps"]
        (10, 2, None)
    """
    if preset not in PRESETS:
        raise BadInput(
            f"`preset` must be one of {', '.join(PRESETS)}, but got {preset!r}."
            + nearest(preset, PRESETS)
        )
    given = dict(overrides or {})
    settings: Settings = {
        "network": experiment.network,
        **dict.fromkeys(ALWAYS),
        **method.defaults,
        **{k: v for k, v in experiment.settings.items() if k not in method.fixed},
        **experiment.training,
        **_preset(experiment, method, preset),
        **method.fixed,
    }
    _require_known(given, settings, method)
    for pair in ALTERNATIVES:
        named = [name for name in pair if given.get(name) is not None and name in settings]
        if len(named) == 2:
            raise BadInput(
                f"`{pair[0]}` must be left out when `{pair[1]}` is given, "
                f"but got {given[pair[0]]!r} and {given[pair[1]]!r}."
            )
        if named:
            settings.update({name: None for name in pair if name in settings})
    settings.update(given)
    settings = {name: check_setting(name, value) for name, value in settings.items()}
    for name, value in method.fixed.items():
        require(settings[name] == value, name, f"{value} for {method.name}", settings[name])
    if settings["s"] is None:
        other = settings.get("factor_variance") or settings.get("split")
        require(other is not None, "s", _RULES["s"][1], None)
    method.validate(settings)
    return settings


def _preset(experiment: Experiment, method: Method, preset: str) -> Settings:
    prepared = experiment.presets.get(method.name)
    if prepared is not None:
        return dict(prepared.get(preset, {}))
    known = {*method.uses, *method.defaults, "start"} if method.sampler else set()
    cold = {"posterior_temperature"} if method.name != "cold" else set()
    return {k: v for k, v in FALLBACK.items() if k in known - cold}


def anchors_at_map(settings: Mapping[str, Any]) -> bool:
    """Whether the prior needs a trained network.

    At s = 1/2 and above it is not centred on the anchor, and none has to be trained.

    Args:
        settings: resolved settings.

    Returns:
        True if an anchor has to be trained for the prior alone.
    """
    options = ("factor_variance", "split", "covariance", "anchor")
    if any(settings.get(name) not in (None, "linear") for name in options):
        return True
    return settings["s"] is not None and settings["s"] < 0.5


def _require_known(given: Mapping[str, Any], settings: Settings, method: Method) -> None:
    # A setting that the method does not have is None in the record, and cannot be given.
    choices = sorted(method.setting_names(settings))
    for name, value in given.items():
        if name not in choices:
            raise BadInput(
                f"`{name}` must be a setting of {method.name} ({', '.join(choices)}), "
                f"but got {name}={value}.{nearest(name, choices)}"
            )


def check_setting(name: str, value: Any) -> Any:
    """Read one value, from a TOML file or the command line, and check it against its rule.

    Args:
        name: the setting.
        value: a number, a string, or None for "not set".

    Returns:
        The value in the type of the setting, so that `1` and `"1.0"` lead to the same hash.

    Raises:
        BadInput: if the value breaks the rule.

    Examples:
        >>> check_setting("trajectory", "pi/2")
        1.5707963267948966
    """
    if isinstance(value, str) and value.lower() in ("none", "null"):
        value = None
    if value is None:
        require(name not in _REQUIRED, name, _RULES[name][1] if name in _RULES else "set", value)
        return None
    if name in _RULES:
        parse, rule, holds = _RULES[name]
    elif sampler_kinds().get(name) in _KINDS:
        parse, rule = _KINDS[sampler_kinds()[name]]
        holds = _all_finite  # JSON has nothing else; the sampler refuses what breaks its rule
    else:
        return _read_freely(value)
    try:
        parsed = parse(value)
    except (TypeError, ValueError, KeyError, OverflowError):
        raise BadInput(f"`{name}` must be {rule}, but got {value!r}.") from None
    require(holds(parsed), name, rule, value)
    if parse is _parse_count:
        require(parsed <= MOST_COUNT, name, f"at most {MOST_COUNT:,}", value)
    return parsed


def _read_freely(value: Any) -> Any:
    """Read text as a truth value or a number, if it is one."""
    if not isinstance(value, str):
        return value
    for parse in (_parse_truth, _parse_count, parse_real):
        try:
            return parse(value)
        except (ValueError, KeyError, OverflowError):
            continue
    return value


def parse_real(value: Any) -> float:
    """Read a real number; multiples and fractions of pi may be written as such.

    Args:
        value: a number or text such as `"0.1"`, `"pi/2"`, `"2*pi"`, `"3π/4"`.

    Returns:
        The number.

    Raises:
        ValueError: if it is none.

    Examples:
        >>> parse_real("2*pi") == 2 * math.pi
        True
    """
    if isinstance(value, bool):
        raise ValueError("a truth value is no number")
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([\d.]*)\s*\*?\s*(?:pi|π)\s*(?:/\s*([\d.]+))?\s*", value.lower())
        if match:
            return float(match[1] or 1) * math.pi / float(match[2] or 1)
    return float(value)


def _parse_count(value: Any) -> int:
    number = parse_real(value)
    if number != int(number):
        raise ValueError("not a whole number")
    return int(number)


def _parse_first_island(value: Any) -> int | None:
    """Read 0 as None: they mean the same, and must have the same hash."""
    return _parse_count(value) or None


def _parse_counts(value: Any) -> int | list[int]:
    if isinstance(value, str) and "," in value:
        value = value.split(",")
    return (
        [_parse_count(each) for each in value] if isinstance(value, list) else _parse_count(value)
    )


def _parse_truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}[str(value).lower()]


def _parse_reals(value: Any) -> list[float]:
    return [parse_real(part) for part in (value.split(",") if isinstance(value, str) else value)]


# How text is read, what it must be, and whether a value is that.
_Rule = tuple[Callable[[Any], Any], str, Callable[[Any], bool]]


def _positive(value: float) -> bool:
    return 0 < value < math.inf


def _all_finite(value: float | list[float]) -> bool:
    return all(map(math.isfinite, value if isinstance(value, list) else [value]))


_COUNT: _Rule = (_parse_count, "a positive whole number", lambda value: value >= 1)
_POSITIVE: _Rule = (parse_real, "positive and finite", _positive)
_INSIDE: _Rule = (parse_real, "in (0, 1)", lambda value: 0 < value < 1)


def _one_of(choices: Sequence[str]) -> _Rule:
    return str, f"one of {', '.join(choices)}", lambda value: value in choices


# Rules of the settings that are no sampler's. Samplers state their rules themselves.
_RULES: dict[str, _Rule] = {
    "s": (parse_real, "in [0, 1]", lambda value: 0 <= value <= 1),
    "prior_variance": _POSITIVE,
    "particles": _COUNT,
    "islands": _COUNT,
    "first_island": (
        _parse_first_island,
        "a non-negative whole number",
        lambda value: value is None or value >= 1,
    ),
    "factor_variance": _POSITIVE,
    "split": _INSIDE,
    "posterior_temperature": _POSITIVE,
    "anchor": _one_of(ANCHORS),
    "covariance": _one_of(COVARIANCES),
    "start": _one_of(STARTS),
    "learning_rate": _POSITIVE,
    "batch_size": _COUNT,
    "max_epochs": _COUNT,
    "window": _COUNT,
    "patience": _COUNT,
    "dropout": _INSIDE,
    "swa_epochs": _COUNT,
    "warmup_epochs": _COUNT,
    "sgd_learning_rate": _POSITIVE,
    "swa_learning_rate": _POSITIVE,
    "momentum": (parse_real, "in [0, 1)", lambda value: 0 <= value < 1),
    "rank": _COUNT,
}

# How text is read for a setting of a sampler, by the type of the sampler's field. The type decides
# the value in a record, and so its hash: "1" is 1 for a number of steps, and 1.0 for a step size.
_KINDS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "int": (_parse_count, "a whole number"),
    "float": (parse_real, "a finite number"),
    "bool": (_parse_truth, "true or false"),
    "int | Sequence[int]": (_parse_counts, "a whole number, or several with commas"),
    "Sequence[float]": (_parse_reals, "finite numbers with commas between them"),
    "tuple[float, float]": (_parse_reals, "two numbers with a comma"),
}

_REQUIRED = ("prior_variance", "particles", "islands", "start", "learning_rate", "batch_size")


def settings_hash(experiment: str, method: str, settings: Mapping[str, Any]) -> str:
    """Name a run by what decides its result: 12 hexadecimal digits of a SHA-256.

    Settings that are None are left out, so that a setting that is added later, and not used, does
    not rename the runs that were made before it.

    Args:
        experiment: the experiment's name.
        method: the method's name.
        settings: resolved settings.

    Returns:
        The hash.

    Examples:
        >>> settings_hash("digits", "map", {"s": 0.0, "steps": None})
        'ef9e9e168ef5'
    """
    used = {name: value for name, value in settings.items() if value is not None}
    canonical = json.dumps(
        {"experiment": experiment, "method": method, "settings": used},
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
    )
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]
