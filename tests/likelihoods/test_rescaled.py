import numpy as np
import pytest
import torch
from scipy import stats

import sbmc
from sbmc.checks import BadInput
from sbmc.likelihoods import Rescaled
from sbmc.likelihoods.choice import from_description
from sbmc.prediction.predictive import PredictiveMixture

SHIFT, SCALE = [1e9, -3.0], [5e5, 0.25]
TARGETS = torch.tensor([[1.0003e9, -3.1], [0.999e9, -2.0]], dtype=torch.float64)
# Two particles and two rows: means, then logarithms of the noise.
OUTPUTS = torch.tensor(
    [[[0.5, 1.0, -1.0, 0.0], [-2.0, 4.0, 0.5, 2.0]], [[0.7, -1.0, 1.0, 0.3], [0.0, 3.0, 0.0, -2.0]]]
)
BASES = {
    "gaussian": (sbmc.Gaussian(noise="network"), stats.norm(), 1.0),
    "student-t": (sbmc.StudentT(noise="network", df=5.0), stats.t(5.0), 5 / 3),
}


def reference(noise):
    """scipy's distributions in original units, of each particle, row and output."""
    means, logs = OUTPUTS.double().numpy()[..., :2], OUTPUTS.double().numpy()[..., 2:]
    places = np.array(SHIFT) + np.array(SCALE) * means
    widths = np.array(SCALE) * np.exp(logs / 2)
    return places, widths, noise.logpdf((TARGETS.numpy() - places) / widths) - np.log(widths)


@pytest.mark.parametrize("name", BASES)
def test_density_and_moments_against_scipy(name):
    base, noise, variance = BASES[name]
    likelihood = Rescaled(base, SHIFT, SCALE)
    places, widths, densities = reference(noise)
    np.testing.assert_allclose(likelihood.log_prob(OUTPUTS, TARGETS), densities.sum(-1), rtol=1e-9)
    distribution = likelihood.distribution(OUTPUTS)
    np.testing.assert_allclose(distribution.log_prob(TARGETS), densities.sum(-1), rtol=1e-9)
    moments = likelihood.moments(OUTPUTS)
    np.testing.assert_allclose(moments.mean, places, rtol=1e-12)
    np.testing.assert_allclose(moments.variance, widths**2 * variance, rtol=1e-9)


@pytest.mark.parametrize("name", BASES)
def test_quantiles_and_scores_change_their_units_alone(name):
    base, *_ = BASES[name]
    weights = torch.tensor([0.3, 0.7], dtype=torch.float64)
    ours = PredictiveMixture(Rescaled(base, SHIFT, SCALE).distribution(OUTPUTS), weights)
    plain = PredictiveMixture(base.distribution(OUTPUTS.double()), weights)
    shift, scale = torch.tensor(SHIFT).double(), torch.tensor(SCALE).double()
    torch.testing.assert_close(ours.quantile(0.1), shift + scale * plain.quantile(0.1))
    standardised = (TARGETS - shift) / scale
    torch.testing.assert_close(
        ours.crps(TARGETS), scale * plain.crps(standardised), rtol=1e-5, atol=0.0
    )


def test_large_noise_is_not_softened():
    # exp(20) is where columns of logarithms are bent; that is a matter of the network's units.
    outputs = torch.tensor([[0.0, 19.0]])
    likelihood = Rescaled(sbmc.Gaussian(noise="network"), [0.0], [1e6])
    assert likelihood.moments(outputs).variance.item() == pytest.approx(1e12 * np.exp(19.0))


def test_its_description_makes_it_again():
    likelihood = Rescaled(sbmc.StudentT(df=6.0), SHIFT, SCALE)
    described = likelihood.describe()
    again = from_description(described)
    assert again.describe() == described
    assert (again.base.df, again.shift.tolist(), again.scale.tolist()) == (6.0, SHIFT, SCALE)


def test_targets_keep_their_digits():
    checked = Rescaled(sbmc.Gaussian(), [0.0], [1.0]).check(
        torch.tensor([1e9 + 0.25], dtype=torch.float64), torch.zeros(1, 2)
    )
    assert checked.tolist() == [[1e9 + 0.25]]


@pytest.mark.parametrize("scale", [[0.0], [-1.0], [1.0, 1.0]])
def test_a_scale_that_is_none_is_refused(scale):
    with pytest.raises(BadInput, match="`scale` must be positive"):
        Rescaled(sbmc.Gaussian(), [0.0], scale)


def test_classes_have_no_units():
    with pytest.raises(BadInput, match="`base` must be a likelihood of numbers"):
        Rescaled(sbmc.Categorical(), [0.0], [1.0])
