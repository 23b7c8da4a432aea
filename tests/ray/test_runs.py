"""Runs on a real Ray of two nodes: launched, spread, reached, ended, adopted, and gone on with elsewhere; the road of
`doctor`, and the commands of docs/clusters.md.

One module, which one worker carries out: a Ray that waits takes 5 % of a core, and its tests are one at a time.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.fleet.events.journal import AttemptEnded
from mission_tui.fleet.events.metrics import MetricRecord, TrainingStarted
from mission_tui.fleet.specs.spec import CheckpointKeep, RaySpec, Spec
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Act, Resume
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import read_handle
from mission_tui.records.runs.checkpoint import list_checkpoints
from tests.ray.cluster import RayCluster
from tests.slurm.test_clusters_page import trained_by_the_page
from tests.slurm.test_roads import Caller, may_unshare, nothing_is_left, refuses_what_is_not_shared
from tests.slurm.test_runs import Orphan, adopts_every_job, events_of, started_exactly, starts_of
from tests.supervisor.conftest import Lab, stub_spec

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(900)]


def ray_spec(**words: object) -> Spec:
    """The stub's spec, carried out by Ray."""
    spec = stub_spec()
    return structs.replace(
        spec,
        run=structs.replace(spec.run, launcher="ray"),
        ray=RaySpec(**words),  # type: ignore[arg-type]
    )


def test_four_at_half_a_gpu_each_are_on_both_nodes_and_a_fifth_waits(ray_lab: Lab, cluster: RayCluster) -> None:
    """Each knows its GPU; the fifth waits here, not in Ray, and leaves the queue when asked. Orders go by file, a stop
    saves, and a kill leaves no process.
    """
    runs = ray_lab.launch(4, spec=ray_spec(gpus=0.5))
    for run in runs:
        ray_lab.running(run)
    jobs = [job for number, job in cluster.jobs().items() if number.startswith(tuple(runs))]
    assert sorted(cluster.place_of(job) for job in jobs) == ["one", "one", "two", "two"]
    handle = read_handle(ray_lab.dir(runs[0]).attempt(1).handle)
    assert handle is not None
    assert (handle.launcher, handle.address, handle.id in cluster.jobs()) == ("ray", cluster.url, True)

    (fifth,) = ray_lab.launch(spec=ray_spec(gpus=0.5))
    ray_lab.wait(fifth, lambda view: (view.cause or "").startswith("waits: no node of Ray has 1 CPU, 0.5 GPU"))
    ray_lab.act("stop", fifth)
    assert "before it had begun" in (ray_lab.ended(fifth).cause or "")
    assert not [number for number in cluster.jobs() if number.startswith(fifth)]

    paused, *killed = runs
    ray_lab.act("pause", paused)
    ray_lab.wait(paused, lambda view: view.state == "paused")
    saved = ray_lab.ask(lambda id_: Act(id=id_, verb="checkpoint", runs=(paused,), wait_s=10.0))
    assert isinstance(saved, Accepted)
    ray_lab.ask(lambda id_: Resume(id=id_, run=paused))
    ray_lab.wait(paused, lambda view: view.state == "running")
    ray_lab.act("stop", paused)
    ended = ray_lab.ended(paused)
    assert (ended.outcome, ended.last_checkpoint is not None) == ("stopped", True)

    ray_lab.act("kill", *killed)
    for run in killed:
        assert ray_lab.ended(run).outcome == "killed"
    left = [process.cmdline() for process in ray_lab.processes() if process != ray_lab.supervisor]
    assert [words for words in left if "keeper" in " ".join(words) or "stub" in " ".join(words)] == []
    no_file_has(ray_lab.root, cluster.token)


def no_file_has(root: Path, secret: str) -> None:
    """Neither below the runs root nor beside it."""
    for path in root.parent.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


def test_the_next_supervisor_adopts_every_job(ray_lab: Lab) -> None:
    """One trains on, one has ended meanwhile; no row is lost and none is doubled."""
    adopts_every_job(ray_lab, ray_spec())


def test_after_a_lost_node_the_run_goes_on_and_the_orphan_writes_nothing(ray_lab: Lab, cluster: RayCluster) -> None:
    """Its raylet is killed, its trainer is not: attempt 2 goes on exactly on the other node, and attempt 1, which comes
    back beside it, ends itself at the fence without another checkpoint.
    """
    ray_lab.kill_supervisor()
    ray_lab.start(MISSION_TUI_TRAINER="tests.unhurried_trainer")
    # It may be anywhere, but begins where it can be lost: the head keeps the list of jobs.
    holds = ray_lab.launch(spec=ray_spec(gpus=1, labels={"place": "one"}))
    ray_lab.until(lambda: [job for job in cluster.jobs().values() if job["status"] == "RUNNING"], 30)
    spec = ray_spec(gpus=1)
    keep = structs.replace(spec.keep, checkpoint=CheckpointKeep(every_steps=640, last=1000))
    (run,) = ray_lab.launch(spec=structs.replace(spec, keep=keep))
    ray_lab.wait(run, lambda view: view.last_checkpoint is not None, 120)
    ray_lab.act("kill", *holds)
    (job,) = (job for number, job in cluster.jobs().items() if number.startswith(run))
    assert cluster.place_of(job) == "two"
    orphan = Orphan(ray_lab, run)
    cluster.kill_node("two")
    orphan.stands_still()
    try:
        ray_lab.wait(run, lambda view: view.attempt == 2 and view.state == "running", 240)
        ray_lab.until(lambda: [row for row in starts_of(ray_lab, run) if row.attempt == 2], 60)
        orphan.comes_back()
        rows = read_all(ray_lab.dir(run).metrics, MetricRecord)[0]
        begun = next(index for index, row in enumerate(rows) if row.attempt == 2)
        assert started_exactly(rows[begun])
        later = {row.attempt for row in rows[begun:] if isinstance(row, TrainingStarted)}
        assert later == {2}
        ended = [event for event in events_of(ray_lab, run) if isinstance(event, AttemptEnded)]
        assert "node" in ended[0].interrupted
        assert "was lost" in ended[0].interrupted
        ray_lab.until(lambda: list_checkpoints(ray_lab.dir(run).checkpoints)[-1].attempt == 2, 60)
        orphan.has_written_nothing()
        ray_lab.act("kill", run)
        assert ray_lab.ended(run).outcome == "killed"
    finally:
        cluster.start_node()


@pytest.mark.parametrize("lacks", ["the token", "the head"])
def test_a_refused_submission_is_one_sentence(ray_lab: Lab, cluster: RayCluster, lacks: str) -> None:
    """Nothing is left behind: no job, and the run says why it did not begin."""
    wrong = {"RAY_AUTH_TOKEN": "wrong" * 8} if lacks == "the token" else {"RAY_ADDRESS": "http://127.0.0.1:9"}
    (run,) = ray_lab.launch(1, spec=ray_spec(), name=None, **wrong)
    ended = ray_lab.ended(run)
    assert (ended.outcome, ended.kind) == ("failed", "start")
    said = "does not accept the token" if lacks == "the token" else "Ray does not answer at http://127.0.0.1:9"
    assert (ended.cause or "").startswith("Ray did not start it: ")
    assert said in (ended.cause or "")
    assert not [number for number in cluster.jobs() if number.startswith(run)]


def test_the_road_to_ray_is_proven_both_ways(tmp_path: Path, cluster: RayCluster) -> None:
    """Version, token, room, grace, runs root, interpreter, packages and GPU are each said, and no job is left; what is
    wrong is one sentence.
    """
    somebody = Caller(tmp_path, cluster.environ)
    code, found = somebody.doctor("ray", "--set", "ray.gpus=0.5")
    assert code == 0
    assert [*found] == ["Ray", "token", "room", "stop", "runs root", "interpreter", "packages", "GPU"]
    assert found["token"] == ("ok", "wanted, and yours is accepted")
    assert re.match(r"1 CPU, 0\.5 GPU, [\d.]+ GiB: 2 nodes have it", found["room"][1])
    assert found["GPU"] == ("warn", "the job was shown CUDA_VISIBLE_DEVICES '0'; the driver there lists 0")
    assert {level for name, (level, _) in found.items() if name != "GPU"} == {"ok"}
    assert nothing_is_left(somebody.root)
    assert [number for number in cluster.jobs() if "doctor" in number] == []
    code, found = somebody.doctor("ray", "--set", "ray.gpus=2")
    assert (code, found["room"][0]) == (1, "bad")
    code, found = somebody.doctor("ray", "--set", "ray.address=http://127.0.0.1:9")
    assert (code, found["Ray"]) == (1, ("bad", "Ray does not answer at http://127.0.0.1:9: Connection refused"))
    if may_unshare():
        refuses_what_is_not_shared(somebody, "ray")


def test_the_commands_of_the_page_train_a_run_on_ray(tmp_path: Path, cluster: RayCluster) -> None:
    """At most five, in a home with Ray's token: the run ends as finished and evaluated, and was a job."""
    token = tmp_path / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text(cluster.token, encoding="ascii")
    assert cluster.url in trained_by_the_page("Ray", tmp_path, environ={}, where=("http://127.0.0.1:8265", cluster.url))


# The last, as Ray has to be started anew after it.
def test_a_head_that_was_started_anew_loses_no_run(ray_lab: Lab, cluster: RayCluster) -> None:
    """While it is down nobody's run has ended; afterwards it knows of no job, and those that train are followed,
    stopped and killed by their files.
    """
    saves, dies = ray_lab.launch(2, spec=ray_spec(labels={"place": "two"}))
    for run in (saves, dies):
        ray_lab.running(run)
    cluster.kill_head()
    log = ray_lab.root / ".supervisor" / "supervisor.log"
    ray_lab.until(lambda: "Ray does not answer" in log.read_text(encoding="utf-8"), 60)
    assert {ray_lab.view(run).state for run in (saves, dies)} == {"running"}
    cluster.start_head()
    assert cluster.jobs() == {}
    update = ray_lab.view(saves).update or 0
    ray_lab.running(saves, update + 50)
    ray_lab.act("stop", saves)
    ray_lab.act("kill", dies)
    ended = ray_lab.ended(saves, 90)
    assert (ended.outcome, ended.last_checkpoint is not None, ended.attempt) == ("stopped", True, 1)
    assert ray_lab.ended(dies, 90).outcome == "killed"
    assert [process for process in ray_lab.processes() if "keeper" in " ".join(process.cmdline())] == []
