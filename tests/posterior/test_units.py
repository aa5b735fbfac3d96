import pickle

import numpy as np
import torch
from torch import nn

import sbmc
from sbmc.posterior.units import Units, in_original_units

torch.manual_seed(0)
STANDARDISED = torch.randn(12, 2)
TARGETS = STANDARDISED.sum(1, keepdim=True)
INPUT_UNITS = Units(torch.tensor([100.0, -1e8]), torch.tensor([7.0, 2.0]))
TARGET_UNITS = Units(torch.tensor([5.0]), torch.tensor([3.0]))
INPUTS = INPUT_UNITS.shift.double() + INPUT_UNITS.scale * STANDARDISED.double()


def make_posterior(targets=TARGETS, outputs=1):
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, outputs))
    return sbmc.fit(net, (STANDARDISED, targets), s=0.1, sampler=sbmc.HMC(steps=4), particles=3)


def test_numbers_in_original_units():
    posterior = make_posterior()
    changed = in_original_units(posterior, INPUT_UNITS, TARGET_UNITS)
    plain, ours = posterior.predict(STANDARDISED), changed.predict(INPUTS)
    torch.testing.assert_close(ours.mean, 5 + 3 * plain.mean, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.variance, 9 * plain.variance, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(
        ours.log_prob(5 + 3 * TARGETS), plain.log_prob(TARGETS) - np.log(3), rtol=1e-4, atol=1e-4
    )


def test_classes_in_original_units_and_the_posterior_itself_unchanged():
    posterior = make_posterior((TARGETS[:, 0] > 0).long(), outputs=2)
    before = posterior.predict(STANDARDISED).probs
    changed = in_original_units(posterior, INPUT_UNITS, None)
    torch.testing.assert_close(changed.predict(INPUTS).probs, before, rtol=1e-5, atol=1e-6)
    assert torch.equal(posterior.predict(STANDARDISED).probs, before)
    assert changed.origin != posterior.origin


def test_modules_of_particles_take_original_inputs():
    posterior = make_posterior()
    changed = in_original_units(posterior, INPUT_UNITS, TARGET_UNITS)
    for (plain, _), (ours, _) in zip(posterior.models(), changed.models(), strict=True):
        torch.testing.assert_close(ours(INPUTS), plain(STANDARDISED).double(), rtol=1e-4, atol=1e-5)


def test_a_posterior_that_has_predicted_can_be_pickled():
    posterior = make_posterior()
    mean = posterior.predict(STANDARDISED).mean
    assert torch.equal(pickle.loads(pickle.dumps(posterior)).predict(STANDARDISED).mean, mean)
