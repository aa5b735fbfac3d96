"""What the paper says on IMDb, as checks on records. See `claim`."""

from __future__ import annotations

from sbmc_studies.paper.claims.checks import (
    Pick,
    every,
    higher,
    increasing,
    lower,
    orderings,
    spread,
)
from sbmc_studies.paper.claims.claim import Claim

WIDE = {"prior_variance": 1.0}
HMC_STEPS, SMC_MOVES = {"steps": 26}, {"mutations": 2}


def _hmc(s: float, islands: int = 8) -> Pick:
    return Pick("s-hmc", islands, {**WIDE, "s": s, **HMC_STEPS})


def _smc(s: float, islands: int = 8) -> Pick:
    return Pick("s-smc", islands, {**WIDE, "s": s, **SMC_MOVES})


NARROW = {
    "map": Pick("map"),
    "de": Pick("de"),
    **{f"{kind}-{p}": Pick(kind, p) for kind in ("s-hmc", "s-smc") for p in (1, 8)},
}
WIDE_PICKS = {
    "map": Pick("map", overrides=WIDE),
    "de": Pick("de", overrides=WIDE),
    **{f"s-hmc-{p}": _hmc(0.35, p) for p in (1, 8)},
    **{f"s-smc-{p}": _smc(0.35, p) for p in (1, 8)},
}
GOLD = Pick("hmc", 1, {"particles": 5, "steps": 8000, "draws": 100, "thinning": 40}, seeds=1)
S = (0.1, 0.25, 0.35)


def _improves(name: str, label: str, narrow: Pick, wide: Pick) -> Claim:
    return Claim(
        f"v-{name}",
        f"{label}: v = 1 instead of 1/40 gives a higher accuracy and a lower NLL",
        every(higher("accuracy", wide, narrow), lower("nll", wide, narrow)),
        "imdb_v0025_s_ablation and imdb_v1_s_ablation",
    )


CLAIMS: tuple[Claim, ...] = (
    *orderings("narrow", "imdb_v0025_s_ablation", "v = 1/40, s = 0.1", NARROW),
    *orderings("wide", "imdb_v1_s_ablation", "v = 1, s = 0.35", WIDE_PICKS),
    _improves("map", "MAP", NARROW["map"], WIDE_PICKS["map"]),
    _improves("s-hmc", "S-HMC∥, s = 0.1, P = 8", NARROW["s-hmc-8"], _hmc(0.1)),
    _improves("s-smc", "S-SMC∥ (equal weights), s = 0.1, P = 8", NARROW["s-smc-8"], _smc(0.1)),
    *(
        claim
        for kind, label, pick in (
            ("s-hmc", "S-HMC∥", _hmc(0.1)),
            ("s-smc", "S-SMC∥ (equal weights)", _smc(0.1)),
        )
        for claim in (
            Claim(
                f"wide-s0.1-{kind}-accuracy",
                f"v = 1, s = 0.1: {label}, P = 8, is no less accurate than MAP",
                higher("accuracy", pick, WIDE_PICKS["map"], equal=True),
                "imdb_v1_s_ablation",
            ),
            Claim(
                f"wide-s0.1-{kind}-nll",
                f"v = 1, s = 0.1: {label}, P = 8, has a lower NLL than MAP",
                lower("nll", pick, WIDE_PICKS["map"]),
                "imdb_v1_s_ablation",
            ),
        )
    ),
    Claim(
        "s-insensitive",
        "v = 1: between s = 0.1 and s = 0.35 S-HMC∥ (P = 8) differs by at most half a point of "
        "accuracy and 3 % of NLL",
        every(
            spread("accuracy", [_hmc(s) for s in S], 0.005),
            spread("nll", [_hmc(s) for s in S], 0.03, relative=True),
        ),
        "imdb_v1_s_ablation",
    ),
    Claim(
        "s-entropy",
        "v = 1: the H_ep of S-HMC∥ (P = 8) out of domain grows with s",
        increasing("groups", [_hmc(s) for s in S]),
        "imdb_v1_s_ablation",
    ),
    Claim(
        "hmc-fails",
        "HMC∥ on the full posterior, 25 epochs, is less accurate than MAP",
        lower("accuracy", Pick("hmc"), NARROW["map"]),
        "the first figure, which has no numbers",
    ),
    Claim(
        "smc-fails",
        "SMC∥ on the full posterior is less accurate than MAP",
        lower("accuracy", Pick("smc"), NARROW["map"]),
        "the first figure, which has no numbers",
    ),
    Claim(
        "gold",
        "HMC on the full posterior for 8,000 epochs is no less accurate than MAP",
        higher("accuracy", GOLD, NARROW["map"], equal=True),
        "the first figure, which has no numbers",
    ),
)
"""What the paper says, each with its table."""

_TRAINED_LONGER = (
    "our MAP was trained for about 200 epochs, the paper's for 52, which perhaps left its samplers "
    "more to gain"
)
_TOO_WIDE = {
    "s-hmc": (
        "26 single steps from the anchored prior leave the chains wider than their target at "
        "s = 0.35: on validation reviews (one run) H_ep is 0.018 and the NLL 0.327 after 26 steps, "
        f"0.008 and 0.324 after 300; {_TRAINED_LONGER}"
    ),
    "s-smc": (
        "ten particles with two moves a temperature collapse to few ancestors, so each island is "
        "off its target by its own error, of which the average over eight keeps a part (the NLL "
        f"of one island is 0.013 higher still); {_TRAINED_LONGER}"
    ),
}
_NEXT_TO_NOTHING = (
    "by less than a tenth of a point and 0.0005 of NLL: with s = 0.1 the posterior is close to its "
    "anchor, and what keeps it from gaining is the same as at s = 0.35"
)
SHORTFALLS: dict[str, str] = {
    f"{setting}-{kind}-{metric}": why
    for kind, wide in _TOO_WIDE.items()
    for setting, why in (("wide", wide), ("wide-s0.1", _NEXT_TO_NOTHING))
    for metric in ("accuracy", "nll")
}
"""Claims that the committed records do not bear out, and why. Tests hold it to the records."""
