"""A network of ten million parameters with ten particles stays within its limit."""

from __future__ import annotations

import pytest

from benchmarks.large_network import LIMIT, measure_large_network


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_ten_million_parameters_and_ten_particles_take_less_than_four_gibibytes(dtype):
    found = measure_large_network(dtype=dtype)
    assert found["parameters"] > 10**7
    assert found["particles"] == 10
    # All particles together would take twenty vectors each, about 8 GB.
    assert found["sampling"] <= found["prediction"] < LIMIT
    assert found["sampling"] < found["expected"] < LIMIT
