"""The application: which path is answered by what."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from sbmc.checks import BadInput, Phrase, require
from sbmc.posterior.distillation.distilled import Distilled
from sbmc.posterior.living.drift import Drift
from sbmc.posterior.posterior import Posterior
from sbmc_serve.answering import Question, Way, answer_together, read_question
from sbmc_serve.batching import Batcher
from sbmc_serve.body import parse_body, require_json_type
from sbmc_serve.guard import Guard, refuse
from sbmc_serve.limits import Limits
from sbmc_serve.metrics import Metrics
from sbmc_serve.page_files import INDEX, read_page
from sbmc_serve.prometheus import CONTENT_TYPE, write_metrics
from sbmc_serve.refusals import NOT_FOUND, TOO_LARGE, TOO_LATE, TOO_SLOW, Refused
from sbmc_serve.schema import build_schema
from sbmc_serve.served import Served

# Bodies up to this size are read where requests are taken in; larger ones in a thread.
SMALL_BODY = 32_768


def create_app(
    posteriors: Posterior | Mapping[str, Posterior],
    *,
    limits: Limits | None = None,
    abstain_above: float | None = None,
    about: str | None = None,
    allowed_hosts: Collection[str] | None = None,
) -> Starlette:
    """An ASGI application that answers for posteriors.

    It can be run by any ASGI server, or be mounted in an application of your own. Requests that
    arrive together are answered by one prediction, in one thread.

    Args:
        posteriors: one, or several by name, of the same kind: the same inputs, the same classes.
            The first is the default.
        limits: of requests.
        abstain_above: the threshold of abstention, as for `sbmc predict`; the posterior's own if
            it is not given.
        about: a sentence about the posteriors, which the page shows.
        allowed_hosts: names that requests may call the server by; any if not given. A server on
            the loopback address should name its own: otherwise a page in a browser could reach it
            by a name that is made to point there.

    Returns:
        The application.

    Raises:
        BadInput: posteriors of different kinds, or one whose inputs are not a single tensor.

    Examples:
        >>> import sbmc, torch
        >>> from starlette.testclient import TestClient
        >>> data = torch.randn(20, 2), torch.randint(2, (20,))
        >>> posterior = sbmc.fit(torch.nn.Linear(2, 2), data, s=0)
        >>> with TestClient(create_app(posterior)) as client:
        ...     answer = client.post("/predict", json={"inputs": [[0.5, -1.0]]}).json()
        >>> sorted(answer["predictions"][0])
        ['abstain', 'aleatoric', 'epistemic', 'label', 'probabilities', 'score', 'total']
    """
    require(limits is None or isinstance(limits, Limits), "limits", "a Limits or None", limits)
    require(about is None or isinstance(about, str), "about", "a text or None", about)
    hosts = None if allowed_hosts is None else _host_names(allowed_hosts)
    named = posteriors if isinstance(posteriors, Mapping) else {"posterior": posteriors}
    models = _check(named, abstain_above, about)
    server = _Server(models, limits or Limits())
    routes = [
        Route("/predict", server.predict, methods=["POST"]),
        Route("/info", server.info, methods=["GET"]),
        Route("/schema", server.schema, methods=["GET"]),
        Route("/health", server.health, methods=["GET"]),
        Route("/metrics", server.metrics, methods=["GET"]),
        Route("/", server.page, methods=["GET"]),
        Route("/static/{name}", server.page, methods=["GET"]),
    ]
    handlers: dict[Any, Any] = {Refused: _refused, HTTPException: _refused}
    application = Starlette(routes=routes, lifespan=server.run, exception_handlers=handlers)
    application.router.redirect_slashes = False
    application.add_middleware(
        Guard,
        count=server.counts.count_request,
        paths={route.path for route in routes},
        allowed_hosts=hosts,
    )
    return application


def _check(
    named: Mapping[str, Posterior], abstain_above: float | None, about: str | None
) -> dict[str, Served]:
    require(bool(named), "posteriors", "at least one", Phrase("none"))
    for name, each in named.items():
        if isinstance(each, Distilled):
            raise BadInput(
                "`posteriors` must be a posterior, or several by name, but got a distilled "
                "network, which is not served. Write it for another runtime: "
                "distilled.export('model.onnx')."
            )
        good = isinstance(name, str) and bool(name) and isinstance(each, Posterior)
        require(good, "posteriors", "a posterior, or several by name", each)
    models = {name: Served(name, each, abstain_above, about) for name, each in named.items()}
    first = next(iter(models.values()))
    for model in models.values():
        for what in ("kind", "shape", "classes", "encoding"):
            rule = f"all of the same {what}"
            got = Phrase(f"{getattr(first, what)} and {getattr(model, what)}")
            same = getattr(model, what) == getattr(first, what)
            require(same, "posteriors", rule, got)
        # Computed before the first request, as is what predictions are prepared by.
        model.info()
        model.reference  # noqa: B018
    return models


def _host_names(names: Any) -> frozenset[str]:
    good = isinstance(names, list | tuple | set | frozenset)
    good = good and all(isinstance(name, str) for name in names)
    require(good, "allowed_hosts", "a list of names of hosts, or None for any", names)
    return frozenset(name.lower() for name in names)


class _Server:
    """What the paths are answered by."""

    def __init__(self, models: Mapping[str, Served], limits: Limits) -> None:
        self._models = models
        self._limits = limits
        self._default = next(iter(models))
        self._page = read_page()
        self._schema = _json(build_schema(models, limits))
        self.counts = Metrics(models)
        self._batcher: Batcher[Way, Question, bytes] = Batcher(
            partial(answer_together, models, observe=self.counts.count_rows),
            batch_rows=limits.batch_rows,
            queue=limits.queue,
            observe=self.counts.count_batch,
        )

    @asynccontextmanager
    async def run(self, application: Starlette) -> AsyncIterator[None]:
        """Answer while the application runs; when it ends, what waits is answered first."""
        self._batcher.start()
        try:
            yield
        finally:
            await asyncio.to_thread(self._batcher.stop)

    async def predict(self, request: Request) -> Response:
        """Answer for rows."""
        seconds = self._limits.seconds
        started = asyncio.get_running_loop().time()
        require_json_type(request.headers.get("content-type", ""))
        try:
            body = await asyncio.wait_for(self._body(request), seconds)
        except TimeoutError:
            rule = f"sent within {seconds:g} seconds"
            remedy = "Send it faster, or in several requests."
            raise Refused(TOO_SLOW, "body", rule, "only a part of it", remedy) from None
        if len(body) <= SMALL_BODY:
            question = self._read(body)
        else:
            question = await asyncio.to_thread(self._read, body)
        left = seconds - (asyncio.get_running_loop().time() - started)
        rows = len(question.inputs)
        try:
            answer = await self._batcher.ask(question.way, question, rows=rows, seconds=left)
        except TimeoutError:
            raise Refused(
                TOO_LATE,
                "request",
                f"answered within {seconds:g} seconds",
                f"{rows:,} rows that took longer, {self._batcher.waiting:,} other requests waiting",
                "Send fewer rows at once, or try again later.",
            ) from None
        return Response(answer, media_type="application/json")

    async def info(self, request: Request) -> Response:
        """What is served."""
        content = {
            "models": [model.info() for model in self._models.values()],
            "default": self._default,
        }
        return _answer(content)

    async def schema(self, request: Request) -> Response:
        """The JSON Schema of requests and answers."""
        return Response(self._schema, media_type="application/json")

    async def health(self, request: Request) -> Response:
        """Whether requests are answered, and how the posteriors are."""
        ready = self._batcher.alive
        drifts = await asyncio.to_thread(self.counts.drifts)
        models = {}
        for name, model in self._models.items():
            health, drift = model.posterior.health, drifts[name]
            models[name] = {
                "word": health.word,
                "ok": health.ok,
                "message": str(health),
                "drifted": drift and drift.drifted,
                "drift": self._words(model, drift),
            }
        content = {"status": "ready" if ready else "stopping", "models": models}
        return _answer(content, 200 if ready else 503)

    async def metrics(self, request: Request) -> Response:
        """What was counted, for Prometheus."""
        collected = await asyncio.to_thread(
            self.counts.collect, self._batcher.waiting, self._limits.queue
        )
        return Response(write_metrics(collected), headers={"Content-Type": CONTENT_TYPE})

    async def page(self, request: Request) -> Response:
        """A file of the page."""
        name = request.path_params.get("name", INDEX)
        found = self._page.get(name)
        if found is None:
            known = ", ".join(sorted(self._page)) or "none"
            raise Refused(
                NOT_FOUND, "path", "a file of the page", repr(name[:80]), f"There are: {known}."
            )
        return Response(found.content, headers={"Content-Type": found.media_type})

    def _words(self, model: Served, drift: Drift | None) -> str:
        if drift is not None:
            return drift.explain()
        if model.reference is None:
            return "It is not known what the training data were like."
        return "There were too few rows to say."

    def _read(self, body: bytes) -> Question:
        return read_question(parse_body(body), self._models, self._default, self._limits)

    async def _body(self, request: Request) -> bytes:
        announced = request.headers.get("content-length", "")
        # A number of more digits is no number of bytes; what comes is counted all the same.
        known = announced.isascii() and announced.isdecimal() and len(announced) < 20
        if known and int(announced) > self._limits.bytes:
            raise self._too_large(f"{int(announced):,}")
        parts, size = [], 0
        try:
            async for part in request.stream():
                size += len(part)
                if size > self._limits.bytes:
                    raise self._too_large("more")
                parts.append(part)
        except ClientDisconnect:
            remedy = "Send all of the body."
            raise Refused(TOO_SLOW, "body", "sent to its end", "a part of it", remedy) from None
        return b"".join(parts)

    def _too_large(self, got: str) -> Refused:
        rule = f"at most {self._limits.bytes:,} bytes"
        remedy = "Send fewer rows at once, or start the server with a larger --max-bytes."
        return Refused(TOO_LARGE, "body", rule, got, remedy)


def _refused(request: Request, error: Exception) -> Response:
    return refuse(error, request.scope)


def _answer(content: Any, status: int = 200) -> Response:
    return Response(_json(content), status, media_type="application/json")


def _json(content: Any) -> bytes:
    return json.dumps(content, allow_nan=False).encode("ascii")
