"""Every way to put all particles into one graph gives the outputs of the particles."""

import export_cases as cases
import pytest
import torch

from sbmc.posterior.export.graph import UNROLLED, WAYS
from sbmc.posterior.input_batches import weighted_particles


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["mlp", "cnn", "learned noise", "named inputs"])
def test_outputs_are_those_of_the_particles(way, name):
    posterior = cases.posterior(name)
    theta = weighted_particles(posterior).positions
    networks = WAYS[way](posterior.model, posterior.space, theta, cases.new_rows(posterior, 2))
    x = cases.new_rows(posterior, 7)
    wanted = posterior.samples(x).outputs()
    with torch.no_grad():
        assert torch.allclose(networks(x), wanted, atol=1e-5, rtol=1e-5)


def test_the_particles_one_by_one_are_the_last_resort():
    assert list(WAYS)[-1] == UNROLLED
