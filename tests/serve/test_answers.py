"""Answers are those of `posterior.predict`, to the last bit, and fit their schema."""

import jsonschema
import pytest
import torch
from starlette.testclient import TestClient

from sbmc_serve import create_app, schema
from sbmc_serve.answering import MOST_PARTICLES, Question, Way, answer_together
from sbmc_serve.served import Served


def ask(posterior, content, **options):
    """An answer that fits the schema, to a request that does."""
    with TestClient(create_app(posterior, **options)) as client:
        definitions = client.get("/schema").json()
        validate(content, definitions, "request")
        answer = client.post("/predict", json=content)
        assert answer.status_code == 200, answer.text
        validate(answer.json(), definitions, "answer")
        return answer.json()


def validate(content, definitions, part):
    jsonschema.Draft202012Validator.check_schema(definitions)
    jsonschema.validate(content, {**definitions, "$ref": f"#/$defs/{part}"})


def test_classes(classes, rows):
    answer = ask(classes, {"inputs": rows.tolist()})
    expected = classes.predict(rows)
    assert answer["model"] == "posterior"
    assert "weights" not in answer
    found = answer["predictions"]
    assert [each["label"] for each in found] == [str(int(label)) for label in expected.labels]
    assert [each["probabilities"] for each in found] == expected.probs.tolist()
    for part in ("total", "aleatoric", "epistemic"):
        assert [each[part] for each in found] == getattr(expected, part).tolist()
    assert [each["score"] for each in found] == (1 - expected.max_probability).tolist()
    assert [each["abstain"] for each in found] == (1 - expected.max_probability > 0.25).tolist()


def test_numbers(numbers):
    torch.manual_seed(3)
    rows = torch.randn(5, 4)
    answer = ask(numbers, {"inputs": rows.tolist(), "level": 0.5}, abstain_above=0.2)
    expected = numbers.predict(rows, keep="outputs")
    lower, upper = expected.interval(0.5)
    found = answer["predictions"]
    assert [each["mean"] for each in found] == expected.mean.flatten().tolist()
    assert [each["interval"][0] for each in found] == lower.flatten().tolist()
    assert [each["interval"][1] for each in found] == upper.flatten().tolist()
    assert {each["level"] for each in found} == {0.5}
    assert [each["epistemic"] for each in found] == expected.epistemic.flatten().tolist()
    deviation = expected.variance.sqrt().flatten()
    assert [each["abstain"] for each in found] == (deviation > 0.2).tolist()


def test_numbers_without_a_threshold_are_never_abstained_from(numbers):
    found = ask(numbers, {"inputs": [[0.0] * 4]})["predictions"]
    assert found[0]["abstain"] is None


def test_several_numbers_come_as_lists_with_a_pair_for_each(two_numbers):
    rows = torch.ones(2, 4)
    answer = ask(two_numbers, {"inputs": rows.tolist(), "particles": True})
    expected = two_numbers.predict(rows, keep="outputs")
    first = answer["predictions"][0]
    assert first["mean"] == expected.mean[0].tolist()
    ends = expected.interval(0.9)
    assert first["interval"] == torch.stack(ends, -1)[0].tolist()
    assert len(first["particles"]) == len(answer["weights"]) == 5
    assert len(first["particles"][0]) == 2


def test_what_each_particle_says(classes, numbers, rows):
    answer = ask(classes, {"inputs": rows.tolist(), "particles": True})
    samples = classes.samples(rows)
    assert answer["weights"] == samples.weights.tolist()
    says = samples.outputs().double().softmax(-1).transpose(0, 1)
    found = torch.tensor([e["particles"] for e in answer["predictions"]], dtype=torch.float64)
    torch.testing.assert_close(found, says, rtol=0, atol=1e-7)
    answer = ask(numbers, {"inputs": [[0.5] * 4], "particles": True})
    prediction = answer["predictions"][0]
    weighted = sum(w * m for w, m in zip(answer["weights"], prediction["particles"], strict=True))
    assert weighted == pytest.approx(prediction["mean"], abs=1e-12)


def test_of_many_particles_those_of_the_largest_weights_are_shown(classes, rows, monkeypatch):
    monkeypatch.setattr("sbmc_serve.answering.MOST_PARTICLES", 2)
    weights = torch.tensor([[0.1, 0.4, 0.0, 0.2, 0.3]], dtype=torch.float64)
    monkeypatch.setattr(classes, "weights", weights)
    answer = ask(classes, {"inputs": rows[:1].tolist(), "particles": True})
    assert answer["weights"] == [0.4, 0.3]
    assert answer["note"].startswith("2 of 4 particles are shown")
    assert len(answer["predictions"][0]["particles"]) == 2
    assert MOST_PARTICLES == 200


def test_a_row_of_a_table_is_an_object_or_a_list(table):
    by_name = {"size": 11.5, "colour": "red"}
    answer = ask(table, {"inputs": [by_name, [11.5, "red"], [11.5, "blue"]]})
    one, same, other = answer["predictions"]
    expected = table.predict(
        torch.tensor([[11.5, 0, 1], [11.5, 0, 1], [11.5, 1, 0]]), keep="outputs"
    )
    assert one == same
    assert [one["mean"], other["mean"]] == expected.mean.flatten()[[0, 2]].tolist()
    assert isinstance(one["abstain"], bool)  # `sbmc fit` stored a threshold


def test_whole_numbers(tokens):
    answer = ask(tokens, {"inputs": [[0, 4], [3, 1]]})
    expected = tokens.predict(torch.tensor([[0, 4], [3, 1]]))
    assert [e["probabilities"] for e in answer["predictions"]] == expected.probs.tolist()


def test_a_fitted_confidence_decides(classes, rows, monkeypatch):
    monkeypatch.setattr(classes, "fitted_confidence", None)
    torch.manual_seed(0)
    inputs = torch.randn(60, 2, 3)
    labels = (inputs.sum((1, 2)) > 0).long()
    confidence = classes.confidence((inputs, labels))
    answer = ask(classes, {"inputs": rows.tolist()})
    expected = classes.predict(rows)
    assert [e["score"] for e in answer["predictions"]] == confidence.score(expected).tolist()
    assert [e["abstain"] for e in answer["predictions"]] == confidence.abstain(expected).tolist()
    with TestClient(create_app(classes)) as client:
        info = client.get("/info").json()["models"][0]
    assert info["abstains"] == info["abstention"]["by"] == "confidence"
    assert info["abstention"]["threshold"] == confidence.threshold


def test_a_posterior_is_chosen_by_name(classes, wider, rows):
    both = {"narrow": classes, "wide": wider}
    for name, posterior in both.items():
        answer = ask(both, {"inputs": rows.tolist(), "model": name})
        assert answer["model"] == name
        probabilities = [each["probabilities"] for each in answer["predictions"]]
        assert probabilities == posterior.predict(rows).probs.tolist()
    assert ask(both, {"inputs": rows.tolist()})["model"] == "narrow"


def test_info(classes, wider, table):
    with TestClient(create_app({"narrow": classes, "wide": wider}, about="Of noise.")) as client:
        info = client.get("/info").json()
    assert info["default"] == "narrow"
    narrow, wide = info["models"]
    assert (narrow["s"], wide["s"]) == (0.1, 1.0)
    assert narrow["kind"] == "classes"
    assert narrow["classes"] == ["0", "1", "2"]
    assert narrow["outputs"] == 3
    assert narrow["particles"] == 5
    assert narrow["inputs"]["shape"] == [2, 3]
    assert narrow["inputs"]["kind"] == "array"
    assert narrow["about"] == "Of noise."
    assert narrow["health"]["word"] == classes.health.word
    assert narrow["abstention"]["quantity"] == "error"
    assert narrow["abstention"]["threshold"] == 0.25
    with TestClient(create_app(table)) as client:
        (model,) = client.get("/info").json()["models"]
    size, colour = model["inputs"]["columns"]
    assert (size["name"], size["kind"], size["levels"]) == ("size", "number", [])
    values = table.reference.inputs[0].values
    assert (size["low"], size["high"]) == (values[0], values[-1])
    assert 4 < size["low"] < 8 < size["middle"] < 12 < size["high"] < 16
    assert (colour["kind"], colour["levels"]) == ("category", ["blue", "red"])
    assert model["classes"] is None
    assert model["target"] == "price"
    assert narrow["target"] is None


def as_question(model, rows):
    return Question(Way("posterior", 0.9, False), model.read(rows.tolist()))


def test_questions_that_are_joined_are_answered_as_alone(classes):
    model = Served("posterior", classes)
    torch.manual_seed(4)
    questions = [as_question(model, torch.randn(count, 2, 3)) for count in (1, 3, 2)]
    way = questions[0].way
    together = answer_together({"posterior": model}, way, questions)
    for question, answer in zip(questions, together, strict=True):
        (alone,) = answer_together({"posterior": model}, way, [question])
        same_but_for_rounding(answer, alone)


def same_but_for_rounding(answer, alone):
    # Products of matrices of other sizes may round in another order.
    import json

    one, other = (json.loads(each)["predictions"] for each in (answer, alone))
    assert len(one) == len(other)
    for ours, theirs in zip(one, other, strict=True):
        assert ours["label"] == theirs["label"]
        assert ours["probabilities"] == pytest.approx(theirs["probabilities"], abs=1e-6)


def test_a_planted_mistake_in_the_joining_is_found(classes, monkeypatch):
    model = Served("posterior", classes)
    torch.manual_seed(4)
    questions = [as_question(model, torch.randn(count, 2, 3)) for count in (2, 1)]
    way = questions[0].way
    backwards = torch.cat
    monkeypatch.setattr(
        "sbmc_serve.answering.torch.cat", lambda parts: backwards(list(reversed(parts)))
    )
    together = answer_together({"posterior": model}, way, questions)
    monkeypatch.undo()
    (alone,) = answer_together({"posterior": model}, way, questions[:1])
    with pytest.raises(AssertionError):
        same_but_for_rounding(together[0], alone)


def test_one_row_without_a_finite_answer_spoils_only_its_own_request(classes, monkeypatch):
    model = Served("posterior", classes)
    good, bad = (as_question(model, torch.full((2, 2, 3), value)) for value in (0.5, 1.5))
    predict = classes.predict

    def overflowing(inputs, **options):
        prediction = predict(inputs, **options)
        prediction.total[inputs[:, 0, 0] > 1] = torch.nan
        return prediction

    monkeypatch.setattr(classes, "predict", overflowing)
    observed = []
    answers = answer_together({"posterior": model}, good.way, [good, bad, good], observed.append)
    assert answers[0] == answers[2]
    assert str(answers[1]).startswith("`inputs[0]` must be a row for which the network gives")
    assert [len(each.score) for each in observed] == [4]


def test_the_schema_refuses_what_the_server_refuses(classes):
    definitions = schema.build_schema({"a": Served("a", classes)}, limits())
    for wrong in (
        {},
        {"inputs": []},
        {"inputs": [[1, 2, 3]]},
        {"inputs": [[[1, 2], [3, 4]]]},
        {"inputs": [[[0, 0, 0], [0, 0, "a"]]]},
        {"inputs": [[[0] * 3] * 2], "level": 1},
        {"inputs": [[[0] * 3] * 2], "model": "b"},
        {"inputs": [[[0] * 3] * 2], "particles": 1},
        {"inputs": [[[0] * 3] * 2], "more": 1},
    ):
        with pytest.raises(jsonschema.ValidationError):
            validate(wrong, definitions, "request")


def limits():
    from sbmc_serve import Limits

    return Limits()
