"""Threads that wait for each other on a busy machine: asleep, and only where they are of use."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import torch
from repository import ROOT
from torch import nn

import sbmc
from sbmc.model.threads import side_by_side, thread_count, threads_for, torch_threads

# Runs as short as these are no posteriors, and may be told so.
pytestmark = pytest.mark.filterwarnings("ignore:The posterior is not ok")

# Says what the policy is at the moment that torch is imported.
WATCH = """
import builtins, importlib.abc, os, sys

class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print("policy:", os.environ.get("OMP_WAIT_POLICY"), flush=True)
            os._exit(0)

sys.meta_path.insert(0, Watch())
"""
CLEAN = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}


def policy_when_torch_is_imported(code, **variables):
    environment = {**CLEAN, "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-c", WATCH + code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    "code",
    [
        "from sbmc.cli import main; main(['methods'])",
        "import runpy; sys.argv[1:] = ['methods']; runpy.run_module('sbmc', run_name='__main__')",
    ],
    ids=["sbmc", "python -m sbmc"],
)
def test_the_command_line_lets_threads_sleep_before_torch_is_imported(code):
    output, errors = policy_when_torch_is_imported(code)
    assert output == "policy: PASSIVE", errors


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [("OMP_WAIT_POLICY", "ACTIVE", "ACTIVE"), ("GOMP_SPINCOUNT", "7", "None")],
)
def test_the_users_own_policy_stays(variable, value, expected):
    output, errors = policy_when_torch_is_imported("import sbmc.cli, torch", **{variable: value})
    assert output == f"policy: {expected}", errors


def test_the_library_leaves_the_policy_alone_and_the_package_imports_no_torch():
    code = "import sbmc; assert 'torch' not in sys.modules; sbmc.HMC"
    output, errors = policy_when_torch_is_imported(code)
    assert output == "policy: None", errors


def test_fit_is_the_function_whatever_was_imported_before():
    import importlib

    module = importlib.import_module("sbmc.fitting.fit")
    assert sbmc.fit is module.fit
    assert callable(sbmc.fit)


def in_a_new_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_a_number_of_threads_is_the_threads_own():
    before = in_a_new_thread(torch.get_num_threads)
    with torch_threads(3):
        assert torch.get_num_threads() == 3
        assert in_a_new_thread(torch.get_num_threads) == before
    assert torch.get_num_threads() == 1
    assert in_a_new_thread(torch.get_num_threads) == before


def test_a_small_evaluation_has_one_thread():
    with torch_threads(2), threads_for(1000, 10, apart=True):
        here = threading.get_ident()
        assert thread_count() == torch.get_num_threads() == 1
        assert set(side_by_side(lambda _: threading.get_ident(), [0, 1])) == {here}


def test_pieces_of_a_larger_one_run_side_by_side_while_its_operations_are_not_split():
    both = threading.Barrier(2, timeout=60)  # neither gets past it alone
    with torch_threads(2):
        with threads_for(2**30, 1000, apart=True):
            assert (thread_count(), torch.get_num_threads()) == (2, 1)
            assert sorted(side_by_side(lambda _: both.wait(), [0, 1])) == [0, 1]
            assert torch.get_num_threads() == 1
        assert (thread_count(), torch.get_num_threads()) == (2, 2)


def test_a_large_one_is_left_to_torch():
    for positions, apart in ((2**30, True), (10, False)):
        with torch_threads(2), threads_for(2**40, positions, apart=apart):
            assert thread_count() == torch.get_num_threads() == 2


SAMPLERS = {
    "whole data": sbmc.HMC(steps=2),
    "mini-batches": sbmc.SGHMC(epochs=1, batch_size=16),
}


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_a_fit_of_a_small_network_starts_no_threads_and_keeps_its_bits(sampler, monkeypatch):
    net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 2))
    data = torch.randn(200, 20), torch.randint(2, (200,))
    options = {"sampler": sampler, "progress": False, "compute": sbmc.Compute(chunk_size=50)}
    alone = sbmc.fit(net, data, **options)
    monkeypatch.setattr("sbmc.model.threads._pool", None)
    with torch_threads(2):
        together = sbmc.fit(net, data, **options)
    assert torch.equal(alone.positions, together.positions)
