"""Networks with BatchNorm in terms of each other's statistics: equal functions, other weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sbmc.model.parameters import select_parameters
from sbmc.training.shared_statistics import can_share_statistics, with_statistics_of


class Residual(nn.Module):
    """Convolutions with BatchNorm, a shortcut, and InstanceNorm that tracks statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.other = nn.InstanceNorm2d(4, affine=True, track_running_stats=True)
        self.head = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, eps=1e-2), nn.Linear(6, 3))

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(x + self.other(self.second(x)))
        return self.head(x.mean((2, 3)))


def trained(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    model = Residual()
    for _ in range(5):
        model(3 * torch.randn(16, 1, 5, 5) + seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def buffers_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return dict(model.named_buffers())


def test_the_function_stays_and_the_statistics_are_the_others():
    one, other = trained(1), trained(2)
    rewritten = with_statistics_of(one, other)
    inputs = torch.randn(20, 1, 5, 5)
    assert not torch.allclose(one(inputs), other(inputs), atol=0.1)
    torch.testing.assert_close(rewritten(inputs), other(inputs), rtol=1e-5, atol=1e-5)
    for name, buffer in buffers_of(rewritten).items():
        assert torch.equal(buffer, buffers_of(one)[name]), name
    # The planted bug: the other's weights with these statistics are another function.
    copied = with_statistics_of(one, other)
    copied.load_state_dict(other.state_dict() | buffers_of(one))
    assert not torch.allclose(copied(inputs), other(inputs), atol=0.1)


def test_neither_network_is_changed():
    one, other = trained(1), trained(2)
    before = [{k: v.clone() for k, v in each.state_dict().items()} for each in (one, other)]
    with_statistics_of(one, other)
    for each, state in zip((one, other), before, strict=True):
        assert all(torch.equal(value, state[name]) for name, value in each.state_dict().items())


@pytest.mark.parametrize(
    ("model", "parameters", "expected"),
    [
        (nn.Sequential(nn.Linear(3, 2)), "all", True),
        (Residual(), "all", True),
        (nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)), "last", True),  # is not trained
        (nn.Sequential(nn.BatchNorm1d(3, affine=False), nn.Linear(3, 2)), "all", False),
        (Residual(), "weight", False),  # no shift is sampled
        (nn.BatchNorm1d(3), "all", True),
        (nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2)), "all", True),
    ],
)
def test_which_networks_can_share(model, parameters, expected):
    assert can_share_statistics(model, select_parameters(model, parameters)) is expected
