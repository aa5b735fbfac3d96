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
    assert not found["mapped"]


@pytest.mark.slow
def test_forty_particles_stay_within_the_limit_with_those_that_have_ended_on_disk():
    found = measure_large_network(islands=4, dtype="bfloat16")
    assert found["particles"] == 40
    # 1.6 GB as they were sampled, and 0.8 GB as stored.
    assert found["mapped"]
    assert found["sampling"] <= found["prediction"] < LIMIT
    assert found["sampling"] < found["expected"] < LIMIT
