"""The study `mnist`: its images, its verdicts, and a run of it on a few images."""

import json
import os
from pathlib import Path

import pytest
import torch
from repository import RECORDS, ROOT

from sbmc.checks import BadInput
from sbmc.datasets.bundle import DataBundle
from sbmc_studies.commands.mnist import run_mnist, with_mnist
from sbmc_studies.gauntlet.networks import build_pair_network
from sbmc_studies.gauntlet.pairs import Pair
from sbmc_studies.mnist import running
from sbmc_studies.mnist.pairs import load_mnist, mnist_pairs
from sbmc_studies.mnist.running import METHODS, record_file, run_mnist_pair
from sbmc_studies.mnist.table import mnist_lines

needs_mnist = pytest.mark.skipif(
    not (Path(os.environ.get("SBMC_DATA", "")) / "mnist.npz").is_file(),
    reason="mnist.npz is not in the folder that $SBMC_DATA names",
)


def test_the_networks_have_the_sizes_that_the_study_says():
    sizes = {}
    for pair in mnist_pairs():
        network = build_pair_network(pair.network, (1, 28, 28), 8)
        sizes[pair.name] = sum(each.numel() for each in network.parameters())
        assert network(torch.randn(2, 1, 28, 28)).shape == (2, 8)
    assert sizes == {"lenet5": 61_536, "resnet8": 77_624}
    norms = [m for m in network.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    convolutions = [
        name
        for name, m in network.named_modules()
        if isinstance(m, torch.nn.Conv2d) and "shortcut" not in name
    ]
    assert norms
    assert len(convolutions) + 1 == 8  # and the head


@needs_mnist
def test_all_images_in_domain_are_used_and_no_part_shares_one():
    data = load_mnist("lenet5", seed=1)
    sizes = [len(labels) for _, labels in (data.train, data.validation, data.test)]
    assert sizes == [43_380, 4_820, 8_017]
    assert {group: len(rows) for group, rows in data.ood.items()} == {"8": 974, "9": 1_009}
    assert set(data.train[1].tolist()) == set(range(8))
    known = {row.numpy().tobytes() for row in data.train[0]}
    assert not any(row.numpy().tobytes() in known for row in data.validation[0])
    assert len(load_mnist("resnet8").train[1]) + len(load_mnist("resnet8").validation[1]) == 9_680


@needs_mnist
def test_development_has_other_digits_out_of_domain_and_no_test_image():
    claims, development = load_mnist("lenet5"), load_mnist("lenet5-development", seed=1)
    assert set(development.ood) == {"4", "7"}
    assert len(load_mnist("lenet5-development", seed=5).ood) == 2
    tested = {row.numpy().tobytes() for row in claims.test[0]}
    for rows, _ in (development.train, development.validation, development.test):
        assert not any(row.numpy().tobytes() in tested for row in rows)
    # Those of another network are the same, and networks have not seen them.
    seen = {row.numpy().tobytes() for row in development.train[0]}
    assert not any(row.numpy().tobytes() in seen for row in development.test[0])
    assert len(development.test[0]) + sum(map(len, development.ood.values())) == 12_000


def few(name: str, seed: int = 0, data_dir: object = None) -> DataBundle:
    """Images in the form of MNIST, with a bright row that tells their class."""
    rng = torch.Generator().manual_seed(seed)

    def images(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.arange(count) % 4
        pixels = 0.2 * torch.rand(count, 1, 28, 28, generator=rng)
        pixels[torch.arange(count), 0, 6 * labels + 3] = 0.9
        return pixels, labels

    ood = {"8": torch.rand(20, 1, 28, 28, generator=rng)}
    return DataBundle(name, "none", 4, images(96), images(32), images(40), ood)


@pytest.mark.parametrize("name", ["lenet5", "resnet8"])
def test_a_run_goes_on_where_it_was_and_a_table_is_made_of_it(name, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "load_mnist", few)
    pair = next(pair for pair in mnist_pairs() if pair.name == name)
    short = Pair(name, pair.part, pair.data, pair.network, {**pair.training, "epochs": 3})
    first = run_mnist_pair(short, 0, ["network", "ensemble-5"], tmp_path)
    assert list(first["methods"]) == ["network", "ensemble-5"]
    written = json.loads(record_file(tmp_path, name, 0).read_text())
    both = run_mnist_pair(short, 0, ["ensemble-5", "sbmc", "swa"], tmp_path)
    assert both["methods"]["ensemble-5"] == written["methods"]["ensemble-5"]  # not run again
    mixture = both["methods"]["sbmc"]["about"]["mixture"]
    assert any("trained here" in member["name"] for member in mixture["members"])
    assert both["methods"]["swa"]["passes"] >= 6
    page = "\n".join(mnist_lines(tmp_path))
    assert f"**{name}**: 96 images to train on, 32 set aside, 40 to test; 1 of 3 seeds" in page
    assert "no record yet; `sbmc run mnist` makes them." in page
    for method in ("network", "ensemble-5", "sbmc", "swa"):
        assert f"| {method} |" in page
    assert "| swag |" not in page


def record_of(out: Path, name: str, seed: int, **methods: dict[str, float]) -> None:
    path = record_file(out, name, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "pair": name,
        "data": {"name": name},
        "seed": seed,
        "rows": {"train": 10, "validation": 2, "test": 5},
        "methods": {
            method: {
                "scores": {
                    "nll": values["nll"],
                    "ood_ep": values["ood"],
                    **dict.fromkeys(("accuracy", "ece", "ood_tot"), 0.5),
                },
                "seconds": values["seconds"],
                "passes": 1,
                "about": {},
            }
            for method, values in methods.items()
        },
    }
    path.write_text(json.dumps(content))


def test_verdicts_are_those_of_means_over_seeds(tmp_path):
    theirs = {"nll": 0.03, "ood": 0.98, "seconds": 100.0}
    ours = {"nll": 0.028, "ood": 0.97, "seconds": 110.0}
    record_of(tmp_path, "lenet5", 0, **{"ensemble-5": theirs, "sbmc": ours})
    other = {"nll": 0.0304, "ood": 0.985, "seconds": 80.0}
    record_of(tmp_path, "lenet5", 1, **{"ensemble-5": theirs, "sbmc": other})
    rows = [line for line in mnist_lines(tmp_path) if line.startswith("| sbmc: ")]
    assert "-0.0008: holds" in rows[0]
    assert "-0.0025: missed" in rows[1]
    assert "0.95: holds" in rows[2]
    # The planted bug: a verdict of one seed.
    record_file(tmp_path, "lenet5", 1).unlink()
    rows = [line for line in mnist_lines(tmp_path) if line.startswith("| sbmc: ")]
    assert "missed" in rows[1]
    assert "1.10: missed" in rows[2]


def test_development_has_tables_of_its_own(tmp_path):
    values = {"nll": 0.03, "ood": 0.98, "seconds": 100.0}
    record_of(tmp_path, "lenet5", 0, **{"ensemble-5": values, "sbmc": values})
    assert "Development" not in "\n".join(mnist_lines(tmp_path))
    record_of(tmp_path, "lenet5-development", 5, **{"ensemble-5": values})
    claims, development = "\n".join(mnist_lines(tmp_path)).split("### Development")
    assert "1 of 3 seeds" in claims
    assert "**lenet5-development**" in development
    assert "1 of 6 seeds" in development
    assert "| sbmc |" not in development


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"settings": {"pairs": "lenet"}}, "`pairs` must be among lenet5, resnet8"),
        ({"settings": {"s": "0.1"}}, "`s` must be left out for the study mnist"),
        ({"methods": "swagg"}, "`method` must be one of .* Did you mean 'swag'"),
    ],
)
def test_refusals(changes, rule, tmp_path):
    options = {"methods": None, "seeds": None, "settings": {}, **changes}
    with pytest.raises(BadInput, match=rule):
        run_mnist(**options, out=tmp_path, quick=True, force=False, data_dir=None, quiet=True)


def test_the_page_has_the_tables_of_the_committed_records():
    page = ROOT / "docs" / "mnist.md"
    text = page.read_text("utf-8")
    assert with_mnist(text, RECORDS) == text, "run: sbmc table mnist --write docs/mnist.md"
    for pair in mnist_pairs():
        content = json.loads(record_file(RECORDS, pair.name, 0).read_text())
        assert set(content["methods"]) == set(METHODS)
