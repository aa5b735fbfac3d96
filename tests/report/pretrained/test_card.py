"""Cards: what they say, what they must not say, and that their own code runs."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pretrained_cases as cases
import pytest
import torch
import yaml
from huggingface_hub import ModelCard, metadata_load
from pretrained_cases import X, Y

import sbmc
from sbmc.islands.health import Health
from sbmc.prediction import metrics
from sbmc.report.pretrained.card import plain
from sbmc.report.pretrained.facts import facts_of

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def card_of(folder):
    return (folder / "README.md").read_text("utf-8")


def run_code(folder, monkeypatch):
    """Run the Python of a card inside of its folder."""
    monkeypatch.chdir(folder)
    (code,) = BLOCK.findall(card_of(folder))
    namespace = {}
    exec(compile(code, "README.md", "exec"), namespace)
    return namespace


@pytest.mark.parametrize("make", [cases.table, lambda: cases.classes().distil(steps=5)])
def test_the_code_of_the_card_loads_and_predicts(make, tmp_path, monkeypatch, capsys):
    subject = make()
    run = run_code(subject.save_pretrained(tmp_path / "a"), monkeypatch)
    torch.testing.assert_close(
        run["prediction"].probs, subject.predict(run["inputs"]).probs, rtol=0, atol=0
    )
    assert "tensor" in capsys.readouterr().out


@pytest.mark.parametrize("make", [cases.classes, cases.numbers, cases.referenced])
def test_the_code_of_the_card_asks_for_a_network_that_is_not_stored(make, tmp_path, monkeypatch):
    subject = make()
    run = run_code(subject.save_pretrained(tmp_path / "a"), monkeypatch)
    again = run["load"](cases.network(1 if make is cases.numbers else 2))
    assert torch.equal(again.positions, subject.positions)


def test_named_inputs_and_a_likelihood_of_the_user_are_in_the_code(tmp_path, monkeypatch):
    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 1)

        def forward(self, first, second):
            return self.layer(first + second)

    def log_density(outputs, targets):
        return -(outputs - targets).square().sum(-1)

    data = ({"first": X, "second": X}, X[:, :1])
    posterior = sbmc.fit(Named(), data, likelihood=log_density, s=0.1, particles=2, progress=False)
    folder = posterior.save_pretrained(tmp_path / "a")
    load = run_code(folder, monkeypatch)["load"]
    assert torch.equal(load(Named(), log_density).positions, posterior.positions)
    distilled = sbmc.fit(
        Named(), data, likelihood="gaussian", s=0.1, particles=2, progress=False
    ).distil(Wide(), steps=5)
    folder = distilled.save_pretrained(tmp_path / "b")
    assert load_distilled(run_code(folder, monkeypatch)).network is not distilled.network


class Wide(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 3)

    def forward(self, first, second):
        return self.layer(torch.cat([first, second], -1))


def load_distilled(run):
    return run["load"](Wide())


def test_metrics_are_the_librarys_own(tmp_path):
    posterior = cases.classes()
    folder = posterior.save_pretrained(tmp_path / "a", evaluate=(X, Y), evaluated_on="forty rows")
    (entry,) = metadata_load(folder / "README.md")["model-index"]
    (result,) = entry["results"]
    assert result["dataset"]["name"] == "forty rows"
    found = {each["type"]: each["value"] for each in result["metrics"]}
    prediction = posterior.predict(X)
    assert found["accuracy"] == metrics.accuracy(prediction, Y)
    assert found["nll"] == metrics.nll(prediction, Y)
    assert found["ece"] == metrics.ece(prediction, Y)
    evaluated = ModelCard.load(folder / "README.md").data.eval_results
    assert {each.metric_type: each.metric_value for each in evaluated} == found
    assert f"| accuracy | {100 * found['accuracy']:.1f} % |" in card_of(folder)


def test_metrics_of_numbers_labels_and_a_distilled_network(tmp_path):
    def measured(subject, targets, name):
        folder = subject.save_pretrained(tmp_path / name, evaluate=(X, targets))
        (entry,) = metadata_load(folder / "README.md")["model-index"]
        return {each["type"]: each["value"] for each in entry["results"][0]["metrics"]}

    found = measured(cases.numbers(), X[:, :1], "numbers")
    prediction = cases.numbers().predict(X)
    assert found["crps"] == metrics.crps(prediction, X[:, :1].double())
    assert found["coverage"] == metrics.interval_coverage(prediction, X[:, :1].double(), 0.9)
    found = measured(cases.labels(), (X[:, :2] > 0).float(), "labels")
    assert (
        found.items() <= metrics.multilabel_metrics(cases.labels().predict(X), X[:, :2] > 0).items()
    )
    distilled = cases.classes().distil(steps=5)
    assert measured(distilled, Y, "distilled")["nll"] == metrics.nll(distilled.predict(X), Y)


def test_without_data_the_card_says_that_nothing_was_measured(tmp_path):
    folder = cases.classes().save_pretrained(tmp_path / "a")
    assert "None were measured for this card." in card_of(folder)
    assert "model-index" not in metadata_load(folder / "README.md")


def test_health_that_is_not_ok_stands_at_the_top(tmp_path):
    stuck = sbmc.HMC(steps=3, leapfrog=1, step_size=1e-9, adapt=False, warmup=0.0)
    posterior = sbmc.fit(cases.network(), (X, Y), s=0.1, sampler=stuck, progress=False)
    assert posterior.health.ok is False
    body = card_of(posterior.save_pretrained(tmp_path / "a")).rpartition("---\n")[2]
    title, warning = body.strip().split("\n\n")[:2]
    assert title == "# a"
    assert warning.startswith("> **Its health is not ok.** ")
    for sentence in (*posterior.health.reasons, *posterior.health.remedies):
        assert plain(sentence) in warning
        assert body.count(plain(sentence)) == 2  # at the top and under Health
    distilled = posterior.distil(steps=2)
    card = card_of(distilled.save_pretrained(tmp_path / "b"))
    assert "> **The health of its teacher is not ok.**" in card
    assert "> **" not in card_of(cases.classes().save_pretrained(tmp_path / "c"))


def test_health_that_was_not_checked_stands_at_the_top(tmp_path, monkeypatch):
    monkeypatch.setattr(sbmc.Posterior, "health", Health(None))
    card = card_of(cases.classes().save_pretrained(tmp_path / "a"))
    assert "> **Its health was not checked.**" in card


def test_what_is_known_of_the_data_and_none_of_them(tmp_path):
    folder = cases.table().save_pretrained(tmp_path / "a")
    card, config = card_of(folder), (folder / "config.json").read_text("utf-8")
    assert "| training rows | 40 |" in card
    assert "size, secret colour (text, 2 values)" in card
    assert "| classes (2) | high, low |" in card
    assert metadata_load(folder / "README.md")["pipeline_tag"] == "tabular-classification"
    for text in (card, config):
        assert "crimson" not in text
        assert "azure" not in text
    posterior = cases.numbers()
    leaf = posterior.settings["probe"]["inputs"]["leaves"][0]
    folder = posterior.save_pretrained(tmp_path / "b")
    for bound in leaf["range"]:
        assert str(bound)[:8] not in card_of(folder) + (folder / "config.json").read_text("utf-8")


def test_folders_of_the_authors_machine_are_not_told(tmp_path):
    folder = cases.referenced().save_pretrained(tmp_path / "a")
    text = card_of(folder) + (folder / "config.json").read_text("utf-8")
    assert "net.py:net" in text
    assert "somebody" not in text


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)


def test_text_of_the_user_is_text(tmp_path):
    nasty = "<script>x</script> ![a](http://b) | `c` *d*\n# e\n---\n\n\n## Health"
    folder = cases.classes().save_pretrained(
        tmp_path / "a",
        name=nasty,
        description=nasty,
        license=nasty,
        evaluate=(X, Y),
        evaluated_on=nasty,
        metadata={"language": nasty, "tags": [nasty], "library_name": "other"},
    )
    card = card_of(folder)
    head, _, body = card.removeprefix("---\n").partition("\n---\n")
    content = yaml.safe_load(head)
    assert content["license"] == content["language"] == content["tags"][-1] == nasty
    assert content["library_name"] == "sbmc"
    assert content == ModelCard.load(folder / "README.md").data.to_dict()
    tags = Tags()
    tags.feed(body)
    assert tags.found == []
    headings = [line for line in body.splitlines() if line.startswith("#")]
    assert [each.removeprefix("## ") for each in headings[1:]] == [
        "What it is", "Data", "Cost", "Health", "Metrics", "Limits", "How to load it",
    ]  # fmt: skip
    assert len(re.findall(r"(?<!\\)\]\(", body)) == 1  # our own link
    # Every line of a table has as many cells as its head.
    for table in re.findall(r"(?:^\|.*\n)+", body, re.MULTILINE):
        cells = {len(re.split(r"(?<!\\)\|", line)) for line in table.strip().splitlines()}
        assert len(cells) == 1


def test_a_crafted_description_of_inputs_gives_no_code(tmp_path):
    posterior = cases.table().reweighted("equal")
    described = {**posterior.settings["probe"]["inputs"]}
    described["leaves"] = [{"shape": [3], "dtype": "torch.float32); import os; print("}]
    posterior.settings = {
        **posterior.settings,
        "probe": {**posterior.settings["probe"], "inputs": described},
    }
    assert "import os" not in card_of(posterior.save_pretrained(tmp_path / "a"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"s": 0.25}, "anchored at one trained network (s = 0.25)"),
        ({"s": 0.25, "anchors": 3}, "anchored at 3 trained networks"),
        ({"s": 1.0}, "the full one (s = 1)"),
        ({"s": 0.0}, "Nothing was sampled (s = 0)"),
        ({"s": None, "sampler": "laplace"}, "made by the method laplace"),
        ({"thinned": {"moved": 0.0123, "islands": 1, "particles": 9}}, "moved by 0.012"),
    ],
)
def test_limits_name_what_is_missing(change, words):
    posterior = cases.classes().reweighted("equal")
    posterior.settings = {**posterior.settings, **change}
    assert words in " ".join(facts_of(posterior).limits)


def test_limits_of_a_mixture_name_its_members():
    posterior = sbmc.fit(cases.network(), (X, Y), s="auto", validation=(X + 0.1, Y), progress=False)
    members = [each for each in posterior.mixture.members if each.weight > 0]
    assert f"{members[0].name} ({members[0].weight:.0%})" in facts_of(posterior).limits[0]


def test_a_planted_wrong_number_is_caught(tmp_path, monkeypatch):
    from sbmc.report.pretrained import folder as folders

    real = folders.measure_on

    def wrong(*arguments):
        measured = real(*arguments)
        return replace(measured, values={**measured.values, "accuracy": 1.5})

    monkeypatch.setattr(folders, "measure_on", wrong)
    with pytest.raises(AssertionError):
        test_metrics_are_the_librarys_own(tmp_path)
