"""What launchers of an engine have in common: each attempt is a job of it, and a list of all jobs says how they stand.

A job is never requeued by its engine: what goes on is a further attempt, in a job of its own, so that rows, checkpoints
and the fence tell one from the other. How an attempt ended is what its keeper wrote; of the engine only the state is
asked, and no state is believed to be the end of a keeper's file that has yet to arrive.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import math
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Generic, Literal, ParamSpec, Protocol, TypeVar

import msgspec
from msgspec import Struct, field

from mission_tui.errors import MissionError
from mission_tui.fence import fence_document
from mission_tui.fleet.capacity.demand import MIB, claim_elsewhere
from mission_tui.fleet.events.processes import BEING_HANDED
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.text import clean
from mission_tui.plain_files import read_plain
from mission_tui.records.atomic import StorageError, write_atomic, write_json
from mission_tui.records.runs.attempt import ExitRecord, Handle, LaunchOrder
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.host.process_files import StopStatus
from mission_tui.supervisor.launchers import NOTHING_SEEN, Capabilities, Job, JobStatus, Occupant, Reached, Stage

POLL_S = 10.0
SOON_POLL_S = 1.0
SOON_S = 30.0
"""For so long after something was submitted or asked, the engine is asked every second."""

GIVEN_UP_S = {"kill": 60.0, "stop": 600.0}
"""For so long may the engine and the trainer of an attempt that is to end both be silent. Then it is given up, and the
fence does the rest: an engine may be gone for good. A stop leaves time to save, and to an engine to be started again.
"""

LAG_S = 30.0
"""How long files of a node may take to be seen here after its job has ended."""

SILENT_S = 30.0
"""A trainer whose job its engine has forgotten is there while its mailbox changes at least so often."""

CALLS = 4
"""So many calls of an engine are under way at once; further ones wait for those, and nobody else does."""

STATE_S = 15.0
"""How long a job may be called running after its keeper has left."""

SECRETS = "MISSION_TUI_SECRETS"
"""The variable of a job that has one half of the values which no file may have."""

MEMORY_MARGIN, MEMORY_SPARE_BYTES = 1.5, 256 * 2**20
"""What a job asks for beyond the memory that its runs are estimated to take: who takes more may be killed."""

MOST_SECRET_BYTES = 96_000
"""The kernel takes 128 KiB in one variable, and base64 makes four bytes of three."""

SIGNAL_WORDS: Mapping[Literal["stop", "kill"], bytes] = {"stop": b"TERM\n", "kill": b"QUIT\n"}
"""What the keeper of an attempt reads in its `signal` file."""

EX_NOT_SHARED = 73
"""With this a job ends on a node that does not see its run directory (EX_CANTCREAT)."""

log = logging.getLogger(__name__)


def not_shared(root: Path, node: str = "") -> str:
    """The sentence for a runs root that nodes do not share."""
    where = f"node {node}" if node else "the node"
    return (
        f"{where} does not see the runs root {root}: put it on storage that all nodes share (NFS, Lustre), with "
        "--runs-dir or MISSION_TUI_RUNS"
    )


def secrets_document(order: LaunchOrder) -> str:
    """The values that no file may have, as the keeper reads them. Raises `MissionError` where they are too long."""
    secrets = msgspec.json.encode({name: order.env[name] for name in order.withheld if name in order.env}).decode()
    if len(secrets) > MOST_SECRET_BYTES:
        raise MissionError(
            f"the variables that are not written down have {len(secrets):,} bytes, and a job takes "
            f"{MOST_SECRET_BYTES:,}: launch from a shell with fewer variables"
        )
    return secrets


def half_of_secrets(run: RunDir, order: LaunchOrder) -> str:
    """The values that no file may have, as a job's environment may have them: every bit turned by one of a random pad,
    which lies in the run directory until the keeper has read it. Engines show, log or spool that environment; neither
    half says anything. Empty where there is none of them. A second submission of one attempt has the same halves,
    because either may be carried out.

    Raises `MissionError` where they are too long, and `StorageError`.
    """
    if not any(name in order.env for name in order.withheld):
        return ""
    said = secrets_document(order).encode()
    path = run.attempt(order.attempt).pad
    pad = _pad_in(path)
    if len(pad) != len(said):
        pad = os.urandom(len(said))
        write_atomic(path, pad, mode=0o600)
    return base64.b64encode(bytes(a ^ b for a, b in zip(said, pad, strict=True))).decode("ascii")


def _pad_in(path: Path) -> bytes:
    with suppress(OSError):
        return read_plain(path, MOST_SECRET_BYTES)
    return b""


def unless_seen(path: Path, root: Path) -> str:
    """The first line of a job's script: it goes no further on a node that does not see `path` in the runs root."""
    refusal = shlex.join(["echo", f"mission-tui: {not_shared(root)}"])
    return f"test -f {shlex.quote(str(path))} || {{ {refusal}; exit {EX_NOT_SHARED}; }}\n"


class EngineJob(Protocol):
    """A job as the engine's list has it: it `waits`, `runs`, or is over; `suspended` says why one that runs stands
    still, `interrupted` why the engine ended it, where it may go on in another job, and `ended` what there is to say of
    its end otherwise. `cancelled`: a person ended it.
    """

    @property
    def number(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def node(self) -> str: ...
    @property
    def waits(self) -> bool: ...
    @property
    def runs(self) -> bool: ...
    @property
    def suspended(self) -> str: ...
    @property
    def interrupted(self) -> str: ...
    @property
    def ended(self) -> str: ...
    @property
    def cancelled(self) -> bool: ...
    @property
    def why_it_waits(self) -> str: ...
    @property
    def exit_code(self) -> int | None: ...


J = TypeVar("J", bound=EngineJob)
P = ParamSpec("P")
T = TypeVar("T")


class Known(Struct, Generic[J]):
    """What is known of one attempt. `order` waits to be submitted, and `digest` is that of its document; `wish` is what
    the engine was not told yet. `sending`: it is on its way to the engine. `dropped`: it was to end before it had
    begun. `asked_at` is when it was to end by which verb, `heard_at` when the engine last said how it stands.
    """

    run: RunDir
    attempt: int
    nonce: str
    number: str = ""
    order: LaunchOrder | None = None
    job: J | None = None
    wish: Literal["stop", "kill"] | None = None
    told_at: float | None = None
    over_at: float | None = None
    missed: int = 0
    refused: str = ""
    beat: bytes = b""
    beat_at: float | None = None
    sending: bool = False
    dropped: bool = False
    digest: str = ""
    asked_at: dict[Literal["stop", "kill"], float] = field(default_factory=dict)
    heard_at: float = float("-inf")

    def find_heartbeat(self) -> None:
        """Read what its trainer last wrote into its mailbox, when nothing but its own files tells of it any more."""
        said = b""
        with suppress(OSError):
            said = read_plain(self.run.attempt(self.attempt).alive, 1 << 16)
        if self.beat_at is None or said != self.beat:
            self.beat, self.beat_at = said, time.monotonic()

    @property
    def was_taken(self) -> bool:
        """Whether its engine has, or had, a job for it: it said a number, or a keeper has begun."""
        return bool(self.number) or (self.order is None and self.run.attempt(self.attempt).identity.exists())

    @property
    def beats(self) -> bool:
        """Whether its mailbox changed within the last `SILENT_S` seconds, as far as it was read."""
        return self.beat_at is not None and time.monotonic() - self.beat_at < SILENT_S


class EngineLauncher(Generic[J]):
    """A launcher but for `submit`, `refresh`, and for how its engine is told to end a job (`_ask`).

    `name` is the word of `run.launcher`, `title` the engine's name, `log_name` what the job prints to.
    """

    name: str
    title: str
    log_name: str
    can = Capabilities()

    def __init__(self) -> None:
        self._known: dict[str, Known[J]] = {}
        self._polled_at = self._soon_until = float("-inf")
        self._calls = ThreadPoolExecutor(CALLS, thread_name_prefix=self.name)

    async def _beside(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What a call of the engine answers, which may take as long as it is bounded to: in a thread of this engine's
        own, because the loop's are for everything else that a supervisor does.
        """
        return await asyncio.get_running_loop().run_in_executor(self._calls, partial(call, *args, **kwargs))

    def prepare(self) -> None:
        """Nothing makes an engine quicker."""

    def poll(self, job: Job) -> JobStatus:
        """By the files of the attempt, and by what the last `refresh` brought."""
        known = self._of(job)
        files = job.dir.attempt(job.attempt)
        begun = files.identity.exists()
        found = known.job
        if files.exit.exists():
            if found is None or not found.runs or self._waited_for_state(known):
                return self._gone(known, begun=begun)
            # Why it ended is the engine's to say: a time limit, a lost node, or nothing.
            return JobStatus(stage="running", node=found.node, begun=begun)
        if known.order is not None:
            return JobStatus(stage="queued", why=self._why_kept(known))
        if self._is_given_up(known):
            why = f"{self.title} did not answer, so whatever is left of it ends by itself at the fence"
            return JobStatus(stage="gone", begun=begun, why=why, unsure=True)
        if found is None:
            if not self._is_lost(known):
                return NOTHING_SEEN
            return self._unlisted(known, begun=begun)
        if found.waits:
            return JobStatus(stage="queued", why=found.why_it_waits)
        if found.runs:
            stage: Stage = "running" if begun else "starting"
            return JobStatus(stage=stage, node=found.node, begun=begun, suspended=found.suspended)
        if not found.interrupted and known.over_at is not None and time.monotonic() - known.over_at < LAG_S and begun:
            # How it ended is on its way.
            return NOTHING_SEEN
        return self._gone(known, begun=begun)

    def lives(self, job: Job) -> bool:
        """Whether its job has not ended."""
        return self.poll(job).lives

    def watch(self, job: Job, gone: Callable[[], None]) -> None:
        """An engine does not call back: `refresh` finds out."""

    def is_coming(self, job: Job) -> bool:
        """Whether it is, or may be, in the engine's hands: one without a number is looked for by its name first."""
        known = self._of(job)
        if known.order is not None or known.job is not None:
            return True
        return job.handle is not None and known.missed < 2

    def is_free(self, run: RunDir) -> bool:
        """Whether no job of the run is in a queue or on a node. No lock of a node keeps anybody out: see the fence.

        The list may be old, because its engine cannot be asked: what the keeper wrote about the end is believed.
        """
        known = self._known.get(run.id)
        if known is None or run.attempt(known.attempt).exit.exists() or self._is_given_up(known):
            return True
        return known.order is None and (known.job is None or not (known.job.waits or known.job.runs))

    def occupant(self, job: Job) -> Occupant:
        """Its job."""
        return Occupant(f"alive as {self.describe(job) or f'a job of {self.title}'}")

    def stop(self, job: Job) -> Reached:
        """Have the keeper on the node see that the trainer saves and ends; a job that waits is taken from the queue."""
        self._of(job).asked_at.setdefault("stop", time.monotonic())
        return self._ask(job, "stop")

    def kill(self, job: Job) -> Reached:
        """Have the keeper leave nothing of the attempt; the engine ends the job if that does not help."""
        self._of(job).asked_at.setdefault("kill", time.monotonic())
        return self._ask(job, "kill")

    def describe(self, job: Job) -> str:
        """The job's number and node."""
        known = self._of(job)
        node = known.job.node if known.job is not None else ""
        return f"{self.title} job {known.number}{f' on {node}' if node else ''}" if known.number else ""

    def release(self, job: Job) -> None:
        """Remember nothing of it."""
        self._known.pop(job.dir.id, None)

    def secrets(self, job: Job, order: LaunchOrder) -> dict[str, str]:
        """Only the engine and the node have them."""
        return {}

    def freeze(self, job: Job) -> int:
        raise NotImplementedError("nothing is frozen on a node")

    def thaw(self, job: Job) -> int:
        raise NotImplementedError("nothing is frozen on a node")

    def is_frozen(self, job: Job) -> bool | None:
        raise NotImplementedError("nothing is frozen on a node")

    def stop_status(self, job: Job, held: Mapping[int, int | None]) -> StopStatus:
        raise NotImplementedError("nothing is frozen on a node")

    def _ask(self, job: Job, what: Literal["stop", "kill"]) -> Reached:
        raise NotImplementedError

    def _ask_keeper(self, known: Known[J], what: Literal["stop", "kill"], *, unsent: bool) -> Reached:
        """Ask the keeper of one attempt by its file. An order that is `unsent` is dropped: if the engine has it all the
        same, because an answer was lost, its keeper finds the word.
        """
        self._write_signal(known, what)
        if unsent:
            known.order, known.dropped = None, True
        elif known.wish != what:
            known.wish, known.told_at = what, time.monotonic()
        self._hurry()
        return "keeper"

    def _write_signal(self, known: Known[J], what: Literal["stop", "kill"]) -> None:
        try:
            write_atomic(known.run.attempt(known.attempt).signal, SIGNAL_WORDS[what])
        except StorageError as error:
            log.warning("%s: %s cannot be asked of its keeper: %s", known.run.id, what, error)

    def _fence_off(self, known: Known[J]) -> None:
        """Have no trainer of the attempt write any more."""
        with suppress(StorageError):
            write_atomic(known.run.fence, fence_document(known.attempt + 1, ""))

    def _why_kept(self, known: Known[J]) -> str:
        """Why an order is not submitted yet."""
        return f"{BEING_HANDED}{self.title}{known.refused}"

    def _unlisted(self, known: Known[J], *, begun: bool) -> JobStatus:
        """How an attempt stands whose job is in no list any more."""
        return self._gone(known, begun=begun)

    def _of(self, job: Job) -> Known[J]:
        known = self._known.get(job.dir.id)
        if known is None or known.attempt != job.attempt:
            number = "" if job.handle is None else job.handle.id
            known = self._known[job.dir.id] = Known(job.dir, job.attempt, job.nonce, number)
            self._hurry()
        return known

    def _hurry(self) -> None:
        self._soon_until = time.monotonic() + SOON_S
        self._polled_at = float("-inf")

    def _is_due(self, at_least_every_s: float = POLL_S) -> bool:
        """Whether the engine is to be asked for its list now."""
        now = time.monotonic()
        if now < self._polled_at + (SOON_POLL_S if now < self._soon_until else at_least_every_s):
            return False
        self._polled_at = now
        return True

    def _waited_for_state(self, known: Known[J]) -> bool:
        """Whether the engine had its time to say that the job of a keeper which has left is over."""
        if known.over_at is None:
            known.over_at = time.monotonic()
            self._hurry()
        return time.monotonic() - known.over_at > STATE_S

    def _is_lost(self, known: Known[J]) -> bool:
        """Whether a job that its engine had was not in two lists in a row."""
        return known.missed >= 2 and known.was_taken

    def _is_given_up(self, known: Known[J]) -> bool:
        """Whether it was to end, and neither its engine nor its trainer has been heard of for too long since."""
        if not known.asked_at:
            return False
        known.find_heartbeat()
        now = time.monotonic()
        late = any(now - max(at, known.heard_at) > GIVEN_UP_S[verb] for verb, at in known.asked_at.items())
        return late and not known.beats

    def _forgotten(self, known: Known[J]) -> str:
        return (
            f"{self.title} does not know its job {known.number} any more, and how it ended is not on record: "
            "`resume` has the run go on"
        )

    def _gone(self, known: Known[J], *, begun: bool) -> JobStatus:
        found = known.job
        if found is None:
            return JobStatus(stage="gone", begun=begun, why=self._forgotten(known) if known.number else "")
        why = found.interrupted or found.ended
        files = known.run.attempt(known.attempt)
        if why and not found.interrupted and not begun and found.exit_code == EX_NOT_SHARED:
            why = f"{self.title} did not start it: {not_shared(known.run.path.parent, found.node)}"
        elif why and not found.interrupted and not files.exit.exists():
            # Its keeper could not say why; what the engine has on the node may have, such as a limit of memory.
            said = last_words(files.path / self.log_name)
            why += f"; {said}" if said else ""
        return JobStatus(
            stage="gone",
            begun=begun,
            node=found.node,
            why=why,
            interrupted=found.interrupted,
            cancelled=found.cancelled,
        )

    def _take(self, known: Known[J], found: J | None) -> None:
        """Take in that the list has `found` for the attempt."""
        known.heard_at = time.monotonic()
        if found is None:
            # One that is not submitted yet is in no list.
            known.missed += known.order is None
            if self._is_lost(known):
                known.job = None
            return
        known.missed = 0
        if known.number != found.number:
            self._accepted(known, found.number)
        before, known.job = known.job, found
        if not (found.waits or found.runs) and known.over_at is None:
            known.over_at = time.monotonic()
        if before is None or before.state != found.state:
            log.info("%s: job %s is %s %s", known.run.id, found.number, found.state, found.node)

    def _accepted(self, known: Known[J], number: str) -> None:
        known.number, known.order, known.refused = number, None, ""
        self._hurry()
        log.info("%s: attempt %d is job %s", known.run.id, known.attempt, number)
        path = known.run.attempt(known.attempt).handle
        try:
            write_json(path, self._handle(known, number))
        except StorageError as error:
            log.warning("%s: the number of its job is not on record: %s", known.run.id, error)

    def _handle(self, known: Known[J], number: str) -> Handle:
        return Handle(launcher=self.name, id=number, submitted_t=time.time())

    def _refuse(self, known: Known[J], why: str) -> None:
        """Nobody else will write how the attempt ended. A job that comes all the same finds this and does nothing."""
        known.order = None
        if known.was_taken:
            # The answer was lost, and the job since then: its keeper has begun all the same, and its files tell of it.
            known.refused = ""
            self._hurry()
            return
        said = f"{self.title} did not start it: {why}"
        record = ExitRecord(attempt=known.attempt, ended_t=time.time(), start_error=said)
        try:
            write_json(known.run.attempt(known.attempt).exit, record)
        except StorageError as error:
            log.warning("%s: %s, and that could not be written: %s", known.run.id, why, error)


def memory_asked(specs: Sequence[Spec]) -> int:
    """Bytes that a job of runs of `specs` asks for by their price, in whole MiB; 0 of commands: it is not known."""
    if any(spec.run.command is not None for spec in specs):
        return 0
    needed = sum(claim_elsewhere(spec).ram_bytes for spec in specs)
    return math.ceil(MEMORY_MARGIN * needed / MIB) * MIB + MEMORY_SPARE_BYTES


def last_words(path: Path) -> str:
    """The last line of what a job printed before it was a keeper."""
    try:
        lines = read_plain(path, 1 << 20).decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((clean(line, 200) for line in reversed(lines) if line.strip()), "")
