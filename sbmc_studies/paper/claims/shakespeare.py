"""What the paper says of next-token prediction, as checks on records. See `claim`."""

from __future__ import annotations

from sbmc_studies.paper.claims.checks import Pick, above_inside, higher, lower
from sbmc_studies.paper.claims.claim import EPISTEMIC, Claim

TABLE = "gpt2"
# One seed on all tokens, two on a part of them.
SIZES = {"all": ("all tokens", {}, 1), "part": ("30 % of the tokens", {"fraction": 0.3}, 2)}


def _claims(name: str, size: str, overrides: dict, seeds: int) -> list[Claim]:
    anchor, ours = (Pick(kind, 1, overrides, seeds) for kind in ("map", "s-hmc"))
    return [
        Claim(
            f"{name}-accuracy",
            f"{size}: S-HMC∥ is more accurate than MAP",
            higher("accuracy", ours, anchor),
            TABLE,
        ),
        Claim(
            f"{name}-nll",
            f"{size}: S-HMC∥ has a lower NLL than MAP",
            lower("nll", ours, anchor),
            TABLE,
        ),
        Claim(
            f"{name}-mistakes",
            f"{size}: the H_ep of S-HMC∥ is larger where it is wrong",
            above_inside(ours, f"{EPISTEMIC}.incorrect", f"{EPISTEMIC}.correct"),
            TABLE,
        ),
    ]


CLAIMS: tuple[Claim, ...] = tuple(
    claim for name, of in SIZES.items() for claim in _claims(name, *of)
)
"""What the paper says, each with its table."""

SHORTFALLS: dict[str, str] = {}
"""Claims that the committed records do not bear out, and why. Tests hold it to the records."""
