"""The files of one attempt as typed values, and which directory of the file system (device and inode) a run is in.

`launch.json` says what the keeper is to start, `handle.json` to whom it was given, `identity.json` who it started,
`exit.json` how that ended. The keeper writes the last two without this module; `docs/run-directory.md` is their common
contract. `track-NAME.json` says how far a run was passed on to a tracker.

`spec.toml` is the frozen request of a run, written once and read by everyone after; an attempt that a resume changed
has one of its own. `terms.json` says on what terms an attempt goes on from its checkpoint, absent when all is as it
was.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
import tomli_w
from msgspec import Struct, field, structs

from mission_tui.errors import DamagedError
from mission_tui.fleet.process_limits import ProcessLimits
from mission_tui.fleet.ranges import Bytes, Count, Pid, PlainName, Seconds, UnixTime, Whole
from mission_tui.fleet.resume.verdict import AS_IT_WAS, Terms
from mission_tui.fleet.specs.preset import as_tables, from_tables
from mission_tui.fleet.specs.spec import Spec
from mission_tui.paths import sha256
from mission_tui.plain_files import Inode, inode_of, open_plain, read_plain, same_inode
from mission_tui.records.atomic import read_json, write_atomic, write_json
from mission_tui.records.given_files import LARGEST_BYTES, parse_toml, read_toml
from mission_tui.records.runs.layout import RunDir


class ProcessIdentity(Struct, frozen=True):
    """One process, told apart from a later one with its number: `start_time` in clock ticks after boot (field 22 of
    `/proc/PID/stat`), and the inode of its pidfd where the kernel gives every process its own (else None).
    """

    pid: Pid
    start_time: Count
    pidfd_inode: Count | None = None


class Identity(Struct, frozen=True, kw_only=True):
    """Who runs attempt `attempt`. Valid only while `boot_id` is the machine's; `started_t` in unix seconds."""

    boot_id: str
    uid: Count
    session: Count
    nonce: str
    attempt: Count
    keeper: ProcessIdentity
    trainer: ProcessIdentity
    started_t: UnixTime


class LeftProcess(Struct, frozen=True):
    """A process that did not die of SIGKILL: its state letter and the kernel function it waits in."""

    pid: Pid
    state: str
    wchan: str


class ExitRecord(Struct, frozen=True, kw_only=True):
    """How the attempt ended, as its keeper saw it; `docs/run-directory.md` explains every field.

    Exactly one of `code`, `signal` and `start_error` is set, or none when the trainer could not be ended (it is then in
    `left`). `asked` is "limit" where its engine warned of a time limit. `escalated`: a graceful end ran out of time and
    SIGKILL followed.
    """

    attempt: Count
    ended_t: UnixTime
    code: Whole | None = None
    signal: Whole | None = None
    asked: Literal["term", "quit", "limit"] | None = None
    escalated: bool = False
    swept: tuple[Pid, ...] = ()
    left: tuple[LeftProcess, ...] = ()
    unlinked: tuple[str, ...] = ()
    oom_killed: bool = False
    start_error: str | None = None
    peak_rss_bytes: Bytes | None = None
    last_output: str = ""


class Seal(Struct, frozen=True, kw_only=True):
    """Proof that this user's own program wrote an order on this machine: see `records.runs.seal`.

    `files` are the specs that the attempt is of, as SHA-256 by their path below the run directory; `place` is that
    directory. `mac` authenticates the whole document with `mac` itself taken as zeros.
    """

    run: str
    place: RecordedInode
    files: dict[str, str]
    mac: str


class LaunchOrder(Struct, frozen=True, kw_only=True):
    """What the keeper is to start: `env` is the trainer's whole environment, `grace_s` lies between TERM and KILL.

    Values of the variables that `withheld` names are secrets and are never written; the keeper hears them when it is
    started. `python` is the interpreter that was asked for, which a command need not begin with.

    Those of them that `from_file` names were in `run.env_file`, which is read again at each start.

    `gpu` (UUID) was chosen for the attempt and is all that its `CUDA_VISIBLE_DEVICES` names; `visible` is what that
    said before. `limits` (cores, niceness, `ulimit`s, umask) are set for the trainer alone; an order of an earlier
    version has none.

    The place in `seal` is the run directory that the order was written for: nobody carries it out in another one. Its
    name is not in the order: the keeper puts in its own for word number `run_dir_at` of `argv`, and completes the
    variables that name the run directory or a file in it, which are relative to it here.

    With `preload` keeper and trainer may be forked off a process that has loaded their libraries already.
    """

    run: str
    attempt: Count
    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str] = field(default_factory=dict)
    nonce: str
    grace_s: Seconds = 30.0
    output_cap_bytes: Bytes = 64 << 20
    python: str = ""
    withheld: tuple[str, ...] = ()
    from_file: tuple[str, ...] = ()
    gpu: str = ""
    visible: str | None = None
    limits: ProcessLimits | None = None
    seal: Seal | None = None
    run_dir_at: int | None = None
    preload: bool = True


class Handle(Struct, frozen=True, kw_only=True):
    """To which launcher the attempt was given, and what that calls it: enough for a later supervisor to find it again.

    `id` means something to that launcher alone: the number of a keeper's process, or of an engine's job. `preloaded`:
    whether its processes were forked off one that had loaded their libraries; `cold` says why they were not. `address`
    is where the engine is asked, if it has one. `pack` names the job that it shares with other runs, if it does.
    """

    launcher: str
    id: str
    node: str = ""
    submitted_t: UnixTime
    preloaded: bool = False
    cold: str = ""
    address: str = ""
    pack: PlainName = ""


def read_handle(path: Path) -> Handle | None:
    """The handle in `path`, None if it does not exist. Raises `DamagedError`."""
    return read_json(path, Handle)


def read_identity(path: Path) -> Identity | None:
    """The identity in `path`, None if it does not exist (yet). Raises `DamagedError`."""
    return read_json(path, Identity)


def read_exit(path: Path) -> ExitRecord | None:
    """The exit record in `path`, None if the attempt has not ended under its keeper. Raises `DamagedError`."""
    return read_json(path, ExitRecord)


def read_launch(path: Path) -> LaunchOrder | None:
    """The order in `path`, None if it does not exist. Raises `DamagedError`."""
    return read_json(path, LaunchOrder)


def launch_document(order: LaunchOrder) -> bytes:
    """`order` as it is written down: without the values of its secrets."""
    said = {name: value for name, value in order.env.items() if name not in order.withheld}
    return msgspec.json.format(msgspec.json.encode(structs.replace(order, env=said)), indent=2) + b"\n"


class RecordedInode(Struct, frozen=True):
    """A directory or file: `device` (`st_dev`) or `filesystem` (`f_fsid`, 0 if it has none), inode, and the inode's
    generation, which is None where the file system has none.
    """

    device: int
    inode: int
    generation: int | None = None
    filesystem: int = 0


def place_of(path: Path | int) -> RecordedInode:
    """The place of `path`, or of an open descriptor. A link is not followed, nothing blocks. Raises `OSError`."""
    found = inode_of(path)
    return RecordedInode(found.device, found.inode, found.generation, found.filesystem)


def same_place(one: RecordedInode, other: RecordedInode) -> bool:
    """Whether both are the same directory or file, also after a reboot that numbered the devices anew."""
    return same_inode(_inode(one), _inode(other))


def _inode(place: RecordedInode) -> Inode:
    return Inode(place.device, place.filesystem, place.inode, place.generation)


def lease_is_held(path: Path) -> bool:
    """Whether anybody of a run holds its lease, the file `path`: a keeper that was killed writes no exit record."""
    try:
        with os.fdopen(open_plain(path)[0], "rb") as lease:
            fcntl.flock(lease, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


class TrackState(Struct, omit_defaults=True):
    """Lines up to `seq` of the metrics and `event` of the events have arrived at `where`, where the run is `handle`.

    `online`: not on this machine alone. `complete`: its newest attempt has ended and all of it is there. `trouble` is
    why nothing arrives now, empty while it does. `played` are the files of `evaluate` that have arrived.
    """

    tracker: str
    seq: int = 0
    event: int = 0
    handle: str = ""
    where: str = ""
    online: bool = False
    complete: bool = False
    trouble: str = ""
    played: tuple[str, ...] = ()


SPECS = "MISSION_TUI_SPECS"
"""The variable in which a process is told the SHA-256 of each spec that its order, which was sealed, is of."""


def write_spec(path: Path, spec: Spec) -> None:
    """Make `path` hold `spec`, atomically."""
    write_atomic(path, spec_document(spec))


def spec_document(spec: Spec) -> bytes:
    """`spec` as it is written down. Fields that are None are left out, because TOML has no null."""
    return tomli_w.dumps(as_tables(spec)).encode()


def read_spec(path: Path) -> Spec:
    """The spec at `path`. Raises `DamagedError` when it is no TOML, `PresetError` when a field does not fit."""
    return from_tables(read_toml(path, DamagedError), str(path))


def parse_spec(raw: bytes, path: Path) -> Spec:
    """The spec that was read from `path`. Raises as `read_spec` does."""
    return from_tables(parse_toml(raw, path, DamagedError), str(path))


def attempt_spec_file(run: RunDir, attempt: int) -> Path:
    """The file that holds the spec of `attempt`: its own where a resume changed something, else the run's."""
    own = run.attempt(attempt).spec
    return own if own.is_file() else run.spec


def read_sealed_spec(run: RunDir, attempt: int, environ: Mapping[str, str]) -> Spec:
    """What `attempt` trains with, if it is what `MISSION_TUI_SPECS` tells this process; without that as it stands.

    Raises as `read_spec` does, and `DamagedError` for another one: between the check of a seal and the start of a
    process somebody who may rename a folder above can have put another runs root in the place of ours.
    """
    path, told = attempt_spec_file(run, attempt), environ.get(SPECS)
    if told is None:
        return read_spec(path)
    try:
        raw = read_plain(path, LARGEST_BYTES)
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror or error}") from error
    if sha256(raw).hexdigest() != json.loads(told).get(str(path.relative_to(run.path))):
        raise DamagedError(f"{path} is not the spec that was sealed: nothing of it is started")
    return parse_spec(raw, path)


def read_attempt_spec(run: RunDir, attempt: int) -> Spec:
    """What `attempt` trains with. Raises as `read_spec` does."""
    return read_spec(attempt_spec_file(run, attempt))


def read_terms(path: Path) -> Terms:
    """The terms in `path`. Raises `DamagedError` for a file that holds something else."""
    return read_json(path, Terms) or AS_IT_WAS


def write_terms(path: Path, terms: Terms) -> None:
    """Write `terms` unless they change nothing. Raises `StorageError`."""
    if terms != AS_IT_WAS:
        write_json(path, terms)
