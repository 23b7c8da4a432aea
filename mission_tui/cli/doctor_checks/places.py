"""The runs root, the sockets, the supervisor, the health file: whether they can be used, and by whom they are held; and
whether the login manager lets background work live on after logout.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from mission_tui.cli.doctor_checks.check import Check
from mission_tui.cli.unit_file import LINGER
from mission_tui.errors import MissionError, NoSupervisorError, PresetError, UsageError
from mission_tui.paths import socket_dir
from mission_tui.records.root_checks import SHARED, check_private, file_system

if TYPE_CHECKING:
    from mission_tui.cli.session import Session


SETTINGS = (Path("/usr/lib/systemd"), Path("/run/systemd"), Path("/etc/systemd"))
ADVICE = (
    "`loginctl enable-linger`, `mission-tui supervisor stop`, then `mission-tui service install --now`: "
    "runs that are launched after that live on"
)


def place_checks(session: Session) -> list[Check]:
    """Runs root, its file system, the socket folder, the supervisor, health limits; none is created or started."""
    root = session.root
    return [_runs_root(session), _file_system(root), _sockets(root), _supervisor(session), _health(session)]


def _runs_root(session: Session) -> Check:
    try:
        session.require_writable_root()
        check_private(session.root)
    except UsageError as error:
        return Check("runs root", "bad", str(error))
    absent = "" if session.root.is_dir() else " (made at the first launch)"
    return Check("runs root", "ok", f"{session.root}{absent}")


def _file_system(root: Path) -> Check:
    kind, best = file_system(root)
    if kind.split(".")[0] in SHARED:
        advice = "locks on it may fail or hang: keep the runs root on a local disk and copy ended runs over"
        return Check("file system", "warn", f"{kind} at {best}", advice)
    return Check("file system", "ok", f"{kind} at {best}")


def _sockets(root: Path) -> Check:
    folder = socket_dir(root).parent
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return Check("sockets", "ok", f"{folder} (made with the first supervisor)")
    import os

    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        advice = "someone else made it, or opened it to others: remove it, or ask its owner to"
        return Check("sockets", "bad", f"{folder} is not a folder of yours alone", advice)
    return Check("sockets", "ok", str(folder))


def _supervisor(session: Session) -> Check:
    from mission_tui.ipc.requests import GetSnapshot

    try:
        with session.connect(start=False) as connection:
            welcome = connection.welcome
            snapshot = connection.ask(lambda id_: GetSnapshot(id=id_)).snapshot
    except NoSupervisorError:
        return Check("supervisor", "note", "none is running; the first launch or screen starts one")
    except MissionError as error:
        return Check("supervisor", "bad", str(error), "look into the supervisor log that `mission-tui paths` names")
    who = f"pid {welcome.pid}, version {welcome.version}"
    failed = [each.sentence for each in snapshot.failed_duties]
    if snapshot.host.gpu_note.startswith("GPU meters"):
        failed.append(snapshot.host.gpu_note)
    if failed:
        return Check("supervisor", "warn", f"{who}: {'; '.join(failed)}", "its log, which `mission-tui paths` names")
    return Check("supervisor", "ok", who)


def _health(session: Session) -> Check:
    try:
        own, *shipped = session.health()
    except PresetError as error:
        return Check("health limits", "bad", str(error), "every launch lays this file under its preset: correct it")
    return Check("health limits", "ok", f"{own.path} over the defaults" if shipped else "the defaults")


def login_checks() -> list[Check]:
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
