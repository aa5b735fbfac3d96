"""A posterior of a table has all it needs in its file: network, encoding, scaling."""

import numpy as np
import pytest
import torch

import sbmc
from sbmc.checks import BadInput
from sbmc.datasets.files import TableEncoding, TextTable
from sbmc.estimators.table import fit_table

QUICK = {"hidden_layers": (6,), "budget": 0.5}


def make_table(rows=80, seed=0):
    rng = np.random.default_rng(seed)
    size, colour = rng.normal(50, 10, rows), rng.choice(["red", "blue"], rows)
    price = 3 * size + 40 * (colour == "red") + rng.normal(0, 1, rows)
    columns = {
        "size": [f"{each:.3f}" for each in size],
        "colour": list(colour),
        "price": [f"{each:.3f}" for each in price],
        "label": ["dear" if each > 170 else "cheap" for each in price],
    }
    return TextTable(columns, "things.csv")


@pytest.mark.parametrize(
    ("target", "likelihood"),
    [
        ("label", None),
        ("price", None),
        ("price", "gaussian"),
        ("price", "student-t"),
    ],
)
def test_the_file_alone_predicts_the_same_bits(tmp_path, target, likelihood):
    table = make_table()
    drop = ["price" if target == "label" else "label"]
    posterior = fit_table(table, target=target, likelihood=likelihood, drop=drop, **QUICK)
    posterior.save(tmp_path / "my.sbmc")
    loaded = sbmc.load(tmp_path / "my.sbmc")
    encoding = TableEncoding.from_dict(loaded.recipe.data)
    inputs = torch.from_numpy(encoding.inputs(make_table(20, seed=1)))
    assert torch.equal(loaded.predict(inputs).mean, posterior.predict(inputs).mean)
    assert encoding == TableEncoding.from_dict(posterior.recipe.data)
    # The recipe stays with the posterior when it is saved again.
    loaded.save(tmp_path / "again.sbmc")
    again = sbmc.load(tmp_path / "again.sbmc")
    assert again.recipe.as_dict() == loaded.recipe.as_dict()


def test_the_table_gives_what_the_estimator_gives():
    table = make_table()
    encoding = TableEncoding.learn(table, drop=["price"])
    inputs = encoding.inputs(table)
    model = sbmc.SBMCClassifier((6,), budget=0.5, random_state=0)
    expected = model.fit(inputs, encoding.targets(table)).predict_proba(inputs)
    posterior = fit_table(table, drop=["price"], **QUICK)
    np.testing.assert_array_equal(posterior.predict(torch.from_numpy(inputs)).probs, expected)


def test_numbers_store_the_deviation_that_one_training_row_in_a_hundred_exceeds():
    table = make_table(200)
    posterior = fit_table(table, target="price", drop=["label"], **QUICK)
    encoding = TableEncoding.from_dict(posterior.recipe.data)
    deviation = posterior.predict(torch.from_numpy(encoding.inputs(table))).variance.sqrt()
    assert (deviation > posterior.recipe.data["abstain_above"]).sum() == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likelihood": "gaussian"}, "`likelihood` must be 'categorical' for a target of text"),
        ({"likelihood": "catgorical"}, "'categorical'"),
        ({"likelihood": "poisson", "target": "price"}, "`likelihood` must be"),
        ({"hidden_layers": (0,)}, "`hidden_layers` must be"),
        ({"validation_fraction": 1.5}, "`validation_fraction` must be"),
        ({"seed": 2**40}, "`seed` must be"),
        ({"budget": "soon"}, "`budget` must be"),
    ],
)
def test_arguments_that_are_refused(options, message):
    with pytest.raises(BadInput, match=message):
        fit_table(
            make_table(20), **{**QUICK, "drop": ["price"] * ("target" not in options)} | options
        )


def test_a_file_without_a_network_asks_for_it(tmp_path):
    net, data = torch.nn.Linear(2, 2), (torch.randn(20, 2), torch.randint(2, (20,)))
    sbmc.fit(net, data, s=0.0).save(tmp_path / "plain.sbmc")
    with pytest.raises(BadInput, match="since this file has none of its own"):
        sbmc.load(tmp_path / "plain.sbmc")


@pytest.mark.parametrize(
    ("part", "value"),
    [("hidden_layers", [7]), ("activation", "exec"), ("shift", "none"), ("outputs", 5)],
)
def test_a_recipe_that_was_changed_is_refused(tmp_path, part, value):
    posterior = fit_table(make_table(20), drop=["price"], **QUICK)
    posterior.recipe.network[part] = value
    posterior.save(tmp_path / "my.sbmc")
    with pytest.raises(BadInput):
        sbmc.load(tmp_path / "my.sbmc")
