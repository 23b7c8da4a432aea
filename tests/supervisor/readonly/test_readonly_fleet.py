"""Runs as seen by somebody who only reads their files: what those say, what is supposed, and what cannot be read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from mission_tui.fleet.events.journal import AttemptEnded, AttemptStarting, FleetEvent, RunCreated
from mission_tui.fleet.events.outcome import Finished
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.procfs import boot_id
from mission_tui.records.atomic import write_json
from mission_tui.records.jsonl import AppendLog
from mission_tui.records.runs.attempt import Handle, Identity, ProcessIdentity
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.readonly import server
from mission_tui.supervisor.readonly.server import ENDED_LOOKS, ReadonlyFleet
from mission_tui.supervisor.runs import run_on_disk
from mission_tui.supervisor.runs.run_on_disk import SHORT_BYTES, RunOnDisk, reading_run
from tests.waiting import until

RUN = "20261121-104207-heavy-3f9a"
GONE = ProcessIdentity(pid=os.getpid(), start_time=1)
"""The number of a process that lives, and the start of another."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No supervisor is given time to write an end down."""
    monkeypatch.setattr(server, "GONE_S", -1.0)


def journal(run: RunDir, *makes: Callable[[int], FleetEvent]) -> None:
    """Write on in the run's journal."""
    run.path.mkdir(exist_ok=True)
    log = AppendLog(run.events)
    for make in makes:
        log.append(make)
    log.close()


def begun(root: Path, boot: str) -> RunDir:
    """A run whose attempt began, under processes that are gone."""
    run = RunDir(root / RUN)
    journal(run, lambda seq: RunCreated(seq, 1.0, "heavy", "heavy"), lambda seq: AttemptStarting(seq, 2.0, 1))
    run.attempt(1).path.mkdir(parents=True)
    identity = Identity(boot_id=boot, uid=0, session=1, nonce="n", attempt=1, keeper=GONE, trainer=GONE, started_t=2.0)
    write_json(run.attempt(1).identity, identity)
    return run


def look(runs: ReadonlyFleet, times: int = 3) -> RunView:
    """The one run, after a few looks."""
    for _ in range(times):
        runs.poll()
    (view,) = runs.store.snapshot(0.0).runs
    return view


def test_an_end_that_nobody_wrote_down_is_supposed_until_the_journal_goes_on(tmp_path: Path) -> None:
    """What the journal then says counts, as if nothing had been supposed."""
    run, runs = begun(tmp_path, boot_id()), ReadonlyFleet(tmp_path)
    view = look(runs)
    assert (view.state, view.outcome) == ("ended", "lost")
    assert "how it ended is not known" in (view.cause or "")
    journal(run, lambda seq: AttemptEnded(seq, 3.0, 1, Finished("000000009")))
    view = look(runs)
    assert (view.outcome, view.cause, view.last_checkpoint) == ("finished", "reached its budget", "000000009")
    assert runs.live == {}


def test_processes_of_another_boot_or_machine_are_not_judged(tmp_path: Path) -> None:
    """A shared disk shows runs of other machines: the run is flagged, and said to be as its journal says."""
    begun(tmp_path, "another")
    view = look(ReadonlyFleet(tmp_path))
    assert (view.state, view.flags) == ("starting", ("unverifiable",))


def test_a_run_of_another_launcher_is_where_it_says(tmp_path: Path) -> None:
    """Its processes are meant to be of another machine: that is no riddle, and nobody supposes an end."""
    run = begun(tmp_path, "another")
    write_json(run.attempt(1).handle, Handle(launcher="slurm", id="4711", submitted_t=1.0))
    view = look(ReadonlyFleet(tmp_path))
    assert (view.state, view.flags) == ("starting", ())


def test_a_run_that_cannot_be_read_is_named_and_known_once_it_can(tmp_path: Path) -> None:
    """Others are shown all the same; its id tells its name and when it was made."""
    run = RunDir(tmp_path / RUN)
    run.events.mkdir(parents=True)
    runs = ReadonlyFleet(tmp_path)
    view = look(runs)
    assert (view.state, view.outcome, view.name) == ("ended", "lost", "heavy-3f9a")
    assert "it cannot be read from here" in (view.cause or "")
    run.events.rmdir()
    begun(tmp_path, "another")
    assert look(runs, ENDED_LOOKS + 1).state == "starting"


def test_a_run_that_ended_and_goes_on_is_followed_again(tmp_path: Path) -> None:
    """A resume is seen within a few looks."""
    run, runs = begun(tmp_path, boot_id()), ReadonlyFleet(tmp_path)
    journal(run, lambda seq: AttemptEnded(seq, 3.0, 1, Finished("000000009")))
    assert look(runs).outcome == "finished"
    journal(run, lambda seq: AttemptStarting(seq, 4.0, 2))
    assert look(runs, ENDED_LOOKS + 1).attempt == 2


def test_runs_come_and_go_with_their_folders(tmp_path: Path) -> None:
    """And a root that vanishes stays as it was last seen."""
    runs = ReadonlyFleet(tmp_path)
    runs.poll()
    assert runs.store.snapshot(0.0).runs == ()
    begun(tmp_path, "another")
    assert look(runs).id == RUN
    shutil.rmtree(tmp_path / RUN)
    runs.poll()
    assert runs.store.snapshot(0.0).runs == ()
    begun(tmp_path, "another")
    look(runs)
    shutil.rmtree(tmp_path)
    assert look(runs).id == RUN
    tmp_path.mkdir()


def endless(run: RunDir) -> Generator[None, None, RunOnDisk]:
    """A journal that is never read to its end, where it is long."""
    while run.events.stat().st_size > SHORT_BYTES:
        yield
    return (yield from reading_run(run))


def test_a_journal_without_end_costs_its_own_row_and_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All others are known before it is begun, and it is given up after a while with the reason."""
    short = begun(tmp_path, boot_id())
    long = RunDir(tmp_path / "20261121-104206-heavy-0000")
    shutil.copytree(short.path, long.path)
    with long.events.open("ab") as file:
        file.write(b"x" * SHORT_BYTES)
    monkeypatch.setattr(run_on_disk, "reading_run", endless)
    monkeypatch.setattr(ReadonlyFleet, "most_s", 0.0)
    runs = ReadonlyFleet(tmp_path)
    steps = runs.taking_in()
    until(lambda: next(steps, None) is None and runs.unread == 1)
    assert set(runs.store.run_ids()) == {short.id}
    for _ in steps:
        pass
    assert runs.unread == 0
    causes = {view.id: view.cause or "" for view in runs.store.snapshot(0.0).runs}
    assert "reading it took more than 0 s" in causes[long.id]
