"""Wrong and odd calls of all public functions, and how each of them ended.

PYTHONPATH=tests python -m refusals.storm            prints the counts, and what failed
PYTHONPATH=tests python -m refusals.storm fit        those of functions whose name has "fit"
"""

import os
import random
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from refusals import command_lines
from refusals.surface import Subject, subjects
from refusals.verdicts import ENDLESS, INTERNAL, TAKEN, Verdict, call, counts

SEED = 22
# Calls with two odd arguments, for each function.
PAIRS = 40
# Right arguments are refused all the same: islands that are in both, files and models that
# are not there, a posterior that is no model of PEFT.
NEVER_WORK = {
    *("merge", "load_embedded", "read_texts", "read_pictures", "read_tuning", "load_arrays"),
    *("find_weights", "load_frozen", "text_states", "TextEncoder", "save_adapters"),
    "ShardedFiles",
}
# Words for what arguments have in them, by which messages may call an argument.
PARTS = {"model", "inputs", "targets", "outputs", "mean", "variance"}


class WrongCall(NamedTuple):
    """A call that has yet to be made."""

    subject: Subject
    wrong: dict[str, tuple[str, Any]]  # the odd values of arguments, each with its name

    def verdict(self) -> Verdict:
        """Make the call, and say how it ended."""
        subject, parameters = self.subject, self.subject.parameters
        odd = {argument: value for argument, (_, value) in self.wrong.items()}
        label = " and ".join(self.wrong), " and ".join(name for name, _ in self.wrong.values())
        return call(
            subject.function,
            subject.right | odd,
            (subject.name, *label),
            {*parameters, *subject.right, *subject.named, *PARTS},
            [(value, parameters[argument].annotation) for argument, value in odd.items()],
        )


def single(subject: Subject) -> Iterator[WrongCall]:
    """Every argument, made wrong in every way, one at a time."""
    for argument in subject.parameters:
        for each in subject.odd_values(argument).items():
            yield WrongCall(subject, {argument: each})


def pairs(subject: Subject, rng: random.Random) -> Iterator[WrongCall]:
    """Two arguments wrong at once, chosen at random."""
    parameters = list(subject.parameters)
    for _ in range(PAIRS if len(parameters) > 1 else 0):
        two = rng.sample(parameters, 2)
        yield WrongCall(
            subject, {each: rng.choice(list(subject.odd_values(each).items())) for each in two}
        )


def storm(only: str = "", share: float = 1.0) -> Iterator[Verdict]:
    """All calls, or a share of them, in a fixed order."""
    rng = random.Random(SEED)
    for subject in subjects():
        if only in subject.name:
            for each in (*single(subject), *pairs(subject, rng)):
                if rng.random() < share:
                    yield each.verdict()


def main() -> None:
    """Print how calls and command lines ended, and which of them failed."""
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    warnings.simplefilter("ignore")
    kinds = {"calls": storm(only)} | ({} if only else {"command lines": command_lines.storm()})
    for kind, verdicts in kinds.items():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # odd paths are written to, too
            found = []
            for each in verdicts:
                found.append(each)
                if each.outcome in (INTERNAL, ENDLESS, TAKEN):
                    print(str(each)[:400], flush=True)
            print(f"{len(found):,} {kind}: {dict(counts(found))}", flush=True)
            os.chdir("/")


if __name__ == "__main__":
    main()
