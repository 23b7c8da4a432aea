"""What may be on a disk after a power cut: only what was synced for certain, of the rest any beginning.

A scene is recorded call by call; at each call, states are built from names that were synced with their folder, some of
the later changes of names in order, and files with either what was synced or what was written.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["TRACED", "Disk", "calls"]

TRACED = (
    "openat", "write", "writev", "sendfile", "fsync", "fdatasync", "ftruncate", "rename", "renameat", "renameat2",
    "mkdir", "mkdirat", "unlink", "unlinkat", "rmdir",
)  # fmt: skip
CALL = re.compile(r"^(\w+)\((.*)\) += (\d+)(?:<.*>)?$")
ARGUMENT = re.compile(r'(?:AT_FDCWD|\d+)<([^>]*)>|"([^"]*)"|([^,\s"<>]+)')
ESCAPE = re.compile(r"\\x([0-9a-f]{2})")


@dataclass(slots=True)
class _File:
    """Bytes as synced and as written; a folder has neither."""

    is_folder: bool = False
    synced: bytes = b""
    written: bytes = b""


@dataclass(slots=True)
class Disk:
    """Names and files below `root`, both as synced and as they are."""

    root: Path
    now: dict[str, _File] = field(default_factory=dict)
    synced: dict[str, _File] = field(default_factory=dict)
    pending: list[tuple[str, ...]] = field(default_factory=list)
    made: dict[int, _File] = field(default_factory=dict)
    said: int = 0

    @classmethod
    def of(cls, root: Path) -> Disk:
        """What lies in `root`, all of it synced."""
        disk = cls(root)
        for path in sorted(root.rglob("*")):
            data = b"" if path.is_dir() else path.read_bytes()
            disk.now[str(path)] = disk.synced[str(path)] = _File(path.is_dir(), data, data)
        return disk

    def take(self, call: str, arguments: list[str], count: int) -> None:
        """One call that succeeded."""
        match call:
            case "openat" if self._path(arguments) in self.now and "O_TRUNC" in arguments[2]:
                self.now[self._path(arguments)].written = b""
            case "openat" if self._path(arguments) not in self.now and "O_CREAT" in arguments[2]:
                self._make(self._path(arguments), is_folder=False)
            case "mkdir":
                self._make(arguments[0], is_folder=True)
            case "mkdirat":
                self._make(self._path(arguments), is_folder=True)
            case "write" if arguments[0] in self.now:
                self.now[arguments[0]].written += arguments[1].encode("latin-1")[:count]
            case "sendfile" if arguments[0] in self.now:
                self.now[arguments[0]].written += Path(arguments[1]).read_bytes()[:count]
            case "writev":
                self.said += 1
            case "ftruncate" if arguments[0] in self.now:
                self.now[arguments[0]].written = self.now[arguments[0]].written[: int(arguments[1])]
            case "fsync" | "fdatasync":
                self._sync(arguments[0])
            case "rename":
                self._change("rename", arguments[0], arguments[1])
            case "renameat":
                self._change("rename", self._path(arguments[:2]), self._path(arguments[2:]))
            case "renameat2":
                self._change("exchange", arguments[1], arguments[3])
            case "unlink" | "rmdir":
                self._change("unlink", arguments[0])
            case "unlinkat":
                self._change("unlink", self._path(arguments))

    def states(self) -> Iterator[dict[str, bytes | None]]:
        """What may be found after a cut now: path to bytes, None for a folder."""
        names = dict(self.synced)
        for upto in range(len(self.pending) + 1):
            if upto:
                _apply(names, self.pending[upto - 1], self.made)
            for kept in ("synced", "written"):
                yield {
                    path: None if file.is_folder else getattr(file, kept)
                    for path, file in sorted(names.items())
                    if str(Path(path).parent) in names or Path(path).parent == self.root
                }

    def lay_out(self, state: dict[str, bytes | None]) -> None:
        """Put a state on the real disk, in place of what is there."""
        shutil.rmtree(self.root)
        self.root.mkdir()
        for path, data in state.items():
            if data is None:
                Path(path).mkdir()
            else:
                Path(path).write_bytes(data)

    def _path(self, arguments: list[str]) -> str:
        return str(Path(arguments[0]) / arguments[1])

    def _make(self, path: str, *, is_folder: bool) -> None:
        if Path(path).is_relative_to(self.root):
            number = len(self.made)
            self.made[number] = _File(is_folder)
            self._change("link", path, str(number))

    def _change(self, *change: str) -> None:
        if Path(change[1]).is_relative_to(self.root):
            self.pending.append(change)
            _apply(self.now, change, self.made)

    def _sync(self, path: str) -> None:
        if path in self.now and not self.now[path].is_folder:
            self.now[path].synced = self.now[path].written
            return
        # A folder's sync makes its names durable; a journal keeps their order, so all earlier changes go with them.
        last = max(
            (n for n, it in enumerate(self.pending) if path in {str(Path(p).parent) for p in it[1:]}), default=-1
        )
        for change in self.pending[: last + 1]:
            _apply(self.synced, change, self.made)
        del self.pending[: last + 1]


def calls(log: str) -> Iterator[tuple[str, list[str], int]]:
    """The calls in what `strace -y -xx` wrote: name, arguments as text (bytes as latin-1), result."""
    for line in log.splitlines():
        if found := CALL.match(line):
            arguments = [
                ESCAPE.sub(lambda it: chr(int(it[1], 16)), next(part for part in groups if part is not None))
                for it in ARGUMENT.finditer(found[2])
                if (groups := it.groups())
            ]
            yield found[1], arguments, int(found[3])


def _apply(names: dict[str, _File], change: tuple[str, ...], made: dict[int, _File]) -> None:
    match change:
        case ("link", path, number):
            names[path] = made[int(number)]
        case ("unlink", path):
            names.pop(path, None)
        case ("rename", source, target):
            moved = _below(names, source)
            for path in (*_below(names, target), *moved):
                names.pop(path, None)
            names.update({target + path[len(source) :]: file for path, file in moved.items()})
        case ("exchange", one, other):
            first, second = _below(names, one), _below(names, other)
            for path in (*first, *second):
                names.pop(path)
            names.update({other + path[len(one) :]: file for path, file in first.items()})
            names.update({one + path[len(other) :]: file for path, file in second.items()})


def _below(names: dict[str, _File], top: str) -> dict[str, _File]:
    return {path: file for path, file in names.items() if path == top or path.startswith(f"{top}/")}
