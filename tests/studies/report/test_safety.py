"""Strings from data stay text, nothing is fetched, and a page of any data stays small."""

import base64
import hashlib
import json
import re

import numpy as np
import pytest
from report_pages import Reader, island, make_record, read_page, write_run

from sbmc.report.limits import MOST_BYTES, Limits
from sbmc.report.markup import cut, el, escape
from sbmc_studies.records.record import write_record
from sbmc_studies.report import collect, render

TAGS = "</code></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;"
# As a name of a folder it can have no slash.
NAME = "<img src=x onerror=alert(3)>\"'&lt;"


def hostile(tmp_path):
    """A record that is hostile wherever it has a string of its own."""
    for seed, method in ((0, NAME), (1, NAME), (0, "other" + NAME)):
        settings = {"network": TAGS, TAGS: TAGS, "start": TAGS, "acceptance_band": TAGS}
        metrics = make_record().metrics | {
            f"entropy.{kind}.ood.{TAGS}": 0.1 for kind in ("aleatoric", "epistemic", "total")
        }
        record = write_run(
            tmp_path / NAME,
            experiment=NAME,
            method=method,
            seed=seed,
            overrides=settings,
            data={"name": TAGS, "checksum": TAGS},
            versions={TAGS: TAGS},
            hardware={"processor": TAGS},
            metrics=metrics,
            islands=[{**island(0, smc=True), "message": TAGS, "collapsed": TAGS}],
            details={"diagnostics": {"summaries": [{"name": TAGS, "nested_rhat": {"worst": 1}}]}},
        )
        failed = make_record(experiment=NAME, method=method, seed=seed + 5, outcome="failed")
        failed.message = TAGS
        write_record(tmp_path / NAME, failed)
    folder = tmp_path / NAME / NAME / method / record.hash / "seed-0"
    texts = np.array([TAGS])
    arrays = {"images": np.ones((1, 4, 4)), "truths": texts, "labels": texts}
    arrays |= {"confidences": np.ones(1), "epistemics": np.ones(1)}
    both = {
        f"{kind}_{name}": array for kind in ("sure", "unsure") for name, array in arrays.items()
    }
    np.savez(folder / "examples.npz", allow_pickle=False, **both)
    broken = tmp_path / NAME / TAGS.replace("/", "") / "record.json"
    broken.parent.mkdir()
    broken.write_text(json.dumps({"schema_version": TAGS}))
    return tmp_path / NAME


def test_hostile_strings_stay_text(tmp_path):
    place = hostile(tmp_path)
    text = render(collect([place]), [str(place)], title=TAGS)
    page = Reader(text)
    assert len(page.find("script")) == 1
    assert page.find("script")[0] == {}
    pictures = page.find("img")
    assert pictures
    assert all(each["src"].startswith("data:image/png;base64,") for each in pictures)
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
    assert page.text.count("alert(1)") > 10
    assert page.text.count("alert(3)") > 5


def test_a_page_fetches_nothing_and_says_so(study):
    text = render(collect([study]), ["runs"])
    page = Reader(text)
    for _, attributes in page.elements:
        for name in ("src", "href", "action", "srcset", "poster", "data"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    style, script = (
        next(words for tag, words in page.texts if tag == kind) for kind in ("style", "script")
    )
    assert not re.search(r"url\(|@import|fetch\(|XMLHttp|https?://(?!www\.w3\.org)", style + script)
    policy = next(e for e in page.find("meta") if e.get("http-equiv"))["content"]
    assert policy.startswith("default-src 'none'")
    for content in (style, script):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_lone_surrogates_and_direction_marks_do_no_harm(tmp_path):
    write_run(tmp_path)
    path = write_record(tmp_path, make_record(seed=7, outcome="failed", message="MESSAGE"))
    bad = json.dumps("a\ud800b\u202ec\x00d")
    path.write_text(path.read_text("utf-8").replace('"MESSAGE"', bad), "utf-8")
    text = render(collect([tmp_path]), ["runs"])
    assert text.encode("utf-8")
    assert "a\ufffdb\ufffdc\ufffdd" in text


def test_a_page_of_many_runs_stays_below_the_limit(tmp_path):
    # Names that say as little as possible in as many letters as possible.
    for number in range(90):
        overrides = {f"{'long_name_' * 12}{k}": "w" * 300 for k in range(25)} | {"s": number / 400}
        name = f"method-{number % 30}-" + "m" * 80
        islands = [island(i, smc=True) for i in range(3)]
        record = make_record(
            experiment=f"experiment {number % 3}",
            method=name,
            seed=0,
            overrides=overrides,
            islands=islands,
        )
        write_record(tmp_path, record)
    found = collect([tmp_path])
    page = render(found, ["runs"])
    assert len(page.encode("utf-8")) <= MOST_BYTES
    assert "are shown. To see others" in page


def test_a_page_of_many_islands_and_groups_stays_below_the_limit(tmp_path):
    metrics = make_record().metrics
    for group in range(200):
        for kind in ("aleatoric", "epistemic", "total"):
            metrics[f"entropy.{kind}.ood.{'g' * 60}{group}"] = 0.5
    islands = [island(i, smc=True) for i in range(300)]
    for each in islands:
        each["temperatures"] = {"temperature": list(np.linspace(0.001, 1, 120))}
    write_run(tmp_path, metrics=metrics, islands=islands, overrides={"islands": 300})
    write_run(tmp_path, seed=1, metrics=metrics, islands=islands, overrides={"islands": 300})
    page = render(collect([tmp_path]), ["runs"])
    assert len(page.encode("utf-8")) <= MOST_BYTES


def test_what_does_not_fit_is_shown_in_less_detail(study):
    found = collect([study])
    whole = render(found, ["runs"])
    small = render(found, ["runs"], most_bytes=120_000)
    assert len(small.encode("utf-8")) <= 120_000 < len(whole.encode("utf-8"))
    assert "1 of 7 settings are shown" in Reader(small).text


def test_limits_shrink_to_one_and_stay():
    limits = Limits()
    for _ in range(12):
        limits = limits.tighter()
    assert set(vars(limits).values()) == {1}
    assert limits.tighter() == limits


@pytest.mark.parametrize("name", ["confidence-paper.npz", "examples.npz", "extremes.json"])
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a zip", b"[1, 2]"])
def test_damaged_files_beside_a_record_cost_their_section_only(tmp_path, name, content):
    write_run(tmp_path, pictures=True)
    folder = next(tmp_path.rglob("record.json")).parent
    (folder / name).write_bytes(content)
    page = read_page(tmp_path)
    assert page.table("accuracy %")[1][3][0] == "90.0"


def test_strange_values_in_islands_are_left_out(tmp_path):
    strange = [{**island(0), "acceptance": "high", "step_size": True}, island(1)]
    strange.append({**island(2), "temperatures": {"temperature": "hot", "ess": [None, "x"]}})
    write_run(tmp_path, islands=strange)
    page = read_page(tmp_path)
    rows = page.table("acceptance")
    assert "0.71 · 0.715 · 0.72" in [cell[0] for cell in rows[1]]


def test_elements_escape_content_and_attributes():
    made = el("p", "<b>", el("i", "&"), None, title='"x"', hidden=True, class_=None)
    assert made == '<p title="&quot;x&quot;" hidden>&lt;b&gt;<i>&amp;</i></p>'
    assert escape(made) is made


def test_long_text_is_cut():
    assert cut("word " * 1000, 12) == "word word w…"
    assert len(cut("x" * 10**6, 50)) == 50
