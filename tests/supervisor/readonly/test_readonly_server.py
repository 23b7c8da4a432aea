"""Looking at a runs root through its files alone: the same facts as its supervisor tells, and not a byte changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mission_tui.errors import UsageError
from mission_tui.fleet.events.journal import Asked, RunCreated
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView
from mission_tui.ipc.client import Connection
from mission_tui.ipc.replies import SnapshotReply
from mission_tui.ipc.requests import Act, GetAdoptable, GetDetails, GetHistory, GetLog, GetSnapshot, Watch
from mission_tui.records.jsonl import AppendLog, encode_line
from mission_tui.records.runs.attempt import write_spec
from mission_tui.records.runs.layout import RunDir
from tests.supervisor.conftest import Lab, end, stub_spec
from tests.waiting import until

SERIES = ("rollout/ep_rew_mean",)


def snapshot(onlooker: Connection) -> FleetSnapshot:
    return onlooker.ask(lambda id_: GetSnapshot(id=id_)).snapshot


def view(onlooker: Connection, run: str) -> RunView | None:
    """The run as it is seen from outside, if it is."""
    return next((view for view in snapshot(onlooker).runs if view.id == run), None)


def updates(onlooker: Connection, run: str) -> int:
    """How many it has done, as seen from outside."""
    seen = view(onlooker, run)
    return (seen.update or 0) if seen is not None else 0


def tree(root: Path) -> dict[str, tuple[int, int, int]]:
    """Every file and folder below `root`, with size, mode and the moment of its last change."""
    paths = [root, *root.rglob("*")]
    return {str(it): (it.lstat().st_size, it.lstat().st_mode, it.lstat().st_mtime_ns) for it in paths}


@pytest.fixture(autouse=True)
def same_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Who looks from here has the secret that the lab's supervisor seals with."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def onlooker(lab: Lab) -> Iterator[Connection]:
    """Somebody who looks at the files of the lab."""
    with Connection.connect_readonly(lab.root) as connection:
        yield connection


def test_the_files_tell_what_the_supervisor_tells(lab: Lab) -> None:
    """Of an ended run everything is equal: its view, its details, its curve and its output."""
    (run,) = lab.launch()
    lab.running(run, 5)
    lab.act("stop", run)
    told = lab.ended(run)
    with Connection.connect_readonly(lab.root) as onlooker:
        seen = view(onlooker, run)
        assert seen is not None
        for fact in ("name", "state", "outcome", "cause", "update", "metrics", "series", "seed", "last_checkpoint"):
            assert getattr(seen, fact) == getattr(told, fact), fact
        for make in (
            lambda id_: GetDetails(id=id_, run=run),
            lambda id_: GetHistory(id=id_, run=run, series=SERIES),
            lambda id_: GetLog(id=id_, run=run),
        ):
            ours, theirs = onlooker.ask(make), lab.ask(make)
            for field in set(type(ours).__struct_fields__) - {"re", "view"}:
                assert getattr(ours, field) == getattr(theirs, field), field
        assert snapshot(onlooker).supervisor.pid is None


def test_output_is_there_without_a_journal(tmp_path: Path) -> None:
    """A journal that is lost knows of no attempt; what the newest one printed is read all the same."""
    run = RunDir(tmp_path / "20261121-104207-tiny-3f9a")
    run.attempt(2).path.mkdir(parents=True)
    run.attempt(2).output.write_text("words\n")
    write_spec(run.spec, stub_spec(64))
    with Connection.connect_readonly(tmp_path) as onlooker:
        reply = onlooker.ask(lambda id_: GetLog(id=id_, run=run.id))
    assert (reply.attempt, reply.text) == (2, "words\n")


@pytest.mark.slow
def test_a_live_run_is_followed(lab: Lab, onlooker: Connection) -> None:
    """A run that is launched appears, advances with its processes, and ends, as it does at its supervisor's."""
    assert snapshot(onlooker).runs == ()
    (run,) = lab.launch()
    first = until(lambda: updates(onlooker, run), 20, "it appears")
    until(lambda: updates(onlooker, run) > first, 20, "it advances")
    seen = view(onlooker, run)
    assert seen is not None
    assert (seen.state, seen.pids.trainer) == ("running", lab.view(run).pids.trainer)
    lab.act("stop", run)
    until(lambda: (seen := view(onlooker, run)) and seen.outcome == "stopped", 20, "it ends")


def test_who_watches_is_sent_what_changes(lab: Lab, onlooker: Connection) -> None:
    """Without asking again."""
    (run,) = lab.launch()
    for reply in onlooker.stream(lambda id_: Watch(id=id_)):
        if isinstance(reply, SnapshotReply) and any((seen.update or 0) > 3 for seen in reply.snapshot.runs):
            assert reply.snapshot.runs[0].id == run
            break


@pytest.mark.slow
def test_nothing_is_written_started_or_listened_at(lab: Lab) -> None:
    """With ended runs, one that was cut short and no supervisor, a look changes nothing below the runs root."""
    done, cut = lab.launch(2)
    lab.running(done)
    lab.running(cut)
    lab.act("stop", done)
    lab.ended(done)
    family = lab.family(cut)
    lab.kill_supervisor()
    end(family)
    before = tree(lab.root)
    with Connection.connect_readonly(lab.root) as onlooker:
        until(lambda: (seen := view(onlooker, cut)) and seen.outcome == "lost", 20, "its end is supposed")
        onlooker.ask(lambda id_: GetDetails(id=id_, run=cut))
        assert tree(lab.root) == before
        assert not lab.answers()
        lab.start()
        told = lab.ended(cut)
        until(lambda: (seen := view(onlooker, cut)) and seen.cause == told.cause, 20, "what was recorded is shown")


def test_what_would_change_something_is_refused(lab: Lab, onlooker: Connection) -> None:
    """In a sentence; the run goes on."""
    (run,) = lab.launch()
    lab.running(run)
    with pytest.raises(UsageError, match="nothing can be changed"):
        onlooker.ask(lambda id_: Act(id=id_, verb="kill", runs=(run,)))
    assert lab.view(run).state == "running"


def test_it_ends_with_its_client(lab: Lab) -> None:
    """No process is left when the link is closed."""
    with Connection.connect_readonly(lab.root) as onlooker:
        pid = onlooker.welcome.pid
        assert pid != os.getpid()
    until(lambda: not psutil.pid_exists(pid), 10, "it is gone")


def test_a_root_that_is_none_is_refused(tmp_path: Path) -> None:
    """Nothing is made of it either."""
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        Connection.connect_readonly(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


@pytest.mark.slow
def test_who_looks_does_not_wait_for_one_long_journal(lab: Lab) -> None:
    """The fleet is shown after a moment, with how many directories are missing; who names that run waits for it."""
    (run,) = lab.launch()
    lab.running(run, 1)
    lab.act("kill", run)
    lab.ended(run)
    lab.kill_supervisor()
    long = RunDir(lab.root / "20260101-000000-long-0000")
    long.path.mkdir()
    log = AppendLog(long.events, sync_every_s=3600.0)
    log.append(lambda seq: RunCreated(seq, 1.0, "long", "stub"))
    log.close()
    with long.events.open("ab") as file:
        for seq in range(2, 360_000):
            file.write(encode_line(Asked(seq, 2.0, "pause", 1)))
    with Connection.connect_readonly(lab.root) as onlooker:
        first = snapshot(onlooker)
        assert ([seen.id for seen in first.runs], first.unread) == ([run], 1)
        details = onlooker.ask(lambda id_: GetAdoptable(id=id_, runs=("long",)))
        assert [item.run for item in details.items] == [long.id]
        assert snapshot(onlooker).unread == 0
