"""A day of the screen in a process of its own: `python -m tests.faults.long_day` plays an hour for each line it reads,
and answers with its resident bytes and the pictures drawn.

A second is one snapshot in which all sixteen runs have changed. Runs end and begin, findings come and go, every tab and
several sheets are opened each ten minutes. The first minutes fill caches; the answer to no line at all is the start.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from typing import Any

import psutil
from msgspec import structs

from mission_tui.fleet.views.findings import Finding
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView
from mission_tui.tui.terminal.written import Pen, Written
from tests.tui.fleets import KL_FINDING, NAN_FINDING, NOW, a_fleet, a_run, curve, ended
from tests.tui.stage import Stage, staged

__all__ = ["HOUR_S", "fleet_at"]

HOUR_S = 3600
WARM_S = 1500
RUNS, LIFE_S = 16, 7200
KEYS = ("enter", "]", "]", "]", "]", "]", "escape", "m", "m", "question_mark", "escape", "v", "v", "x", "escape", "+")


def fleet_at(second: int) -> FleetSnapshot:
    """What the supervisor would say then: a run lives for two hours, and the next one takes its place."""
    starts = [place * LIFE_S // RUNS for place in range(RUNS)]
    lives = [(second + start) // LIFE_S for start in starts]
    live = tuple(_live(f"run-{place:02d}-{lives[place]:03d}", second, place) for place in range(RUNS))
    over = tuple(
        ended(f"run-{place:02d}-{life:03d}", 1.0)
        for place in range(RUNS)
        for life in range(max(0, lives[place] - 12), lives[place])
    )
    return structs.replace(a_fleet((*live, *over), revision=second + 2), t=NOW + second)


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
    async with staged(fleet_at(0), size=(160, 50)) as stage:
        pen, drawn = Pen(stage.app.console), [0]

        def write(_screen: object, update: Any) -> None:
            if update is not None:
                drawn[0] += bool(Written(update, pen).render_segments(stage.app.console))

        setattr(stage.app, "_display", write)  # noqa: B010 - a terminal that is not there
        second = 1
        second = await _live_through(stage, second, WARM_S)
        _answer(drawn[0])
        while await asyncio.to_thread(sys.stdin.readline):
            second = await _live_through(stage, second, HOUR_S)
            _answer(drawn[0])


async def _live_through(stage: Stage, second: int, seconds: int) -> int:
    for now in range(second, second + seconds):
        snapshot = fleet_at(now)
        stage.clock.advance(1.0)
        stage.client.show(snapshot)
        await _drawn(stage, snapshot)
        if now % 600 < len(KEYS):
            await stage.press(KEYS[now % 600])
        elif now % 60 == 0:
            await stage.press("down")
    return second + seconds


async def _drawn(stage: Stage, snapshot: FleetSnapshot) -> None:
    await stage.until(lambda: stage.app.desk.snapshot is snapshot)


def _answer(drawn: int) -> None:
    gc.collect()
    print(json.dumps({"rss_bytes": psutil.Process().memory_info().rss, "drawn": drawn}), flush=True)


if __name__ == "__main__":
    asyncio.run(_play())
