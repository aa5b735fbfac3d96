"""What all tests share."""

import pytest
import torch

# Sizes here are tiny: more threads would cost more than they give.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _same_global_noise():
    """Layers draw their initial weights from torch's global generator: alike in every run."""
    torch.manual_seed(0)
