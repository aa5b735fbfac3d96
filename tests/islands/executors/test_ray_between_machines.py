"""Ranks of an island on two machines: network namespaces, in which no name can be resolved."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from repository import ROOT

SCRIPT = Path(__file__).with_name("machines_script.py")
PORT = 6379


pytestmark = pytest.mark.integration


def run(*command: str, **options) -> str:
    """What a command prints; it fails with what it has said."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@contextlib.contextmanager
def two_machines() -> Iterator[list[tuple[str, str]]]:
    """Two namespaces that are connected: their names and addresses. Their processes are ended."""
    number = os.getpid()
    names = [f"sbmc-{number}-{side}" for side in "ab"]
    addresses = ["10.211.0.1", "10.211.0.2"]
    cable = [f"v{number}{side}" for side in "ab"]
    try:
        for name in names:
            run("ip", "netns", "add", name)
        run("ip", "link", "add", cable[0], "type", "veth", "peer", "name", cable[1])
        for name, address, end in zip(names, addresses, cable, strict=True):
            run("ip", "link", "set", end, "netns", name)
            run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", end)
            for device in ("lo", end):
                run("ip", "-n", name, "link", "set", device, "up")
        yield list(zip(names, addresses, strict=True))
    finally:
        for name in names:
            listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
            for pid in listed.stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def require_namespaces() -> None:
    """Skip the test where this user cannot make network namespaces."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("needs the program `ip`, and to be root")
    made = subprocess.run(["ip", "netns", "add", "sbmc-try"], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"no network namespace can be made: {made.stderr.strip()}")
    run("ip", "netns", "del", "sbmc-try")


def test_an_island_has_a_rank_on_each_machine_and_goes_on_when_one_is_killed(tmp_path):
    require_namespaces()
    # Ray's sockets are in this folder, and the path of a socket has 107 bytes at most.
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
    # A variable of Ray: clusters of several machines are for Linux, and others have to ask.
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment.pop("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", None)
    ray = [str(Path(sys.executable).with_name("ray")), "start", "--num-cpus=1"]
    try:
        with two_machines() as ((first, address), (second, other_address)):
            cluster = f"{address}:{PORT}"
            head = ["--head", f"--port={PORT}", "--include-dashboard=false"]
            head += [f"--temp-dir={folder}", '--system-config={"worker_niceness":0}']
            for name, where, how in (
                (first, address, head),
                (second, other_address, [f"--address={cluster}"]),
            ):
                start = [*ray, f"--node-ip-address={where}", "--disable-usage-stats", *how]
                run("ip", "netns", "exec", name, *start, env=environment)
            command = ["ip", "netns", "exec", first, sys.executable, str(SCRIPT)]
            told = run(*command, cluster, str(tmp_path), env=environment)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert told.splitlines()[-1] == "same bits [1, 2]"
    assert (tmp_path / "killed").exists()
    assert len(list(tmp_path.glob("net:*"))) == 2
