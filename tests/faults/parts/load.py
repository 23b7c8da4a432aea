"""Half an hour of eight runs with sixty-four workers that say eight hundred messages a second.

A round is a minute. Every third has a client that watches and never reads, and a disk that takes 50 ms longer for each
sync; in it acknowledgements are timed. The others measure the supervisor: its share of a core, memory and descriptors.
At the end a second supervisor has the same runs with every rule off for a minute, which says what judging costs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import psutil

from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.specs.thresholds import Limits
from mission_tui.ipc.client import Connection
from mission_tui.ipc.requests import Act, Watch
from tests.faults.campaign.part import Part, Tell, Violation
from tests.supervisor.conftest import Lab, opened_lab, stub_spec

__all__ = ["PART"]

TRAINER = Path(__file__).parents[1] / "loud_trainer.py"
SLOW_SYNC = Path(__file__).parents[1] / "slow_sync.c"
RUNS, WORKERS = 8, 8
MINUTE_S = float(os.environ.get("FAULTS_MINUTE_S", "60"))
SLOW_EVERY = 3
ASK_EVERY_S = 0.2
CORE_PERCENT, UNJUDGED_PERCENT, MB_A_DAY, ACK_MS, SPARE_FDS = 12.0, 6.0, 5.0, 100.0, 4
UNJUDGED = change(stub_spec(), [f"keep.health.{rule}.act=off" for rule in Limits.__struct_encode_fields__])
WARM_ROUNDS, LEAST_ROUNDS = 3, 10


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    del seed
    shares: list[float] = []
    sizes: list[tuple[int, float, int]] = []
    files: list[int] = []
    acks: list[float] = []
    with tempfile.TemporaryDirectory(prefix="mission-tui-faults-") as name, opened_lab(Path(name) / "runs") as lab:
        lab.environ["MISSION_TUI_TRAINER"] = str(TRAINER)
        supervisor = psutil.Process(lab.start(**_slow_disk(Path(name))).pid)
        slow = Path(name) / "slow"
        (asked,) = lab.launch()
        lab.wait(asked, lambda view: view.connected, 30)
        _launch_loud(lab)
        for index in rounds:
            if index % SLOW_EVERY == SLOW_EVERY - 1:
                slow.touch()
                acks += _slow_minute(lab, asked)
                slow.unlink()
                tell("minutes on a slow disk", 1)
            else:
                before = _busy_s(supervisor)
                shares.append(_minute_share(supervisor))
                sizes.append((index, time.monotonic(), supervisor.memory_info().rss))
                files.append(supervisor.num_fds())
                tell("minutes", 1)
                tell("ms of processor time", round(1000 * (_busy_s(supervisor) - before)))
        yield from _judged(shares, sizes, files, acks, tell)
    if shares:
        yield from _unjudged(tell)


def _launch_loud(lab: Lab, spec: Spec | None = None) -> None:
    for run in lab.launch(RUNS, spec=spec, STUB_WORKERS=str(WORKERS)):
        lab.wait(run, lambda view: view.connected, 30)


def _minute_share(process: psutil.Process) -> float:
    """Percent of a core that the process takes in a minute from now."""
    before, begun = _busy_s(process), time.monotonic()
    time.sleep(MINUTE_S)
    return 100 * (_busy_s(process) - before) / (time.monotonic() - begun)


def _unjudged(tell: Tell) -> Iterator[Violation]:
    """A minute of the same runs with every rule off."""
    with tempfile.TemporaryDirectory(prefix="mission-tui-faults-") as name, opened_lab(Path(name) / "runs") as lab:
        lab.environ["MISSION_TUI_TRAINER"] = str(TRAINER)
        supervisor = psutil.Process(lab.start().pid)
        _launch_loud(lab, UNJUDGED)
        share = _minute_share(supervisor)
    tell("thousandths of a core without judging", round(10 * share))
    if share > UNJUDGED_PERCENT:
        yield f"{share:.1f} % of a core for {RUNS} runs that are not judged"


def _busy_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _slow_minute(lab: Lab, run: str) -> list[float]:
    """Seconds until each of many requests was acknowledged, every one after its line was synced."""
    taken: list[float] = []
    with Connection.connect(lab.root, start=False) as stalled:
        stalled.ask(lambda id_: Watch(id=id_))  # and never another word read of what follows
        until_t = time.monotonic() + MINUTE_S
        with Connection.connect(lab.root, start=False) as client:
            while time.monotonic() < until_t:
                begun = time.monotonic()
                client.ask(lambda id_: Act(id=id_, verb="checkpoint", runs=(run,)))
                taken.append(time.monotonic() - begun)
                time.sleep(ASK_EVERY_S)
    return taken


def _lacks_compiler() -> str:
    return "" if shutil.which("gcc") else "gcc is not installed, which makes the slow disk"


def _slow_disk(folder: Path) -> dict[str, str]:
    """What makes syncs of a process slow while `folder/slow` is there."""
    library = folder / "slow_sync.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(SLOW_SYNC)], check=True)
    return {"LD_PRELOAD": str(library), "SLOW_SYNC": str(folder / "slow"), "SLOW_SYNC_US": "50000"}


def _judged(
    shares: list[float], sizes: list[tuple[int, float, int]], files: list[int], acks: list[float], tell: Tell
) -> Iterator[Violation]:
    """What the minutes of this session say together."""
    if shares:
        mean = sum(shares) / len(shares)
        tell("thousandths of a core", round(10 * mean))
        if mean > CORE_PERCENT:
            yield f"{mean:.1f} % of a core for {RUNS} runs"
    if acks:
        p99 = 1000 * sorted(acks)[int(0.99 * len(acks))]
        tell("ms at most for 99 of 100 acknowledgements", round(p99))
        if p99 > ACK_MS:
            yield f"an acknowledgement takes {p99:.0f} ms (99 of 100 are quicker)"
    if len(sizes) >= LEAST_ROUNDS:
        slope = _slope(sizes[WARM_ROUNDS:]) * 86400 / 1e6
        tell("kB a day more memory", round(1000 * slope))
        tell("kB more in all", round((sizes[-1][2] - sizes[WARM_ROUNDS][2]) / 1000))
        if slope > MB_A_DAY:
            yield f"memory grows by {slope:.1f} MB a day"
        if files[-1] > files[WARM_ROUNDS] + SPARE_FDS:
            yield f"{files[WARM_ROUNDS]} descriptors became {files[-1]}"


def _slope(points: list[tuple[int, float, int]]) -> float:
    """Bytes a second over neighbouring minutes, without those in which somebody asked hundreds of things."""
    pairs = [(then, now) for then, now in pairwise(points) if now[0] == then[0] + 1]
    return sum(now[2] - then[2] for then, now in pairs) / sum(now[1] - then[1] for then, now in pairs)


PART = Part("load", ("T3", "T10"), 30, _run, _lacks_compiler)
