"""Other threads, forked children: what `fit` and `predict` must not touch, and must survive."""

from __future__ import annotations

import copy
import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import forked
import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn

import sbmc
from sbmc.model.forward import build_forward
from sbmc.model.parameters import ParameterSpace, select_parameters
from sbmc.model.recorder import record
from sbmc.model.threads import Lock

# Runs as short as these are no posteriors, and may be told so.
pytestmark = pytest.mark.filterwarnings("ignore:The posterior is not ok")

DATA = torch.linspace(-1, 1, 60).view(20, 3), torch.arange(20) % 2


def make_net():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


class Branches(nn.Module):
    """Calls, functions, parameters and buffers used directly, a constant, shapes."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.body = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.ones(4))
        self.constant = torch.zeros(4)

    def forward(self, x):
        hidden = F.relu(self.first(x))
        hidden = hidden + self.body(hidden) * self.scale + self.shift + self.constant
        return hidden.view(x.shape[0], -1) + F.linear(x, self.first.weight)


class MakesALayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return nn.ReLU()(self.layer(x))


@fx.wrap
def doubled(x):
    return 2 * x


class CallsAWrappedFunction(MakesALayer):
    def forward(self, x):
        return doubled(self.layer(x))


class KeepsAListOfSubclasses(MakesALayer):
    known: list = []  # noqa: RUF012 (that it is shared is the point)

    def __init_subclass__(cls, *, name):
        cls.known.append(name)


class Named(KeepsAListOfSubclasses, name="named"):
    def forward(self, x):
        return self.layer(x)


@pytest.mark.parametrize("make", [make_net, Branches, MakesALayer, CallsAWrappedFunction, Named])
def test_what_is_recorded_is_what_the_module_does(make):
    net = make().double()
    space = select_parameters(net)
    inputs = DATA[0].double()
    forward = build_forward(net, space, inputs)
    assert forward.path == "fused"
    found = forward(space.flatten(net).repeat(2, 1), inputs)
    torch.testing.assert_close(found, net(inputs).expand(2, -1, -1))
    assert [type(part) for part in net.modules()] == [type(part) for part in make().modules()]
    assert KeepsAListOfSubclasses.known == ["named"]


def test_a_module_of_another_thread_is_not_recorded():
    unrelated, errors, inside, called = nn.Linear(2, 2), [], threading.Event(), threading.Event()

    class Slow(nn.Module):
        def forward(self, x):
            inside.set()
            assert called.wait(60)
            return x * 2

    def call():
        assert inside.wait(60)
        try:
            assert isinstance(unrelated(torch.ones(1, 2)), torch.Tensor)
            assert isinstance(unrelated.weight, nn.Parameter)
            # A compiled function asks for this, and refuses to run if it is true.
            assert not torch.fx._symbolic_trace._is_fx_tracing_flag
            assert torch.is_grad_enabled()
            assert not torch.is_inference_mode_enabled()
        except BaseException as error:
            errors.append(error)
        finally:
            called.set()

    other = threading.Thread(target=call)
    other.start()
    recording = record(Slow(), ParameterSpace((), ()), torch.ones(2, 2))
    other.join()
    assert errors == []
    assert [operation.name for operation in recording.operations] == ["aten.mul.Tensor"]


def test_fits_in_four_threads_give_what_they_give_alone():
    net = make_net()

    def run(seed):
        sampler = sbmc.HMC(steps=2)
        fitted = sbmc.fit(net, DATA, sampler=sampler, particles=2, seed=seed, progress=False)
        return fitted.positions, fitted.settings["path"]

    alone = [run(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(run, list(range(4)) * 4))
    assert {path for _, path in together} == {"fused"}
    for index, (positions, _) in enumerate(together):
        assert torch.equal(positions, alone[index % 4][0])


class Pauses(nn.Module):
    """Lets other threads in, in the middle of a model. No path but the loop can evaluate it."""

    def forward(self, x):
        time.sleep(0.001)
        return x if x.sum().item() > -1e9 else -x


def make_pausing_net():
    return nn.Sequential(Pauses(), nn.Linear(3, 4), nn.Tanh(), Pauses(), nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("make", "parameters"),
    [(make_net, "all"), (make_pausing_net, "all"), (make_pausing_net, "last")],
)
def test_the_first_prediction_may_come_from_several_threads(make, parameters):
    sampler = sbmc.HMC(steps=3, step_size=0.3)
    options = {"sampler": sampler, "particles": 5, "progress": False, "parameters": parameters}
    fitted = sbmc.fit(make(), DATA, s=0.9, **options)
    inputs = [DATA[0] + shift for shift in range(4)]
    expected = [pickle.loads(pickle.dumps(fitted)).predict(each).probs for each in inputs]
    ready = threading.Barrier(4)

    def predict(index):
        ready.wait(60)
        return [fitted.predict(inputs[index]).probs for _ in range(2)]

    with ThreadPoolExecutor(4) as pool:
        for index, made in enumerate(pool.map(predict, range(4))):
            assert all(torch.equal(each, expected[index]) for each in made)


def test_a_lock_is_copied_as_one_of_its_own():
    lock = Lock()
    free = threading.Event()
    with lock:
        for other in (copy.deepcopy(lock), pickle.loads(pickle.dumps(lock))):
            thread = threading.Thread(target=lambda other=other: (other.__enter__(), free.set()))
            thread.start()
            assert free.wait(60)
            free.clear()


FORKED = """
import os, signal, sys, threading, warnings
import torch
from torch import nn
import sbmc
from sbmc.model.threads import Lock

warnings.simplefilter("ignore")  # newer Pythons warn of a fork beside threads
signal.alarm(50)  # a child that hangs is ended by this, and so is its parent
torch.set_num_threads(2)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 30), nn.Tanh(), nn.Linear(30, 2))
data = torch.randn(300, 3), torch.randint(2, (300,))
lock = Lock()


def run(threads=None):
    compute = sbmc.Compute(executor=sbmc.InProcess(threads=threads), chunk_size=100)
    options = {"particles": 4, "progress": False, "compute": compute}
    fitted = sbmc.fit(net, data, sampler=sbmc.HMC(steps=2), **options)
    fitted.predict(data[0])
    return fitted.positions


expected = run(2)
# Large enough for OpenMP's own threads.
torch.randn(400, 400) @ torch.randn(400, 400)
torch.ones(300_000).sin().sum()
taken = threading.Event()
hold = lambda: (lock.__enter__(), taken.set(), threading.Event().wait())
threading.Thread(target=hold, daemon=True).start()
taken.wait()
child = os.fork()
if child == 0:
    signal.alarm(25)
    with lock:
        again = run(), run(2)
    torch.ones(300_000).sin().sum()
    same = all(torch.equal(each, expected) for each in again)
    os._exit(0 if same and torch.get_num_threads() == 1 else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_of_a_process_with_threads_can_fit_and_predict():
    done = forked.run(["-c", FORKED], env={"SBMC_LOG": "info"})
    assert done.stdout.strip() == "0", done.stderr
    assert "this process was forked" in done.stderr
    assert "2 threads were asked for in a forked child" in done.stderr
