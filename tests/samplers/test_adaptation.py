import math

import pytest

from sbmc.samplers import HMC, MALA, PCN
from sbmc.samplers.adaptation import SEARCH_ACCEPTANCE, SEARCH_PROBES, StepSearch, adapted


class TestRule:
    @pytest.mark.parametrize("kernel", [HMC, MALA, PCN])
    def test_leaves_the_band_alone_and_scales_outside_it(self, kernel):
        settings = kernel(acceptance_band=(0.3, 0.6), shrink=0.5, grow=1.25)
        expected = {0.0: 0.1, 0.29: 0.1, 0.3: 0.2, 0.45: 0.2, 0.6: 0.2, 0.61: 0.25, 1.0: 0.25}
        for acceptance, size in expected.items():
            assert adapted(settings, 0.2, acceptance) == pytest.approx(size, rel=1e-12)

    @pytest.mark.parametrize("kernel", [HMC, MALA, PCN])
    def test_does_nothing_unless_it_is_wanted(self, kernel):
        settings = kernel(step_size=0.2, adapt=False)
        assert [adapted(settings, 0.2, acceptance) for acceptance in (0.0, 0.5, 1.0)] == [0.2] * 3

    def test_the_walk_may_forget_where_it_was(self):
        assert PCN(step_size=1).step_size == 1


def search(limit: float, wanted: float = SEARCH_ACCEPTANCE, largest: float = math.inf):
    """Search where every step up to `limit` is accepted and every longer one rejected."""
    found, tried = StepSearch(aim=wanted, largest=largest), []
    while not found.done and len(tried) < SEARCH_PROBES:
        tried.append(found.trial)
        found.update(1.0 if found.trial <= limit else 0.0)
    return found, tried


class TestSearch:
    @pytest.mark.parametrize("limit", [0.003, 0.07, 0.1, 0.9, 20.0])
    def test_ends_just_below_the_limit(self, limit):
        found, _ = search(limit)
        assert found.done
        assert limit / math.sqrt(2) - 1e-12 <= found.result <= limit

    @pytest.mark.parametrize("limit", [0.003, 0.6, 0.99, 5.0])
    def test_tries_no_step_above_the_largest(self, limit):
        found, tried = search(limit, largest=1.0)
        assert found.done
        assert max(tried) <= 1
        assert found.result <= min(limit, 1.0)
        if limit > 1:
            assert found.result == 1

    def test_the_wanted_acceptance_decides(self):
        found = StepSearch(aim=0.3)
        found.update(0.31)
        assert (found.good, found.bad, found.trial) == (0.1, None, 0.2)
        found.update(0.29)
        assert (found.good, found.bad) == (0.1, 0.2)
        assert found.trial == pytest.approx(math.sqrt(0.02))

    def test_where_nothing_is_accepted_the_result_is_the_next_to_try(self):
        found, tried = search(0.0)
        assert not found.done
        assert found.result == pytest.approx(tried[-1] / 2)
