"""Wrong and odd command lines: every option of every command with every odd text, in process."""

import contextlib
import io
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
from refusals.verdicts import (
    DOCUMENTED,
    ENDLESS,
    FOREIGN,
    IN_WORDS,
    INTERNAL,
    MOST_CHARACTERS,
    WORKED,
    Endless,
    Verdict,
    bounded,
)

from sbmc.cli.main import _all_commands, main
from sbmc.datasets.files import read_table
from sbmc.estimators.table import fit_table

SEED = 22
TEXTS = (
    *(
        "",
        " ",
        "zzz",
        "0",
        "-1",
        "1",
        "1.5",
        "-0.5",
        "nan",
        "inf",
        "1e400",
        "9" * 40,
        "1/0",
        "1,,2",
    ),
    *("None", "True", "[]", "{}", "no such/file", "a\0b", "z" * 3000, "ünïcödé", "--", "-x", "0-"),
)
NETWORK = "from torch import nn\nnet = nn.Linear(2, 2)\n"
ROWS = "x,label\n" + "".join(f"{row / 10},{'no' if row < 12 else 'yes'}\n" for row in range(24))
QUICK = ("--budget", "0.1", "--any-health", "--quiet")
# Commands that need no option to be asked for, and arguments that let them end soon.
ARGUMENTS = {
    "run": ["digits", "--dry-run"],
    "tune": ["digits", "--dry-run"],
    "table": ["digits"],
    "figure": ["digits", "epochs"],
    "head": ["embeddings.npz", "--max-epochs", "1", "--epochs", "8", "--particles", "2", "--quiet"],
    "explain": ["network.py:net", "--input-shape", "2"],
    "report": ["my.sbmc", "--data", "rows.csv", "--quiet"],
    "fit": ["--data", "rows.csv", "--out", "new.sbmc", "--hidden", "2", *QUICK],
    "predict": ["my.sbmc", "--data", "rows.csv", "--quiet"],
    "evaluate": ["my.sbmc", "--data", "rows.csv", "--quiet"],
    "card": ["my.sbmc", "--out", "folder", "--data", "rows.csv", "--quiet"],
    "export": ["my.sbmc", "--out", "graph.pt2", "--quiet"],
    "drift": ["my.sbmc", "--data", "rows.csv", "--quiet"],
    "serve": ["my.sbmc", "--port", "0", "--quiet"],
    "resume": ["no such folder"],
    "extend": ["no such folder", "--islands", "2"],
    "merge": ["no such folder"],
}
# Opening a browser is no test of refusals; whether this machine is well is none either.
LEFT_OUT = {"--open", "--help", "--version", "--quick", "--check"}
COMMANDS_LEFT_OUT = {"doctor"}


def prepare(folder: Path) -> None:
    """Write the files that right command lines read."""
    (folder / "network.py").write_text(NETWORK, "utf-8")
    inputs = np.linspace(-1, 1, 60, dtype=np.float32).reshape(20, 3)
    np.savez(folder / "embeddings.npz", inputs=inputs, labels=np.arange(20) % 2)
    (folder / "rows.csv").write_text(ROWS, "utf-8")
    posterior = fit_table(read_table(folder / "rows.csv"), hidden_layers=(2,), budget=0.1)
    posterior.islands = [replace(each, displacement=[]) for each in posterior.islands]
    posterior.save(folder / "my.sbmc")


def lines() -> Iterator[list[str]]:
    """All command lines, in a fixed order."""
    for text in TEXTS:
        yield [text]
    for path, command in _commands(_all_commands(), []):
        right = ARGUMENTS.get(path[-1], ["no such file"])
        for text in TEXTS:
            yield [*path, text]
            yield [*path, *right, text]
        for parameter in command.params:
            for option in parameter.opts:
                if not option.startswith("--") or option in LEFT_OUT:
                    continue
                yield [*path, *right, option]
                yield [*path, *right, f"{option}x", "1"]
                for text in TEXTS:
                    yield [*path, *right, option, text]


def _commands(command, path) -> Iterator[tuple[list[str], object]]:
    for name, each in getattr(command, "commands", {}).items():
        if name in COMMANDS_LEFT_OUT:
            continue
        if hasattr(each, "commands"):
            yield from _commands(each, [*path, name])
        else:
            yield [*path, name], each


def run(line: list[str]) -> Verdict:
    """Run one command line and say how it ended."""
    label = ("sbmc", " ".join(line)[:80], "")
    errors, output = io.StringIO(), io.StringIO()
    try:
        with bounded(), contextlib.redirect_stderr(errors), contextlib.redirect_stdout(output):
            code = main(line)
    except Endless:
        return Verdict(ENDLESS, *label)
    except BaseException as error:
        return Verdict(INTERNAL, *label, f"{type(error).__name__}: {error}")
    message = errors.getvalue()
    if code == 0:
        return Verdict(WORKED, *label)
    last = message.strip().splitlines()[-1] if message.strip() else ""
    in_form = re.match(r"sbmc: `[^`]*`.* must .*but got ", last)
    foreign = FOREIGN.search(last)
    if code == 1 and DOCUMENTED.match(last.removeprefix("sbmc: RuntimeError: ")):
        return Verdict(IN_WORDS, *label, last)
    # A posterior that an earlier line made is not healthy, and whoever asks it is told so.
    if code == 3 and last.startswith("sbmc: health of the posterior: not ok"):
        return Verdict(WORKED, *label)
    if code == 2 and in_form and not foreign and len(last) <= MOST_CHARACTERS:
        return Verdict(IN_WORDS, *label, last)
    return Verdict(INTERNAL, *label, f"exit code {code}: {last[:300]}")


def storm(share: float = 1.0) -> Iterator[Verdict]:
    """How all command lines ended, or a share of them, run in the current folder."""
    prepare(Path.cwd())
    rng = random.Random(SEED)
    # A server that has started runs until it is stopped.
    with patch("sbmc_serve.running.answer_until_stopped"):
        for line in lines():
            if rng.random() < share:
                yield run(line)
