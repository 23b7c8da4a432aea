"""Variables whose values are on no disk: read or asked for at each start, and nothing is started without them."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
from msgspec import structs
from msgspec.structs import replace

from mission_tui.errors import MissionError, PresetError
from mission_tui.fleet.specs.spec import KeepSpec, LimitsKeep, RestartKeep, Spec
from mission_tui.ipc.replies import Accepted, VerdictReply
from mission_tui.ipc.requests import Clone, Resume
from mission_tui.records.runs.attempt import read_launch
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.launchers.order import Caller, attempt_order, with_spec_env
from tests.supervisor.conftest import REPOSITORY, Lab, RunsRoot, stub_spec
from tests.supervisor.lifecycle.test_command import output, shell
from tests.supervisor.simulated_lab import SimulatedLab
from tests.waiting import until

SECRET = "hunter2-and-nothing-else"
ONE = KeepSpec(limits=LimitsKeep(runs=1))
SAYS = 'echo "key=$DATABASE_URL token=$API_TOKEN own=$MY_OWN"; exec sleep 60'


def one_at_a_time(script: str, **run: object) -> Spec:
    """A command that waits while another run of the machine lives."""
    return structs.replace(shell(script, **run), keep=ONE)


def queued(lab: RunsRoot, env_file: str | None = None, **environ: str) -> tuple[str, str]:
    """A run that lives, and one that waits for it in the queue; the second is launched with `environ`."""
    (first,) = lab.launch(spec=one_at_a_time("exec sleep 60"))
    lab.wait(first, lambda view: view.state == "running")
    (second,) = lab.launch(1, spec=one_at_a_time(SAYS, env_file=env_file), name=None, **environ)
    lab.wait(second, lambda view: view.state == "queued" and view.cause)
    return first, second


def without_supervisor(lab: RunsRoot, then: object = None) -> None:
    """Another supervisor takes over, which remembers nothing."""
    lab.kill_supervisor()
    if callable(then):
        then()
    lab.start()


def resume(lab: RunsRoot, run: str, **environ: str) -> object:
    """What somebody is told who resumes it from a shell with `environ`."""
    mine = {"PATH": os.environ["PATH"]} | environ
    return lab.ask(lambda id_: Resume(id=id_, run=run, cwd="/", python=sys.executable, environ=mine))


def said(lab: SimulatedLab, run: str) -> str:
    """What `SAYS` prints of the variables that it was started with."""
    given = lab.environment(run)
    key, token, own = (given.get(name, "") for name in ("DATABASE_URL", "API_TOKEN", "MY_OWN"))
    return f"key={key} token={token} own={own}\n" if given else ""


def on_disk(lab: RunsRoot) -> list[Path]:
    """The files below the runs root in which the secret stands, but for what the runs printed."""
    found = []
    for path in lab.root.rglob("*"):
        with suppress(OSError):  # a folder, or a file that has its name by now
            if path.name != "output.log" and SECRET.encode() in path.read_bytes():
                found.append(path)
    return found


@pytest.mark.slow
def test_a_queued_run_reads_its_env_file_when_it_begins(lab: Lab, tmp_path: Path) -> None:
    """Whichever supervisor begins it, with what the file says then, a name that was not in it before included."""
    file = tmp_path / "k.env"
    file.write_text("DATABASE_URL=old\n")
    first, second = queued(lab, env_file=str(file))
    without_supervisor(lab, lambda: file.write_text(f"DATABASE_URL={SECRET}\nAPI_TOKEN={SECRET}!\n"))
    lab.act("kill", first)
    until(lambda: output(lab, second) == f"key={SECRET} token={SECRET}! own=\n", 20)
    order = read_launch(lab.dir(second).attempt(1).launch)
    assert order is not None
    assert (sorted(order.withheld), order.from_file) == (["API_TOKEN", "DATABASE_URL"], ("API_TOKEN", "DATABASE_URL"))
    assert on_disk(lab) == []


def test_the_same_supervisor_reads_it_again_too(sim: SimulatedLab, tmp_path: Path) -> None:
    """What was read at the launch is not what it begins with."""
    file = tmp_path / "k.env"
    file.write_text("DATABASE_URL=old\n")
    first, second = queued(sim, env_file=str(file))
    file.write_text("DATABASE_URL=new\n")
    sim.act("kill", first)
    sim.until(lambda: said(sim, second) == "key=new token= own=\n", 20)


@pytest.mark.parametrize("lost", ["gone", "without it", "damaged"])
def test_without_its_env_file_a_queued_run_waits_and_says_so(sim: SimulatedLab, tmp_path: Path, lost: str) -> None:
    """Gone, or no longer naming what it named: nothing is started, others pass it, and with the file back it begins."""
    file = tmp_path / "k.env"
    file.write_text(f"DATABASE_URL={SECRET}\n")
    first, second = queued(sim, env_file=str(file))

    def lose() -> None:
        file.unlink()
        if lost != "gone":
            file.write_text("# nothing\n" if lost == "without it" else f"{SECRET}\n")

    without_supervisor(sim, lose)
    sim.act("kill", first)
    why = {"gone": "cannot read", "without it": "DATABASE_URL", "damaged": "is not NAME=VALUE"}[lost]
    view = sim.wait(second, lambda view: why in (view.cause or ""))
    assert (view.state, view.attempt, SECRET in str(view.cause)) == ("queued", 0, False)
    (third,) = sim.launch(spec=one_at_a_time("echo third; exit 0"))
    assert sim.ended(third).outcome == "finished"
    assert said(sim, second) == ""
    file.write_text(f"DATABASE_URL={SECRET}\n")
    sim.until(lambda: said(sim, second).startswith(f"key={SECRET} "), 20)
    assert sim.view(second).cause is None


def test_what_only_memory_held_is_waited_for_and_given_by_resume(sim: SimulatedLab) -> None:
    """The launching shell's token: named with what helps, refused from a shell without it, taken from one that has."""
    first, second = queued(sim, API_TOKEN=SECRET, MY_OWN="only there")
    without_supervisor(sim)
    sim.act("kill", first)
    view = sim.wait(second, lambda view: "API_TOKEN" in (view.cause or ""))
    assert view.state == "queued"
    assert "only in memory" in (view.cause or "")
    assert f"`mission-tui resume {view.name}`" in (view.cause or "")
    with pytest.raises(PresetError, match="MY_OWN"):
        resume(sim, second, API_TOKEN=SECRET)
    reply = resume(sim, second, API_TOKEN=SECRET, MY_OWN="mine")
    assert isinstance(reply, Accepted)
    assert "API_TOKEN" in reply.notes[0] or "MY_OWN" in reply.notes[0]
    sim.until(lambda: said(sim, second) == f"key= token={SECRET} own=mine\n", 20)
    assert on_disk(sim) == []


def test_a_run_that_waits_for_variables_can_be_taken_from_the_queue(sim: SimulatedLab) -> None:
    """It is in line like any other."""
    first, second = queued(sim, API_TOKEN=SECRET)
    without_supervisor(sim)
    sim.act("kill", first)
    sim.wait(second, lambda view: "API_TOKEN" in (view.cause or ""))
    sim.act("stop", second)
    assert sim.ended(second).outcome == "stopped"


def test_what_is_no_secret_may_come_from_the_client_that_started_the_supervisor(sim: SimulatedLab) -> None:
    """A variable of the shell that both were asked from; what describes a terminal is not waited for at all."""
    first, second = queued(sim, MY_OWN="ours", LS_COLORS="rs=0", SSH_CONNECTION="::1 1 ::1 2")
    sim.kill_supervisor()
    sim.start(MY_OWN="ours", API_TOKEN="not yours")
    sim.act("kill", first)
    sim.until(lambda: said(sim, second) == "key= token= own=ours\n", 20)


def test_a_restart_waits_for_what_nobody_remembers(sim: SimulatedLab) -> None:
    """It crashed, its supervisor is gone: it does not go on without its token, and a person's shell gives it."""
    spec = structs.replace(
        shell('test -n "$API_TOKEN" && echo has it; exit 3'),
        keep=KeepSpec(restart=RestartKeep(most=1, wait_s=4.0)),
    )
    (run,) = sim.launch(spec=spec, API_TOKEN=SECRET)
    sim.wait(run, lambda view: view.restart is not None)
    without_supervisor(sim)
    view = sim.wait(run, lambda view: "API_TOKEN" in (view.cause or ""))
    assert (view.state, view.attempt) == ("queued", 1)
    verdict = resume(sim, run)
    assert isinstance(verdict, VerdictReply)
    assert ("variable API_TOKEN", "warn") in [(it.name, it.grade) for it in verdict.verdict.changes]
    mine = {"PATH": os.environ["PATH"], "API_TOKEN": SECRET}
    sim.ask(lambda id_: Resume(id=id_, run=run, accept=True, cwd="/", python=sys.executable, environ=mine))
    sim.until(lambda: sim.view(run).attempt == 2 and sim.environment(run).get("API_TOKEN") == SECRET, 20)
    assert on_disk(sim) == []


def test_a_restart_reads_the_env_file_again_and_waits_without_it(sim: SimulatedLab, tmp_path: Path) -> None:
    """Also by the supervisor that had read it before."""
    file = tmp_path / "k.env"
    file.write_text("DATABASE_URL=old\n")
    spec = structs.replace(
        shell("echo $DATABASE_URL; exit 3", env_file=str(file)),
        keep=KeepSpec(restart=RestartKeep(most=1, wait_s=0.2)),
    )
    (run,) = sim.launch(spec=spec)
    file.unlink()
    view = sim.wait(run, lambda view: "cannot read" in (view.cause or ""))
    assert (view.state, view.attempt) == ("queued", 1)
    file.write_text("DATABASE_URL=new\n")
    sim.wait(run, lambda view: view.attempt == 2)


def test_an_attempt_whose_keeper_never_came_waits_as_well(sim: SimulatedLab) -> None:
    """Its supervisor was killed between the journal and the keeper: the next one has the order without its secrets."""
    (run,) = sim.launch(spec=shell(SAYS), API_TOKEN=SECRET)
    sim.wait(run, lambda view: view.pids.trainer)
    sim.power_cut()
    attempt = sim.dir(run).attempt(1)
    attempt.identity.unlink()
    sim.start()
    sim.wait(run, lambda view: "API_TOKEN" in (view.cause or ""))
    assert len(sim.world.trainings) == 1
    with pytest.raises(MissionError, match="your shell does not have it either"):
        resume(sim, run)
    resume(sim, run, API_TOKEN=SECRET)
    sim.until(lambda: said(sim, run) == f"key= token={SECRET} own=\n", 20)


def rewriting(lab: RunsRoot, folder: Path) -> tuple[Spec, dict[str, str]]:
    """A spec whose environment writes `then` into its own env file as soon as it is imported, and a shell for it."""
    file = folder / "k.env"
    file.write_text("MY_OWN=first\n")
    (folder / "rewrites.py").write_text(f"import pathlib\npathlib.Path({str(file)!r}).write_text('MY_OWN=then\\n')\n")
    spec = stub_spec()
    env, run = structs.replace(spec.env, imports=("rewrites",)), structs.replace(spec.run, env_file=str(file))
    return structs.replace(spec, env=env, run=run), {"PYTHONPATH": f"{REPOSITORY}:{folder}"}


def own_of(lab: RunsRoot, run: str) -> str:
    """`MY_OWN` of the run's trainer."""
    trainer = lab.running(run).pids.trainer
    assert trainer is not None
    return psutil.Process(trainer).environ()["MY_OWN"]


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_what_was_checked_of_an_env_file_is_what_is_launched(lab: Lab, tmp_path: Path) -> None:
    """The file changes between the check and the order: launch and clone start with what the check read."""
    spec, shell_of = rewriting(lab, tmp_path)
    (run,) = lab.launch(1, spec=spec, name=None, **shell_of)
    assert (tmp_path / "k.env").read_text() == "MY_OWN=then\n"
    assert own_of(lab, run) == "first"
    (tmp_path / "k.env").write_text("MY_OWN=second\n")
    environ = {"PATH": lab.environ["PATH"], **shell_of}
    asked = partial(Clone, run=run, cwd=str(lab.root), python=sys.executable, environ=environ)
    reply = lab.ask(lambda id_: asked(id=id_))
    assert isinstance(reply, Accepted)
    assert (tmp_path / "k.env").read_text() == "MY_OWN=then\n"
    assert own_of(lab, reply.runs[0]) == "second"


def test_an_env_file_is_read_once_for_a_caller(tmp_path: Path) -> None:
    """Check and order have the same values; another file is read, and another caller reads anew."""
    file, other = tmp_path / "k.env", tmp_path / "other.env"
    file.write_text("MY_OWN=first\n")
    other.write_text("MY_OWN=other\n")
    spec = shell(SAYS, env_file=str(file))
    caller = Caller(sys.executable, "/", {"PATH": os.environ["PATH"]})
    checked = with_spec_env(spec, caller)
    file.write_text("MY_OWN=then\n")
    order = attempt_order(tmp_path, RunDir(tmp_path / "run"), 1, spec, caller, None)
    assert (checked.environ["MY_OWN"], order.env["MY_OWN"]) == ("first", "first")
    assert with_spec_env(shell(SAYS, env_file=str(other)), caller).environ["MY_OWN"] == "other"
    assert with_spec_env(spec, replace(caller, env_files={})).environ["MY_OWN"] == "then"
