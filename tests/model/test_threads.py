"""Work side by side: results in order, torch's own threads left as they were, equal bits."""

import threading
from contextlib import contextmanager

import pytest
import torch
from targets import target_of
from torch import nn

from sbmc.likelihoods import Categorical, Custom
from sbmc.model.chunks import Chunks
from sbmc.model.data import Examples
from sbmc.model.forward import build_forward
from sbmc.model.parameters import select_parameters
from sbmc.model.threads import side_by_side
from sbmc.prior.gaussian import anchored_prior


@contextmanager
def torch_threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def test_results_stand_in_the_order_of_the_items():
    with torch_threads(2):
        assert list(side_by_side(lambda x: x * x, range(20))) == [x * x for x in range(20)]


def test_two_items_run_at_the_same_time():
    both = threading.Barrier(2, timeout=60)  # neither gets past it alone
    with torch_threads(2):
        assert sorted(side_by_side(lambda _: both.wait(), [0, 1])) == [0, 1]


def test_a_piece_has_one_thread_and_the_caller_keeps_its_own():
    with torch_threads(2):
        assert list(side_by_side(lambda _: torch.get_num_threads(), [0, 1, 2])) == [1, 1, 1]
        assert torch.get_num_threads() == 2


def test_one_thread_stays_where_it_is():
    with torch_threads(1):
        here = threading.get_ident()
        assert list(side_by_side(lambda _: threading.get_ident(), [0, 1])) == [here, here]


def test_errors_come_through():
    def refuse(item):
        raise ArithmeticError(f"item {item}")

    with torch_threads(2), pytest.raises(ArithmeticError, match="item 0"):
        list(side_by_side(refuse, [0, 1]))


def make_target(likelihood, particles=2):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 36, 3))
    examples = Examples(torch.randn(30, 1, 8, 8), torch.randint(3, (30,)))
    space = select_parameters(net, "all")
    forward = build_forward(net, space, examples.inputs[:2])
    prior = anchored_prior(space.flatten(net), 0.1, torch.ones(space.dim))
    return target_of(forward, examples, likelihood, prior, Chunks(examples=7, particles=particles))


@pytest.mark.parametrize("particles", [2, 100], ids=["particles apart", "examples apart"])
def test_a_target_gives_the_same_bits_on_one_thread_and_on_two(particles):
    target = make_target(Categorical(), particles)
    positions = torch.randn(9, target.dim)
    with torch_threads(1):
        alone, value = target(positions), target.log_likelihood(positions)
    with torch_threads(2):
        together, again = target(positions), target.log_likelihood(positions)
    assert torch.equal(alone.log_likelihood, together.log_likelihood)
    assert torch.equal(alone.gradient, together.gradient)
    assert torch.equal(value, again)
    assert target.evaluations.gradient == target.evaluations.forward == 18


def test_a_likelihood_of_the_users_is_called_by_the_callers_thread_alone():
    callers = set()

    def noting(outputs, targets):
        callers.add(threading.get_ident())
        return outputs.log_softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)

    target = make_target(Custom(noting, classification=True))
    with torch_threads(2):
        target(torch.randn(9, target.dim))
    assert callers == {threading.get_ident()}
