"""The screen on a real terminal of 160x50: what it costs, how soon it answers, how soon it is there.

Live runs replay real records through the real trainer protocol, keepers and supervisor, so that everything but the
training is there. Run: python -m benchmarks.screen [--json FILE] [--quick] [--variants FILE]
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fleet.lab import ROOT, Lab, opened, until
from benchmarks.fleet.sheet import finish
from benchmarks.fleet.watching import PAGE_DOWN, Reading, keys_p95_s, walk, watch
from benchmarks.judging import synthetic
from benchmarks.results import Row, Spread
from benchmarks.terminal import Terminal
from mission_tui.fleet.specs.spec import EnvSpec, LaunchItem, PpoSpec, RunSpec, Spec
from mission_tui.records.jsonl import AppendLog

OURS = (sys.executable, "-m", "mission_tui")
RECORDED = ROOT / "tests" / "fixtures" / "format-1" / "20261121-040628-recorded-2aa5"
REPLAYED = Spec(
    preset="replay",
    env=EnvSpec(id="CartPole-v1", n_envs=16, vec="inline"),
    ppo=PpoSpec(n_steps=32, batch_size=128, n_epochs=5),
    run=RunSpec(total_timesteps=10**9),
)
PLAYED = Spec(
    preset="played",
    env=EnvSpec(id="CartPole-v1", n_envs=4, vec="inline"),
    ppo=PpoSpec(n_steps=128, batch_size=128, n_epochs=4),
    run=RunSpec(total_timesteps=4096),
)
"""Seconds of training: what plays need not play well."""
SMALLEST_APP = """
from textual.app import App
from textual.widgets import Static
class Smallest(App):
    BINDINGS = [("q", "quit", "leave")]
    def compose(self):
        yield Static("recorded")
Smallest().run()
"""
DOWN, UP = "\x1b[B", "\x1b[A"
_METRICS, _SILENCE_S = 12, 0.08
PAINT_S, SMALLEST_S = 0.3, 0.172
"""The goal of the first paint, and what the smallest application took on the machine for which it was set."""
SMALLEST = (sys.executable, "-c", SMALLEST_APP)


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is measured: rounds of `window_s` seconds and `keys` keys, starts of a program, live and ended runs."""

    rounds: int = 3
    window_s: float = 10.0
    keys: int = 30
    starts: int = 15
    few: int = 16
    many: int = 64
    ended: int = 200
    all_ended: int = 1000
    updates: int = 20_000


QUICK = Pace(rounds=1, window_s=2.0, keys=5, starts=1, few=2, many=4, ended=5, all_ended=10, updates=500)


def live(pace: Pace, runs: int) -> Reading:
    """Watch `runs` live runs at the default rate."""
    names = [f"lane-{number:02d}" for number in range(runs)]
    with opened(MISSION_TUI_TRAINER="benchmarks.fleet.replaying") as lab:
        lab.launch_items([LaunchItem(spec=REPLAYED, name=name) for name in names])
        until(
            lambda: all((view.update or 0) >= 2 for view in lab.views().values()), 120.0, "two rows of every run", 1.0
        )
        supervisor, reading, steps = lab.supervisor(), Reading(), walk(runs)
        with Terminal(OURS, lab.environ, ROOT) as terminal:
            terminal.until(names[0])
            terminal.watch(3.0)
            for _ in range(pace.rounds):
                watch(terminal, pace.window_s, reading, supervisor)
                reading.key_ms.append(keys_p95_s(terminal, steps, pace.keys) * 1e3)
    return reading


def variant(script: Path, technique: str, pace: Pace) -> Reading:
    """A measuring stick's screen of 16 panes in one technique at our rate of change; `script` is `tui_bench.py`."""
    argv = [sys.executable, str(script), "--tech", technique, "--jobs", "16", "--hz", "4", "--data-hz", "0.5"]
    steps = (("k", f"K={pressed:05d}") for pressed in range(1, 100_000))
    reading = Reading()
    with opened() as lab, Terminal(argv, lab.environ, ROOT) as terminal:
        terminal.until("K=00000")
        terminal.watch(3.0)
        for _ in range(pace.rounds):
            watch(terminal, pace.window_s, reading)
            reading.key_ms.append(keys_p95_s(terminal, steps, pace.keys) * 1e3)
    return reading


def arriving(ended: int, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds to the list's first paint with `ended` runs and the supervisor up, and to the smallest application's.

    Bytecode is kept, as with an installed package, whatever this process was told: a checkout that may keep none
    compiles every module of ours at each start, and none of its peer's.
    """
    with tempfile.TemporaryDirectory() as kept, opened(PYTHONDONTWRITEBYTECODE="", PYTHONPYCACHEPREFIX=kept) as lab:
        fill(lab, ended)
        pairs = [(first_paint_s(lab, OURS), first_paint_s(lab, SMALLEST)) for _ in range(rounds + 1)]
    # The first pair compiles, and warms the disk's cache.
    ours, smallest = zip(*pairs[1:], strict=True)
    return list(ours), list(smallest)


def looked_through(pace: Pace) -> Reading:
    """Page down the list of many ended runs; what it leaves in memory is the question."""
    reading = Reading()
    with opened() as lab:
        fill(lab, pace.all_ended)
        with Terminal(OURS, lab.environ, ROOT) as terminal:
            terminal.until("recorded")
            terminal.watch(3.0)
            for _ in range(pace.rounds):
                for _ in range(pace.keys):
                    terminal.send(PAGE_DOWN)
                    terminal.watch(0.25)
                watch(terminal, pace.window_s, reading)
    return reading


def watched(pace: Pace) -> tuple[list[float], Reading]:
    """A policy at play on the screen of a run that has ended: percent of a core that this takes more than the same
    screen on its charts, a round each in turns, and what else it costs.
    """
    more, reading, keys = [], Reading(), itertools.cycle(((" ", "held"), (" ", "steps")))
    with opened() as lab:
        (run,) = lab.launch_items([LaunchItem(spec=PLAYED, name="played")])
        until(lambda: lab.views()[run].state == "ended", 180.0, "a policy", 0.5)
        with Terminal(OURS, lab.environ, ROOT) as terminal:
            terminal.until("played")
            terminal.send("\r")
            for _ in range(pace.rounds):
                still = Reading()
                terminal.watch(3.0)
                watch(terminal, pace.window_s, still)
                terminal.send("w")
                terminal.until("next action", 60.0)
                terminal.watch(3.0)
                watch(terminal, pace.window_s, reading)
                more.append(reading.percent[-1] - still.percent[-1])
                # An even number: it plays again afterwards.
                reading.key_ms.append(1e3 * keys_p95_s(terminal, keys, pace.keys // 2 * 2))
                terminal.send("\x1b")
                terminal.watch(1.0)
                terminal.send("\r")
    return more, reading


def charted(pace: Pace) -> tuple[list[float], list[float]]:
    """Milliseconds from a key that chooses another metric until its chart stands, over a run of many updates; and what
    the screen took of a processor for it, which a busy machine does not lengthen as much.

    The run has ended, so that whatever is written after a key is its answer: it stands once nothing more has come for
    `_SILENCE_S`.
    """
    taken: list[float] = []
    spent: list[float] = []
    with opened() as lab:
        fill(lab, 1)
        metrics = next(lab.root.glob("*-recorded-*")) / "metrics.jsonl"
        metrics.unlink()
        log = AppendLog(metrics, sync_every_s=60.0)
        for record in synthetic(pace.updates):
            log.append(lambda _seq, record=record: record)  # type: ignore[misc]
        log.close()
        with Terminal(OURS, lab.environ, ROOT) as terminal:
            terminal.until("recorded")
            terminal.watch(2.0)
            terminal.send("\r")
            terminal.watch(3.0)
            screen = terminal.process.pid
            # The trainer's own metrics, down and up again: each is met for the first time and later once more.
            for key in (DOWN, UP) * pace.rounds:
                for _ in range(min(_METRICS, pace.keys)):
                    terminal.watch(0.4)
                    before = _processor_ms(screen)
                    taken.append(1e3 * terminal.answered_s(key, _SILENCE_S))
                    spent.append(_processor_ms(screen) - before)
    return taken, spent


def _processor_ms(pid: int) -> float:
    """What the threads of a process have run so far, to the nanosecond (`/proc/PID/task/*/schedstat`)."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text(encoding="ascii").split()[0]) for task in tasks) / 1e6


def fill(lab: Lab, ended: int) -> None:
    """Put so many ended runs into the lab and wait until its supervisor knows them."""
    for number in range(ended):
        stamp = f"{number // 60:04d}{number % 60:02d}"
        shutil.copytree(RECORDED, lab.root / f"20261120-{stamp}-recorded-{number:04x}")
    lab.views()


def first_paint_s(lab: Lab, argv: Sequence[str]) -> float:
    """Seconds from the start of a program until "recorded" stands on its screen."""
    with Terminal(argv, lab.environ, ROOT) as terminal:
        return terminal.until("recorded")


def rows(pace: Pace, script: Path | None) -> list[Row]:
    """Every line of the table of goals that is about the screen, or about the supervisor beside it."""
    few, many = live(pace, pace.few), live(pace, pace.many)
    more, played = watched(pace)
    first, smallest = arriving(pace.ended, pace.starts)
    attach, _ = arriving(pace.all_ended, max(1, pace.starts // 2))
    through = looked_through(pace)
    chart, (chart_ms, chart_processor_ms) = f"chart of another metric of {pace.updates:,} updates", charted(pace)
    what = f"screen, {pace.few} live runs, default rate, real rows at 0.5 Hz"
    beside = [f"{name} not installed, not measured" for name in ("htop", "btop") if shutil.which(name) is None]
    if script is not None:
        beside += [f"{name} variant: {cost(variant(script, name, pace))}" for name in ("static", "datatable")]
    ratios = [their / our for our, their in zip(first, smallest, strict=True)]
    paint = within(f"first paint of the list with {pace.ended} ended runs", "s", first, PAINT_S)
    return [
        within(f"{what}: processor", "% of a core", few.percent, 5.0, "; ".join(beside)),
        within(f"{what}: written", "KB/s", few.kbytes, 20.0),
        within(f"{what}: key to paint, p95", "ms", few.key_ms, 30.0),
        within(f"screen, {pace.many} live runs: key to paint, p95", "ms", many.key_ms, 50.0, f"with {cost(many)}"),
        within("a policy watched at 12 steps/s, over its charts: processor of the screen", "% of a core", more, 10.0),
        within("a policy watched at 12 steps/s: written", "KB/s", played.kbytes, 60.0),
        within("a policy watched at 12 steps/s: key to paint, p95", "ms", played.key_ms, 50.0),
        within(f"{chart}: key to paint", "ms", chart_ms, 16.0),
        within(f"{chart}: processor time of the screen", "ms", chart_processor_ms, 16.0),
        beside_peer(paint, "the smallest Textual application", smallest, ratios),
        times(f"first paint of the list with {pace.ended} ended runs, times the smallest application's", ratios),
        within(f"attach with {pace.all_ended:,} ended runs, to the list", "s", attach, 1.0),
        resident(f"screen, {pace.few} live runs, keys pressed", few),
        resident(f"screen, {pace.all_ended:,} ended runs, walked through", through),
        within(f"supervisor, {pace.few} runs, a screen attached", "% of a core", few.supervisor_percent, 3.0),
        within(f"supervisor, {pace.few} runs: resident memory", "MiB", few.supervisor_mib, 60.0),
    ]


def within(what: str, unit: str, values: Sequence[float], most: float, note: str = "") -> Row:
    """A row whose goal is a most."""
    spread = Spread.of(values)
    return Row(what, unit, spread, f"<= {most:g} {unit}", spread.median <= most, note=note)


def times(what: str, ratios: Sequence[float]) -> Row:
    """The row of a first paint on whatever machine; `ratios` are the smallest application's time over ours."""
    most = PAINT_S / SMALLEST_S
    spread = Spread.of([1.0 / ratio for ratio in ratios])
    goal = f"<= {most:.2f} x, {PAINT_S:g} s where it takes {SMALLEST_S:g}"
    return Row(what, "x", spread, goal, spread.median <= most)


def resident(what: str, reading: Reading) -> Row:
    """The row of the memory that a screen holds after its last round, which is about a minute of use."""
    note = f"PSS {reading.share_mb[-1]:.0f} MB, after {len(reading.resident_mb)} rounds"
    return within(f"{what}: resident memory", "MB", reading.resident_mb[-1:], 60.0, note)


def beside_peer(row: Row, against: str, peer: Sequence[float], ratios: Sequence[float]) -> Row:
    """The row with what a peer needed in the same rounds."""
    return Row(row.what, row.unit, row.ours, row.goal, row.met, against, Spread.of(peer), Spread.of(ratios), row.note)


def cost(reading: Reading) -> str:
    """A reading in words."""
    said = (
        f"{statistics.median(reading.percent):.1f} % of a core, {statistics.median(reading.kbytes):.0f} KB/s, "
        f"key to paint p95 {statistics.median(reading.key_ms):.0f} ms"
    )
    if reading.supervisor_percent:
        said += f", supervisor {statistics.median(reading.supervisor_percent):.1f} %"
    return said


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, write the sheet."""
    parser = argparse.ArgumentParser(prog="benchmarks.screen", description="Measure the screen.")
    parser.add_argument("--json", type=Path, help="write the sheet there")
    parser.add_argument("--quick", action="store_true", help="a look at everything, too short to be believed")
    parser.add_argument("--variants", type=Path, help="the measuring sticks' tui_bench.py, to be measured beside")
    asked = parser.parse_args(arguments)
    found = rows(QUICK if asked.quick else Pace(), asked.variants)
    finish("The screen and the supervisor", "python -m benchmarks.screen", found, asked.json)


if __name__ == "__main__":
    main()
