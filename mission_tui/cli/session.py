"""What every verb is given: the runs root it speaks about, where it was called from, and the road to the supervisor."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, TypeVar

from mission_tui.errors import UsageError
from mission_tui.paths import health_files, preset_dirs, profile_dir, runs_root

if TYPE_CHECKING:
    from mission_tui.fleet.specs.health_file import HealthFile
    from mission_tui.ipc.client import Connection


P = ParamSpec("P")
R = TypeVar("R")


class Session(NamedTuple):
    """One call of the command line; a `readonly` one reads files and asks no supervisor."""

    root: Path
    cwd: Path
    environ: Mapping[str, str]
    readonly: bool = False
    received: bool = False
    """The runs root was chosen only because it lies in the working folder, and nothing says that it is this user's."""

    @classmethod
    def begin(cls, runs_dir: str | None, *, readonly: bool = False) -> Session:
        """The session of this process: `--runs-dir` if given, else what `paths.runs_root` says."""
        try:
            cwd = Path.cwd()
        except OSError as error:
            raise UsageError(f"the folder that you are in is gone ({error.strerror}): `cd` to another one") from error
        root = runs_root(runs_dir, cwd, os.environ)
        found = not runs_dir and not os.environ.get("MISSION_TUI_RUNS") and root == (cwd / "runs").resolve()
        return cls(root, cwd, os.environ, readonly, received=found and _is_received(root, os.environ))

    @property
    def preset_dirs(self) -> tuple[Path, ...]:
        """Folders searched for presets, each once: in a checkout `./presets` and the shipped ones are the same."""
        return tuple(dict.fromkeys(preset_dirs(self.cwd, self.environ)))

    @property
    def profile_dir(self) -> Path:
        """The folder of this user's host profiles."""
        return profile_dir(self.environ)

    def health(self) -> tuple[HealthFile, ...]:
        """The limits of health rules that lie under every preset's own, nearest first. Raises `PresetError`."""
        from mission_tui.records.preset_files import load_health

        return load_health(health_files(self.environ))

    def connect(self, *, start: bool = True) -> Connection:
        """A connection to the supervisor of this runs root, started if there is none and `start`.

        Where nothing may change, one to a process of our own that reads the files. Raises `UsageError` before anything
        is started when the runs root cannot be written, or read, and `NoSupervisorError` when nobody answers.
        """
        from mission_tui.ipc.client import Connection

        if self.readonly:
            return Connection.connect_readonly(self.root)
        if self.received and start:
            raise UsageError(f"{self.what_was_received}; --runs-dir {self.root} uses it, another one leaves it alone")
        if start:
            self.require_writable_root()
        return Connection.connect(self.root, start=start)

    @property
    def is_supervised(self) -> bool:
        """Whether a supervisor of this user answers for the runs root now."""
        return _is_supervised(self.root)

    @property
    def what_was_received(self) -> str:
        """Why a runs root that was received is only looked at."""
        if against := _against_secret(self.environ):
            return f"whether the runs root {self.root} is yours cannot be told, so it is only looked at: {against}"
        return (
            f"the runs root {self.root} carries no seal of yours (it came with this folder, is a copy, or was made by "
            "an earlier version): it is only looked at; `mission-tui adopt --all` shows what its runs would run"
        )

    @property
    def is_ours(self) -> bool:
        """Whether the runs root is this user's to write in; one that is not there yet is."""
        try:
            return self.root.stat().st_uid == os.getuid() and os.access(self.root, os.W_OK | os.X_OK)
        except FileNotFoundError:
            return True
        except OSError:
            return False

    def require_writable_root(self) -> None:
        """Raise `UsageError` unless the runs root, or the nearest folder above it that exists, can be written.

        So it does when others may write there too.
        """
        from mission_tui.records.root_checks import check_private

        ground = self.root
        while not ground.exists() and ground != ground.parent:
            ground = ground.parent
        if not (ground.is_dir() and os.access(ground, os.W_OK | os.X_OK)):
            raise UsageError(
                f"runs root {self.root} cannot be written ({ground} is not a writable folder): "
                "give another with --runs-dir or MISSION_TUI_RUNS"
            )
        check_private(self.root)


def _is_received(root: Path, environ: Mapping[str, str]) -> bool:
    """Whether something lies in `root` and nothing says that this user put it there: no seal, no supervisor."""
    from mission_tui.records.runs.seal import Seals, has_runs

    if not has_runs(root):
        return False
    with suppress(UsageError):  # a secret that cannot be used proves nothing; whoever acts is told
        if Seals.of(environ, make=False).owns_root(root):
            return False
    return not _is_supervised(root)


def _against_secret(environ: Mapping[str, str]) -> str:
    """Why this user's secret cannot be used; empty when it can, or there is none yet."""
    from mission_tui.records.runs.seal import Seals

    try:
        Seals.of(environ, make=False)
    except UsageError as error:
        return str(error)
    return ""


def _is_supervised(root: Path) -> bool:
    """Whether a supervisor of this user answers for the runs root now."""
    from mission_tui.ipc.sockets import OPERATOR_SOCKET, connect
    from mission_tui.paths import socket_dir

    try:
        connect(socket_dir(root) / OPERATOR_SOCKET, timeout_s=1.0).close()
    except OSError:
        return False
    return True


def pass_session(verb: Callable[Concatenate[Session, P], R]) -> Callable[P, R]:
    """The function of a verb with the session of the call as its first argument."""
    import click  # the screen has no verb, and comes up sooner without

    return click.make_pass_decorator(Session)(verb)
