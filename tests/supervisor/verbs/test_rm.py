"""`rm` over a real socket: only what has ended goes, it comes back as it was, and time purges it."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mission_tui.errors import UsageError
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.fleet.store import RunRef
from mission_tui.ipc.replies import Accepted, Evaluated, Launched, RemovableReply
from mission_tui.ipc.requests import Evaluate, GetTrash, Launch, Remove, Rename, Restore
from mission_tui.records.runs.trash import Trashed, trash_dir, tree_bytes
from mission_tui.supervisor.ending.removal import objection, ref_in_trash
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.verbs import cleanup
from tests.supervisor.conftest import REPOSITORY, Lab, RunsRoot, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab
from tests.waiting import until


def over(lab: RunsRoot, name: str | None = None) -> str:
    """A run that has ended."""
    (run,) = lab.launch(spec=stub_spec(64), name=name)
    lab.ended(run)
    return run


def remove(lab: RunsRoot, *runs: str, now: bool = False) -> tuple[str, ...]:
    reply = lab.ask(lambda id_: Remove(id=id_, runs=runs, now=now))
    assert isinstance(reply, Accepted)
    return reply.runs


def restore(lab: RunsRoot, *runs: str) -> tuple[str, ...]:
    reply = lab.ask(lambda id_: Restore(id=id_, runs=runs))
    assert isinstance(reply, Accepted)
    return reply.runs


def in_trash(lab: RunsRoot) -> list[tuple[str, str]]:
    reply = lab.ask(lambda id_: GetTrash(id=id_))
    assert isinstance(reply, RemovableReply)
    return [(item.run, item.name) for item in reply.items]


def test_an_ended_run_goes_and_comes_back_as_it_was(sim: SimulatedLab) -> None:
    """Its view before and after is the same; in between nobody knows it, also not a new supervisor."""
    run = over(sim, "first")
    before, size = sim.view(run), tree_bytes(sim.dir(run).path)
    assert remove(sim, "first") == (run,)
    assert (sim.snapshot().runs, in_trash(sim)) == ((), [(run, "first")])
    sim.kill_supervisor()
    sim.start()
    assert sim.snapshot().runs == ()
    assert restore(sim, "first") == (run,)
    after = sim.view(run)
    assert (after.outcome, after.timesteps, after.name) == (before.outcome, before.timesteps, "first")
    assert (tree_bytes(sim.dir(run).path), in_trash(sim)) == (size, [])


def test_each_run_in_the_trash_is_read_once_for_a_request(sim: SimulatedLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are taken back: a thousand times a thousand reads held up everybody for minutes."""
    runs = [over(sim, name) for name in ("first", "second", "third")]
    remove(sim, *runs)
    read: list[str] = []

    def counted(known: Runs, item: Trashed) -> RunRef:
        read.append(item.run)
        return ref_in_trash(known, item)

    monkeypatch.setattr(cleanup, "ref_in_trash", counted)
    assert set(restore(sim, runs[0], "second", runs[2])) == set(runs)
    assert sorted(read) == sorted(runs)


def test_a_live_run_is_refused_by_name_and_nothing_goes(sim: SimulatedLab) -> None:
    """Also the ended one of the same request stays."""
    run = over(sim)
    (live,) = sim.launch(name="alive")
    sim.running(live)
    with pytest.raises(UsageError, match="cannot remove alive: it is running; stop or kill it first"):
        remove(sim, run, live)
    assert {view.id for view in sim.snapshot().runs} == {run, live}


def test_a_run_that_went_on_while_others_were_moved_stays(sim: SimulatedLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are answered between two runs of a request, also who resumes the second of them."""
    first, second = over(sim, "first"), over(sim, "second")
    asked: list[str] = []

    def later(core: Core, run_id: str) -> str | None:
        asked.append(run_id)
        return "it is training; stop or kill it first" if asked.count(second) > 1 else objection(core, run_id)

    monkeypatch.setattr(cleanup, "objection", later)
    reply = sim.ask(lambda id_: Remove(id=id_, runs=(first, second)))
    assert isinstance(reply, Accepted)
    assert (reply.runs, reply.notes) == ((first,), ("cannot remove second: it is training; stop or kill it first",))
    assert in_trash(sim) == [(first, "first")]


def test_now_frees_the_bytes_also_of_what_lies_in_the_trash(sim: SimulatedLab) -> None:
    """Nothing is left of either, and nothing can be taken back."""
    first, second = over(sim, "first"), over(sim, "second")
    remove(sim, first)
    assert set(remove(sim, first, second, now=True)) == {first, second}
    assert list(trash_dir(sim.root).iterdir()) == []
    with pytest.raises(UsageError, match="the trash is empty"):
        restore(sim, first)


def test_what_lay_there_for_a_day_is_purged(idle_sim: SimulatedLab) -> None:
    """By the next supervisor too; what is younger stays."""
    idle_sim.start()
    old, young = over(idle_sim, "old"), over(idle_sim, "young")
    remove(idle_sim, old, young)
    idle_sim.kill_supervisor()
    aged = trash_dir(idle_sim.root) / f"{int(time.time()) - 86500}.{old}"
    _lying(idle_sim, old).rename(aged)
    idle_sim.start()
    idle_sim.until(lambda: not aged.exists(), 10, "the old one is purged")
    assert in_trash(idle_sim) == [(young, "young")]
    assert list(trash_dir(idle_sim.root).glob("[0-9]*")) == [_lying(idle_sim, young)]


def test_the_trash_knows_a_run_by_its_newest_name(sim: SimulatedLab) -> None:
    """One that was renamed is listed, and taken back, by what it was called last."""
    run = over(sim, "first")
    sim.ask(lambda id_: Rename(id=id_, run=run, name="second"))
    remove(sim, run)
    assert in_trash(sim) == [(run, "second")]
    assert restore(sim, "second") == (run,)


@pytest.mark.slow
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


def _lying(lab: RunsRoot, run: str) -> Path:
    (path,) = trash_dir(lab.root).glob(f"[0-9]*.{run}")
    return path
