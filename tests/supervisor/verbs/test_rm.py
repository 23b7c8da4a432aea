"""`rm` over a real socket: only what has ended goes, it comes back as it was, and time purges it."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mission_tui.errors import UsageError
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.ipc.replies import Accepted, Evaluated, Launched, RemovableReply
from mission_tui.ipc.requests import Evaluate, GetTrash, Launch, Remove, Rename, Restore
from mission_tui.records.runs.trash import trash_dir, tree_bytes
from tests.supervisor.conftest import REPOSITORY, Lab, stub_spec
from tests.waiting import until


def over(lab: Lab, name: str | None = None) -> str:
    """A run that has ended."""
    (run,) = lab.launch(spec=stub_spec(64), name=name)
    lab.ended(run)
    return run


def remove(lab: Lab, *runs: str, now: bool = False) -> tuple[str, ...]:
    reply = lab.ask(lambda id_: Remove(id=id_, runs=runs, now=now))
    assert isinstance(reply, Accepted)
    return reply.runs


def restore(lab: Lab, *runs: str) -> tuple[str, ...]:
    reply = lab.ask(lambda id_: Restore(id=id_, runs=runs))
    assert isinstance(reply, Accepted)
    return reply.runs


def in_trash(lab: Lab) -> list[tuple[str, str]]:
    reply = lab.ask(lambda id_: GetTrash(id=id_))
    assert isinstance(reply, RemovableReply)
    return [(item.run, item.name) for item in reply.items]


def test_an_ended_run_goes_and_comes_back_as_it_was(lab: Lab) -> None:
    """Its view before and after is the same; in between nobody knows it, also not a new supervisor."""
    run = over(lab, "first")
    before, size = lab.view(run), tree_bytes(lab.dir(run).path)
    assert remove(lab, "first") == (run,)
    assert (lab.snapshot().runs, in_trash(lab)) == ((), [(run, "first")])
    lab.kill_supervisor()
    lab.start()
    assert lab.snapshot().runs == ()
    assert restore(lab, "first") == (run,)
    after = lab.view(run)
    assert (after.outcome, after.timesteps, after.name) == (before.outcome, before.timesteps, "first")
    assert (tree_bytes(lab.dir(run).path), in_trash(lab)) == (size, [])


def test_a_live_run_is_refused_by_name_and_nothing_goes(lab: Lab) -> None:
    """Also the ended one of the same request stays."""
    run = over(lab)
    (live,) = lab.launch(name="alive")
    lab.running(live)
    with pytest.raises(UsageError, match="cannot remove alive: it is running; stop or kill it first"):
        remove(lab, run, live)
    assert {view.id for view in lab.snapshot().runs} == {run, live}


def test_now_frees_the_bytes_also_of_what_lies_in_the_trash(lab: Lab) -> None:
    """Nothing is left of either, and nothing can be taken back."""
    first, second = over(lab, "first"), over(lab, "second")
    remove(lab, first)
    assert set(remove(lab, first, second, now=True)) == {first, second}
    assert list(trash_dir(lab.root).iterdir()) == []
    with pytest.raises(UsageError, match="the trash is empty"):
        restore(lab, first)


@pytest.mark.slow
def test_what_lay_there_for_a_day_is_purged(idle_lab: Lab) -> None:
    """By the next supervisor too; what is younger stays."""
    idle_lab.start()
    old, young = over(idle_lab, "old"), over(idle_lab, "young")
    remove(idle_lab, old, young)
    idle_lab.kill_supervisor()
    aged = trash_dir(idle_lab.root) / f"{int(time.time()) - 86500}.{old}"
    _lying(idle_lab, old).rename(aged)
    idle_lab.start()
    until(lambda: not aged.exists(), 10, "the old one is purged")
    assert in_trash(idle_lab) == [(young, "young")]
    assert list(trash_dir(idle_lab.root).glob("[0-9]*")) == [_lying(idle_lab, young)]


def test_the_trash_knows_a_run_by_its_newest_name(lab: Lab) -> None:
    """One that was renamed is listed, and taken back, by what it was called last."""
    run = over(lab, "first")
    lab.ask(lambda id_: Rename(id=id_, run=run, name="second"))
    remove(lab, run)
    assert in_trash(lab) == [(run, "second")]
    assert restore(lab, "second") == (run,)


def test_a_run_that_is_being_evaluated_stays(lab: Lab, tmp_path: Path) -> None:
    """Its directory must not go from under the evaluation; when that is over it can."""
    held, python = tmp_path / "held", tmp_path / "python"
    held.touch()
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *playing.evaluate*)\n  while [ -e {held} ]; do sleep 0.05; done\n'
        f'  echo \'{{"result": {{"mean": 1.0}}}}\'; exit;;\nesac\nexec {sys.executable} "$@"\n',
        encoding="ascii",
    )
    python.chmod(0o755)
    environ = {"PATH": lab.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    item = LaunchItem(spec=stub_spec(), name="played")
    made = lab.ask(lambda id_: Launch(id=id_, items=(item,), cwd="/", python=str(python), environ=environ))
    assert isinstance(made, Launched)
    run = made.runs[0].id
    lab.running(run)
    lab.act("stop", run)
    lab.ended(run)
    with ThreadPoolExecutor(1) as pool:
        playing = pool.submit(lab.ask, lambda id_: Evaluate(id=id_, run=run))
        try:
            until(lambda: any("playing.evaluate" in " ".join(it.cmdline()) for it in lab.processes()), 15)
            with pytest.raises(UsageError, match="cannot remove played: `evaluate` works with it"):
                remove(lab, run)
        finally:
            held.unlink()
        assert isinstance(playing.result(15), Evaluated)
    assert remove(lab, run) == (run,)


def _lying(lab: Lab, run: str) -> Path:
    (path,) = trash_dir(lab.root).glob(f"[0-9]*.{run}")
    return path
