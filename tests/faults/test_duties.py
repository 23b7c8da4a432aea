"""Duties that fail (rows C, D, G, S): journaled, shown, told and counted; trainers are real where theirs are meant."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import AttemptStarting, DutyFailureSeen, FileDamaged, FindingChanged, FleetEvent
from mission_tui.fleet.events.metrics import CheckpointSaved, DutyFailed, MetricRecord
from mission_tui.fleet.specs.spec import CheckpointKeep, KeepSpec, RestartKeep, Spec
from mission_tui.ipc.replies import Accepted, CheckpointOutcome, VerdictReply
from mission_tui.ipc.requests import Act, Resume
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.layout import RunDir
from tests.nvml import ONE, Machine, needs_gcc
from tests.shell import Shell
from tests.supervisor.conftest import Lab, RunsRoot, opened_lab, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SLOW_S = 120.0


@pytest.fixture(scope="module")
def real_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A runs root with a supervisor whose trainers are real."""
    with opened_lab(tmp_path_factory.mktemp("duties") / "runs") as lab:
        del lab.environ["MISSION_TUI_TRAINER"]
        lab.start(OMP_NUM_THREADS="1")
        yield lab


def saving(every_s: float) -> Spec:
    """A small training that saves so often; its steps wait, so that it leaves the processor to what is tested."""
    spec = stub_spec()
    env = structs.replace(spec.env, id="Waiting-v0", imports=("tests.trainer.worker_envs",))
    return structs.replace(spec, env=env, keep=KeepSpec(checkpoint=CheckpointKeep(every_s=every_s, spread=0)))


@pytest.fixture(scope="module")
def often(real_lab: Lab) -> str:
    """A run that saves twice a second, for all tests after which it trains and saves on."""
    (run,) = real_lab.launch(spec=saving(0.5))
    real_lab.wait(run, lambda view: view.last_checkpoint, SLOW_S)
    return run


@contextmanager
def immutable(folder: Path) -> Iterator[None]:
    """Nothing can be made in `folder`; skips where that is not allowed."""
    if shutil.which("chattr") is None or subprocess.run(["chattr", "+i", str(folder)], check=False).returncode:
        pytest.skip("needs root and a file system that knows immutable folders")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", str(folder)], check=True)


@contextmanager
def in_the_way(folder: Path) -> Iterator[None]:
    """A file stands where `folder` was."""
    aside = folder.with_name("aside")
    folder.rename(aside)
    folder.write_text("in the way")
    try:
        yield
    finally:
        folder.unlink()
        aside.rename(folder)


@contextmanager
def without_inodes(folder: Path) -> Iterator[None]:
    """The folder's file system, which has it, is out of inodes."""
    aside = folder.with_name("aside")
    folder.rename(aside)
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m,nr_inodes=3", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        folder.rmdir()
        aside.rename(folder)
        pytest.skip("needs root: mounts a small file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()
        aside.rename(folder)


def trains(lab: Lab, run: str) -> None:
    """Wait until a real trainer, which loads torch first, has done a few updates."""
    lab.wait(run, lambda view: view.connected and (view.update or 0) >= 3, SLOW_S)


def asked(lab: RunsRoot, run: str, wait_s: float = 30.0) -> CheckpointOutcome:
    """What comes of asking for a checkpoint."""
    reply = lab.ask(lambda id_: Act(id=id_, verb="checkpoint", runs=(run,), wait_s=wait_s))
    assert isinstance(reply, Accepted)
    (outcome,) = reply.checkpoints
    return outcome


def is_critical(finding: Finding) -> bool:
    """Whether it is, and goes on."""
    return finding.severity == "critical" and finding.state != "cleared"


def events_of(run: RunDir) -> list[FleetEvent]:
    return list(read_all(run.events, FleetEvent)[0])


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "immutable": (immutable, "immutable"),
    "in the way": (in_the_way, "something that is no folder"),
    "no inodes": (without_inodes, "no inodes left (`df -i`): remove files there"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_d3_checkpoints_that_cannot_be_written_are_journaled_shown_and_counted(
    real_lab: Lab, often: str, fault: str
) -> None:
    """The verb says why none was written and what helps; a finding opens; the journal has both; then all is well."""
    lab, run, (breaks, remedy) = real_lab, often, FAULTS[fault]
    before = len(events_of(lab.dir(run)))
    with breaks(lab.dir(run).checkpoints):  # type: ignore[attr-defined]
        outcome = asked(lab, run)
        assert outcome.checkpoint is None
        assert remedy in outcome.why
        view = lab.wait(run, lambda view: view.failed_duties and any(is_critical(it) for it in view.findings))
        (failed,) = (each for each in view.failed_duties if each.duty == "checkpoint")
        assert failed.times >= 1
        assert remedy in failed.why
        finding = next(it for it in view.findings if it.rule == "checkpoint-age" and it.state != "cleared")
        assert remedy in finding.cause
        assert "failed-duty" in view.flags
    events = events_of(lab.dir(run))[before:]
    assert any(isinstance(it, DutyFailureSeen) and it.duty == "checkpoint" for it in events)
    assert any(isinstance(it, FindingChanged) and it.finding.rule == "checkpoint-age" for it in events)
    numbers = [it.number for it in read_all(lab.dir(run).metrics, MetricRecord)[0] if isinstance(it, DutyFailed)]
    assert numbers == list(range(1, len(numbers) + 1))
    outcome = asked(lab, run)
    assert outcome.checkpoint == lab.wait(run, lambda view: not view.failed_duties).last_checkpoint
    assert lab.wait(run, lambda view: all(it.state == "cleared" for it in view.findings if it.rule == "checkpoint-age"))


@pytest.mark.parametrize("verb", ["stop", "park"])
def test_d2_a_stop_whose_last_save_failed_says_so_and_names_the_older_checkpoint(real_lab: Lab, verb: str) -> None:
    """It has stopped, as was asked; its cause says that the last boundary is lost, why, and how old the newest is."""
    lab = real_lab
    (run,) = lab.launch(spec=saving(1000.0))
    trains(lab, run)
    saved = asked(lab, run).checkpoint
    lab.wait(run, lambda view: (view.timesteps or 0) > int(saved or "0") + 128)
    with in_the_way(lab.dir(run).checkpoints):
        lab.act(verb, run)
        view = lab.wait(run, lambda view: view.state in ("ended", "parked"), 60)
    assert view.outcome == "stopped"
    assert view.last_checkpoint == saved
    assert "its last checkpoint was not saved: cannot save checkpoint" in (view.cause or "")
    assert f"the newest checkpoint is {saved}, " in (view.cause or "")
    assert "saved and ended" not in (view.cause or "")


def test_c7_retention_that_fails_is_a_fact_too(real_lab: Lab, often: str) -> None:
    """Old checkpoints that cannot be removed are journaled and shown; saving goes on."""
    lab, run = real_lab, often
    # Not one that is still being written.
    oldest = min(each for each in lab.dir(run).checkpoints.iterdir() if each.name.isdigit())
    with immutable(oldest):
        view = lab.wait(run, lambda view: any(it.duty == "retention" for it in view.failed_duties), 60)
        assert any("old checkpoints could not be removed" in it.why for it in view.failed_duties)
        before = view.last_checkpoint
        lab.wait(run, lambda view: view.last_checkpoint != before)


def test_d3_the_command_exits_1_with_the_reason_and_0_with_the_name(real_lab: Lab, often: str) -> None:
    """`mission-tui checkpoint` waits for what comes of it."""
    lab, run = real_lab, often
    shell = Shell(lab.root.parent, lab.environ).typed
    done = shell("checkpoint", run)
    assert done.returncode == 0
    (name,) = re.findall(r"checkpoint (\d+) was written", done.stderr)
    saves = [it for it in read_all(lab.dir(run).metrics, MetricRecord)[0] if isinstance(it, CheckpointSaved)]
    assert ("asked", name) in {(it.reason, it.name) for it in saves}
    with in_the_way(lab.dir(run).checkpoints):
        failed = shell("checkpoint", run)
        assert failed.returncode == 1
        assert "no checkpoint was written: cannot save checkpoint" in failed.stderr
        assert "checkpoint-age" in shell("findings", run, "--json").stdout
        assert "checkpoint failed" in shell("findings", run).stdout


def test_c2_a_resume_past_damaged_checkpoints_is_to_be_accepted_and_names_what_is_lost(sim: SimulatedLab) -> None:
    """The newest one is damaged: a warning with its name and the updates lost; accepted, it is journaled and said."""
    (run,) = sim.launch()
    sim.running(run, 2)
    older = asked(sim, run).checkpoint
    sim.wait(run, lambda view: (view.timesteps or 0) > int(older or "0") + 128)
    sim.act("stop", run)
    newest = sim.ended(run).last_checkpoint
    assert newest is not None
    (sim.dir(run).checkpoints / newest / "weights").write_text("rotten")
    verdict = sim.ask(lambda id_: Resume(id=id_, run=run))
    assert isinstance(verdict, VerdictReply)
    assert (verdict.verdict.grade, verdict.accept_needed, verdict.checkpoint) == ("warn", True, older)
    (change,) = (it for it in verdict.verdict.changes if it.name == "checkpoint")
    assert (change.was, change.now) == (newest, older)
    saves = [it for it in read_all(sim.dir(run).metrics, MetricRecord)[0] if isinstance(it, CheckpointSaved)]
    assert f"{saves[-1].update - saves[-2].update} updates are lost" in change.why
    accepted = sim.ask(lambda id_: Resume(id=id_, run=run, accept=True))
    assert isinstance(accepted, Accepted)
    assert accepted.damaged == verdict.damaged == (newest,)
    assert accepted.checkpoint == verdict.checkpoint == older
    events = events_of(sim.dir(run))
    assert any(isinstance(it, FileDamaged) and it.file == f"checkpoints/{newest}" for it in events)
    started = [it for it in events if isinstance(it, AttemptStarting)][-1]
    assert started.checkpoint == older
    assert any(it.name == "checkpoint" for it in started.changes)
    # Named by a person, an older one is what was wanted.
    sim.running(run)
    sim.act("kill", run)
    sim.ended(run)
    assert isinstance(sim.ask(lambda id_: Resume(id=id_, run=run, checkpoint=older)), Accepted)


def test_c2_a_resume_with_no_whole_checkpoint_begins_nothing_in_silence(sim: SimulatedLab) -> None:
    """All are damaged, one by its manifest: refused, with the name and the reason."""
    (run,) = sim.launch()
    sim.running(run, 2)
    sim.act("stop", run)
    newest = sim.ended(run).last_checkpoint
    assert newest is not None
    (sim.dir(run).checkpoints / newest / "manifest.json").write_text("{")
    with pytest.raises(Exception, match=f"none of its checkpoints is whole .*{newest}"):
        sim.ask(lambda id_: Resume(id=id_, run=run))


def test_c2_an_automatic_restart_past_a_damaged_checkpoint_goes_on_and_says_so(sim: SimulatedLab) -> None:
    """It goes on from the older one; the journal, the attempt and the view name the damaged one."""
    keep = KeepSpec(restart=RestartKeep(most=3, wait_s=0.1))
    (run,) = sim.launch(spec=structs.replace(stub_spec(), keep=keep), STUB_UPDATE_S="0.2")
    sim.running(run, 2)
    older = asked(sim, run).checkpoint
    sim.wait(run, lambda view: (view.timesteps or 0) > int(older or "0") + 128)
    newest = asked(sim, run).checkpoint
    assert newest is not None
    (sim.dir(run).checkpoints / newest / "weights").write_text("rotten")
    trainer = sim.view(run).pids.trainer
    assert trainer is not None
    sim.kill(trainer, signal.SIGSEGV)
    view = sim.wait(run, lambda view: view.attempt == 2, 60)
    assert view.origins[-1].checkpoint == older
    view = sim.wait(run, lambda view: any(it.duty == "restart" for it in view.failed_duties))
    assert any(newest in it.why for it in view.failed_duties)
    events = events_of(sim.dir(run))
    assert any(isinstance(it, FileDamaged) and newest in it.file for it in events)


def test_s9_a_sampler_that_raises_ends_neither_the_others_nor_the_supervisor(tmp_path: Path) -> None:
    """A meter of the machine fails in the middle of the work: said, counted, in the fleet's journal; runs go on."""
    with opened_lab(tmp_path / "runs") as lab:
        program = (
            "import sys, pathlib\n"
            "from mission_tui.supervisor.host import machine\n"
            "from mission_tui.supervisor.watching import usage\n"
            "flag = pathlib.Path(sys.argv[-1]) / 'broken'\n"
            "def breaking(real):\n"
            "    def look(*words, **more):\n"
            "        if flag.exists(): raise ValueError('a line of /proc that nobody expected')\n"
            "        return real(*words, **more)\n"
            "    return look\n"
            "machine.HostSampler.sample = breaking(machine.HostSampler.sample)\n"
            "usage.UsageMeter.sample = breaking(usage.UsageMeter.sample)\n"
            "usage.all_stats = breaking(usage.all_stats)\n"
            "from mission_tui.supervisor.__main__ import main\n"
            "sys.exit(main())\n"
        )
        lab.supervisor = subprocess.Popen(
            [sys.executable, "-c", program, "--runs-dir", str(lab.root)], cwd="/", env=lab.environ
        )
        until(lab.answers, 30)
        (run,) = lab.launch()
        lab.running(run, 2)
        (lab.root / "broken").touch()
        names = {"CPU and memory meters", "usage meters", "survey of other programs"}
        until(lambda: names <= {it.duty for it in lab.snapshot().failed_duties}, 30)
        before = lab.view(run).update or 0
        shown = lab.wait(run, lambda view: (view.update or 0) > before + 5)
        assert shown.state == "running"
        assert any("nobody expected" in it.why and it.times > 1 for it in lab.snapshot().failed_duties)
        (lab.root / "broken").unlink()
        until(lambda: not lab.snapshot().failed_duties, 30)
        journal = (lab.root / ".supervisor" / "events.jsonl").read_text()
        assert journal.count("CPU and memory meters") == 2  # that it failed, that it is done again
        assert lab.supervisor.poll() is None


@needs_gcc
def test_g4_meters_that_died_are_on_the_fleets_journal_and_in_status(tmp_path: Path, library: Path) -> None:
    """A probe that crashes in the driver: one sentence in `status`, `top` and the journal of the fleet."""
    machine = Machine(library, tmp_path)
    with opened_lab(tmp_path / "runs") as lab:
        machine.has(ONE + "crash busy\n")
        lab.start(**machine.environ)
        (run,) = lab.launch()
        lab.running(run, 1)
        note = until(lambda: lab.snapshot().host.gpu_note, 20)
        # It is tried again, and on a busy machine has died twice by now.
        ended = r"GPU meters stopped: the probe was ended by SIGSEGV( \(\d+ times so far\))?; runs, CPU"
        assert re.search(f"{ended} and memory meters go on", str(note))
        for verb in ("status", "top"):
            program = [sys.executable, "-m", "mission_tui", "--runs-dir", str(lab.root), verb]
            said = subprocess.run(program, env=lab.environ, capture_output=True, text=True, check=True, timeout=60)
            assert "GPU meters stopped: the probe was ended by SIGSEGV" in said.stdout
        assert "SIGSEGV" in (lab.root / ".supervisor" / "events.jsonl").read_text()
