"""What can be given as `executor`, and what is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from sbmc.checks import BadInput
from sbmc.islands.executors import Futures, InProcess, Processes, Ray, as_executor, executors


def test_every_file_of_the_folder_is_found():
    assert executors() == {"in-process": InProcess, "processes": Processes, "ray": Ray}
    assert all(settings.summary for settings in executors().values())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None,), InProcess()),
        (("in-process",), InProcess()),
        (("processes",), Processes()),
        (("processes", 3), Processes(workers=3)),
        (("ray", 2, "auto"), Ray(workers=2, address="auto")),
        ((None, 2), Processes(workers=2)),
        ((None, None, "head:6379"), Ray(address="head:6379")),
        ((None, 2, "head:6379"), Ray(address="head:6379", workers=2)),
        ((InProcess(fold=3),), InProcess(fold=3)),
    ],
)
def test_names_and_settings(given, expected):
    assert as_executor(*given) == expected


def test_a_pool_is_wrapped():
    with ThreadPoolExecutor(3) as pool:
        made = as_executor(pool)
    assert made == Futures(pool)
    assert made.workers == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("rya",), "`executor` must be one of .* but got 'rya'. Did you mean 'ray'?"),
        (("futures",), "`executor` must be one of in-process, processes, ray"),
        ((7,), "`executor` must be a name, settings such as"),
        ((Processes,), "`executor` must be a name, settings such as"),
        (("in-process", 2), "`workers` must be left out with the executor in-process"),
        (("processes", 2, "auto"), "`address` must be left out with the executor processes"),
        ((InProcess(), 2), "`workers` must be left out unless `executor` is a name"),
        (("processes", 0), "`workers` must be a positive integer or None, but got 0"),
        (("ray", 2.5), "`workers` must be a positive integer or None"),
        (("ray", None, ""), "`address` must be that of a Ray cluster"),
    ],
)
def test_everything_else_is_refused(given, words):
    with pytest.raises(BadInput, match=words):
        as_executor(*given)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "2"])
@pytest.mark.parametrize(
    ("settings", "name"),
    [(InProcess, "fold"), (InProcess, "threads"), (Processes, "workers"), (Processes, "threads")],
)
def test_settings_refuse_nonsense_when_they_are_made(settings, name, bad):
    with pytest.raises(BadInput, match=f"`{name}` must be a positive integer or None"):
        settings(**{name: bad})


@pytest.mark.parametrize(
    ("name", "bad"),
    [("cpus", 0), ("cpus", float("nan")), ("cpus", "1"), ("gpus", -1), ("gpus", float("inf"))],
)
def test_ray_refuses_nonsense_before_it_is_started(name, bad):
    with pytest.raises(BadInput, match=f"`{name}` must be"):
        Ray(**{name: bad})


def test_threads_are_shared_out(monkeypatch):
    monkeypatch.setattr("sbmc.islands.executors.processes.available_cores", lambda: 8)
    assert Processes().threads_each == 1
    assert Processes(workers=3).threads_each == 2
    assert Processes(workers=100).threads_each == 1
    assert Processes(workers=3, threads=4).threads_each == 4
    assert Ray(cpus=3).threads_each == 3
    assert Ray(cpus=0.25).threads_each == 1
