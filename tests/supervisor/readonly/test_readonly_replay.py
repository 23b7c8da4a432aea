"""A replay as its client sees it: another process that goes where it is told, and changes nothing."""

from __future__ import annotations

import time

import pytest

from mission_tui.errors import UsageError
from mission_tui.ipc.client import Connection
from mission_tui.ipc.replies import AttemptView, CheckpointView, DetailsReply, SnapshotReply
from mission_tui.ipc.requests import Act, Compare, GetDetails, GetEnded, GetHistory, GetSnapshot, GetStrip, GoTo, Watch
from mission_tui.supervisor.readonly.replay import details_at
from tests.supervisor.conftest import Lab, stub_spec
from tests.supervisor.readonly.test_readonly_server import SERIES, tree
from tests.supervisor.verbs.test_strip import strip_shown
from tests.tui.fleets import a_fleet
from tests.waiting import until


@pytest.mark.slow
def test_a_fleet_is_played_back(lab: Lab) -> None:
    """First the run waits, then it learns, then it has ended as its supervisor said; nothing is written."""
    before_t = time.time()
    (run,) = lab.launch(spec=stub_spec(64 * 30))
    told = lab.ended(run)
    lab.kill_supervisor()
    files = tree(lab.root)
    with Connection.connect_readonly(lab.root, at=before_t) as replay:
        (seen,) = replay.ask(lambda id_: GetSnapshot(id=id_)).snapshot.runs
        assert (seen.state, seen.update) == ("queued", None)
        end = replay.ask(lambda id_: GoTo(id=id_, t=time.time())).snapshot
        (seen,) = end.runs
        for fact in ("name", "state", "outcome", "cause", "update", "metrics", "series", "last_checkpoint", "ended_t"):
            assert getattr(seen, fact) == getattr(told, fact), fact
        whole = replay.ask(lambda id_: GetHistory(id=id_, run=run, series=SERIES))
        middle_t = whole.t[len(whole.t) // 2]
        (seen,) = replay.ask(lambda id_: GoTo(id=id_, t=middle_t)).snapshot.runs
        assert (seen.state, seen.outcome, seen.ended_t) == ("running", None, None)
        half = replay.ask(lambda id_: GetHistory(id=id_, run=run, series=SERIES))
        assert half.updates == whole.updates[: len(half.updates)]
        assert half.t[-1] == middle_t
        details = replay.ask(lambda id_: GetDetails(id=id_, run=run))
        assert [attempt.outcome for attempt in details.attempts] == [None]
        assert replay.ask(lambda id_: GetEnded(id=id_)).total == 0
    assert tree(lab.root) == files


@pytest.mark.slow
def test_meters_and_strip_are_those_that_were_kept(idle_lab: Lab) -> None:
    """What a supervisor wrote: processors and phases as they were at a moment, and nothing of what came after it."""
    idle_lab.start()
    (run,) = idle_lab.launch(STUB_PHASES="0.3,0.2")
    idle_lab.running(run, 3)
    begun_t = time.time()
    cell, *_ = until(lambda: [cell for cell in strip_shown(idle_lab).cpu[:-1] if cell.t > begun_t], 30)
    idle_lab.act("stop", run)
    idle_lab.ended(run)
    assert idle_lab.supervisor is not None
    idle_lab.supervisor.terminate()
    idle_lab.supervisor.wait()
    moment = cell.t + 0.6
    with Connection.connect_readonly(idle_lab.root, at=moment) as replay:
        host = replay.ask(lambda id_: GetSnapshot(id=id_)).snapshot.host
        assert host.cpu_percent == pytest.approx(cell.mean, abs=0.1)
        strip = replay.ask(lambda id_: GetStrip(id=id_, seconds=60.0, most=1000)).strip
        assert strip.until == moment
        assert [lane.run for lane in strip.lanes] == [run]
        assert strip.lanes[0].spans[-1].until <= moment
        assert strip.cpu[-1].t <= moment


def test_who_watches_sees_every_going(lab: Lab) -> None:
    """Also a going that changes no run."""
    with Connection.connect_readonly(lab.root, at=1.0) as replay:
        first = replay.stream(lambda id_: Watch(id=id_))
        reply = next(first)
        assert isinstance(reply, SnapshotReply)
        assert reply.snapshot.replay is not None


def test_nothing_can_be_done_there(lab: Lab) -> None:
    """In a sentence; a supervisor goes to no other moment."""
    with Connection.connect_readonly(lab.root, at=time.time()) as replay:
        with pytest.raises(UsageError, match="nothing can be changed in it"):
            replay.ask(lambda id_: Act(id=id_, verb="kill", runs=("@live",)))
        with pytest.raises(UsageError, match="cannot be compared in a replay"):
            replay.ask(lambda id_: Compare(id=id_, runs=("@last",)))
    with pytest.raises(UsageError, match="mission-tui replay"):
        lab.ask(lambda id_: GoTo(id=id_, t=1.0))


def test_details_are_those_of_the_moment() -> None:
    """Checkpoints, evaluations and attempts that were still to come are left out, and an end that was too."""
    attempts = tuple(
        AttemptView(
            attempt=number, started_t=100.0 * number, ended_t=100.0 * number + 50, outcome="stopped", cause="asked",
            from_checkpoint=None, from_timesteps=0,
        )
        for number in (1, 2, 3)
    )  # fmt: skip
    checkpoints = tuple(
        CheckpointView(name=str(t), update=1, timesteps=1, t=float(t), size_bytes=1, reason="time") for t in (140, 240)
    )
    reply = DetailsReply(
        re=1, view=a_fleet().runs[0], spec=stub_spec(), attempts=attempts, checkpoints=checkpoints,
        evaluations=({"t": 130.0}, {"t": 230.0}),
    )  # fmt: skip
    then = details_at(reply, 220.0)
    assert [(it.attempt, it.outcome) for it in then.attempts] == [(1, "stopped"), (2, None)]
    assert [it.name for it in then.checkpoints] == ["140"]
    assert len(then.evaluations) == 1
