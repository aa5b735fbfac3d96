"""Files that are whole or not there, and words for every place that cannot be written to."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import re
import resource
import shutil
import signal
import time
import uuid
import warnings

import pytest

from sbmc.checks import BadInput
from sbmc.islands.checkpoints.store import CheckpointError, FsspecStore, LocalStore, open_store

OLD, NEW = b"old" * 1000, b"new" * 5000


class InPlace(LocalStore):
    """A planted bug: no temporary name, so that a failure leaves something half written."""

    def _put(self, temporary, name, data):
        with open(self.where(name), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(self.where(name), self.where(name))


class Leaves(LocalStore):
    """A planted bug: the temporary file stays after an error."""

    def remove(self, name):
        pass


@pytest.fixture(params=["local", "memory"])
def store(request, tmp_path):
    if request.param == "local":
        yield open_store(tmp_path / "run")
        return
    store = open_store(f"memory://{uuid.uuid4().hex}/run")
    yield store
    for name in store._listed():
        store.remove(name)


def in_child(action):
    """Run something in a fork of this process, and give the child's status."""
    with warnings.catch_warnings():
        # It execs nothing and takes no lock that a thread could hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            action()
            status = 0
        os._exit(status)
    return os.waitpid(child, 0)[1]


def test_written_read_listed_and_removed(store):
    assert store.read("a") is None
    assert store.names() == []
    store.probe(1000)
    assert store.names() == []
    for name, data in [("b-1", b""), ("a", b"\x00\xff"), ("b-0", OLD), ("a", NEW)]:
        store.write(name, data)
    assert store.names() == ["a", "b-0", "b-1"]
    assert store.names("b-") == ["b-0", "b-1"]
    assert [store.read(name) for name in store.names()] == [NEW, OLD, b""]
    store.remove("a")
    store.remove("a")
    assert store.names() == ["b-0", "b-1"]
    assert store.where("b-0") == f"{store.where()}/b-0"


def test_stores_can_be_sent_to_other_processes(store):
    store.probe()
    store.write("a", OLD)
    again = pickle.loads(pickle.dumps(store))
    assert again == store
    assert again.read("a") == OLD


def test_a_relative_path_means_the_folder_it_meant_at_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = open_store("run")
    monkeypatch.chdir("/")
    assert store.where() == str(tmp_path / "run")


def test_a_file_url_is_the_folder_itself(tmp_path):
    assert open_store(f"file://{tmp_path}/run") == open_store(tmp_path / "run")
    assert isinstance(open_store("memory://run"), FsspecStore)


FAILURES = {
    "fsync": OSError(errno.ENOSPC, "No space left on device"),
    "replace": OSError(errno.EIO, "Input/output error"),
}


def check_failed_write(kind, call, folder, monkeypatch):
    """A write that fails says so, and leaves what was there and nothing else."""
    store = kind(str(folder))
    store.probe()
    store.write("a", OLD)

    def fail(*arguments):
        raise FAILURES[call]

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(CheckpointError) as caught:
            store.write("a", NEW)
    for words in (store.where("a"), str(FAILURES[call]), "intact", "can be resumed"):
        assert words in str(caught.value)
    assert store.read("a") == OLD
    assert os.listdir(folder) == ["a"]
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("call", FAILURES)
def test_a_failed_write_leaves_what_was_there(call, tmp_path, monkeypatch):
    check_failed_write(LocalStore, call, tmp_path / "run", monkeypatch)


@pytest.mark.parametrize("bug", [InPlace, Leaves])
def test_a_writer_without_rename_or_without_cleaning_is_caught(bug, tmp_path, monkeypatch):
    with pytest.raises(AssertionError):
        check_failed_write(bug, "fsync", tmp_path / "run", monkeypatch)


def test_an_interrupt_stays_an_interrupt_and_leaves_nothing(tmp_path, monkeypatch):
    store = open_store(tmp_path)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.write("a", NEW)
    assert os.listdir(tmp_path) == []


def test_a_write_that_fails_on_the_other_side(monkeypatch):
    from fsspec.implementations.memory import MemoryFileSystem

    store = open_store(f"memory://{uuid.uuid4().hex}")
    store.write("a", OLD)

    def fail(*arguments, **options):
        raise ValueError("quota exceeded")  # such libraries have errors of their own

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "mv", fail)
        with pytest.raises(CheckpointError, match="quota exceeded"):
            store.write("a", NEW)
    assert list(store._listed()) == ["a"]
    assert store.read("a") == OLD
    store.remove("a")


def check_killed_writer(kind, folder):
    """Killed after the bytes were written and before they got their name."""
    store = kind(str(folder))
    store.probe()
    store.write("a", OLD)

    def killed():
        os.replace = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
        store.write("a", NEW)

    assert in_child(killed) == signal.SIGKILL
    assert store.read("a") == OLD
    assert store.names() == ["a"]
    return store


def test_a_killed_writer_leaves_the_old_file(tmp_path):
    store = check_killed_writer(LocalStore, tmp_path)
    left = sorted(os.listdir(tmp_path))
    assert len(left) == 2
    assert left[0].startswith(".a.")
    store.sweep()  # it may belong to a writer that is at work
    assert sorted(os.listdir(tmp_path)) == left
    hours_ago = time.time() - 7200
    os.utime(tmp_path / left[0], (hours_ago, hours_ago))
    store.sweep()
    assert os.listdir(tmp_path) == ["a"]


def test_a_killed_writer_without_rename_is_caught(tmp_path):
    with pytest.raises(AssertionError):
        check_killed_writer(InPlace, tmp_path)


def test_readers_never_see_a_part_of_a_file(tmp_path):
    store = open_store(tmp_path)
    versions = [bytes([i]) * (50_000 * (i + 1)) for i in range(4)]
    store.write("a", versions[0])

    def write():
        for i in range(40):
            store.write("a", versions[i % 4])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            write()
        os._exit(0)
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        assert store.read("a") in versions
    assert store.read("a") == versions[39 % 4]


def test_a_real_limit_on_file_size(tmp_path):
    store = open_store(tmp_path)
    store.write("a", OLD)
    said = tmp_path.with_name(tmp_path.name + "-said")

    def write():
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        try:
            store.write("a", NEW)
        except CheckpointError as error:
            said.write_text(str(error))

    assert in_child(write) == 0
    assert "File too large" in said.read_text()
    assert os.listdir(tmp_path) == ["a"]
    assert store.read("a") == OLD


def refused(path, words, needed=0):
    with pytest.raises(BadInput, match=re.escape(words)):
        open_store(path).probe(needed)


def test_folders_that_cannot_be_written_to(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"")
    rule = "`checkpoint` must be a folder that can be written to, but got "
    refused(file, f"{rule}'{file}' ([Errno 17] File exists")
    refused(file / "run", f"{rule}'{file / 'run'}' ([Errno 20] Not a directory")
    refused("/proc/run", f"{rule}'/proc/run' ([Errno ")
    refused("/proc/self", f"{rule}'/proc/self' ([Errno ")
    assert file.read_bytes() == b""


def test_too_little_space_is_told_with_both_numbers(tmp_path, monkeypatch):
    (tmp_path / "own").write_bytes(b"x" * 500)
    usage = type(shutil.disk_usage(tmp_path))(10**9, 10**9 - 1500, 1500)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    rule = "`checkpoint` must be a folder with 2.1 MB of space, but got "
    refused(tmp_path, f"{rule}'{tmp_path}' with 2.0 kB.", needed=2_100_000)
    # What the folder holds already need not fit once more.
    open_store(tmp_path).probe(2000)
    refused(tmp_path, "with 2.0 kB.", needed=2001)


def test_urls_that_nobody_answers_for():
    rule = "`checkpoint` must be a path, or a URL of a file system that fsspec reaches"
    with pytest.raises(BadInput, match=re.escape(f"{rule}, but got 'nowhere://run' (Protocol")):
        open_store("nowhere://run")
    with pytest.raises(BadInput, match=re.escape("without `*` and `[`")):
        open_store("memory://run*")


def test_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(CheckpointError, match="could not be read"):
        open_store(tmp_path).read("a")
