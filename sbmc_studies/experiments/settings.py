"""Settings of a run: an experiment's values, then a preset's, then what the command line says.

What comes out is *resolved*: every value that decides the result stands in it, and two runs with
equal settings and seed are the same run. The 12-digit hash of the settings names its folder.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sbmc.checks import BadInput, nearest, require
from sbmc_studies.experiments.experiment import PRESETS, Experiment

if TYPE_CHECKING:
    from sbmc_studies.experiments.methods import Method

Settings = dict[str, Any]

STARTS = ("prior", "anchor", "ensemble")
ANCHORS = ("map", "swa", "mc-dropout")
COVARIANCES = ("linear", "laplace")

# At the top level of every record, used or not, so that records of all methods can be compared.
ALWAYS = ("s", "prior_variance", "particles", "islands", "steps", "leapfrog", "mutations")

# How networks are trained: anchors, ensembles, and the networks of a tuning.
OPTIMISER_SETTINGS = ("learning_rate", "batch_size", "max_epochs", "window", "patience")
TRAINING_SETTINGS = ("prior_variance", *OPTIMISER_SETTINGS)

# Two ways to say one thing: naming one of them takes back what the preset says by the other.
ALTERNATIVES = (
    ("steps", "epochs"),
    ("leapfrog", "trajectory"),
    ("s", "factor_variance"),
    ("s", "split"),
    ("factor_variance", "split"),
)
# For a method that an experiment has no settings for: one training's worth of epochs, and what the
# design recommends.
UNPREPARED = {"s": 0.1, "epochs": 160, "start": "anchor", "posterior_temperature": 0.1}


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
        Every setting of the method, with those of `ALWAYS` that it has not set to None.

    Raises:
        BadInput: if a setting is unknown, breaks its rule, or is fixed by the method.

    Example:
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
        **method.defaults(),
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
    known = {*method.uses, *method.defaults(), "start"} if method.sampler else set()
    cold = {"posterior_temperature"} if method.name != "cold" else set()
    return {k: v for k, v in UNPREPARED.items() if k in known - cold}


def anchors_at_map(settings: Mapping[str, Any]) -> bool:
    """Whether the prior needs a trained network.

    At s = 1/2 and above it is not centred on the anchor; then nobody has to train one.

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
    # What a method lacks is None in the record, but must not be asked of it.
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
        The value in its own type, so that `1` and `"1.0"` lead to the same hash.

    Raises:
        BadInput: if the value breaks the rule.

    Example:
        >>> check_setting("trajectory", "pi/2")
        1.5707963267948966
    """
    if isinstance(value, str) and value.lower() in ("none", "null"):
        value = None
    if value is None:
        require(name not in _REQUIRED, name, _RULES[name][1] if name in _RULES else "set", value)
        return None
    if name not in _RULES:  # `network`, or a setting whose rule is its sampler's own
        return _read_freely(value)
    parse, rule, holds = _RULES[name]
    try:
        parsed = parse(value)
    except (TypeError, ValueError, KeyError, OverflowError):
        raise BadInput(f"`{name}` must be {rule}, but got {value!r}.") from None
    require(holds(parsed), name, rule, value)
    return parsed


def _read_freely(value: Any) -> Any:
    """A number or a truth value where a text is one; the sampler has the rule."""
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

    Example:
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
    """0 is the same as nothing said, and must have the same hash."""
    return _parse_count(value) or None


def _parse_counts(value: Any) -> int | list[int]:
    if isinstance(value, str) and "," in value:
        value = value.split(",")
    return (
        [_parse_count(each) for each in value] if isinstance(value, list) else _parse_count(value)
    )


def _each_positive(value: int | list[int]) -> bool:
    return all(each >= 1 for each in (value if isinstance(value, list) else [value]))


def _parse_truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}[str(value).lower()]


def _parse_reals(value: Any) -> list[float]:
    return [parse_real(part) for part in (value.split(",") if isinstance(value, str) else value)]


_Rule = tuple[Callable[[Any], Any], str, Callable[[Any], bool]]


def _positive(value: float) -> bool:
    return 0 < value < math.inf


_COUNT: _Rule = (_parse_count, "a positive whole number", lambda value: value >= 1)
_POSITIVE: _Rule = (parse_real, "positive and finite", _positive)
_FRACTION: _Rule = (parse_real, "in [0, 1)", lambda value: 0 <= value < 1)

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
    "steps": _COUNT,
    "epochs": _COUNT,
    "leapfrog": _COUNT,
    "trajectory": _POSITIVE,
    "step_size": _POSITIVE,
    "adapt": (_parse_truth, "true or false", lambda value: True),
    "acceptance_band": (_parse_reals, "two numbers with a comma", lambda value: len(value) == 2),
    "shrink": _POSITIVE,
    "grow": _POSITIVE,
    "warmup": _FRACTION,
    "jitter": _FRACTION,
    "precondition": _COUNT,
    "scout": _COUNT,
    "scout_step_size": _POSITIVE,
    "scout_batches": _COUNT,
    "launch": (_parse_count, "a non-negative integer", lambda value: value >= 0),
    "draws": _COUNT,
    "thinning": _COUNT,
    "mutations": (_parse_counts, "a positive whole number", _each_positive),
    "eta": _POSITIVE,
    "ess": (parse_real, "a fraction in (0, 1)", lambda value: 0 < value < 1),
    "resample_below": (parse_real, "a fraction in (0, 1)", lambda value: 0 < value < 1),
    "temperatures": (_parse_reals, "numbers with commas between them", bool),
    "step_sizes": (_parse_reals, "numbers with commas between them", bool),
    "sampler_batch_size": _COUNT,
    "friction": _POSITIVE,
    "gradient_noise": (parse_real, "non-negative and finite", lambda value: 0 <= value < math.inf),
    "temperature": _POSITIVE,
    "decay": (parse_real, "in [0, 1]", lambda value: 0 <= value <= 1),
    "delay": _POSITIVE,
    "waste_free": (_parse_truth, "true or false", lambda value: True),
    "pilot": (_parse_truth, "true or false", lambda value: True),
    "most_temperatures": _COUNT,
    "factor_variance": _POSITIVE,
    "split": (parse_real, "in (0, 1)", lambda value: 0 < value < 1),
    "posterior_temperature": _POSITIVE,
    "splitting": (_parse_truth, "true or false", lambda value: True),
    "anchor": (str, f"one of {', '.join(ANCHORS)}", lambda value: value in ANCHORS),
    "covariance": (str, f"one of {', '.join(COVARIANCES)}", lambda value: value in COVARIANCES),
    "start": (str, f"one of {', '.join(STARTS)}", lambda value: value in STARTS),
    "learning_rate": _POSITIVE,
    "dropout": (parse_real, "in (0, 1)", lambda value: 0 < value < 1),
    "swa_epochs": _COUNT,
    "warmup_epochs": _COUNT,
    "sgd_learning_rate": _POSITIVE,
    "swa_learning_rate": _POSITIVE,
    "momentum": _FRACTION,
    "rank": _COUNT,
    "warmup_draws": _COUNT,
    "max_depth": _COUNT,
    "target_accept": (parse_real, "in (0, 1)", lambda value: 0 < value < 1),
    "low_rank": (_parse_truth, "true or false", lambda value: True),
    "batch_size": _COUNT,
    "max_epochs": _COUNT,
    "window": _COUNT,
    "patience": _COUNT,
}

_REQUIRED = ("prior_variance", "particles", "islands", "start", "learning_rate", "batch_size")


def parse_assignment(text: str) -> tuple[str, str]:
    """Split `KEY=VALUE`, as `--set` takes it.

    Args:
        text: the assignment.

    Returns:
        The setting's name, with hyphens read as underscores, and its value as text.

    Raises:
        BadInput: if there is no `=` or nothing before it.

    Example:
        >>> parse_assignment("step-size=0.05")
        ('step_size', '0.05')
    """
    key, equals, value = text.partition("=")
    require(bool(equals and key.strip()), "set", "of the form KEY=VALUE", text)
    return key.strip().replace("-", "_"), value.strip()


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

    Example:
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
