"""The list of the paper's tables and figures: numbers of the records, once each."""

import pytest
from study_records import entropies, write

from sbmc.checks import BadInput
from sbmc_studies.experiments.experiment import experiment_names
from sbmc_studies.paper.numbers import groups
from sbmc_studies.paper.tables.lines import MISSING
from sbmc_studies.paper.tables.paper_index import HEADINGS, build_index, read_index, write_index


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    metrics = {"accuracy": 0.905, "nll": 0.271, **entropies(groups("cifar10"))}
    metrics["confidence.default.auc_roc"] = 0.8125
    write(folder, "cifar10", "s-hmc", metrics, seeds=[0, 1], islands=8)
    return folder


def lines_by_name(records):
    return {
        line.cells[0]: dict(zip(HEADINGS, line.cells, strict=True)) for line in build_index(records)
    }


def test_numbers_are_those_of_the_records(records):
    line = lines_by_name(records)["tab:metric_diffP_cifar_s005 (and figure)"]
    assert line["paper"] == "90.8 %, 0.268"
    assert line["ours"] == "90.5 %, 0.271"
    assert line["records"] == "cifar10"
    assert line["S-HMC∥, largest P"] == "accuracy, NLL (P = 8, s = 0.05)"
    assert lines_by_name(records)["tab:cifar_ood_default"]["ours"] == "0.812"


def test_what_has_no_record_has_no_number(records):
    for name, line in lines_by_name(records).items():
        if "cifar" not in name and "fig:spiders" not in name:
            assert (line["ours"], line["minutes"], line["records"]) == (MISSING,) * 3


def test_every_command_is_one_of_ours():
    for entry in read_index():
        for command in entry.command.split(";"):
            words = command.split()
            assert words[0] == "sbmc"
            assert words[1] in ("table", "figure", "report", "run")
        assert entry.study in [*experiment_names(), "toy", "shakespeare"]


def test_pages_without_marks_are_refused(records):
    with pytest.raises(BadInput, match="`write` must be a page with the marks"):
        write_index("# A page\n", records)
    page = write_index("# A page\n<!-- index -->\nstale words\n<!-- end index -->\n", records)
    assert "stale words" not in page
    assert write_index(page, records) == page
