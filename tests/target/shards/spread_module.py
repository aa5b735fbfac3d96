"""A trial: SGHMC on a module that FSDP2 or tensor parallelism has spread over ranks.

    torchrun --nproc-per-node 2 tests/target/shards/spread_module.py fsdp|tensor

One particle a group of ranks. Every rank has the coordinates of the parameters that it holds, takes
gradients from the module's own backward pass and steps them by `sghmc.step`, which needs nothing of
the other coordinates. Noise is drawn for each parameter from a stream of its own and of the part
that is held; copies of one part on several ranks so get the same numbers, or they would drift
apart. Rank 0 makes the same chain with the whole module, and both have to agree.
"""

import sys

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import sbmc
from sbmc.checks import BadInput
from sbmc.samplers import sghmc
from sbmc.target.target import Evaluation

STEPS, BATCH, SCALE = 40, 16, 0.3


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))


def local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def streams(module: nn.Module, rank: int) -> list[int]:
    """The number of the noise of each parameter: its own, and that of the part that is held."""
    numbers = []
    for number, parameter in enumerate(module.parameters()):
        copied = not isinstance(parameter, DTensor) or parameter.placements == (Replicate(),)
        numbers.append(100 * number + (0 if copied else rank))
    return numbers


class Noise:
    """Normal numbers for the coordinates that this rank holds."""

    def __init__(self, numbers: list[int], sizes: list[int]) -> None:
        self._sizes = sizes
        self._generators = [torch.Generator().manual_seed(number) for number in numbers]

    def normal(self, dim: int, dtype: torch.dtype) -> Tensor:
        draws = [
            torch.randn(size, generator=generator, dtype=dtype)
            for size, generator in zip(self._sizes, self._generators, strict=True)
        ]
        return torch.cat(draws).reshape(1, dim)


class Estimate:
    """Log likelihood and gradient on the next mini-batch, in the coordinates of this rank."""

    def __init__(self, module: nn.Module, data: tuple[Tensor, Tensor], ranks: int, rank: int):
        self.module, self.data, self.ranks, self.rank = module, data, ranks, rank
        self.parts = [local(parameter.detach()) for parameter in module.parameters()]
        self.anchor = torch.cat([part.flatten() for part in self.parts]).clone()
        self._order = torch.Generator().manual_seed(7)  # the same batches on every rank

    def __call__(self, positions: Tensor) -> Evaluation:
        theta = (self.anchor + SCALE * positions[0]).split([part.numel() for part in self.parts])
        for part, values in zip(self.parts, theta, strict=True):
            part.copy_(values.view_as(part))
        x, y = self.data
        batch = torch.randperm(len(x), generator=self._order)[:BATCH]
        mine = batch[self.rank :: self.ranks]
        self.module.zero_grad()
        loss = nn.functional.cross_entropy(self.module(x[mine]), y[mine], reduction="sum")
        loss.backward()
        # FSDP2 averages over the ranks what is a sum here.
        scale = -self.ranks * len(x) / BATCH
        gradients = [local(parameter.grad).flatten() for parameter in self.module.parameters()]
        value = loss.detach().double().reshape(1)
        return Evaluation(scale * value, scale * SCALE * torch.cat(gradients).reshape(1, -1))


def chain(estimate: Estimate, noise: Noise) -> Tensor:
    position = torch.zeros(1, len(estimate.anchor))
    state = sghmc.init(noise, position)
    for _ in range(STEPS):
        state, _ = sghmc.step(noise, state, estimate, step_size=0.02, friction=3.0)
    estimate(state.position)  # puts the last position into the module
    return state.position


def spread(way: str, mesh: DeviceMesh) -> nn.Module:
    module = network()
    if way == "fsdp":
        for layer in (module[0], module[2], module):
            fully_shard(layer, mesh=mesh)
        return module
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    return parallelize_module(module, mesh, plan)


def main(way: str) -> None:
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (ranks,))
    torch.manual_seed(1)
    data = torch.randn(96, 6), torch.randint(4, (96,))

    module = spread(way, mesh)
    parts = [local(parameter) for parameter in module.parameters()]
    noise = Noise(streams(module, rank), [part.numel() for part in parts])
    # With tensor parallelism every rank sees the whole batch.
    shares = (ranks, rank) if way == "fsdp" else (1, 0)
    chain(Estimate(module, data, *shares), noise)
    found = [parameter.full_tensor().detach() for parameter in module.parameters()]

    # The same chain with the whole module, whose noise is put together from the parts.
    whole = network()
    numbers, sizes, orders = [], [], []
    for number, parameter in enumerate(module.parameters()):
        (placement,) = parameter.placements
        held = range(ranks) if isinstance(placement, Shard) else [0]
        axis = placement.dim if isinstance(placement, Shard) else 0
        pieces = parameter.shape[axis] // len(held)
        numbers += [100 * number + part for part in held]
        sizes += [parameter.numel() // len(held)] * len(held)
        orders.append((axis, pieces, len(held), parameter.shape))

    class Together(Noise):
        def normal(self, dim: int, dtype: torch.dtype) -> Tensor:
            draws = list(super().normal(dim, dtype)[0].split(self._sizes))
            joined = []
            for axis, pieces, held, shape in orders:
                form = [pieces if i == axis else size for i, size in enumerate(shape)]
                some = [draws.pop(0).reshape(form) for _ in range(held)]
                joined.append(torch.cat(some, axis).flatten())
            return torch.cat(joined).reshape(1, dim)

    chain(Estimate(whole, data, 1, 0), Together(numbers, sizes))
    expected = [parameter.detach() for parameter in whole.parameters()]
    moved = max(
        float((new - old).abs().max())
        for new, old in zip(expected, network().parameters(), strict=True)
    )
    worst = max(float((a - b).abs().max()) for a, b in zip(found, expected, strict=True))
    assert moved > 0.1
    assert worst < 1e-4 * moved, (worst, moved)
    try:
        sbmc.fit(module, data)
    except BadInput as error:
        print(f"rank {rank}, {way}: differs by {worst:.1e}; {error}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
