"""Runs that share a job of Slurm, without any: who shares one, whom an end and an order concern, what is lost."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from mission_tui.fleet.specs.spec import SlurmSpec
from mission_tui.keeper.files import exit_record, write_json
from mission_tui.records.runs.attempt import Handle, LaunchOrder, read_exit, read_handle, write_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.launchers import Job, engine, slurm
from mission_tui.supervisor.launchers.slurm import SlurmLauncher
from mission_tui.supervisor.launchers.slurm_commands import SlurmError
from tests.supervisor.conftest import DIGEST, stub_spec


def ordered(root: Path, name: str, **words: object) -> tuple[RunDir, LaunchOrder]:
    """A run directory with a spec for Slurm, and its order."""
    run = RunDir(root / f"20261124-000000-{name}-0000")
    run.attempt(1).path.mkdir(parents=True)
    write_spec(run.spec, structs.replace(stub_spec(), slurm=SlurmSpec(**words)))  # type: ignore[arg-type]
    env = {"PATH": "/bin", "TOKEN": f"secret of {name}"}
    return run, LaunchOrder(run=run.id, attempt=1, argv=("x",), cwd="/", env=env, nonce=name, withheld=("TOKEN",))


class Slurm:
    """In the place of the commands: `state` is that of every job that was submitted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jobs: list[dict[str, object]] = []
        self.environs: list[dict[str, str]] = []
        self.cancelled: list[str] = []
        self.state = "PENDING"
        self.lost = False
        monkeypatch.setattr(slurm, "call", self.call)
        monkeypatch.setattr(engine, "SOON_POLL_S", 0.0)

    def call(self, words: Sequence[str], _said: str = "", environ: dict[str, str] | None = None) -> str:
        if words[0] == "scancel":
            self.cancelled.append(words[-1])
            return ""
        if words[0] == "scontrol":
            return "GresTypes = gpu\nSelectTypeParameters = CR_CPU\n"
        if words[0] == "squeue":
            return msgspec.json.encode(
                {"jobs": [job | {"job_state": self.state, "nodes": "n1"} for job in self.jobs]}
            ).decode()
        said = dict(word.removeprefix("--").partition("=")[::2] for word in words)
        number = len(self.jobs) + 1
        self.jobs.append(
            {"job_id": number, "name": said["job-name"], "current_working_directory": said["chdir"], "words": said}
        )
        self.environs.append(environ or {})
        if self.lost:
            raise SlurmError("sbatch did not answer within 20 s", sent=True)
        return f"{number}\n"


async def shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *names: str, **words: object
) -> tuple[Slurm, SlurmLauncher, list[Job]]:
    """Runs of `names` that were handed over together."""
    cluster, launcher = Slurm(monkeypatch), SlurmLauncher()
    monkeypatch.setattr(slurm, "GATHER_S", 0.0)
    jobs = []
    for name in names:
        run, order = ordered(tmp_path, name, **({"pack": 2, "cpus": 1} | words))
        jobs.append(Job(run, 1, name, launcher.submit(run, order, DIGEST)))
    await launcher.refresh(jobs)
    return cluster, launcher, jobs


async def test_who_asks_for_the_same_shares_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of a pack of two are two jobs, the last of which has one run; each has its own half of its secrets, and the
    job has cores for both.
    """
    cluster, _, jobs = await shared(tmp_path, monkeypatch, "a", "b", "c")
    handles = [read_handle(job.dir.attempt(1).handle) for job in jobs]
    numbers = [handle.id for handle in handles if handle is not None]
    assert numbers[0] == numbers[1] != numbers[2]
    (pack,) = {handle.pack for handle in handles if handle is not None and handle.pack}
    assert (tmp_path / ".supervisor" / "slurm" / pack / "pack.json").is_file()
    together = next(place for place, job in enumerate(cluster.jobs) if str(job["name"]).endswith("+"))
    words = cluster.jobs[together]["words"]
    assert isinstance(words, dict)
    assert words["cpus-per-task"] == "2"
    for place, job in enumerate(jobs[:2]):
        half = base64.b64decode(cluster.environs[together][f"MISSION_TUI_SECRETS_{place}"])
        pad = job.dir.attempt(1).pad.read_bytes()
        assert b"secret of " + job.nonce.encode() in bytes(a ^ b for a, b in zip(half, pad, strict=True))


async def test_who_asks_for_something_else_has_a_job_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another partition is another job; nobody waits longer than it takes others to come."""
    cluster, launcher = Slurm(monkeypatch), SlurmLauncher()
    jobs = []
    for name, partition in (("a", "gpu"), ("b", "cpu")):
        run, order = ordered(tmp_path, name, pack=2, partition=partition)
        jobs.append(Job(run, 1, name, launcher.submit(run, order, DIGEST)))
    await launcher.refresh(jobs)
    assert cluster.jobs == []
    assert launcher.poll(jobs[0]).why == "waits: others may share its job"
    monkeypatch.setattr(slurm, "GATHER_S", 0.0)
    await launcher.refresh(jobs)
    assert sorted(str(job["name"]) for job in cluster.jobs) == [f"{job.dir.id}.1" for job in jobs]


async def test_the_end_of_one_is_not_the_end_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is over as soon as its keeper has written so, whoever else the job carries; with its node all are lost, and
    all go on. The folder of the job goes with the last.
    """
    cluster, launcher, (one, other) = await shared(tmp_path, monkeypatch, "a", "b")
    cluster.state = "RUNNING"
    await launcher.refresh([one, other])
    assert launcher.poll(one).stage == "starting"
    write_json(one.dir.attempt(1).exit, exit_record(1, code=0))
    assert (launcher.poll(one).stage, launcher.is_free(one.dir)) == ("gone", True)
    launcher.release(one)
    folders = tmp_path / ".supervisor" / "slurm"
    assert len(list(folders.iterdir())) == 1
    assert (launcher.poll(other).stage, launcher.is_free(other.dir)) == ("starting", False)
    cluster.state = "NODE_FAIL"
    await launcher.refresh([other])
    assert launcher.poll(other).interrupted == "node n1 was lost"
    launcher.release(other)
    assert list(folders.iterdir()) == []


async def test_a_member_leaves_the_queue_and_the_job_with_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others wait on; nobody's supervisor needs to know the others for that."""
    cluster, _launcher, (one, other) = await shared(tmp_path, monkeypatch, "a", "b")
    handle = read_handle(one.dir.attempt(1).handle)
    anew = SlurmLauncher()
    for job, left in ((one, []), (other, ["1"])):
        job = Job(job.dir, 1, job.nonce, handle)  # noqa: PLW2901
        assert anew.poll(job).stage == "unseen"
        assert anew.stop(job) == "keeper"
        await anew.refresh([job])
        assert anew.poll(job).stage == "gone"
        assert cluster.cancelled == left
    assert one.dir.attempt(1).signal.read_bytes() == b"TERM\n"


async def test_a_shared_submission_without_an_answer_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by its name it is the job of both; a partition that there is not is said by both, and nothing is left."""
    cluster, launcher = Slurm(monkeypatch), SlurmLauncher()
    cluster.lost = True
    monkeypatch.setattr(slurm, "GATHER_S", 0.0)
    jobs = []
    for name in ("a", "b"):
        run, order = ordered(tmp_path, name, pack=2)
        jobs.append(Job(run, 1, name, launcher.submit(run, order, DIGEST)))
    for _ in range(2):
        await launcher.refresh(jobs)
    assert len(cluster.jobs) == 1
    assert [launcher.poll(job).stage for job in jobs] == ["queued", "queued"]
    assert [handle.id for job in jobs if (handle := read_handle(job.dir.attempt(1).handle))] == ["1", "1"]

    def refused(words: Sequence[str], *_: object) -> str:
        raise SlurmError("invalid partition")

    monkeypatch.setattr(slurm, "call", refused)
    launcher = SlurmLauncher()
    for name in ("c", "d"):
        run, order = ordered(tmp_path, name, pack=2)
        launcher.submit(run, order, DIGEST)
        jobs.append(Job(run, 1, name, Handle(launcher="slurm", id="", submitted_t=0.0)))
    with pytest.raises(SlurmError):
        await launcher.refresh(jobs[2:])
    for job in jobs[2:]:
        ended = read_exit(job.dir.attempt(1).exit)
        assert ended is not None
        assert ended.start_error == "Slurm did not start it: invalid partition"
        assert launcher.poll(job).stage == "gone"
        launcher.release(job)
    assert [path.name for path in (tmp_path / ".supervisor" / "slurm").iterdir()] == [f"{jobs[0].dir.id}.1"]
