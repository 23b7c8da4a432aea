"""One frozen picture of the fleet with a revision: the only thing a screen or a status verb ever shows.

Unknown is None. Bytes and seconds; shares are 0..1 unless the name says percent. `series` hold the last 60 points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from msgspec import Struct, field, structs

from mission_tui.fleet.events.findings import FailedDuty, Finding
from mission_tui.fleet.events.marginal_gain import MarginalGain, gain_sentence
from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.events.outcome import After, FailureKind, Phase, RunState
from mission_tui.fleet.events.processes import EnvWorkers, Pids, Placement, RunFlag, Usage
from mission_tui.fleet.events.provenance import Origin, SettingChange
from mission_tui.fleet.events.trials import TrialBranch, TrialEnd, TrialPlan, TrialVerdict, trial_sentence
from mission_tui.fleet.history.course import Course, GoalView, Moment, ValueAtUpdate
from mission_tui.fleet.specs.spec import Spec

SERIES = ("rollout/ep_rew_mean", "rollout/ep_len_mean", "steps_per_s", "train/approx_kl")
"""The four series of which every snapshot carries the last 60 points per run."""

ENDS = ("finished", "stopped", "killed", "failed", "lost")
_GIB = 1 << 30
LATELY_S = 3600.0

# What a run can do are flags that commands ask (`fleet.commands`), so that nobody needs to know who trains. A run of
# the built-in trainer can do everything. A command obeys signals; what it learns is known once it reports.
Ability = Literal["metrics", "pause", "park", "checkpoint", "evaluate", "export", "apply", "branch"]
ABILITIES: tuple[Ability, ...] = get_args(Ability)


def abilities_of(spec: Spec | None, *, reports: bool) -> tuple[Ability, ...]:
    """What a run of `spec` (None: it cannot be read) can do; `reports` is whether it has reported anything."""
    if spec is None or spec.run.command is None:
        return ABILITIES
    return ("metrics",) if reports else ()


class Utilisation(Struct, frozen=True):
    """Percent over the last 20 seconds."""

    now: float | None = None
    mean: float | None = None
    max: float | None = None


class GpuMeters(Struct, frozen=True):
    """One GPU, known by UUID; `history` are the peaks of its busy percents in the last minute, oldest first.

    `slowed` says why the driver holds its clock down, when it does: "power cap", "heat" and their kin. An instance of
    a GPU in MIG mode has the UUID of that as its `parent`, and only its memory is known.
    `compute_mode` says who may compute there: "default" is everybody, "exclusive process" is one. `unknown`: what this
    GPU does not tell though it should, and why.
    """

    uuid: str
    name: str
    util: Utilisation = Utilisation()
    memory_used: int | None = None
    memory_total: int | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    clock_mhz: int | None = None
    slowed: tuple[str, ...] = ()
    compute_mode: str | None = None
    history: tuple[float, ...] = ()
    parent: str = ""
    unknown: tuple[str, ...] = ()


class OtherProgram(Struct, frozen=True):
    """A process of somebody that takes much: `name` without its arguments, which may hold secrets; None is unknown.

    `cpu_percent` 100 is one core, over the last seconds or up to a minute.
    """

    pid: int
    name: str
    user: str
    cpu_percent: float | None = None
    rss_bytes: int | None = None
    vram_bytes: int | None = None


def other_sentence(program: OtherProgram) -> str:
    """`python (pid 4711, user ada) holds 2.1 GiB VRAM`, or what it takes most of: who it is is never cut."""
    who = f"{program.name} (pid {program.pid}, user {program.user})"
    if program.vram_bytes is not None:
        return f"{who} holds {program.vram_bytes / _GIB:.1f} GiB VRAM"
    return f"{who} takes {' and '.join(_takes(program)) or 'something'}"


def _takes(program: OtherProgram) -> Iterator[str]:
    if program.cpu_percent is not None and program.cpu_percent >= 1.0:
        yield f"{program.cpu_percent:.0f}% CPU"
    if program.rss_bytes is not None and program.rss_bytes >= 0.05 * _GIB:
        yield f"{program.rss_bytes / _GIB:.1f} GiB memory"


class HostMeters(Struct, frozen=True):
    """The machine the runs are on. `gpu_note` says why there are no GPU meters, when there are none, or what
    single GPUs do not tell; `alone_note` why what other supervisors have reserved is not known, when it is not.

    While the disk of the runs root is full nothing new is started; at its pace of late it is in `disk_full_in_s`,
    between `disk_full_low_s` and `disk_full_high_s` (None: perhaps never).
    `cpu_cores` are percents of each core of the machine, `others` the programs that take most and belong to no run.
    """

    name: str
    cores: int
    cpu_percent: float | None = None
    ram_used: int | None = None
    ram_total: int | None = None
    disk_free: int | None = None
    load_1m: float | None = None
    gpu_note: str = ""
    alone_note: str = ""
    disk_full: bool = False
    disk_full_in_s: float | None = None
    disk_full_low_s: float | None = None
    disk_full_high_s: float | None = None
    cpu_history: tuple[float, ...] = ()
    cpu_cores: tuple[float, ...] = ()
    swap_used: int | None = None
    swap_total: int | None = None
    others: tuple[OtherProgram, ...] = ()


class SupervisorInfo(Struct, frozen=True):
    """The process that knows every run. Without a `pid` there is none: the runs were read from their files."""

    pid: int | None
    version: str
    started_t: float


class HeldResources(Struct, frozen=True):
    """What a frozen run holds, as far as it is known; `gpu`: a GPU too, be its bytes known or not."""

    memory_bytes: int | None = None
    gpu: bool = False
    vram_bytes: int | None = None


class Restart(Struct, frozen=True):
    """A run that failed, or that a reboot ended, is started again at unix time `due_t`: `number` of `most` in a row.

    After a `request` it was resumed, and waits for its group: nothing is counted.
    """

    due_t: float
    number: int
    most: int
    after: After = "failure"


class AutoRestart(Struct, frozen=True):
    """An attempt began by itself at unix time `t`."""

    t: float
    after: After


class RunGain(Struct, frozen=True):
    """What it brought that `run`, called `name`, joined the others or left them."""

    run: str
    name: str
    payoff: MarginalGain

    @property
    def sentence(self) -> str:
        """For people."""
        return gain_sentence(self.payoff, self.name)


_TOOK = {"taking": "takes", "taken": "took", "returning": "gives back"}


class TrialView(Struct, frozen=True, kw_only=True):
    """A trial of other settings: since when (unix s), what it says once that is known, and what became of it.

    `closed` is what became of its branches, empty while they stay; `taken_by` the one (id) that took the run's place.
    """

    t: float
    plan: TrialPlan
    verdict: TrialVerdict | None = None
    closed: TrialEnd | Literal[""] = ""
    taken_by: str = ""

    @property
    def sentence(self) -> str:
        """For people."""
        if self.verdict is not None:
            said = trial_sentence(self.plan, self.verdict)
        elif self.closed:
            said = "given up before it was known"
        else:
            said = "its branches train"
        after = f"; {self.taken_by} {_TOOK[self.closed]} its place" if self.closed in _TOOK else ""
        return f"trial {self.plan.number} of {self.plan.settings}: {said}{after}"


class RunView(Struct, frozen=True, kw_only=True):
    """One run as everyone sees it. `origins`: what it branched from, then what its newest attempt goes on from.

    `can` is what may be asked of it, beyond what every process can be asked. `size_bytes` are those of its files when
    they were last counted. `changes` are the newest of what was set while it trained, and what waits to be. `trained_s`
    are seconds of training over all attempts: what a budget in seconds (`duration_s`) counts. `again` are
    the last attempts that began by themselves; `rebooted`: the run ended because the machine was restarted. `workers`
    says how the env workers are of a run that has any. `placed` is the GPU that was chosen for its newest attempt, if
    there was a choice. `payoff` is what it brought when it last joined the others, or left them. `pausing`: it
    was asked to pause, and will at its next update; `parking`: it saves and ends to be resumed later. `failed_duties`
    are what its newest attempt should have done, or should have been done for it, and has not been made good since.
    `checkpoint_t`: when `last_checkpoint` was saved.
    `eta_s` lies between `eta_low_s` and `eta_high_s`. `course` is the return from the first update on, `best` its best;
    both are None for a run that was over when the supervisor began and has more rows than were read then, until all of
    them are. `task`: what it trains on.
    `moments` are the last times that it was held, ended or went on.
    `trials` are the newest of its own; `branch_of` says of which trial of another run it is a branch. `launcher` has
    its newest attempt, and runs it on `node` of its engine; None for this machine. `setting` is the same for runs
    that differ by their seed alone. On a screen of other machines `host` is the one that it is on, and `unheard_since`
    the unix time since which that does not answer. `varied` are the settings that are not the same
    in all runs of its group, by short names.
    """

    id: str
    name: str
    preset: str
    run_dir: str
    state: RunState
    created_t: float
    pausing: bool = False
    parking: bool = False
    group: str | None = None
    description: str = ""
    outcome: Literal["finished", "stopped", "killed", "failed", "lost"] | None = None
    kind: FailureKind | None = None
    cause: str | None = None
    flags: tuple[RunFlag, ...] = ()
    attempt: int = 0
    phase: Phase | None = None
    phase_t: float | None = None
    connected: bool = False
    heartbeat_t: float | None = None
    launcher: str = "local"
    node: str | None = None
    started_t: float | None = None
    ended_t: float | None = None
    update: int | None = None
    timesteps: int | None = None
    total_timesteps: int | None = None
    duration_s: float | None = None
    trained_s: float = 0.0
    steps_per_s: float | None = None
    eta_s: float | None = None
    rollout_s: float | None = None
    update_s: float | None = None
    seed: int | None = None
    env_id: str = ""
    algo: str | None = None
    n_envs: int = 0
    n_steps: int = 0
    last_checkpoint: str | None = None
    metrics: dict[str, Metric] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    series: dict[str, tuple[Metric | None, ...]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    silenced: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()
    size_bytes: int | None = None
    changes: tuple[SettingChange, ...] = ()
    labels: tuple[str, ...] = ()
    note: str = ""
    pids: Pids = Pids()
    usage: Usage | None = None
    workers: EnvWorkers | None = None
    held: HeldResources | None = None
    restart: Restart | None = None
    again: tuple[AutoRestart, ...] = ()
    rebooted: bool = False
    placed: Placement | None = None
    can: tuple[Ability, ...] = ABILITIES
    payoff: MarginalGain | None = None
    failed_duties: tuple[FailedDuty, ...] = ()
    checkpoint_t: float | None = None
    trials: tuple[TrialView, ...] = ()
    branch_of: TrialBranch | None = None
    eta_low_s: float | None = None
    eta_high_s: float | None = None
    best: ValueAtUpdate | None = None
    goal: GoalView | None = None
    course: Course | None = None
    moments: tuple[Moment, ...] = ()
    task: str = ""
    unheard_since: float | None = None
    setting: str = ""
    host: str = ""
    varied: dict[str, float | str] = field(default_factory=dict)

    @property
    def job_waits(self) -> str:
        """For what its job waits in the queue of Slurm or Ray; empty where it does not."""
        return (self.cause or "") if self.state == "starting" and self.launcher != "local" else ""

    @property
    def pace(self) -> float | None:
        """Steps per second of a run that trains now; None for one that stands, waits or ended, however fast it was."""
        return self.steps_per_s if self.state in ("running", "stopping") else None


class StaleRun(Struct, frozen=True, kw_only=True):
    """How many processes a dead attempt left behind and what they hold; `unsure` of them are never touched."""

    run: str
    name: str
    processes: int
    unsure: int = 0
    memory_bytes: int | None = None
    vram_bytes: int | None = None


class OtherRoot(Struct, frozen=True):
    """Another runs root of this user that has a supervisor, and how many runs live or wait there."""

    root: str
    live: int | None = None

    @property
    def remark(self) -> str:
        """` (3 runs)`, or nothing where the number is not known."""
        return "" if self.live is None else f" ({self.live} run{'' if self.live == 1 else 's'})"


class MachineView(Struct, frozen=True, kw_only=True):
    """A machine of a screen of several: its meters and runs root when it last answered, and how many runs live and wait
    there.

    Since unix time `lost_t` it does not answer, `why`; None: it does. `refused`: it was its mission-tui that said why,
    so the line to it holds. `version` is that of its mission-tui where it is
    not the screen's. `same_as` is another of them that is this very supervisor. `away`: it is not the one that the
    screen is on. `launches`: runs can be started there from here.
    """

    name: str
    lost_t: float | None = None
    why: str = ""
    refused: bool = False
    meters: HostMeters | None = None
    gpus: tuple[GpuMeters, ...] = ()
    live: int = 0
    queued: int = 0
    runs_root: str = ""
    version: str = ""
    same_as: str = ""
    away: bool = True
    launches: bool = False


class Replay(Struct, frozen=True):
    """The snapshot is one of the past, between unix times `since` and `until`: as much as the files tell."""

    since: float
    until: float


class FleetSnapshot(Struct, frozen=True, kw_only=True):
    """Live runs first (oldest first), then the newest 200 that are over (newest first).

    `ended_total` counts all that are over, `parked_total` those of them that wait for a person.
    `paid` are the newest joinings and leavings of which it is known what they brought, newest first.
    `failed_duties` are those of the supervisor itself, such as a meter that cannot be read.
    With `replay` it is the fleet as it was at `t`. `unread` run directories were found and are still being read.
    `hosts` are the machines of a screen of several, or of another machine, in their order; empty on any other screen.
    """

    revision: int
    t: float
    runs_root: str
    supervisor: SupervisorInfo
    host: HostMeters
    gpus: tuple[GpuMeters, ...] = ()
    runs: tuple[RunView, ...] = ()
    ended_total: int = 0
    parked_total: int = 0
    stale: tuple[StaleRun, ...] = ()
    elsewhere: tuple[OtherRoot, ...] = ()
    paid: tuple[RunGain, ...] = ()
    failed_duties: tuple[FailedDuty, ...] = ()
    replay: Replay | None = None
    unread: int = 0
    hosts: tuple[MachineView, ...] = ()


def of_machine(snapshot: FleetSnapshot, host: str) -> FleetSnapshot:
    """`snapshot` as a screen of the machine `host` alone would have it; itself where it has no such machine."""
    one = next((machine for machine in snapshot.hosts if machine.name == host), None)
    if one is None or one.meters is None:
        return snapshot
    runs = tuple(view for view in snapshot.runs if view.host == host)
    return structs.replace(
        snapshot, runs_root=one.runs_root, host=one.meters, gpus=one.gpus, runs=runs, hosts=(one,), elsewhere=()
    )


def recent_gains(snapshot: FleetSnapshot) -> tuple[RunGain, ...]:
    """Those of the last hour that say what somebody brought, newest first; of runs that were judged together, one."""
    told: dict[tuple[object, ...], RunGain] = {}
    for paid in snapshot.paid:
        gain = paid.payoff
        if gain.verdict not in ("first", "swapped") and snapshot.t - gain.t < LATELY_S:
            at_once = (gain.change, gain.others, gain.less_per_s, gain.more_per_s)
            told.setdefault(at_once if gain.together > 1 else (paid.run, gain.t), paid)
    return tuple(told.values())


def stale_sentence(stale: Sequence[StaleRun]) -> str:
    """`3 stale processes of heavy-3f9a`; empty when there are none."""
    count = sum(run.processes for run in stale)
    if not count:
        return ""
    whose = stale[0].name if len(stale) == 1 else f"{len(stale)} dead runs"
    return f"{count} stale process{'es' if count > 1 else ''} of {whose}"
