"""Where progress is shown, and that nothing is left behind."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import pytest

from sbmc import progress
from sbmc.checks import BadInput
from sbmc.progress import LinesBar, NotebookBar, SilentBar, TerminalBar, open_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("asked", "stream", "expected"),
    [
        (None, Terminal, TerminalBar),
        (True, Terminal, TerminalBar),
        (False, Terminal, SilentBar),
        (None, io.StringIO, SilentBar),
        (True, io.StringIO, LinesBar),
        (False, io.StringIO, SilentBar),
    ],
)
def test_what_is_shown_where(monkeypatch, asked, stream, expected):
    monkeypatch.setattr(sys, "stderr", stream())
    with open_progress(asked, "training", total=3, unit="epochs") as bar:
        assert type(bar) is expected


@pytest.mark.parametrize("bad", ["yes", 1, 0.5])
def test_other_values_are_refused(bad):
    with (
        pytest.raises(BadInput, match="`progress` must be True, False or None"),
        open_progress(bad, "training", total=3),
    ):
        pass


def test_lines_come_at_the_start_at_most_every_five_seconds_and_at_the_end():
    stream, clock = io.StringIO(), Clock()
    bar = LinesBar(stream, "training", 100, "epochs", clock)
    for done in range(1, 13):
        clock.now += 1.0
        bar.update(done, validation_loss=0.5 / done, still_training=7)
    bar.close()
    assert stream.getvalue().splitlines() == [
        "training: 100 epochs to do",
        "training: 5/100 epochs, validation loss 0.1, still training 7",
        "training: 10/100 epochs, validation loss 0.05, still training 7",
        "training: 12/100 epochs, validation loss 0.04167, still training 7, ended after 12.0 s",
    ]


def test_a_terminal_stays_empty_for_two_seconds():
    stream, clock = Terminal(), Clock()
    bar = TerminalBar(stream, "training", 4, "epochs", delay=progress.PATIENCE, clock=clock)
    clock.now = 1.9
    bar.update(1)
    assert stream.getvalue() == ""
    clock.now = 2.1
    bar.update(2, loss=0.25)
    bar.close()
    shown = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())  # without colours
    assert "training" in shown
    assert "2/4 epochs" in shown
    assert "loss 0.25" in shown
    assert "0:00:02" in shown


def test_a_short_task_on_a_terminal_shows_nothing(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with open_progress(None, "training", total=2) as bar:
        bar.update(2)
    assert stream.getvalue() == ""


def interrupted(error: type[BaseException]) -> None:
    with open_progress(True, "training", total=9, unit="epochs") as bar:
        bar.update(4)
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_exceptions_pass_and_the_terminal_is_given_back(monkeypatch, error):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with pytest.raises(error):
        interrupted(error)
    shown = stream.getvalue()
    assert "\x1b[?25l" in shown, "rich hides the cursor"
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l"), "and must show it again"
    assert sys.stderr is stream, "rich has given standard error back"


def test_exceptions_leave_a_last_line_in_a_log(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with pytest.raises(ZeroDivisionError):
        interrupted(ZeroDivisionError)
    assert stream.getvalue().splitlines()[-1].startswith("training: 4/9 epochs, ended after")


def test_rich_is_not_imported_before_it_is_needed():
    code = "import sys, sbmc.progress; assert 'rich' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("done", "before", "seconds", "words"),
    [
        (10, 0, 10.0, "about 90 s left"),
        (10, 0, 20.0, "about 3 min left"),
        (60, 50, 45.0, "about 3 min left"),  # 10 in 45 s, and 40 to do
        (10, 0, 3600.0, "about 9 h left"),
        (1, 0, 3600.0, "about 4 days left"),
        (99, 0, 2.0, "about 1 s left"),
        (10, 0, 1.9, ""),  # too early to tell
        (50, 50, 45.0, ""),  # no rate
        (100, 0, 45.0, ""),  # nothing left
        (10, None, 45.0, ""),  # nobody asked
    ],
)
def test_time_left_in_words(done, before, seconds, words):
    assert progress.time_left(100, done, before, seconds) == words


def test_lines_tell_the_time_left_by_the_rate_of_this_run_alone():
    stream, clock = io.StringIO(), Clock()
    bar = LinesBar(stream, "sampling", 100, "steps", clock, before=50)
    clock.now = 20.0  # workers took their time to start
    bar.update(50)
    bar.skip(10)  # one of them goes on from a place of its own
    clock.now = 30.0
    bar.update(70, acceptance=0.75)
    bar.close()
    assert stream.getvalue().splitlines() == [
        "sampling: 100 steps to do, 50 of them done before",
        "sampling: 50/100 steps",
        "sampling: 70/100 steps, acceptance 0.75, about 30 s left",
        "sampling: 70/100 steps, acceptance 0.75, ended after 30.0 s",
    ]


def test_a_terminal_tells_the_time_left_as_well():
    stream, clock = Terminal(), Clock()
    bar = TerminalBar(stream, "sampling", 8, "steps", delay=0.0, clock=clock, before=2)
    bar.update(2)
    clock.now = 30.0
    bar.update(4, acceptance=0.5)
    bar.close()
    shown = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert "4/8 steps" in shown
    assert "about 60 s left, acceptance 0.5" in shown


def test_a_bar_leaves_room_for_what_the_terminal_shows_of_ctrl_c(monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    stream = Terminal()
    bar = TerminalBar(stream, "sampling", 8, "steps", delay=0.0, clock=Clock())
    bar.update(4, islands="0/1", acceptance=0.9876, remark="x" * 50)
    bar.close()
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())
    lines = re.split(r"[\r\n]+", plain)
    assert max(map(len, lines)) == 67


def test_a_task_of_unknown_length_counts_what_is_done():
    clock = Clock()
    log, screen, shown = io.StringIO(), Terminal(), []
    bars = (
        LinesBar(log, "reading", None, "rows", clock),
        TerminalBar(screen, "reading", None, "rows", 0.0, clock),
        NotebookBar(lambda bundle, **_: shown.append(bundle), "reading", None, "rows", 1.0, clock),
    )
    for bar in bars:
        clock.now += 6.0
        bar.update(7)
        bar.close()
    assert "reading: 7 rows" in log.getvalue()
    assert "7/?" in screen.getvalue()
    assert "<progress></progress>" in shown[0]["text/html"]
    assert shown[0]["text/plain"] == "reading: 7 rows"
