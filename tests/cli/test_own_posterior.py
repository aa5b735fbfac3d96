"""`sbmc fit`, `predict`, `evaluate` and `report`: tables, pictures, arrays, exported graphs."""

import csv
import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import sbmc
from sbmc.cli import main
from sbmc.cli.opening import open_posterior
from sbmc.cli.posterior_commands import AskOptions
from sbmc.datasets.files import TableEncoding, read_table
from sbmc.report.answers import DOUBTFUL_PROBABILITY, answer

QUICK = ("--budget", "0.5", "--any-health", "--quiet")
NETWORK = """
from pathlib import Path

import torch
from torch import nn

net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 36, 2))
net.load_state_dict(torch.load(Path(__file__).parent / "weights.pt", weights_only=True))
"""


def run(words, *more):
    return main([*words.split(), *more])


def write_rows(path, rows=60, seed=0, target=True):
    rng = np.random.default_rng(seed)
    size, colour = rng.normal(50, 10, rows), rng.choice(["red", "blue"], rows)
    price = 3 * size + 40 * (colour == "red") + rng.normal(0, 5, rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["size", "colour"] + ["price", "label"] * target)
        for s, c, p in zip(size, colour, price, strict=True):
            both = [f"{p:.2f}", "dear" if p > 170 else "cheap"] * target
            writer.writerow([f"{s:.3f}", c, *both])
    return path


def read_rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Tables, and the posteriors of a class and of a number, which no test changes."""
    folder = tmp_path_factory.mktemp("tables")
    write_rows(folder / "train.csv")
    write_rows(folder / "test.csv", 30, seed=1)
    write_rows(folder / "new.csv", 50, seed=2, target=False)
    fit = ["fit", "--data", str(folder / "train.csv"), "--hidden", "6", *QUICK]
    assert main([*fit, "--drop", "price", "--out", str(folder / "label.sbmc")]) == 0
    number = ["--target", "price", "--drop", "label", "--out", str(folder / "price.sbmc")]
    assert main([*fit, *number]) == 0
    return folder


@pytest.fixture
def here(tables, tmp_path, monkeypatch):
    """A folder with copies of them, as the current one; nothing is left of imports."""
    for each in tables.iterdir():
        (tmp_path / each.name).write_bytes(each.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("network", None)


def shape_picture(label, rng):
    pixels = rng.integers(0, 60, (8, 8))
    pixels[(slice(None), slice(3, 5)) if label else (slice(3, 5), slice(None))] = 230
    return pixels.astype(np.uint8)


@pytest.fixture
def pictures(here):
    """Folders of pictures, and a network in a file that tells them apart."""
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for part, count in (("train", 12), ("test", 5)):
        for label, name in enumerate(("across", "down")):
            (here / part / name).mkdir(parents=True)
            for number in range(count):
                file = here / part / name / f"{number:02}.png"
                image.fromarray(shape_picture(label, rng)).save(file)
    (here / "new").mkdir()
    image.fromarray(shape_picture(1, rng)).resize((12, 10)).save(here / "new" / "large.png")
    inputs = torch.from_numpy(
        np.stack([shape_picture(i % 2, rng) for i in range(24)])[:, None].astype("float32") / 255
    )
    targets = torch.arange(24) % 2
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 36, 2))
    trained = sbmc.train_map(net, (inputs, targets), max_epochs=60, learning_rate=1e-2, seed=0)
    torch.save(trained.state_dict(), here / "weights.pt")
    (here / "network.py").write_text(NETWORK, "utf-8")
    np.savez(here / "arrays.npz", x=inputs.numpy(), y=targets.numpy())
    return here


def export(net, example, path):
    rows = {0: torch.export.Dim("rows")}
    program = torch.export.export(net.eval(), (example,), dynamic_shapes=(rows,))
    torch.export.save(program, path)


# ---- tables ------------------------------------------------------------------------------------


def test_a_table_is_answered_row_by_row_as_python_answers(here, capsys):
    assert run("predict label.sbmc --data new.csv --out answers.csv") in (0, 3)
    answers = read_rows(here / "answers.csv")
    assert list(answers[0]) == [
        *("row", "label", "probability", "total", "aleatoric", "epistemic", "abstain")
    ]
    assert [each["row"] for each in answers] == [str(n + 1) for n in range(50)]
    posterior = sbmc.load("label.sbmc")
    encoding = TableEncoding.from_dict(posterior.recipe.data)
    prediction = posterior.predict(torch.from_numpy(encoding.inputs(read_table("new.csv"))))
    assert [each["label"] for each in answers] == [
        encoding.classes[label] for label in prediction.labels
    ]
    for name, expected in (
        ("probability", prediction.max_probability),
        ("total", prediction.total),
        ("epistemic", prediction.epistemic),
    ):
        given = [float(each[name]) for each in answers]
        np.testing.assert_allclose(given, expected, rtol=1e-8, atol=1e-12)
    doubtful = 1 - prediction.max_probability > DOUBTFUL_PROBABILITY
    assert [each["abstain"] for each in answers] == ["yes" if each else "no" for each in doubtful]
    captured = capsys.readouterr()
    assert captured.out == "answers.csv: 50 answers\n"
    assert f"abstained from {int(doubtful.sum())} of 50" in captured.err
    assert "sbmc: health of the posterior: " in captured.err


def test_numbers_have_a_mean_and_an_interval(here):
    words = "predict price.sbmc --data new.csv --out answers.tsv --level 0.8 --any-health"
    assert run(words, "--abstain-above", "0") == 0
    lines = (here / "answers.tsv").read_text("utf-8").splitlines()
    names, first = (line.split("\t") for line in lines[:2])
    assert names == [
        *("row", "mean", "lower", "upper", "total", "aleatoric", "epistemic", "abstain")
    ]
    cells = dict(zip(names, first, strict=True))
    posterior = open_posterior(here / "price.sbmc")
    rows = TableEncoding.from_dict(posterior.recipe.data).rows(read_table("new.csv"))
    interval = posterior.predict(rows.inputs).interval(0.8)
    assert float(cells["lower"]) == pytest.approx(float(interval.lower[0]), rel=1e-8)
    assert float(cells["total"]) == pytest.approx(
        float(cells["aleatoric"]) + float(cells["epistemic"]), rel=1e-6
    )
    assert {line.rpartition("\t")[2] for line in lines[1:]} == {"yes"}


def test_answers_are_printed_where_there_is_no_file(here, capsys):
    assert run("predict label.sbmc --data new.csv --any-health --probabilities") == 0
    printed = capsys.readouterr().out
    assert "p_cheap" in printed
    assert "... and 10 rows more; --out answers.csv writes all of them" in printed


def test_measures_are_those_of_the_library(here, capsys):
    from sbmc.prediction import metrics

    assert run("evaluate label.sbmc --data test.csv --json --any-health") == 0
    shown = json.loads(capsys.readouterr().out)
    posterior = sbmc.load("label.sbmc")
    rows = TableEncoding.from_dict(posterior.recipe.data).rows(read_table("test.csv"))
    prediction = posterior.predict(rows.inputs)
    assert shown["rows"] == 30
    for name in ("accuracy", "nll", "brier", "ece", "aurc"):
        expected = getattr(metrics, name)(prediction, rows.targets)
        assert shown["metrics"][name] == pytest.approx(expected, rel=1e-9)
    assert shown["health"]["ok"] == posterior.health.ok
    assert run("evaluate price.sbmc --data test.csv --any-health") == 0
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("RMSE", "NLL", "CRPS", "coverage", "AURC"))


@pytest.mark.parametrize("name", ["label", "price"])
def test_a_page_of_a_table(here, name, capsys):
    words = f"report {name}.sbmc --data test.csv --out page.html --any-health"
    assert run(words) == 0
    page = (here / "page.html").read_text("utf-8")
    for title in (
        "Health",
        "How good its answers are",
        "Reliability",
        "Risk and coverage",
        "Where the uncertainty comes from",
        "What it is most and least sure about",
        "What it is made of",
        "What to do next",
    ):
        assert f">{title}<" in page
    # Nothing is fetched: all that is linked to is in the page.
    names = set(re.findall(r'id="([^"]*)"', page))
    for link in re.findall(r'(?:href|src)="([^"]*)"', page):
        assert link.startswith("data:") or link.removeprefix("#") in names
    assert "Made from the posterior and the data" in page
    assert "page.html: report of" in capsys.readouterr().out
    # A page of rows without targets says what it lacks.
    assert run(f"report {name}.sbmc --data new.csv --out page.html --any-health") == 0
    page = (here / "page.html").read_text("utf-8")
    assert "need targets" in page
    assert ">Reliability<" not in page


def test_a_page_shows_strings_as_text(here):
    lines = (here / "test.csv").read_text("utf-8").splitlines()
    lines[1] = lines[1].replace("red", "<script>").replace("blue", "<script>")
    (here / "test.csv").write_text("\n".join(lines) + "\n", "utf-8")
    words = "report label.sbmc --data test.csv --out page.html --any-health"
    assert run(words, "--title", "A <b>") == 0
    page = (here / "page.html").read_text("utf-8")
    assert "A &lt;b&gt;" in page
    assert page.count("<script>") == 1


def test_unknown_levels_and_columns_for_nothing(here, capsys):
    (here / "odd.csv").write_text("colour,size,note,label\ngreen,50,x,\n", "utf-8")
    # The target is not looked at, since it is what is asked for.
    assert run("predict label.sbmc --data odd.csv --any-health") == 0
    assert "'colour' of odd.csv has values that training had not: 'green' (row 1)" in (
        capsys.readouterr().err
    )


def test_a_seed_repeats_a_fit_and_the_answers_of_parquet_are_those_of_csv(here):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pandas.read_csv("train.csv").to_parquet("train.parquet")
    words = ["fit", "--hidden", "6", "--drop", "price", *QUICK, "--data"]
    assert main([*words, "train.parquet", "--out", "again.sbmc"]) == 0
    again, before = sbmc.load("again.sbmc"), sbmc.load("label.sbmc")
    assert torch.equal(again.positions, before.positions)
    assert main([*words, "train.csv", "--out", "other.sbmc", "--seed", "1"]) == 0
    assert not torch.equal(sbmc.load("other.sbmc").positions, before.positions)


def test_a_stored_score_decides_about_abstentions(here):
    posterior = sbmc.load("label.sbmc")
    rows = TableEncoding.from_dict(posterior.recipe.data).rows(read_table("train.csv"))
    posterior.confidence((rows.inputs, rows.targets), 50 * rows.inputs)
    posterior.save("scored.sbmc")
    again = sbmc.load("scored.sbmc")
    answers = answer(again, rows)
    assert torch.equal(answers.abstention.abstain, posterior.fitted_confidence.abstain(rows.inputs))
    assert answers.abstention.rule == "its fitted score says so"
    assert answer(again, rows, abstain_above=0.0).abstention.abstain.all()


def test_a_posterior_that_is_not_healthy_is_said_so_by_every_command(here, capsys):
    posterior = sbmc.load("label.sbmc")
    posterior.islands = [
        replace(each, displacement=[0.0] * 3, steps=9, moves=5) for each in posterior.islands
    ]
    posterior.save("ill.sbmc")
    commands = ["predict ill.sbmc --data new.csv", "evaluate ill.sbmc --data test.csv"]
    commands.append("report ill.sbmc --data test.csv --out page.html")
    for words in commands:
        assert run(words) == 3
        assert "sbmc: health of the posterior: not ok: " in capsys.readouterr().err
        assert run(words, "--any-health") == 0
    assert "not ok" in (here / "page.html").read_text("utf-8")


# ---- networks ----------------------------------------------------------------------------------


def test_a_folder_of_pictures(pictures, capsys):
    assert main(["fit", "network.py:net", "--data", "train", "--out", "my.sbmc", *QUICK]) == 0
    printed = capsys.readouterr().out
    assert "train: 24 pictures, 8×8 pixels, grey; classes: across, down" in printed
    assert "network.py:net: 100.0 % of its training rows are right" in printed
    assert run("evaluate my.sbmc --data test --json --any-health") == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["accuracy"] == 1.0
    assert run("predict my.sbmc --data new --out new.csv --any-health") == 0
    assert "1 pictures were resized to 8×8 pixels" in capsys.readouterr().err
    (only,) = read_rows(pictures / "new.csv")
    assert (only["file"], only["label"]) == ("large.png", "down")
    assert run("report my.sbmc --data test --out page.html --any-health") == 0
    assert (pictures / "page.html").read_text("utf-8").count("data:image/png;base64") == 16


def test_code_that_has_changed_or_moved_is_asked_for(pictures, capsys):
    assert main(["fit", "network.py:net", "--data", "train", "--out", "my.sbmc", *QUICK]) == 0
    predict = "predict my.sbmc --data new --any-health"
    sys.modules.pop("network", None)
    code = (pictures / "network.py").read_text("utf-8")
    (pictures / "network.py").write_text(code + "# a remark\n", "utf-8")
    assert run(predict) == 2
    assert "'network.py:net', has changed since, but got nothing. Give --model" in (
        capsys.readouterr().err
    )
    assert run(predict, "--model", "network.py:net") == 0
    # Another network is recognised by its outputs, whatever it is called.
    (pictures / "network.py").write_text(code.replace("ReLU", "Tanh"), "utf-8")
    assert run(predict, "--model", "network.py:net") == 2
    (pictures / "network.py").rename(pictures / "elsewhere.py")
    capsys.readouterr()
    assert run(predict) == 2
    assert "is not here" in capsys.readouterr().err


def test_arrays_and_an_exported_graph_need_no_code(pictures, capsys):
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 36, 2))
    net.load_state_dict(torch.load("weights.pt", weights_only=True))
    export(net, torch.zeros(3, 1, 8, 8), "net.pt2")
    assert main(["fit", "net.pt2", "--data", "arrays.npz", "--out", "my.sbmc", *QUICK]) == 0
    for name in ("net.pt2", "network.py", "weights.pt"):
        (pictures / name).unlink()
    assert run("evaluate my.sbmc --data arrays.npz --json --any-health") == 0
    shown = capsys.readouterr().out
    assert json.loads(shown[shown.index("{") :])["metrics"]["accuracy"] == 1.0
    assert sbmc.load("my.sbmc").predict(torch.zeros(1, 1, 8, 8)).probs.shape == (1, 2)


def test_a_posterior_of_python_is_asked_with_its_network(pictures):
    arrays = np.load("arrays.npz")
    data = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"])
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 36, 2))
    sbmc.fit(net, data, s=0.0).save("mine.sbmc")
    words = "evaluate mine.sbmc --data arrays.npz --any-health"
    assert run(words) == 2
    assert run(words, "--model", "network.py:net") == 0


def test_numbers_of_a_network_with_two_outputs(here):
    code = "from torch import nn\nnet = nn.Linear(3, 2)\n"
    (here / "network.py").write_text(code, "utf-8")
    rng = np.random.default_rng(0)
    np.savez("arrays.npz", inputs=rng.normal(size=(30, 3)), targets=rng.normal(size=(30, 2)))
    export(nn.Linear(3, 2), torch.zeros(2, 3), "net.pt2")
    assert main(["fit", "net.pt2", "--data", "arrays.npz", "--out", "my.sbmc", *QUICK]) == 0
    words = "predict my.sbmc --data arrays.npz --out answers.csv --any-health"
    assert run(words) == 0
    names = list(read_rows(here / "answers.csv")[0])
    assert names[:5] == ["row", "mean_0", "mean_1", "lower_0", "lower_1"]
    assert run("report my.sbmc --data arrays.npz --out page.html --any-health") == 0


# ---- refusals ----------------------------------------------------------------------------------

FIT = "fit --data train.csv --out my.sbmc --quiet"
REFUSED = {
    "fit --data far/xyzzy --out my.sbmc": "but got 'far/xyzzy'. Paths begin at the current",
    "fit --data trian.csv --out my.sbmc": "but got 'trian.csv'. Did you mean 'train.csv'?",
    "fit --data notes.txt --out my.sbmc": "`data` must be a table (.csv",
    "fit --data train.csv --out no/my.sbmc": "`out` must be a file in an existing folder",
    "fit --data empty --out my.sbmc": "`model` must be given for data that are no table",
    FIT + " --target cost": "which has 'size', 'colour', 'price', 'label', but got 'cost'",
    FIT + " --drop sise": "Did you mean 'size'?",
    FIT + " --hidden 64;64": "`hidden` must be positive whole numbers",
    FIT + " --likelihood poisson": "`likelihood` must be",
    FIT + " --validation 2": "`validation` must be the share of rows",
    FIT + " --budget soon": "`budget` must be",
    FIT + " --budget -1": "`budget` must be positive",
    FIT + " --seed x": "`seed` must be a whole number",
    FIT + " --size 8": "`size` must be left out",
    "fit net.py:net --data train.csv --out my.sbmc": "`model` must be left out for a table",
    "fit net.pt --data rows.npz --out my.sbmc": "torch.export.save(",
    "fit net.py:script --data rows.npz --out my.sbmc": "which is TorchScript",
    "fit net.pt2 --data rows.npz --out my.sbmc": "`model` must be a file that exists",
    "fit net.py:net --data rows.npz --out my.sbmc": "rows of shape (3,) and dtype float32",
    "fit net.py:net --data rows.npz --out my.sbmc --inputs z": "an array 'z'",
    "fit net.py:net --data one --out my.sbmc": "two or more of them",
    "predict no.sbmc --data new.csv": "`file` must be a posterior's file that exists",
    "predict lable.sbmc --data new.csv": "but got 'lable.sbmc'. Did you mean 'label.sbmc'?",
    "predict empty --data new.csv": "file that exists, but got the folder",
    "predict new.csv --data new.csv": "Give a file that `sbmc fit` or posterior.save(path) wrote",
    "predict label.sbmc --data rows.npz": "a table (.csv, .csv.gz, .tsv, .tsv.gz, .parquet), as",
    "predict label.sbmc --data gap.csv": "1 in column 'size' of gap.csv (row 2)",
    "predict label.sbmc --data few.csv": "lacks 'colour' and has 'size'",
    "predict label.sbmc --data new.csv --out a.json": "ends in .csv or .tsv",
    "predict label.sbmc --data new.csv --level 1": "`level` must be",
    "predict label.sbmc --data new.csv --abstain-above no": "`abstain_above` must be",
    "predict label.sbmc --data new.csv --model net.py:net": "`model` must be",
    "evaluate label.sbmc --data new.csv": "`target` must be a column of new.csv",
    "evaluate label.sbmc": "`data` must be given",
    "report label.sbmc": "`data` must be given for a posterior's file",
    "report label.sbmc price.sbmc --data test.csv": "`sources` must be one posterior's file",
    "report runs --level 0.5": "`level` must be left out for folders",
    "report runs": "`runs` must be a folder of records",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_wrong_is_said_in_one_line(words, here, capsys):
    (here / "notes.txt").write_text("x", "utf-8")
    (here / "empty").mkdir()
    (here / "one" / "class").mkdir(parents=True)
    (here / "one" / "class" / "a.png").write_bytes(b"")
    (here / "net.pt").write_bytes(b"PK")
    (here / "gap.csv").write_text("size,colour\n1,red\n,red\n", "utf-8")
    (here / "few.csv").write_text("size\n1\n", "utf-8")
    np.savez("rows.npz", x=np.zeros((4, 3)), y=np.arange(4) % 2)
    code = "import torch\nnet = torch.nn.Linear(2, 2)\n"
    code += "script = torch.jit.ScriptModule()\n" * ("script" in words)
    (here / "net.py").write_text(code, "utf-8")
    before = set(here.iterdir())
    assert run(words) == 2
    sys.modules.pop("net", None)
    error = capsys.readouterr().err
    assert REFUSED[words] in error
    assert len(error.strip().splitlines()) == 1
    assert {each for each in here.iterdir() if each.name != "__pycache__"} == before


def test_a_file_that_is_there_survives_a_failure(here, monkeypatch):
    (here / "answers.csv").write_text("what was there\n", "utf-8")

    def fail(*_):
        raise OSError(28, "No space left on device", "answers.csv")

    monkeypatch.setattr("sbmc.storage.files.os.replace", fail)
    assert run("predict label.sbmc --data new.csv --out answers.csv --any-health") == 2
    assert (here / "answers.csv").read_text("utf-8") == "what was there\n"
    assert not [each for each in here.iterdir() if each.name.endswith(".part")]


def test_options_have_defaults_that_are_read():
    assert AskOptions().arguments()["level"] == 0.9


def test_a_folder_of_parts_of_one_data_set_is_read_in_python(tmp_path, capsys):
    np.savez(tmp_path / "0.npz", inputs=np.zeros((3, 2)), targets=np.arange(3))
    assert run("fit model.py:net --out x.sbmc --data", str(tmp_path)) == 2
    assert "sbmc.datasets.ShardedFiles(" in capsys.readouterr().err
