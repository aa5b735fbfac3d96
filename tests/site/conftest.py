"""The site as `make docs` builds it, built once for all workers, and a server that shows it."""

import functools
import os
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from browsing import axe, browser, need  # noqa: F401, fixtures
from filelock import FileLock
from repository import ROOT

PREFIX = "/sbmc/"  # the site is not at the root of its host


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the built site."""
    mkdocs = ROOT / ".venv-docs" / "bin" / "mkdocs"
    mkdocs = Path(os.environ.get("SBMC_MKDOCS") or mkdocs)
    need(mkdocs.is_file(), "MkDocs is not installed", "make docs")
    # Workers of pytest-xdist have a folder each below a common one.
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "site"
    with FileLock(shared / "site.lock"):
        if not (folder / "index.html").is_file():
            command = [mkdocs, "build", "--strict", "--site-dir", folder]
            quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
            done = subprocess.run(
                command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            assert "WARNING" not in done.stderr, done.stderr
    return folder


class _Handler(SimpleHTTPRequestHandler):
    """Serves the site below its prefix, as its public host does, and says nothing."""

    def translate_path(self, path):
        return super().translate_path("/" + path.removeprefix(PREFIX) if PREFIX in path else "/-")

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="session")
def address(site):
    """Where the site is served, on this machine alone."""
    handler = functools.partial(_Handler, directory=str(site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}{PREFIX}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def pages(site):
    """The paths of all pages below the site's address."""
    found = [file.relative_to(site).parent.as_posix() for file in site.glob("**/index.html")]
    return sorted("" if path == "." else f"{path}/" for path in found)
