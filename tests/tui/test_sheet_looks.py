"""How the screens look that lie over the others, each in a small and in a tall terminal; recorded as `test_looks`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from mission_tui.envs.state_pictures import cart_pole
from mission_tui.fleet.comparison import compare
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.views.played_frame import ActionHead, PlayedFrame
from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.ipc.replies import CleanReply, ComparisonReply, OperatorReply, Played
from mission_tui.ipc.requests import Clean, Compare, Play
from mission_tui.tui.screens.sheets import ErrorScreen
from tests.tui.fake_client import FakeClient, Respond
from tests.tui.fleets import ENDED, GPU1, HERE, LIVE, NOW, TRIAL, a_fleet, a_run, several
from tests.tui.sides import a_side
from tests.tui.stage import Clock, Stage, make_app
from tests.tui.test_looks import SICK, SMALL, TALL, SnapCompare, seen_on
from tests.tui.test_verbs import LEFT

SAYS = """#!/bin/sh
printf 'runs root   /home/ada/lab/runs, %s live runs\\nsupervisor  pid 811, since yesterday\\n' 3
printf 'presets     /home/ada/lab/presets, then /opt/mission-tui/presets\\n'
"""
"""What stands in for the command line: the same words whatever verbs there are."""
BROKEN = "def draw(snapshot):\n    return snapshot.runs[0].curve\n\n\ndraw(None)\n"


@dataclass(frozen=True, slots=True)
class Scene:
    """How a screen is reached, and what is on it when it is drawn."""

    keys: tuple[str, ...]
    ready: str
    fleet: FleetSnapshot = field(default_factory=a_fleet)
    options: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[type, Respond] = field(default_factory=dict)
    opened: Callable[[Stage], None] = lambda _stage: None


def _compared(request: Any) -> OperatorReply:
    sides = (a_side(LIVE[0], 7, 2.0), a_side(LIVE[1], 7, 3.0, gamma=0.9))
    found = compare(sides, RETURN, request.by, 200.0)
    return ComparisonReply(re=request.id, comparison=msgspec.to_builtins(found))


def _played(request: Any) -> OperatorReply:
    canvas = request.order.canvas
    frame = PlayedFrame(
        picture=cart_pole(0.4, 0.05, canvas.columns, canvas.lines),
        drawn="state",
        checkpoint="009830400",
        timesteps=9_830_400,
        seed=10_000,
        step=120,
        episode_return=120.0,
        heads=(
            ActionHead(taken=4.0, probabilities=(0.01, 0.02, 0.04, 0.2, 0.7, 0.03)),
            ActionHead(taken=0.0, probabilities=(0.55, 0.45), names=("hold", "N")),
            ActionHead(taken=0.31, mean=0.31, std=0.9),
        ),
        value=42.5,
    )
    return Played(re=request.id, frame=frame)


def _mishap(stage: Stage) -> None:
    try:
        exec(compile(BROKEN, "/opt/mission-tui/chart.py", "exec"), {})
    except AttributeError as error:
        own = error.__traceback__
        stage.app.push_screen(ErrorScreen(error.with_traceback(own and own.tb_next)))


SCENES: dict[str, Scene] = {
    "RunScreen checkpoints": Scene(("enter", "[", "[", "["), "011468800"),
    "RunScreen watch": Scene(("w",), "next action", answers={Play: _played}),
    "CompareScreen": Scene(("space", "space", "c"), "ppo.gamma", answers={Compare: _compared}),
    "AwayScreen": Scene(("M",), "cart-9a10", options={"last_seen_t": NOW - 100_000}),
    "EvaluationScreen": Scene(("e",), "w plays the worst"),
    "LeftoversScreen": Scene(("X",), "pid 4711", answers={Clean: lambda it: CleanReply(re=it.id, stale=LEFT)}),
    "ErrorScreen": Scene((), "AttributeError", opened=_mishap),
    "OutputScreen": Scene(("semicolon", *"paths", "enter"), "Esc back"),
    "MachinePicker": Scene(
        ("1",), "gpu1  1 of 1 would begin", several(HERE, GPU1), opened=lambda stage: stage.clock.advance(1)
    ),
    "Picker": Scene(("x",), "apply", SICK),
    "SmokeScreen": Scene(("n", "ctrl+t"), "2h30 for the whole run"),
    "TrialScreen": Scene(("V",), "pair", a_fleet((a_run("sick-11c0", trials=(TRIAL,)), *ENDED))),
    "VerdictScreen": Scene(("a",), "ppo.n_epochs", SICK),
    "LineInputScreen": Scene(("T", "o", "k"), "ok"),
}


@pytest.mark.parametrize("size", [SMALL, TALL], ids=["80x24", "160x50"])
@pytest.mark.parametrize("scene", SCENES)
def test_it_looks_as_recorded(
    scene: str, size: tuple[int, int], snap_compare: SnapCompare, utc: None, tmp_path: Path, monkeypatch: Any
) -> None:
    """Every cell of the picture is where it was, in its colour."""
    told = SCENES[scene]
    client, clock = FakeClient(told.fleet), Clock()
    client.answers.update(told.answers)
    app = make_app(client, clock, **told.options)
    says = tmp_path / "says"
    says.write_text(SAYS)
    says.chmod(0o755)

    async def play(pilot: Pilot[int]) -> None:
        stage = Stage(app, client, clock, pilot)
        await stage.until(lambda: app.app_context.snapshot is not None and app.app_context.presets)
        await pilot.pause()
        monkeypatch.setattr(sys, "executable", str(says))
        await stage.press(*told.keys)
        told.opened(stage)
        await stage.shows(told.ready)
        for line in stage.screen.query(Input):
            line.cursor_blink = False
        await stage.still()
        assert seen_on(stage.screen) == scene

    assert snap_compare(app, terminal_size=size, run_before=play)
