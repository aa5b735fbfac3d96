"""Progress: a live bar on a terminal or in a notebook, plain lines elsewhere, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Protocol, TextIO

from sbmc.checks import require_flag

# A task that ends within so many seconds needs no bar.
PATIENCE = 2.0
# Logs and pipes get at most one line in this many seconds.
LINE_INTERVAL = 5.0
# A notebook draws its bar anew at most once in this many seconds: each drawing is a message.
NOTEBOOK_INTERVAL = 0.2

Clock = Callable[[], float]
Display = Callable[..., Any]


class Bar(Protocol):
    """The display that `open_progress` opens."""

    def update(self, done: float, **fields: object) -> None:
        """Set how much is done in total, and numbers to show beside it."""

    def skip(self, amount: float) -> None:
        """Count so much as done before, so that it does not affect the time left."""

    def close(self) -> None:
        """Close the display."""


@contextmanager
def open_progress(
    progress: bool | None,
    task: str,
    *,
    total: int | None,
    unit: str = "steps",
    before: float | None = None,
    expected: str = "",
) -> Iterator[Bar]:
    """Show the progress of a task.

    The display is closed however the block ends; exceptions, Ctrl-C too, pass through.

    Args:
        progress: None shows a bar on a terminal or in a notebook, once two seconds have passed, and
            nothing elsewhere; True shows it at once, or plain lines on standard error where that is
            no terminal; False shows nothing.
        task: what is being done.
        total: how much there is to do; None if nobody knows.
        unit: what is counted.
        before: how much of it was done by an earlier run that this one continues. If it is given,
            the time left is shown, by the rate since the first update of this run.
        expected: a forecast of memory as text, for the first line.

    Yields:
        The display; call `update(done, **fields)`.

    Raises:
        BadInput: `progress` is not True, False or None.

    Examples:
        >>> with open_progress(False, "training", total=2, unit="epochs") as bar:
        ...     bar.update(1, loss=0.7)
    """
    require_flag("progress", progress, optional=True)
    bar = _choose(progress, sys.stderr, task, total, unit, before, expected)
    try:
        yield bar
    finally:
        bar.close()


def _choose(
    progress: bool | None,
    stream: TextIO | None,
    task: str,
    total: int | None,
    unit: str,
    before: float | None,
    expected: str = "",
) -> Bar:
    # A program without a console (pythonw) has no standard error at all.
    if progress is False or stream is None:
        return SilentBar()
    delay = 0.0 if progress else PATIENCE
    show = _notebook_display()
    if show is not None:
        return NotebookBar(show, task, total, unit, delay=delay, before=before, expected=expected)
    if stream.isatty():
        return TerminalBar(stream, task, total, unit, delay=delay, before=before, expected=expected)
    if not progress:
        return SilentBar()
    return LinesBar(stream, task, total, unit, before=before, expected=expected)


def _notebook_display() -> Display | None:
    """The function that shows something in a notebook's cell; None if this is no notebook."""
    # A kernel has imported IPython. IPython in a terminal has a shell without one.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display

    return display


def _format(fields: dict[str, object]) -> str:
    shown = []
    for name, value in fields.items():
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        shown.append(f"{name.replace('_', ' ')} {text}")
    return ", ".join(shown)


def _share(done: object, total: int | None) -> str:
    """How much is done, of how much, if that is known."""
    return str(done) if total is None else f"{done}/{total}"


def time_left(total: float | None, done: float, before: float | None, seconds: float) -> str:
    """The time that a task will still take, as text.

    Args:
        total: how much there is to do; None gives no text.
        done: how much of it is done.
        before: how much of that was done before this run began; None gives no text.
        seconds: time since the first update of this run.

    Returns:
        The text; empty as long as there is no rate, and at the end.

    Examples:
        >>> time_left(total=100, done=60, before=50, seconds=45)
        'about 3 min left'
        >>> time_left(total=100, done=50, before=50, seconds=45)
        ''
    """
    if total is None or before is None or seconds < PATIENCE or not before < done < total:
        return ""
    remaining_seconds = seconds * (total - done) / (done - before)
    for limit, unit, name in ((99.5, 1, "s"), (99.5 * 60, 60, "min"), (48 * 3600, 3600, "h")):
        if remaining_seconds < limit:
            return f"about {max(1, round(remaining_seconds / unit))} {name} left"
    return f"about {round(remaining_seconds / 86400)} days left"


class SilentBar:
    """Shows nothing."""

    def update(self, done: float, **fields: object) -> None:
        """Do nothing."""

    def skip(self, amount: float) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class LinesBar:
    """Plain lines: one at the start, one now and then, one at the end.

    Args:
        stream: where to write.
        task: what is being done.
        total: how much there is to do.
        unit: what is counted.
        clock: returns seconds; tests replace it.
        before: see `open_progress`.
        expected: likewise.
    """

    def __init__(
        self,
        stream: TextIO,
        task: str,
        total: int | None,
        unit: str,
        clock: Clock = time.monotonic,
        before: float | None = None,
        expected: str = "",
    ) -> None:
        self._stream, self._task, self._total, self._unit = stream, task, total, unit
        self._clock, self._before = clock, before
        self._start = self._last = clock()
        self._first: float | None = None
        self._done, self._fields = before or 0, ""
        done = f", {before} of them done before" if before else ""
        self._write(f"{task}: {total} {unit} to do{done}" + (f"; {expected}" if expected else ""))

    def update(self, done: float, **fields: object) -> None:
        """Store the state, and write it if the last line is old enough."""
        self._done, self._fields = done, _format(fields)
        now = self._clock()
        # Workers take a while to start, which is not part of their rate.
        self._first = now if self._first is None else self._first
        if now - self._last >= LINE_INTERVAL:
            self._last = now
            remaining = time_left(self._total, done, self._before, now - self._first)
            self._write(f"{self._state()}, {remaining}" if remaining else self._state())

    def skip(self, amount: float) -> None:
        """Count so much as done before."""
        self._before = (self._before or 0) + amount

    def close(self) -> None:
        """Write the last line."""
        # "ended", not "finished": the block may have raised.
        self._write(f"{self._state()}, ended after {self._clock() - self._start:.1f} s")

    def _state(self) -> str:
        return f"{self._task}: {_share(self._done, self._total)} {self._unit}" + (
            f", {self._fields}" if self._fields else ""
        )

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


class NotebookBar:
    """One bar in the cell of a notebook, which is drawn anew; at its end it becomes one line.

    It is plain HTML in the notebook's own colours, so no extension such as ipywidgets is needed,
    and the line stays in a saved notebook.

    Args:
        show: IPython's `display`.
        task: what is being done.
        total: how much there is to do.
        unit: what is counted.
        delay: seconds to wait before the first drawing.
        clock: returns seconds; tests replace it.
        before: see `open_progress`.
        expected: likewise.
    """

    def __init__(
        self,
        show: Display,
        task: str,
        total: int | None,
        unit: str,
        delay: float,
        clock: Clock = time.monotonic,
        before: float | None = None,
        expected: str = "",
    ) -> None:
        self._show, self._task, self._total, self._unit = show, task, total, unit
        self._before, self._expected = before, expected
        self._clock, self._start, self._delay = clock, clock(), delay
        self._done, self._fields = before or 0, ""
        self._first: float | None = None
        self._drawn: float | None = None
        self._handle: Any = None
        if delay <= 0:
            self._draw(self._start, self._expected)

    def update(self, done: float, **fields: object) -> None:
        """Store the state, and draw it if it is time."""
        now = self._clock()
        self._first = now if self._first is None else self._first
        self._done, self._fields = done, _format(fields)
        waited = now - (self._start if self._drawn is None else self._drawn)
        if waited >= (self._delay if self._drawn is None else NOTEBOOK_INTERVAL):
            remaining = time_left(self._total, done, self._before, now - self._first)
            self._draw(now, ", ".join(words for words in (remaining, self._fields) if words))

    def skip(self, amount: float) -> None:
        """Count so much as done before."""
        self._before = (self._before or 0) + amount

    def close(self) -> None:
        """Leave one line in the place of the bar, if it was shown."""
        if self._drawn is not None:
            text = f"{self._state()}{f', {self._fields}' if self._fields else ''}"
            self._send(f"{text}, ended after {self._clock() - self._start:.1f} s", bar="")

    def _draw(self, now: float, remark: str) -> None:
        self._drawn = now
        known = "" if self._total is None else f' value="{self._done}" max="{self._total}"'
        bar = f"<progress{known}></progress> "
        self._send(self._state() + (f", {remark}" if remark else ""), bar)

    def _state(self) -> str:
        done = f"{self._done:.0f}" if isinstance(self._done, float) else self._done
        return f"{self._task}: {_share(done, self._total)} {self._unit}"

    def _send(self, text: str, bar: str) -> None:
        page = f"<div>{bar}<small>{escape(text)}</small></div>"
        bundle = {"text/html": page, "text/plain": text}
        if self._handle is None:
            self._handle = self._show(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


class TerminalBar:
    """A live bar, drawn by rich, which is imported only when there is something to draw.

    Args:
        stream: a terminal.
        task: what is being done.
        total: how much there is to do.
        unit: what is counted.
        delay: seconds to wait before the first drawing.
        clock: returns seconds; tests replace it.
        before: see `open_progress`.
        expected: likewise.
    """

    def __init__(
        self,
        stream: TextIO,
        task: str,
        total: int | None,
        unit: str,
        delay: float,
        clock: Clock = time.monotonic,
        before: float | None = None,
        expected: str = "",
    ) -> None:
        self._stream, self._task, self._total, self._unit = stream, task, total, unit
        self._before, self._expected = before, expected
        self._clock, self._start, self._delay = clock, clock(), delay
        self._first: float | None = None
        self._display: Any = None
        if delay <= 0:
            self._open()

    def update(self, done: float, **fields: object) -> None:
        """Draw the state, if it is time."""
        now = self._clock()
        self._first = now if self._first is None else self._first
        if self._display is None:
            if now - self._start < self._delay:
                return
            self._open()
        # Not rich's own estimate, which counts what was done before as done by this run.
        remaining = time_left(self._total, done, self._before, now - self._first)
        text = ", ".join(words for words in (remaining, _format(fields)) if words)
        self._display.update(self._row, completed=done, fields_text=text)

    def skip(self, amount: float) -> None:
        """Count so much as done before."""
        self._before = (self._before or 0) + amount

    def close(self) -> None:
        """Stop drawing, and leave the bar as it is."""
        if self._display is not None:
            self._display.stop()

    def _open(self) -> None:
        from rich.console import Console
        from rich.constrain import Constrain
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        console = Console(file=self._stream)

        class NarrowProgress(Progress):
            # The terminal shows Ctrl-C as ^C. On a line that is full it would break the line, and
            # the bar would be drawn a second time below.
            def get_renderable(self) -> Any:
                return Constrain(super().get_renderable(), max(1, console.width - 3))

        self._display = NarrowProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(self._unit),
            TimeElapsedColumn(),
            TextColumn("{task.fields[fields_text]}", markup=False),
            console=console,
        )
        if self._expected:
            self._display.console.print(f"{self._task}; {self._expected}", highlight=False)
        self._row = self._display.add_task(self._task, total=self._total, fields_text="")
        self._display.update(self._row, completed=self._before or 0)
        # The task began before the bar was shown.
        self._display.tasks[0].start_time -= self._clock() - self._start
        self._display.start()
