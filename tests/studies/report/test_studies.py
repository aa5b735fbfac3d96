"""The page of each study: its groups, its words, its inputs, and no section without a meaning."""

import json

import confidence_records
import numpy as np
import pytest
import tiny_language
from report_pages import read_page, write_run
from study_records import entropies, write

from sbmc.language import text_states
from sbmc_studies.paper.numbers import groups
from sbmc_studies.report.tokens import look_up_tokens
from sbmc_studies.runs.confidence import arrays_file
from sbmc_studies.runs.extremes import Extreme


def metrics(name, level=0.0, nll=0.3):
    """Metrics of a study; with no disagreement at level 0."""
    names = groups(name)
    found = {"accuracy": 0.86 + level, "nll": nll - level, "brier": 0.2, "ece": 0.02}
    for kind, more in (("epistemic", 0.0), ("aleatoric", 0.2), ("total", 0.2)):
        own = entropies(names, level + more, 2 * level + more, 3 * level + more, kind)
        found |= {k: v for k, v in own.items() if names or ".ood." not in k}
    return found


def answer(page):
    return next(" ".join(w.split()) for tag, w in page.texts if " NLL" in w and tag == "p")


def titles(page):
    return [words for tag, words in page.texts if tag == "h3"]


@pytest.mark.parametrize("name", ["imdb", "cifar10", "mnist7"])
def test_groups_and_classes_have_their_names(tmp_path, name):
    found = confidence_records.metrics(0.01) | metrics(name, 0.01)
    folder = write(tmp_path, name, "s-hmc", found, range(1), islands=8)
    arrays = confidence_records.arrays(0)
    np.savez_compressed(arrays_file(folder, "paper"), allow_pickle=False, **arrays)
    page = read_page(tmp_path)
    rows = page.table("Group")
    own = {row[0][0] for row in rows[1:]}
    shown = {f"out of domain: {group.replace('_', ' ')}" for group in groups(name)}
    assert own == {"test set, right", "test set, wrong", *shown}
    first = {"imdb": "negative", "cifar10": "airplane", "mnist7": "class 0"}[name]
    by_class = [rows for rows in page.tables if rows[0][0][0] == "Group"][1]
    assert by_class[1][0][0] == first


def test_shakespeare_has_nothing_out_of_domain_and_no_abstention(tmp_path):
    write(tmp_path, "shakespeare", "map", metrics("shakespeare", nll=3.2), range(1))
    write(tmp_path, "shakespeare", "s-hmc", metrics("shakespeare", 0.01, nll=3.2), range(1))
    page = read_page(tmp_path)
    assert not {"Confusion rates", "Reliability", "All measures at once"} & set(titles(page))
    assert "Entropy by group" in titles(page)
    assert "out of domain" not in page.text
    assert "OOD" not in page.text
    assert "--confidence" not in page.text
    headings = [cell[0] for cell in page.table("accuracy %")[0]]
    assert {"H_tot correct", "H_ep incorrect"} <= set(headings)


def test_a_single_network_at_the_top_does_not_hide_who_can_doubt(tmp_path):
    write(tmp_path, "imdb", "map", metrics("imdb", nll=0.1), range(1), prior_variance=1.0)
    write(tmp_path, "imdb", "map", metrics("imdb", nll=0.3), range(1))
    write(tmp_path, "imdb", "s-hmc", metrics("imdb", 0.01), range(1), islands=8)
    told = answer(read_page(tmp_path))
    # Another prior's MAP is no yardstick.
    assert "has the lowest NLL, 0.1, and is right on 86.0 % of the test inputs." in told
    assert (
        "so it cannot tell what it does not know: epistemic entropy 0; of those that doubt more,"
        in told
    )
    assert "S-HMC∥" in told.split("of those that doubt more,")[1]
    assert "with 0.02 nats on its mistakes and 0.03 out of domain." in told


def test_a_yardstick_has_the_same_prior(tmp_path):
    for variance, level in ((0.025, 0.0), (1.0, 0.02)):
        more = {"prior_variance": variance}
        found = metrics("imdb") | {"accuracy": 0.8 + level}
        write(tmp_path, "imdb", "map", found, range(1), **more)
        write(tmp_path, "imdb", "s-hmc", metrics("imdb", level + 0.01), range(1), **more)
    assert "% of the test inputs (MAP, v = 1: 82.0 %)." in answer(read_page(tmp_path))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Hidden states of a stand-in whose tokens are letters, in the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tiny_language.use_stand_in(monkeypatch)
    model = tiny_language.folder_of_weights(tmp_path / "model")
    folder = tmp_path / "cache" / "sbmc" / "language"
    return text_states(tiny_language.TEXT, model, cache=folder, block=128, progress=False)


def test_tokens_are_words_and_inputs_what_comes_before_them(cache):
    from sbmc_studies.data.shakespeare import next_token_data

    data = next_token_data(cache, classes=10)
    labels = data.test[1].tolist()
    wanted = [Extreme("test", i, labels[i], labels[i], [], 0.1, 0.1) for i in range(3)]
    found = look_up_tokens("shakespeare", cache.checksum, wanted, classes=10)
    test = cache.tokens[-1].tolist()
    letters = "".join(map(chr, test))
    kept = [i for i in range(127) if chr(test[i + 1]) in found.words]
    for index, before in enumerate(found.before):
        at = kept[index]
        assert found.words[labels[index]] == letters[at + 1]
        assert before == " ".join(f"…{letters[max(0, at - 39) : at + 1]} …".split())
    assert found.word(found.words.index(" ")) == "␣"
    assert found.word(99) is None


def test_without_a_cache_tokens_keep_their_numbers(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert look_up_tokens("shakespeare", "ab" * 32, []) is None
    assert look_up_tokens("digits", "ab" * 32, []) is None
    found = metrics("shakespeare", 0.01)
    folder = write(tmp_path / "runs", "shakespeare", "s-hmc", found, range(1))
    entry = {"group": "test", "index": 3, "truth": 354, "label": 7, "total": 0.2}
    entry |= {"probabilities": [[7, 0.9], [354, 0.1]], "epistemic": 0.1}
    content = {"format": "sbmc-extremes", "version": 1, "by": "epistemic", "data": "shakespeare"}
    content |= {"certain": [entry], "uncertain": [entry]}
    (folder / "extremes.json").write_text(json.dumps(content))
    text = " ".join(read_page(tmp_path / "runs").text.split())
    assert "taken for “token 7” 90" in text
    assert "in turns from" not in text


def test_a_folder_of_a_run_that_still_goes_on_is_no_obstacle(tmp_path):
    write_run(tmp_path)
    going = tmp_path / "digits" / "s-hmc" / "0123456789ab" / "seed-1"
    (going / "checkpoint").mkdir(parents=True)
    (going / "run.json").write_text("{}")
    page = read_page(tmp_path)
    assert "1 completed run of 1 setting" in page.text
    assert "could not be read" not in page.text
