"""What all tests share."""

import signal

import pytest
import torch

# Sizes here are tiny: more threads would cost more than they give.
torch.set_num_threads(1)


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
