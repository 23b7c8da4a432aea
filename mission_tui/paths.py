"""Where things live: the runs root, the socket folder of a runs root, the folders that hold presets, health and limits
files.

Standard library only. Nothing here creates a directory.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from mission_tui.errors import UsageError

# As in the standard library's `random`: `hashlib` loads OpenSSL, for which every process of ours would wait.
try:
    from _sha2 import sha256 as sha256  # type: ignore[import-not-found]  # Python 3.12 and newer
except ImportError:
    try:
        from _sha256 import sha256 as sha256  # type: ignore[import-not-found]  # Python 3.11
    except ImportError:
        from hashlib import sha256 as sha256


_SHOWN_CHARACTERS = 80
SERVED = "MISSION_TUI_SERVED"
"""In the environment of a screen that `serve` shows to onlookers: it leaves nothing of theirs on this machine."""
STOPPED = "stopped"
"""In the supervisor's folder: it ended because somebody asked it to, and screens that are open leave it at that."""
LINGER = Path("/var/lib/systemd/linger")
"""Where systemd notes whose services stay without a login."""


def runs_root(explicit: str | None, cwd: Path, environ: Mapping[str, str]) -> Path:
    """The absolute runs root: `--runs-dir`, `MISSION_TUI_RUNS`, `./runs` beside presets or with runs, else XDG state.

    A `./runs` of nothing but other programs' files is passed over. Raises `UsageError` for a path that can lead
    nowhere. One that is not there yet is taken.
    """
    if chosen := explicit or environ.get("MISSION_TUI_RUNS"):
        return _leading_somewhere(cwd, chosen)
    if ((cwd / "presets").is_dir() or (cwd / "runs").is_dir()) and not _is_of_others(cwd / "runs"):
        return _leading_somewhere(cwd, "runs")
    return _state_dir(environ) / "runs"


def _is_of_others(folder: Path) -> bool:
    """Whether something lies in `folder`, and nothing that mission-tui puts into a runs root.

    TensorBoard's writer puts its logs into `./runs`, and CleanRL's scripts do.
    """
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return False
    lies = any(not name.startswith(".") and name != "lost+found" for name in names)
    return lies and not any(map(_is_of_runs_root, names))


def _is_of_runs_root(name: str) -> bool:
    """Whether it is the supervisor's folder or that of a run (20261121-104207-NAME-0f3a); `re` is not loaded for it."""
    return name in (".supervisor", ".trash") or (name[:8].isdigit() and name[8:9] == "-" and name[9:15].isdigit())


def _leading_somewhere(cwd: Path, chosen: str) -> Path:
    try:
        root = (cwd / Path(chosen).expanduser()).resolve()
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            root.stat()
    except (OSError, RuntimeError) as error:
        # A loop of links is a RuntimeError of `resolve` up to Python 3.12, as an unknown ~user is of `expanduser`.
        why = error.strerror if isinstance(error, OSError) else str(error).rstrip(".")
        shown = chosen if len(chosen) <= _SHOWN_CHARACTERS else f"{chosen[:_SHOWN_CHARACTERS]}..."
        raise UsageError(f"the runs root cannot be {shown}: {why}; name another folder with --runs-dir") from error
    return root


def lent_dir(environ: Mapping[str, str], packages: str) -> Path:
    """The folder from which the packages that `packages` describes are lent to Pythons that lack them."""
    digest: str = sha256(os.fsencode(packages)).hexdigest()[:12]
    return _state_dir(environ) / "lent" / digest


def preferences_path(environ: Mapping[str, str]) -> Path:
    """The file of what this user chose about the look of the screen."""
    return _state_dir(environ) / "screen.json"


def used_roots_dir(environ: Mapping[str, str]) -> Path:
    """The folder in which is noted when runs ended at which runs root, and when this user looked at it."""
    return _state_dir(environ) / "roots"


def seal_keys(environ: Mapping[str, str]) -> tuple[Path, Path]:
    """Where the secret lies that seals what this user launches on this machine: the user's state folder, or where that
    cannot be written the private folder of sockets, which does not outlive the boot.
    """
    return _state_dir(environ) / "seal.key", socket_dir(Path("/")).parent / "seal.key"


def socket_dir(root: Path) -> Path:
    """The folder of a runs root's sockets: short (107-byte limit of Unix sockets) and not removed at logout."""
    digest: str = sha256(os.fsencode(root.resolve())).hexdigest()[:12]
    return Path("/tmp") / f"mission-tui-{os.getuid()}" / digest  # noqa: S108 - 0700 and owner-checked by ipc


def shipped_presets() -> Path:
    """The presets that come with the package: inside an installed wheel, else those of the checkout."""
    package = Path(__file__).resolve().parent
    packaged = package / "presets"
    return packaged if packaged.is_dir() else package.parent / "presets"


def preset_dirs(cwd: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Folders searched for presets, first wins: `./presets`, the user's XDG folder, the shipped ones."""
    return (cwd / "presets", user_presets(environ), shipped_presets())


def preset_origin(folder: Path, environ: Mapping[str, str]) -> Literal["yours", "shipped", "here"]:
    """Whose the presets in `folder` are: the user's own, the shipped ones, or those of whoever made the folder.

    `./presets` of a checkout of this project is the shipped folder, and so is a link to it.
    """
    there = folder.resolve()
    if there == shipped_presets().resolve():
        return "shipped"
    return "yours" if there == user_presets(environ).resolve() else "here"


def user_presets(environ: Mapping[str, str]) -> Path:
    """The user's own folder of presets."""
    return _config_dir(environ) / "presets"


def health_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files that hold the limits of health rules, nearest first: the user's own, and the shipped one."""
    return (_config_dir(environ) / "health.toml", Path(__file__).resolve().parent / "health.toml")


def clusters_file(environ: Mapping[str, str]) -> Path:
    """The file of what this user asks of Slurm and Ray wherever a preset does not say otherwise."""
    return _config_dir(environ) / "clusters.toml"


def limits_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files that limit what runs take of the machine: the user's own, and the administrator's."""
    return (_config_dir(environ) / "limits.toml", Path("/etc/mission-tui/limits.toml"))


def hosts_file(environ: Mapping[str, str]) -> Path:
    """The file in which this user gives other machines names."""
    return _config_dir(environ) / "hosts.toml"


def profile_dir(environ: Mapping[str, str]) -> Path:
    """The folder of host profiles: what was found to be fastest on this user's machines."""
    return _config_dir(environ) / "profiles"


def lingers() -> bool:
    """Whether systemd keeps this user's services after the last logout."""
    try:
        return (LINGER / pwd.getpwuid(os.getuid()).pw_name).exists()
    except KeyError:
        return False


def _state_dir(environ: Mapping[str, str]) -> Path:
    state = environ.get("XDG_STATE_HOME") or str(home_dir(environ) / ".local" / "state")
    return Path(state) / "mission-tui"


def _config_dir(environ: Mapping[str, str]) -> Path:
    config = environ.get("XDG_CONFIG_HOME") or str(home_dir(environ) / ".config")
    return Path(config) / "mission-tui"


def home_dir(environ: Mapping[str, str]) -> Path:
    """The user's home; by the user database where HOME is unset, or is one that this user may not enter (`sudo -u`)."""
    home = environ.get("HOME")
    if home and _enterable(home):
        return Path(home)
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # a user id without a name, as containers have
        return Path(home or "/")


def _enterable(folder: str) -> bool:
    """Whether it is this user's to enter, or is not there."""
    try:
        Path(folder, ".").stat()
    except PermissionError:
        return False
    except OSError:
        return True
    return os.access(folder, os.X_OK)
