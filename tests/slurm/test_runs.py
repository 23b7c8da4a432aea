"""Runs on a real Slurm of two nodes: launched, reached, ended, adopted, and gone on with elsewhere."""

from __future__ import annotations

import time
from contextlib import suppress

import psutil
import pytest
from msgspec import structs

from mission_tui.fence import FENCE_S
from mission_tui.fleet.events.journal import AttemptEnded, FleetEvent
from mission_tui.fleet.events.metrics import MetricRecord, TrainingStarted
from mission_tui.fleet.specs.spec import CheckpointKeep, SlurmSpec, Spec
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Act, Resume
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import read_exit, read_handle, read_identity
from mission_tui.records.runs.checkpoint import Manifest, list_checkpoints
from tests.slurm.cluster import Cluster
from tests.supervisor.conftest import Lab, living, stub_spec

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(90)]


def slurm_spec(**words: object) -> Spec:
    """The stub's spec, carried out by Slurm."""
    spec = stub_spec()
    return structs.replace(
        spec,
        run=structs.replace(spec.run, launcher="slurm"),
        slurm=SlurmSpec(**words),  # type: ignore[arg-type]
    )


def node_of(lab: Lab, run: str) -> str:
    """Its node, once Slurm was asked for it: the first rows come sooner."""
    return lab.wait(run, lambda view: view.node).node or ""


def test_a_run_is_reached_on_its_node_and_ends_as_at_home(slurm_lab: Lab, cluster: Cluster) -> None:
    """What was asked of Slurm is what its job has; every order by file, the number of its job on record, and a stop
    that saves.
    """
    asked = slurm_spec(partition="main", account="lab", constraint="fast", time="30", extra=("--nice=7",))
    (run,) = slurm_lab.launch(spec=asked)
    slurm_lab.running(run)
    assert node_of(slurm_lab, run) == "n2"
    said = cluster.ask("scontrol", "show", "job", number_of(slurm_lab, run))
    assert {"Account=lab", "Nice=7", "Features=fast", "TimeLimit=00:30:00", "Partition=main", "Requeue=0"} <= set(
        said.split()
    )
    handle = read_handle(slurm_lab.dir(run).attempt(1).handle)
    assert handle is not None
    assert (handle.launcher, handle.id.isdigit()) == ("slurm", True)
    slurm_lab.act("pause", run)
    slurm_lab.wait(run, lambda view: view.state == "paused")
    saved = slurm_lab.ask(lambda id_: Act(id=id_, verb="checkpoint", runs=(run,), wait_s=10.0))
    assert isinstance(saved, Accepted)
    slurm_lab.ask(lambda id_: Resume(id=id_, run=run))
    slurm_lab.wait(run, lambda view: view.state == "running")
    slurm_lab.act("stop", run)
    ended = slurm_lab.ended(run)
    assert (ended.outcome, ended.last_checkpoint is not None) == ("stopped", True)


def test_a_bad_partition_is_one_sentence_and_leaves_no_job(slurm_lab: Lab, cluster: Cluster) -> None:
    """What sbatch says is what the run says."""
    (run,) = slurm_lab.launch(spec=slurm_spec(partition="nowhere"))
    ended = slurm_lab.ended(run)
    assert (ended.outcome, ended.kind) == ("failed", "start")
    assert "Slurm did not start it: " in (ended.cause or "")
    assert "nvalid partition" in (ended.cause or "")
    assert run not in cluster.ask("squeue", "-h", "-o", "%j")


def test_four_at_half_a_gpu_each_are_on_both_nodes_and_a_fifth_waits(slurm_lab: Lab, cluster: Cluster) -> None:
    """Each is shown the GPU of its node; the fifth says for what it waits, a stop takes it from the queue, and it never
    began. A kill leaves no process.
    """
    first = slurm_lab.launch(4, spec=slurm_spec(cpus=1, gres="shard:2", time="10"))
    for run in first:
        slurm_lab.running(run)
        identity = read_identity(slurm_lab.dir(run).attempt(1).identity)
        assert identity is not None
        assert psutil.Process(identity.trainer.pid).environ()["CUDA_VISIBLE_DEVICES"] == "0"
    assert sorted(node_of(slurm_lab, run) for run in first) == ["n1", "n1", "n2", "n2"]
    (third,) = slurm_lab.launch(spec=slurm_spec(cpus=1, gres="shard:2"))
    # Slurm plans every half minute when a job may start, and need not have done so for this one yet.
    slurm_lab.wait(third, lambda view: (view.cause or "").startswith(("waits: Resources", "waits: Priority")), 60)
    slurm_lab.act("stop", third)
    assert "before it had begun" in (slurm_lab.ended(third).cause or "")
    slurm_lab.act("kill", *first)
    for run in first:
        assert slurm_lab.ended(run).outcome == "killed"
    jobs = [process for process in slurm_lab.processes() if process != slurm_lab.supervisor]
    assert [process.cmdline() for process in jobs if "keeper" in " ".join(process.cmdline())] == []
    assert cluster.ask("squeue", "-h", "-t", "R,PD", "-o", "%j") == ""


def test_the_next_supervisor_adopts_every_job(slurm_lab: Lab) -> None:
    """One trains on, one has ended meanwhile; no row is lost and none is doubled."""
    adopts_every_job(slurm_lab, slurm_spec())


def adopts_every_job(lab: Lab, spec: Spec) -> None:
    """SIGKILL to the supervisor while two runs of `spec` train: the next one has both."""
    stays, ends = lab.launch(spec=spec) + lab.launch(spec=spec, STUB_ENDS_AT="150")
    lab.running(stays)
    lab.running(ends)
    lab.kill_supervisor()
    lab.until(lab.dir(ends).attempt(1).exit.exists)
    lab.start()
    lab.wait(stays, lambda view: view.state == "running" and view.connected)
    assert lab.ended(ends).outcome == "finished"
    lab.act("stop", stays)
    assert lab.ended(stays).outcome == "stopped"
    rows, damage = read_all(lab.dir(stays).metrics, MetricRecord)
    assert damage == []
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    assert {row.attempt for row in rows} == {1}


@pytest.mark.timeout(300)
def test_a_run_goes_on_exactly_after_its_time_limit(slurm_lab: Lab, cluster: Cluster) -> None:
    """Slurm warns ahead of the limit: the run saves, its job ends with 75, and attempt 2 goes on in another job. So do
    two that share a job, and share the next one.
    """
    slurm_lab.kill_supervisor()
    slurm_lab.start(MISSION_TUI_TRAINER="tests.unhurried_trainer")
    runs = slurm_lab.launch(spec=slurm_spec(time="10", warn_s=100))
    runs += slurm_lab.launch(2, spec=slurm_spec(time="10", warn_s=100, cpus=1, pack=2))
    for run in runs:
        slurm_lab.wait(run, trains, 180)
    # However slow the machine is: the limit comes once there is something to go on from.
    for number in {number_of(slurm_lab, run) for run in runs}:
        cluster.ask("scontrol", "update", f"jobid={number}", "timelimit=2")
    for run in runs:
        slurm_lab.until(lambda run=run: len(starts_of(slurm_lab, run)) > 1, 120)  # type: ignore[misc]
        begun = starts_of(slurm_lab, run)[1]
        assert (begun.attempt, begun.exact, begun.from_update >= 3) == (2, True, True)
        ended = read_exit(slurm_lab.dir(run).attempt(1).exit)
        assert ended is not None
        assert ended.asked == "limit"
    numbers = [number_of(slurm_lab, run, 2) for run in runs]
    assert numbers[1] == numbers[2] != numbers[0]
    slurm_lab.act("kill", *runs)
    for run in runs:
        slurm_lab.ended(run)


def trains(view: RunView) -> bool:
    """Whether the run has done a few updates, and can be asked."""
    return view.connected and (view.update or 0) >= 3


class Orphan:
    """Keeper and trainer of the first attempt of a run, whose node is about to be lost."""

    def __init__(self, lab: Lab, run: str) -> None:
        self._lab, self._dir = lab, lab.dir(run)
        identity = read_identity(self._dir.attempt(1).identity)
        assert identity is not None
        self._processes = [psutil.Process(who.pid) for who in (identity.keeper, identity.trainer)]
        self._parent = self._processes[0].ppid()

    def stands_still(self) -> None:
        """Stop both as a node is that was cut off, once the engine's process above them is gone: with that the kernel
        has those go on who were stopped.
        """
        keeper, trainer = self._processes
        self._lab.until(lambda: not living([keeper]) or keeper.ppid() != self._parent)
        # Ray kills the keeper at any time within a second of that.
        with suppress(psutil.NoSuchProcess):
            keeper.suspend()
        trainer.suspend()
        self._written = self._of_attempt_1()

    def comes_back(self) -> None:
        """Have them go on beside attempt 2, until they have ended. Ray kills the keeper, which is of the group of its
        job; the trainer is of none.
        """
        left = living(self._processes)
        assert self._processes[1] in left
        assert {process.status() for process in left} == {psutil.STATUS_STOPPED}
        self._back_t = time.time()
        for process in left:
            process.resume()
        self._lab.until(lambda: not living(self._processes), 30)

    def has_written_nothing(self) -> None:
        """No checkpoint since they stood still, before each of which the fence is asked; rows only until it was due."""
        (rows, checkpoints), (rows_before, checkpoints_before) = self._of_attempt_1(), self._written
        assert checkpoints == checkpoints_before
        assert rows[: len(rows_before)] == rows_before
        late = [row for row in rows[len(rows_before) :] if row.t > self._back_t + FENCE_S]
        assert late == []

    def _of_attempt_1(self) -> tuple[list[MetricRecord], list[Manifest]]:
        rows = read_all(self._dir.metrics, MetricRecord)[0]
        manifests = list_checkpoints(self._dir.checkpoints)
        return [row for row in rows if row.attempt == 1], [each for each in manifests if each.attempt == 1]


@pytest.mark.timeout(400)
def test_after_a_lost_node_the_run_goes_on_and_the_orphan_writes_nothing(slurm_lab: Lab, cluster: Cluster) -> None:
    """Its slurmd and step are killed, its trainer is not: attempt 2 goes on exactly on the other node, and attempt 1,
    which comes back beside it, ends itself at the fence without another checkpoint.
    """
    slurm_lab.kill_supervisor()
    slurm_lab.start(MISSION_TUI_TRAINER="tests.unhurried_trainer")
    spec = slurm_spec(cpus=2)
    keep = structs.replace(spec.keep, checkpoint=CheckpointKeep(every_steps=640, last=1000))
    (run,) = slurm_lab.launch(spec=structs.replace(spec, keep=keep))
    slurm_lab.wait(run, lambda view: view.last_checkpoint is not None, 120)
    node = cluster.ask("squeue", "-h", "-n", f"{run}.1", "-o", "%N").strip()
    orphan = Orphan(slurm_lab, run)
    cluster.stop(node)
    cluster.kill_steps(number_of(slurm_lab, run))
    orphan.stands_still()
    cluster.give_up(node)
    try:
        # It is a real trainer, which imports torch beside its orphan, and beside other tests.
        slurm_lab.until(lambda: [row for row in starts_of(slurm_lab, run) if row.attempt == 2], 150)
        slurm_lab.wait(run, lambda view: view.attempt == 2 and view.state == "running", 30)
        orphan.comes_back()
        rows = read_all(slurm_lab.dir(run).metrics, MetricRecord)[0]
        begun = next(index for index, row in enumerate(rows) if row.attempt == 2)
        assert started_exactly(rows[begun])
        slurm_lab.until(lambda: list_checkpoints(slurm_lab.dir(run).checkpoints)[-1].attempt == 2, 30)
        orphan.has_written_nothing()
        assert "node" in " ".join(str(event) for event in events_of(slurm_lab, run) if isinstance(event, AttemptEnded))
        slurm_lab.act("kill", run)
        slurm_lab.ended(run)
    finally:
        # What a failure leaves would keep the other node busy.
        cluster.ask("scancel", "--user=root")
        cluster.start_node(node)
        cluster.wait_idle()


@pytest.mark.timeout(400)
def test_who_is_cancelled_or_makes_room_has_saved(slurm_lab: Lab, cluster: Cluster) -> None:
    """Slurm's SIGTERM reaches the env workers too, and the run saves all the same within KillWait. What an
    administrator cancelled stays ended; what was preempted goes on exactly once there is room.
    """
    slurm_lab.kill_supervisor()
    slurm_lab.start(MISSION_TUI_TRAINER="tests.unhurried_trainer")
    spec = slurm_spec(cpus=2)
    spec = structs.replace(spec, env=structs.replace(spec.env, vec="workers", n_workers=2))
    cancelled, preempted = slurm_lab.launch(2, spec=spec)
    for run in (cancelled, preempted):
        slurm_lab.wait(run, trains, 180)
    cluster.ask("scancel", number_of(slurm_lab, cancelled))
    ended = slurm_lab.ended(cancelled, 90)
    assert (ended.outcome, ended.attempt) == ("stopped", 1)
    assert ended.last_checkpoint is not None
    assert "(scancel)" in (ended.cause or "")
    node = node_of(slurm_lab, preempted)
    urgent = ("--parsable", "-p", "urgent", "-c2", "-w", node, "-o", "/dev/null", "--wrap", "sleep 1")
    assert cluster.ask("sbatch", *urgent).strip().isdigit()
    slurm_lab.wait(preempted, lambda view: view.attempt == 2, 90)
    over = [event for event in events_of(slurm_lab, preempted) if isinstance(event, AttemptEnded)]
    assert over[0].interrupted == "it made room for another job"
    slurm_lab.until(lambda: len(starts_of(slurm_lab, preempted)) > 1, 180)
    begun = starts_of(slurm_lab, preempted)[1]
    assert (begun.attempt, begun.exact, begun.from_update >= 3) == (2, True, True)
    assert begun.moved in ((), (f"machine {node} → {'n2' if node == 'n1' else 'n1'}",))
    slurm_lab.act("kill", preempted)
    slurm_lab.ended(preempted)


def test_a_suspended_job_is_frozen_until_slurm_lets_it_go_on(slurm_lab: Lab, cluster: Cluster) -> None:
    """It goes on where it stood, in the same attempt; one that is killed while it stands leaves no job."""
    goes_on, killed = slurm_lab.launch(2, spec=slurm_spec(cpus=1))
    for run in (goes_on, killed):
        slurm_lab.running(run)
        cluster.ask("scontrol", "suspend", number_of(slurm_lab, run))
        view = slurm_lab.wait(run, lambda view: view.state == "frozen")
        assert f"`scontrol resume {number_of(slurm_lab, run)}`" in (view.cause or "")
    slurm_lab.act("kill", killed)
    assert slurm_lab.ended(killed, 60).outcome == "killed"
    cluster.ask("scontrol", "resume", number_of(slurm_lab, goes_on))
    slurm_lab.wait(goes_on, lambda view: view.state == "running")
    slurm_lab.act("stop", goes_on)
    ended = slurm_lab.ended(goes_on)
    assert (ended.outcome, ended.attempt) == ("stopped", 1)


def number_of(lab: Lab, run: str, attempt: int = 1) -> str:
    """The number of the job of the run's attempt."""
    handle = read_handle(lab.dir(run).attempt(attempt).handle)
    assert handle is not None
    return handle.id


def test_without_a_token_or_a_controller_a_launch_is_one_sentence(slurm_lab: Lab, cluster: Cluster) -> None:
    """Nothing is left behind: no job once munge and the controller are back, and each run says why it did not begin."""
    cluster.stop("munged")
    (cluster.folder / "munge.sock").unlink()
    try:
        (tokenless,) = slurm_lab.launch(spec=slurm_spec())
        ended = slurm_lab.ended(tokenless)
        assert (ended.outcome, ended.kind) == ("failed", "start")
        assert "authentication" in (ended.cause or "").lower()
        cluster.start_munge()
        cluster.stop("slurmctld")
        (run,) = slurm_lab.launch(spec=slurm_spec())
        ended = slurm_lab.ended(run)
        assert (ended.outcome, ended.kind) == ("failed", "start")
        assert "Unable to contact slurm controller" in (ended.cause or "")
    finally:
        if "munged" not in cluster.daemons:
            cluster.start_munge()
        if "slurmctld" not in cluster.daemons:
            cluster.start_controller()
        cluster.wait_idle()
    jobs = cluster.ask("squeue", "-h", "-o", "%j")
    assert (tokenless in jobs, run in jobs) == (False, False)


def starts_of(lab: Lab, run: str) -> list[TrainingStarted]:
    """The start records of the run."""
    return [row for row in read_all(lab.dir(run).metrics, MetricRecord)[0] if isinstance(row, TrainingStarted)]


def started_exactly(row: object) -> bool:
    """Whether it is a start that goes on exactly."""
    return isinstance(row, TrainingStarted) and row.exact


def events_of(lab: Lab, run: str) -> list[FleetEvent]:
    """The run's journal."""
    return read_all(lab.dir(run).events, FleetEvent)[0]
