"""`/metrics` in Prometheus' text format, exactly, and what is counted."""

import re

import pytest
import torch
from serve import storm
from starlette.testclient import TestClient

from sbmc_serve import Limits, create_app
from sbmc_serve.answering import Observed
from sbmc_serve.metrics import Metrics
from sbmc_serve.prometheus import Histogram, Metric, Sample, write_metrics
from sbmc_serve.served import Served
from sbmc_serve.watch import FEWEST, WINDOW

# A line of the format, as its specification has it.
LINE = re.compile(
    r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*\})? '
    r"([+-]?(?:[0-9.]+(?:e[+-]?[0-9]+)?|Inf|NaN))"
)


def read(text):
    """Values by name and labels, from text that is in the format."""
    values, kinds = {}, {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds, "a metric is described once"
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            found = LINE.fullmatch(line)
            assert found, line
            key = found[1] + (found[2] or "")
            assert key not in values, f"{key} twice"
            name = re.sub("_(bucket|sum|count)$", "", found[1])
            assert found[1] in kinds or kinds.get(name) == "histogram", line
            values[key] = float(found[3].replace("Inf", "inf"))
    return values


def test_the_text_exactly():
    seconds = Histogram((0.1, 2.0))
    for value in (0.05, 0.1, 0.5, 7.0):
        seconds.observe(value)
    metrics = [
        Metric(
            "a_total", "counter", "Lines\nand \\ signs.", [Sample(2, {"m": 'a"b\\c\nd', "n": ""})]
        ),
        Metric("b", "gauge", "Numbers.", [Sample(v) for v in (0.1, -3.0, 1e300)]),
        Metric("c", "gauge", "Rare ones.", [Sample(float(v)) for v in ("nan", "inf", "-inf")]),
        Metric("nothing", "gauge", "Left out.", []),
        Metric("s", "histogram", "Seconds.", seconds.samples({"path": "/"})),
    ]
    assert write_metrics(metrics) == (
        "# HELP a_total Lines\\nand \\\\ signs.\n"
        "# TYPE a_total counter\n"
        'a_total{m="a\\"b\\\\c\\nd",n=""} 2\n'
        "# HELP b Numbers.\n"
        "# TYPE b gauge\n"
        "b 0.1\nb -3\nb 1e+300\n"
        "# HELP c Rare ones.\n"
        "# TYPE c gauge\n"
        "c NaN\nc +Inf\nc -Inf\n"
        "# HELP s Seconds.\n"
        "# TYPE s histogram\n"
        's_bucket{path="/",le="0.1"} 2\n'
        's_bucket{path="/",le="2"} 3\n'
        's_bucket{path="/",le="+Inf"} 4\n'
        's_sum{path="/"} 7.65\n'
        's_count{path="/"} 4\n'
    )


def test_requests_rows_and_uncertainty_are_counted(classes, rows):
    with TestClient(create_app({'my "own"': classes})) as client:
        client.post("/predict", json={"inputs": rows.tolist()})
        client.post("/predict", json={"inputs": rows[:2].tolist()})
        client.post("/predict", json={"inputs": []})
        client.get("/wp-login.php")
        client.request("BREW", "/pot")
        answer = client.get("/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    values = read(answer.text)
    assert values['sbmc_requests_total{method="POST",path="/predict",status="200"}'] == 2
    assert values['sbmc_requests_total{method="POST",path="/predict",status="422"}'] == 1
    assert values['sbmc_requests_total{method="GET",path="other",status="404"}'] == 1
    assert values['sbmc_requests_total{method="other",path="other",status="404"}'] == 1
    assert values['sbmc_request_seconds_count{path="/predict"}'] == 3
    assert values['sbmc_request_seconds_bucket{path="/predict",le="+Inf"}'] == 3
    assert values["sbmc_batch_rows_sum"] == len(rows) + 2
    assert values["sbmc_batch_requests_count"] == 2
    assert values["sbmc_queue_requests"] == 0
    assert values["sbmc_queue_limit"] == Limits().queue
    label = '{model="my \\"own\\""'
    assert values[f"sbmc_rows_total{label}}}"] == len(rows) + 2
    assert values[f"sbmc_healthy{label}}}"] == int(bool(classes.health.ok))
    both = [classes.predict(rows), classes.predict(rows[:2])]
    for part in ("total", "aleatoric", "epistemic"):
        all_of_it = torch.cat([getattr(each, part) for each in both])
        total = values[f'sbmc_uncertainty_sum{label},part="{part}"}}']
        assert total == pytest.approx(all_of_it.sum().item(), rel=1e-12)
        mean = values[f'sbmc_uncertainty_mean{label},part="{part}"}}']
        assert mean == pytest.approx(all_of_it.mean().item(), rel=1e-12)
    doubtful = torch.cat([1 - each.max_probability > 0.25 for each in both])
    assert values[f"sbmc_abstained_rows_total{label}}}"] == int(doubtful.sum())
    share = values[f"sbmc_abstained_share{label}}}"]
    assert share == pytest.approx(doubtful.double().mean().item())


def observed(values, abstain=None, shape=(2, 3)):
    parts = dict.fromkeys(("total", "aleatoric", "epistemic"), torch.tensor(values).double())
    decisions = None if abstain is None else torch.tensor(abstain)
    return Observed("a", torch.zeros(len(values), *shape), parts, decisions, parts["total"])


def collected(counts):
    return read(write_metrics(counts.collect(0, 1)))


def test_what_is_of_late_forgets_and_what_is_since_the_start_does_not(classes):
    counts = Metrics({"a": Served("a", classes)})
    counts.count_rows(observed([8.0] * 10, [True] * 10))
    counts.count_rows(observed([1.0] * WINDOW, [False] * WINDOW))
    values = collected(counts)
    assert values['sbmc_uncertainty_mean{model="a",part="epistemic"}'] == 1.0
    assert values['sbmc_uncertainty_sum{model="a",part="epistemic"}'] == 80.0 + WINDOW
    assert values['sbmc_abstained_share{model="a"}'] == 0.0
    assert values['sbmc_abstained_rows_total{model="a"}'] == 10


def test_without_rows_there_is_no_mean(numbers):
    counts = Metrics({"a": Served("a", numbers)})
    values = collected(counts)
    assert values['sbmc_rows_total{model="a"}'] == 0
    assert not any("mean" in name or "abstained" in name for name in values)


def test_a_planted_line_out_of_format_is_found():
    with pytest.raises(AssertionError):
        read('# TYPE a gauge\na{b="c"d"} 1\n')


def test_health_says_whether_requests_are_answered_and_how_the_posterior_is(classes):
    app = create_app(classes)
    with TestClient(app) as client:
        answer = client.get("/health")
        assert answer.status_code == 200
        assert answer.json()["status"] == "ready"
        model = answer.json()["models"]["posterior"]
        assert model == {
            "word": classes.health.word,
            "ok": classes.health.ok,
            "message": str(classes.health),
            "drifted": None,
            "drift": "There were too few rows to say.",
        }
    # After its end, as while it ends, it is no longer ready.
    late = TestClient(app)
    answer = late.get("/health")
    assert answer.status_code == 503
    assert answer.json()["status"] == "stopping"
    answer = late.post("/predict", json=storm.GOOD)
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"


def test_drift_is_that_of_the_posterior_over_the_last_rows(classes):
    torch.manual_seed(5)
    near, far = torch.randn(2 * FEWEST, 2, 3), torch.randn(WINDOW, 2, 3) + 3
    with TestClient(create_app({"a": classes})) as client:
        few = {"inputs": near[: FEWEST - 1].tolist()}
        client.post("/predict", json=few)
        assert "sbmc_drift" not in client.get("/metrics").text
        rest = {"inputs": near[FEWEST - 1 :].tolist()}
        client.post("/predict", json=rest)
        found = read(client.get("/metrics").text)
        expected = classes.drift(near)
        check_drift(found, expected)
        assert not expected.drifted
        health = client.get("/health").json()["models"]["a"]
        assert health["drifted"] is False
        assert health["drift"] == expected.explain()
        # Rows from elsewhere push the others out of the window.
        client.post("/predict", json={"inputs": far.tolist()})
        found = read(client.get("/metrics").text)
        check_drift(found, classes.drift(far))
        assert found['sbmc_drifted{model="a",of="inputs"}'] == 1
        assert client.get("/health").json()["models"]["a"]["drifted"] is True


def check_drift(found, expected):
    for shift in expected.uncertainties:
        value = found[f'sbmc_drift_distance{{model="a",of="{shift.name}"}}']
        assert value == pytest.approx(shift.distance, abs=1e-12)
    largest = max(abs(shift.distance) for shift in expected.inputs)
    assert found['sbmc_drift_distance{model="a",of="inputs"}'] == pytest.approx(largest, abs=1e-12)
    p_value = found['sbmc_drift_p_value{model="a",of="inputs"}']
    assert p_value == pytest.approx(expected.p_inputs, abs=1e-12)
    p_value = found['sbmc_drift_p_value{model="a",of="uncertainties"}']
    assert p_value == pytest.approx(expected.p_uncertainties, abs=1e-12)


def test_without_a_reference_there_is_no_drift(classes, monkeypatch):
    monkeypatch.setattr("sbmc_serve.served.reference_to_save", lambda posterior: None)
    counts = Metrics({"a": Served("a", classes)})
    counts.count_rows(observed([1.0] * WINDOW))
    assert counts.drifts() == {"a": None}
    assert not any("drift" in name for name in collected(counts))
    with TestClient(create_app({"a": classes})) as client:
        health = client.get("/health").json()["models"]["a"]
    assert health["drift"] == "It is not known what the training data were like."


def test_abstentions_of_a_confidence_are_compared_with_those_of_training(classes, monkeypatch):
    monkeypatch.setattr(classes, "fitted_confidence", None)
    monkeypatch.setattr(classes, "_reference", None)
    torch.manual_seed(0)
    inputs = torch.randn(60, 2, 3)
    confidence = classes.confidence((inputs, (inputs.sum((1, 2)) > 0).long()))
    rows = torch.randn(FEWEST, 2, 3) * 2
    with TestClient(create_app({"a": classes})) as client:
        client.post("/predict", json={"inputs": rows.tolist()})
        found = read(client.get("/metrics").text)
    check_drift(found, classes.drift(rows))
    training = classes.training_data[0]
    more = confidence.abstain(rows).double().mean() - confidence.abstain(training).double().mean()
    value = found['sbmc_drift_distance{model="a",of="abstained"}']
    assert value == pytest.approx(more.item(), abs=1e-12)
    assert more != 0
