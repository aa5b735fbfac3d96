"""`python -m benchmarks.health`: the verdict of `fit` on nine networks, and its remedy followed.

Each network of `benchmarks.nine_networks` is trained and handed to `sbmc.fit` with nothing but its
data, or with `--sampler AutoHMC` also with that sampler, which has a record of its own. Where the
verdict is "not ok", the first remedy is taken at its word: the call that it names is made, and the
verdict on that is noted too. The record is written after every run, and a run that is in it is not
made again.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

import sbmc
from benchmarks import options as shared
from benchmarks.nine_networks import NETWORKS, Data, load_digits, train
from benchmarks.tables import line

SEEDS = (0, 1, 2)
QUICK_NETWORKS = ("mlp 1x32",)


def following(remedy: str) -> Any:
    """The sampler that a remedy names.

    Raises:
        ValueError: it names none.
    """
    call = re.search(r"sampler=(sbmc\.\w+\([^)]*\))", remedy)
    if call is None:
        raise ValueError(f"no call in {remedy!r}")
    return eval(call[1], {"sbmc": sbmc})


def measure(name: str, seed: int, sampler: Any = None) -> dict[str, Any]:
    """One network: the verdict on the defaults and, if it is not ok, on the first remedy.

    Args:
        name: of the network.
        seed: of its data, its training and its sampling.
        sampler: the sampler's settings; those of `fit` if not given.
    """
    data = load_digits(seed)
    model = train(name, data, seed)
    default, health = _fit(model, data, seed, sampler)
    row = {"network": name, "seed": seed, "network_nll": _nll(model, data), "default": default}
    if health.ok is False:
        row["remedy"], _ = _fit(model, data, seed, following(health.remedies[0]))
        row["remedy"]["call"] = health.remedies[0]
    return row


def _fit(model: nn.Module, data: Data, seed: int, sampler: Any) -> tuple[dict, sbmc.Health]:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sbmc.HealthWarning)
        posterior = sbmc.fit(model, data.train, sampler=sampler, seed=seed, progress=False)
    seconds = time.perf_counter() - began
    prediction = posterior.predict(data.test[0])
    assert isinstance(prediction, sbmc.Prediction)
    chances = prediction.probs.gather(1, data.test[1].unsqueeze(1)).clamp(min=1e-12)
    found = {
        "nll": float(-chances.log().mean()),
        "seconds": seconds,
        "step_size": posterior.islands[0].step_size,
        **posterior.health.as_dict(),
    }
    return found, posterior.health


def _nll(model: nn.Module, data: Data) -> float:
    with torch.no_grad():
        return float(nn.functional.cross_entropy(model(data.test[0]), data.test[1]))


def health_table(record: dict[str, Any]) -> str:
    """A row for each network: its seeds, then what the verdict rests on, then the remedy."""
    headings = (
        *("network", "default ok", "moved (median)", "accepted (median)", "moves"),
        *("NLL network → default", "remedy ok", "NLL after remedy"),
    )
    lines = [line(list(headings)), line(["---"] * len(headings))]
    for name in dict.fromkeys(row["network"] for row in record["rows"]):
        rows = [row for row in record["rows"] if row["network"] == name]
        defaults = [row["default"] for row in rows]
        mended = [row["remedy"] for row in rows if "remedy" in row]
        lines.append(
            line(
                [
                    name,
                    f"{sum(each['ok'] for each in defaults)} of {len(rows)}",
                    _list([each["figures"]["displacement"]["median"] for each in defaults]),
                    _list(
                        [(each["figures"]["acceptance"] or {}).get("median") for each in defaults]
                    ),
                    ", ".join(str(each["figures"]["moves"]) for each in defaults),
                    f"{_mean([row['network_nll'] for row in rows]):.3f} → "
                    f"{_mean([each['nll'] for each in defaults]):.3f}",
                    f"{sum(each['ok'] for each in mended)} of {len(mended)}" if mended else "–",
                    f"{_mean([each['nll'] for each in mended]):.3f}" if mended else "–",
                ]
            )
        )
    return "\n".join(lines)


def _list(values: Sequence[float | None]) -> str:
    return ", ".join("–" if value is None else f"{value:.2f}" for value in values)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the record lacks, and print the table; 1 if a remedy did not work."""
    parser = shared.make_parser("health", __doc__)
    parser.add_argument("--networks", default=None, help="names with commas; all if not given")
    parser.add_argument(
        "--sampler", default=None, help="a sampler's name; that of `fit` if not given"
    )
    options = shared.parse(parser, arguments)
    sampler = getattr(sbmc, options.sampler)() if options.sampler else None
    if sampler is not None and options.out == parser.get_default("out"):
        options.out = options.out.with_name(f"health_{options.sampler.lower()}.json")
    names = options.networks.split(",") if options.networks else list(NETWORKS)
    if options.quick:
        names = list(QUICK_NETWORKS)
    if "gpt2" in names and importlib.util.find_spec("transformers") is None:
        names.remove("gpt2")
        print("gpt2 is left out: pip install transformers", file=sys.stderr)
    rows = json.loads(options.out.read_text("utf-8"))["rows"] if options.out.exists() else []
    there = {(row["network"], row["seed"]) for row in rows}
    for name in names:
        for seed in SEEDS[:1] if options.quick else SEEDS:
            if (name, seed) in there:
                continue
            print(f"{name}, seed {seed} ...", file=sys.stderr, flush=True)
            rows.append(measure(name, seed, sampler))
            order = {network: k for k, network in enumerate(NETWORKS)}
            rows.sort(key=lambda row: (order[row["network"]], row["seed"]))
            shared.write_record(options, "health", {"rows": rows})
    print(health_table({"rows": rows}))
    failures = [
        f"{row['network']}, seed {row['seed']}: the remedy did not work: {row['remedy']['reasons']}"
        for row in rows
        if "remedy" in row and row["remedy"]["ok"] is not True
    ]
    return shared.tell_failures(failures)


if __name__ == "__main__":
    sys.exit(main())
