"""Which inputs are kept beside a record, and how a report finds what they look like."""

import gzip
import json
import zlib
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from report_pages import read_page, write_run
from study_specs import make_spec

from sbmc.checks import BadInput
from sbmc.prediction.prediction import Prediction
from sbmc.report.images import encode_png
from sbmc_studies.experiments.resources import Resources
from sbmc_studies.report.inputs import MOST_LETTERS, look_up_pictures, look_up_texts
from sbmc_studies.runs import runner
from sbmc_studies.runs.extremes import COUNT, find_extremes, read_extremes, write_extremes


class Ensemble:
    """Takes the inputs themselves for probabilities; their last column is the epistemic entropy."""

    def predict(self, inputs):
        probs, epistemic = inputs[:, :-1], inputs[:, -1]
        total = -(probs * probs.clamp_min(1e-12).log()).sum(1)
        return Prediction(probs, total, total - epistemic, epistemic)


def inputs(rows):
    return torch.tensor(rows, dtype=torch.float64)


@pytest.fixture
def data():
    test = inputs([[0.9, 0.1, 0.03], [0.2, 0.8, 0.01], [0.6, 0.4, 0.2], [1.0, 0.0, 0.0]])
    ood = {"far": inputs([[0.5, 0.5, 0.3], [0.7, 0.3, 0.1]])}
    labels = torch.tensor([0, 1, 1, 0])
    return SimpleNamespace(name="made up", classes=2, test=(test, labels), ood=ood)


def test_certain_by_label_and_uncertain_by_turns(data):
    found = find_extremes(Ensemble(), data)
    assert found["by"] == "epistemic"
    certain = [(e["group"], e["index"], e["label"]) for e in found["certain"]]
    assert certain == [("test", 3, 0), ("test", 1, 1)]
    uncertain = [(e["group"], e["index"]) for e in found["uncertain"]]
    # In turns from each group, then by entropy.
    assert uncertain[:2] == [("far", 0), ("test", 2)]
    assert len(uncertain) == 6
    scores = [e["epistemic"] for e in found["uncertain"]]
    assert scores == sorted(scores, reverse=True)
    assert found["uncertain"][1]["truth"] == 1
    assert found["uncertain"][0]["truth"] is None


def test_a_single_network_is_ranked_by_total_entropy(data):
    for each in (data.test[0], data.ood["far"]):
        each[:, -1] = 0
    found = find_extremes(Ensemble(), data)
    assert found["by"] == "total"
    assert found["uncertain"][0] == found["uncertain"][0] | {"group": "far", "index": 0}


def test_of_embedded_texts_only_those_that_can_be_read_count(data):
    data.name = "imdb"
    rows = torch.rand(2_100, 1, dtype=torch.float64) * 0.5 + 0.25
    strong = torch.zeros(2_100, 1, dtype=torch.float64)
    strong[2_050] = 0.6  # the least certain of all, but without a text
    strong[7] = 0.5
    data.test = torch.cat([rows, 1 - rows, strong], 1), torch.zeros(2_100, dtype=torch.long)
    found = find_extremes(Ensemble(), data)
    assert {e["group"] for e in found["uncertain"]} == {"test"}
    assert found["uncertain"][0]["index"] == 7
    assert len(found["uncertain"]) == COUNT


def test_what_is_written_is_read_back(tmp_path, data):
    write_extremes(tmp_path, Ensemble(), data)
    by, certain, uncertain = read_extremes(tmp_path)
    assert (by, len(certain), len(uncertain)) == ("epistemic", 2, 6)
    assert certain[0].probabilities == [[0, 1.0], [1, 0.0]]
    assert (tmp_path / "extremes.json").stat().st_size < 5_000


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"format": "sbmc-extremes", "version": 9}'])
def test_another_file_is_none(tmp_path, content):
    (tmp_path / "extremes.json").write_text(content)
    assert read_extremes(tmp_path) is None
    assert read_extremes(tmp_path / "nowhere") is None


def test_a_run_keeps_its_extremes_and_its_nested_rhat(tmp_path):
    few = {"max_epochs": 2, "batch_size": 256, "steps": 2, "particles": 2, "islands": 2}
    run = runner.run(make_spec("digits", "s-hmc", few), tmp_path, Resources(progress=False))
    assert read_extremes(run.path.parent) is not None
    summaries = run.record.details["diagnostics"]["summaries"]
    assert [each["name"] for each in summaries] == ["random projections", "predictions"]
    assert all(each["nested_rhat"]["worst"] >= 1 for each in summaries)
    page = read_page(tmp_path)
    assert len(page.find("img")) == 8 + len(read_extremes(run.path.parent)[1])
    worst = float(page.table("nested R-hat, worst")[1][2][1])
    assert worst == summaries[0]["nested_rhat"]["worst"]


def test_a_png_has_the_pixels(tmp_path):
    image = np.array([[0.0, 0.5], [1.0, 0.2]])
    file = encode_png(image)
    assert file.startswith(b"\x89PNG\r\n\x1a\n")
    start = file.index(b"IDAT") + 4
    raw = zlib.decompress(file[start : file.index(b"IEND") - 8])
    assert list(raw) == [0, 0, 128, 0, 255, 51]
    colour = encode_png(np.zeros((3, 2, 3)))
    assert colour[25] == 2
    with pytest.raises(BadInput, match="`image` must be of shape"):
        encode_png(np.zeros(3))


def test_large_pictures_are_made_small():
    file = encode_png(np.zeros((1000, 500)))
    width, height = (int.from_bytes(file[at : at + 4], "big") for at in (16, 20))
    assert max(width, height) <= 64


def extreme(index, group="test"):
    return SimpleNamespace(group=group, index=index)


def test_pictures_are_looked_up_in_the_data_set():
    from sbmc_studies.data import load_dataset

    found = look_up_pictures("digits", [extreme(5), extreme(2, "8")], 0, None)
    data = load_dataset("digits")
    assert np.array_equal(found[0], data.test[0][5, 0].numpy())
    assert np.array_equal(found[1], data.ood["8"][2, 0].numpy())
    assert look_up_pictures("digits", [extreme(10**6)], 0, None) is None
    assert look_up_pictures("digits", [extreme(0, "elsewhere")], 0, None) is None
    assert look_up_pictures("cifar10", [extreme(0)], 0, None) is None


def test_data_that_are_not_here_are_not_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("SBMC_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sbmc_studies.data.mnist7.fetch", lambda: pytest.fail("fetched"))
    assert look_up_pictures("mnist7", [extreme(0)], 0, None) is None


def test_texts_are_looked_up_and_cut(tmp_path, monkeypatch):
    rows = [{"text": "short"}, {"text": "a<br />b " + "long " * 200}, {"text": "third"}]
    lines = "\n".join(json.dumps(row) for row in rows)
    (tmp_path / "imdb_test_sample.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    wanted = [extreme(1), extreme(0), extreme(2, "lipsum"), extreme(7)]
    found = look_up_texts("imdb", wanted, tmp_path)
    assert found[0].startswith("a b long")
    assert len(found[0]) == MOST_LETTERS
    assert found[1:] == ["short", None, None]
    assert look_up_texts("digits", wanted, tmp_path) is None


def test_texts_stand_in_the_page(tmp_path):
    rows = [{"text": f"review {i} <b>"} for i in range(10)]
    lines = "\n".join(json.dumps(row) for row in rows)
    (tmp_path / "imdb_test_sample.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    data = {"name": "imdb", "checksum": "ab" * 32}
    write_run(tmp_path / "runs", experiment="reviews", data=data, pictures=True)
    page = read_page(tmp_path / "runs", data_dir=tmp_path)
    quotes = [words for tag, words in page.texts if tag == "blockquote"]
    assert quotes == ["review 3 <b>"]
    assert "positive" in page.text


def test_a_setting_that_kept_none_is_stood_for_by_one_of_its_method(tmp_path):
    runs = tmp_path / "runs"
    write_run(runs, method="map", islands=[], pictures=True)
    write_run(runs, overrides={"islands": 2}, pictures=True)
    # The lowest NLL: what the answer speaks of.
    write_run(runs, level=0.05, overrides={"islands": 4})
    page = read_page(runs)
    assert "has the lowest NLL" in page.text
    stands = [words for tag, words in page.texts if tag == "p" and "The upper row has" in words]
    assert [words.split(", seed")[0] for words in stands] == ["By S-HMC∥, P\u00a0=\u00a02"]
