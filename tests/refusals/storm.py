"""Wrong and odd calls of all public functions, and how each of them ended.

python tests/refusals/storm.py            prints the counts
python tests/refusals/storm.py fit        those of functions whose name has "fit", with failures
"""

import os
import random
import sys
import tempfile
from collections.abc import Iterator

from refusals import command_lines
from refusals.surface import Subject, subjects
from refusals.verdicts import ENDLESS, INTERNAL, TAKEN, Verdict, call, counts

SEED = 22
# Calls with two odd arguments, for each function.
PAIRS = 40
# Right arguments are refused all the same: islands that are in both, or no such files.
NEVER_WORK = {"merge", "load_embedded", "read_texts", "read_pictures"}
# Words for what arguments have in them, by which messages may call an argument.
PARTS = {"model", "inputs", "targets", "outputs", "mean", "variance"}


def single(subject: Subject) -> Iterator[Verdict]:
    """Every argument, made wrong in every way, one at a time."""
    names = {*subject.parameters, *subject.right, *subject.named, *PARTS}
    for argument, parameter in subject.parameters.items():
        for name, value in subject.odd_values(argument).items():
            yield call(
                subject.function,
                subject.right | {argument: value},
                (subject.name, argument, name),
                names,
                [(value, parameter.annotation)],
            )


def pairs(subject: Subject, rng: random.Random) -> Iterator[Verdict]:
    """Two arguments wrong at once, chosen at random."""
    parameters = subject.parameters
    names = {*parameters, *subject.right, *subject.named, *PARTS}
    for _ in range(PAIRS if len(parameters) > 1 else 0):
        two = rng.sample(list(parameters), 2)
        chosen = {each: rng.choice(list(subject.odd_values(each).items())) for each in two}
        yield call(
            subject.function,
            subject.right | {argument: value for argument, (_, value) in chosen.items()},
            (subject.name, " and ".join(two), " and ".join(name for name, _ in chosen.values())),
            names,
            [(value, parameters[each].annotation) for each, (_, value) in chosen.items()],
        )


def storm(only: str = "") -> Iterator[Verdict]:
    """All calls, in a fixed order."""
    rng = random.Random(SEED)
    for subject in subjects():
        if only in subject.name:
            yield from single(subject)
            yield from pairs(subject, rng)


def main() -> None:
    """Print how calls and command lines ended, and which of them failed."""
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    kinds = {"calls": storm(only)} | ({} if only else {"command lines": command_lines.storm()})
    for kind, verdicts in kinds.items():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # odd paths are written to, too
            found = []
            for each in verdicts:
                found.append(each)
                if each.outcome in (INTERNAL, ENDLESS, TAKEN):
                    print(str(each)[:400], flush=True)
            print(f"{len(found)} {kind}: {dict(counts(found))}", flush=True)
            os.chdir("/")


if __name__ == "__main__":
    main()
