"""What is not answered: with which status, and in which words."""

import asyncio
import json
import threading

import jsonschema
import pytest
import torch
from serve import storm
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from torch import nn

import sbmc
from sbmc_serve import Limits, create_app

KINDS = list(storm.kinds())


def post(client, body):
    return client.post("/predict", content=body, headers=storm.JSON)


@pytest.mark.parametrize(("body", "words"), [kind[1:] for kind in KINDS], ids=[k[0] for k in KINDS])
def test_every_kind_of_mistake_is_named(client, body, words):
    answer = post(client, body)
    content = answer.json()
    assert answer.status_code in (400, 422)
    assert words in content["message"]
    assert storm.is_in_words(content)
    definitions = client.get("/schema").json()
    jsonschema.validate(content, {**definitions, "$ref": "#/$defs/error"})


def test_a_storm_of_wrong_bodies_is_refused_in_words_and_the_server_stays_up(client):
    for body in storm.bodies(300):
        answer = post(client, body)
        assert 400 <= answer.status_code < 500, (body[:200], answer.text)
        assert storm.is_in_words(answer.json()), answer.text
    assert post(client, json.dumps(storm.GOOD)).status_code == 200


def test_a_planted_answer_is_not_taken_for_a_refusal(client):
    right = post(client, b"hello").json()
    assert storm.is_in_words(right)
    right["message"] += " Traceback"
    assert not storm.is_in_words(right)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"size": 1}, "an object with the columns 'size', 'colour', but got one without 'colour'"),
        ({"size": 1, "colour": "red", "weight": 2}, "but got 'weight'. Leave it out."),
        ({"sise": 1, "colour": "red"}, "Did you mean 'size'?"),
        ({"size": 1, "colour": "rde"}, "`inputs[0]['colour']` must be one of 'blue', 'red', but"),
        ({"size": 1, "colour": 1}, "Training had no other values. Send it as text."),
        (
            {"size": "1", "colour": "red"},
            "`inputs[0]['size']` must be a finite number, but got '1'",
        ),
        ({"size": None, "colour": "red"}, "must be a finite number, but got null. Missing"),
        ({"size": True, "colour": "red"}, "must be a finite number, but got true"),
        ({"size": 10**400, "colour": "red"}, "but got an integer of 401 digits"),
        ([1], "`inputs[0]` must be a list of 2 cells, but got one of 1"),
        (["red", 1], "`inputs[0]['size']` must be a finite number"),
        (5, "an object by the names of the columns, or a list in their order, but got 5"),
    ],
)
def test_wrong_rows_of_a_table(table, row, words):
    with TestClient(create_app(table)) as client:
        answer = client.post("/predict", json={"inputs": [row]})
    assert answer.status_code == 422
    assert words in answer.json()["message"]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([0.5, 1], "`inputs[0][0]` must be a whole number, but got 0.5"),
        ([0, 10**30], "`inputs[0][1]` must be a number that int64 can hold"),
        ([0, 99], "`inputs` must be rows that the network can be called with"),
    ],
)
def test_wrong_whole_numbers(tokens, row, words):
    with TestClient(create_app(tokens)) as client:
        answer = client.post("/predict", json={"inputs": [row]})
        assert answer.status_code == 422
        assert words in answer.json()["message"]
        assert client.post("/predict", json={"inputs": [[0, 1]]}).status_code == 200


def test_numbers_that_overflow_inside_the_network_are_refused(client):
    answer = client.post("/predict", json={"inputs": [[[3e38] * 3] * 2]})
    # tanh keeps it finite, or the row is refused: no answer has a number that JSON cannot write.
    assert answer.status_code in (200, 422)
    json.loads(answer.text, parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        ({}, "none"),
        ({"Content-Type": "text/plain"}, "'text/plain'"),
        ({"Content-Type": "application/json; charset=latin-1"}, "'application/json; charset=lat"),
    ],
)
def test_another_content_type_is_refused(client, headers, value):
    answer = client.post("/predict", content=b"{}", headers=headers)
    assert answer.status_code == 415
    assert answer.json()["error"]["value"].startswith(value)


def test_content_types_are_read_as_http_has_them(client):
    headers = {"Content-Type": 'Application/JSON; charset="UTF-8"'}
    answer = client.post("/predict", content=json.dumps(storm.GOOD), headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/predict", 405, "`method` must be POST for '/predict', but got 'GET'"),
        ("POST", "/info", 405, "but got 'POST'"),
        ("DELETE", "/", 405, "but got 'DELETE'"),
        ("GET", "/nothing", 404, "`path` must be one of /predict, /info"),
        ("GET", "/predict/", 404, "but got '/predict/'"),
        ("GET", "/static/..%2fapp.py", 404, "`path` must be"),
        ("GET", "/static/__init__.py", 404, "`path` must be a file of the page"),
    ],
)
def test_wrong_methods_and_paths(client, method, path, status, words):
    answer = client.request(method, path)
    assert answer.status_code == status
    assert words in answer.json()["message"]
    assert ("Allow" in answer.headers) == (status == 405)


def test_every_answer_has_the_headers_of_a_careful_page(client):
    for answer in (client.get("/info"), client.get("/nothing"), post(client, b"")):
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'self';")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers


def test_limits_of_rows_and_bytes(classes):
    limits = Limits(rows=2, bytes=300)
    with TestClient(create_app(classes, limits=limits)) as client:
        row = [[0, 0, 0], [0, 0, 0]]
        assert client.post("/predict", json={"inputs": [row] * 2}).status_code == 200
        answer = client.post("/predict", json={"inputs": [row] * 3})
        assert answer.status_code == 413
        assert "`inputs` must be at most 2 rows, but got 3" in answer.json()["message"]
        answer = post(client, b" " * 301)
        assert answer.status_code == 413
        assert "`body` must be at most 300 bytes, but got 301" in answer.json()["message"]
        # Without a length, what comes is counted.
        answer = post(client, iter([b" " * 200, b" " * 200]))
        assert answer.status_code == 413
        assert "but got more" in answer.json()["message"]


def test_few_rows_if_particles_are_asked_for(classes, monkeypatch):
    monkeypatch.setattr("sbmc_serve.answering.MOST_PARTICLE_NUMBERS", 30)
    with TestClient(create_app(classes)) as client:
        content = {"inputs": [[[0] * 3] * 2] * 3, "particles": True}
        answer = client.post("/predict", json=content)
        assert answer.status_code == 413
        assert "at most 2 rows if particles are asked for, but got 3" in answer.json()["message"]


def test_a_prediction_that_takes_too_long(classes, monkeypatch):
    let_go = threading.Event()
    predict = classes.predict
    app = create_app(classes, limits=Limits(seconds=0.05))

    def slow(inputs, **options):
        assert let_go.wait(60)
        return predict(inputs, **options)

    with TestClient(app) as client:
        monkeypatch.setattr(classes, "predict", slow)
        answer = client.post("/predict", json=storm.GOOD)
        let_go.set()
    assert answer.status_code == 504
    assert "`request` must be answered within 0.05 seconds" in answer.json()["message"]


def call(app, messages, path="/predict", headers=()):
    """Call an application directly, with messages that a client sends; the last waits for ever."""
    scope = {
        "type": "http", "method": "POST", "path": path, "query_string": b"", "root_path": "",
        "headers": [(b"content-type", b"application/json"), *headers], "http_version": "1.1",
    }  # fmt: skip
    sent = []

    async def run():
        waiting = iter(messages)

        async def receive():
            message = next(waiting, None)
            return await asyncio.Event().wait() if message is None else message

        async def send(message):
            sent.append(message)

        await asyncio.wait_for(app(scope, receive, send), 60)

    asyncio.run(run())
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_a_body_that_does_not_come(classes):
    app = create_app(classes, limits=Limits(seconds=0.05))
    part = {"type": "http.request", "body": b"{", "more_body": True}
    status, content = call(app, [part])
    assert status == 408
    assert "`body` must be sent within 0.05 seconds, but got only a part" in content["message"]
    status, content = call(app, [part, {"type": "http.disconnect"}])
    assert status == 408


def test_a_length_that_nobody_can_mean_is_left_to_counting(classes):
    message = {"type": "http.request", "body": b"{}", "more_body": False}
    for length in (b"9" * 5000, b"\xb2", b"-5"):
        status, content = call(
            create_app(classes), [message], headers=[(b"content-length", length)]
        )
        assert status == 422
        assert "`inputs` must be a list of rows" in content["message"]


def test_foreign_hosts_are_refused(classes):
    app = create_app(classes, allowed_hosts=["localhost", "127.0.0.1", "::1"])
    for host, status in [
        ("localhost", 200),
        ("LOCALHOST:8765", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8765", 200),
        ("evil.example", 421),
        ("localhost.evil.example:80", 421),
        ("[", 421),
    ]:
        with TestClient(app) as client:
            answer = client.get("/health", headers={"Host": host})
            assert answer.status_code == status, host
            assert status == 200 or "--allow-host" in answer.json()["message"]


def test_an_error_of_the_server_itself_is_said_and_not_shown(classes, monkeypatch, capsys):
    with TestClient(create_app(classes), raise_server_exceptions=False) as client:
        monkeypatch.setattr(classes, "predict", lambda *_, **__: 1 / 0)
        answer = client.post("/predict", json=storm.GOOD)
    assert answer.status_code == 500
    assert "an error of its own (ZeroDivisionError)" in answer.json()["message"]
    assert "Traceback" not in answer.text
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_an_application_can_be_mounted_in_another(classes):
    inner = create_app(classes)
    with TestClient(Starlette(routes=[Mount("/uncertain", inner)])) as client:
        assert client.post("/uncertain/predict", json=storm.GOOD).status_code == 200
        metrics = client.get("/uncertain/metrics").text
        assert client.get("/uncertain/nothing").status_code == 404
    assert 'sbmc_requests_total{method="POST",path="/predict",status="200"} 1' in metrics


class OfTwo(nn.Module):
    """A network that takes two tensors."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, one, other):
        return self.layer(one + other)


def test_posteriors_that_cannot_be_served_are_refused_at_once(classes, numbers):
    with pytest.raises(sbmc.BadInput, match="all of the same kind, but got classes and numbers"):
        create_app({"a": classes, "b": numbers})
    with pytest.raises(sbmc.BadInput, match="at least one, but got none"):
        create_app({})
    with pytest.raises(sbmc.BadInput, match="a posterior, or several by name"):
        create_app(5)
    x = torch.randn(20, 2)
    two = sbmc.fit(OfTwo(), ((x, x), torch.arange(20) % 2), s=0)
    with pytest.raises(sbmc.BadInput, match="takes one tensor"):
        create_app(two)


def test_a_distilled_network_is_refused_with_what_to_do(classes):
    with pytest.raises(sbmc.BadInput, match=r"a distilled network, .*distilled\.export"):
        create_app(classes.distil(steps=1))
