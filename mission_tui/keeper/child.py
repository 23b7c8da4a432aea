"""How a trainer is started: the order is read, the run's lease is taken, and one process is started with clean
signals and the limits of the launching shell.

Two trainers of one run cannot live at once: the lease is a file lock that keeper and trainer share until both are gone.
An order is carried out in the run directory that it was written for and in no other, whatever it names: a copy of a run
must not train in the directory of the original.

Of cores, niceness, `ulimit`s and umask what the kernel refuses is given as far as it goes: the supervisor knows
beforehand and has said so.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from mission_tui.errors import EX_RESUMABLE, MissionError
from mission_tui.paths import sha256
from mission_tui.plain_files import Inode, inode_of, read_plain, same_inode

ORDER_BYTES = 16 << 20
SEALED = "--sealed="
"""How the word begins that says the SHA-256 of the order's document, as whoever checked its seal has read it. Between
that and this process somebody who may rename a folder above can have put another runs root in the place of ours.
"""
SPECS_VARIABLE = "MISSION_TUI_SPECS"
LEASE_VARIABLE = "MISSION_TUI_LEASE_FD"
HERE = ("MISSION_TUI_RUN_DIR", "MISSION_TUI_REPORT")
"""Variables that name the run directory, or a file in it."""

LEASE_TRIES = 5
LEASE_RETRY_S = 0.02
SCHEDULERS = {"other": 0, "batch": 3, "idle": 5}


class StartError(MissionError):
    """The trainer could not be started."""


class LeaseHeldError(StartError):
    """Another attempt of the run is alive."""

    exit_code = EX_RESUMABLE


class OvertakenError(StartError):
    """A newer attempt of the run was begun."""

    exit_code = EX_RESUMABLE


class Order(NamedTuple):
    """What `launch.json` asks for, with its secrets; `grace_s` is the time between TERM and KILL.

    `limits` are those of the trainer alone.
    """

    argv: list[str]
    cwd: str
    env: dict[str, str]
    nonce: str
    grace_s: float
    output_cap_bytes: int
    limits: Mapping[str, Any]


def read_order(path: Path, run_dir: Path, digest: str | None) -> Order:
    """The order in `path`, with the values of withheld variables that standard input holds, and with `run_dir` (which
    is absolute) where it means the run directory. Raises `StartError`, for an order of another directory too, and for
    one whose SHA-256 is not `digest`; None where nobody has said that, as supervisors of 0.2.0 did not.

    With it the trainer is told the SHA-256 of the specs that the order is of.
    """
    try:
        raw = read_plain(path, ORDER_BYTES)
        if digest is not None and sha256(raw).hexdigest() != digest:
            raise StartError(f"{path} is not the order that was given: nothing of it is started; launch the run again")
        table = json.loads(raw)
        if digest is not None:
            table["env"][SPECS_VARIABLE] = json.dumps((table.get("seal") or {}).get("files") or {})
        _fill_in_run_dir(table, run_dir)
        if table.get("withheld"):
            table["env"] |= _secrets_on_stdin(path.with_name("pad"))
        order = Order(
            argv=[str(word) for word in table["argv"]],
            cwd=str(table["cwd"]),
            env={str(name): str(value) for name, value in table["env"].items()},
            nonce=str(table["nonce"]),
            grace_s=float(table["grace_s"]),
            output_cap_bytes=int(table["output_cap_bytes"]),
            limits=dict(table.get("limits") or {}),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise StartError(f"cannot use {path}: {error!r}; launch the run again") from error
    if not order.argv:
        raise StartError(f"cannot use {path}: argv is empty; launch the run again")
    return order


def _fill_in_run_dir(table: dict[str, Any], run_dir: Path) -> None:
    """Fill in what names the run directory. Raises `StartError` unless the order was written for `run_dir`."""
    place, argv, env = (table.get("seal") or {}).get("place"), table["argv"], table["env"]
    if place is not None:
        written_for = Inode(place["device"], place.get("filesystem", 0), place["inode"], place.get("generation"))
        if not same_inode(written_for, inode_of(run_dir)):
            raise StartError(
                f"its order was written for another directory than {run_dir}: a copy of a run is not started; launch "
                "it again, or resume it"
            )
    for name in HERE:
        if name in env:
            env[name] = os.path.normpath(run_dir / env[name])
    elsewhere = [env[name] for name in HERE if name in env and not _is_inside(Path(env[name]), run_dir)]
    if (at := table.get("run_dir_at")) is None:
        # Orders of earlier versions name the directory among the trainer's words: one of this one's name.
        elsewhere += [word for word in map(str, argv) if _is_other_path_of_that_name(word, run_dir)]
    if elsewhere:
        raise StartError(
            f"its order names {elsewhere[0]}, which is not {run_dir}: a copy of a run is not started; launch it again, "
            "or resume it"
        )
    if at is not None:
        argv[int(at)] = str(run_dir)


def _is_inside(path: Path, run_dir: Path) -> bool:
    return any(_is_same(folder, run_dir) for folder in (path, *path.parents))


def _is_other_path_of_that_name(word: str, run_dir: Path) -> bool:
    path = Path(word)
    return path.is_absolute() and path.name == run_dir.name and not _is_same(path, run_dir)


def _is_same(one: Path, other: Path) -> bool:
    """Whether both paths lead to one directory, perhaps over links above it."""
    try:
        return one == other or one.samefile(other)
    except OSError:
        return False


def _secrets_on_stdin(pad: Path) -> dict[str, str]:
    """What the launcher said in memory alone; afterwards nobody can read it here again.

    Where an engine would show it, only half of it came that way: the other half is the file `pad`.
    """
    with open(0, "rb", closefd=False) as said:
        raw = said.read().strip()
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.close(nothing)
    if not raw and pad.exists():
        raise StartError(
            "the variables that no file may have did not arrive with its job: an option of its engine keeps "
            "them back (with Slurm --export, SBATCH_EXPORT); launch the run again without that"
        )
    if raw and pad.exists():
        import base64  # no run of this machine needs it

        half = base64.b64decode(raw)
        raw = bytes(a ^ b for a, b in zip(half, read_plain(pad, len(half)), strict=True))
        pad.unlink()
    return dict(json.loads(raw)) if raw else {}


def engine_variables(environ: Mapping[str, str], beginnings: str) -> dict[str, str]:
    """Those of `environ` whose names begin with one of `beginnings`: which GPUs a job was given, among others."""
    return {name: value for name, value in environ.items() if name.startswith(tuple(beginnings.split(",")))}


def take_lease(path: Path) -> int:
    """The descriptor of the locked lease file. Raises `LeaseHeldError` if another attempt has it, else `StartError`."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StartError(f"cannot lock {path}: it is no file; remove it")
        for _ in range(LEASE_TRIES):
            if _locked(descriptor):
                break
            # Whoever looks whether it is free holds it for that moment.
            time.sleep(LEASE_RETRY_S)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise LeaseHeldError(f"{path} is held by another attempt of this run; stop that one first") from error
    except OSError as error:
        raise StartError(f"cannot lock {path}: {error.strerror}; put the runs on a local file system") from error
    return descriptor


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class ForkedTrainer(BaseException):
    """Raised in a fork that is to be the trainer without any `exec`: whoever called the keeper goes on as `argv`."""

    def __init__(self, argv: list[str], environ: dict[str, str]) -> None:
        super().__init__()
        self.argv, self.environ = argv, environ


def fork_trainer(order: Order, lease: int, output: int) -> int:
    """As `start_trainer`, in a process that has loaded all that a trainer is made of: the fork raises `ForkedTrainer`.

    Its descriptors are still those of the keeper; `exec` would have closed most of them.
    """
    return start_trainer(order, lease, output, execs=False)


def start_trainer(order: Order, lease: int, output: int, *, execs: bool = True) -> int:
    """Start the trainer and return its pid: own group, default signals but no HUP, no input, all output to `output`.

    It is limited as the launching shell was, from its first instruction on, and the keeper is not: that takes a fork,
    which in a process of one thread and little memory costs what a spawn does. Returns once the trainer's program runs.
    It is not tied to this process: a trainer survives its keeper. Raises `StartError`.
    """
    environ = {**order.env, LEASE_VARIABLE: str(lease)}
    reader, writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become_trainer(order, environ, lease, output, writer, execs=execs)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        # Closed by the kernel in the moment in which the program is there; until then every word is a failure.
        failure = pipe.read().decode("utf-8", "replace")
    if failure:
        os.waitpid(pid, 0)
        raise StartError(failure)
    return pid


def _become_trainer(
    order: Order, environ: dict[str, str], lease: int, output: int, writer: int, *, execs: bool
) -> NoReturn:
    """In the child: never returns, whatever happens; without `execs` it raises `ForkedTrainer` where it would exec."""
    failure = f"cannot start {order.argv[0]}"
    try:
        os.setpgid(0, 0)
        os.set_inheritable(lease, True)
        os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        # HUP stays ignored: the kernel sends it to a stopped group whose keeper is killed (POSIX, orphaned groups).
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGHUP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        try:
            os.chdir(order.cwd)
        except OSError as error:
            failure = f"cannot enter the working folder {order.cwd}: {error.strerror}"
        else:
            _apply_limits(order.limits)
            if not execs:
                os.close(writer)
                raise ForkedTrainer(order.argv, environ)
            os.execve(order.argv[0], order.argv, environ)  # noqa: S606 - the run's own words
    except ForkedTrainer:
        raise
    except BaseException as error:  # noqa: BLE001 - nothing of the keeper may go on in the child
        failure = f"{failure}: {error}"
    try:
        os.write(writer, failure.encode("utf-8", "replace"))
    finally:
        os._exit(127)


def _apply_limits(limits: Mapping[str, Any]) -> None:
    """Have this process limited as the table in `launch.json` says. `ulimit`s come last: they may be narrow."""
    if isinstance(cores := limits.get("cores"), str):
        # A core that has been taken away from this machine is left out by the kernel; without any it refuses.
        with suppress(OSError, ValueError):
            os.sched_setaffinity(0, _cores(cores))
    if (policy := SCHEDULERS.get(str(limits.get("scheduler")))) is not None and policy != os.sched_getscheduler(0):
        with suppress(OSError):
            os.sched_setscheduler(0, policy, os.sched_param(0))
    if isinstance(nice := limits.get("nice"), int):
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, nice)
    if isinstance(adjustment := limits.get("oom_score_adj"), int):
        with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123 - pathlib costs more
            file.write(str(adjustment))
    if isinstance(umask := limits.get("umask"), int):
        os.umask(umask & 0o777)
    for name, (soft, hard) in dict(limits.get("rlimits") or {}).items():
        if (number := getattr(resource, f"RLIMIT_{name.upper()}", None)) is not None:
            _limit(number, soft, hard)


def _limit(number: int, soft: int, hard: int) -> None:
    with suppress(OSError, ValueError):
        resource.setrlimit(number, (soft, hard))
        return
    _, most = resource.getrlimit(number)
    with suppress(OSError, ValueError):
        resource.setrlimit(number, (_lower(soft, most), _lower(hard, most)))


def _lower(wanted: int, most: int) -> int:
    if most == resource.RLIM_INFINITY:
        return wanted
    return most if wanted == resource.RLIM_INFINITY else min(wanted, most)


def _cores(said: str) -> set[int]:
    found: set[int] = set()
    for part in said.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found
