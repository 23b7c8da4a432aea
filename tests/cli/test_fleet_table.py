"""The fleet as text: what the last column says of a run."""

from __future__ import annotations

import io
from typing import cast

import pytest
from msgspec import structs

from mission_tui.cli.session import Session
from mission_tui.cli.tables.runs import crowded, fleet_table
from mission_tui.cli.verbs import monitoring
from mission_tui.fleet.events.findings import Finding, Severity
from mission_tui.fleet.events.processes import Placement, Usage
from mission_tui.fleet.views.snapshot import HeldResources, Restart
from tests.tui.fleets import a_fleet, a_run, ended, host


def finding(rule: str, severity: Severity) -> Finding:
    return Finding(rule, rule, severity, 1, 2, f"{rule} says so", "because", "do this")


def row(**changed: object) -> str:
    """The line of one run at time 100."""
    stream = io.StringIO()
    fleet_table((a_run("a", **changed),), 100.0).write(stream)
    return stream.getvalue().splitlines()[1]


def test_the_remark_is_the_worst_finding_and_never_information() -> None:
    """Findings come worst first; what asks nothing of anyone is no remark."""
    told = finding("resume-probe", "info")
    assert row(findings=(finding("nan", "critical"), finding("kl-spike", "warning"), told)).endswith("nan says so")
    assert "says so" not in row(findings=(told,))


def test_the_runs_that_are_not_shown_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the newest ended ones stand in a snapshot: whoever reads the list as all of them looks for a lost run."""
    fleet = a_fleet((a_run("a"), ended("b", 1.0), ended("c", 2.0)))
    session = cast(Session, None)
    monitoring._show(session, fleet, (), as_json=False)
    assert "older" not in capsys.readouterr().err
    monitoring._show(session, structs.replace(fleet, ended_total=2000), (), as_json=False)
    assert "1,998 older runs: `mission-tui status --offset 3`" in capsys.readouterr().err


def test_a_command_with_a_thread_for_every_core_is_named_on_a_full_machine() -> None:
    """From what `top` shows of it; not while it is alone, nor where cores are free, and not our own trainings."""
    taken = Usage(cpu_percent=90.0, rss_bytes=1, threads=42, processes=2)
    script = a_run("script", n_envs=0, usage=taken)
    runs = (script, a_run("other", usage=taken))
    full = structs.replace(a_fleet(runs), host=host(cores=16, cpu_percent=99.0))
    (said,) = crowded(full)
    assert said.startswith("script has 42 threads for 16 cores, beside 1 more")
    assert list(crowded(structs.replace(full, runs=(script,)))) == []
    assert list(crowded(structs.replace(full, host=structs.replace(full.host, cpu_percent=50.0)))) == []


def test_a_frozen_run_says_what_it_holds() -> None:
    """The sentence of the supervisor, as it is."""
    said = "frozen: 1.0 GiB of memory and 3.0 GiB on the GPU stay held; resume lets it go on"
    assert row(state="frozen", cause=said, held=HeldResources(1 << 30, gpu=True, vram_bytes=3 << 30)).endswith(said)


def test_a_run_that_somebody_else_ended_says_who() -> None:
    """Whoever stopped it from here knows that."""
    said = "Slurm ended its job 5: CANCELLED"
    assert row(state="ended", outcome="stopped", cause=said).endswith(said)
    assert "by you" not in row(state="ended", outcome="stopped", cause="stopped by you")


def test_a_run_that_was_placed_says_where() -> None:
    """While it lives, before what is wrong with it."""
    where = Placement("GPU-b", 1, "calm")
    assert row(placed=where, findings=(finding("nan", "critical"),)).endswith("GPU1; nan says so")
    assert "GPU1" not in row(placed=where, state="ended", outcome="finished")


def test_a_waiting_run_says_when_it_starts_again() -> None:
    """How long it still waits, which restart it will be, and why it failed."""
    waiting = row(state="ended", outcome="failed", cause="SIGSEGV", restart=Restart(120.0, 2, 3))
    assert waiting.endswith("restarts in 20s (2 of 3): SIGSEGV")
    again = row(state="queued", outcome="lost", cause="the machine was restarted", restart=Restart(0.0, 1, 3, "reboot"))
    assert again.endswith("resumes by itself (1 of 3): the machine was restarted")
    asked = row(state="queued", outcome="stopped", cause="waits for its group", restart=Restart(0.0, 0, 0, "request"))
    assert asked.endswith("waits for its group")


def test_a_run_that_a_reboot_ended_says_what_goes_on() -> None:
    """The verb, instead of a cause that says the same: whether it goes on, begins anew, or starts a command again."""
    lost: dict[str, object] = {"state": "ended", "outcome": "lost", "cause": "c", "last_checkpoint": None}
    saved = lost | {"last_checkpoint": "000000064"}
    assert row(**saved, rebooted=True).endswith("lost in the reboot; `resume` goes on from 000000064")
    assert row(**lost, rebooted=True).endswith("lost in the reboot; nothing was saved, `resume` begins anew")
    assert row(**lost, can=("freeze",), rebooted=True).endswith("lost in the reboot; `resume` starts it again")
    assert row(**saved).endswith("c; `resume` goes on from 000000064")
    assert row(**saved, flags=("foreign",)).endswith("c")


def test_an_end_that_nobody_asked_for_says_how_it_came() -> None:
    """A signal from outside, a stop that it did not obey, and work that was ended with a script; not what was asked."""
    outside = "terminated by a signal from outside (SIGTERM to its trainer)"
    assert row(state="ended", outcome="stopped", cause=outside).endswith(outside)
    late = "did not stop in time and was killed"
    assert row(state="ended", outcome="killed", cause=late).endswith(late)
    swept = "exit code 0; a process that it had left running was ended with it"
    assert row(state="ended", outcome="finished", cause=swept, total_timesteps=None).endswith(swept)
    assert "by you" not in row(state="ended", outcome="stopped", cause="stopped by you")
    assert "by you" not in row(state="ended", outcome="killed", cause="killed by you")
    assert "code" not in row(state="ended", outcome="finished", cause="exit code 0", total_timesteps=None)


def test_a_run_that_finished_early_says_why() -> None:
    """Finished at a third is a callback's doing, and is named; one that used up its budget has nothing to explain."""
    early = {"state": "ended", "outcome": "finished", "total_timesteps": 300, "cause": "EvalCallback ended it"}
    assert row(**early, timesteps=100).endswith("EvalCallback ended it")
    assert "EvalCallback" not in row(**early, timesteps=300)
