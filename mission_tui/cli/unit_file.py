"""The systemd user unit that starts the supervisor of one runs root at boot: its place, its text, and whose it is.

It holds no secret, and nothing that it does ends a run: keepers stay in its cgroup when it stops.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mission_tui.errors import UsageError
from mission_tui.fleet.specs.secrecy import is_secret
from mission_tui.ipc.start import SUPERVISOR
from mission_tui.paths import home_dir, socket_dir

LINGER = Path("/var/lib/systemd/linger")
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
            linger=LINGER,
            command=" ".join(_quoted(word).replace("$", "$$") for word in command_of(self.root)),
            environment="\n".join(words),
            log=_literal(str(self.root / ".supervisor" / "supervisor.log")),
        )


def command_of(root: Path) -> tuple[str, ...]:
    """The command that starts the supervisor of `root`, with absolute paths only: systemd or cron runs it."""
    return (sys.executable, "-P", "-m", SUPERVISOR, "--runs-dir", str(root))


def search_path(environ: Mapping[str, str]) -> str:
    """The `PYTHONPATH` without which `command_of` would not find this package; empty where it is installed."""
    parent = Path(__file__).resolve().parents[2]
    return str(parent) if not parent.name.endswith("-packages") else environ.get("PYTHONPATH", "")


def _literal(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """One word, in which systemd expands nothing (systemd.syntax(7), systemd.service(5))."""
    escaped = _literal(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
