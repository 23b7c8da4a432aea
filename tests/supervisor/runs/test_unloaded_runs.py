"""Of older runs only the ends are known, also of those that ended in this supervisor's life; views of them that are
kept spare reading, and are never told of files that were changed."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.fleet import store
from mission_tui.fleet.events.journal import AttemptEnded, AttemptStarting, FleetEvent, RunCreated
from mission_tui.fleet.events.metrics import TrainingEnded, TrainingStarted, UpdateDone
from mission_tui.fleet.events.outcome import Failed
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Accepted, NamedReply
from mission_tui.ipc.requests import GetNamed, GetPage, Note, Remove, Resume
from mission_tui.ipc.sockets import encode
from mission_tui.keeper.files import exit_record, write_json
from mission_tui.records.atomic import StorageError
from mission_tui.records.jsonl import encode_line, read_all
from mission_tui.records.runs.attempt import LaunchOrder, write_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.seal import Seals
from mission_tui.supervisor.launchers.local import LocalLauncher
from mission_tui.supervisor.lifecycle import adoption
from mission_tui.supervisor.lifecycle.adoption import QUIET_S, taking_in, view_of_waiting
from mission_tui.supervisor.request_dispatcher import RequestDispatcher
from mission_tui.supervisor.runs import registry, run_on_disk
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.journal import RunJournal
from mission_tui.supervisor.runs.run_on_disk import finish
from tests.faults.simulated import NoGpu
from tests.supervisor.conftest import stub_spec
from tests.supervisor.simulated_lab import SimulatedLab

OLDER = 3


class Opened:
    """How many files were opened by this process."""

    def __init__(self) -> None:
        self.count = 0
        self.counts = True

    def hear(self, event: str, _arguments: object) -> None:
        self.count += self.counts and event == "open"


@contextmanager
def opens() -> Iterator[Opened]:
    """Counts what is opened within."""
    opened = Opened()
    sys.addaudithook(opened.hear)
    try:
        yield opened
    finally:
        opened.counts = False  # no such hook can be taken back


@pytest.fixture
async def core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Core:
    """A supervisor's, over `OLDER` ended runs of which none is loaded."""
    monkeypatch.setattr(run_on_disk, "SNAPSHOT_ENDED", 0)
    root, seals = tmp_path / "runs", Seals.of(os.environ)
    for number in range(OLDER):
        make_ended(RunDir(root / f"20260101-00000{number}-old-0000"), float(number), seals)
    (root / ".supervisor").mkdir()
    core = Core(root, {"local": LocalLauncher()})
    core.machine.gpu = NoGpu()  # type: ignore[assignment]
    finish(taking_in(core))
    assert len(core.waiting) == OLDER
    return core


def make_ended(run: RunDir, t: float, seals: Seals) -> None:
    """A run of ours that failed."""
    run.attempt(1).path.mkdir(parents=True)
    write_spec(run.spec, stub_spec())
    seals.write_order(run, LaunchOrder(run=run.id, attempt=1, argv=("x",), cwd="/", env={}, nonce="0" * 32))
    failed = Failed(kind="crash", cause="exit code 1", checkpoint=None)
    events = (RunCreated(1, t, "old", "stub"), AttemptStarting(2, t, 1), AttemptEnded(3, t + 9.0, 1, failed))
    run.events.write_bytes(b"".join(map(encode_line, events)))
    row = UpdateDone(2, 1, 1, 64, t + 5.0, 1.0, 1.0, 32.0, {"train/approx_kl": "nan"})
    rows = (TrainingStarted(1, 1, t), row, TrainingEnded(3, 1, 1, 64, t + 8.0, "finished"))
    run.metrics.write_bytes(b"".join(map(encode_line, rows)))
    write_json(run.attempt(1).exit, exit_record(1, code=1))


async def test_what_was_read_before_is_not_opened_again(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is the same to the byte when asked for again, no file is opened for it, and no other run is looked at."""
    dispatcher, pages = RequestDispatcher(core), []
    monkeypatch.setattr(core.store, "snapshot", None)

    async def ask() -> None:
        page = await dispatcher._page(GetPage(id=1, limit=OLDER))
        pages.append(encode(structs.replace(page, snapshot=structs.replace(page.snapshot, revision=0, t=0.0))))

    older = list(core.waiting)
    await ask()
    with opens() as opened:
        for run_id in older:
            view_of_waiting(core, run_id)
    assert opened.count == 0
    await ask()
    assert pages[0] == pages[1]
    assert list(core.waiting) == older


def append(run: RunDir) -> None:
    with run.metrics.open("ab") as file:
        file.write(b"noise\n")


def move_attempts(run: RunDir) -> None:
    folder = run.path / "attempts"
    folder.rename(run.path / "elsewhere")
    folder.symlink_to("elsewhere")


def open_to_others(run: RunDir) -> None:
    run.path.chmod(0o777)


def change_spec(run: RunDir) -> None:
    """Back to the same size and the same time."""
    before = run.spec.stat()
    run.spec.write_bytes(run.spec.read_bytes().replace(b"total_timesteps", b"total_timestepz"))
    os.utime(run.spec, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    ("change", "flags"),
    [
        (append, ("damaged",)),
        (move_attempts, ("foreign",)),
        (open_to_others, ("foreign",)),
        (change_spec, ("damaged",)),
    ],
)
async def test_a_run_that_was_changed_is_read_anew(
    core: Core, change: Callable[[RunDir], None], flags: tuple[str, ...]
) -> None:
    """Whatever was done to its files or folders, what is said of a run is true."""
    run_id = next(iter(core.waiting))
    assert view_of_waiting(core, run_id).flags == ()
    change(core.run_dir(run_id))
    with opens() as opened:
        assert view_of_waiting(core, run_id).flags == flags
    assert opened.count > 0


async def test_of_more_than_there_is_room_for_those_that_were_asked_for_stay(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is only looked at in passing takes nobody's place; what is asked for takes that of the longest unasked."""
    monkeypatch.setattr(registry, "MOST_UNLOADED", 2)
    first, second, third = core.waiting

    def read(run_id: str, *, asked: bool) -> bool:
        with opens() as opened:
            view_of_waiting(core, run_id, asked=asked)
        return opened.count > 0

    assert [read(run_id, asked=False) for run_id in (first, second, third, first)] == [True, True, True, False]
    assert read(third, asked=True)
    assert [read(run_id, asked=False) for run_id in (third, first, second)] == [False, False, True]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot shows one ended run."""
    monkeypatch.setattr(store, "SNAPSHOT_ENDED", 1)


def over(sim: SimulatedLab, count: int) -> list[str]:
    """So many runs that have ended, the first to end first."""
    runs = []
    for _ in range(count):
        runs += sim.launch(STUB_ENDS_AT="2")
        sim.ended(runs[-1])
    return runs


def put_away(sim: SimulatedLab, *runs: str) -> None:
    """Wait until the runs are unloaded."""
    sim.until(lambda: sim.core.waiting.keys() >= {*runs}, QUIET_S, "they are unloaded")


def named(sim: SimulatedLab, *runs: str) -> tuple[RunView, ...]:
    """What is said of the runs, but for the bytes of their files, which are counted now and then."""
    reply = sim.ask(lambda id_: GetNamed(id=id_, refs=runs))
    assert isinstance(reply, NamedReply)
    return tuple(structs.replace(view, size_bytes=None) for view in reply.runs)


@pytest.mark.usefixtures("shown")
def test_runs_that_end_in_a_supervisors_life_are_unloaded(sim: SimulatedLab) -> None:
    """Only what a snapshot shows stays in memory; of the others the same is said as before, and each can go on."""
    first, second, third = over(sim, 3)
    before = named(sim, first, second)
    put_away(sim, first, second)
    assert third not in sim.core.waiting
    assert sim.core.fetched.keys() | sim.core.launched.keys() == {third}
    assert named(sim, first, second) == before
    more = ("run.total_timesteps=1000",)
    assert isinstance(sim.ask(lambda id_: Resume(id=id_, run=first, assignments=more)), Accepted)
    assert sim.running(first, 3).attempt == 2


@pytest.mark.usefixtures("shown")
def test_a_run_that_is_shown_since_newer_ones_were_removed_is_read_again(sim: SimulatedLab) -> None:
    """The list has its numbers, not its name and end alone."""
    first, second = over(sim, 2)
    put_away(sim, first)
    assert [view.id for view in sim.snapshot().runs] == [second]
    sim.ask(lambda id_: Remove(id=id_, runs=(second,)))
    view = sim.wait(first, lambda view: view.update is not None)
    assert (view.update, view.metrics["rollout/ep_rew_mean"]) == (2, 0.2)


@pytest.mark.usefixtures("shown")
def test_what_is_journaled_of_an_unloaded_run_follows_its_last_event(sim: SimulatedLab) -> None:
    """Be it a note of a person or what came of a duty that took longer: no number is used twice."""
    run, _ = over(sim, 2)
    sim.ask(lambda id_: Note(id=id_, run=run, text="before"))
    put_away(sim, run)
    sim.core.fail_for(run, "tracking", "nobody answers")
    sim.core.done_for(run, "tracking")
    put_away(sim, run)
    sim.ask(lambda id_: Note(id=id_, run=run, text="after"))
    events, damage = read_all(sim.dir(run).events, FleetEvent)
    assert not damage
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [type(event).__name__ for event in events[-3:]] == ["DutyFailureSeen", "DutyDoneSeen", "RunNoted"]


@pytest.mark.usefixtures("shown")
def test_what_somebody_asked_for_a_moment_ago_stays_in_memory(sim: SimulatedLab) -> None:
    """A request may take minutes: until then the run is known as a whole."""
    run, _ = over(sim, 2)
    for _ in range(4):
        sim.sleep(QUIET_S / 2)
        assert run not in sim.core.waiting
        named(sim, run)
    put_away(sim, run)


@pytest.mark.usefixtures("shown")
def test_what_the_disk_has_not_taken_stays_in_memory(sim: SimulatedLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose last events wait for room is not put away before they are written."""

    def refuse(journal: RunJournal, make: object, t: float) -> None:
        raise StorageError(f"{journal} cannot be written", errno.EIO)

    run, _ = over(sim, 2)
    with monkeypatch.context() as full:
        full.setattr(RunJournal, "_write", refuse)
        sim.core.fail_for(run, "tracking", "nobody answers")
        sim.core.done_for(run, "tracking")
        sim.sleep(2 * QUIET_S)
        assert run in sim.core.unwritten
        assert run not in sim.core.waiting
    put_away(sim, run)


@pytest.mark.usefixtures("shown")
def test_what_a_short_process_works_with_stays_in_memory(sim: SimulatedLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluation of very many episodes may take an hour, and writes down then what came of it."""
    run, other, _ = over(sim, 3)
    monkeypatch.setattr(adoption, "task_about", lambda run_id: "evaluate" if run_id == run else None)
    put_away(sim, other)
    sim.sleep(2 * QUIET_S)
    assert run not in sim.core.waiting
    monkeypatch.setattr(adoption, "task_about", lambda run_id: None)
    put_away(sim, run)
