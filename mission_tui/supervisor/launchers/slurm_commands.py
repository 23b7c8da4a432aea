"""What is said to Slurm, and what its commands answer: words for `sbatch`, jobs out of `squeue --json`.

Every call is bounded in time and its output checked: `squeue` of Slurm 22.05 exits with 0 and an empty list of jobs
where no controller answers, and only its `errors` say so.
"""

from __future__ import annotations

import math
import os
import re
import selectors
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from mission_tui.errors import MissionError
from mission_tui.fleet.capacity.demand import MIB, MOST_CORES, busy_cores
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.text import clean
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.launchers.engine import EX_NOT_SHARED, SECRETS, half_of_secrets, memory_asked, unless_seen
from mission_tui.supervisor.launchers.order import keeper_words

CALL_S = 20.0
"""How long a command may take; a controller under load takes seconds."""

MOST_BYTES = 64 << 20
"""An answer that is longer is none; a list of a thousand jobs has four megabytes."""

_CHUNK_BYTES = 1 << 16
PASSED = "SLURM_,SLURMD_NODENAME,CUDA_VISIBLE_DEVICES,ROCR_VISIBLE_DEVICES,ZE_AFFINITY_MASK,GPU_DEVICE_ORDINAL"
"""What Slurm sets for a job and its trainer has to know: beginnings of names."""

SLURM_LOG = "slurm.log"
STARTING_S = 600.0
"""What a run with a budget in seconds may take beside its training: importing, evaluating, saving."""

_KEPT = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "TZ",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "XDG_STATE_HOME",
)
_WORD_CHARACTERS = 300
_DAYS_WITH_NAMES_S = 6 * 86_400.0
"""For so long the name of a day means one day."""
_NO_PLAN_S = 300 * 86_400.0
"""A job without a time limit has a year where its partition sets none, and Slurm plans who follows for after that."""
_NO_LOG = 4021
"""ESLURMD_IO_ERROR."""
_WAITING = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)
SUSPENDED = "SUSPENDED"
MORE_MEMORY = "slurm.mem asks for more"
_RUNNING = frozenset({"RUNNING", SUSPENDED, "COMPLETING", "STAGE_OUT", "SIGNALING", "STOPPED", "RESIZING"})
INTERRUPTED = {
    "NODE_FAIL": "node {node} was lost",
    "BOOT_FAIL": "node {node} did not come up",
    "PREEMPTED": "it made room for another job",
    "TIMEOUT": "the time limit of its job was reached",
}
"""The ends after which a run may go on in another job: a lost node, preemption, a time limit."""

_NO_SUCH_NODE = (
    "no node has what it asks for, and it may wait for ever (`sinfo -o '%P %a %l %c %m %G'` lists what there is)"
)
_WHAT_HELPS = {
    "PartitionConfig": _NO_SUCH_NODE,
    "PartitionNodeLimit": _NO_SUCH_NODE,
    "BadConstraints": _NO_SUCH_NODE,
    "PartitionTimeLimit": "slurm.time is longer than its partition allows (`sinfo -o '%P %l'`)",
    "PartitionDown": "its partition starts no jobs now (`sinfo`)",
    "PartitionInactive": "its partition starts no jobs now (`sinfo`)",
    "ReqNodeNotAvail": "the nodes that it may run on are down, drained or reserved (`sinfo -R`)",
    "JobHeldUser": "somebody holds it, and `scontrol release {number}` lets it begin",
    "JobHeldAdmin": "an administrator holds it, who alone can release it",
    "DependencyNeverSatisfied": "it never begins; stop it",
    "InvalidAccount": "Slurm does not know its account for that partition (slurm.account)",
    "InvalidQOS": "Slurm does not know its quality of service (slurm.qos)",
}
"""Of reasons that no waiting mends."""


_PERHAPS_SENT = ("timed out", "receive failure", "zero bytes were transmitted")
_UNREACHED = ("unable to contact slurm controller", "connection refused", "standby mode", "authentication")
"""What Slurm says where no controller was asked: it is down, is not the one in charge, or munge is down here."""
_FULL = re.compile(r"(max|grp)submitjob", re.IGNORECASE)
"""The limits of jobs, waiting ones included: QOSMaxSubmitJobPerUserLimit, AssocGrpSubmitJobsLimit and others."""


class SlurmError(MissionError):
    """A command of Slurm failed; `sent` tells whether it may have been carried out all the same, `unreached` whether
    no controller was asked, so that it may be carried out later, and `full` whether this user has as many jobs there as
    an administrator allows.
    """

    def __init__(self, message: str, *, sent: bool = False, unreached: bool = False, full: bool = False) -> None:
        super().__init__(message)
        self.sent, self.unreached, self.full = sent, unreached, full


class Cluster(Struct, frozen=True, kw_only=True):
    """What a job may be asked to say of itself: `memory` where Slurm counts it, `gpus` where it has any to give."""

    memory: bool = False
    gpus: bool = False


class SlurmJob(Struct, frozen=True, kw_only=True):
    """A job as `squeue` has it: `state` decides, `reason` is why it waits, `start_t` when it may begin."""

    number: str
    name: str
    folder: str
    state: str
    reason: str = ""
    node: str = ""
    start_t: float = 0.0
    exit_code: int | None = None

    @property
    def waits(self) -> bool:
        """Whether it has not begun."""
        return self.state in _WAITING

    @property
    def runs(self) -> bool:
        """Whether it has begun and is not over; a state that is not known here is taken for that."""
        return not self.waits and (self.state in _RUNNING or self.state not in _OVER)

    @property
    def suspended(self) -> str:
        """Why its processes stand still, and what lets them go on; empty where they do not."""
        if self.state != SUSPENDED:
            return ""
        return f"Slurm has suspended its job: it goes on when Slurm lets it, or by `scontrol resume {self.number}`"

    @property
    def interrupted(self) -> str:
        """Why Slurm ended it, where it may go on in another job."""
        said = INTERRUPTED.get(self.state, "")
        return said.format(node=self.node or "its") if said else ""

    @property
    def ended(self) -> str:
        """What Slurm says of its end, where that was none in order."""
        if self.state in ("COMPLETED", "RUNNING", "COMPLETING"):
            return ""
        if self.cancelled:
            # Its reason is the one for which it waited before.
            return f"somebody cancelled its job {self.number} in Slurm (scancel)"
        reason = f" ({self.reason})" if self.reason not in ("", "None", "NonZeroExitCode") else ""
        more = f"; {MORE_MEMORY}" if self.state == "OUT_OF_MEMORY" else ""
        return f"Slurm ended its job {self.number}: {self.state}{reason}{more}"

    @property
    def cancelled(self) -> bool:
        """Whether somebody ended it by `scancel`."""
        return self.state == "CANCELLED"

    @property
    def why_it_waits(self) -> str:
        """As a person reads it: ``waits: Resources, starts about 14:20``."""
        reason = clean(self.reason, 80)
        said = "waits for Slurm" if reason in ("", "None") else f"waits: {reason}"
        if helps := _WHAT_HELPS.get(self.reason):
            return f"{said}: {helps.format(number=self.number)}"
        # A time that has passed is of a plan that did not come true.
        if self.start_t <= time.time():
            return said
        if self.start_t - time.time() > _NO_PLAN_S:
            return f"{said}, with no start planned: a job before it has no time limit"
        here, there = time.localtime(), time.localtime(self.start_t)
        if here[:3] == there[:3]:
            when = time.strftime("%H:%M", there)
        else:
            soon = self.start_t - time.time() < _DAYS_WITH_NAMES_S
            when = time.strftime("%a %H:%M" if soon else "%Y-%m-%d", there)
        return f"{said}, starts about {when}"


_OVER = frozenset({"COMPLETED", "FAILED", "CANCELLED", "DEADLINE", "OUT_OF_MEMORY", "REVOKED", *INTERRUPTED})


def job_name(run: RunDir, attempt: int) -> str:
    """What an attempt is called in Slurm; with its folder that is known again without any number."""
    return f"{run.id}.{attempt}"


def sbatch_words(run: RunDir, order: LaunchOrder, spec: Spec, cluster: Cluster = Cluster()) -> list[str]:  # noqa: B008 - frozen
    """The words of the submission; the script comes on standard input."""
    log = run.attempt(order.attempt).path / SLURM_LOG
    return words_of_job(job_name(run, order.attempt), run.path, log, [spec], cluster)


def cpus_of(spec: Spec) -> int:
    """The cores that a run of `spec` is to have."""
    return spec.slurm.cpus or busy_cores(spec, MOST_CORES)


def words_of_job(name: str, folder: Path, log: Path, specs: Sequence[Spec], cluster: Cluster) -> list[str]:
    """The words that submit a job `name`, which works in `folder` and prints to `log`, for runs of `specs`: cores for
    all of them, and of everything else what the first asks for.
    """
    spec, cpus = specs[0], sum(map(cpus_of, specs))
    words = [
        # What it is given is little; without it, as SBATCH_EXPORT=NONE has it, a run would begin without its secrets.
        *("sbatch", "--parsable", "--no-requeue", "--export=ALL", f"--job-name={name}"),
        *(f"--chdir={folder}", f"--output={str(log).replace('%', '%%')}", "--open-mode=append"),
        *("--nodes=1", "--ntasks=1", f"--cpus-per-task={cpus}", f"--signal=B:USR1@{spec.slurm.warn_s}"),
    ]
    return [*words, *priced_words(specs, cluster, os.environ), *asked_words(spec)]


def priced_words(specs: Sequence[Spec], cluster: Cluster, environ: Mapping[str, str]) -> list[str]:
    """What runs of `specs` need by their price, where neither they nor the variables of `sbatch` say it: memory, half
    as much again as is estimated, a GPU for `run.device = "cuda"`, and the time that a run is to train.
    """
    asked, words = specs[0].slurm, []
    said = {name for name in environ if name.startswith("SBATCH_")}
    told = asked.mem is not None or any(name.startswith("SBATCH_MEM") for name in said)
    if cluster.memory and not told and (needed := memory_asked(specs)):
        words.append(f"--mem={needed // MIB}M")
    if cluster.gpus and asked.gres is None and not said & {"SBATCH_GRES", "SBATCH_GPUS"}:
        words += ["--gres=gpu:1"] if any(spec.run.device.startswith("cuda") for spec in specs) else []
    durations = [spec.run.duration_s for spec in specs]
    if asked.time is None and "SBATCH_TIMELIMIT" not in said and None not in durations:
        longest_s = max(float(seconds or 0.0) for seconds in durations) + asked.warn_s + STARTING_S
        words.append(f"--time={math.ceil(longest_s / 60)}")
    return words


def read_cluster(config: str) -> Cluster:
    """What `scontrol show config` says of what jobs may ask for."""
    said = dict(re.findall(r"^(\w+)\s*=\s*(.*?)\s*$", config, re.MULTILINE))
    kinds = {kind.partition(":")[0] for kind in said.get("GresTypes", "").split(",")}
    return Cluster(memory="MEMORY" in said.get("SelectTypeParameters", "").upper(), gpus="gpu" in kinds)


def asked_words(spec: Spec) -> list[str]:
    """What a spec asks of Slurm in so many words."""
    asked = spec.slurm
    given = ("partition", "account", "qos", "gres", "constraint", "time", "mem")
    return [*(f"--{name}={value}" for name in given if (value := getattr(asked, name)) is not None), *asked.extra]


def script(run: RunDir, order: LaunchOrder, digest: str) -> str:
    """What the node does: it becomes the attempt's keeper, which reads what is withheld from its standard input."""
    keeper = [sys.executable, "-P", "-m", "mission_tui.keeper", *keeper_words(run, order, digest), PASSED]
    seen = unless_seen(run.attempt(order.attempt).launch, run.path.parent)
    return f'#!/bin/bash\n{seen}exec {shlex.join(keeper)} <<<"${SECRETS}"\n'


def job_environ(run: RunDir, order: LaunchOrder, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the submission, which Slurm keeps in its spool: what finds Slurm and Python, and one half of
    the values that no file may have. Raises `MissionError` where that is too long, and `StorageError`.
    """
    return {**kept_environ(environ), SECRETS: half_of_secrets(run, order)}


def kept_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Those of `environ` that find Slurm and Python."""
    return {
        name: value for name, value in environ.items() if name in _KEPT or name.startswith(("SLURM_CONF", "SBATCH_"))
    }


def call(words: Sequence[str], said: str = "", environ: Mapping[str, str] | None = None) -> str:
    """What a command of Slurm answers, `MOST_BYTES` at most. Blocks, `CALL_S` at most. Raises `SlurmError` with its own
    words.
    """
    if shutil.which(words[0]) is None:
        raise SlurmError(f"there is no {words[0]} on the PATH of the supervisor; start it where Slurm is installed")
    environ = dict(os.environ if environ is None else environ)
    try:
        with os.fdopen(os.memfd_create("said"), "w+b") as stdin:
            stdin.write(said.encode())
            stdin.seek(0)
            command = subprocess.Popen(
                list(words), stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ
            )
    except OSError as error:
        raise SlurmError(f"{words[0]} could not be called: {error}") from error
    with command:
        try:
            answer, complaint = _read_both(command, words[0])
        except SlurmError:
            command.kill()
            raise
    if command.returncode != 0:
        why = _complaint(complaint, words[0])
        sent, unreached = (any(some in why.lower() for some in known) for known in (_PERHAPS_SENT, _UNREACHED))
        ended = f"{words[0]} ended with exit code {command.returncode}"
        raise SlurmError(why or ended, sent=sent, unreached=unreached, full=bool(_FULL.search(why)))
    return answer


def _read_both(command: subprocess.Popen[bytes], name: str) -> tuple[str, str]:
    """What it prints, and what it complains about, until it ends. Raises `SlurmError` where that is too much, or takes
    too long.
    """
    until = time.monotonic() + CALL_S
    assert command.stdout is not None
    assert command.stderr is not None
    printed = {stream.fileno(): bytearray() for stream in (command.stdout, command.stderr)}
    with selectors.DefaultSelector() as streams:
        for stream in printed:
            streams.register(stream, selectors.EVENT_READ)
        while streams.get_map() and time.monotonic() < until:
            for key, _ in streams.select(until - time.monotonic()):
                chunk = os.read(key.fd, _CHUNK_BYTES)
                printed[key.fd] += chunk
                if not chunk:
                    streams.unregister(key.fd)
                if len(printed[key.fd]) > MOST_BYTES:
                    raise SlurmError(f"{name} answered more than {MOST_BYTES:,} bytes", sent=True)
        # Somebody whom it has left behind may hold them open.
        whole = not streams.get_map()
    with suppress(subprocess.TimeoutExpired):
        command.wait(max(0.0, until - time.monotonic()))
    if not whole or command.returncode is None:
        raise SlurmError(f"{name} did not answer within {CALL_S:g} s", sent=True)
    answer, complaint = (said.decode("utf-8", "replace") for said in printed.values())
    return answer, complaint


def submitted_number(answer: str) -> str:
    """The number of the job in what `sbatch --parsable` answers. Raises `SlurmError` for anything else."""
    lines = answer.strip().splitlines()
    number = lines[-1].partition(";")[0].strip() if lines else ""
    if not number.isascii() or not number.isdigit():
        raise SlurmError(f"sbatch answered {clean(answer, 80)!r}, where the number of a job belongs", sent=True)
    return number


def read_jobs(answer: str) -> dict[tuple[str, str], SlurmJob]:
    """The jobs in what `squeue --json` answers, by name and folder, the newest of each. Raises `SlurmError`."""
    try:
        document = msgspec.json.decode(answer.encode(), type=_Answer)
        errors = document.errors or []
        jobs = [_job(entry) for entry in document.jobs]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise SlurmError(f"squeue --json answered what is no list of jobs: {clean(str(error), 120)}") from error
    if errors:
        said = errors[0].get("description") if isinstance(errors[0], dict) else errors[0]
        why = clean(str(said), _WORD_CHARACTERS)
        raise SlurmError(f"squeue got no list of jobs: {why} (`scontrol ping` says whether a controller answers)")
    found: dict[tuple[str, str], SlurmJob] = {}
    for job in sorted(jobs, key=lambda job: int(job.number)):
        found[job.name, job.folder] = job
    return found


def job_numbers(answer: str) -> frozenset[str]:
    """The numbers of the jobs in what `scontrol --oneliner show job` answers."""
    return frozenset(re.findall(r"^JobId=(\d+)\b", answer, re.MULTILINE))


class _Entry(Struct):
    """Of some ninety fields of an entry those that are used: a thousand entries are four megabytes."""

    job_id: int | str
    name: Any
    job_state: str | list[str]
    current_working_directory: Any = None
    state_reason: Any = None
    nodes: Any = None
    batch_host: Any = None
    start_time: Any = None
    exit_code: Any = None


class _Answer(Struct):
    jobs: list[_Entry]
    errors: list[Any] | None = None


def _job(entry: _Entry) -> SlurmJob:
    """Numbers are plain in old versions, and tables of `set` and `number` since 23.02; states one word, or a list."""
    states = entry.job_state
    state = states if isinstance(states, str) else next(iter(states), "")
    return SlurmJob(
        number=str(int(entry.job_id)),
        name=str(entry.name),
        folder=str(entry.current_working_directory or ""),
        state=state,
        reason=str(entry.state_reason or ""),
        node=str(entry.nodes or entry.batch_host or ""),
        start_t=_number(entry.start_time),
        exit_code=_exit_code(entry.exit_code),
    )


def _number(value: object) -> float:
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set", True) else 0
    return float(value) if isinstance(value, int | float) else 0.0


def _exit_code(value: object) -> int | None:
    """Plain, as `wait` has it, in old versions; a table with the code itself since 23.02. A node that cannot open the
    job's log does not see the run directory.
    """
    if value == _NO_LOG:
        return EX_NOT_SHARED
    if isinstance(value, Mapping):
        return int(_number(value.get("return_code")))
    return value >> 8 if isinstance(value, int) else None


def _complaint(stderr: str, command: str) -> str:
    """The last thing that went wrong, in one line; the last line of Slurm says what came of it, the one before why."""
    lines = [line.removeprefix(f"{command}: ").removeprefix("error: ") for line in stderr.splitlines() if line.strip()]
    return clean("; ".join(lines[-2:]), _WORD_CHARACTERS)
