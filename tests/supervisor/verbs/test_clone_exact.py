"""An exact clone: as a run began, after saying everything that is no longer so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mission_tui.errors import UsageError
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.ipc.replies import Accepted, Launched, VerdictReply
from mission_tui.ipc.requests import Clone, Launch, Set
from mission_tui.records.runs.attempt import read_launch, read_spec
from mission_tui.supervisor.launchers import provenance_probe
from tests.supervisor.conftest import REPOSITORY, Lab, stub_spec
from tests.waiting import until

MINE = {"PATH": "/usr/bin:/bin", "MISSION_TUI_COMMAND": "mission-tui clone"}


def exactly(
    lab: Lab, run: str, *, accept: bool = False, environ: dict[str, str] | None = None
) -> list[tuple[str, str]]:
    """Name and new value of each difference, the run not being started; with `accept` none, and it is started."""
    reply = lab.ask(
        lambda id_: Clone(
            id=id_, run=run, exact=True, accept=accept, cwd="/", python=sys.executable, environ=environ or MINE
        )
    )
    if isinstance(reply, VerdictReply):
        assert reply.accept_needed
        return [(change.name, change.now) for change in reply.verdict.changes]
    assert isinstance(reply, Accepted)
    return []


def recorded(lab: Lab, run: str) -> None:
    """Wait until what the run was launched from is on record."""
    until(lab.dir(run).attempt(1).provenance.is_file, 20, "the provenance is recorded")


def newest(lab: Lab) -> str:
    """The run that was made last."""
    return max(lab.snapshot().runs, key=lambda view: view.created_t).id


def launch(lab: Lab, cwd: Path, python: str = sys.executable, **environ: str) -> str:
    """A run launched from `cwd`, with its provenance on record."""
    known = {"PATH": lab.environ["PATH"], "PYTHONPATH": str(REPOSITORY)} | environ
    item = LaunchItem(spec=stub_spec())
    reply = lab.ask(lambda id_: Launch(id=id_, items=(item,), cwd=str(cwd), python=python, environ=known))
    assert isinstance(reply, Launched)
    run = reply.runs[0].id
    lab.running(run)
    recorded(lab, run)
    return run


def test_where_nothing_has_changed_it_starts_at_once_in_the_same_place(shared_lab: Lab, tmp_path: Path) -> None:
    """Same settings, seed, interpreter, folder and variables, whoever asks, wherever; only its command is new."""
    run = launch(shared_lab, tmp_path, OMP_SCHEDULE="static", MISSION_TUI_COMMAND="mission-tui launch stub")
    reply = shared_lab.ask(
        lambda id_: Clone(id=id_, run=run, exact=True, cwd="/", python="/usr/bin/false", environ=MINE, name="again")
    )
    assert isinstance(reply, Accepted)
    assert reply.notes[0] == "nothing that is recorded of it has changed since"
    (made,) = reply.runs
    was, now = (read_launch(shared_lab.dir(it).attempt(1).launch) for it in (run, made))
    assert was is not None
    assert now is not None
    assert (now.python, now.cwd, now.argv[:2]) == (was.python, str(tmp_path), was.argv[:2])
    assert (now.env["OMP_SCHEDULE"], now.env["MISSION_TUI_COMMAND"]) == ("static", "mission-tui clone")
    assert read_spec(shared_lab.dir(made).spec) == read_spec(shared_lab.dir(run).spec)
    assert shared_lab.running(made).origins[0].kind == "cloned"


def test_what_was_set_on_its_way_is_said_and_not_taken_over(lab: Lab, tmp_path: Path) -> None:
    """It begins as the run began; nothing is made before that is accepted."""
    run = launch(lab, tmp_path)
    lab.ask(lambda id_: Set(id=id_, run=run, assignments=("ppo.ent_coef=0.01",)))
    assert exactly(lab, run) == [("ppo.ent_coef", "0")]
    assert len(lab.snapshot().runs) == 1
    assert exactly(lab, run, accept=True) == []
    assert read_spec(lab.dir(newest(lab)).spec).ppo.ent_coef == 0.0


def test_other_code_is_said(shared_lab: Lab, tmp_path: Path) -> None:
    """A commit in its working folder."""
    who = ["git", "-C", str(tmp_path), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run([*who, "init", "-q"], check=True)
    subprocess.run([*who, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    run = launch(shared_lab, tmp_path)
    subprocess.run([*who, "commit", "-q", "--allow-empty", "-m", "second"], check=True)
    # What was seen is believed for five seconds.
    until(lambda: [name for name, _ in exactly(shared_lab, run)] == ["code"], 15, "the commit is noticed")


@pytest.mark.slow
def test_a_secret_that_nobody_remembers_is_that_of_who_asks(lab: Lab, tmp_path: Path) -> None:
    """It was never written; the processes that had it are gone, and the value is not shown."""
    run = launch(lab, tmp_path, WANDB_API_KEY="hunter2")
    lab.act("kill", run)
    lab.ended(run)
    lab.kill_supervisor()
    lab.start()
    assert exactly(lab, run) == [("variable WANDB_API_KEY", "not set")]
    mine = MINE | {"WANDB_API_KEY": "hunter3"}
    assert exactly(lab, run, environ=mine) == [("variable WANDB_API_KEY", "as in your shell")]
    assert exactly(lab, run, accept=True, environ=mine) == []
    order = read_launch(lab.dir(newest(lab)).attempt(1).launch)
    assert order is not None
    assert order.withheld == ("WANDB_API_KEY",)
    assert "hunter" not in lab.dir(newest(lab)).attempt(1).launch.read_text(encoding="utf-8")


def test_without_its_python_or_folder_there_is_no_exact_clone(lab: Lab, tmp_path: Path) -> None:
    """Each is named, and nothing is made."""
    home, python = tmp_path / "home", tmp_path / "python"
    home.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="ascii")
    python.chmod(0o755)
    run = launch(lab, home, str(python))
    home.rename(tmp_path / "moved")
    with pytest.raises(UsageError, match=r"its folder .*home is gone"):
        exactly(lab, run)
    python.unlink()
    with pytest.raises(UsageError, match=r"its Python .*python is gone"):
        exactly(lab, run)
    assert len(lab.snapshot().runs) == 1


def test_that_nothing_is_recorded_is_a_difference(shared_lab: Lab, tmp_path: Path) -> None:
    """Nobody can say that it is the same; so it is asked about."""
    run = launch(shared_lab, tmp_path)
    shared_lab.dir(run).attempt(1).provenance.unlink()
    assert exactly(shared_lab, run) == [("provenance", "not compared")]


def test_settings_make_no_exact_clone(shared_lab: Lab) -> None:
    """One or the other."""
    (run,) = shared_lab.launch()
    with pytest.raises(UsageError, match="leave out --set, or --exact"):
        shared_lab.ask(lambda id_: Clone(id=id_, run=run, exact=True, assignments=("run.seed=1",)))


def test_source_that_git_does_not_know_is_told_apart_by_its_digest(tmp_path: Path) -> None:
    """A package in the folder and a script; nothing is imported, and no file beside the probe is taken for one."""
    package = tmp_path / "grid"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit(1)\n", encoding="ascii")
    (tmp_path / "train.py").write_text("rate = 1\n", encoding="ascii")

    def digests() -> dict[str, str]:
        words = ["module:grid.envs", "file:train.py", "file:--lr", "module:gpu", "module:nowhere"]
        probe = [sys.executable, provenance_probe.__file__, *words]
        done = subprocess.run(probe, cwd=tmp_path, capture_output=True, check=True, timeout=15)
        found: dict[str, str] = json.loads(done.stdout)["provenance"]["sources"]
        return found

    first = digests()
    assert set(first) == {"module:grid.envs", "file:train.py"}
    assert digests() == first
    (package / "envs.py").write_text("size = 9\n", encoding="ascii")
    second = digests()
    assert second["module:grid.envs"] != first["module:grid.envs"]
    assert second["file:train.py"] == first["file:train.py"]
