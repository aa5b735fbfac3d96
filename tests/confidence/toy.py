"""A classifier of the sign of a number, surer the larger it is, and data that it errs on."""

import torch

from sbmc.prediction.combining import classification_prediction

SLOPES = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64).view(-1, 1, 1)


def predict(inputs):
    logits = SLOPES * torch.as_tensor(inputs).double() * torch.tensor([-1.0, 1.0])
    return classification_prediction(logits.log_softmax(-1), torch.full((3,), 1 / 3))


def examples(count, seed, noise=0.5):
    rng = torch.Generator().manual_seed(seed)
    inputs = 3 * torch.randn(count, 1, generator=rng)
    return inputs, (inputs[:, 0] + noise * torch.randn(count, generator=rng) > 0).long()


def outside(count, seed, spread=0.2):
    return spread * torch.randn(count, 1, generator=torch.Generator().manual_seed(seed))
