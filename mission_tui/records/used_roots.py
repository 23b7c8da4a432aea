"""Which runs roots this user has used, and how many runs ended there since they looked: for whoever looks at another.

Two small files for each root in the user's state folder: its supervisor notes when runs ended, who looks notes when. Of
a root itself nothing is read; it only has to be there. All of it may be lost, and none of it is worth failing for.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from mission_tui.errors import MissionError
from mission_tui.fleet.text import clean
from mission_tui.paths import socket_dir, used_roots_dir
from mission_tui.plain_files import make_folder, read_given
from mission_tui.records.files.atomic import write_atomic

_ENDS, _SEEN = ".ends", ".seen"
MOST_ENDS = 20
MOST_READ = 8
"""The roots in which a run ended last."""
MOST_KEPT = 32
MOST_BYTES = 8192
OLD_S = 30 * 86400.0
"""Who has not looked for so long does not wait for it."""
PATIENCE_S = 0.25
"""A runs root on a file server that hangs keeps nobody waiting."""


class _Ends(Struct, frozen=True):
    """When (unix s) the newest runs ended at `root`, oldest first."""

    root: str
    ended: tuple[float, ...] = ()


class EndedElsewhere(NamedTuple):
    """`runs` ended at `root` since it was looked at; `more`: at least so many."""

    root: str
    runs: int
    more: bool = False

    @property
    def sentence(self) -> str:
        """For people, with what shows them."""
        runs = f"{self.runs}{' or more' if self.more else ''} run{'' if self.runs == 1 else 's'}"
        return f"{runs} ended elsewhere since you last looked: mission-tui --runs-dir {self.root}"


def note_ends(root: Path, ended: Iterable[float], environ: Mapping[str, str], since_t: float = 0.0) -> None:
    """Runs ended at `root` at these unix times; those before `since_t` count only where ends before it are noted.

    Blocks; raises nothing.
    """
    file = _file(root, environ)
    known = _read(file)
    noted = () if known is None else known.ended
    news = {t for t in ended if t > min((since_t, *noted))} - set(noted)
    if not news:
        return
    ends = sorted({*noted, *news})[-MOST_ENDS:]
    with suppress(OSError, MissionError):
        make_folder(file.parent)
        write_atomic(file, msgspec.json.encode(_Ends(str(root), tuple(ends))))
        for kind in (_ENDS, _SEEN):
            for old in _newest(file.parent, kind)[MOST_KEPT:]:
                old.unlink(missing_ok=True)


def note_look(root: Path, environ: Mapping[str, str]) -> None:
    """The user looks at `root` now, or has waited for what ended there. Raises nothing."""
    file = _file(root, environ).with_suffix(_SEEN)
    with suppress(OSError):
        make_folder(file.parent)
        file.touch(mode=0o600)


def ended_elsewhere(but: Path, environ: Mapping[str, str]) -> tuple[EndedElsewhere, ...]:
    """Roots other than `but` in which runs ended since they were looked at, as far as that is known in a moment."""
    found: list[EndedElsewhere] = []
    # As with a home folder that hangs: the thread may go on waiting, and nobody waits for it.
    looking = threading.Thread(target=_look, args=(found, socket_dir(but).name, environ), daemon=True)
    looking.start()
    looking.join(PATIENCE_S)
    return tuple(found)


def _look(found: list[EndedElsewhere], but: str, environ: Mapping[str, str]) -> None:
    since_t = time.time() - OLD_S
    for file in _newest(used_roots_dir(environ), _ENDS)[:MOST_READ]:
        known = _read(file) if file.stem != but else None
        if known is None or socket_dir(Path(known.root)).name != file.stem:
            continue
        seen_t = since_t
        with suppress(OSError):
            seen_t = max(seen_t, file.with_suffix(_SEEN).stat().st_mtime)
        ended = sum(t > seen_t for t in known.ended)
        if ended and clean(known.root, MOST_BYTES) == known.root and Path(known.root).is_dir():
            found.append(EndedElsewhere(known.root, ended, more=ended == MOST_ENDS))


def _newest(folder: Path, kind: str) -> list[Path]:
    """The files of one kind, the one written last first."""
    found: list[tuple[float, str]] = []
    with suppress(OSError), os.scandir(folder) as entries:
        plain = (it for it in entries if it.name.endswith(kind) and it.is_file(follow_symlinks=False))
        found.extend((entry.stat(follow_symlinks=False).st_mtime, entry.path) for entry in plain)
    return [Path(path) for _, path in sorted(found, reverse=True)]


def _file(root: Path, environ: Mapping[str, str]) -> Path:
    return used_roots_dir(environ) / f"{socket_dir(root).name}{_ENDS}"


def _read(file: Path) -> _Ends | None:
    try:
        return msgspec.json.decode(read_given(file, MOST_BYTES), type=_Ends)
    except (OSError, ValueError, RecursionError):
        return None
