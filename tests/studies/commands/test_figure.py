"""`sbmc figure` and `sbmc table --confidence`, from made-up records."""

import pytest
from confidence_records import write

from sbmc.cli import main
from sbmc_studies.figures import catalogue


@pytest.fixture
def sbmc(tmp_path, monkeypatch, capsys):
    """Run a command in a folder with some records; give back exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "records", "map")
    write(tmp_path / "records", "s-hmc", islands=8)

    def command(*arguments):
        code = main([*arguments, "--records", "records"])
        output = capsys.readouterr()
        return code, output.out, output.err

    return command


def test_a_figure_goes_to_a_file_named_after_it(sbmc, tmp_path):
    code, output, errors = sbmc("figure", "mnist7", "roc")
    assert (code, output, errors) == (0, "Picture: mnist7_roc.png\n", "")
    assert (tmp_path / "mnist7_roc.png").read_bytes().startswith(b"\x89PNG")
    code, output, _ = sbmc("figure", "mnist7", "roc", "--protocol", "clean")
    assert (code, output) == (0, "Picture: mnist7_roc_clean.png\n")
    code, _, _ = sbmc("figure", "mnist7", "spider", "--out", "pictures/mine.png")
    assert code == 0
    assert (tmp_path / "pictures" / "mine.png").exists()
    code, output, _ = sbmc("figure", "mnist7", "roc", "--out", "mine.pdf")
    assert (code, output) == (0, "Picture: mine.pdf\n")
    assert (tmp_path / "mine.pdf").read_bytes().startswith(b"%PDF")


def test_methods_and_protocol_reach_the_figure(sbmc, monkeypatch):
    drawn = []

    def draw(comparison, limits):
        drawn.append((comparison.protocol, [row.method for row in comparison.rows]))
        return catalogue.roc.build(comparison, limits)

    monkeypatch.setitem(catalogue.FIGURES, "thresholds", draw)
    assert sbmc("figure", "mnist7", "thresholds")[0] == 0
    command = ["figure", "mnist7", "thresholds", "--methods", "s-hmc, map", "--protocol", "clean"]
    assert sbmc(*command)[0] == 0
    assert sbmc(*command[:3], "--methods", "s-hmc")[0] == 0
    assert drawn == [
        ("paper", ["map", "s-hmc"]), ("clean", ["map", "s-hmc"]), ("paper", ["s-hmc"]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["mnist7", "rok"],
            ["`name` must be one of epochs, sure-unsure, roc, thr", "Did you mean 'roc'?"],
        ),
        (["mnist7", "risk"], ["`name` must be", "'risk'"]),
        (["mnits7", "roc"], ["`experiment`", "Did you mean 'mnist7'?"]),
        (["mnist7", "roc", "--methods", "s-hcm"], ["`methods` must be of", "'s-hmc'?"]),
        (["mnist7", "roc", "--methods", ","], ["`methods` must be at least one"]),
        (["mnist7", "roc", "--methods", "de"], ["`records` must be", "--confidence of de"]),
        (["mnist7", "roc", "--protocol", "papr"], ["`protocol` must be one of paper, clean"]),
        (["mnist7", "roc", "--out", "a.docx"], ["`out` must be a file that ends in .png, .pdf"]),
        (["mnist7", "--methods", "map"], ["`methods` must be left out", "epochs"]),
        (["mnist7", "epochs", "--protocol", "clean"], ["`protocol` must be left out"]),
        (["mnist7"], ["`records` must hold runs of the figure epochs"]),
        (
            ["digits", "epochs"],
            ["`name` must be a figure that digits has (sure", "'epochs'"],
        ),
        (["digits"], ["`records` must have a run of digits", "`sbmc run digits` makes one"]),
        (["shakespeare"], ["must be one of digits and mnist7", "`sbmc table shakespeare`"]),
        (["digits", "roc"], ["`records` must be a folder with digits runs made with"]),
    ],
)
def test_bad_words_are_refused_in_one_line(sbmc, tmp_path, arguments, words):
    code, output, errors = sbmc("figure", *arguments)
    assert (code, output) == (2, "")
    assert errors.count("\n") == 1
    for word in words:
        assert word in errors
    assert list(tmp_path.glob("*.png")) == []


def test_a_missing_folder_is_refused(tmp_path, capsys):
    assert main(["figure", "mnist7", "roc", "--records", str(tmp_path / "none")]) == 2
    message = capsys.readouterr().err
    assert "`records` must be a folder of records" in message
    assert "without the option, the stored ones are taken" in message


def test_the_confidence_tables_are_printed_in_both_protocols(sbmc):
    code, output, errors = sbmc("table", "mnist7", "--confidence")
    assert (code, errors) == (0, "")
    assert "The paper's protocol, F1-optimal threshold" in output
    assert "Clean protocol, threshold 0.5" in output
    assert "0.707±0.013" in output  # the paper's
    assert " 0.500 │" in output  # ours, of one seed, which has no error
    assert "S-SMC's islands are combined by evidence" in output
    assert "✗ AUC-ROC of S-HMC∥ (P = 8) above that of MAP: missing" in output
    code, output, _ = sbmc("table", "mnist7", "--confidence", "--format", "markdown")
    assert code == 0
    assert output.count("**") == 14
    code, _, errors = sbmc("table", "mnist7", "--confidence", "--format", "html")
    assert code == 2
    assert "`format` must be one of text, markdown" in errors


def test_the_confidence_tables_are_written_into_a_page(sbmc, tmp_path):
    page = tmp_path / "page.md"
    marks = "<!-- confidence: mnist7 paper -->\n{}\n<!-- end confidence: mnist7 -->\n"
    page.write_text(marks.format("STALE"), "utf-8")
    code, output, errors = sbmc("table", "mnist7", "--confidence", "--write", "page.md")
    assert (code, errors) == (0, "")
    assert "page.md: tables of mnist7 written" in output
    assert "STALE" not in page.read_text("utf-8")
    assert "| MAP (1 of 5 seeds) | 1 | 0.500 |" in page.read_text("utf-8")
    # without --confidence the page has no marks for it
    code, _, errors = sbmc("table", "mnist7", "--write", "page.md")
    assert code == 2
    assert "<!-- table: mnist7 -->" in errors
