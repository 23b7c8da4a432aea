"""A terminal that nobody reads for a minute: what it costs the supervisor and the runs, and what it shows afterwards.

A round is a minute without that terminal, a minute with it, and the reading of it; somebody asks for snapshots all the
time. Processor time, memory and answers of the supervisor and the rows that the runs write are held against each other.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyte

from benchmarks.terminal import started_on_terminal
from mission_tui.ipc.client import Connection
from mission_tui.ipc.requests import GetSnapshot
from tests.faults.campaign.part import Part, Tell, Violation
from tests.supervisor.conftest import Lab, opened_lab
from tests.tui.played import Terminal
from tests.waiting import until

__all__ = ["PART"]

STALL_S = float(os.environ.get("FAULTS_STALL_S", "60"))
RUNS, UPDATE_S, ASK_EVERY_S = 4, "0.1", 0.1
COLUMNS, ROWS = 160, 50
MORE_PERCENT, ROWS_SHARE, MORE_BYTES, MORE_ANSWER_S, NEWEST_S = 1.0, 0.8, 1 << 20, 0.1, 10.0


@dataclass(frozen=True, slots=True)
class Minute:
    """Of the supervisor: percent of a core, bytes more memory, seconds for 99 of 100 answers; of the runs: rows."""

    percent: float
    more_bytes: int
    answer_s: float
    rows: int


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    del seed
    with tempfile.TemporaryDirectory(prefix="mission-tui-faults-") as name, opened_lab(Path(name) / "runs") as lab:
        supervisor = psutil.Process(lab.start().pid)
        runs = lab.launch(RUNS, STUB_UPDATE_S=UPDATE_S)
        for run in runs:
            lab.running(run, 5)
        for index in rounds:
            alone = _minute(lab, supervisor, runs)
            with _screen(lab) as terminal:
                terminal.read_until(lab.view(runs[0]).name.encode(), 30.0)
                until(terminal.stalled, 60.0, "its output is blocked")
                stalled = _minute(lab, supervisor, runs)
                if not terminal.stalled():
                    yield f"round {index}: somebody read that terminal"
                (newest,) = lab.launch(name=f"newest-{index}")
                lab.running(newest)
                shown_s = _shown(terminal, f"newest-{index}")
                yield from _left(terminal)
            lab.act("kill", newest)
            lab.ended(newest)
            yield from (f"round {index}: {it}" for it in _judged(alone, stalled, shown_s))
            _tell(tell, alone, stalled, shown_s)


def _minute(lab: Lab, supervisor: psutil.Process, runs: list[str]) -> Minute:
    busy, size, written = _busy_s(supervisor), supervisor.memory_info().rss, _rows(lab, runs)
    begun, answers = time.monotonic(), []
    with Connection.connect(lab.root, start=False) as client:
        while time.monotonic() - begun < STALL_S:
            asked = time.monotonic()
            client.ask(lambda id_: GetSnapshot(id=id_))
            answers.append(time.monotonic() - asked)
            time.sleep(ASK_EVERY_S)
    lasted = time.monotonic() - begun
    return Minute(
        percent=100 * (_busy_s(supervisor) - busy) / lasted,
        more_bytes=supervisor.memory_info().rss - size,
        answer_s=sorted(answers)[int(0.99 * len(answers))],
        rows=_rows(lab, runs) - written,
    )


def _busy_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _rows(lab: Lab, runs: list[str]) -> int:
    return sum(lab.dir(run).metrics.read_bytes().count(b"\n") for run in runs)


@contextmanager
def _screen(lab: Lab) -> Iterator[Terminal]:
    """The program on a terminal that is read only when asked to."""
    environ = lab.environ | {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
    process, master = started_on_terminal([sys.executable, "-m", "mission_tui"], environ, lab.root, COLUMNS, ROWS)
    try:
        yield Terminal(master, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)


def _shown(terminal: Terminal, name: str) -> float:
    """Seconds of reading until a run is on the screen that came while nobody read; the patience where it never is."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    stream.feed(terminal.output)
    begun = time.monotonic()
    while (lasted := time.monotonic() - begun) < 2 * NEWEST_S and not any(name in line for line in screen.display):
        stream.feed(os.read(terminal.master, 1 << 16))
    return lasted


def _left(terminal: Terminal) -> Iterator[Violation]:
    os.write(terminal.master, b"q")
    terminal.drain()
    if code := terminal.ended_within(10.0):
        yield f"the screen ended with {code}"
    if terminal.output.rfind(b"\x1b[?1049l") < 0:
        yield "the terminal was not given back"


def _judged(alone: Minute, stalled: Minute, shown_s: float) -> Iterator[Violation]:
    if stalled.percent > alone.percent + MORE_PERCENT:
        yield f"{stalled.percent:.1f} % of a core instead of {alone.percent:.1f}"
    if stalled.more_bytes > max(0, alone.more_bytes) + MORE_BYTES:
        yield f"{stalled.more_bytes:,} bytes more memory instead of {alone.more_bytes:,}"
    if stalled.answer_s > alone.answer_s + MORE_ANSWER_S:
        yield f"an answer takes {stalled.answer_s:.2f} s instead of {alone.answer_s:.2f} (99 of 100 are quicker)"
    if stalled.rows < ROWS_SHARE * alone.rows:
        yield f"{stalled.rows} rows were written instead of {alone.rows}"
    if shown_s > NEWEST_S:
        yield f"the newest picture came after {shown_s:.1f} s of reading"


def _tell(tell: Tell, alone: Minute, stalled: Minute, shown_s: float) -> None:
    tell("s that nobody read", round(STALL_S))
    tell("rows in that time", stalled.rows)
    tell("rows in as long without that terminal", alone.rows)
    tell("thousandths of a core for the supervisor", round(10 * stalled.percent))
    tell("thousandths of a core without that terminal", round(10 * alone.percent))
    tell("KB more memory of the supervisor", stalled.more_bytes // 1024)
    tell("KB more memory without that terminal", alone.more_bytes // 1024)
    tell("ms until the newest picture", round(1000 * shown_s))


PART = Part("stalled-terminal", ("T3",), 1, _run)
