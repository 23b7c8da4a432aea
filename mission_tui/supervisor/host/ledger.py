"""The ledger of what all supervisors of this host have reserved: a small file each, where every user can reach it.

Only its owner can write a file, so nobody can change or remove what another user has reserved. A file counts while the
process that it names lives, on this boot, and belongs to the file's owner. One lock makes reading all and writing one's
own a single step; it is waited for briefly and never needed: who cannot have it, or the folder, goes on alone, and says
so. `OtherSupervisors` does the exchange off the event loop, with what launches here are about to reserve.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import pwd
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from mission_tui.fleet.capacity.demand import Claim, Reservations, Reserved
from mission_tui.procfs import boot_id, read_stat
from mission_tui.records.atomic import write_all

FOLDERS = (Path("/dev/shm"), Path("/run/lock"), Path("/tmp"))  # noqa: S108 - sticky, as the checks below demand
PREFIX = "mission-tui-claims-"
LOCK = "mission-tui-claims.lock"
LOCK_S = 0.5
LOOK_S = 0.01
MOST_FILES = 256
MOST_BYTES = 1 << 16
TORN_S = 60.0
"""Until a file of ours that holds nothing readable is taken for what a kill left."""

_DECODER = msgspec.json.Decoder(Reservations)


def ledger_folder(environ: Mapping[str, str]) -> Path | None:
    """`MISSION_TUI_LEDGER`, where `off` is none; else the first folder where users cannot remove each other's files."""
    chosen = environ.get("MISSION_TUI_LEDGER", "")
    if chosen:
        return None if chosen == "off" else Path(chosen)
    return next((folder for folder in FOLDERS if _unfit(folder) is None), FOLDERS[0])


class Ledger:
    """One per supervisor; its methods may wait and belong in a thread. `note` says why it is alone, if it is."""

    def __init__(self, folder: Path | None) -> None:
        self.note = "" if folder is not None else "MISSION_TUI_LEDGER is off"
        self._folder = folder
        self._me = os.getuid()
        self._boot = boot_id()
        own = read_stat(os.getpid())
        self._start_time = own.start_time if own is not None else 0
        # Drawn anew by every process: a name that could be foretold could be taken by somebody else.
        self._name = f"{PREFIX}{self._me}-{os.urandom(8).hex()}"
        self._written: tuple[tuple[Claim, ...], int] | None = None

    def enter(self) -> int | None:
        """The lock, to be given to `leave`; None when it cannot be had within half a second."""
        if self._folder is None:
            return None
        self.note = _unfit(self._folder) or ""
        if self.note:
            return None
        deadline = time.monotonic() + LOCK_S
        path = self._folder / LOCK
        while time.monotonic() < deadline:
            try:
                descriptor = _open_lock(path)
            except OSError as error:
                self.note = f"{path} cannot be used: {error.strerror or error}"
                return None
            if _locks(descriptor, path):
                return descriptor
            os.close(descriptor)
            time.sleep(LOOK_S)
        self.note = f"somebody has held {path} for {LOCK_S:g} s"
        return None

    def read(self, *, locked: bool) -> tuple[Reserved, ...]:
        """What the other living supervisors have reserved. Under the lock, files of our dead ones are removed.

        A process is one supervisor: of several files that name it, the last one written counts.
        """
        found: dict[int, tuple[float, Reserved]] = {}
        for path in self._files():
            said, owner, age_s = self._said(path)
            if said is not None and self._lives(said, owner):
                known = found.get(said.pid)
                if known is None or age_s < known[0]:
                    trusted, own = owner in (self._me, 0), owner == self._me
                    found[said.pid] = (age_s, Reserved(_name_of(owner), trusted, said.claims, own))
            elif locked and owner == self._me and (said is not None or age_s > TORN_S):
                with suppress(OSError):
                    path.unlink()
        return tuple(reserved for _, reserved in found.values())

    def write(self, claims: tuple[Claim, ...]) -> None:
        """Have the others know of `claims`; without any there is no file. What is there is not written again."""
        if not claims:
            self.close()
            self._written = None
        if self._folder is None or not claims or self._is_written(claims):
            return
        own = Reservations(boot_id=self._boot, pid=os.getpid(), start_time=self._start_time, claims=claims)
        path = self._folder / self._name
        temporary = path.with_name(f"{path.name}.tmp")
        try:
            with suppress(FileNotFoundError):
                temporary.unlink()
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            try:
                # It is meant for all users: numbers of a process, of cores and of bytes are in it, and nothing else.
                os.fchmod(descriptor, 0o644)
                write_all(descriptor, msgspec.json.encode(own))
                inode = os.fstat(descriptor).st_ino
            finally:
                os.close(descriptor)
            temporary.replace(path)
            self._written = (claims, inode)
        except OSError as error:
            self._written = None
            self.note = f"{self._folder} cannot be written: {error.strerror or error}"
            with suppress(OSError):
                temporary.unlink()

    def leave(self, lock: int | None) -> None:
        """Let go of the lock."""
        if lock is not None:
            os.close(lock)

    def close(self) -> None:
        """Take back everything: this process leaves."""
        if self._folder is not None:
            with suppress(OSError):
                (self._folder / self._name).unlink()

    def _is_written(self, claims: tuple[Claim, ...]) -> bool:
        assert self._folder is not None
        if self._written is None or self._written[0] != claims:
            return False
        with suppress(OSError):
            return (self._folder / self._name).lstat().st_ino == self._written[1]
        return False

    def _files(self) -> Iterator[Path]:
        """The files of other supervisors, at most so many, of which as many of each user as of any other: a user who
        fills the folder hides no other's. Ours come first.
        """
        if self._folder is None:
            return
        by_owner: dict[int, list[str]] = {}
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if (owner := _owner_of(entry)) is not None:
                        by_owner.setdefault(owner, []).append(entry.name)
        except OSError as error:
            self.note = f"{self._folder} cannot be read: {error.strerror or error}"
            return
        places = (
            (owner != self._me, place, name) for owner, names in by_owner.items() for place, name in enumerate(names)
        )
        turns = sorted(places)
        if len(turns) > MOST_FILES:
            most = max(by_owner, key=lambda owner: len(by_owner[owner]))
            whose = f"{len(by_owner[most]):,} of them by {_name_of(most)}"
            self.note = f"{self._folder} holds {len(turns):,} files of reservations, {whose}; {MOST_FILES} were read"
        for _, _, name in turns[:MOST_FILES]:
            if name not in (self._name, f"{self._name}.tmp"):
                yield self._folder / name

    def _said(self, path: Path) -> tuple[Reservations | None, int, float]:
        """What a file says (None: nothing that counts), whose it is (-1: cannot be told), and its age in seconds."""
        owner, age_s = -1, 0.0
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None, owner, age_s
        try:
            facts = os.fstat(descriptor)
            owner, age_s = facts.st_uid, time.time() - facts.st_mtime
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > MOST_BYTES or facts.st_nlink != 1:
                return None, owner, age_s
            return _DECODER.decode(os.read(descriptor, MOST_BYTES)), owner, age_s
        except (OSError, ValueError, RecursionError):
            return None, owner, age_s
        finally:
            os.close(descriptor)

    def _lives(self, said: Reservations, owner: int) -> bool:
        """Whether the named process lives and is the file owner's: nobody reserves in the name of another."""
        if said.boot_id != self._boot:
            return False
        with suppress(OSError, ValueError):
            process = read_stat(said.pid)
            there = process is not None and process.start_time == said.start_time and process.state not in "ZX"
            return there and Path(f"/proc/{said.pid}").stat().st_uid == owner
        return False


def _owner_of(entry: os.DirEntry[str]) -> int | None:
    """Whose file of reservations the entry is; None for one that is none, also for one that has another user's name."""
    if not entry.name.startswith(PREFIX):
        return None
    with suppress(OSError):
        owner = entry.stat(follow_symlinks=False).st_uid
        if entry.name.startswith(f"{PREFIX}{owner}-"):
            return owner
    return None


def _open_lock(path: Path) -> int:
    """The lock file, which any user may have made, so that it is only read. Raises `OSError` for what is none."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        with suppress(FileExistsError):
            made = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o444)
            os.fchmod(made, 0o444)
            return made
        descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a plain file")
    return descriptor


def _locks(descriptor: int, path: Path) -> bool:
    """Whether the lock is ours now, and still the one at `path`."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return path.lstat().st_ino == os.fstat(descriptor).st_ino
    return False


def _unfit(folder: Path) -> str | None:
    """Why files in `folder` would not be safe from other users; None when they are."""
    try:
        facts = folder.lstat()
    except OSError as error:
        return f"{folder} cannot be used: {error.strerror or error}"
    if not stat.S_ISDIR(facts.st_mode):
        return f"{folder} cannot be used: it is not a folder"
    if facts.st_uid not in (0, os.getuid()):
        return f"{folder} cannot be used: it belongs to user {facts.st_uid}"
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not facts.st_mode & stat.S_ISVTX:
        return f"{folder} cannot be used: others may remove files there"
    return None


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


log = logging.getLogger(__name__)

Own = Callable[[], tuple[Claim, ...]]


class OtherSupervisors:
    """`others` as they were read last; without a run here that may be long ago.

    `pending` are claims of launches that are being checked and have no run yet.
    """

    def __init__(self, folder: Path | None) -> None:
        self.others: tuple[Reserved, ...] = ()
        self.pending: dict[object, tuple[Claim, ...]] = {}
        self._ledger = Ledger(folder)
        self._turn = asyncio.Lock()
        self._exchanging: asyncio.Task[None] | None = None
        self._told: tuple[Claim, ...] = ()
        self._said = ""

    @property
    def note(self) -> str:
        """Why nobody else's reservations are known; empty when they are."""
        return self._ledger.note

    def poll(self, own: Own, *, busy: bool) -> None:
        """Now and then exchange claims, if there are any here or were a moment ago."""
        idle = self._exchanging is None or self._exchanging.done()
        if idle and (busy or self._told):
            self._exchanging = asyncio.create_task(self._exchange(own), name="claims")

    @asynccontextmanager
    async def exclusive(self, own: Own) -> AsyncIterator[None]:
        """`others` are fresh, and nobody else reserves while the context lasts, if the lock could be had.

        At its end, unless by an error, `own()` is written.
        """
        async with self._turn:
            lock = await self._entered()
            try:
                self.others = await asyncio.to_thread(partial(self._ledger.read, locked=lock is not None))
                yield
                self._told = own()
                await asyncio.to_thread(self._ledger.write, self._told)
            finally:
                self._ledger.leave(lock)
                self._say()

    def close(self) -> None:
        """This supervisor leaves; its runs are no longer spoken for until the next one comes."""
        self._ledger.close()

    async def _exchange(self, own: Own) -> None:
        async with self.exclusive(own):
            pass

    async def _entered(self) -> int | None:
        """The lock; let go of again if nobody waits for it any more."""
        entering = asyncio.ensure_future(asyncio.to_thread(self._ledger.enter))
        try:
            return await asyncio.shield(entering)
        except asyncio.CancelledError:
            entering.add_done_callback(self._leave_unused)
            raise

    def _leave_unused(self, entered: asyncio.Future[int | None]) -> None:
        # At the end of the program even this is cancelled; the lock goes with the process then.
        if not entered.cancelled():
            self._ledger.leave(entered.result())

    def _say(self) -> None:
        if self.note != self._said:
            self._said = self.note
            log.warning("reservations of other supervisors: %s", self.note or "known again")
