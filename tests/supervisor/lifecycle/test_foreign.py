"""Runs that were not launched here: shown as they are, never acted on, and like any other once they are adopted."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.events.journal import SettingsAsked
from mission_tui.fleet.views.played_frame import Canvas, PlayOrder
from mission_tui.ipc.replies import Adoptable, AdoptableReply, RemovableReply
from mission_tui.ipc.requests import (
    Act,
    Adopt,
    Clean,
    Clone,
    Evaluate,
    Export,
    Film,
    GetAdoptable,
    GetDetails,
    GetHistory,
    GetLog,
    GetTrash,
    Mark,
    Note,
    Play,
    Prune,
    Remove,
    Rename,
    Request,
    Resume,
    Set,
)
from mission_tui.plain_files import remove_tree
from mission_tui.records.atomic import write_json
from mission_tui.records.jsonl import AppendLog
from mission_tui.records.runs.attempt import Handle, TrackState, read_launch
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.seal import digest_of
from mission_tui.supervisor.launchers.local import LocalLauncher
from mission_tui.supervisor.lifecycle.adoption import taking_in
from mission_tui.supervisor.readonly import details as adoptable_query
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.run_on_disk import finish
from mission_tui.supervisor.verbs import importing as adopt_verb
from tests.records.test_plain_files import deep
from tests.supervisor.conftest import Lab, RunsRoot, stub_spec
from tests.supervisor.foreign import ForeignRoot, write_launch
from tests.supervisor.simulated_lab import SimulatedLab
from tests.waiting import until


@pytest.fixture
def lab(idle_lab: Lab) -> Lab:
    """A runs root that no supervisor has seen yet."""
    return idle_lab


@pytest.fixture
def sim(idle_sim: SimulatedLab) -> SimulatedLab:
    """The same, on a simulated machine."""
    return idle_sim


@pytest.fixture
def received(sim: SimulatedLab, tmp_path: Path, bystanders: list[subprocess.Popen[bytes]]) -> ForeignRoot:
    """A received runs root on a simulated machine, with a run for every road."""
    made = ForeignRoot(sim.root, tmp_path / "marks", stub_spec())
    made.every_road([process.pid for process in bystanders])
    return made


@pytest.fixture
def foreign(lab: Lab, tmp_path: Path, bystanders: list[subprocess.Popen[bytes]]) -> ForeignRoot:
    """A runs root that is not there yet for any supervisor, with a run for every road."""
    made = ForeignRoot(lab.root, tmp_path / "marks", stub_spec())
    made.every_road([process.pid for process in bystanders])
    return made


def asking(make: Callable[[int, str], Request], run: str, id_: int) -> Request:
    """The request about `run`, once its number is known."""
    return make(id_, run)


def stood(process: subprocess.Popen[bytes]) -> str:
    """The state letter of the process."""
    return Path(f"/proc/{process.pid}/stat").read_text().rsplit(") ", 1)[1][0]


@pytest.mark.slow
def test_looking_at_a_received_root_runs_nothing_and_shows_everything(
    lab: Lab, foreign: ForeignRoot, bystanders: list[subprocess.Popen[bytes]]
) -> None:
    """Each run is a row with its flag, its reason and its curve; nothing is started, signalled or written there."""
    before = {path: path.read_bytes() for path in lab.root.rglob("*") if path.is_file()}
    lab.start()
    beats = time.monotonic() + 7.0  # longer than an attempt without a keeper is waited for
    until(lambda: time.monotonic() > beats, 10)
    views = {view.id: view for view in lab.snapshot().runs}
    assert sorted(views) == sorted(foreign.made)
    for view in views.values():
        assert (view.state, "foreign" in view.flags) == ("ended", True)
        assert "foreign: it carries no seal" in (view.cause or "")
        assert (view.update, view.series["rollout/ep_rew_mean"]) == (3, (1.0, 2.0, 3.0))
    assert foreign.ran() == []
    assert [process.poll() for process in bystanders] == [None, None]
    assert [stood(process) in "SR" for process in bystanders] == [True, True]
    assert {path: path.read_bytes() for path in before} == before
    now = {path for path in lab.root.rglob("*") if path.is_file() and ".supervisor" not in path.parts}
    assert now - before.keys() <= {lab.root / ".gitignore"}


def test_a_received_root_is_shown_and_nothing_of_it_is_started(sim: SimulatedLab, received: ForeignRoot) -> None:
    """The same as far as this process decides it, for longer than an attempt without a keeper is waited for."""
    before = {path: path.read_bytes() for path in sim.root.rglob("*") if path.is_file()}
    sim.start()
    sim.sleep(60.0)
    views = {view.id: view for view in sim.snapshot().runs}
    assert sorted(views) == sorted(received.made)
    for view in views.values():
        assert (view.state, view.update, "foreign" in view.flags) == ("ended", 3, True)
        assert "foreign: it carries no seal" in (view.cause or "")
    assert (sim.world.trainings, received.ran()) == ([], [])
    assert {path: path.read_bytes() for path in before} == before


def adoptable(lab: RunsRoot, *runs: str) -> tuple[Adoptable, ...]:
    """What the runs would run, as it is shown."""
    reply = lab.ask(lambda id_: GetAdoptable(id=id_, runs=runs))
    assert isinstance(reply, AdoptableReply)
    return reply.items


ACTS: dict[str, Callable[[int, str], Request]] = {
    "stop": lambda id_, run: Act(id=id_, verb="stop", runs=(run,)),
    "kill": lambda id_, run: Act(id=id_, verb="kill", runs=(run,)),
    "pause": lambda id_, run: Act(id=id_, verb="pause", runs=(run,)),
    "freeze": lambda id_, run: Act(id=id_, verb="freeze", runs=(run,)),
    "checkpoint": lambda id_, run: Act(id=id_, verb="checkpoint", runs=(run,)),
    "resume": lambda id_, run: Resume(id=id_, run=run, accept=True),
    "branch": lambda id_, run: Resume(id=id_, run=run, branch=True, accept=True),
    "set": lambda id_, run: Set(id=id_, run=run, assignments=("ppo.learning_rate=0.1",)),
    "clone": lambda id_, run: Clone(id=id_, run=run),
    "exact clone": lambda id_, run: Clone(id=id_, run=run, exact=True, accept=True),
    "evaluate": lambda id_, run: Evaluate(id=id_, run=run, accept=True),
    "play": lambda id_, run: Play(id=id_, run=run, order=PlayOrder(canvas=Canvas())),
    "export": lambda id_, run: Export(id=id_, run=run, path="/nowhere.zip"),
    "film": lambda id_, run: Film(id=id_, run=run, path="/nowhere.gif", accept=True),
    "rename": lambda id_, run: Rename(id=id_, run=run, name="other"),
    "note": lambda id_, run: Note(id=id_, run=run, text="mine"),
    "mark": lambda id_, run: Mark(id=id_, run=run, mark="silenced", rule="kl"),
}


def test_every_verb_that_acts_is_refused_with_the_way_out(sim: SimulatedLab, received: ForeignRoot) -> None:
    """Whatever is asked of a foreign run, the answer names the reason and `adopt`; nothing is run or journaled."""
    bare = sim.root / "20260101-000099-bare-0000"
    (bare / "checkpoints" / ".tmp-1").mkdir(parents=True)
    sim.start()
    journals = {run: sim.dir(run).events.read_bytes() for run in received.made}
    for word, make in ACTS.items():
        for run in received.made:
            with pytest.raises(UsageError, match=r"foreign: .*mission-tui adopt"):
                sim.ask(partial(asking, make, run))
            assert received.ran() == [], word
    assert {run: sim.dir(run).events.read_bytes() for run in received.made} == journals
    for run in received.made[1:]:
        sim.ask(partial(asking, lambda id_, run: GetDetails(id=id_, run=run), run))
        sim.ask(partial(asking, lambda id_, run: GetLog(id=id_, run=run), run))
    sim.ask(lambda id_: GetHistory(id=id_, run=received.made[0], series=("rollout/ep_rew_mean",)))
    assert sim.ask(lambda id_: Clean(id=id_)).stale == ()  # type: ignore[union-attr]


def test_an_adopted_run_is_like_any_other(lab: Lab, foreign: ForeignRoot) -> None:
    """What it would run is shown first, and only what was shown can be adopted; then it begins."""
    lab.start()
    queued = foreign.made[0]
    (item,) = adoptable(lab, queued)
    shown = {(row.kind, row.value) for row in item.rows}
    order, hook = foreign.shell("queued-order"), foreign.shell("queued-on-event")
    assert any(kind == "command" and order[2].split()[1] in value for kind, value in shown)
    assert any(kind == "on_event" and hook[2].split()[1] in value for kind, value in shown)
    assert {("environment", "CartPole-v1"), ("python", sys.executable)} <= shown
    assert any(kind == "variable" and value.startswith("PATH=") for kind, value in shown)
    with pytest.raises(UsageError, match="has changed since it was shown"):
        lab.ask(lambda id_: Adopt(id=id_, runs=(queued,), digests=("0" * 64,)))
    assert foreign.ran() == []
    lab.ask(lambda id_: Adopt(id=id_, runs=(queued,), digests=(item.digest,)))
    until(lambda: "queued-order" in foreign.ran(), 20, "the adopted run begins")
    ended = lab.wait(queued, lambda view: view.state == "ended")
    assert "foreign" not in ended.flags
    assert [mark for mark in foreign.ran() if not mark.startswith("queued")] == []
    with pytest.raises(UsageError, match="yours already"):
        adoptable(lab, queued)


def test_a_copied_run_is_foreign_and_the_original_is_not(sim: SimulatedLab) -> None:
    """A copy beside its original, also one that took its place, has another inode; its seal does not fit."""
    sim.start()
    (run,) = sim.launch(spec=stub_spec(64 * 3))
    sim.wait(run, lambda view: view.state == "ended")
    sim.kill_supervisor()
    copy = sim.root / f"{run[:-4]}ffff"
    shutil.copytree(sim.dir(run).path, copy, symlinks=True)
    sim.start()
    assert "foreign" not in sim.view(run).flags
    assert "foreign" in sim.view(copy.name).flags
    sim.kill_supervisor()
    shutil.rmtree(sim.dir(run).path)
    shutil.copytree(copy, sim.dir(run).path)
    sim.start()
    assert "it is a copy" in (sim.view(run).cause or "")


def test_specs_that_were_changed_since_the_launch_start_nothing(sim: SimulatedLab) -> None:
    """The run stays ours, is shown as damaged with the reason, and goes on once what it says now is adopted."""
    sim.start()
    (run,) = sim.launch(spec=stub_spec(64 * 3))
    sim.wait(run, lambda view: view.state == "ended")
    spec = sim.dir(run).spec
    spec.write_text(spec.read_text().replace("n_envs = 4", "n_envs = 8"))
    with pytest.raises(MissionError, match="was changed since it was launched") as refused:
        sim.ask(lambda id_: Resume(id=id_, run=run, assignments=("run.total_timesteps=1000",), accept=True))
    assert "foreign" not in str(refused.value)
    assert "put it back as it was, or `mission-tui adopt" in str(refused.value)
    sim.kill_supervisor()
    sim.start()
    view = sim.view(run)
    assert ("damaged" in view.flags, "foreign" in view.flags) == (True, False)
    (item,) = adoptable(sim, run)
    assert "spec.toml was changed" in item.why
    assert not item.foreign
    sim.ask(lambda id_: Adopt(id=id_, runs=(run,), digests=(item.digest,)))
    assert sim.view(run).n_envs == 8


def test_somebody_elses_name_stands_not_in_the_way_of_ours(sim: SimulatedLab, received: ForeignRoot) -> None:
    """A foreign run that is called like a living one of ours is not meant by that name, nor by `@last`."""
    sim.start()
    (run,) = sim.launch(name="queued")
    sim.running(run)
    assert sim.act("stop", "queued").runs == (run,)
    ended = sim.wait(run, lambda view: view.state == "ended")
    assert ended.outcome == "stopped"
    sim.ask(lambda id_: Remove(id=id_, runs=(run,)))
    sim.ask(lambda id_: Remove(id=id_, runs=("queued",)))
    assert received.ran() == []


@pytest.mark.usefixtures("no_spare_secret")
def test_another_secret_makes_everything_foreign(sim: SimulatedLab) -> None:
    """What another user, or this one on another machine, has launched is not ours although every file is the same."""
    sim.start()
    (run,) = sim.launch(spec=stub_spec(64 * 3))
    sim.wait(run, lambda view: view.state == "ended")
    sim.kill_supervisor()
    (Path(sim.environ["XDG_STATE_HOME"]) / "mission-tui" / "seal.key").unlink()
    sim.start()
    assert "its seal is not yours on this machine" in (sim.view(run).cause or "")


def test_nothing_of_what_would_run_is_left_out_of_the_sheet(sim: SimulatedLab, received: ForeignRoot) -> None:
    """A command behind five thousand blanks, or between the codes of a window title, is shown with the rest, and so are
    the run at a tracker that it would go on sending to, and the Ray that would be asked for its job with one's token.
    TensorBoard's files, which stay in its folder, are nothing sent.
    """
    run = sim.dir(received.made[2])
    write_json(run.track("tensorboard"), TrackState("tensorboard"))
    write_json(run.track("wandb"), TrackState("wandb", handle="mine\x1b[2J"))
    asked = Handle(launcher="ray", id="1", submitted_t=1e9, address="http://elsewhere:8265")
    write_json(run.attempt(1).handle, asked)
    order = read_launch(run.attempt(1).launch)
    assert order is not None
    hidden = "true #\x1b]0;\nrm -rf first\x07" + " " * 5000 + "; rm -rf second \u202e"
    write_launch(run.attempt(1).launch, structs.replace(order, argv=("/bin/sh", "-c", hidden)))
    sim.start()
    (item,) = adoptable(sim, run.id)
    (command,) = (row.value for row in item.rows if row.kind == "command")
    assert command.isprintable()
    for part in ("rm -rf first", "; rm -rf second", r"\x1b]0;\n", r"\u202e"):
        assert part in command
    sent = {row.value for row in item.rows if row.kind == "tracker"}
    assert sent == {r"sends settings and curves to what your wandb names, as its run mine\x1b[2J"}
    assert ("ray address", "http://elsewhere:8265") in {(row.kind, row.value) for row in item.rows}


def test_one_that_cannot_be_adopted_costs_no_other_anything(sim: SimulatedLab, received: ForeignRoot) -> None:
    """Without the order that counts, or with more than a person can read, a run is said and passed over."""
    unread, large = sim.dir(received.made[2]), sim.dir(received.made[3])
    unread.attempt(1).launch.write_text("{}")
    order = read_launch(large.attempt(1).launch)
    assert order is not None
    many = {f"V{number}": "x" * 3000 for number in range(400)}
    write_launch(large.attempt(1).launch, structs.replace(order, env=order.env | many))
    sim.start()
    items = {item.run: item for item in adoptable(sim)}
    assert sorted(items) == sorted(received.made)
    assert "its newest attempt, 1, cannot be read" in items[unread.id].why
    assert "characters to show" in items[large.id].why
    for run in (unread.id, large.id):
        assert items[run].digest == ""
        with pytest.raises(UsageError, match="has changed since it was shown"):
            sim.ask(partial(asking, lambda id_, run: Adopt(id=id_, runs=(run,), digests=("",)), run))
    ended = received.made[4]
    sim.ask(lambda id_: Adopt(id=id_, runs=(ended,), digests=(items[ended].digest,)))
    assert "foreign" not in sim.view(ended).flags


def test_more_sheets_than_one_answer_holds_come_in_several(sim: SimulatedLab) -> None:
    """Ten runs with half a million characters of variables each are all shown."""
    made = ForeignRoot(sim.root, sim.root.parent / "marks", stub_spec())
    many = {f"V{number}": "x" * 2000 for number in range(250)}
    for number in range(10):
        launch = made.run(f"wide-{number}").attempt(1).launch
        order = read_launch(launch)
        assert order is not None
        write_launch(launch, structs.replace(order, env=order.env | many))
    sim.start()
    shown: list[str] = []
    asked: tuple[str, ...] = ()

    def question(id_: int) -> GetAdoptable:
        return GetAdoptable(id=id_, runs=asked, every=True)

    while True:
        reply = sim.ask(question)
        assert isinstance(reply, AdoptableReply)
        shown += [item.run for item in reply.items if item.digest]
        asked = reply.more
        if not asked:
            break
    assert sorted(shown) == sorted(made.made)


def test_what_its_journal_sets_is_part_of_what_was_agreed_to(sim: SimulatedLab, received: ForeignRoot) -> None:
    """A hook that comes into the journal after the sheet was shown is not adopted with it."""
    run = sim.dir(received.made[1])
    sim.start()
    (item,) = adoptable(sim, run.id)
    journal = AppendLog(run.events)
    words = ("keep.health.on_event=touch later",)
    journal.append(lambda seq: SettingsAsked(seq, time.time(), 1, words))
    journal.close()
    with pytest.raises(UsageError, match="has changed since it was shown"):
        sim.ask(lambda id_: Adopt(id=id_, runs=(run.id,), digests=(item.digest,)))
    assert received.ran() == []


def test_of_two_who_adopt_a_run_at_once_one_does(lab: Lab, foreign: ForeignRoot) -> None:
    """The other is told to look again, and the run begins once."""
    lab.start()
    run = foreign.made[0]
    (item,) = adoptable(lab, run)
    said: list[str] = []

    def adopt() -> None:
        try:
            lab.ask(lambda id_: Adopt(id=id_, runs=(run,), digests=(item.digest,)))
            said.append("adopted")
        except MissionError as error:
            said.append(str(error))

    threads = [threading.Thread(target=adopt) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said.count("adopted") == 1
    lab.wait(run, lambda view: view.state == "ended")
    assert lab.view(run).attempt == 1


def test_a_run_is_closed_to_others_before_it_is_compared_and_sealed(
    tmp_path: Path, foreign: ForeignRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can put something else there between the look and the seal; no link is followed to close a folder."""
    run = RunDir(foreign.root / foreign.made[2])
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (run.path / "snapshot").symlink_to(outside)
    for folder in (run.path, run.path / "attempts", run.attempt(1).path):
        folder.chmod(0o777)
    shut: list[list[int]] = []

    def look(of: RunDir) -> str:
        folders = (of.path, of.path / "attempts", of.attempt(1).path)
        shut.append([folder.stat().st_mode & 0o777 for folder in folders])
        return digest_of(of)

    async def adopted() -> None:
        (foreign.root / ".supervisor").mkdir()
        core = Core(foreign.root, {"local": LocalLauncher()})
        finish(taking_in(core))
        request = GetAdoptable(id=1, runs=(run.id,))
        (item,) = (await adoptable_query.adoptable(core, core.seals, request)).items
        monkeypatch.setattr(adoptable_query, "digest_of", look)
        await adopt_verb.adopt(core, Adopt(id=2, runs=(run.id,), digests=(item.digest,)))
        assert "foreign" not in core.store.view(run.id).flags

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    asyncio.run(adopted())
    assert shut == [[0o700, 0o700, 0o700]]
    assert outside.stat().st_mode & 0o777 == 0o755


def test_folders_too_deep_for_a_name_keep_nobody_from_starting(sim: SimulatedLab) -> None:
    """Three thousand levels in what was being made, in the trash and in a run are removed, or their bytes counted."""
    made = ForeignRoot(sim.root, sim.root.parent / "marks", stub_spec())
    run = made.run("deep")
    deep(run.path / "junk")
    thrown = sim.root / ".trash" / "1000.20260101-000000-thrown-0000"
    deep(thrown / "junk")
    half = sim.root / ".supervisor" / "making-20260101-000000-half-0000"
    deep(half)
    sim.start()
    sim.ask(lambda id_: GetDetails(id=id_, run=run.id))
    lying = sim.ask(lambda id_: GetTrash(id=id_))
    assert isinstance(lying, RemovableReply)
    assert [item.run for item in lying.items] == ["20260101-000000-thrown-0000"]
    sim.ask(lambda id_: Remove(id=id_, runs=(run.id,), now=True))
    assert not run.path.exists()
    sim.until(lambda: not half.exists(), 20)
    remove_tree(thrown)


def test_what_is_foreign_is_not_pruned_with_the_rest(sim: SimulatedLab, received: ForeignRoot) -> None:
    """Old as it says it is, a received or restored run goes by its name alone."""
    sim.start()
    reply = sim.ask(lambda id_: Prune(id=id_, before_t=time.time() + 60, remove=True))
    assert isinstance(reply, RemovableReply)
    assert reply.items == ()
    assert all(sim.dir(run).path.is_dir() for run in received.made)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pipe", "link", "hard link"])
def test_an_adopted_run_has_a_lease_of_its_own(lab: Lab, foreign: ForeignRoot, kind: str) -> None:
    """Whatever bore the name makes way, and it begins; what was linked to is as it was."""
    run, other = lab.dir(foreign.made[1]), foreign.root / "kept"
    other.write_text("mine")
    if kind == "pipe":
        os.mkfifo(run.lease)
    elif kind == "link":
        run.lease.symlink_to(other)
    else:
        run.lease.hardlink_to(other)
    lab.start()
    (item,) = adoptable(lab, run.id)
    lab.ask(lambda id_: Adopt(id=id_, runs=(run.id,), digests=(item.digest,)))
    lab.wait(run.id, lambda view: view.state == "ended")
    assert "unbegun-order" in foreign.ran()
    assert other.read_text() == "mine"
    lab.ask(lambda id_: Remove(id=id_, runs=(run.id,)))


@pytest.mark.slow
def test_a_folder_where_the_lease_belongs_ends_the_attempt_with_a_reason(lab: Lab, foreign: ForeignRoot) -> None:
    """Nobody can hold it, so the run does not stand there as starting for ever, and can be removed."""
    run = lab.dir(foreign.made[1])
    run.lease.mkdir()
    lab.start()
    (item,) = adoptable(lab, run.id)
    lab.ask(lambda id_: Adopt(id=id_, runs=(run.id,), digests=(item.digest,)))
    ended = lab.wait(run.id, lambda view: view.state == "ended")
    assert "lease" in (ended.cause or "")
    assert "unbegun-order" not in foreign.ran()
    lab.ask(lambda id_: Remove(id=id_, runs=(run.id,)))
