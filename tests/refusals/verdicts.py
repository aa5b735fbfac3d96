"""Calls a function with odd arguments, and judges how the call ended."""

import contextlib
import inspect
import io
import re
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from sbmc import BadInput
from sbmc.storage.files import CheckpointError

# Seconds of computing, not of the clock, after which a call counts as one without end.
MOST_SECONDS = 20
MOST_CHARACTERS = 1000
WORKED, IN_WORDS, INTERNAL, ENDLESS, TAKEN = "worked", "in words", "internal", "endless", "taken"
# Estimators read tables by scikit-learn's functions, whose words its own tests ask for.
SKLEARN = "in scikit-learn's words"
# What a message must not have: words of torch, numpy and Python, and places in our own files.
FOREIGN = re.compile(
    r"has no attribute|NoneType|unsupported operand|not subscriptable|not iterable|not callable"
    r"|mat1 and mat2|cannot be multiplied|Expected .* (to|but)|expected .* argument|size mismatch"
    r"|AssertionError|KeyError|TypeError|AttributeError|IndexError|ValueError|RuntimeError"
    r"|Traceback|sbmc/[\w/]*\.py| at 0x|positional argument|keyword argument|Dimension out of range"
    r"|not supported between|not implemented for|could not convert|must be real number"
    r"|dtype\(|could not be broadcast|invalid literal|Sparse|aten::|c10|'meta'|ambiguous"
)
# Failures of a computation, which the docstrings announce as RuntimeError.
DOCUMENTED = re.compile(
    r"Training failed: the loss|\d+ of \d+ islands failed|No value of v could be scored"
)
RULE = re.compile(r"`[^`]+`.* must .*but got .*", re.DOTALL)


class Endless(BaseException):
    """A call took too long; no handler of ours may catch this."""


class Verdict(NamedTuple):
    """How one call ended."""

    outcome: str
    function: str
    argument: str
    value: str
    message: str = ""

    def __str__(self) -> str:
        return f"{self.outcome}: {self.function}({self.argument}={self.value}): {self.message}"


@contextlib.contextmanager
def bounded(seconds: float = MOST_SECONDS) -> Iterator[None]:
    """End what computes for longer than so many seconds."""

    def stop(*_: object) -> None:
        raise Endless

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def judge(error: BaseException, known: set[str]) -> tuple[str, str]:
    """Whether an error is in words, and what is wrong with it if it is not.

    Args:
        error: what a call raised.
        known: names of arguments, one of which the message has to have.
    """
    message = str(error)
    if isinstance(error, ImportError | BadInput) and "pip install" in message:
        return IN_WORDS, message
    if isinstance(error, CheckpointError) or DOCUMENTED.match(message):
        return IN_WORDS, message
    if isinstance(error, ValueError | TypeError) and _read_by_sklearn(error):
        return SKLEARN, message
    if not isinstance(error, BadInput):
        return INTERNAL, f"{type(error).__name__}: {message}"
    names = {
        word for part in re.findall(r"`([^`]+)`", message) for word in re.findall(r"\w+", part)
    }
    if not RULE.search(message):
        return INTERNAL, f"no rule: {message}"
    if not names & known:
        return INTERNAL, f"names no argument of {sorted(known)}: {message}"
    if len(message) > MOST_CHARACTERS or message.count("\n") > 1:
        return INTERNAL, f"too long ({len(message)}): {message[:300]}"
    if foreign := FOREIGN.search(message):
        return INTERNAL, f"has {foreign[0]!r}: {message}"
    return IN_WORDS, message


def _read_by_sklearn(error: BaseException) -> bool:
    """Whether scikit-learn's check of a table raised it."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return not isinstance(error, BadInput) and any(
        "/sklearn/utils/validation.py" in file or "/sklearn/utils/multiclass.py" in file
        for file in files
    )


def fits(value: Any, annotation: str) -> bool:
    """Whether a value may work for an argument of simple type, by its annotation."""
    kinds = {part.strip() for part in str(annotation).split("|")}
    if not kinds <= {"bool", "int", "float", "None"}:
        return True  # nothing simple: the function decides
    name = type(value).__name__
    whole = name in ("int", "int64")
    return (
        (value is None and "None" in kinds)
        or (name in ("bool", "bool_") and "bool" in kinds)
        or (whole and kinds & {"int", "float"} != set())
        or ("float" in kinds and name in ("float", "float32", "float64", "Fraction"))
    )


def call(
    function: Callable[..., Any],
    options: dict[str, Any],
    label: tuple[str, str, str],
    known: set[str],
    wrong: list[tuple[Any, str]],
) -> Verdict:
    """Call a function and say how that ended.

    Args:
        function: what is called.
        options: its arguments.
        label: names of the function, of the argument and of its value.
        known: names by which a message may call the argument.
        wrong: the odd values with the annotations of their arguments.
    """
    try:
        with (
            bounded(),
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            result = function(**options)
            if inspect.isgenerator(result):
                next(result, None)
    except Endless:
        return Verdict(ENDLESS, *label)
    except Exception as error:
        return Verdict(*_placed(judge(error, known), label))
    for value, annotation in wrong:
        if not fits(value, annotation):
            return Verdict(TAKEN, *label, f"worked, though it is of type {annotation}")
    return Verdict(WORKED, *label)


def _placed(judged: tuple[str, str], label: tuple[str, str, str]) -> tuple[str, str, str, str, str]:
    outcome, message = judged
    return (outcome, *label, message)


def counts(verdicts: list[Verdict]) -> Counter[str]:
    """How many calls ended in which way."""
    return Counter(each.outcome for each in verdicts)
