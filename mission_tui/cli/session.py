"""What every verb gets: the runs root, the folder and variables of the call, and the connection to the supervisor."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, TypeVar

from mission_tui.errors import UsageError, nearest
from mission_tui.paths import health_files, preset_dirs, profile_dir, runs_root, socket_dir

if TYPE_CHECKING:
    from mission_tui.fleet.specs.health_file import HealthFile
    from mission_tui.ipc.client import Connection
    from mission_tui.ipc.client_environment import Origin


P = ParamSpec("P")
R = TypeVar("R")


class Session(NamedTuple):
    """One call of the command line; a `readonly` one reads files and asks no supervisor."""

    root: Path
    cwd: Path
    environ: Mapping[str, str]
    readonly: bool = False
    received: bool = False
    """The runs root was only found in the working folder, and nothing shows that this user made it."""

    @classmethod
    def begin(cls, runs_dir: str | None, *, readonly: bool = False) -> Session:
        """The session of this process: `--runs-dir` if given, else what `paths.runs_root` says.

        Raises `UsageError` where the current folder is gone.
        """
        try:
            cwd = Path.cwd()
        except OSError as error:
            raise UsageError(f"the current folder no longer exists ({error.strerror}): `cd` to another one") from error
        root = runs_root(runs_dir, cwd, os.environ)
        found = not runs_dir and not os.environ.get("MISSION_TUI_RUNS") and root == Path(os.path.realpath("runs"))
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

    @property
    def origin(self) -> Origin:
        """Folder, Python, variables and limits of this call, as requests that launch something carry them."""
        from mission_tui.ipc.client_environment import origin_of

        return origin_of(self.cwd, self.environ)

    def connect(self, *, start: bool = True) -> Connection:
        """A connection to the supervisor of this runs root, started if there is none and `start` is true.

        A read-only session connects to a short process that reads the files. Raises `UsageError`, before anything is
        started, for a runs root that cannot be written or read, and `NoSupervisorError` when nothing answers.
        """
        from mission_tui.ipc.client import Connection

        if self.readonly:
            return Connection.connect_readonly(self.root)
        if self.received and start:
            raise UsageError(f"{self.what_was_received}; --runs-dir {self.root} uses it anyway, or give another folder")
        if start:
            self.require_writable_root()
        return Connection.connect(self.root, start=start)

    @property
    def whose_it_is(self) -> str:
        """What a superuser is told whose supervisor would keep out the user whose runs root this is; mostly empty."""
        if os.getuid() != 0:
            return ""
        from mission_tui.records.runs_roots import owner_beside_superuser

        owner = owner_beside_superuser(self.root)
        if not owner or self.is_supervised:
            return ""
        return (
            f"{self.root} is the runs root of {owner}, and you are root: what begins here is root's, and {owner} "
            f"cannot use it until `supervisor stop`; `sudo -u {owner} mission-tui ...` does it as they would"
        )

    @property
    def is_supervised(self) -> bool:
        """Whether a supervisor of this user answers for the runs root now."""
        return _is_supervised(self.root)

    @property
    def what_was_received(self) -> str:
        """Why a received runs root is shown read-only."""
        from mission_tui.records.runs.seal import Seals

        try:
            Seals.of(self.environ, make=False)
        except UsageError as error:
            return f"cannot check whether the runs root {self.root} is yours, so it is shown read-only: {error}"
        return (
            f"the runs root {self.root} does not carry your seal (it came with this folder, is a copy, or is from an "
            "earlier version), so it is shown read-only; `mission-tui adopt --all` lists what its runs would execute"
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

    def require_root(self) -> None:
        """Raise `UsageError` where there is no such folder: looking into a mistyped one must not make it."""
        if self.root.exists():
            return
        self.require_writable_root()
        try:
            beside = [it.name for it in self.root.parent.iterdir() if it.is_dir()]
        except OSError:
            beside = []
        close = nearest(self.root.name, beside) or "; the first launch makes it"
        raise UsageError(f"--runs-dir {self.root}: there is no such folder{close}")

    def require_writable_root(self) -> None:
        """Raise `UsageError` unless the runs root, or the nearest folder above it that exists, can be written.

        So it does when others may write there too.
        """
        from mission_tui.records.runs_roots import check_private

        ground = self.root
        while not ground.exists() and ground != ground.parent:
            ground = ground.parent
        # A disk that became read-only under a supervisor: it knows the runs that live, and can end them.
        if not (ground.is_dir() and os.access(ground, os.W_OK | os.X_OK)) and not self.is_supervised:
            readable = ground == self.root and ground.is_dir() and os.access(ground, os.R_OK | os.X_OK)
            look = "; to look at its runs put --readonly before the verb" if readable else ""
            raise UsageError(
                f"runs root {self.root} cannot be written ({ground} is not a writable folder): "
                f"give another with --runs-dir or MISSION_TUI_RUNS{look}"
            )
        check_private(self.root)


def _is_received(root: Path, environ: Mapping[str, str]) -> bool:
    """Whether something lies in `root` and nothing says that this user put it there: no seal, no supervisor."""
    from mission_tui.records.runs.seal import Seals, has_runs

    if not has_runs(root):
        return False
    with suppress(UsageError):  # a secret that cannot be used proves nothing; a verb that acts reports it
        if Seals.of(environ, make=False).owns_root(root):
            return False
    return not _is_supervised(root)


def _is_supervised(root: Path) -> bool:
    """Whether a supervisor of this user answers for the runs root now."""
    from mission_tui.ipc.sockets import OPERATOR_SOCKET, connect

    try:
        connect(socket_dir(root) / OPERATOR_SOCKET, timeout_s=1.0).close()
    except OSError:
        return False
    return True


def pass_session(verb: Callable[Concatenate[Session, P], R]) -> Callable[P, R]:
    """The function of a verb with the session of the call as its first argument."""
    import click  # the screen has no verb, and comes up sooner without

    return click.make_pass_decorator(Session)(verb)
