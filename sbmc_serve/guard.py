"""Stands before every path: who may ask, how refusals are worded, what is counted."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Collection
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sbmc_serve.refusals import FAILED, MISDIRECTED, NOT_FOUND, WRONG_METHOD, Refused

# The page takes everything from this server, and no other page may show it in a frame.
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
OTHER = "other"
_METHODS = ("GET", "HEAD", "POST")


class Guard:
    """Middleware that refuses foreign hosts, answers errors in words, and counts requests.

    Args:
        app: what is guarded.
        count: called with method, path, status and seconds of each request.
        paths: of the routes; others are counted as one, so that strangers cannot make the metrics
            grow.
        allowed_hosts: see `create_app`.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        count: Callable[[str, str, int, float], None],
        paths: Collection[str],
        allowed_hosts: frozenset[str] | None,
    ) -> None:
        self._app = app
        self._count = count
        self._paths = paths
        self._allowed_hosts = allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle what a client sent."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                more = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        try:
            self._require_allowed(scope)
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            if status:  # a part of an answer was sent, which cannot be taken back
                raise
            await refuse(error, scope)(scope, receive, send_with_headers)
        finally:
            method = scope["method"] if scope["method"] in _METHODS else OTHER
            # An application around this one may have it under a prefix.
            path = self._shown(scope["path"].removeprefix(scope.get("root_path", "")))
            self._count(method, path, status, time.perf_counter() - started)

    def _shown(self, path: str) -> str:
        if path in self._paths:
            return path
        return "/static/{name}" if path.startswith("/static/") else OTHER

    def _require_allowed(self, scope: Scope) -> None:
        if self._allowed_hosts is None:
            return
        host = Request(scope).headers.get("host", "")
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            name = ""
        if name not in self._allowed_hosts:
            raise Refused(
                MISDIRECTED,
                "Host",
                f"one of {', '.join(sorted(self._allowed_hosts))}",
                repr(host[:80]),
                "Use the address that the server printed, or start it with --allow-host NAME.",
            )


def refuse(error: Exception, scope: Scope) -> Response:
    """The answer to a request that failed, in words.

    Args:
        error: a refusal, one of Starlette's, or any other, which is printed for who runs the
            server.
        scope: of the request.
    """
    refused = _as_refusal(error, scope)
    return Response(
        refused.body(), refused.status, headers=refused.headers, media_type="application/json"
    )


def _as_refusal(error: Exception, scope: Scope) -> Refused:
    path = repr(scope["path"][:80])
    if isinstance(error, Refused):
        return error
    if isinstance(error, HTTPException) and error.status_code == NOT_FOUND:
        paths = "/predict, /info, /schema, /health, /metrics, /"
        return Refused(NOT_FOUND, "path", f"one of {paths}", path, "GET / has a page.")
    if isinstance(error, HTTPException) and error.status_code == WRONG_METHOD:
        allowed = (error.headers or {}).get("Allow", "GET")
        return Refused(
            WRONG_METHOD,
            "method",
            f"{allowed} for {path}",
            repr(scope["method"][:20]),
            "Send the request by this method.",
            {"Allow": allowed},
        )
    # The cause is for the one who runs the server, and not for who asks.
    traceback.print_exception(error, file=sys.stderr)
    return Refused(
        FAILED,
        "server",
        "able to answer",
        f"an error of its own ({type(error).__name__})",
        "The log of the server has the details.",
    )
