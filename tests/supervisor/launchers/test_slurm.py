"""What Slurm is told and what is made of its answers, without any: every version's words, and every failure."""

from __future__ import annotations

import base64
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from msgspec import structs

from mission_tui.errors import MissionError
from mission_tui.fleet.specs.consistency import violations
from mission_tui.fleet.specs.spec import SlurmSpec, Spec
from mission_tui.keeper.files import exit_record, write_json
from mission_tui.records.runs.attempt import LaunchOrder, read_exit, read_handle, write_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.launchers import Job, engine, slurm, slurm_commands
from mission_tui.supervisor.launchers.slurm import SlurmLauncher
from mission_tui.supervisor.launchers.slurm_commands import (
    Cluster,
    SlurmError,
    SlurmJob,
    job_environ,
    priced_words,
    read_cluster,
    read_jobs,
    sbatch_words,
    script,
    submitted_number,
)
from tests.supervisor.conftest import DIGEST, Lab, stub_spec

Answer = Callable[[Sequence[str]], str]


def entry(number: int = 7, state: object = "PENDING", **more: object) -> dict[str, object]:
    """A job as Slurm 22.05 has it."""
    return {"job_id": number, "name": "r.1", "current_working_directory": "/r", "job_state": state} | more


def listed(*entries: dict[str, object], errors: Sequence[object] = ()) -> str:
    """What `squeue --json` prints."""
    return msgspec.json.encode({"jobs": entries, "errors": errors, "meta": {}}).decode()


CODES: dict[int | None, object] = {None: None, 1: 256, 75: {"return_code": {"set": True, "number": 75}}, 73: 4021}
"""Exit codes, and how versions of Slurm write them; 4021 is a log that could not be opened."""


def test_words_of_old_and_new_versions_are_read_alike() -> None:
    """States are a word or a list of them, numbers plain or tables; of several jobs of a name the newest counts."""
    old = entry(7, "PENDING", state_reason="Resources", start_time=100)
    new = entry(8, ["RUNNING"], nodes="n1", start_time={"set": True, "infinite": False, "number": 200})
    unset = entry(6, ["COMPLETED"], start_time={"set": False, "number": 0})
    assert read_jobs(listed(old))["r.1", "/r"] == SlurmJob(
        number="7", name="r.1", folder="/r", state="PENDING", reason="Resources", start_t=100.0
    )
    ended = {
        exit_code: read_jobs(listed(entry(exit_code=code)))["r.1", "/r"].exit_code for exit_code, code in CODES.items()
    }
    assert ended == {code: code for code in CODES}
    (job,) = read_jobs(listed(new, unset, old)).values()
    assert (job.number, job.node, job.start_t, job.runs, job.waits) == ("8", "n1", 200.0, True, False)


def test_an_empty_list_with_errors_is_no_list() -> None:
    """Without a controller squeue ends with 0 and no jobs: nobody's run has ended for that."""
    with pytest.raises(SlurmError, match=r"no list of jobs: Failed while looking for jobs \(`scontrol ping`"):
        read_jobs(listed(errors=[{"description": "Failed while looking for jobs"}]))
    for odd in ("", "{", "[]", "null", '{"jobs":[1]}', '{"jobs":[{"job_id":"x"}]}', "[" * 100_000):
        with pytest.raises(SlurmError, match="no list of jobs"):
            read_jobs(odd)


@pytest.mark.parametrize("answer", ["", "\n", "Submitted batch job 7", "7 8", "-1", "٣"])
def test_only_a_number_is_a_number(answer: str) -> None:
    """Whatever else sbatch answers may have been a submission: it is looked for."""
    assert submitted_number("warning from a plugin\n7;cluster\n") == "7"
    with pytest.raises(SlurmError) as caught:
        submitted_number(answer)
    assert caught.value.sent


def test_why_it_waits_is_a_sentence_with_a_time_that_is_to_come() -> None:
    """A plan of Slurm's that has passed is not repeated, and what it prints can move no cursor."""
    job = SlurmJob(number="7", name="r.1", folder="/r", state="PENDING", reason="Resources")
    at = time.time() + 60
    assert job.why_it_waits == "waits: Resources"
    when = time.strftime("%H:%M", time.localtime(at))
    assert structs.replace(job, start_t=at).why_it_waits.endswith(when)
    for away_s, written in ((3 * 86_400, "%a %H:%M"), (20 * 86_400, "%Y-%m-%d")):
        said = structs.replace(job, start_t=at + away_s).why_it_waits
        assert said.endswith(f"starts about {time.strftime(written, time.localtime(at + away_s))}")
    years = structs.replace(job, start_t=at + 365 * 86_400).why_it_waits
    assert years == "waits: Resources, with no start planned: a job before it has no time limit"
    assert structs.replace(job, start_t=1.0).why_it_waits == "waits: Resources"
    assert structs.replace(job, reason="None").why_it_waits == "waits for Slurm"
    assert "\x1b" not in structs.replace(job, reason="\x1b[2J").why_it_waits


def ordered(tmp_path: Path, name: str = "a %j", **words: object) -> tuple[RunDir, LaunchOrder]:
    """A run directory with a spec for Slurm, and its order."""
    run = RunDir(tmp_path / f"20261121-000000-{name}-0000")
    run.attempt(1).path.mkdir(parents=True)
    spec = stub_spec()
    write_spec(run.spec, structs.replace(spec, slurm=SlurmSpec(**words)))  # type: ignore[arg-type]
    env = {"PATH": "/bin", "TOKEN": "very secret"}
    return run, LaunchOrder(run=run.id, attempt=1, argv=("x",), cwd="/", env=env, nonce="n", withheld=("TOKEN",))


def test_what_is_asked_is_said_in_sbatchs_own_options(tmp_path: Path) -> None:
    """Each key is one word, further ones come last, and a name with a percent sign is no pattern."""
    run, order = ordered(tmp_path)
    spec = structs.replace(
        stub_spec(),
        slurm=SlurmSpec(
            partition="gpu",
            account="lab",
            qos="low",
            constraint="a100",
            mem="8G",
            gres="gpu:1",
            time="4:00:00",
            cpus=3,
            extra=("--nice=100",),
        ),
    )
    words = sbatch_words(run, order, spec)
    assert {"--partition=gpu", "--gres=gpu:1", "--time=4:00:00", "--cpus-per-task=3", "--no-requeue"} <= set(words)
    # SBATCH_EXPORT=NONE, which many clusters set, would keep a run's secrets from it.
    assert "--export=ALL" in words
    assert {"--account=lab", "--qos=low", "--constraint=a100", "--mem=8G"} <= set(words)
    assert words[-1] == "--nice=100"
    assert "--signal=B:USR1@120" in words
    assert next(word for word in words if word.startswith("--output=")).count("%%j") == 1


def test_slurm_spools_half_of_a_secret(tmp_path: Path) -> None:
    """Half of it says nothing; the script and the words have none of it, and nothing else of the supervisor's
    environment goes along.
    """
    run, order = ordered(tmp_path)
    environ = job_environ(run, order, {"PATH": "/bin", "AWS_KEY": "mine", "SBATCH_ACCOUNT": "lab"})
    half = base64.b64decode(environ.pop("MISSION_TUI_SECRETS"))
    assert environ == {"PATH": "/bin", "SBATCH_ACCOUNT": "lab"}
    pad = run.attempt(1).pad
    assert bytes(a ^ b for a, b in zip(half, pad.read_bytes(), strict=True)) == b'{"TOKEN":"very secret"}'
    assert b"very" not in half + pad.read_bytes()
    assert pad.stat().st_mode & 0o777 == 0o600
    assert "very" not in script(run, order, DIGEST)
    assert not any("very" in word for word in sbatch_words(run, order, stub_spec()))
    long = structs.replace(order, env={"TOKEN": "x" * 200_000})
    with pytest.raises(MissionError, match="launch from a shell with fewer variables"):
        job_environ(run, long, {})
    pad.unlink()
    assert job_environ(run, structs.replace(order, withheld=()), {})["MISSION_TUI_SECRETS"] == ""
    assert not pad.exists()


class Answers:
    """In the place of the commands: what each one answers, and what was called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.called: list[str] = []
        self.sbatch: Answer = lambda _: "7\n"
        self.squeue: Answer = lambda _: listed()
        self.jobs: Answer = lambda _: ""
        monkeypatch.setattr(slurm, "call", self.call)
        monkeypatch.setattr(engine, "SOON_POLL_S", 0.0)

    def call(self, words: Sequence[str], *_: object) -> str:
        self.called.append(words[0])
        if words[0] == "sbatch":
            return self.sbatch(words)
        if words[-1] == "job":
            return self.jobs(words)
        return self.squeue(words) if words[0] == "squeue" else ""


def lost(_: Sequence[str]) -> str:
    """The command was carried out, perhaps, and did not say so."""
    raise SlurmError("sbatch did not answer within 20 s", sent=True)


async def test_a_submission_without_an_answer_is_looked_for_before_it_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found in the list it is the run's job, and it is submitted once; where no list has it, the run says why."""
    answers = Answers(monkeypatch)
    answers.sbatch = lost
    for found in (True, False):
        run, order = ordered(tmp_path / str(found))
        job = entry(9, "PENDING", name=f"{run.id}.1", current_working_directory=str(run.path))
        answers.squeue = lambda _, job=job, found=found: listed(job) if found else listed()  # type: ignore[misc]
        answers.called.clear()
        launcher = SlurmLauncher()
        handle = launcher.submit(run, order, DIGEST)
        for _ in range(3):
            await launcher.refresh([Job(run, 1, "n", handle)])
        assert answers.called.count("sbatch") == 1
        seen, ended = launcher.poll(Job(run, 1, "n", handle)), read_exit(run.attempt(1).exit)
        if found:
            assert (seen.stage, ended) == ("queued", None)
            written = read_handle(run.attempt(1).handle)
            assert written is not None
            assert written.id == "9"
        else:
            assert seen.stage == "gone"
            assert ended is not None
            assert "did not answer within 20 s" in (ended.start_error or "")


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(60)
def test_commands_that_hang_hold_up_nobody_else(idle_lab: Lab) -> None:
    """Twelve runs wait for a Slurm that does not answer: a launch on this machine begins as if there were none."""
    commands = idle_lab.root / "commands"
    commands.mkdir()
    for name in ("sbatch", "squeue", "scontrol"):
        (commands / name).write_text(f"#!/bin/sh\necho {name} >>{commands}/called\nsleep 60\n", encoding="ascii")
        (commands / name).chmod(0o755)
    idle_lab.environ["PATH"] = f"{commands}{os.pathsep}{idle_lab.environ['PATH']}"
    idle_lab.start()
    spec = stub_spec()
    idle_lab.launch(12, spec=structs.replace(spec, run=structs.replace(spec.run, launcher="slurm")))
    idle_lab.until((commands / "called").exists)
    began = time.monotonic()
    (run,) = idle_lab.launch()
    assert time.monotonic() - began < slurm_commands.CALL_S / 4
    idle_lab.running(run)
    assert (commands / "called").read_text(encoding="ascii").split().count("scontrol") == 1


async def test_what_jobs_may_ask_for_is_asked_once_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many were launched together."""
    answers, launcher = Answers(monkeypatch), SlurmLauncher()
    for name in "abc":
        launcher.submit(*ordered(tmp_path, name), DIGEST)
    await launcher.refresh([])
    assert (answers.called.count("sbatch"), answers.called.count("scontrol")) == (3, 1)


async def test_a_job_without_a_number_on_record_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor died between the submission and its record: the next one submits nothing anew, unless no list has
    it twice.
    """
    answers = Answers(monkeypatch)
    run, _ = ordered(tmp_path)
    handle = SlurmLauncher().submit(run, ordered(tmp_path / "other")[1], DIGEST)
    job = Job(run, 1, "n", handle)
    running = entry(9, "RUNNING", name=f"{run.id}.1", current_working_directory=str(run.path), nodes="n2")
    answers.squeue = lambda _: listed(running)
    launcher = SlurmLauncher()
    assert launcher.poll(job).stage == "unseen"
    assert launcher.is_coming(job)
    await launcher.refresh([job])
    assert (launcher.poll(job).stage, launcher.poll(job).node) == ("starting", "n2")
    answers.squeue = lambda _: listed()
    anew = SlurmLauncher()
    assert anew.poll(job).stage == "unseen"
    for _ in range(2):
        assert anew.is_coming(job)
        await anew.refresh([job])
    assert not anew.is_coming(job)
    assert "sbatch" not in answers.called


def unreachable(_: Sequence[str]) -> str:
    """No controller answers."""
    raise SlurmError("Unable to contact slurm controller (connect failure)", unreached=True)


@pytest.mark.parametrize("jobs", [lambda _: "JobId=7 JobName=r.1 UserId=me(1)\nJobId=70 JobName=x\n", unreachable])
async def test_a_list_that_misses_a_job_is_believed_only_if_the_controller_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: Answer
) -> None:
    """A job that waits in the queue is not lost because lists were cut short: only the controller's word says so."""
    answers = Answers(monkeypatch)
    run, order = ordered(tmp_path)
    launcher = SlurmLauncher()
    job = Job(run, 1, "n", launcher.submit(run, order, DIGEST))
    waits = entry(7, name=f"{run.id}.1", current_working_directory=str(run.path), state_reason="Resources")
    answers.squeue = lambda _: listed(waits)
    await launcher.refresh([job])
    answers.squeue, answers.jobs = lambda _: listed(), jobs
    for _ in range(5):
        await launcher.refresh([job])
    assert (launcher.poll(job).stage, launcher.poll(job).why) == ("queued", "waits: Resources")
    answers.jobs = lambda _: "No jobs in the system\n"
    await launcher.refresh([job])
    await launcher.refresh([job])
    # It never began: nothing is lost, and the run goes on in another job.
    assert (launcher.poll(job).stage, "does not know its job 7" in launcher.poll(job).interrupted) == ("gone", True)
    # While no supervisor looked it may have been cancelled, and that was long ago.
    anew, job = SlurmLauncher(), Job(run, 1, "n", read_handle(run.attempt(1).handle))
    for _ in range(3):
        anew.poll(job)
        await anew.refresh([job])
    seen = anew.poll(job)
    assert (seen.stage, "`resume` has the run go on" in seen.why, seen.interrupted) == ("gone", True, "")


async def one_that_runs(answers: Answers, tmp_path: Path) -> tuple[SlurmLauncher, Job]:
    """A job that Slurm says to run on a node; its keeper has written nothing yet."""
    run, order = ordered(tmp_path)
    launcher = SlurmLauncher()
    job = Job(run, 1, "n", launcher.submit(run, order, DIGEST))
    runs = entry(7, "RUNNING", name=f"{run.id}.1", current_working_directory=str(run.path), nodes="n1")
    answers.squeue = lambda _: listed(runs)
    await launcher.refresh([job])
    return launcher, job


async def test_a_job_that_slurm_forgot_is_followed_by_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller came back without its jobs: who still writes lives, and reads a stop in its own files; who is silent
    goes on in another job.
    """
    answers = Answers(monkeypatch)
    launcher, job = await one_that_runs(answers, tmp_path)
    files = job.dir.attempt(1)
    files.identity.touch()
    answers.squeue = lambda _: listed()
    for beat in range(4):
        files.alive.write_text(str(beat), encoding="ascii")
        await launcher.refresh([job])
        assert launcher.poll(job).stage == "running"
    assert answers.called.count("scontrol") == 2, "once for the configuration, and once for the job"
    assert launcher.stop(job) == "keeper"
    assert files.signal.read_bytes() == b"TERM\n"
    monkeypatch.setattr(engine, "SILENT_S", 0.0)
    await launcher.refresh([job])
    assert (launcher.poll(job).stage, launcher.poll(job).interrupted) == (
        "gone",
        "Slurm does not know its job 7 any more",
    )
    assert "scancel" not in answers.called


@pytest.mark.parametrize(("verb", "word"), [("stop", b"TERM\n"), ("kill", b"QUIT\n")])
async def test_without_a_controller_an_end_is_asked_by_file_and_believed_by_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, word: bytes
) -> None:
    """The keeper finds the word as soon as it has begun; what it wrote about the end is one, whatever the list says
    that was the last.
    """
    answers = Answers(monkeypatch)
    launcher, job = await one_that_runs(answers, tmp_path)
    files = job.dir.attempt(1)
    answers.squeue = unreachable
    assert getattr(launcher, verb)(job) == "keeper"
    assert not files.signal.exists(), "its keeper would not begin, and not say so"
    files.identity.touch()
    with pytest.raises(SlurmError):
        await launcher.refresh([job])
    assert files.signal.read_bytes() == word
    assert not launcher.is_free(job.dir)
    write_json(files.exit, exit_record(1, code=0, asked="quit"))
    assert launcher.poll(job).stage == "running", "Slurm may say more about the end"
    monkeypatch.setattr(engine, "STATE_S", 0.0)
    assert (launcher.poll(job).stage, launcher.is_free(job.dir)) == ("gone", True)


@pytest.mark.parametrize("verb", ["stop", "kill"])
async def test_what_is_to_end_while_no_controller_comes_back_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: Literal["stop", "kill"]
) -> None:
    """A cluster may be gone for good, also after it took the word: not before its trainer is silent, too, and not where
    the controller answers.
    """
    answers = Answers(monkeypatch)
    launcher, job = await one_that_runs(answers, tmp_path)
    files = job.dir.attempt(1)
    files.identity.touch()
    files.alive.write_text("1", encoding="ascii")
    answers.squeue = unreachable
    monkeypatch.setitem(engine.GIVEN_UP_S, verb, 0.0)
    getattr(launcher, verb)(job)
    with pytest.raises(SlurmError):
        await launcher.refresh([job])
    assert launcher.poll(job).stage == "running", "its trainer was heard of just now"
    monkeypatch.setattr(engine, "SILENT_S", 0.0)
    seen = launcher.poll(job)
    assert (seen.stage, seen.unsure, launcher.is_free(job.dir)) == ("gone", True, True)
    assert seen.why.startswith("Slurm did not answer")
    answers.squeue = lambda _: listed(
        entry(7, "RUNNING", name=f"{job.dir.id}.1", current_working_directory=str(job.dir.path), nodes="n1")
    )
    monkeypatch.setitem(engine.GIVEN_UP_S, verb, 60.0)
    await launcher.refresh([job])
    assert launcher.poll(job).stage == "running"
    monkeypatch.setitem(engine.GIVEN_UP_S, verb, 0.0)
    assert launcher.poll(job).stage == "gone"


async def test_a_run_that_goes_on_waits_for_a_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would start it again: it says for what it waits and is submitted once Slurm answers; a launch is told."""
    monkeypatch.setattr(slurm, "POLL_S", 0.0)
    answers, launcher = Answers(monkeypatch), SlurmLauncher()
    answers.sbatch = unreachable
    first, goes_on, given_up = (ordered(tmp_path, name) for name in ("first", "on", "up"))
    jobs = [Job(first[0], 1, "n", launcher.submit(*first, DIGEST))]
    for run, order in (goes_on, given_up):
        run.attempt(2).path.mkdir()
        jobs.append(Job(run, 2, "n", launcher.submit(run, structs.replace(order, attempt=2), DIGEST)))
    for _ in range(2):
        await launcher.refresh(jobs)
    ended = read_exit(first[0].attempt(1).exit)
    assert ended is not None
    assert ended.start_error == "Slurm did not start it: Unable to contact slurm controller (connect failure)"
    for job in jobs[1:]:
        assert (launcher.poll(job).stage, launcher.poll(job).why) == (
            "queued",
            "waits for Slurm: Unable to contact slurm controller (connect failure)",
        )
    assert launcher.stop(jobs[2]) == "keeper"
    assert (launcher.poll(jobs[2]).stage, launcher.is_free(given_up[0])) == ("gone", True)
    answers.called.clear()
    answers.sbatch = lost
    await launcher.refresh(jobs)
    answers.sbatch = lambda _: "7\n"
    # Not in the list that was asked for after: it may be submitted again.
    await launcher.refresh(jobs)
    await launcher.refresh(jobs)
    assert answers.called.count("sbatch") == 2
    handle = read_handle(goes_on[0].attempt(2).handle)
    assert handle is not None
    assert handle.id == "7"


def test_what_slurm_says_tells_whether_anybody_was_asked(tmp_path: Path) -> None:
    """A controller that is down can be asked later; one whose answer was lost may have done it; a refusal is one."""
    command = tmp_path / "sbatch"
    for said, sent, unreached in (
        ("Batch job submission failed: Unable to contact slurm controller (connect failure)", False, True),
        ("Batch job submission failed: Protocol authentication error", False, True),
        ("Batch job submission failed: Socket timed out on send/recv operation", True, False),
        ("Batch job submission failed: Invalid partition name specified", False, False),
    ):
        command.write_text(f"#!/bin/sh\necho 'sbatch: error: {said}' >&2\nexit 1\n", encoding="ascii")
        command.chmod(0o755)
        with pytest.raises(SlurmError, match=re.escape(said)) as caught:
            slurm_commands.call([str(command)])
        assert (caught.value.sent, caught.value.unreached) == (sent, unreached)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("yes", "answered more than 100,000 bytes"),
        ("yes >&2", "answered more than 100,000 bytes"),
        ("sleep 30", "did not answer within 0.5 s"),
        ("exec >&- 2>&-; sleep 30", "did not answer within 0.5 s"),
        ("sleep 30 & exit 0", "did not answer within 0.5 s"),
    ],
)
def test_an_answer_without_an_end_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    """Whatever a command prints, and whoever it leaves behind, the supervisor's memory and threads are not theirs."""
    monkeypatch.setattr(slurm_commands, "MOST_BYTES", 100_000)
    monkeypatch.setattr(slurm_commands, "CALL_S", 0.5)
    command = tmp_path / "squeue"
    command.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    command.chmod(0o755)
    began = time.monotonic()
    with pytest.raises(SlurmError, match=re.escape(why)) as caught:
        slurm_commands.call([str(command)])
    assert caught.value.sent
    assert time.monotonic() - began < 10
    command.write_text("#!/bin/sh\ncat; echo words >&2\n", encoding="ascii")
    assert slurm_commands.call([str(command)], "said\n" * 10_000) == "said\n" * 10_000


async def test_unanswered_submissions_are_looked_for_in_one_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are; of what was submitted, nothing that was asked for is kept."""
    answers, launcher = Answers(monkeypatch), SlurmLauncher()
    answers.sbatch = lost
    runs = [ordered(tmp_path, name) for name in "abc"]
    jobs = [Job(run, 1, "n", launcher.submit(run, order, DIGEST)) for run, order in runs]
    await launcher.refresh(jobs)
    queued = [entry(9, name=f"{run.id}.1", current_working_directory=str(run.path)) for run, _ in runs[:2]]
    answers.squeue = lambda _: listed(*queued)
    answers.called.clear()
    await launcher.refresh(jobs)
    assert answers.called == ["squeue"]
    assert [launcher.poll(job).stage for job in jobs] == ["queued", "queued", "gone"]
    assert [launcher._of(job).spec for job in jobs] == [None] * 3


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("NODE_FAIL", "node n1 was lost"),
        ("PREEMPTED", "it made room"),
        ("TIMEOUT", "the time limit"),
        ("CANCELLED", ""),
    ],
)
async def test_what_slurm_ended_may_go_on_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, why: str
) -> None:
    """A lost node, preemption and a time limit do; what somebody cancelled does not."""
    answers = Answers(monkeypatch)
    run, order = ordered(tmp_path)
    launcher = SlurmLauncher()
    job = Job(run, 1, "n", launcher.submit(run, order, DIGEST))
    entry_now = entry(7, state, name=f"{run.id}.1", current_working_directory=str(run.path), nodes="n1")
    answers.squeue = lambda _: listed(entry_now)
    await launcher.refresh([job])
    seen = launcher.poll(job)
    assert seen.stage == "gone"
    assert seen.interrupted.startswith(why) if why else not seen.interrupted
    assert seen.cancelled == (state == "CANCELLED")


def test_what_nobody_says_comes_from_the_price(tmp_path: Path) -> None:
    """Memory where the cluster counts it, a GPU where it has any and the run wants one, the time of a budget in
    seconds; what preset, or sbatch's own variables, say is left alone.
    """
    cluster = read_cluster("GresTypes               = gpu:a,shard\nSelectTypeParameters    = CR_CORE_MEMORY\n")
    assert cluster == Cluster(memory=True, gpus=True)
    assert read_cluster("GresTypes = (null)\nSelectTypeParameters = CR_CPU\n") == Cluster()
    spec = structs.replace(stub_spec(), run=structs.replace(stub_spec().run, device="cuda", duration_s=600.0))
    memory, gpu, limit = priced_words([spec], cluster, {})
    assert 500 < int(memory.removeprefix("--mem=").removesuffix("M")) < 4000
    assert (gpu, limit) == ("--gres=gpu:1", "--time=22")
    assert priced_words([stub_spec()], Cluster(), {}) == []
    said = structs.replace(spec, slurm=SlurmSpec(mem="1G", gres="shard:1", time="5"))
    assert priced_words([said], cluster, {}) == []
    asked = {"SBATCH_MEM_PER_CPU": "1G", "SBATCH_GRES": "gpu:2", "SBATCH_TIMELIMIT": "9"}
    assert priced_words([spec], cluster, asked) == []
    two = priced_words([spec, spec], cluster, {})[0]
    assert int(two.removeprefix("--mem=").removesuffix("M")) > int(memory.removeprefix("--mem=").removesuffix("M"))
    run, order = ordered(tmp_path)
    assert "--gres=gpu:1" in sbatch_words(run, order, spec, cluster)


def no_more(_: Sequence[str]) -> str:
    """This user has as many jobs there as an administrator allows."""
    raise SlurmError("QOSMaxSubmitJobPerUserLimit; Batch job submission failed: Job violates accounting", full=True)


async def test_a_user_who_may_have_no_more_jobs_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is launched; of all who wait one asks again, and all are handed over once there is room."""
    answers, launcher = Answers(monkeypatch), SlurmLauncher()
    answers.sbatch = no_more
    runs = [ordered(tmp_path, f"r{number}") for number in range(3)]
    jobs = [Job(run, 1, "n", launcher.submit(run, order, DIGEST)) for run, order in runs]
    await launcher.refresh(jobs)
    before = answers.called.count("sbatch")
    for job in jobs:
        assert launcher.poll(job).stage == "queued"
        assert launcher.poll(job).why.startswith("waits for Slurm: QOSMaxSubmitJobPerUserLimit")
    await launcher.refresh(jobs)
    assert answers.called.count("sbatch") == before, "nobody asks again at once"
    for known in launcher._everybody():
        known.again_at = 0.0
    await launcher.refresh(jobs)
    assert answers.called.count("sbatch") == before + 1
    for known in launcher._everybody():
        known.again_at = 0.0
    numbers = iter("789")
    answers.sbatch = lambda _: f"{next(numbers)}\n"
    for _ in range(2):
        await launcher.refresh(jobs)
    assert sorted(read_handle(run.attempt(1).handle).id for run, _ in runs) == ["7", "8", "9"]  # type: ignore[union-attr]


async def test_runs_that_share_a_job_share_it_still_when_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks again is a job with all of its runs, not one of them."""
    monkeypatch.setattr("mission_tui.supervisor.launchers.slurm.GATHER_S", 0.0)
    answers, launcher = Answers(monkeypatch), SlurmLauncher()
    answers.sbatch = no_more
    runs = [ordered(tmp_path, f"r{number}", pack=2) for number in range(2)]
    jobs = [Job(run, 1, "n", launcher.submit(run, order, DIGEST)) for run, order in runs]
    await launcher.refresh(jobs)
    for known in launcher._everybody():
        known.again_at = 0.0
    answers.sbatch = lambda _: "7\n"
    await launcher.refresh(jobs)
    assert [read_handle(run.attempt(1).handle).id for run, _ in runs] == ["7", "7"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("said", "full"),
    [
        ("QOSMaxSubmitJobPerUserLimit", True),
        ("AssocGrpSubmitJobsLimit", True),
        ("AssocMaxWallDurationPerJobLimit", False),
    ],
)
def test_a_limit_of_jobs_is_told_from_a_job_that_is_too_large(tmp_path: Path, said: str, full: bool) -> None:
    """The one passes with time; the other is refused for good."""
    command = tmp_path / "sbatch"
    last = "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time)"
    command.write_text(f'#!/bin/sh\necho "sbatch: error: {said}" >&2\necho "sbatch: error: {last}" >&2\nexit 1\n')
    command.chmod(0o755)
    with pytest.raises(SlurmError) as caught:
        slurm_commands.call([str(command)])
    assert caught.value.full is full


async def test_a_suspended_job_stands_still_and_is_killed_by_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lets it go on is said; no signal is taken for it, so a kill is the job's end, and a stop waits in a file."""
    answers = Answers(monkeypatch)
    launcher, job = await one_that_runs(answers, tmp_path)
    job.dir.attempt(1).identity.touch()
    said: list[Sequence[str]] = []

    def call(words: Sequence[str], *more: object) -> str:
        said.append(words)
        return answers.call(words, *more)

    monkeypatch.setattr(slurm, "call", call)
    name, folder = f"{job.dir.id}.1", str(job.dir.path)
    stands = entry(7, "SUSPENDED", name=name, current_working_directory=folder, nodes="n1")
    answers.squeue = lambda _: listed(stands)
    assert launcher.poll(job).suspended == ""
    assert launcher.stop(job) == "keeper"
    await launcher.refresh([job])
    assert (launcher.poll(job).stage, "`scontrol resume 7`" in launcher.poll(job).suspended) == ("running", True)
    assert job.dir.attempt(1).signal.read_bytes() == b"TERM\n"
    assert launcher.kill(job) == "keeper"
    await launcher.refresh([job])
    assert [words for words in said if words[0] == "scancel"][-1] == ["scancel", "7"]


@pytest.mark.parametrize(
    ("reason", "helps"),
    [("PartitionConfig", "sinfo"), ("JobHeldUser", "`scontrol release 7`"), ("PartitionTimeLimit", "slurm.time")],
)
def test_what_no_waiting_mends_is_said_with_what_helps(reason: str, helps: str) -> None:
    """A job that would wait for ever does not look like one that waits for its turn."""
    job = SlurmJob(number="7", name="r.1", folder="/r", state="PENDING", reason=reason)
    assert job.why_it_waits.startswith(f"waits: {reason}: ")
    assert helps in job.why_it_waits


async def test_who_left_no_record_has_what_slurm_printed_on_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keeper that was killed with its job cannot say that it took too much memory; the log of the job does."""
    answers = Answers(monkeypatch)
    launcher, job = await one_that_runs(answers, tmp_path)
    files = job.dir.attempt(1)
    files.identity.touch()
    (files.path / slurm_commands.SLURM_LOG).write_text("slurmstepd: error: StepId=7 exceeded memory limit\n", "ascii")
    failed = entry(7, "FAILED", name=f"{job.dir.id}.1", current_working_directory=str(job.dir.path), nodes="n1")
    answers.squeue = lambda _: listed(failed)
    monkeypatch.setattr(engine, "LAG_S", 0.0)
    await launcher.refresh([job])
    said = "slurmstepd: error: StepId=7 exceeded memory limit; slurm.mem asks for more"
    assert launcher.poll(job).why == f"Slurm ended its job 7: FAILED; {said}"
    cancelled = SlurmJob(number="7", name="r.1", folder="/r", state="CANCELLED", reason="JobHeldUser")
    assert cancelled.ended == "somebody cancelled its job 7 in Slurm (scancel)"
    killed = SlurmJob(number="7", name="r.1", folder="/r", state="OUT_OF_MEMORY")
    assert killed.ended == "Slurm ended its job 7: OUT_OF_MEMORY; slurm.mem asks for more"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"extra": ("--array=1-3",)}, "an attempt is one job"),
        ({"extra": ("-a1-3",)}, "an attempt is one job"),
        ({"extra": ("--requ",)}, "slurm.requeue"),
        ({"extra": ("--job-name=mine",)}, "leave it out"),
        ({"extra": ("--export=NONE",)}, "travel in its job's environment"),
        ({"time": "1"}, "slurm.time = '1' is 60 s"),
        ({"time": "0-0:02:00"}, "is 120 s"),
    ],
)
def test_words_that_take_the_job_out_of_our_hands_are_refused(words: dict[str, object], said: str) -> None:
    """Each would start an attempt several times, over and over, without its variables, or as a job that nobody finds
    again.
    """
    assert any(said in it.sentence for it in violations(for_slurm(**words)))


@pytest.mark.parametrize(
    "words",
    [
        {"extra": ("--nice=100", "--exclude", "n3", "--wait-all-nodes=1", "-q", "low")},
        *({"time": time} for time in ("3", "2:30", "0:10:00", "1-0", "0", "UNLIMITED", "soon")),
    ],
)
def test_other_words_for_sbatch_are_left_to_sbatch(words: dict[str, object]) -> None:
    """What it makes of them, it says itself."""
    assert list(violations(for_slurm(**words))) == []


def for_slurm(**words: object) -> Spec:
    """A spec that Slurm carries out, and asks for `words`."""
    spec = stub_spec()
    asked = SlurmSpec(**words)  # type: ignore[arg-type]
    return structs.replace(spec, run=structs.replace(spec.run, launcher="slurm"), slurm=asked)
