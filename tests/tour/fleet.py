"""The fleet that the tour is taken of: real trainings of small presets, each in another state."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from benchmarks.fleet.lab import Lab, until
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.paths import socket_dir

__all__ = ["settled"]

HOME = Path(tempfile.gettempdir()) / f"mission-tour-{os.getpid()}"
"""Its own, so that two tours at once do not clear each other away."""
PATIENCE_S = 600.0
"""States are waited for and not times: other work may take most of the machine."""
_LONG = ("--timesteps", "20M", "--set", "keep.health.throughput.act=off")
"""Long enough to live through the whole tour, in which they are made slow."""
_LATER = 19
"""The niceness of what trains while pictures are taken, so that screens are drawn beside it."""


@contextmanager
def settled() -> Iterator[Lab]:
    """A lab in which runs learn, are sick, paused, finished, killed and failed; nothing of it is left behind."""
    shutil.rmtree(HOME, ignore_errors=True)
    # As on a machine that has no pygame: environments are drawn without it.
    (HOME / "lacking").mkdir(parents=True)
    (HOME / "lacking" / "pygame.py").write_text("raise ModuleNotFoundError('pygame', name='pygame')\n")
    lab = Lab(HOME / "lab" / "runs", {"HOME": str(HOME), "OMP_NUM_THREADS": "1", "LANG": "C.UTF-8"})
    lab.environ["PYTHONPATH"] += f"{os.pathsep}{HOME / 'lacking'}"
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
    command = [sys.executable, "-m", "mission_tui", "launch", "--name", "script", "--"]
    failing = [sys.executable, "-c", "print('loading'); raise SystemExit('no such file: data.csv')"]
    subprocess.run([*command, *failing], env=lab.environ, cwd=lab.root.parent, check=True, capture_output=True)
    short = lab.launch("demo", "--name", "short", "--seed", "1", "--timesteps", "300k")
    lab.launch("cartpole", "--name", "pole", "--seeds", "2", "--timesteps", "50k", "--set", "env.n_envs=16")
    lake = ("--set", "env.id=FrozenLake-v1", "--set", "env.kwargs.is_slippery=false", "--timesteps", "20k")
    lab.launch("cartpole", "--name", "lake", "--seed", "1", *lake)
    sweep = ("--set", "ppo.learning_rate=3e-4,1e-3", "--timesteps", "40k", "--seeds", "2")
    lab.launch("demo", "--name", "sweep-with-two-rates", *sweep)
    lab.launch("demo", "--name", "standard-lr3e-4-ent0.01", "--timesteps", "40k", "--seeds", "3")
    until(lambda: all(view.state == "ended" for view in lab.views().values()), PATIENCE_S, "all of these", 1.0)
    lab.launch("demo", "--name", "gone", "--seed", "1")
    lab.launch("demo", "--name", "held", "--seed", "1")
    raised = lab.launch("demo", "--name", "raised", "--seed", "1", *_LONG)
    lab.cli("evaluate", short[0], "--episodes", "20", "--reel")
    _await_updates(lab, "gone", 3)
    lab.cli("kill", "gone")
    _await_updates(lab, "held", 10)
    lab.cli("pause", "held")
    _await(lab, "held", lambda view: view.state == "paused")
    _await_updates(lab, "raised", 60)
    lab.cli("set", raised[0], "ppo.learning_rate=0.05", "--accept")
    lab.launch("demo", "--name", "eager", "--seed", "1", "--set", "ppo.learning_rate=0.03", *_LONG)
    lab.launch("demo", "--name", "steady", "--seeds", "3", "-j", "3", *_LONG)
    _await_updates(lab, "steady-1", 12)
    _await(lab, "eager", lambda view: any(finding.severity != "info" for finding in view.findings))
    _await(lab, "raised", lambda view: any("you set" in finding.sentence for finding in view.findings))
    for process in lab.families([run for run, view in lab.views().items() if view.state != "ended"]):
        with suppress(psutil.NoSuchProcess):
            process.nice(_LATER)


def _await(lab: Lab, name: str, is_there: Callable[[RunView], bool]) -> None:
    until(lambda: any(it.name == name and is_there(it) for it in lab.views().values()), PATIENCE_S, name, 1.0)


def _await_updates(lab: Lab, name: str, updates: int) -> None:
    _await(lab, name, lambda view: (view.update or 0) >= updates)
