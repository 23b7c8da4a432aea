"""A run from launch to its end, with a real keeper and the stub trainer."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.ipc.requests import Resume
from mission_tui.records.jsonl import read_all
from tests.supervisor.conftest import Lab, living, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab
from tests.waiting import until

pytestmark = pytest.mark.slow


def test_a_launched_run_runs_and_a_stop_saves_and_ends_it(lab: Lab) -> None:
    """Launch, running with its processes known, stop: ended as stopped with the checkpoint named, no process left."""
    (run,) = lab.launch(STUB_WORKERS="2")
    view = lab.running(run)
    assert view.seed is not None
    family = lab.family(run)
    assert len(family) == 4
    lab.wait(run, lambda view: len(view.pids.workers) == 2)
    lab.act("stop", run)
    ended = lab.ended(run)
    assert (ended.outcome, ended.last_checkpoint) == ("stopped", f"{ended.timesteps:09d}")
    assert not living(family)


@pytest.mark.parametrize("who", ["keeper", "trainer"])
def test_a_signal_that_nobody_here_sent_is_said_to_come_from_outside(lab: Lab, who: str) -> None:
    """`kill PID` by hand: the run saves and has stopped, and not "on request"."""
    (run,) = lab.launch()
    pid = getattr(lab.running(run).pids, who)
    os.kill(pid, signal.SIGTERM)
    ended = lab.ended(run)
    assert ended.outcome == "stopped"
    assert ended.cause == f"terminated by a signal from outside (SIGTERM to its {who})"


def test_a_kill_ends_the_whole_tree(lab: Lab) -> None:
    """Kill ends keeper, trainer and workers within seconds, and the outcome says killed."""
    (run,) = lab.launch(STUB_WORKERS="3")
    lab.running(run)
    family = lab.family(run)
    lab.act("kill", run)
    assert lab.ended(run).outcome == "killed"
    until(lambda: not living(family), 5)


def test_a_killed_trainer_is_noticed_with_its_cause(lab: Lab) -> None:
    """SIGKILL of the trainer by somebody else shows as a crash that names the signal, and its workers are gone."""
    (run,) = lab.launch(STUB_WORKERS="2")
    view = lab.running(run)
    family = lab.family(run)
    assert view.pids.trainer is not None
    os.kill(view.pids.trainer, signal.SIGKILL)
    ended = lab.ended(run)
    assert (ended.outcome, ended.kind) == ("failed", "crash")
    assert "SIGKILL" in (ended.cause or "")
    until(lambda: not living(family))


def test_a_finished_run_says_so(sim: SimulatedLab) -> None:
    """A run that uses up its budget ends as finished, and its rows are in the snapshot as in the file."""
    (run,) = sim.launch(spec=stub_spec(64 * 5))
    ended = sim.ended(run)
    assert (ended.outcome, ended.update, ended.timesteps) == ("finished", 5, 320)
    records, damage = read_all(sim.dir(run).metrics, MetricRecord)
    assert not damage
    assert [record.seq for record in records] == list(range(1, len(records) + 1))


def test_a_deaf_trainer_without_a_link_is_ended_by_its_keeper(sim: SimulatedLab) -> None:
    """A stop of a trainer that is not connected goes through the keeper as SIGTERM, and saves."""
    (run,) = sim.launch(STUB_MUTE="1")
    sim.wait(run, lambda view: (view.update or 0) > 2)
    sim.act("stop", run)
    assert sim.ended(run).outcome == "stopped"


def test_pause_blocks_at_a_boundary_and_unpause_goes_on(lab: Lab) -> None:
    """Paused is shown when the trainer says so; no update happens then; resume goes on."""
    (run,) = lab.launch()
    lab.running(run)
    lab.act("pause", run)
    paused = lab.wait(run, lambda view: view.state == "paused")
    assert paused.heartbeat_t is not None
    later = lab.wait(run, lambda view: (view.heartbeat_t or 0) > (paused.heartbeat_t or 0) + 0.5)
    assert later.update == paused.update
    lab.ask(lambda id_: Resume(id=id_, run=run))
    lab.wait(run, lambda view: view.state == "running" and (view.update or 0) > (paused.update or 0))


def test_a_checkpoint_is_taken_on_request(sim: SimulatedLab) -> None:
    """Asking for a checkpoint makes one that the snapshot names; the run goes on."""
    (run,) = sim.launch()
    sim.running(run)
    sim.act("checkpoint", run)
    view = sim.wait(run, lambda view: view.last_checkpoint)
    assert (sim.dir(run).checkpoints / str(view.last_checkpoint) / "manifest.json").is_file()
    sim.running(run, (view.update or 0) + 3)


def test_nobody_else_is_touched(lab: Lab) -> None:
    """A process of the same user beside the runs survives a kill of all of them."""
    bystander = psutil.Popen(["sleep", "60"], cwd=lab.root)
    try:
        runs = lab.launch(2)
        for run in runs:
            lab.running(run)
        lab.act("kill", "@live")
        for run in runs:
            lab.ended(run)
        assert bystander.is_running()
    finally:
        bystander.kill()
        bystander.wait()
