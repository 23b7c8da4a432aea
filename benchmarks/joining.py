"""Did the extra run pay: runs started one by one, what is said of each, beside the same from their metrics by hand.

"By hand" is what a person would do with the files and a pocket calculator: steps that all live runs made between two
moments, divided by the seconds, before and after. Run: python -m benchmarks.joining [--preset NAME] [--set K=V]
[--runs N] [--updates N] [--json FILE]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fleet.lab import Lab, opened, until
from benchmarks.results import Row, Sheet, Spread, asked_as, busy_elsewhere, write_sheet
from mission_tui.errors import MissionError
from mission_tui.fleet.events.marginal_gain import MarginalGain, gain_sentence
from mission_tui.fleet.views.snapshot import RunView

SETTLE_S = 5.0
"""What so soon follows the first update of a run is nobody's speed."""
START_S, UPDATES_S = 180.0, 900.0
LEAST_S = 30.0
"""Below this no fleet is measured, however quick its updates are."""
VERDICT_S = 420.0
WITHIN = 0.10


@dataclass(frozen=True, slots=True)
class Window:
    """From `begin` to `end` (unix s) `runs` trained and nobody else."""

    begin: float
    end: float
    runs: tuple[str, ...]


def by_hand(lab: Lab, window: Window) -> float:
    """Steps per second of all runs of the window together: steps between its first and its last update of each."""
    total = 0.0
    for run in window.runs:
        rows = [row for row in lab.updates(run) if window.begin <= row.t <= window.end]
        total += (rows[-1].timesteps - rows[0].timesteps) / (rows[-1].t - rows[0].t)
    return total


def one_by_one(lab: Lab, preset: str, settings: Sequence[str], runs: int, updates: int) -> list[Window]:
    """Start `runs` of the preset, each once the one before has done so many updates beside the others."""
    words = [word for setting in ("run.total_timesteps=1000000000", *settings) for word in ("--set", setting)]
    started: list[str] = []
    windows: list[Window] = []
    for number in range(1, runs + 1):
        (run,) = lab.launch(preset, "--name", f"{preset}-{number}", *words)
        started.append(run)
        begin = until(lambda: lab.updates(started[-1]), START_S, f"{run} trains")[0].t + SETTLE_S
        until(lambda: _since(lab, started[-1], begin) > updates, UPDATES_S, f"{run} does {updates} updates")  # noqa: B023
        time.sleep(max(0.0, begin + LEAST_S - time.time()))
        windows.append(Window(begin, time.time(), tuple(started)))
    return windows


def _since(lab: Lab, run: str, begin: float) -> int:
    return sum(row.t > begin for row in lab.updates(run))


def verdicts(lab: Lab, runs: Sequence[str]) -> dict[str, RunView]:
    """The runs' views once every one was judged."""

    def judged() -> dict[str, RunView]:
        views = {run: view for run, view in lab.views().items() if run in runs}
        return views if all(view.payoff is not None for view in views.values()) else {}

    return until(judged, VERDICT_S, "every run is judged", every_s=2.0)


def report(lab: Lab, windows: Sequence[Window]) -> list[Row]:
    """Print a line of each, sentence and hand calculation; the rows of a sheet."""
    rows = []
    speeds = [by_hand(lab, window) for window in windows]
    views = verdicts(lab, windows[-1].runs)
    for number, window in enumerate(windows):
        view = views[window.runs[-1]]
        assert view.payoff is not None
        print(gain_sentence(view.payoff, view.name))
        if not number:
            print(f"    by hand: {speeds[0]:,.0f} steps/s")
            continue
        gain = speeds[number] / speeds[number - 1] - 1.0
        print(f"    by hand: {speeds[number - 1]:,.0f} -> {speeds[number]:,.0f} steps/s: {100 * gain:+.1f} %")
        rows.append(_row(number + 1, view.payoff, gain))
    return rows


def _row(number: int, payoff: MarginalGain, gain: float) -> Row:
    what, goal = f"what run {number} brought", f"says what a hand calculation gives, within {100 * WITHIN:.0f} points"
    peer = Spread.of([100.0 * gain])
    if payoff.gain is None or payoff.low is None or payoff.high is None:
        return Row(what, "%", None, goal, None, "by hand", peer, note=f"no gain was named: {payoff.verdict}")
    median, low, high = (round(100.0 * share, 1) for share in (payoff.gain, payoff.low, payoff.high))
    ours = Spread(median, low, high)
    return Row(what, "%", ours, goal, abs(payoff.gain - gain) <= WITHIN, "by hand", peer, note=payoff.verdict)


def main() -> None:
    """Measure and print; with `--json` also write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="K=V")
    parser.add_argument("--updates", type=int, default=12, help="of the newest run, for which each company is measured")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    elsewhere = busy_elsewhere()
    print(f"other programs keep {elsewhere:.1f} cores busy")
    with opened() as lab:
        try:
            rows = report(lab, one_by_one(lab, asked.preset, asked.settings, asked.runs, asked.updates))
        except (TimeoutError, MissionError) as error:
            raise SystemExit(str(error)) from error
    if asked.json is not None:
        sheet = Sheet("Did the extra run pay", asked_as("benchmarks.joining"), tuple(rows), elsewhere=elsewhere)
        write_sheet(sheet, asked.json)


if __name__ == "__main__":
    main()
