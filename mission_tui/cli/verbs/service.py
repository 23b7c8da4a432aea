"""`mission-tui service`: have the supervisor of this runs root started at boot, by a systemd user unit."""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mission_tui.cli.options import json_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import print_error, write
from mission_tui.cli.unit_file import LINGER, UnitFile, command_of, search_path
from mission_tui.errors import EX_UNAVAILABLE, MissionError, NoSupervisorError

BOOTED = Path("/run/systemd/system")
"""There exactly while systemd runs the machine: sd_booted(3)."""

CALL_S = 30.0
now_option = click.option("--now", is_flag=True, help="Run the systemctl commands too, instead of printing them.")


@click.group("service")
def service_command() -> None:
    """Start the supervisor at boot, so that runs go on after a reboot."""


@service_command.command("install")
@now_option
@json_option
@pass_session
def install(session: Session, now: bool, as_json: bool) -> int:
    """Write the unit of this runs root; repeating it is safe.

    Exit code 69 where there is no systemd.
    """
    unit = UnitFile.of(session.root, session.environ)
    if not BOOTED.is_dir():
        return _without_systemd(session, unit, as_json)
    session.require_writable_root()
    before, text = unit.written(), unit.text(session.environ)
    if before != text:
        _write(unit, text)
    todo = [("systemctl", "--user", "daemon-reload"), ("systemctl", "--user", "enable", "--now", unit.name)]
    if now:
        for words in todo:
            _call(session, words)
        todo = []
    facts = _facts(session, unit, [] if _lingers() else [("loginctl", "enable-linger")], todo)
    if as_json:
        _print(facts)
        return 0
    write(f"{'unchanged' if before == text else 'wrote'}: {unit.path}")
    write(f"At boot it starts the supervisor of {session.root}; runs with keep.on_reboot = 'resume' then go on.")
    if not _lingers():
        write(
            "Lingering is off for you: until it is on, your services end at your last logout, so the unit does nothing."
        )
    _say_what_to_type(facts)
    if first := _supervisor_pid(session):
        write(f"Supervisor {first} is already running and stays; the unit's takes over once that one has ended.")
    return 0


@service_command.command("uninstall")
@now_option
@json_option
@pass_session
def uninstall(session: Session, now: bool, as_json: bool) -> int:
    """Remove the unit; supervisor and runs go on.

    Exit code 69 where there is no systemd.
    """
    unit = UnitFile.of(session.root, session.environ)
    there = unit.written() is not None
    if there:
        unit.wanted.unlink(missing_ok=True)
        unit.path.unlink()
    if not BOOTED.is_dir():
        return _without_systemd(session, unit, as_json)
    todo = [("systemctl", "--user", "daemon-reload")] if there else []
    if now and there:
        _call(session, todo.pop())
    facts = _facts(session, unit, [], todo)
    if as_json:
        _print(facts)
    else:
        write(f"removed: {unit.path}" if there else f"there is no {unit.path}")
        _say_what_to_type(facts)
    return 0


@service_command.command("status")
@json_option
@pass_session
def status(session: Session, as_json: bool) -> int:
    """Show whether the supervisor starts at boot.

    Exit code 69 when it is not.
    """
    unit = UnitFile.of(session.root, session.environ)
    if not BOOTED.is_dir():
        return _without_systemd(session, unit, as_json)
    there = unit.written() is not None
    enabled = there and unit.wanted.is_symlink()
    todo = [] if enabled else [("mission-tui", "--runs-dir", str(session.root), "service", "install", "--now")]
    facts = _facts(session, unit, [] if _lingers() else [("loginctl", "enable-linger")], todo)
    if as_json:
        _print(facts)
    else:
        for name, words in (
            ("unit", str(unit.path) if there else "not installed"),
            ("at boot", "starts" if facts["ready"] else "does not start"),
            ("enabled", "yes" if enabled else "no"),
            ("lingering", "on" if facts["linger"] else "off"),
            ("now", facts["active"] or "not known"),
        ):
            write(f"{name:<10} {words}")
        _say_what_to_type(facts)
    return 0 if facts["ready"] else EX_UNAVAILABLE


def _without_systemd(session: Session, unit: UnitFile, as_json: bool) -> int:
    """Print the cron line that does the same."""
    log = session.root / ".supervisor" / "supervisor.log"
    search = search_path(session.environ)
    words = [*(["env", f"PYTHONPATH={search}"] if search else []), *command_of(session.root)]
    line = f"@reboot {shlex.join(words)} >>{shlex.quote(str(log))} 2>&1".replace("%", "\\%")
    if as_json:
        _print(_facts(session, unit, [], []) | {"cron": line})
    print_error("there is no systemd here (a container, or another init), so there can be no service")
    if not as_json:
        write("Where cron runs, this line in `crontab -e` does the same at each boot:")
        write(line)
    return EX_UNAVAILABLE


def _facts(session: Session, unit: UnitFile, *todo: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    """How it stands now, and what is still to be typed."""
    booted, there = BOOTED.is_dir(), unit.path.exists()
    enabled, linger = there and unit.wanted.is_symlink(), _lingers()
    return {
        "systemd": booted,
        "unit": str(unit.path),
        "runs_root": str(session.root),
        "installed": there,
        "enabled": enabled,
        "linger": linger,
        "active": _active(session, unit) if booted and there else None,
        "ready": booted and enabled and linger,
        "todo": [shlex.join(words) for part in todo for words in part],
        "cron": None,
    }


def _print(facts: dict[str, Any]) -> None:
    from mission_tui.cli.tables.documents import write_document

    write_document(facts)


def _say_what_to_type(facts: dict[str, Any]) -> None:
    if facts["todo"]:
        write("Type:")
        for words in facts["todo"]:
            write(f"  {words}")


def _write(unit: UnitFile, text: str) -> None:
    from mission_tui.plain_files import make_folder
    from mission_tui.records.files.atomic import storing, write_atomic

    with storing(unit.path, "write"):
        unit.folder.mkdir(parents=True, exist_ok=True)
        make_folder(unit.root / ".supervisor")
        write_atomic(unit.path, text.encode())


def _lingers() -> bool:
    try:
        return (LINGER / pwd.getpwuid(os.getuid()).pw_name).exists()
    except KeyError:
        return False


def _active(session: Session, unit: UnitFile) -> str | None:
    """systemd's word for the unit, such as `active` or `inactive`; None where it does not answer."""
    try:
        return _run(session, ("systemctl", "--user", "is-active", unit.name)).stdout.strip() or None
    except (OSError, subprocess.TimeoutExpired):
        return None


def _call(session: Session, words: tuple[str, ...]) -> None:
    """Raises `MissionError` with systemd's last words."""
    try:
        done = _run(session, words)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissionError(f"`{shlex.join(words)}` could not be run: {error}; the unit is written") from error
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        hint = "" if session.environ.get("XDG_RUNTIME_DIR") else "; without a login set XDG_RUNTIME_DIR=/run/user/$UID"
        raise MissionError(f"`{shlex.join(words)}` failed: {said[0]}{hint}")


def _run(session: Session, words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, env=dict(session.environ), timeout=CALL_S, check=False)


def _supervisor_pid(session: Session) -> int | None:

    try:
        with session.connect(start=False) as connection:
            return connection.welcome.pid
    except NoSupervisorError:
        return None
