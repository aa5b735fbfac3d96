"""Peak memory of one evaluation, each measured in a process of its own.

`python -m benchmarks.memory WORKLOAD WAY PARTICLES EXAMPLES THREADS QUICK` is the process: it
makes the data, notes the peak so far, evaluates once, and prints by how many bytes the peak rose.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.peers.protocol import peak_bytes

ROOT = Path(__file__).parents[1]


def measure_peak(
    workload: str, way: str, particles: int, examples: int, *, threads: int, quick: bool
) -> int:
    """Bytes that one evaluation takes beyond data, modules and parameters.

    Args:
        workload: its name.
        way: `fused`, `vmap`, `loop` or `plain loop`.
        particles: how many are evaluated.
        examples: how many there are.
        threads: torch's.
        quick: tiny sizes.

    Returns:
        The rise of the process's peak memory.
    """
    words = [workload, way, particles, examples, threads, int(quick)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def _measure_here(
    workload: str, way: str, particles: int, examples: int, threads: int, quick: bool
) -> int:
    import torch

    from benchmarks.workloads import build_way, draw_positions, get_workload, make_examples

    torch.set_num_threads(threads)
    chosen = get_workload(workload, quick)
    # The same computation on two examples first: libraries that torch loads at first use are no
    # memory of the engine's.
    few = build_way(chosen, make_examples(chosen, 2), way)
    few(draw_positions(few, 1))
    data = make_examples(chosen, examples)
    before = peak_bytes()
    target = build_way(chosen, data, way)
    target(draw_positions(target, particles))
    return peak_bytes() - before


if __name__ == "__main__":
    name, way, *numbers = sys.argv[1:]
    n, count, threads, quick = map(int, numbers)
    print(_measure_here(name, way, n, count, threads, bool(quick)))
