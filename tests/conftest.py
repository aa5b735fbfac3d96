"""What all tests share."""

import functools
import gc
import os
import signal

import pytest
import torch
from repository import RECORDS

# Sizes here are tiny: more threads would cost more than they give.
torch.set_num_threads(1)


def pytest_collection_finish():
    """What was imported stays: the collector need not go through all of it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _nothing_waits_for_the_disk():
    """Files need not outlive a power cut here; a killed process loses none of them either way.

    On a busy disk the tests waited for it a third of their time. That files are synced at all, and
    before they are renamed, is seen by tests that put an `fsync` of their own in its place.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="session")
def committed_records():
    """Every committed record is read from its file once; the tests change none of them."""
    from sbmc_studies.records import record

    read = record.read_record
    read_once = functools.cache(read)

    def read_record(path):
        return read_once(path) if path.is_relative_to(RECORDS) else read(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "read_record", read_record)
        yield RECORDS


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_interrupts():
    """SIGINT interrupts, here and in what tests start.

    A shell starts a job in the background with SIGINT ignored. Python then leaves it so, and every
    process that is started inherits it: a test that presses Ctrl-C would wait in vain.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _same_global_noise():
    """Layers draw their initial weights from torch's global generator: alike in every run."""
    torch.manual_seed(0)


@pytest.fixture
def sbmc(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder; give back its exit code, output and errors."""
    from sbmc.cli import main

    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        code = main([str(each) for each in arguments])
        output = capsys.readouterr()
        return code, output.out, output.err

    return command
