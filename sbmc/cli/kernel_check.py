"""Whether compiled code runs here: it is loaded, and a small network is evaluated with it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from sbmc.checks import BadInput
from sbmc.model.kernels.choice import COMPILED
from sbmc.model.kernels.native import build, chain, shipped
from sbmc.model.kernels.native.libraries import LIBRARIES
from sbmc.target.builder import build_target

# Relative to the largest number; float32 has seven digits.
TOLERANCE = 1e-5


class KernelCheck(NamedTuple):
    """What there is of compiled code, and whether it runs.

    Attributes:
        lines: what to show, by name.
        fault: why it does not run, in words; empty if it does, or if `SBMC_NATIVE=0` turns it off.
    """

    lines: dict[str, str]
    fault: str


def check_kernel() -> KernelCheck:
    """Load all compiled code, and compare what a small network gives with torch."""
    if shipped.wanted() == shipped.OFF:
        kernel, fault = f"none, since {shipped.VARIABLE}={shipped.OFF}: torch does the work", ""
        lines = {"kernel": kernel}
    else:
        lines, fault = _loaded()
    lines["shipped"] = ", ".join(shipped.shipped_sets()) or "none"
    lines["compiler"] = _compiler()
    lines["cache"] = _cache()
    return KernelCheck(lines, fault)


def _loaded() -> tuple[dict[str, str], str]:
    failed = {}
    for name, (source, functions) in LIBRARIES.items():
        try:
            build.load(source, functions)
        except (build.NoLibrary, BadInput) as error:
            failed[name] = str(error)
    count = f"{len(LIBRARIES) - len(failed)} of {len(LIBRARIES)}"
    if failed:
        reason = next(iter(failed.values()))
        lines = {"kernel": f"none, torch does the work ({reason})"}
        if len(failed) < len(LIBRARIES):
            lines = {"kernel": f"{count} parts; {', '.join(failed)} by torch ({reason})"}
        return lines, reason
    lines = {"kernel": str(build.code_of(chain.SOURCE.stem)), "parts": f"{count} loaded"}
    try:
        difference = difference_from_torch()
    except BadInput as error:
        return {**lines, "runs": f"no ({error})"}, str(error)
    lines["runs"] = f"{'yes' if difference <= TOLERANCE else 'no'}, {difference:.0e} from torch"
    wrong = f"its numbers differ from those of torch by {difference:.0e}"
    return lines, "" if difference <= TOLERANCE else wrong


def difference_from_torch() -> float:
    """How far value and gradient of a small network are from torch in float64, relatively.

    Raises:
        BadInput: the compiled code does not take the network.
    """
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(100, 6, generator=generator)
    labels = torch.randint(3, (100,), generator=generator)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
    ours = build_target(net, (inputs, labels), prior_variance=1.0)
    theirs = build_target(net, (inputs, labels), prior_variance=1.0, dtype=torch.float64)
    if ours.engine.kernel not in COMPILED:
        raise BadInput(f"a small network is not evaluated by it: {ours.engine.kernel_reason}")
    positions = torch.randn(4, ours.dim, generator=generator)
    pairs = zip(ours(positions), theirs(positions.double()), strict=True)
    return max(float((a.double() - b).abs().max() / b.abs().max()) for a, b in pairs)


def _compiler() -> str:
    commands = build._compilers()
    if not commands:
        return "none; gcc, clang or what CC names would be used"
    try:
        lines = build._run([*commands[0], "--version"]).decode(errors="replace").splitlines()
    except (build.NoLibrary, OSError) as error:
        return f"{' '.join(commands[0])} ({error})"
    return f"{' '.join(commands[0])} ({lines[0] if lines else 'no version'})"


def _cache() -> str:
    try:
        folder = build.cache_folder()
    except RuntimeError as error:
        return f"none ({error})"
    if not folder.is_dir():
        return f"{folder} (not there)"
    fault = build.why_unsafe(folder)
    count = len(list(folder.glob("*.so")))
    return f"{folder} ({f'not used, since {fault}' if fault else f'{count} libraries'})"
