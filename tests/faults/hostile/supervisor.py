"""A supervisor all of whose words are hostile: its fleets, of now or of a replay, and its answer to every question."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import structs

from mission_tui.fleet.comparison import compare
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.events.processes import EnvWorkers, LateWorker
from mission_tui.fleet.specs.spec import DRIVER, is_driver
from mission_tui.fleet.views.snapshot import FleetSnapshot, OtherRoot, Replay, RunView
from mission_tui.ipc import replies, requests
from mission_tui.ipc.requests import Request
from mission_tui.tui.state.presets import PresetChoice
from tests.faults.hostile.texts import MARK
from tests.tui.fleets import BUSY, ENDED, KL_FINDING, NAN_FINDING, NOW, TRIAL, a_fleet, queued
from tests.tui.poison import Poison
from tests.tui.sides import a_side
from tests.tui.stage import Stage

__all__ = ["BEGUN", "Text", "answer_foreign", "foreign_fleet", "foreign_presets"]

BEGUN = "z"
"""What a name begins with that is offered to who types it."""
LOG_LINES = 60
DRIVER_AT = 5
"""Which of the runs drives a search."""

Text = Callable[[], str]


def foreign_presets(text: Text) -> tuple[PresetChoice, ...]:
    """One that can be started, one whose name cannot be, and one that is broken."""
    named = PresetChoice(MARK + text(), text(), "3")
    return PresetChoice("usable", text(), "1"), named, PresetChoice("broken", key="2", error=text())


def foreign_fleet(text: Text, luck: random.Random, revision: int, *, replay: bool) -> FleetSnapshot:
    """Live runs, one that waits, ended ones, and a machine; no two strings are the same."""
    poison = Poison(text, luck)
    late = EnvWorkers(4, 1, (LateWorker(2, 4711, 31.0),), None, (101, 102, 103, 104), (0.001, 0.002, 0.004, 0.001))
    ill = structs.replace(BUSY.runs[0], findings=(KL_FINDING, NAN_FINDING), workers=late, trials=(TRIAL,))
    runs = tuple(poison.poisoned(view) for view in (ill, *BUSY.runs[1:3], queued("beast-0c1d"), *ENDED))
    findings = tuple(structs.replace(it, signal=KL_FINDING.signal) for it in runs[0].findings)
    fleet = poison.poisoned(a_fleet(revision=revision))
    # Alive, and on the machine that the launch form means: else its name is not offered there.
    where = fleet.hosts[0].name if fleet.hosts else ""
    offered = structs.replace(
        runs[0], name=BEGUN + MARK + text(), state=ill.state, host=where, unheard_since=None, findings=findings
    )
    driver = structs.replace(runs[DRIVER_AT], preset=DRIVER + text())
    calm = structs.replace(runs[1], findings=())  # of whom the screen says something else
    shown = (offered, calm, *runs[2:DRIVER_AT], driver, *runs[DRIVER_AT + 1 :])
    fleet = structs.replace(fleet, revision=revision, runs=shown)
    span = Replay(NOW - 7200.0, NOW + 3600.0) if replay else None
    return structs.replace(fleet, elsewhere=(OtherRoot(root=text()), OtherRoot(root=text())), replay=span)


def answer_foreign(stage: Stage, text: Text, luck: random.Random, *, refuses: bool = True) -> None:
    """Whatever the supervisor is asked, it answers with foreign text; of eight questions it refuses one, if any."""
    client, poison = stage.client, Poison(text, luck)
    usual = type(client)._answer
    client.progress = [replies.Progress(re=0, done=3, total=100, note=text())]

    def answer(request: Request) -> Any:
        if refuses and luck.randrange(8) == 0:
            return replies.Refused(re=request.id, message=text())
        match request:
            case requests.Clone():
                return replies.Accepted(re=request.id, runs=(), notes=(text(),))
            case requests.Compare(by=by):
                sides = [a_side(poison.poisoned(view), 1 + at, 2.0) for at, view in enumerate(_views(stage)[:3])]
                found = compare(sides, RETURN, by, 200.0)
                return replies.ComparisonReply(re=request.id, comparison=msgspec.to_builtins(found))
            case requests.Clean():
                ours = replies.LeftoverRow(key="1", kind="process", verdict="ours", pid=7)
                stale = (ours, replies.LeftoverRow(key="2", kind="file", verdict="unverifiable"))
                return replies.CleanReply(re=request.id, stale=tuple(poison.poisoned(each) for each in stale))
            case requests.GetLog(run=run):
                lines = "\n".join(text() for _ in range(LOG_LINES))
                return replies.LogReply(re=request.id, run=run, attempt=1, text=lines, start=0, end=10, size=10)
            case requests.GetStrip():
                # A day of the fake's phases would take longer than all the rest of a round.
                return poison.poisoned(usual(client, structs.replace(request, seconds=min(900.0, request.seconds))))
            case requests.GoTo(t=t):
                there = structs.replace(client.snapshot, t=t, revision=client.snapshot.revision + 1)
                client.show(there)
                return replies.SnapshotReply(re=request.id, snapshot=there)
            case requests.GetDetails(run=run):
                details = poison.poisoned(usual(client, request))
                drives = any(view.id == run and is_driver(view.preset) for view in _views(stage))
                # With what a search has come to a run shows that instead of its charts.
                return details if drives else structs.replace(details, search=None)
            case _:
                return poison.poisoned(usual(client, request))

    setattr(client, "_answer", answer)  # noqa: B010 - instead of the fake's own


def _views(stage: Stage) -> tuple[RunView, ...]:
    return stage.client.snapshot.runs
