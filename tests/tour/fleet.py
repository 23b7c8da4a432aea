"""The fleet that the tour is taken of: real trainings of small presets, each in another state."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.fleet.lab import Lab, until
from mission_tui.paths import socket_dir

__all__ = ["settled"]

HOME = Path(tempfile.gettempdir()) / f"mission-tour-{os.getpid()}"
"""Its own, so that two tours at once do not clear each other away."""


@contextmanager
def settled() -> Iterator[Lab]:
    """A lab in which runs learn, are sick, paused, finished, killed and failed; nothing of it is left behind."""
    shutil.rmtree(HOME, ignore_errors=True)
    lab = Lab(HOME / "lab" / "runs", {"HOME": str(HOME), "OMP_NUM_THREADS": "1", "LANG": "C.UTF-8"})
    lab.root.mkdir(parents=True)
    try:
        _settle(lab)
        yield lab
    finally:
        live = [run for run, view in lab.views().items() if view.state != "ended"]
        if live:
            lab.kill(*live)
        for root in HOME.glob("*/runs"):
            lab.environ["MISSION_TUI_RUNS"] = str(root)
            lab.cli("supervisor", "stop")
            shutil.rmtree(socket_dir(root), ignore_errors=True)
        shutil.rmtree(HOME)


def _settle(lab: Lab) -> None:
    short = lab.launch("demo", "--name", "short", "--seed", "1", "--set", "run.total_timesteps=120000")
    _await(lab, "short", "ended")
    lab.cli("evaluate", short[0], "--episodes", "20")
    command = [sys.executable, "-m", "mission_tui", "launch", "--name", "script", "--"]
    failing = [sys.executable, "-c", "print('loading'); raise SystemExit('no such file: data.csv')"]
    subprocess.run([*command, *failing], env=lab.environ, cwd=lab.root.parent, check=True, capture_output=True)
    _await(lab, "script", "ended")
    lab.launch("demo", "--name", "gone", "--seed", "1")
    _await_updates(lab, "gone", 3)
    lab.cli("kill", "gone")
    lab.launch("demo", "--name", "held", "--seed", "1")
    _await_updates(lab, "held", 10)
    lab.cli("pause", "held")
    _await(lab, "held", "paused")
    sweep = ("--set", "ppo.learning_rate=3e-4,1e-3", "--set", "run.total_timesteps=40000")
    lab.launch("demo", "--name", "sweep-with-two-rates", *sweep, "--seeds", "2")
    seeds = ("--set", "run.total_timesteps=40000", "--seeds", "3")
    lab.launch("demo", "--name", "standard-lr3e-4-ent0.01", *seeds)
    _await(lab, "sweep-with-two-rates-4", "ended")
    _await(lab, "standard-lr3e-4-ent0.01-3", "ended")
    # Long enough to live through the whole tour.
    long = ("--set", "run.total_timesteps=20000000")
    lab.launch("demo", "--name", "eager", "--seed", "1", "--set", "ppo.learning_rate=0.03", *long)
    lab.launch("demo", "--name", "steady", "--seeds", "3", "-j", "3", *long)
    _await_updates(lab, "steady-1", 12)
    until(lambda: _asks(lab, "eager"), 300.0, "a finding", 1.0)


def _asks(lab: Lab, name: str) -> bool:
    """Whether the run has a finding that somebody should act on."""
    known = (finding for view in lab.views().values() if view.name == name for finding in view.findings)
    return any(finding.severity != "info" for finding in known)


def _await(lab: Lab, name: str, state: str) -> None:
    until(lambda: any((it.name, it.state) == (name, state) for it in lab.views().values()), 300.0, name, 1.0)


def _await_updates(lab: Lab, name: str, updates: int) -> None:
    known = lambda: any(it.name == name and (it.update or 0) >= updates for it in lab.views().values())  # noqa: E731
    until(known, 300.0, name, 1.0)
