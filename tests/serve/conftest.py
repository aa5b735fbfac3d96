"""Small posteriors of every kind that is served."""

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient
from torch import nn

import sbmc
from sbmc.datasets.files.table import TextTable
from sbmc.estimators.table import fit_table
from sbmc_serve import create_app

QUIET = {"progress": False}


def fitted(network, inputs, targets, s=0.1, **options):
    sampler = sbmc.HMC(steps=8)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return sbmc.fit(
            network, (inputs, targets), s=s, sampler=sampler, particles=5, **QUIET, **options
        )


@pytest.fixture(scope="session")
def classes():
    torch.manual_seed(0)
    inputs = torch.randn(60, 2, 3)
    labels = (inputs.sum((1, 2)) > 0).long() + (inputs[:, 0, 0] > 1).long()
    network = nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    return fitted(network, inputs, labels)


@pytest.fixture(scope="session")
def wider():
    """As `classes`, of another s."""
    torch.manual_seed(0)
    inputs = torch.randn(60, 2, 3)
    labels = (inputs.sum((1, 2)) > 0).long() + (inputs[:, 0, 0] > 1).long()
    network = nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    return fitted(network, inputs, labels, s=1.0)


@pytest.fixture(scope="session")
def numbers():
    torch.manual_seed(0)
    inputs = torch.randn(60, 4)
    return fitted(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), inputs, inputs[:, :1])


@pytest.fixture(scope="session")
def two_numbers():
    torch.manual_seed(0)
    inputs = torch.randn(60, 4)
    return fitted(nn.Linear(4, 2), inputs, inputs[:, :2])


@pytest.fixture(scope="session")
def tokens():
    """A network that takes whole numbers from 0 to 4."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(6, 2))
    inputs = torch.randint(0, 5, (60, 2))
    return fitted(network, inputs, (inputs[:, 0] > 2).long())


@pytest.fixture(scope="session")
def table():
    """Of a table with a column of numbers and a column of text."""
    rng = np.random.default_rng(0)
    sizes = rng.normal(10, 2, 40)
    colours = rng.choice(["blue", "red"], 40)
    prices = sizes + 3 * (colours == "red")
    columns = {
        "size": [f"{size:.4f}" for size in sizes],
        "colour": list(colours),
        "price": [f"{price:.4f}" for price in prices],
    }
    cells = TextTable(columns, "things.csv")
    return fit_table(cells, target="price", hidden_layers=(4,), budget=0.5)


@pytest.fixture
def client(classes):
    """A client of a server with one posterior."""
    with TestClient(create_app(classes)) as client:
        yield client


@pytest.fixture
def rows():
    torch.manual_seed(3)
    return torch.randn(7, 2, 3)
