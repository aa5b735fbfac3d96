"""`sbmc tune`: v, then s, by cross-validation, in two tables and a command to run next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table

from sbmc.checks import require
from sbmc.cli.interruption import explain_interruption
from sbmc.cli.options import Text, read_count, read_numbers
from sbmc.cli.tables import print_wide
from sbmc.fitting.forecast import format_seconds
from sbmc.tuning.grid import s_grid, v_grid
from sbmc.tuning.result import Point, Tuning, within_error
from sbmc.tuning.saved_cells import NAME
from sbmc.tuning.search import EXTENSIONS
from sbmc_studies.tuning.experiment import Plan, expect_tuning, plan_tuning, run_tuning

_HEADINGS = {"nll": "NLL", "accuracy": "accuracy %", "ece": "ECE", "rmse": "RMSE"}


def parse_plan(
    *,
    experiment: str,
    v: Text,
    s: Text,
    folds: Text,
    method: Text,
    preset: Text,
    settings: Mapping[str, str],
    seed: Text,
    examples: Text,
    extend: bool,
) -> Plan:
    """Read the options of `sbmc tune`.

    Args:
        experiment: the experiment's name.
        v: prior variances to try, with commas between them.
        s: scales to try.
        folds: how many.
        method: whose s is chosen.
        preset: the preset's name, or None for the experiment's default.
        settings: settings that differ from the preset's.
        seed: of everything random.
        examples: how many of the training examples to use.
        extend: whether values of v may be added to the grid.

    Returns:
        What is to be tuned.

    Raises:
        BadInput: if any of it is refused.
    """
    return plan_tuning(
        experiment,
        method=method or "",
        preset=preset,
        overrides=settings,
        v=read_numbers("v", v),
        s=read_numbers("s", s),
        folds=read_count("folds", folds, least=2),
        seed=read_count("seed", seed, least=0, most=2**128 - 1),
        examples=None if examples is None else read_count("examples", examples),
        extensions=EXTENSIONS if extend else 0,
    )


def run_tune(
    plan: Plan,
    out: Path,
    *,
    data_dir: Path | None = None,
    dry_run: bool = False,
    quiet: bool = False,
) -> int:
    """Tune, and show the scores.

    Args:
        plan: from `parse_plan`.
        out: folder of the records.
        data_dir: where to look first for data.
        dry_run: say what it would take, and run nothing.
        quiet: show results only.

    Returns:
        The exit code: 0.

    Raises:
        Interruption: after Ctrl-C; the message says how to continue.
    """
    require(not out.is_file(), "out", "a folder", str(out))
    if dry_run:
        _show_forecast(plan, out, data_dir)
        return 0
    with explain_interruption("every score so far is saved. The same command continues."):
        tuning = run_tuning(plan, out, data_dir=data_dir, progress=not quiet)
    show_tuning(tuning, plan)
    print(f"Record: {plan.folder(out) / NAME}")
    return 0


def show_tuning(tuning: Tuning, plan: Plan) -> None:
    """Print both tables, what they mean, and the command to run next.

    Args:
        tuning: complete.
        plan: what it was made from.
    """
    name, count = plan.experiment.name, f"{tuning.folds} folds"
    first = f"{name}: MAP, held-out scores, mean ± standard error over {count}"
    print_wide(_table(first, "v", tuning.v_points, tuning.v))
    for line in (*_edge(tuning), *_unfinished(tuning)):
        print(line)
    print(_range("v", within_error(tuning.v_points)))
    second = f"{name}: {plan.method.label} at v = {tuning.v:g}"
    print_wide(_table(second, "s", tuning.s_points, tuning.s))
    print(_range("s", within_error(tuning.s_points)))
    sampled = tuning.sampled_s
    if sampled > tuning.s:
        print("s = 0 is the MAP, which has no epistemic uncertainty: the best s above it is named.")
    print(f"Chosen: v = {tuning.v:g}, s = {sampled:g}. Run next:")
    print(f"  {plan.command(tuning.v, sampled)}")


def _table(title: str, symbol: str, points: Sequence[Point], chosen: float) -> Table:
    near = set(within_error(points))
    table = Table(title=title, title_justify="left", pad_edge=False)
    table.add_column(symbol, justify="right")
    names = next((list(point.means) for point in points if point.means), [])
    for name in names:
        table.add_column(_HEADINGS.get(name, name), justify="right")
    table.add_column("epochs", justify="right")
    table.add_column("")
    for point in points:
        mark = "best" if point.value == chosen else "within 1 s.e."
        mark = mark if point.value in near else ""
        if point.failed:
            mark = f"failed on {point.failed} of {point.folds} folds"
        cells = [_cell(point, name) for name in names]
        table.add_row(f"{point.value:g}", *cells, f"{point.epochs:.0f}", mark)
    return table


def _cell(point: Point, name: str) -> str:
    if name not in point.means:
        return "-"
    unit, digits = (100, 2) if name == "accuracy" else (1, 4)
    return f"{unit * point.means[name]:.{digits}f}±{unit * point.errors[name]:.{digits}f}"


def _edge(tuning: Tuning) -> list[str]:
    lines = []
    if tuning.extended:
        added = ", ".join(f"{value:g}" for value in tuning.extended)
        lines.append(f"The best v lay at the edge of the grid, so these were added: {added}.")
    values = [point.value for point in tuning.v_points]
    if len(values) > 1 and tuning.v in (values[0], values[-1]):
        side = "upper" if tuning.v == values[-1] else "lower"
        lines.append(f"The best v is still the {side} end: give more values with --v.")
    return lines


def _unfinished(tuning: Tuning) -> list[str]:
    most = tuning.settings["max_epochs"]
    values = [f"{point.value:g}" for point in tuning.v_points if point.epochs == most]
    if not values:
        return []
    return [f"At v = {', '.join(values)} training ran into its limit of {most} epochs."]


def _range(symbol: str, values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"Within one standard error of the smallest NLL: {symbol} = {values[0]:g} alone."
    listed = ", ".join(f"{value:g}" for value in values)
    return f"Within one standard error of the smallest NLL: {symbol} = {listed}."


def _show_forecast(plan: Plan, out: Path, data_dir: Path | None) -> None:
    training, sampling = expect_tuning(plan, data_dir)
    networks = len(v_grid(plan.v)) * plan.folds
    fits = sum(s > 0 for s in s_grid(plan.s)) * plan.folds
    most = plan.settings["max_epochs"]
    print(
        f"{plan.experiment.name}: {networks} networks of at most {most} epochs, "
        f"about {format_seconds(training.seconds)} or less; more if the grid of v grows."
    )
    print(
        f"Then {fits} fits of {plan.method.label}, {sampling.epochs:,.0f} epochs a chain, "
        f"about {format_seconds(fits * sampling.seconds)}."
    )
    print(f"Record: {plan.folder(out)}")
