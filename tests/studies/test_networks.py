import pytest
import torch

from sbmc.checks import BadInput
from sbmc_studies.experiments.networks import build_network, paper_cnn


@pytest.mark.parametrize(("size", "parameters"), [(28, 6320), (8, 40 + 64 * 8 + 8)])
def test_the_papers_network(size, parameters):
    network = build_network("cnn", (1, size, size), 8)
    assert sum(each.numel() for each in network.parameters()) == parameters
    assert network(torch.zeros(3, 1, size, size)).shape == (3, 8)


def test_refusals():
    with pytest.raises(BadInput, match="Did you mean 'cnn'"):
        build_network("cn", (1, 8, 8), 8)
    with pytest.raises(BadInput, match="input_shape"):
        paper_cnn((64,), 8)
    with pytest.raises(BadInput, match="even"):
        paper_cnn((1, 7, 8), 8)
    with pytest.raises(BadInput, match="classes"):
        paper_cnn((1, 8, 8), 0)


@pytest.mark.parametrize(("width", "classes", "parameters"), [(768, 2, 1538), (2048, 10, 20490)])
def test_the_papers_heads(width, classes, parameters):
    head = build_network("linear", (width,), classes)
    assert sum(each.numel() for each in head.parameters()) == parameters
    assert head(torch.zeros(3, width)).shape == (3, classes)
    with pytest.raises(BadInput, match="input_shape"):
        build_network("linear", (1, 28, 28), classes)
    with pytest.raises(BadInput, match="classes"):
        build_network("linear", (width,), 0)
