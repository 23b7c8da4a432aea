"""Whether the login manager lets background work live on after logout."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from pathlib import Path

from mission_tui.cli.doctor_checks.check import Check
from mission_tui.cli.unit_file import LINGER

__all__ = ["checks", "kills_user_processes"]

SETTINGS = (Path("/usr/lib/systemd"), Path("/run/systemd"), Path("/etc/systemd"))


def checks() -> list[Check]:
    """One check: logind's `KillUserProcesses`, and whether lingering makes it harmless."""
    if not any((folder / "logind.conf").exists() for folder in SETTINGS):
        return [Check("logout", "ok", "no logind settings here: runs live on after logout")]
    user = pwd.getpwuid(os.getuid()).pw_name
    kills = kills_user_processes(_settings())
    if not kills:
        return [Check("logout", "ok", "KillUserProcesses=no: runs live on after logout")]
    if (LINGER / user).exists():
        return [
            Check("logout", "warn", "KillUserProcesses=yes; lingering is on, but covers user services only", ADVICE)
        ]
    return [Check("logout", "warn", "KillUserProcesses=yes: logging out kills every run", ADVICE)]


ADVICE = (
    "`loginctl enable-linger`, `mission-tui supervisor stop`, then `mission-tui service install --now`: "
    "runs that are launched after that live on"
)


def _settings() -> list[str]:
    """The lines of every logind settings file, in the order in which they override each other."""
    files = [folder / "logind.conf" for folder in SETTINGS]
    files += sorted(
        (part for folder in SETTINGS for part in (folder / "logind.conf.d").glob("*.conf")), key=lambda p: p.name
    )
    return [line for file in files if file.exists() for line in file.read_text("utf-8", "replace").splitlines()]


def kills_user_processes(lines: Iterable[str]) -> bool:
    """Whether settings `lines` (the last one wins) say `KillUserProcesses=yes`; distributions ship with no."""
    kills = False
    for line in lines:
        key, _, value = line.partition("=")
        if key.strip() == "KillUserProcesses":
            kills = value.strip().lower() in ("yes", "true", "on", "1")
    return kills
