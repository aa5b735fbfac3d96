"""Small posteriors for tests of folders and cards, one of each kind that a folder can have."""

from functools import cache

import torch
from torch import nn

import sbmc
from sbmc.datasets.files import TextTable
from sbmc.estimators.table import fit_table
from sbmc.posterior.recipe import EXPORTED, REFERENCE, Recipe, graph_tensor, open_exported

X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()


def network(outputs=2):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, outputs))


def _fit(module, targets, **options):
    return sbmc.fit(module, (X, targets), s=0.1, particles=3, progress=False, **options)


@cache
def classes():
    """Of classes; the network is the user's."""
    return _fit(network(), Y)


@cache
def numbers():
    """Of numbers with learned noise; the network is the user's."""
    return _fit(network(1), X[:, :1], likelihood="gaussian")


@cache
def labels():
    """Of two labels for each row; the network is the user's."""
    return _fit(network(), (X[:, :2] > 0).float(), likelihood=sbmc.MultiLabel())


@cache
def table():
    """Of a table with a column of text; the file has its network."""
    cells = {
        "size": [f"{value:.3f}" for value in X[:, 0].tolist()],
        "secret colour": ["crimson" if value > 0 else "azure" for value in X[:, 1].tolist()],
        "label": ["high" if value else "low" for value in Y.tolist()],
    }
    return fit_table(TextTable(cells, "things.csv"), hidden_layers=(4,), budget=0.2)


def exported(path):
    """With its network as a graph of torch.export."""
    rows = torch.export.Dim("rows", min=1)
    program = torch.export.export(network().eval(), (X[:2],), dynamic_shapes=({0: rows},))
    torch.export.save(program, path)
    content = path.read_bytes()
    posterior = _fit(open_exported(content), Y)
    posterior.recipe = Recipe({"kind": EXPORTED}, {}, graph_tensor(content))
    return posterior


def referenced(reference="/home/somebody/secret/net.py:net"):
    """With the name of its network's code."""
    posterior = classes().reweighted("equal")
    posterior.recipe = Recipe({"kind": REFERENCE, "reference": reference, "digest": "0" * 64})
    return posterior
