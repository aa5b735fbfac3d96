"""`make architecture`: a drawing of the rooms, made from the imports in the code.

An arrow goes from a room to one that it imports from; arrows that follow from others are left out.
With `--count` it prints the figures of docs/design.md instead: entries, files, lines and late
imports by package, and the files that a call of `fit` runs through on its way to the kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from test_layout import IMPORTS, MODULES, ORDER  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "architecture.svg"
WIDTH, BOX_WIDTH, BOX_HEIGHT, ROW = 1000, 100, 34, 70
# Three boxes of the studies have to fit side by side.
STUDIES_FROM = 640
# What every room uses: drawn as one band at the bottom, without arrows.
GROUND = ("sbmc.checks", "sbmc.log", "sbmc.progress", "sbmc.randomness", "sbmc.storage")
COLOURS = {
    "sbmc": ("#e8f0fb", "#2f5fa8"),
    "sbmc_serve": ("#e6f5ec", "#2f7d51"),
    "sbmc_studies": ("#fdf1e2", "#a8662f"),
}
# A package of one room.
SERVER = "sbmc_serve"


def room_of(module: str) -> str:
    """The room or top-level file that a module is in."""
    return SERVER if module.startswith(SERVER) else ".".join(module.split(".")[:2])


def room_edges() -> dict[str, set[str]]:
    """Which rooms each room imports from; what only methods import when called is left out."""
    edges: dict[str, set[str]] = {}
    for module in MODULES:
        if "." in module and not module.endswith("__main__") and room_of(module) not in GROUND:
            edges.setdefault(room_of(module), set())
    for each in IMPORTS:
        above, below = room_of(each.module), room_of(each.imported)
        if each.late:
            continue
        if above in edges and below in edges and above != below:
            edges[above].add(below)
    return edges


def levels(edges: dict[str, set[str]]) -> dict[str, int]:
    """How many rooms lie below each one on the longest way down."""
    found: dict[str, int] = {}
    for room in sorted(edges, key=lambda room: _rank(room)):
        found[room] = max((found[below] + 1 for below in edges[room] if below in found), default=0)
    return found


def _rank(room: str) -> int:
    fits = [i for i, name in enumerate(ORDER) if name == room or name.startswith(room + ".")]
    return max(fits)


def reduced(edges: dict[str, set[str]]) -> dict[str, set[str]]:
    """The edges that do not follow from others."""

    def reachable(room: str) -> set[str]:
        found: set[str] = set()
        stack = list(edges[room])
        while stack:
            below = stack.pop()
            if below not in found:
                found.add(below)
                stack += edges[below]
        return found

    return {
        room: {
            below
            for below in below_it
            if not any(below in reachable(other) for other in below_it if other != below)
        }
        for room, below_it in edges.items()
    }


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def draw() -> str:
    """The picture: what is lowest stands at the bottom, the studies on top."""
    edges = room_edges()
    level = levels(edges)
    rows: dict[int, list[str]] = {k: [] for k in range(max(level.values()) + 1)}
    for room in sorted(level, key=_rank):
        rows[level[room]].append(room)
    height = ROW * (max(rows) + 2) + 20
    centre = {}
    # The library on the left, the studies on the right.
    columns = ((("sbmc.", SERVER), 0, STUDIES_FROM), (("sbmc_studies.",), STUDIES_FROM, WIDTH))
    for k, rooms in rows.items():
        for packages, left, right in columns:
            inside = [room for room in rooms if room.startswith(packages)]
            # A room stands near what it imports from, as far as there is space.
            inside.sort(key=lambda room: _mean(centre[b][0] for b in edges[room] if b in centre))
            gap = (right - left) / max(1, len(inside))
            for i, room in enumerate(inside):
                centre[room] = (left + gap * (i + 0.5), height - 20 - ROW * (k + 1))
    for i, room in enumerate(GROUND):
        centre[room] = (WIDTH / len(GROUND) * (i + 0.5), height - 20)
    parts = []
    for room, below_it in reduced(edges).items():
        for below in sorted(below_it):
            (x1, y1), (x2, y2) = centre[room], centre[below]
            top, bottom = y1 + BOX_HEIGHT / 2, y2 - BOX_HEIGHT / 2
            middle = (top + bottom) / 2
            parts.append(
                f'<path d="M{x1:.0f} {top:.0f} C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} '
                f'{x2:.0f} {bottom:.0f}" fill="none" stroke="#9aa4b2" marker-end="url(#tip)"/>'
            )
    for room, (x, y) in centre.items():
        package, _, name = room.partition(".")
        fill, line = COLOURS[package]
        name = name or package
        parts.append(
            f'<rect x="{x - BOX_WIDTH / 2:.0f}" y="{y - BOX_HEIGHT / 2:.0f}" width="{BOX_WIDTH}" '
            f'height="{BOX_HEIGHT}" rx="6" fill="{fill}" stroke="{line}"/>'
            f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle">{escape(name)}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height + 10}" '
        f'font-family="sans-serif" font-size="14" role="img">'
        "<title>The rooms of sbmc (blue), sbmc_serve (green) and sbmc_studies (orange), and what "
        "imports what</title>"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#9aa4b2"/></marker></defs>'
        f'<rect width="{WIDTH}" height="{height + 10}" fill="white"/>{"".join(parts)}</svg>\n'
    )


def files_from_fit_to_kernel() -> int:
    """How many files of the library run between a call of `fit` and its first evaluation."""
    import torch
    from torch import nn

    import sbmc

    data = torch.randn(40, 3), torch.randint(2, (40,))
    options = {"sampler": sbmc.HMC(steps=8), "particles": 4, "progress": False}
    sbmc.fit(nn.Linear(3, 2), data, **options)  # everything is imported once
    seen: set[str] = set()

    def watch(frame, event, argument):
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(ROOT / "sbmc")):
            seen.add(file)

    sys.setprofile(watch)
    try:
        sbmc.fit(nn.Linear(3, 2), data, **options)
    finally:
        sys.setprofile(None)
    return len(seen)


def counts() -> str:
    """The figures as lines."""
    lines = []
    for package in ("sbmc", "sbmc_serve", "sbmc_studies"):
        files = [path for name, path in MODULES.items() if name.split(".")[0] == package]
        total = sum(len(path.read_text("utf-8").splitlines()) for path in files)
        entries = [each for each in (ROOT / package).iterdir() if each.name != "__pycache__"]
        late = sum(each.late for each in IMPORTS if each.module.split(".")[0] == package)
        lines.append(
            f"{package}: {len(entries)} entries, {len(files)} files, {total:,} lines, "
            f"{late} late internal imports"
        )
    lines.append(f"files that run in a call of fit: {files_from_fit_to_kernel()}")
    return "\n".join(lines)


if __name__ == "__main__":
    if "--count" in sys.argv:
        print(counts())
    else:
        PICTURE.write_text(draw(), "utf-8")
        print(PICTURE.relative_to(ROOT))
