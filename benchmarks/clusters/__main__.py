"""A thousand live runs on engines and twenty thousand ended ones: what the supervisor, the screen and `status` cost.

The engines answer late, lose answers and answer wrongly; everything that asks them is real. The figures are of the
processors' time, so a busy machine makes them smaller where it keeps them from working: how often the engines were
asked says whether it did. Run: python -m benchmarks.clusters [--live N] [--ended N] [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import psutil
from msgspec import structs

from benchmarks.clusters.field import OLD_T, Field, field_of, spec_of
from benchmarks.clusters.nodes import rows_of
from benchmarks.fleet.lab import ROOT
from benchmarks.fleet.watching import Reading, busy_s, keys_p95_s, walk, watch
from benchmarks.results import Row, Sheet, asked_as, busy_elsewhere, write_sheet
from benchmarks.rows import bounded
from benchmarks.screen import OURS
from benchmarks.terminal import Terminal
from mission_tui.fleet.events.journal import AttemptStarting, RunCreated
from mission_tui.fleet.events.metrics import TrainingStarted, UpdateDone
from mission_tui.fleet.health.judge import judge_of
from mission_tui.fleet.phases import PhaseHistory
from mission_tui.fleet.store import KEPT_ROWS, Store
from mission_tui.fleet.views.snapshot import HostMeters, SupervisorInfo

SUPERVISOR_PERCENT, SUPERVISOR_MB, SCREEN_PERCENT, KEY_MS, STATUS_S = 40.0, 250.0, 8.0, 50.0, 0.5
DAY_KB = 200.0
WINDOW_S = 15.0
KEYS = 30
UP_S = 300.0
READ_S = 900.0
"""How long the older runs may take: all but a third of the time is left to others."""


@dataclass(slots=True)
class Found:
    """Round by round: the supervisor alone and under a screen, the screen, and seconds of `status`."""

    alone_percent: list[float] = field(default_factory=list)
    alone_mb: list[float] = field(default_factory=list)
    lists_a_minute: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    all_s: list[float] = field(default_factory=list)
    screen: Reading = field(default_factory=Reading)
    page_s: list[float] = field(default_factory=list)
    filtered_s: list[float] = field(default_factory=list)
    day_kb: float = 0.0


def measured(live: int, ended: int, rounds: int) -> Found:
    """All of it, in one runs root."""
    found = Found(day_kb=after_a_day_kb())
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="mission-bench-", dir=memory, ignore_cleanup_errors=True) as folder,
        field_of(Path(folder), ended=ended, live=live, latency_s=0.1, lost=0.02, wrong=0.02) as runs,
    ):
        begun = time.perf_counter()
        supervisor = runs.lab.supervisor()
        _precede(supervisor.pid)
        found.first_s.append(time.perf_counter() - begun)
        runs.all_train(runs.ids, UP_S)
        _say("they train")
        _until_read(supervisor, begun)
        found.all_s.append(time.perf_counter() - begun)
        for _ in range(rounds):
            _alone(runs, supervisor, found)
        _say("under a screen")
        with Terminal(OURS, runs.lab.environ, ROOT) as terminal:
            _precede(terminal.process.pid)
            terminal.until("slurm-0000", UP_S)
            terminal.watch(5.0)
            steps = walk(live)
            for _ in range(rounds):
                watch(terminal, WINDOW_S, found.screen, supervisor)
                found.screen.key_ms.append(keys_p95_s(terminal, steps, KEYS) * 1e3)
        _say(f"so far: {found}")
        for _ in range(2 * rounds):
            found.page_s.append(_status_s(runs, "--limit", "200", "--offset", str(live // 2)))
            found.filtered_s.append(_status_s(runs, "--state", "failed"))
    return found


def _precede(pid: int) -> None:
    """Have what is measured go before what others do on the machine, where that may be asked for: who is starved works
    less, and costs less than it would.
    """
    with suppress(psutil.AccessDenied):
        psutil.Process(pid).nice(-10)


def _until_read(supervisor: psutil.Process, begun: float) -> None:
    """Until the older runs were looked at, which is done in a third of the time."""
    while time.perf_counter() - begun < READ_S:
        log = Path(supervisor.cmdline()[-1]) / ".supervisor" / "supervisor.log"
        if "older runs are known" in log.read_text(encoding="utf-8", errors="replace"):
            return
        time.sleep(1.0)
    _say("the older runs are still being looked at")


def _alone(runs: Field, supervisor: psutil.Process, found: Found) -> None:
    """One round in which nobody looks."""
    asked, before, begun = runs.counts(), busy_s(supervisor), time.perf_counter()
    time.sleep(WINDOW_S)
    taken = time.perf_counter() - begun
    found.alone_percent.append(100 * (busy_s(supervisor) - before) / taken)
    found.alone_mb.append(supervisor.memory_info().rss / 1e6)
    now = runs.counts()
    lists = sum(now.get(what, 0) - asked.get(what, 0) for what in ("squeue", "GET /api/jobs/"))
    found.lists_a_minute.append(60 * lists / taken)


def _status_s(runs: Field, *words: str) -> float:
    command = [sys.executable, "-m", "mission_tui", "status", "--json", *words]
    begun = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=runs.lab.environ, stdout=subprocess.PIPE, check=True)
    taken = time.perf_counter() - begun
    assert json.loads(done.stdout)["runs"]
    return taken


def rows(live: int, ended: int, found: Found) -> list[Row]:
    """The lines of the table."""
    what, screen = f"{live:,} live runs on engines, {ended:,} ended", found.screen
    asked = f"engines were asked {max(found.lists_a_minute):.0f} times a minute at most for the lists of all jobs"
    return [
        bounded(f"{what}: supervisor", "% of a core", found.alone_percent, at_most=SUPERVISOR_PERCENT, note=asked),
        bounded(
            f"{what}: supervisor, a screen attached",
            "% of a core",
            screen.supervisor_percent,
            at_most=SUPERVISOR_PERCENT,
        ),
        bounded(
            f"{what}: supervisor, resident memory",
            "MB",
            [*found.alone_mb, *(mib * 1.048576 for mib in screen.supervisor_mib)],
            at_most=SUPERVISOR_MB,
        ),
        bounded(
            "one live run after a day of updates of ten seconds, in the supervisor",
            "KB",
            [found.day_kb],
            at_most=DAY_KB,
            note="history, phases and judge; rows of which a fleet of a thousand keeps the newest",
        ),
        bounded(f"{what}: screen", "% of a core", screen.percent, at_most=SCREEN_PERCENT),
        bounded(f"{what}: screen, key to paint, p95", "ms", screen.key_ms, at_most=KEY_MS),
        bounded(f"{what}: a page of `status --json`", "s", found.page_s, at_most=STATUS_S),
        bounded(f"{what}: `status --json --state failed`", "s", found.filtered_s, at_most=STATUS_S),
        bounded(f"{what}: first answer after the start", "s", found.first_s),
        bounded(f"{what}: all of the older runs were looked at", "s", found.all_s),
    ]


def after_a_day_kb(updates: int = 8_640, update_s: float = 10.0) -> float:
    """What a supervisor holds of one live run that has trained for a day: its history, its phases, its judge. KB."""
    shapes = [shape[-20:] for shape in rows_of(4)]
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    # One after another: what all runs share is held once, as in a supervisor.
    held = [_aged(shape, number, updates, update_s) for number, shape in enumerate(shapes)]
    gc.collect()  # what Python keeps for later use is no run's
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / len(held) / 1e3


def _aged(shape: Sequence[UpdateDone], number: int, updates: int, update_s: float) -> object:
    spec, name = spec_of("slurm"), f"r{number}"
    store = Store("/runs", SupervisorInfo(None, "", 0.0), HostMeters("", 1))
    lane, judge, t = PhaseHistory(), judge_of(spec), OLD_T
    store.add_run(name, f"/runs/{name}", spec)
    store.apply_all(name, (RunCreated(1, t, name, "replay"), AttemptStarting(2, t, 1), TrainingStarted(1, 1, t)))
    for update in range(updates):
        t += update_s
        row = structs.replace(
            msgspec.json.decode(msgspec.json.encode(shape[update % len(shape)]), type=UpdateDone),
            seq=update + 1,
            attempt=1,
            update=update,
            timesteps=512 * (update + 1),
            t=t,
        )
        store.apply(name, row)
        judge.feed(row)
        lane.trained(t, 0.7 * update_s, 0.3 * update_s)
    store.run(name).trim_rows(KEPT_ROWS)
    return store, store.view(name), lane, judge


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; with `--json` also write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--live", type=int, default=1000)
    parser.add_argument("--ended", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    elsewhere = busy_elsewhere()
    found = rows(asked.live, asked.ended, measured(asked.live, asked.ended, asked.rounds))
    for row in found:
        assert row.ours is not None
        print(f"{row.what}: {row.ours.median:.2f} {row.unit} ({row.ours.low:.2f} to {row.ours.high:.2f}) {row.goal}")
    if asked.json is not None:
        sheet = Sheet("A thousand runs", asked_as("benchmarks.clusters"), tuple(found), elsewhere=elsewhere)
        write_sheet(sheet, asked.json)


if __name__ == "__main__":
    main()
