"""Child processes that begin with torch imported: forks of one that has imported nothing else.

A new interpreter spends most of a second on `import torch`, and a test that needs a process of its
own, for its memory, its signals or its environment, is done in a fraction of that. Each child still
imports sbmc itself, with the environment and the warning filters that the test gives it. Tests of
what a new interpreter does (the first import, the order of imports) start one with `subprocess`.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
import threading
import types
import warnings
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import CompletedProcess

from repository import ROOT

# One server for each process of pytest. It starts with the first child and ends with pytest.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch"])


class Child:
    """A process that runs what `python` would run with the same arguments.

    Args:
        command: the arguments: `-c` and code, `-m` and a module, or the path of a script, each with
            arguments of its own behind it; `-W` and a filter may come first.
        cwd: its working folder; the repository's root by default.
        env: added to the environment of this process. The root is always in its path, and OpenMP
            has one thread.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        cwd: Path = ROOT,
        env: Mapping[str, str] | None = None,
    ) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
        readers, writers = zip(*(CONTEXT.Pipe(duplex=False) for _ in range(2)), strict=True)
        words = [str(word) for word in command]
        self.process = CONTEXT.Process(target=_begin, args=(words, str(cwd), environment, *writers))
        self.process.start()
        assert self.process.pid is not None
        self.pid: int = self.process.pid
        self.stdout, self.stderr = (os.fdopen(os.dup(each.fileno())) for each in readers)
        for end in (*readers, *writers):
            end.close()

    @property
    def returncode(self) -> int | None:
        """The exit code; negative if a signal ended it, None while it runs."""
        return self.process.exitcode

    def poll(self) -> int | None:
        """The exit code, as `subprocess.Popen` gives it."""
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.stdout.close()
        self.stderr.close()

    def communicate(self, timeout: float = 240.0) -> tuple[str, str]:
        """Wait for its end; what it has written that was not read yet."""
        errors: list[str] = []
        listener = threading.Thread(target=lambda: errors.append(self.stderr.read()))
        listener.start()
        output = self.stdout.read()
        listener.join(timeout)
        self.process.join(timeout)
        assert self.returncode is not None, "the child does not end"
        self.stdout.close()
        self.stderr.close()
        return output, errors[0]


def run(
    command: Sequence[str | Path],
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    *,
    check: bool = False,
) -> CompletedProcess:
    """Run a child to its end, as `subprocess.run` does; for the arguments see `Child`."""
    child = Child(command, cwd, env)
    output, errors = child.communicate()
    assert child.returncode is not None
    if check:
        assert child.returncode == 0, errors
    return CompletedProcess(list(command), child.returncode, output, errors)


def _begin(
    words: list[str], cwd: str, environment: dict[str, str], out: Connection, err: Connection
) -> None:
    """In the child: become what the command line says."""
    for end, stream in ((out, sys.__stdout__), (err, sys.__stderr__)):
        os.dup2(end.fileno(), stream.fileno())
        stream.reconfigure(line_buffering=True)
        end.close()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path.insert(0, str(ROOT))
    while words[0] == "-W":
        warnings.simplefilter(words[1])  # type: ignore[arg-type]
        words = words[2:]
    how, *rest = words
    if how == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif how == "-c":
        sys.argv = ["-c", *rest[1:]]
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        exec(compile(rest[0], "<child>", "exec"), vars(main))
    else:
        sys.argv = words
        sys.path.insert(0, str(Path(how).parent))
        runpy.run_path(how, run_name="__main__")
