import pytest
from confidence_records import write

from sbmc.checks import BadInput
from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.paper.numbers import read_table
from sbmc_studies.paper.tables.confidence import (
    KINDS,
    build_confidence,
    chosen_tables,
    confidence_rows,
    find_confidence,
    markdown,
    table_title,
    write_confidence,
)
from sbmc_studies.paper.tables.lines import MISSING, markdown_lines

MNIST7 = get_experiment("mnist7")
MARK = "<!-- confidence: mnist7 -->"
END = "<!-- end confidence: mnist7 -->"


def cell(lines, place, kind, heading):
    return lines[place].cells[KINDS[kind].headings().index(heading)]


def labels(lines):
    return [line.cells[:2] for line in lines]


def test_rows_are_the_papers_with_both_ensembles():
    assert [(row.method, row.overrides.get("islands")) for row in confidence_rows(MNIST7)] == [
        ("map", None), ("de", 1), ("de", 8), ("s-smc", 1), ("s-smc", 8), ("s-smc", 8),
        ("s-hmc", 1), ("s-hmc", 8), ("s-hmc", 1), ("s-hmc", 8),
    ]  # fmt: skip
    assert [row.preset for row in confidence_rows(MNIST7)] == ["paper"] * 8 + ["best"] * 2
    evidence, equal = (row for row in confidence_rows(MNIST7) if row.label.startswith("S-SMC∥, "))
    assert equal.overrides["island_weights"] == "equal"
    assert "island_weights" not in evidence.overrides  # the preset's
    digits = get_experiment("digits")
    assert confidence_rows(digits) == digits.rows  # it names none of its own


def test_without_records_our_cells_are_missing_and_the_papers_stand(tmp_path):
    lines = build_confidence(MNIST7, tmp_path, "paper", "optimal_f1").lines
    ours = [line for line in lines if not line.quiet]
    assert len(ours) == 10
    assert all(set(line.cells[2:]) == {MISSING} for line in ours)
    assert labels(lines)[:3] == [("MAP", "1"), ("  paper", MISSING), ("deep ensemble", "1")]
    assert lines[1].cells[2:] == (
        "0.707±0.013", "0.898±0.006", "0.791±0.009", "0.828±0.013", MISSING, MISSING,
    )  # fmt: skip
    papers = [line.cells[1] for line in lines if line.quiet]
    assert papers == [MISSING, MISSING, "1", "8", "1", "8"]


def test_the_papers_numbers_stand_beside_the_right_rows(tmp_path):
    for kind in ("default", "optimal_f1"):
        lines = build_confidence(MNIST7, tmp_path, "paper", kind).lines
        rows = read_table(f"mnist7_confidence_{kind}")
        shown = [line.cells for line in lines if line.quiet]
        assert [cells[2] for cells in shown] == [
            f"{row['precision']}±{row['precision_se']}" for row in rows
        ]


def test_table_2_of_the_paper_is_its_appendix_table_without_errors():
    # This is why one table of ours stands for both.
    short, full = (read_table(f"mnist7_confidence_optimal_f1{end}") for end in ("_main", ""))
    for one, other in zip(short, full, strict=True):
        assert one.items() <= other.items()


def test_seeds_are_pooled_with_the_papers_standard_error(tmp_path):
    for seed in range(5):
        write(tmp_path, "s-hmc", seed=seed, level=0.01 * seed)
    write(tmp_path, "map", seed=0)
    write(tmp_path, "map", seed=1, confidence=False)  # not pooled: nothing was measured
    for kind in ("default", "optimal_f1"):
        lines = build_confidence(MNIST7, tmp_path, "paper", kind).lines
        # levels 0 to 0.04: mean 0.02, root mean squared deviation 0.01414, over sqrt 5
        assert lines[-4].cells[:3] == ("S-HMC∥", "8", "0.520±0.006")
        assert cell(lines, -4, kind, "AUC-ROC") == "0.720±0.006"
        assert lines[0].cells[:3] == ("MAP (1 of 5 seeds)", "1", "0.500")
    assert cell(lines, -4, "optimal_f1", "threshold") == "0.250±0.000"
    clean = build_confidence(MNIST7, tmp_path, "clean", "default").lines
    assert clean[-3].cells[:3] == ("S-HMC∥", "8", "0.510±0.006")
    assert not any(line.quiet for line in clean)  # nothing of the paper's is comparable


def test_what_a_record_does_not_have_is_a_missing_cell(tmp_path):
    write(tmp_path)
    lines = build_confidence(MNIST7, tmp_path, "clean", "guarantee").lines
    assert set(lines[-3].cells[2:]) == {MISSING}  # the made-up record has no guarantee
    ood = build_confidence(MNIST7, tmp_path, "clean", "ood").lines
    assert cell(ood, -3, "ood", "H_ep: AUROC") == "0.790"
    assert cell(ood, -3, "ood", "max p: AUROC") == MISSING


def test_only_seeds_with_the_classifier_are_found(tmp_path):
    row = confidence_rows(MNIST7)[-3]
    assert find_confidence(tmp_path, MNIST7, row) is None
    write(tmp_path, seed=3)
    write(tmp_path, seed=4, confidence=False)
    pooled = find_confidence(tmp_path, MNIST7, row)
    assert [record.seed for record in pooled.records] == [3]


def test_words_choose_tables():
    assert chosen_tables(["paper"]) == [
        ("paper", "optimal_f1"), ("paper", "default"), ("paper", "ood"),
    ]  # fmt: skip
    assert chosen_tables(["guarantee"]) == [("clean", "guarantee")]
    assert len(chosen_tables()) == 7
    with pytest.raises(BadInput, match=r"`confidence` must be .*'defualt'. Did you mean 'default'"):
        chosen_tables(["defualt"])
    with pytest.raises(BadInput, match="`confidence` must be"):
        build_confidence(MNIST7, None, "tidy", "default")


def test_markdown_has_a_title_and_a_column_for_each_heading(tmp_path):
    block = build_confidence(MNIST7, tmp_path, "paper", "default")
    text = markdown_lines(block.headings, block.lines)
    lines = text.splitlines()
    assert lines[0] == "|  | P | precision | recall | F1 | AUC-ROC | accuracy |"
    assert len({line.count("|") for line in lines}) == 1
    assert "*paper*" in text
    both = markdown(MNIST7, tmp_path, ["default"])
    assert both.count("**") == 4
    assert table_title("paper", "default") in both
    assert table_title("clean", "default") == "Clean protocol, threshold 0.5"


def test_a_page_is_written_between_its_marks(tmp_path):
    short = "<!-- confidence: mnist7 paper optimal_f1 -->"
    other = "<!-- confidence: digits -->\nkept\n<!-- end confidence: digits -->"
    page = f"before\n{short}\nSTALE\n{END}\nbetween\n{MARK}\nSTALE\n{END}\n{other}\n"
    made = write_confidence(page, MNIST7, tmp_path)
    assert "STALE" not in made
    assert "kept" in made
    first, second = made.split("between")
    assert first.count("**") == 2
    assert second.count("**") == 14
    assert "0.707±0.013" in first
    assert write_confidence(made, MNIST7, tmp_path) == made  # again changes nothing


def test_a_page_without_marks_or_with_unknown_words_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"`write` must be a page with `<!-- confidence: mnist7 -->"):
        write_confidence(f"<!-- table: mnist7 -->\n{END}", MNIST7, tmp_path)
    with pytest.raises(BadInput, match="but got 'papr'"):
        write_confidence(f"<!-- confidence: mnist7 papr -->\n{END}", MNIST7, tmp_path)
