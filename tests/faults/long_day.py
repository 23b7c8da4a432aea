"""A day of the screen in a process of its own: `python -m tests.faults.long_day` plays an hour for each line it reads,
and answers with its resident bytes and the pictures drawn.

A snapshot comes every fifteen seconds, and all sixteen runs have changed in it. Runs end and begin, findings come and
go, and every tab and every screen but `UNSEEN` are opened every two hours. The first time, in the first minutes, fills
caches; the answer to no line at all is the start.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from functools import lru_cache
from typing import Any

import msgspec
import psutil
from msgspec import structs

from mission_tui.fleet.comparison import compare
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView
from mission_tui.ipc import replies, requests
from mission_tui.tui.textual_fixes.cell_diff import CellDiff, Pen
from tests.tui import fleets
from tests.tui.fleets import KL_FINDING, NAN_FINDING, NOW, a_fleet, a_run, ended
from tests.tui.sides import a_side
from tests.tui.stage import Stage, hurried, staged

__all__ = ["HOUR_S", "UNSEEN", "fleet_at"]

HOUR_S, STEP_S, TOUR_S = 3600, 15, 7200
WARM_S = 1500
RUNS, LIFE_S, PAST = 16, 7200, 4
KEYS = (
    "enter", "space", "down", "space", "Y", "}", "tab", "left", "left", "escape", "]", "]", "]", "v", "v", "]", "]",
    "]", "]", "slash", "a", "escape", "escape", "h", "down", "escape", "l", "end", "escape", "d", "escape", "o",
    "escape", "J", "escape", "m", "}", "{", "m", "question_mark", "escape", "v", "v", "x", "escape", "colon", "h",
    "escape", "n", "tab", "a", "escape", "c", "t", "escape", "M", "escape", "K", "escape", "X", "escape", "T", "a",
    "enter", "S", "x", "enter", "n", "escape", "e", "escape", "escape", "less_than_sign", "greater_than_sign", "end",
    "home", "f", "+", "-",
)  # fmt: skip
UNSEEN = frozenset({"OutputScreen", "SmokeScreen", "ErrorScreen"})
"""One runs a program, one waits for real seconds until the form knows its price, one is of errors."""
PATIENCE_S = 60.0

curve = lru_cache(128)(fleets.curve)


def fleet_at(second: int) -> FleetSnapshot:
    """What the supervisor would say then: a run lives for two hours, and the next one takes its place."""
    starts = [place * LIFE_S // RUNS for place in range(RUNS)]
    lives = [PAST + (second + start) // LIFE_S for start in starts]
    live = tuple(_live(f"run-{place:02d}-{lives[place]:03d}", second, place) for place in range(RUNS))
    over = tuple(
        _over(f"run-{place:02d}-{life:03d}")
        for place in range(RUNS)
        for life in range(lives[place] - PAST, lives[place])
    )
    return structs.replace(a_fleet((*live, *over), revision=second + 2), t=NOW + second)


@lru_cache(PAST * RUNS)
def _over(name: str) -> RunView:
    return ended(name, 1.0)


def _live(name: str, second: int, place: int) -> RunView:
    ill: tuple[Finding, ...] = (KL_FINDING,) if (second + 60 * place) % 1800 < 600 else ()
    ill += (NAN_FINDING,) if (second + 100 * place) % 7000 < 60 else ()
    waver = 0.3 + (second % 50) / 100
    return a_run(
        name,
        phase="update" if (second + place) % 4 == 0 else "rollout",
        update=second,
        timesteps=second * 8192,
        steps_per_s=1400.0 + second % 97 + place,
        eta_s=20_400.0 - second % 9000,
        findings=ill,
        metrics={"rollout/ep_rew_mean": 12.0 + waver, "train/approx_kl": waver / 20, "policy/entropy_ratio": waver},
        series={"rollout/ep_rew_mean": curve(waver=waver), "steps_per_s": curve(height=1400.0, waver=9 * waver)},
    )


async def _play() -> None:
    with hurried():
        async with staged(fleet_at(0), size=(160, 50), last_seen_t=NOW - 9000) as stage:
            await _through_the_day(stage)


async def _through_the_day(stage: Stage) -> None:
    pen, drawn, seen = Pen(stage.app.console), [0], set[str]()

    def write(screen: object, update: Any) -> None:
        seen.add(type(screen).__name__)
        if update is not None:
            drawn[0] += bool(CellDiff(update, pen).render_segments(stage.app.console))

    setattr(stage.app, "_display", write)  # noqa: B010 - a terminal that is not there
    stage.client.answers |= {requests.Clean: _left_behind, requests.Compare: _compared}
    second = STEP_S
    second = await _live_through(stage, second, WARM_S)
    _answer(stage, drawn[0], seen)
    while await asyncio.to_thread(sys.stdin.readline):
        second = await _live_through(stage, second, HOUR_S)
        _answer(stage, drawn[0], seen)


async def _live_through(stage: Stage, second: int, seconds: int) -> int:
    for now in range(second, second + seconds, STEP_S):
        snapshot = fleet_at(now)
        stage.clock.advance(STEP_S)
        stage.app.app_context.clear()  # toasts go by a real clock: those of twenty minutes would lie on the screen
        stage.client.show(snapshot)
        await _drawn(stage, snapshot)
        if (step := now % TOUR_S // STEP_S) < len(KEYS):
            await stage.press(KEYS[step])
        elif now % 600 == 0:
            await stage.press("down")
    return second + seconds


async def _drawn(stage: Stage, snapshot: FleetSnapshot) -> None:
    due = time.monotonic() + PATIENCE_S
    while stage.app.app_context.snapshot is not snapshot:
        assert time.monotonic() < due, f"not drawn: revision {snapshot.revision}"
        await asyncio.sleep(0)
    await asyncio.sleep(0.002)


def _left_behind(request: requests.Clean) -> replies.OperatorReply:
    stale = replies.LeftoverRow(key="1", kind="process", verdict="ours", pid=7)
    return replies.CleanReply(re=request.id, stale=(stale,))


def _compared(request: requests.Compare) -> replies.OperatorReply:
    sides = [a_side(a_run(f"side-{at}"), 1 + at, 2.0) for at in range(2)]
    found = compare(sides, RETURN, request.by, 200.0)
    return replies.ComparisonReply(re=request.id, comparison=msgspec.to_builtins(found))


def _answer(stage: Stage, drawn: int, seen: set[str]) -> None:
    stage.client.asked.clear()  # the record of a test, not of the screen
    gc.collect()
    said = {"rss_bytes": psutil.Process().memory_info().rss, "drawn": drawn, "screens": sorted(seen)}
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    asyncio.run(_play())
