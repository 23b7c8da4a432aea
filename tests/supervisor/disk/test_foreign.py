"""Runs that were not launched here: shown as they are, never acted on, and like any other once they are adopted."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from mission_tui.errors import MissionError, UsageError
from mission_tui.ipc.replies import Adoptable, AdoptableReply
from mission_tui.ipc.request import Request
from mission_tui.ipc.requests import (
    Act,
    Adopt,
    Clone,
    Evaluate,
    Export,
    GetAdoptable,
    GetDetails,
    GetHistory,
    GetLog,
    Mark,
    Note,
    Rename,
    Resume,
    Set,
)
from mission_tui.ipc.tidying import Clean, Remove
from tests.supervisor.conftest import Lab, stub_spec
from tests.supervisor.foreign import ForeignRoot
from tests.waiting import until


@pytest.fixture
def lab(idle_lab: Lab) -> Lab:
    """A runs root that no supervisor has seen yet."""
    return idle_lab


@pytest.fixture
def innocent() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two processes of this user that belong to nobody's run, each in a session of its own."""
    argv = [sys.executable, "-S", "-c", "input()"]
    processes = [subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True) for _ in range(2)]
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def foreign(lab: Lab, tmp_path: Path, innocent: list[subprocess.Popen[bytes]]) -> ForeignRoot:
    """A runs root that is not there yet for any supervisor, with a run for every road."""
    made = ForeignRoot(lab.root, tmp_path / "marks", stub_spec())
    made.every_road([process.pid for process in innocent])
    return made


def asking(make: Callable[[int, str], Request], run: str, id_: int) -> Request:
    """The request about `run`, once its number is known."""
    return make(id_, run)


def stood(process: subprocess.Popen[bytes]) -> str:
    """The state letter of the process."""
    return Path(f"/proc/{process.pid}/stat").read_text().rsplit(") ", 1)[1][0]


def test_looking_at_a_received_root_runs_nothing_and_shows_everything(
    lab: Lab, foreign: ForeignRoot, innocent: list[subprocess.Popen[bytes]]
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
    assert [process.poll() for process in innocent] == [None, None]
    assert [stood(process) in "SR" for process in innocent] == [True, True]
    assert {path: path.read_bytes() for path in before} == before
    now = {path for path in lab.root.rglob("*") if path.is_file() and ".supervisor" not in path.parts}
    assert now - before.keys() <= {lab.root / ".gitignore"}


def adoptable(lab: Lab, *runs: str) -> tuple[Adoptable, ...]:
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
    "export": lambda id_, run: Export(id=id_, run=run, path="/nowhere.zip"),
    "rename": lambda id_, run: Rename(id=id_, run=run, name="other"),
    "note": lambda id_, run: Note(id=id_, run=run, text="mine"),
    "mark": lambda id_, run: Mark(id=id_, run=run, mark="silenced", rule="kl"),
}


def test_every_verb_that_acts_is_refused_with_the_way_out(lab: Lab, foreign: ForeignRoot) -> None:
    """Whatever is asked of a foreign run, the answer names the reason and `adopt`; nothing is run or journaled."""
    lab.start()
    journals = {run: lab.dir(run).events.read_bytes() for run in foreign.made}
    for word, make in ACTS.items():
        for run in foreign.made:
            with pytest.raises(UsageError, match=r"foreign: .*mission-tui adopt"):
                lab.ask(partial(asking, make, run))
            assert foreign.ran() == [], word
    assert {run: lab.dir(run).events.read_bytes() for run in foreign.made} == journals
    for run in foreign.made[1:]:
        lab.ask(partial(asking, lambda id_, run: GetDetails(id=id_, run=run), run))
        lab.ask(partial(asking, lambda id_, run: GetLog(id=id_, run=run), run))
    lab.ask(lambda id_: GetHistory(id=id_, run=foreign.made[0], series=("rollout/ep_rew_mean",)))
    assert lab.ask(lambda id_: Clean(id=id_)).stale == ()  # type: ignore[union-attr]


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


def test_a_copied_run_is_foreign_and_the_original_is_not(lab: Lab) -> None:
    """A copy beside its original, also one that took its place, has another inode; its seal does not fit."""
    lab.start()
    (run,) = lab.launch(spec=stub_spec(64 * 3))
    lab.wait(run, lambda view: view.state == "ended")
    lab.kill_supervisor()
    copy = lab.root / f"{run[:-4]}ffff"
    shutil.copytree(lab.dir(run).path, copy, symlinks=True)
    lab.start()
    assert "foreign" not in lab.view(run).flags
    assert "foreign" in lab.view(copy.name).flags
    lab.kill_supervisor()
    shutil.rmtree(lab.dir(run).path)
    shutil.copytree(copy, lab.dir(run).path)
    lab.start()
    assert "it is a copy" in (lab.view(run).cause or "")


def test_specs_that_were_changed_since_the_launch_start_nothing(lab: Lab) -> None:
    """The run stays ours, is shown as damaged with the reason, and goes on once what it says now is adopted."""
    lab.start()
    (run,) = lab.launch(spec=stub_spec(64 * 3))
    lab.wait(run, lambda view: view.state == "ended")
    spec = lab.dir(run).spec
    spec.write_text(spec.read_text().replace("n_envs = 4", "n_envs = 8"))
    with pytest.raises(MissionError, match="was changed since it was launched"):
        lab.ask(lambda id_: Resume(id=id_, run=run, assignments=("run.total_timesteps=1000",), accept=True))
    lab.kill_supervisor()
    lab.start()
    view = lab.view(run)
    assert ("damaged" in view.flags, "foreign" in view.flags) == (True, False)
    (item,) = adoptable(lab, run)
    assert "spec.toml was changed" in item.why
    lab.ask(lambda id_: Adopt(id=id_, runs=(run,), digests=(item.digest,)))
    assert lab.view(run).n_envs == 8


def test_somebody_elses_name_stands_not_in_the_way_of_ours(lab: Lab, foreign: ForeignRoot) -> None:
    """A foreign run that is called like a living one of ours is not meant by that name, nor by `@last`."""
    lab.start()
    (run,) = lab.launch(name="queued")
    lab.running(run)
    assert lab.act("stop", "queued").runs == (run,)
    ended = lab.wait(run, lambda view: view.state == "ended")
    assert ended.outcome == "stopped"
    lab.ask(lambda id_: Remove(id=id_, runs=(run,)))
    lab.ask(lambda id_: Remove(id=id_, runs=("queued",)))
    assert foreign.ran() == []


def test_another_secret_makes_everything_foreign(lab: Lab) -> None:
    """What another user, or this one on another machine, has launched is not ours although every file is the same."""
    lab.start()
    (run,) = lab.launch(spec=stub_spec(64 * 3))
    lab.wait(run, lambda view: view.state == "ended")
    lab.kill_supervisor()
    (Path(lab.environ["XDG_STATE_HOME"]) / "mission-tui" / "seal.key").unlink()
    lab.start()
    assert "its seal is not yours on this machine" in (lab.view(run).cause or "")
