"""`mission-tui supervisor`: whether one is running, and how to end it; runs go on without it unless --with-runs.

`mission-tui bridge` passes on what a screen on another machine and the supervisor here say to each other.

`mission-tui service` has the supervisor of this runs root started at boot, by a systemd user unit: its place, its
text, and whose it is. It holds no secret, and nothing that it does ends a run: keepers stay in its cgroup when it
stops.
"""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mission_tui import paths
from mission_tui.cli.options import json_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import print_error, write
from mission_tui.errors import EX_UNAVAILABLE, MissionError, NoSupervisorError, StoppedSupervisorError, UsageError
from mission_tui.fleet.specs.secrecy import is_secret
from mission_tui.ipc.start import SUPERVISOR, ensure_supervisor, operator_socket, start_readonly_server, was_stopped
from mission_tui.paths import home_dir, lingers, socket_dir

if TYPE_CHECKING:
    from mission_tui.ipc.replies import Accepted, Welcome

GONE_WITHIN_S = 10.0
LOOK_S = 0.05


@click.group("supervisor")
def supervisor_command() -> None:
    """The background process that knows every run."""


@supervisor_command.command("status")
@json_option
@pass_session
def status(session: Session, as_json: bool) -> int:
    """Say whether one is running.

    Exit code 69 when none is.
    """
    from mission_tui.cli.tables.documents import write_document

    welcome = _welcome(session)
    if as_json:
        write_document(
            {
                "running": welcome is not None,
                "pid": welcome.pid if welcome else None,
                "version": welcome.version if welcome else None,
                "runs_root": str(session.root),
            }
        )
    elif welcome:
        write(f"supervisor {welcome.pid}, version {welcome.version}, for {session.root}")
    if welcome is None:
        print_error(f"no supervisor is running for {session.root}")
        return EX_UNAVAILABLE
    return 0


@supervisor_command.command("stop")
@click.option("--with-runs", is_flag=True, help="Stop every live run first, each with a checkpoint.")
@json_option
@pass_session
def stop(session: Session, with_runs: bool, as_json: bool) -> None:
    """End the supervisor, not its runs."""
    from mission_tui.cli.tables.documents import write_document

    ended = _shut_down(session, with_runs)
    if as_json:
        stopped = [{"id": run} for run in ended.runs] if ended else []
        write_document({"running": False, "was_running": ended is not None, "runs": stopped})
    elif ended is None:
        print_error(f"no supervisor was running for {session.root}")


def _welcome(session: Session) -> Welcome | None:
    try:
        with session.connect(start=False) as connection:
            return connection.welcome
    except NoSupervisorError:
        return None


def _shut_down(session: Session, with_runs: bool) -> Accepted | None:
    """Ask it to end and wait until the process is gone; None when none was running."""
    from mission_tui.ipc.requests import Shutdown

    try:
        with session.connect(start=False) as connection:
            pid = connection.welcome.pid
            reply = connection.ask(lambda id_: Shutdown(id=id_, with_runs=with_runs))
    except NoSupervisorError:
        return None
    deadline = time.monotonic() + GONE_WITHIN_S
    while (there := _is_supervisor(pid)) and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    if there:
        raise MissionError(
            f"supervisor {pid} did not end within {GONE_WITHIN_S:.0f} s: see its log (mission-tui paths shows where)"
        )
    return reply


def _is_supervisor(pid: int) -> bool:
    """Whether the process of this number is a supervisor, zombies aside; only read, never signalled."""
    try:
        return b"mission_tui.supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@click.command("bridge")
@click.option("--unless-stopped", is_flag=True, help="Start no supervisor that was stopped on request.")
@pass_session
def bridge_command(session: Session, unless_stopped: bool) -> int:
    """Speak with the supervisor of this machine over standard input and output; `--host` calls it by ssh."""
    from mission_tui.ipc.bridge import carry

    carry(_link(session, unless_stopped=unless_stopped), 0, 1, readonly=session.readonly or session.received)
    return 0


def _link(session: Session, *, unless_stopped: bool) -> socket.socket:
    from mission_tui.ipc.sockets import connect

    if session.received or (session.readonly and not session.is_supervised):
        if session.received:
            print_error(session.what_was_received)
        return start_readonly_server(session.root)
    with suppress(OSError):
        return connect(operator_socket(session.root), None)
    if unless_stopped and was_stopped(session.root):
        raise StoppedSupervisorError(f"no supervisor runs for {session.root}: it was stopped on request")
    session.require_writable_root()
    ensure_supervisor(session.root)
    return connect(operator_socket(session.root), None)


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
    facts = _facts(session, unit, [] if lingers() else [("loginctl", "enable-linger")], todo)
    if as_json:
        _print(facts)
        return 0
    write(f"{'unchanged' if before == text else 'wrote'}: {unit.path}")
    write(f"At boot it starts the supervisor of {session.root}; runs with keep.on_reboot = 'resume' then go on.")
    if not lingers():
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
def service_status(session: Session, as_json: bool) -> int:
    """Show whether the supervisor starts at boot.

    Exit code 69 when it is not.
    """
    unit = UnitFile.of(session.root, session.environ)
    if not BOOTED.is_dir():
        return _without_systemd(session, unit, as_json)
    there = unit.written() is not None
    enabled = there and unit.wanted.is_symlink()
    todo = [] if enabled else [("mission-tui", "--runs-dir", str(session.root), "service", "install", "--now")]
    facts = _facts(session, unit, [] if lingers() else [("loginctl", "enable-linger")], todo)
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
    enabled, linger = there and unit.wanted.is_symlink(), lingers()
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
    from mission_tui.records.atomic import storing, write_atomic

    with storing(unit.path, "write"):
        make_folder(unit.folder)
        make_folder(unit.root / ".supervisor")
        write_atomic(unit.path, text.encode())


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


MARK = "# mission-tui service for the runs root "
KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "NO_COLOR")
KEPT_FAMILIES = ("CUDA_", "NVIDIA_", "MISSION_TUI_START")

TEXT = """\
{mark}{root}
# Written by `mission-tui service install`, which writes it anew: change it with `systemctl --user edit {name}`.
[Unit]
Description=mission-tui supervisor of {description}
# Without lingering the user manager ends at the last logout, and whatever was started from here with it.
ConditionPathExists={linger}/%u
# A runs root on a disk that is mounted late is waited for.
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command}
WorkingDirectory=/
{environment}
StandardOutput=append:{log}
Restart=on-failure
RestartSec=10
# Words or a place that cannot be used: another try would say the same.
RestartPreventExitStatus=2
# Keepers and trainings live in this unit's cgroup and outlive it: a stop ends the supervisor alone.
KillMode=process
# A training that is ended for lack of memory ends nobody else.
OOMPolicy=continue
TasksMax=infinity

[Install]
WantedBy=default.target
"""


@dataclass(frozen=True, slots=True)
class UnitFile:
    """The unit of the runs root `root` in the folder `folder`."""

    folder: Path
    root: Path

    @classmethod
    def of(cls, root: Path, environ: Mapping[str, str]) -> UnitFile:
        """The unit of a runs root, where systemd looks for this user's."""
        config = environ.get("XDG_CONFIG_HOME") or str(home_dir(environ) / ".config")
        return cls(Path(config) / "systemd" / "user", root)

    @property
    def name(self) -> str:
        """One for each runs root."""
        return f"mission-tui-{socket_dir(self.root).name}.service"

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.folder / self.name

    @property
    def wanted(self) -> Path:
        """The link that has it started at boot; `systemctl enable` makes it."""
        return self.folder / "default.target.wants" / self.name

    def written(self) -> str | None:
        """What lies there now, None for nothing. Raises `UsageError` for a file that we did not write."""
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(f"{self.path} cannot be read: {error.strerror}") from error
        if self.path.is_symlink() or not text.startswith(MARK):
            raise UsageError(f"{self.path} was not written by mission-tui and is left alone; move it away first")
        return text

    def text(self, environ: Mapping[str, str]) -> str:
        """The unit as this interpreter and the caller's environment make it. Raises `UsageError` for odd paths."""
        for path in (self.root, Path(sys.executable)):
            if not str(path).isprintable():
                raise UsageError(f"{str(path)!r} cannot stand in a unit file: it has characters that cannot be printed")
        kept = {name: value for name, value in environ.items() if name in KEPT or name.startswith(KEPT_FAMILIES)}
        kept = {name: value for name, value in kept.items() if value.isprintable() and not is_secret(name, value)}
        if search := search_path(environ):
            kept["PYTHONPATH"] = search
        # A service stays: runs that are launched later are then out of reach of any logout.
        kept["MISSION_TUI_IDLE_S"] = "inf"
        words = [f"Environment={_quoted(f'{name}={value}')}" for name, value in sorted(kept.items())]
        return TEXT.format(
            mark=MARK,
            root=self.root,
            name=self.name,
            description=_literal(str(self.root)),
            linger=paths.LINGER,
            command=" ".join(_quoted(word).replace("$", "$$") for word in command_of(self.root)),
            environment="\n".join(words),
            log=_literal(str(self.root / ".supervisor" / "supervisor.log")),
        )


def command_of(root: Path) -> tuple[str, ...]:
    """The command that starts the supervisor of `root`, with absolute paths only: systemd or cron runs it."""
    return (sys.executable, "-P", "-m", SUPERVISOR, "--runs-dir", str(root))


def search_path(environ: Mapping[str, str]) -> str:
    """The `PYTHONPATH` without which `command_of` would not find this package; empty where it is installed."""
    parent = Path(__file__).resolve().parents[3]
    return str(parent) if not parent.name.endswith("-packages") else environ.get("PYTHONPATH", "")


def _literal(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """One word, in which systemd expands nothing (systemd.syntax(7), systemd.service(5))."""
    escaped = _literal(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
