"""One sshd for all tests of a process; each test has two machines behind it, which are runs roots of its own."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hosts.sshd import Sshd, lacking, running_sshd
from tests.shell import Shell, opened
from tests.waiting import until

NAMES = ("gpu1", "gpu2")


@pytest.fixture(scope="session")
def session_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """Skips where there is no openssh."""
    if why := lacking():
        pytest.skip(why)
    with running_sshd(tmp_path_factory.mktemp("sshd")) as sshd:
        yield sshd


@pytest.fixture
def sshd(session_sshd: Sshd) -> Iterator[Sshd]:
    """The line works when a test begins, and none of its connections is left when it ends."""
    yield session_sshd
    session_sshd.resume()
    session_sshd.cut()


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Shell]:
    """This machine, with the scripted trainer."""
    with opened(tmp_path) as made:
        yield made.scripted()


def config_file(shell: Shell) -> Path:
    """Where it looks for the names of machines."""
    return Path(shell.environ["HOME"]) / ".config/mission-tui/hosts.toml"


def awake(machine: Shell) -> Shell:
    """`machine` with a supervisor that answers: a busy one may take longer to start it than a verb waits."""
    until(lambda: machine("status").returncode == 0, 60.0, "its supervisor answers")
    return machine


@pytest.fixture
def far(quick: Shell, sshd: Sshd) -> Iterator[dict[str, Shell]]:
    """Two machines with the scripted trainer, by name, as one sees them who sits there; `quick` knows their names."""
    config = config_file(quick)
    machines, lines = {}, ["[hosts]"]
    for name in NAMES:
        folder = quick.cwd / name
        machines[name] = there = replace(quick, cwd=folder)
        there.root.mkdir(parents=True)
        variables = [f"{key}={value}" for key, value in quick.environ.items() if key.isidentifier()]
        command = shlex.join(["exec", "env", "-C", str(folder), *variables, sys.executable, "-m", "mission_tui"])
        program = folder / "mission-tui"
        program.write_text(f'#!/bin/sh\n{command} "$@"\n')
        program.chmod(0o700)
        lines.append(f'{name} = {{command = "{program}", runs_dir = "{there.root}"}}')
    config.write_text("\n".join(lines) + "\n")
    quick.environ["MISSION_TUI_SSH"] = sshd.ssh
    yield machines
    for machine in machines.values():
        machine.shut_down()
