"""Faults of supervisors and keepers (rows S), with real processes and with a simulated machine."""

from __future__ import annotations

import os
import resource
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from msgspec import structs

from mission_tui.errors import MissionError
from tests.faults.campaign.part import violations_in
from tests.faults.parts import kills, simulator
from tests.faults.parts.lifecycle import histories
from tests.faults.small_disk import lacks_namespaces
from tests.rebooting import power_cut
from tests.supervisor.conftest import Lab, living, stub_spec
from tests.waiting import until


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_s1_no_kill_of_supervisor_keeper_trainer_or_worker_breaks_an_invariant() -> None:
    """One round of each kind over three runs with six workers; the campaign does eleven hundred over eight with 64."""
    found = list(kills.under_fire(range(2, 6), 1, lambda *_: None, 3, 2))
    assert found == []


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_s5_no_order_of_verbs_and_deaths_leaves_the_model() -> None:
    """Two drawn histories of launch, pause, freeze, park, stop, kill and resume among deaths of all three processes."""
    histories(7, 2, 8)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_s1_supervisors_that_die_at_any_call_are_made_good_by_the_next() -> None:
    """Six simulated histories with requests, accidents and steps of the clock: everything agrees in the end."""
    found, figures = violations_in(simulator.PART, range(6))
    assert found == []
    assert figures["supervisors killed at a call"] > 2
    assert figures["requests acknowledged"] > 25


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_s10_a_machine_with_another_boot_id_resumes_what_may_and_trusts_no_pid(idle_lab: Lab, tmp_path: Path) -> None:
    """(root) Between two boots the kernel's own file says another id: bound over it in a mount namespace."""
    if why := lacks_namespaces():
        pytest.skip(why)
    if os.geteuid() != 0:
        pytest.skip("needs root: a user namespace would make another user of the supervisor")
    boot = tmp_path / "boot_id"
    boot.write_text("11111111-2222-3333-4444-555555555555\n")
    lab, spec = idle_lab, stub_spec()
    lab.start()
    (resumes,) = lab.launch(spec=structs.replace(spec, keep=structs.replace(spec.keep, on_reboot="resume")))
    (stays,) = lab.launch()
    lab.running(resumes, 3)
    lab.act("checkpoint", resumes)
    checkpoint = lab.wait(resumes, lambda view: view.last_checkpoint).last_checkpoint
    lab.running(stays)
    power_cut(lab.processes())
    assert lab.supervisor is not None
    lab.supervisor.wait(5)
    binds = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
    lab.under = ("unshare", "-m", "sh", "-c", binds, str(boot))
    lab.start()
    view = lab.wait(resumes, lambda view: view.attempt == 2 and view.state == "running")
    assert view.origins[0].checkpoint == checkpoint
    assert [each.after for each in view.again] == ["reboot"]
    assert "11111111-2222" in lab.dir(resumes).attempt(2).identity.read_text()
    left = lab.view(stays)
    assert (left.outcome, left.rebooted, left.attempt) == ("lost", True, 1)
    lab.under = ()
    lab.kill_supervisor()
    # Back on the first boot: the living attempt belongs to another one, and nobody signals it.
    family = [process for process in lab.processes() if "stub_trainer" in " ".join(process.cmdline())]
    lab.start()
    assert lab.wait(resumes, lambda view: view.flags).flags == ("outlived",)
    assert living(family) == family


@pytest.mark.slow
def test_s8_a_supervisor_that_stood_still_finds_no_hang_in_those_that_did_not(lab: Lab) -> None:
    """SIGSTOP for longer than a trainer may be silent, then SIGCONT: nothing is said of a hang, and nobody is ended."""
    spec = stub_spec()
    hang = structs.replace(spec.keep.health.hang, least_s=1.0, first_s=1.0)
    keep = structs.replace(spec.keep, health=structs.replace(spec.keep.health, hang=hang))
    (run,) = lab.launch(spec=structs.replace(spec, keep=keep))
    before = lab.running(run, 10)
    assert lab.supervisor is not None
    os.kill(lab.supervisor.pid, signal.SIGSTOP)
    stood = time.monotonic()
    until(lambda: time.monotonic() - stood > 3.0)
    os.kill(lab.supervisor.pid, signal.SIGCONT)
    after = lab.running(run, (before.update or 0) + 30)
    assert [finding.rule for finding in after.findings if finding.rule == "hang"] == []
    assert (after.pids.trainer, after.attempt) == (before.pids.trainer, 1)


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_s9_without_descriptors_new_work_is_refused_and_old_runs_go_on(lab: Lab) -> None:
    """So few open files are allowed that launches fail here or there: no half is left, and the rest goes on."""
    (old,) = lab.launch()
    lab.running(old)
    assert lab.supervisor is not None
    pid = lab.supervisor.pid
    usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    for spare in range(2, 16, 2):
        used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + spare, usual[1]))
        with suppress(MissionError, OSError):
            lab.launch()
        size = lab.dir(old).metrics.stat().st_size
        until(lambda size=size: lab.dir(old).metrics.stat().st_size > size)  # type: ignore[misc]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
        until(lab.answers, 10)
        for view in lab.snapshot().runs:
            settled = lab.wait(view.id, lambda it: it.state == "ended" or (it.state == "running" and it.connected))
            if settled.state == "ended":
                until(lambda run=view.id: not trainers(lab, run), 5, "no process of a refused run")  # type: ignore[misc]
            elif view.id != old:
                lab.act("kill", view.id)
                lab.ended(view.id)
    lab.running(old, (lab.view(old).update or 0) + 3)
    known = {view.id for view in lab.snapshot().runs}
    assert {path.name for path in lab.root.iterdir() if path.name[0].isdigit()} == known
    assert lab.supervisor.poll() is None


def trainers(lab: Lab, run: str) -> list[int]:
    """Processes with the directory of `run` in their words."""
    found = []
    for process in lab.processes():
        with suppress(psutil.Error):
            if str(lab.dir(run).path) in process.cmdline():
                found.append(process.pid)
    return found
