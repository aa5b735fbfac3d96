"""Tables of the paper's appendix on the page: those of `sbmc table`, from the given runs alone."""

import confidence_records
import numpy as np
import pytest
from report_pages import Reader, read_page
from study_records import entropies, write

from sbmc_studies.experiments.experiment import experiment_names, get_experiment
from sbmc_studies.paper.numbers import groups, table_names
from sbmc_studies.paper.tables.appendix import build_appendix
from sbmc_studies.paper.tables.confidence import build_confidence, chosen_tables
from sbmc_studies.paper.tables.specs import appendix_specs
from sbmc_studies.paper.tables.times import build_times
from sbmc_studies.report import collect, render
from sbmc_studies.report.paper_tables import paper_label, paper_tables
from sbmc_studies.runs.confidence import PROTOCOLS, arrays_file


def metrics(level=0.0):
    """All that a record of IMDb has, and its islands combined in both ways."""
    names = groups("imdb")
    found = confidence_records.metrics(level) | {"brier": 0.24 - level}
    for place, kind in enumerate(("epistemic", "total", "aleatoric")):
        found |= entropies(names, 0.01 + level, 0.02 + level, 0.03 + place, kind)
    both = {f"equal.{name}": value + 0.001 for name, value in found.items()}
    return found | both | {f"evidence.{name}": value for name, value in found.items()}


@pytest.fixture
def imdb(tmp_path):
    """Rows of the tables at v = 1/40, two seeds of S-HMC among them."""
    write(tmp_path, "imdb", "map", metrics(), wall=20.0)
    folder = write(tmp_path, "imdb", "de", metrics(0.01), wall=40.0, islands=1)
    write(tmp_path, "imdb", "s-hmc", metrics(0.03), range(2), wall=60.0, islands=8)
    write(tmp_path, "imdb", "s-smc", metrics(0.02), islands=8)
    for seed in range(5):
        for protocol in PROTOCOLS:
            arrays = confidence_records.arrays(seed)
            file = arrays_file(folder.parent / f"seed-{seed}", protocol)
            np.savez_compressed(file, allow_pickle=False, **arrays)
    return tmp_path


def texts(groups_):
    """All cells of a table as they are read, line by line; the first column without its words."""
    made = []
    for group in groups_:
        for line in group:
            cells = [str(getattr(cell, "text", cell)) for cell in line]
            made.append([cells[0].replace("the paper’s", "paper"), *cells[1:]])
    return made


def printed(lines):
    """The same of the lines of `sbmc table`."""
    return [[line.cells[0].strip(), *line.cells[1:]] for line in lines]


def test_every_table_has_the_cells_that_sbmc_table_prints(imdb):
    experiment = get_experiment("imdb")
    made = {(each.title, each.label): each for each in paper_tables(collect([imdb]).studies[0])}
    blocks = build_appendix(experiment, imdb)
    checked = 0
    for block in blocks:
        found = made.pop((block.title, paper_label(block.name)), None)
        ours = [line for line in block.lines if not line.quiet]
        if all(set(line.cells[2:]) == {"–"} for line in ours):
            assert found is None
            continue
        if found is None:  # only the paper's side of a table of groups is filled
            assert "group" in block.headings
            assert all(line.cells[3::2] == ("–",) * 3 for line in ours)
            continue
        assert texts(found.groups) == printed(block.lines)
        checked += 1
    assert checked == 5
    times = made.pop(("what each buys with its wall time", "not in the paper"))
    assert texts(times.groups) == printed(build_times(experiment, imdb).lines)
    confidence = [each for (title, _), each in made.items() if title.startswith("meta-classifier")]
    wanted = [build_confidence(experiment, imdb, *each).lines for each in chosen_tables()]
    wanted = [lines for lines in wanted if any("±" in "".join(line.cells) for line in lines)]
    assert [texts(each.groups) for each in confidence] == [printed(lines) for lines in wanted]
    assert len(confidence) == len(made)


def test_classes_of_a_group_table_come_from_the_arrays(imdb):
    made = paper_tables(collect([imdb]).studies[0])
    table = next(each for each in made if "group" in each.headings)
    row = next(
        line for line in texts(table.groups) if line[2] == "positive" and "ensemble" in line[0]
    )
    arrays = [confidence_records.arrays(seed) for seed in range(5)]
    mean = np.mean([each["entropy.classes.total"][1] for each in arrays])
    assert row[3].startswith(f"{mean:.5f}±")


def test_tables_stand_folded_with_the_papers_label_and_sort(imdb):
    text = render(collect([imdb]), ["runs"])
    page = Reader(text)
    assert "The paper’s tables, from these runs" in [w for tag, w in page.texts if tag == "h3"]
    assert "(tab:metric_diffmethod_imdb_v0025_s01)" in page.text
    start = text.index('<table class="sortable results"><caption>imdb: v = 1/40, s = 0.1 ')
    assert text.rindex('<details class="more">', 0, start) > text.rindex("</details>", 0, start)
    rows = next(
        rows for rows in page.tables if rows[0][-1][0] == "epochs" and "S-SMC" in rows[1][0][0]
    )
    labels = [row[0][0] for row in rows]
    at = labels.index("S-HMC∥, s = 0.1 (2 of 5 seeds)")
    assert labels[at + 1] == "the paper’s"
    assert rows[at][2] == ["93.00±0.00", "0.93"]
    assert rows[at + 1][2][0].startswith("86.72±0.00 ")
    assert rows[at + 1][2][1] == "0.8672"


def test_a_table_without_a_run_is_not_there(tmp_path):
    write(tmp_path, "imdb", "map", metrics(), range(1), prior_variance=1.0)
    titles = [each.title for each in paper_tables(collect([tmp_path]).studies[0])]
    assert "v = 1, growing s" in titles
    assert not [title for title in titles if "1/40" in title]
    write(tmp_path / "other", "shakespeare", "map", {"accuracy": 0.3}, range(1))
    assert paper_tables(collect([tmp_path / "other"]).studies[0]) == []


def test_only_given_runs_fill_the_tables(imdb):
    page = read_page(imdb / "imdb" / "map")
    rows = next(rows for rows in page.tables if rows[0][-1][0] == "epochs" and len(rows) > 3)
    filled = {row[0][0] for row in rows[1:] if row[2][0] not in ("–", "")}
    assert filled == {"MAP", "the paper’s"}


def test_every_table_that_a_study_fills_has_a_label():
    named = [spec.paper for name in experiment_names() for spec in appendix_specs(name)]
    assert len(named) > 10
    assert all(paper_label(name).startswith("tab:") for name in named)
    confidence = [name for name in table_names() if name.endswith(("_default", "_optimal_f1"))]
    assert all(paper_label(name).startswith(("tab:", "Table")) for name in confidence)


def test_figures_lose_points_before_tables_lose_lines(imdb):
    found = collect([imdb])
    whole = render(found, ["runs"])
    less = render(found, ["runs"], most_bytes=len(whole.encode("utf-8")) - 1)
    assert len(less) < 0.9 * len(whole)
    tables = [
        [rows for rows in Reader(text).tables if "epochs" in [cell[0] for cell in rows[0]]]
        for text in (whole, less)
    ]
    assert len(tables[0]) > 2
    assert tables[0] == tables[1]
