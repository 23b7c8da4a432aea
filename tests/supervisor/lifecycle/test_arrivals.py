"""Run directories that are put into the runs root of a living supervisor, or taken out of it."""

from __future__ import annotations

import os
import shutil

import pytest

from mission_tui.errors import UsageError
from mission_tui.ipc.requests import Act, Note, Resume
from mission_tui.supervisor.clock import ARRIVAL_TICKS
from tests.supervisor.simulated_lab import SimulatedLab


def ended_run(sim: SimulatedLab) -> str:
    """A run that was stopped after its first update."""
    (run,) = sim.launch()
    sim.running(run, 1)
    sim.ask(lambda id_: Act(id=id_, verb="stop", runs=(run,)))
    sim.ended(run)
    return run


def test_a_copied_run_is_shown_as_foreign_once_it_is_whole(sim: SimulatedLab) -> None:
    """A copy that still grows is left alone; one that grows no more is known without another supervisor."""
    run = ended_run(sim)
    copy = sim.root / f"{run[:-4]}abcd"
    copy.mkdir()
    for grown in range(3):
        (copy / "note").write_text("x" * grown)
        sim.sleep(ARRIVAL_TICKS)
        assert [view.id for view in sim.snapshot().runs] == [run]
    shutil.copytree(sim.root / run, copy, dirs_exist_ok=True)
    sim.sleep(2 * ARRIVAL_TICKS + 1)
    view = sim.view(copy.name)
    assert view.flags == ("foreign",)
    assert view.outcome == "stopped"
    assert len(sim.snapshot().runs) == 2


def test_a_run_of_our_own_that_comes_back_is_ours(sim: SimulatedLab) -> None:
    """Moved away while no supervisor lived and back beside one; one that has not ended begins with the next."""
    run, (other,) = ended_run(sim), sim.launch()
    sim.running(other, 1)
    sim.power_cut()
    for name in (run, other):
        (sim.root / name).rename(sim.root.parent / name)
    sim.start()
    for name in (run, other):
        (sim.root.parent / name).rename(sim.root / name)
    sim.sleep(3 * ARRIVAL_TICKS)
    assert [(view.id, view.flags) for view in sim.snapshot().runs] == [(run, ())]


def test_an_ended_run_whose_directory_was_removed_is_known_no_more(sim: SimulatedLab) -> None:
    """By hand, with `rm -r`: it would be listed as finished for weeks, and no verb could take it away."""
    gone, stays, (live,) = ended_run(sim), ended_run(sim), sim.launch()
    sim.running(live, 1)
    shutil.rmtree(sim.root / gone)
    with pytest.raises(UsageError, match=r"its folder .* was removed or moved away"):
        sim.ask(lambda id_: Resume(id=id_, run=gone))
    with pytest.raises(UsageError, match=r"its folder .* was removed or moved away"):
        sim.ask(lambda id_: Note(id=id_, run=gone, text="bad"))
    sim.sleep(3 * ARRIVAL_TICKS)
    assert {view.id for view in sim.snapshot().runs} == {stays, live}
    with pytest.raises(UsageError, match="no run matches"):
        sim.ask(lambda id_: Act(id=id_, verb="stop", runs=(gone,)))


def test_a_directory_that_is_away_for_a_moment_stays_known(sim: SimulatedLab) -> None:
    """As while somebody exchanges it; one that was away for longer is known again when it is back."""
    run = ended_run(sim)
    away = sim.root.parent / run
    (sim.root / run).rename(away)
    sim.sleep(ARRIVAL_TICKS)
    assert sim.view(run).outcome == "stopped"
    away.rename(sim.root / run)
    sim.sleep(3 * ARRIVAL_TICKS)
    assert sim.view(run).outcome == "stopped"
    (sim.root / run).rename(away)
    sim.sleep(3 * ARRIVAL_TICKS)
    assert sim.snapshot().runs == ()
    away.rename(sim.root / run)
    sim.sleep(3 * ARRIVAL_TICKS)
    assert (sim.view(run).outcome, sim.view(run).flags) == ("stopped", ())


def test_an_unchanged_runs_root_is_not_listed(sim: SimulatedLab) -> None:
    """With twenty thousand runs in it a look costs one question."""
    run = ended_run(sim)
    os.utime(sim.root, (1.0, 1.0))
    sim.sleep(2 * ARRIVAL_TICKS)
    (sim.root / f"{run[:-4]}abcd").mkdir()
    os.utime(sim.root, (1.0, 1.0))
    sim.sleep(3 * ARRIVAL_TICKS)
    assert [view.id for view in sim.snapshot().runs] == [run]
    os.utime(sim.root, (2.0, 2.0))
    sim.sleep(3 * ARRIVAL_TICKS)
    assert len(sim.snapshot().runs) == 2
