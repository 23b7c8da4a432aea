"""Several runs in one job of a real Slurm: each is reached, ended and followed for itself."""

from __future__ import annotations

import psutil
import pytest

from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import read_exit, read_handle, read_identity
from tests.slurm.cluster import Cluster
from tests.slurm.test_runs import node_of, slurm_spec, starts_of
from tests.supervisor.conftest import Lab, living

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(120)]


def job_of(lab: Lab, run: str, attempt: int = 1) -> str:
    """The number of the job of the run's attempt."""
    handle = lab.until(lambda: read_handle(lab.dir(run).attempt(attempt).handle), 20)
    assert handle is not None
    return handle.id


def test_two_runs_share_a_job_and_end_each_for_itself(slurm_lab: Lab, cluster: Cluster) -> None:
    """Four that are launched at once are two jobs. One is stopped and saves, one is killed, one loses its keeper: the
    other of its job trains on, is adopted by the next supervisor, and ends the job with its own end.
    """
    stops, stays, dies, killed = slurm_lab.launch(4, spec=slurm_spec(pack=2, cpus=1))
    for run in (stops, stays, dies, killed):
        slurm_lab.running(run)
    assert job_of(slurm_lab, stops) == job_of(slurm_lab, stays) != job_of(slurm_lab, dies) == job_of(slurm_lab, killed)
    assert len(cluster.ask("squeue", "-h", "-o", "%i").split()) == 2

    # Why a keeper ended is Slurm's to say, which takes a while: meanwhile the others are asked.
    identity = read_identity(slurm_lab.dir(dies).attempt(1).identity)
    assert identity is not None
    trainer = psutil.Process(identity.trainer.pid)
    slurm_lab.kill(identity.keeper.pid)

    waits, leaves = slurm_lab.launch(2, spec=slurm_spec(pack=2, cpus=1))
    for run in (waits, leaves):
        slurm_lab.wait(run, lambda view: (view.cause or "").startswith(("waits: Resources", "waits: Priority")))
    slurm_lab.act("stop", leaves)
    assert "before it had begun" in (slurm_lab.ended(leaves).cause or "")
    assert slurm_lab.view(waits).state in ("starting", "queued")
    slurm_lab.act("stop", waits)
    assert "before it had begun" in (slurm_lab.ended(waits).cause or "")
    slurm_lab.until(lambda: len(cluster.ask("squeue", "-h", "-o", "%i").split()) == 2, 20)

    slurm_lab.act("stop", stops)
    ended = slurm_lab.ended(stops)
    assert (ended.outcome, ended.last_checkpoint is not None) == ("stopped", True)
    slurm_lab.until(lambda: not living([trainer]), 20)
    assert slurm_lab.ended(dies).outcome in ("failed", "killed", "lost")
    slurm_lab.act("kill", killed)
    assert slurm_lab.ended(killed).outcome == "killed"

    slurm_lab.kill_supervisor()
    slurm_lab.start()
    slurm_lab.running(stays, (slurm_lab.view(stays).update or 0) + 5)
    slurm_lab.act("stop", stays)
    assert slurm_lab.ended(stays).outcome == "stopped"
    rows, damage = read_all(slurm_lab.dir(stays).metrics, MetricRecord)
    assert damage == []
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    slurm_lab.until(lambda: cluster.ask("squeue", "-h", "-t", "R,PD,CG", "-o", "%i") == "", 20)
    left = [process for process in slurm_lab.processes() if process != slurm_lab.supervisor]
    assert [process.cmdline() for process in left if "keeper" in " ".join(process.cmdline())] == []
    assert list((slurm_lab.root / ".supervisor" / "slurm").iterdir()) == []
    record = read_exit(slurm_lab.dir(dies).attempt(1).exit)
    assert record is not None
    assert record.last_output == "its keeper was ended by signal 9"


def test_after_a_lost_node_both_go_on_in_one_job_on_the_other(slurm_lab: Lab, cluster: Cluster) -> None:
    """The slurmd and the step of the node are killed, the trainers are not: attempt 2 of both shares a job on the other
    node, goes on from a checkpoint, and what was left of attempt 1 ends itself at the fence.
    """
    runs = slurm_lab.launch(2, spec=slurm_spec(pack=2, cpus=1))
    for run in runs:
        slurm_lab.running(run, 3)
    slurm_lab.act("checkpoint", *runs)
    for run in runs:
        slurm_lab.wait(run, lambda view: view.last_checkpoint is not None)
    number, node = job_of(slurm_lab, runs[0]), node_of(slurm_lab, runs[0])
    identities = [read_identity(slurm_lab.dir(run).attempt(1).identity) for run in runs]
    orphans = [psutil.Process(identity.trainer.pid) for identity in identities if identity is not None]
    cluster.stop(node)
    cluster.kill_steps(number)
    cluster.give_up(node)
    try:
        for run in runs:
            slurm_lab.wait(run, lambda view: view.attempt == 2 and view.state == "running" and view.connected, 60)
        assert {node_of(slurm_lab, run) for run in runs} == {"n2" if node == "n1" else "n1"}
        assert job_of(slurm_lab, runs[0], 2) == job_of(slurm_lab, runs[1], 2) != number
        slurm_lab.until(lambda: not living(orphans), 30)
        for run in runs:
            slurm_lab.running(run, (slurm_lab.view(run).update or 0) + 3)
            begun = starts_of(slurm_lab, run)[1]
            assert (begun.attempt, begun.from_update > 0) == (2, True)
        slurm_lab.act("kill", *runs)
        for run in runs:
            assert slurm_lab.ended(run).outcome == "killed"
    finally:
        cluster.ask("scancel", "--user=root")
        cluster.start_node(node)
        cluster.wait_idle()
