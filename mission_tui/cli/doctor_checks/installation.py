"""This installation: Python and the packages, by their metadata alone, and whether they changed under a live run; the
runs root, the sockets, the supervisor and the health file; logging out; and the terminal of this call.
"""

from __future__ import annotations

import locale
import os
import platform
import pwd
import shlex
import stat
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from mission_tui.cli.doctor_checks import Check
from mission_tui.cli.follow_runs import snapshot_of
from mission_tui.cli.screen import can_draw
from mission_tui.cli.unit_file import LINGER
from mission_tui.errors import MissionError, NoSupervisorError, PresetError, UsageError, install_words
from mission_tui.paths import socket_dir
from mission_tui.records.runs_roots import SHARED, file_system, renamed_by_others

if TYPE_CHECKING:
    from mission_tui.cli.session import Session
    from mission_tui.ipc.replies import UpgradesReply


NEEDED = ("torch", "stable-baselines3", "gymnasium", "numpy", "textual", "msgspec", "psutil", "safetensors")
OPTIONAL = {
    "sb3-contrib": "MaskablePPO and RecurrentPPO",
    "tensorboard": "TensorBoard event files",
    "textual-serve": "the screen in a browser (`mission-tui serve`)",
    "box2d": "LunarLander, BipedalWalker and CarRacing",
    "mujoco": "HalfCheetah, Hopper and the other MuJoCo tasks",
    "ale-py": "Atari games",
}
EXTRAS = {"sb3-contrib": "contrib", "tensorboard": "tensorboard", "textual-serve": "serve"}
"""The extra that brings a package; the environments' extra brings the others."""
COLUMNS, ROWS = 80, 24
ADVICE = "the run goes on with what it has loaded; processes it starts later, and a resume, use the new version"
SETTINGS = (Path("/usr/lib/systemd"), Path("/run/systemd"), Path("/etc/systemd"))
LINGER_ADVICE = (
    "`loginctl enable-linger`, `mission-tui supervisor stop`, then `mission-tui service install --now`: "
    "runs launched after that survive a logout"
)


def software_checks() -> list[Check]:
    """Interpreter, needed packages, and what optional packages would bring."""
    python = Check("python", "ok", f"{platform.python_version()} at {sys.executable}")
    return [python, _needed(), *(_optional(name, brings) for name, brings in OPTIONAL.items())]


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _needed() -> Check:
    found = {name: _installed(name) for name in NEEDED}
    missing = [name for name, release in found.items() if release is None]
    if missing:
        return Check(
            "packages",
            "bad",
            f"missing: {', '.join(missing)}",
            "install mission-tui here again (see README)",
        )
    return Check("packages", "ok", ", ".join(f"{name} {release}" for name, release in found.items()))


def _optional(name: str, brings: str) -> Check:
    release = _installed(name)
    if release is not None:
        return Check(name, "ok", release)
    return Check(name, "note", "not installed", f"for {brings}; {install_words(EXTRAS.get(name, 'envs'))}")


def terminal_checks(environ: Mapping[str, str]) -> list[Check]:
    """One check: kind, size and encoding of the terminal."""
    if not can_draw(environ):
        advice = "use `mission-tui status`, `launch --wait` and the other verbs, or open the screen in a terminal"
        return [Check("terminal", "note", f"no terminal for the screen (TERM={environ.get('TERM', '')!r})", advice)]
    size = os.get_terminal_size(sys.stdout.fileno())
    encoding = locale.getencoding()
    detail = f"{environ['TERM']}, {size.columns}x{size.lines}, {encoding}"
    if size.columns < COLUMNS or size.lines < ROWS:
        return [Check("terminal", "warn", detail, f"the screen wants {COLUMNS}x{ROWS} or more: enlarge the window")]
    if encoding.lower().replace("-", "") != "utf8":
        return [Check("terminal", "warn", detail, "without UTF-8 the screen falls back to ASCII: set LANG=C.UTF-8")]
    return [Check("terminal", "ok", detail)]


def upgrade_checks(session: Session) -> list[Check]:
    """A check for each live run under which something changed; nothing is started for it."""
    from mission_tui.ipc.requests import GetUpgrades

    try:
        with session.connect(start=False) as connection:
            return judge_upgrades(connection.ask(lambda id_: GetUpgrades(id=id_)))
    except NoSupervisorError:
        return []
    except MissionError as error:
        return [Check("upgrades", "note", f"what live runs were launched with cannot be compared: {error}")]


def judge_upgrades(reply: UpgradesReply) -> list[Check]:
    """One warning for each run that `reply` names, else one word for all that were looked at."""
    if not reply.upgrades:
        has = "run has what it was" if reply.looked == 1 else "runs have what they were"
        return [Check("upgrades", "ok", f"{reply.looked} live {has} launched with")]
    return [
        Check(
            "upgrades",
            "warn",
            f"{one.name}: " + "; ".join(f"{change.name}: {change.was} -> {change.now}" for change in one.changes),
            ADVICE,
        )
        for one in reply.upgrades
    ]


def place_checks(session: Session) -> list[Check]:
    """Runs root, its file system, the socket folder, the supervisor, health limits; none is created or started."""
    root = session.root
    return [_runs_root(session), _file_system(root), _sockets(root), _supervisor(session), _health(session)]


def _runs_root(session: Session) -> Check:
    try:
        session.require_writable_root()
    except UsageError as error:
        return Check("runs root", "bad", str(error))
    if (folder := renamed_by_others(session.root)) is not None:
        advice = (
            "its supervisor leaves if they do, and what is launched then goes elsewhere: take their right to write "
            f"away (`chmod g-w,o-w {shlex.quote(str(folder))}`), make it sticky (`chmod +t`), or choose another root"
        )
        return Check("runs root", "warn", f"{session.root}: others may rename or replace it, in {folder}", advice)
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
        return room_for_sockets(folder.parent) or Check("sockets", "ok", f"{folder} (made with the first supervisor)")
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        advice = "remove it, or make it yours with mode 0700; if it is another user's, ask them to remove it"
        return Check("sockets", "bad", f"{folder} is not private to you", advice)
    return room_for_sockets(folder) or Check("sockets", "ok", str(folder))


def room_for_sockets(folder: Path) -> Check | None:
    """What stands against new ones there, such as a full /tmp: those that are there go on all the same."""
    disk = os.statvfs(folder)
    if disk.f_flag & os.ST_RDONLY:
        return Check("sockets", "bad", f"{folder} is on a read-only file system", "mount it writable again")
    if disk.f_bavail == 0 or (disk.f_files and disk.f_favail == 0):
        return Check("sockets", "bad", f"the file system of {folder} is full", "free some disk space (or inodes) there")
    return None


def _supervisor(session: Session) -> Check:
    try:
        with session.connect(start=False) as connection:
            welcome, snapshot = connection.welcome, snapshot_of(connection)
    except NoSupervisorError:
        return Check("supervisor", "note", "none is running; the first launch or screen starts one")
    except MissionError as error:
        return Check("supervisor", "bad", str(error), "see the supervisor log; `mission-tui paths` shows where")
    who = f"pid {welcome.pid}, version {welcome.version}"
    failed = [each.sentence for each in snapshot.failed_duties]
    if snapshot.host.gpu_note.startswith("GPU meters"):
        failed.append(snapshot.host.gpu_note)
    if failed:
        return Check(
            "supervisor", "warn", f"{who}: {'; '.join(failed)}", "see its log; `mission-tui paths` shows where"
        )
    return Check("supervisor", "ok", who)


def _health(session: Session) -> Check:
    try:
        own, *shipped = session.health()
    except PresetError as error:
        return Check("health limits", "bad", str(error), "every launch reads this file: correct it")
    return Check("health limits", "ok", f"{own.path} over the defaults" if shipped else "the defaults")


def login_checks() -> list[Check]:
    """One check: logind's `KillUserProcesses`, and whether lingering is on."""
    if not any((folder / "logind.conf").exists() for folder in SETTINGS):
        return [Check("logout", "ok", "no logind settings here: runs live on after logout")]
    user = pwd.getpwuid(os.getuid()).pw_name
    kills = kills_user_processes(_settings())
    if not kills:
        return [Check("logout", "ok", "KillUserProcesses=no: runs live on after logout")]
    if (LINGER / user).exists():
        return [
            Check(
                "logout", "warn", "KillUserProcesses=yes; lingering is on, but covers user services only", LINGER_ADVICE
            )
        ]
    return [Check("logout", "warn", "KillUserProcesses=yes: logging out kills every run", LINGER_ADVICE)]


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
