"""What `doctor` looks at: each check says what it found, and what would help where it matters.

A check never fails because of what it finds, leaves nothing running, and loads neither torch nor a driver library:
NVML is asked by a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from mission_tui.cli.session import Session

__all__ = ["Check", "all_checks", "cluster_checks"]

Level = Literal["ok", "note", "warn", "bad"]


class Check(Struct, frozen=True):
    """Level `bad`: trainings cannot run here; `warn`: something will go wrong; `note`: something optional is absent."""

    name: str
    level: Level
    detail: str
    advice: str = ""


def all_checks(session: Session) -> list[Check]:
    """Every check, in the order of the report."""
    from mission_tui.cli.doctor_checks import installation, machine

    return [
        *installation.software_checks(),
        *machine.machine_checks(session.root),
        *machine.gpu_checks(session.environ),
        *installation.place_checks(session),
        *installation.upgrade_checks(session),
        *installation.login_checks(),
        *installation.terminal_checks(session.environ),
    ]


def cluster_checks(session: Session, launcher: str, assignments: Sequence[str]) -> Iterator[Check]:
    """What trying a cluster finds, each check as soon as a process of its own has made it; it asks for what
    `assignments` and this user's file of clusters say.

    Raises `UsageError` for a launcher that is none, and `PresetError`.
    """
    import subprocess
    import sys

    import msgspec

    from mission_tui.cli.plan import resolved
    from mission_tui.errors import UsageError, nearest
    from mission_tui.fleet.specs.assignment import expand
    from mission_tui.fleet.specs.preset import read_preset
    from mission_tui.fleet.specs.schema import ENGINES

    if launcher not in ENGINES:
        near = nearest(launcher[:40], ENGINES) or f"; known are {', '.join(ENGINES)}"
        raise UsageError(f"--launcher {launcher[:40]!r} is no cluster{near}")
    (words,) = expand((*assignments, f"run.launcher={launcher}"))
    preset = read_preset({"env": {"id": "CartPole-v1"}, "run": {"total_timesteps": 1}, "name": "doctor"}, session.root)
    spec = resolved(preset, words, "none", session.preset_dirs, ())
    asked = msgspec.json.encode({"spec": spec, "root": str(session.root)}).decode()
    asking = subprocess.Popen(
        [sys.executable, "-P", "-m", "mission_tui.supervisor.launchers.cluster_check", asked],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=dict(session.environ),
    )
    assert asking.stdout is not None
    try:
        for line in asking.stdout:
            yield msgspec.json.decode(line, type=Check)
        if asking.wait() != 0:
            yield Check(
                launcher, "bad", f"the check ended with exit code {asking.returncode}: what it printed says more"
            )
    finally:
        asking.stdout.close()
        if asking.poll() is None:
            # It takes its job back before it leaves.
            asking.terminate()
            asking.wait()
