"""The work of `sbmc serve`: open files, listen, answer until it is told to stop."""

from __future__ import annotations

import ipaddress
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import uvicorn

from sbmc.checks import BadInput, Phrase, require
from sbmc.cli.opening import open_posterior
from sbmc.posterior.posterior import Posterior
from sbmc_serve.app import create_app
from sbmc_serve.digits import ABOUT, digits_posteriors
from sbmc_serve.limits import Limits

# Connections that are open at once; further ones are turned away.
MOST_CONNECTIONS = 1000
# Connections that wait to be taken.
BACKLOG = 1024


def run_serve(
    files: Sequence[Path],
    *,
    digits: bool = False,
    model: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8765,
    allow_hosts: Sequence[str] = (),
    limits: Limits,
    abstain_above: float | None = None,
    quiet: bool = False,
) -> int:
    """Serve posteriors until Ctrl-C or SIGTERM.

    Args:
        files: of the posteriors.
        digits: whether to serve those of the embedded digits instead.
        model: a reference to the network, if the files need one.
        host: the address to listen at.
        port: to listen at; 0 for any that is free.
        allow_hosts: further names that requests may call the server by.
        limits: of requests.
        abstain_above: the threshold of abstention.
        quiet: print the address and nothing else.

    Returns:
        The exit code.

    Raises:
        BadInput: a file cannot be served, or the address is not free.
    """
    good = bool(files) != digits
    got = Phrase("both" if files and digits else "nothing")
    require(good, "files", "posteriors' files, or --digits without files", got)
    listener = listen(host, port)
    with listener:
        if digits:
            posteriors = digits_posteriors(progress=False if quiet else None)
        else:
            posteriors = open_files(files, model)
        local = ipaddress.ip_address(listener.getsockname()[0]).is_loopback
        names = {"localhost", "127.0.0.1", "::1", host.lower(), *map(str.lower, allow_hosts)}
        application = create_app(
            posteriors,
            limits=limits,
            abstain_above=abstain_above,
            about=ABOUT if digits else None,
            allowed_hosts=names if local or allow_hosts else None,
        )
        if not quiet:
            _say_health(posteriors)
        if not local:
            print(
                f"sbmc: {host} can be reached by other machines, and nobody is asked for a "
                "password: put a proxy with authentication and TLS in front, or leave --host out.",
                file=sys.stderr,
            )
        print(f"sbmc: serving at {_address(listener)} (Ctrl-C ends it)", flush=True)
        answer_until_stopped(application, listener, limits.seconds)
    if not quiet:
        print("sbmc: stopped; requests under way were answered.", file=sys.stderr)
    return 0


def open_files(files: Sequence[Path], model: str | None = None) -> dict[str, Posterior]:
    """Open posteriors; each is named after its file.

    Raises:
        BadInput: a file cannot be opened, or two have one name.
    """
    posteriors: dict[str, Posterior] = {}
    for file in files:
        name = file.name.removesuffix(".sbmc")
        rule = "of different names, by which requests choose"
        require(name not in posteriors, "files", rule, Phrase(f"{name!r} twice"))
        posteriors[name] = open_posterior(file, model)
    return posteriors


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens at an address.

    Raises:
        BadInput: there is no such address here, or it is taken.
    """
    require(bool(host.strip()), "host", "an address of this machine", host)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, ValueError):
        raise BadInput(
            f"`host` must be an address of this machine, but got {host[:80]!r}. Leave it out to "
            "serve this machine alone."
        ) from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    if sys.platform != "win32":
        # Otherwise the port stays taken for a minute after a server was killed.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        # Whoever connects from now on waits until requests are answered.
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise BadInput(
            f"`port` must be free at {host}, but got {port} ({error.strerror}). Give another "
            "--port, or 0 for any that is free."
        ) from None
    return listener


def answer_until_stopped(application: object, listener: socket.socket, seconds: float) -> None:
    """Run an application; Ctrl-C and SIGTERM end it after requests under way are answered.

    Args:
        application: of ASGI.
        listener: a socket that is bound.
        seconds: to wait for requests under way.
    """
    config = uvicorn.Config(
        application,  # type: ignore[arg-type]
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        backlog=BACKLOG,
        timeout_graceful_shutdown=int(seconds) + 1,
    )
    # uvicorn stops at these signals, and raises them again when it has: then all is done.
    before = {each: signal.signal(each, _ignore) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _ignore(number: int, frame: object) -> None:
    """Do nothing more."""


def _say_health(posteriors: Mapping[str, Posterior]) -> None:
    for name, posterior in posteriors.items():
        print(f"sbmc: health of {name}: {posterior.health}", file=sys.stderr)


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"
