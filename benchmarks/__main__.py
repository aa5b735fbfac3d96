"""`python -m benchmarks`: every benchmark of speed and memory, one after another.

`--peers` names the Python of the environment that has the peers; `make bench` makes one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from benchmarks import engine, folding, methods, minibatch, prediction, speed, styles

PARTS: dict[str, Callable[[Sequence[str]], int]] = {
    "speed": speed.main,
    "minibatch": minibatch.main,
    "styles": styles.main,
    "engine": engine.main,
    "folding": folding.main,
    "prediction": prediction.main,
    "methods": methods.main,
}

WITH_PEERS = ("speed", "minibatch")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them all, whatever one of them finds.

    Returns:
        The exit code: that of the worst.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--peers", help="the Python that has the peers")
    parser.add_argument("--threads", help="torch's threads; its own choice if not given")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args(arguments)
    codes = [0]
    for part in options.parts:
        words = ["--peers", options.peers] if part in WITH_PEERS and options.peers else []
        words += ["--threads", options.threads] if options.threads else []
        print(f"# {part}", file=sys.stderr, flush=True)
        try:
            codes.append(PARTS[part](words))
        except SystemExit as stopped:  # it has said why, for instance that there are no data
            codes.append(int(stopped.code or 0))
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
