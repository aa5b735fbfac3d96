"""BlackJAX's HMC with convolutions rewritten by hand as products with prepared patches.

XLA's convolutions on a CPU are many times slower inside a loop, such as the sampler's own, than
outside; products are not. sbmc prepares patches by itself, from a network as its user wrote it.
"""

from __future__ import annotations

from benchmarks.peers.blackjax_hmc import BlackJaxHMC
from benchmarks.peers.protocol import serve


class BlackJaxPatches(BlackJaxHMC):
    """The same sampler on another model."""

    by_hand = True


if __name__ == "__main__":
    serve(BlackJaxPatches)
