"""A real server in a process of its own: load, wrong bodies, kill and restart, a graceful end."""

import json
import signal
import socket
import threading
import time

import pytest
import torch
from serve import storm

from benchmarks.serving_client import ServerProcess, content_of, send_all

pytestmark = pytest.mark.integration

JSON_HEAD = (
    b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n"
)


@pytest.fixture(scope="module")
def file(tmp_path_factory, table):
    path = tmp_path_factory.mktemp("served") / "my.sbmc"
    table.save(path)
    return path


@pytest.fixture
def start(file, tmp_path):
    """Start servers; all of them are ended."""
    started = []

    def start(*arguments, port=0):
        started.append(ServerProcess([str(file), *arguments], tmp_path, port))
        return started[-1]

    yield start
    for each in started:
        each.stop(signal.SIGKILL)


def bodies(count):
    torch.manual_seed(0)
    sizes = (10 + 2 * torch.randn(count)).tolist()
    rows = [{"size": size, "colour": "red" if n % 2 else "blue"} for n, size in enumerate(sizes)]
    return rows, [json.dumps({"inputs": [row]}).encode() for row in rows]


def test_many_requests_at_once_are_all_answered_rightly(start, table):
    server = start()
    rows, sent = bodies(1000)
    answers, _ = send_all(server.port, sent, at_once=32)
    assert {answer.status for answer in answers} == {200}
    inputs = torch.tensor(
        [[row["size"], row["colour"] == "blue", row["colour"] == "red"] for row in rows]
    )
    expected = table.predict(inputs, keep="outputs").mean.flatten().tolist()
    found = [content_of(answer)["predictions"][0]["mean"] for answer in answers]
    assert found == pytest.approx(expected, rel=1e-5)
    metrics = server.get("/metrics")
    assert 'sbmc_requests_total{method="POST",path="/predict",status="200"} 1000' in metrics
    assert 'sbmc_rows_total{model="my"} 1000' in metrics


def test_a_thousand_wrong_bodies_are_refused_in_words_and_it_is_still_up(start):
    server = start()
    wrong = list(storm.bodies(1000))
    answers, _ = send_all(server.port, wrong, at_once=32)
    for body, answer in zip(wrong, answers, strict=True):
        assert 400 <= answer.status < 500, body[:200]
        assert storm.is_in_words(content_of(answer)), answer.body
    (answer,), _ = send_all(server.port, bodies(1)[1], at_once=1)
    assert answer.status == 200
    code, errors = server.stop()
    assert code == 0
    assert errors == ""  # nothing of it was an error of the server


def test_a_server_that_was_killed_starts_again_on_its_port(start):
    first = start()
    sent = bodies(1)[1]
    (before,), _ = send_all(first.port, sent, at_once=1)
    # A connection that is open when it dies leaves the port in use for a while.
    with socket.create_connection(("127.0.0.1", first.port)):
        code, _ = first.stop(signal.SIGKILL)
    assert code == -signal.SIGKILL
    second = start(port=first.port)
    (after,), _ = send_all(second.port, sent, at_once=1)
    assert (after.status, after.body) == (200, before.body)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_requests_under_way_are_answered_before_it_ends(start, number):
    server = start()
    body = bodies(1)[1][0]
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        # Half of a request is under way when the signal comes.
        client.sendall(JSON_HEAD % len(body) + body[:5])
        wait_until_counted(server)
        ended = threading.Thread(target=server.process.send_signal, args=(number,))
        ended.start()
        ended.join()
        wait_until_closed(server.port)
        client.sendall(body[5:])
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b'"predictions"' in answer
    code, errors = server.stop()
    assert code == 0
    assert errors == ""


def wait_until_counted(server):
    """A request after another one shows that the server has read what came before."""
    assert "ready" in server.get("/health")


def wait_until_closed(port):
    """Until nobody can connect any more: then the server has begun to end."""
    for _ in range(6000):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=60).close()
        except OSError:
            return
        time.sleep(0.01)
    raise AssertionError("it takes connections still")
