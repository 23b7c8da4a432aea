"""Any command as a run: the same keeper, log and ladder, and an outcome by exit code; with real processes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from pathlib import Path

import psutil
import pytest

from mission_tui.errors import PresetError, UsageError
from mission_tui.fleet.specs.spec import KeepSpec, RestartKeep, RunSpec, Spec
from mission_tui.ipc.replies import Accepted, OperatorReply, VerdictReply
from mission_tui.ipc.requests import Evaluate, Export, Resume
from mission_tui.records.given_files import read_env_file
from mission_tui.records.runs.attempt import read_exit
from tests.supervisor.conftest import Lab, RunsRoot, living
from tests.supervisor.simulated_lab import SimulatedLab
from tests.waiting import until

SECRET = "hunter2-and-nothing-else"


def a_command(*words: str, keep: KeepSpec | None = None, **run: object) -> Spec:
    """The spec of a run of `words`."""
    return Spec(preset="command", run=RunSpec(command=words, **run), keep=keep or KeepSpec())  # type: ignore[arg-type]


def shell(script: str, **run: object) -> Spec:
    """The spec of a run of a shell script."""
    return a_command("/bin/sh", "-c", script, **run)  # type: ignore[arg-type]


def output(lab: RunsRoot, run: str, attempt: int = 1) -> str:
    """What it has printed."""
    path = lab.dir(run).attempt(attempt).output
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize(
    ("script", "outcome", "kind", "cause"),
    [
        ("echo done", "finished", None, "exit code 0"),
        ("sleep 600 &", "finished", None, "exit code 0; a process that it had left running was ended with it"),
        ("echo broken; exit 3", "failed", "exit", "exit code 3: broken"),
        ("kill -SEGV $$", "failed", "crash", "ended by SIGSEGV (signal 11)"),
    ],
)
def test_how_a_command_exits_is_its_outcome(
    script: str, outcome: str, kind: str | None, cause: str, shared_lab: Lab
) -> None:
    """0 is finished; any other code or signal is a failure, with the code and the last line it printed."""
    (run,) = shared_lab.launch(spec=shell(script))
    view = shared_lab.ended(run)
    assert (view.outcome, view.kind, view.cause) == (outcome, kind, cause)


def test_what_nobody_reported_is_unknown(shared_lab: Lab) -> None:
    """A command that reports nothing has no update, steps, speed or size: dashes, never zeros."""
    (run,) = shared_lab.launch(spec=shell("exec sleep 60"))
    view = shared_lab.wait(run, lambda view: view.state == "running")
    known = (view.update, view.timesteps, view.steps_per_s, view.eta_s, view.total_timesteps, view.seed)
    assert known == (None,) * 6
    assert (view.metrics, view.can, view.env_id) == ({}, (), "")
    assert view.description == "/bin/sh -c 'exec sleep 60'"


def test_a_command_is_told_how_to_report(shared_lab: Lab) -> None:
    """Socket, run, attempt and nonce are in its environment by the names that the trainer knows, and a file."""
    names = ("TELEMETRY", "REPORT", "RUN", "RUN_DIR", "ATTEMPT", "NONCE", "SEED")
    (run,) = shared_lab.launch(spec=shell("; ".join(f'echo "$MISSION_TUI_{name}"' for name in names), seed=7))
    shared_lab.ended(run)
    socket, report, *told, nonce, seed = output(shared_lab, run).splitlines()
    assert report == str(shared_lab.dir(run).attempt(1).reported)
    assert Path(socket).is_socket()
    assert told == [run, str(shared_lab.dir(run).path), "1"]
    assert nonce == json.loads(shared_lab.dir(run).attempt(1).launch.read_bytes())["nonce"]
    assert seed == "7"


def test_threads_are_a_commands_own_unless_they_are_asked_for(shared_lab: Lab) -> None:
    """A script that was measured with the shell's threads is not slowed in secret."""
    script = 'echo "[$OMP_NUM_THREADS]"'
    (free,) = shared_lab.launch(spec=shell(script))
    (asked,) = shared_lab.launch(spec=shell(script, threads=2))
    shared_lab.ended(free)
    shared_lab.ended(asked)
    assert (output(shared_lab, free), output(shared_lab, asked)) == ("[]\n", "[2]\n")


def test_stop_is_a_sigterm(shared_lab: Lab) -> None:
    """The program alone hears it, may clean up, and has stopped whatever it exits with."""
    script = "trap 'echo saved; exit 4' TERM; echo ready; while :; do sleep 0.05; done"
    (run,) = shared_lab.launch(spec=shell(script))
    until(lambda: "ready" in output(shared_lab, run))
    shared_lab.act("stop", run)
    view = shared_lab.ended(run)
    assert (view.outcome, view.cause) == ("stopped", "stopped by you (exit code 4)")
    assert "saved" in output(shared_lab, run)


def test_a_command_without_a_handler_stops(shared_lab: Lab) -> None:
    """To die of the SIGTERM that was asked for is to stop, not to fail or to be killed."""
    (run,) = shared_lab.launch(spec=shell("echo ready; exec sleep 60"))
    until(lambda: "ready" in output(shared_lab, run))
    shared_lab.act("stop", run)
    view = shared_lab.ended(run)
    assert (view.outcome, view.cause) == ("stopped", "stopped by you")


def test_who_ignores_sigterm_is_killed_after_its_grace(shared_lab: Lab) -> None:
    """The ladder's next rung comes when the grace is over, and the outcome says so."""
    (run,) = shared_lab.launch(spec=shell("trap '' TERM; echo ready; while :; do sleep 0.05; done", grace_s=0.5))
    until(lambda: "ready" in output(shared_lab, run))
    shared_lab.act("stop", run)
    view = shared_lab.ended(run)
    assert (view.outcome, view.cause) == ("killed", "did not stop in time and was killed")


def test_children_that_stay_are_swept(lab: Lab) -> None:
    """What a command leaves running in the background is no run of its own."""
    script = "setsid sleep 61 & sleep 62 & echo left; exit 0"
    (run,) = lab.launch(spec=shell(script))
    view = lab.ended(run)
    ended = read_exit(lab.dir(run).attempt(1).exit)
    assert view.outcome == "finished"
    assert ended is not None
    assert len(ended.swept) == 2
    assert not [process for process in living(lab.processes()) if "sleep" in process.name()]


def test_freeze_holds_a_command_and_everything_it_started(shared_lab: Lab) -> None:
    """It is the one pause that needs nobody's help; resume lets all of it go on."""
    (run,) = shared_lab.launch(spec=shell("sleep 60 & wait"))
    shared_lab.wait(run, lambda view: view.state == "running" and view.pids.workers)
    shared_lab.act("freeze", run)
    view = shared_lab.wait(run, lambda view: view.state == "frozen")
    assert view.pids.trainer is not None
    held = [view.pids.trainer, *view.pids.workers]
    assert [psutil.Process(pid).status() for pid in held] == [psutil.STATUS_STOPPED] * 2
    shared_lab.ask(lambda id_: Resume(id=id_, run=run))
    shared_lab.wait(run, lambda view: view.state == "running")


@pytest.mark.parametrize("verb", ["pause", "park", "checkpoint"])
def test_what_a_command_cannot_do_is_refused_with_a_sentence(verb: str, sim: SimulatedLab) -> None:
    """Nothing is sent to it, and what can be done instead is named."""
    (run,) = sim.launch(spec=shell("exec sleep 60"))
    with pytest.raises(UsageError, match=f"cannot {verb} .*: it runs a command, which"):
        sim.act(verb, run)
    assert sim.wait(run, lambda view: view.state == "running")


def test_nothing_of_a_command_can_be_played_or_exported(sim: SimulatedLab) -> None:
    """There is no policy of ours in it."""
    (run,) = sim.launch(spec=shell("exit 0"))
    sim.ended(run)
    with pytest.raises(UsageError, match=r"cannot evaluate .*: it runs a command"):
        sim.ask(lambda id_: Evaluate(id=id_, run=run))
    with pytest.raises(UsageError, match=r"cannot export .*: it runs a command"):
        sim.ask(lambda id_: Export(id=id_, run=run, path="/tmp/never.zip"))


def test_a_command_that_is_not_there_starts_nothing(sim: SimulatedLab) -> None:
    """One sentence, exit code 78, and no run directory."""
    for words, sentence in (
        (("no-such-program-anywhere",), "there is no program 'no-such-program-anywhere' on the PATH"),
        (("./missing.sh",), "missing.sh does not exist; a relative path is seen from"),
        (("/etc/passwd",), "/etc/passwd is not a program that can be started"),
    ):
        with pytest.raises(PresetError, match=sentence) as refused:
            sim.launch(spec=a_command(*words))
        assert "\n" not in str(refused.value)
    assert sim.snapshot().runs == ()


def test_a_folder_that_is_not_there_starts_nothing(sim: SimulatedLab) -> None:
    """`run.cwd` is named with its value."""
    with pytest.raises(PresetError, match=r"run\.cwd = '/nowhere/at/all' is not a folder"):
        sim.launch(spec=shell("exit 0", cwd="/nowhere/at/all"))
    assert sim.snapshot().runs == ()


def test_whose_python_folder_and_variables(lab: Lab) -> None:
    """All of `run.cwd`, `env`, `pythonpath` and `python` reach the command; relative paths are the client's."""
    (lab.root / "work").mkdir()
    (lab.root / "bin").mkdir()
    (lab.root / "bin" / "python").symlink_to(sys.executable)
    spec = a_command(
        "python",
        "-c",
        "import os, sys; print(os.getcwd(), os.environ['COLOUR'], sys.path[1], os.environ['PATH'].split(':')[0])",
        cwd="work",
        env={"COLOUR": "blue"},
        pythonpath=("src",),
        python="bin/python",
    )
    (run,) = lab.launch(spec=spec)
    assert lab.ended(run).outcome == "finished", output(lab, run)
    work = lab.root / "work"
    assert output(lab, run).split() == [str(work), "blue", str(work / "src"), str(lab.root / "bin")]


def test_a_secret_is_passed_and_is_nowhere_on_disk(lab: Lab) -> None:
    """Neither what `run.env_file` holds nor what was exported under a name that nobody knows is in any file."""
    file = lab.root.parent / "secrets.env"
    file.write_text(f"# mine\nexport DATABASE_URL='{SECRET}'\n")
    length = 'echo "${#DATABASE_URL} ${#WANDB_API_KEY} ${#MY_OWN}"; exec sleep 60'
    (run,) = lab.launch(spec=shell(length, env_file=str(file)), WANDB_API_KEY=f"{SECRET}!", MY_OWN=f"{SECRET}!!")
    until(lambda: output(lab, run) == f"{len(SECRET)} {len(SECRET) + 1} {len(SECRET) + 2}\n")
    lab.act("stop", run)
    lab.ended(run)
    written = [path for path in lab.root.rglob("*") if path.is_file()]
    assert len(written) > 5
    assert [path for path in written if SECRET.encode() in path.read_bytes()] == []
    order = json.loads(lab.dir(run).attempt(1).launch.read_bytes())
    assert sorted(order["withheld"]) == ["DATABASE_URL", "MY_OWN", "WANDB_API_KEY"]


def test_a_secret_in_an_env_file_is_not_quoted_back(sim: SimulatedLab) -> None:
    """A line that cannot be read is named by its number: what stands there may be a password."""
    file = sim.root.parent / "broken.env"
    file.write_text(f"A=1\n{SECRET}\n")
    with pytest.raises(PresetError, match=r"line 2 of .* is not NAME=VALUE") as refused:
        sim.launch(spec=shell("exit 0", env_file=str(file)))
    assert SECRET not in str(refused.value)


def resumed(lab: RunsRoot, run: str, *, accept: bool = False) -> OperatorReply:
    """The answer to a resume by somebody in the runs root."""
    environ = {"PATH": os.environ["PATH"]}
    return lab.ask(
        lambda id_: Resume(id=id_, run=run, accept=accept, cwd=str(lab.root), python=sys.executable, environ=environ)
    )


def test_an_env_file_that_is_too_large_is_refused_and_not_cut(tmp_path: Path) -> None:
    """The last variable of a file that was read in part would be missing, or half of it."""
    file = tmp_path / "large.env"
    file.write_text("".join(f"NAME_{number}={'x' * 100}\n" for number in range(10_000)), encoding="utf-8")
    with pytest.raises(PresetError, match=r"cannot read .*large\.env: it has 1,\d+,\d+ bytes, and at most 1,048,576"):
        read_env_file(file)


def test_a_command_is_run_again_only_on_a_persons_word(shared_lab: Lab) -> None:
    """Nobody knows what a second run of it would overwrite, so the verdict says so and waits."""
    (run,) = shared_lab.launch(spec=shell('echo "attempt $MISSION_TUI_ATTEMPT"'))
    shared_lab.ended(run)
    verdict = resumed(shared_lab, run)
    assert isinstance(verdict, VerdictReply)
    assert verdict.accept_needed
    assert [change.now for change in verdict.verdict.changes] == ["from its beginning"]
    assert shared_lab.view(run).attempt == 1
    assert isinstance(resumed(shared_lab, run, accept=True), Accepted)
    shared_lab.wait(run, lambda view: view.attempt == 2 and view.state == "ended")
    assert output(shared_lab, run, 2) == "attempt 2\n"


def test_resume_command_goes_on_without_a_question(shared_lab: Lab) -> None:
    """Whoever wrote it knows that it goes on."""
    spec = shell("echo first; exit 1", resume_command=("/bin/sh", "-c", "echo second"))
    (run,) = shared_lab.launch(spec=spec)
    assert shared_lab.ended(run).outcome == "failed"
    assert isinstance(resumed(shared_lab, run), Accepted)
    view = shared_lab.wait(run, lambda view: view.attempt == 2 and view.state == "ended")
    assert (view.outcome, output(shared_lab, run, 2)) == ("finished", "second\n")


def test_a_command_that_fails_is_started_again_if_its_rule_says_so(lab: Lab) -> None:
    """`keep.restart` is the user's word, given before."""
    keep = KeepSpec(restart=RestartKeep(most=1, wait_s=0.1))
    mark = shlex.quote(str(lab.root / "tried"))
    (run,) = lab.launch(spec=a_command("/bin/sh", "-c", f"test -e {mark} || {{ touch {mark}; exit 9; }}", keep=keep))
    view = lab.wait(run, lambda view: view.attempt == 2 and view.state == "ended")
    assert view.outcome == "finished"


def test_secrets_are_there_again_when_a_rule_restarts_a_command(shared_lab: Lab) -> None:
    """They were on no disk, so the supervisor that started it remembers them."""
    keep = KeepSpec(restart=RestartKeep(most=1, wait_s=0.1))
    spec = a_command("/bin/sh", "-c", 'echo "$HF_TOKEN"; test "$MISSION_TUI_ATTEMPT" = 2', keep=keep)
    (run,) = shared_lab.launch(spec=spec, HF_TOKEN=SECRET)
    shared_lab.wait(run, lambda view: view.attempt == 2 and view.state == "ended")
    assert (output(shared_lab, run, 1), output(shared_lab, run, 2)) == (f"{SECRET}\n", f"{SECRET}\n")
    assert SECRET not in shared_lab.dir(run).attempt(2).launch.read_text()


@pytest.mark.slow
def test_a_supervisor_that_takes_a_run_in_asks_its_process_for_the_secrets(lab: Lab) -> None:
    """The one that was killed took them along; the restart that its rule asks for has them all the same."""
    keep = KeepSpec(restart=RestartKeep(most=1, wait_s=0.1))
    mark = shlex.quote(str(lab.root / "go"))
    script = f'echo "$MY_OWN"; until test -e {mark}; do sleep 0.05; done; test "$MISSION_TUI_ATTEMPT" = 2'
    (run,) = lab.launch(spec=a_command("/bin/sh", "-c", script, keep=keep), MY_OWN=SECRET)
    until(lambda: output(lab, run) == f"{SECRET}\n")
    lab.kill_supervisor()
    lab.start()
    (lab.root / "go").touch()
    lab.wait(run, lambda view: view.attempt == 2 and view.state == "ended")
    assert output(lab, run, 2) == f"{SECRET}\n"


@pytest.mark.slow
def test_what_nobody_remembers_is_named_at_the_restart(lab: Lab) -> None:
    """Supervisor and command died together: the restart waits, and says for what."""
    keep = KeepSpec(restart=RestartKeep(most=1, wait_s=0.1))
    script = 'echo "[$MY_OWN]"; test "$MISSION_TUI_ATTEMPT" = 2 && exit 0; exec sleep 60'
    (run,) = lab.launch(spec=a_command("/bin/sh", "-c", script, keep=keep), MY_OWN=SECRET)
    until(lambda: output(lab, run) == f"[{SECRET}]\n")
    command = lab.wait(run, lambda view: view.pids.trainer is not None).pids.trainer
    assert command is not None
    family = lab.family(run)
    lab.kill_supervisor()
    # Its keeper says how it died, and then leaves.
    os.kill(command, signal.SIGKILL)
    until(lambda: not living(family))
    lab.start()
    view = lab.wait(run, lambda view: "variable MY_OWN" in (view.cause or ""))
    assert (view.attempt, view.state) == (1, "queued")


@pytest.mark.parametrize("venv", [True, False])
def test_another_python_brings_its_own_venv_along(shared_lab: Lab, tmp_path: Path, venv: bool) -> None:
    """`VIRTUAL_ENV` names that of `run.python`, or nothing; `PWD` is the folder that the run works in."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    if venv:
        (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\n")
    spec = shell('echo "[$VIRTUAL_ENV] [$PYTHONHOME] [$PWD]"', python=str(python))
    (run,) = shared_lab.launch(spec=spec, VIRTUAL_ENV="/callers", PYTHONHOME="/callers")
    shared_lab.ended(run)
    assert output(shared_lab, run) == f"[{tmp_path if venv else ''}] [] [{shared_lab.root}]\n"


def test_a_command_goes_on_without_its_keeper_and_still_stops(shared_lab: Lab) -> None:
    """SIGKILL to the keeper alone leaves the command running; the supervisor then asks it to end itself."""
    (run,) = shared_lab.launch(spec=shell("echo ready; exec sleep 60"))
    view = shared_lab.wait(run, lambda view: view.state == "running" and view.pids.trainer)
    assert view.pids.keeper is not None
    psutil.Process(view.pids.keeper).kill()
    shared_lab.wait(run, lambda view: "keeperless" in view.flags)
    assert shared_lab.view(run).state == "running"
    shared_lab.act("stop", run)
    view = shared_lab.ended(run)
    assert (view.outcome, view.cause) == ("stopped", "stopped by you; its exit code is not known")


def test_a_run_of_a_command_is_taken_in_by_the_next_supervisor(lab: Lab) -> None:
    """It goes on while nobody supervises, and how it ended then is known."""
    (run,) = lab.launch(spec=shell("echo ready; sleep 1; exit 5"))
    until(lambda: "ready" in output(lab, run))
    lab.kill_supervisor()
    lab.start()
    view = lab.ended(run)
    assert (view.outcome, view.cause) == ("failed", "exit code 5: ready")
