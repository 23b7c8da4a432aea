"""What a run takes of a machine, in memory, cores and time, and whether a machine can carry it: hard lacks that must
keep it from starting, and warnings with numbers. Pure.

The memory estimate is arithmetic over the spec, checked against two measured SB3 runs (64 x 512 with 1024-512-512-256:
702 MiB against 690 estimated; 2,048 x 64 with 64-64: 398 against 471). What it cannot know, it takes as an argument. A
pace is only ever one that was seen; where nothing like the run has trained here, time is not known.

A run's claim, as supervisors of all runs roots and users tell each other, is its estimate until it has done an update,
and from then on what was seen. Only what is still to be taken counts against others: what is held already shows in the
machine's own meters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated

from msgspec import Meta, Struct, structs

from mission_tui.fleet.events.processes import Peak
from mission_tui.fleet.specs.algorithm import lstm_shape, replay_buffer_of, towers
from mission_tui.fleet.specs.sb3_algorithms import AlgorithmSpec, DqnSpec, OnPolicySpec
from mission_tui.fleet.specs.sizes import WITH_WORKERS, ReplaySize, nearby_workers, plan_batch, replay_size, shares_of
from mission_tui.fleet.specs.spec import MISSION_GYM, Spec, other_settings, rollout_size

MIB = 1 << 20
TRAINER_BYTES = 320 * MIB
"""A trainer after its first update: Python, torch and SB3 (measured: 323 MiB resident)."""
WORKER_BYTES = 26 * MIB
"""An env worker without torch (measured: 51 MiB for two)."""
KEEPER_BYTES = 12 * MIB
ENV_BYTES = MIB // 32
"""One environment instance (measured: MissionGym 20 KiB, CartPole 4); simulators need more than can be known here."""
BUFFER_COPIES = 2
"""The rollout buffer is flattened into a copy while the original lives."""
PARAMETER_BYTES = 4 * 4 + 3 * 4
"""Weight, gradient and Adam's two moments; and the copy of weight and moments kept from the update's start."""
CHECKPOINT_BYTES_PER_PARAMETER = 3 * 4
LOG_BYTES = 32 * MIB
GFLOPS_A_CORE = 50.0
"""fp32 matrix products of 512- to 1024-wide layers (measured: 34 to 110 on a core)."""
ENVS_A_CORE = 16
"""Source 003: 8 to 16 environments keep a worker busy."""
SLOW_HOURS = 24.0
SPARE_SHARE = 0.02
"""Of all memory, what no run is given that waits for it: estimates err, and a machine without any kills somebody."""
OBS_FLOATS, ACT_FLOATS = 42, 4
"""One flattened observation and action of MissionGym: nothing else is known before preflight."""
_POOL = "envpool:"


class Machine(Struct, frozen=True):
    """Facts about the machine a run would start on; bytes. None is unknown and never counts against a run."""

    cores: int
    ram_total: int | None
    ram_free: int | None
    disk_free: int | None
    gpu: bool
    gpu_count: int | None = None


class Assessment(Struct, frozen=True):
    """`hard` lacks (sentences) must refuse the run, `warnings` must be read; `ram_bytes` is the peak's estimate."""

    hard: tuple[str, ...]
    warnings: tuple[str, ...]
    ram_bytes: int


class Memory(Struct, frozen=True):
    """Peak host memory of one run, in bytes: what every environment adds, and what is there without any.

    `tensor_bytes` of it are what lies on a GPU where one is used.
    """

    per_env_bytes: int
    fixed_bytes: int
    n_envs: int
    tensor_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.fixed_bytes + self.n_envs * self.per_env_bytes


def assess(
    spec: Spec,
    machine: Machine,
    *,
    waits: bool = False,
    seen_bytes: int | None = None,
) -> Assessment:
    """What `machine` lacks for `spec`, with observations and actions as large as MissionGym's.

    One that `waits` for memory lacks only what can never be free. `seen_bytes` are the memory that runs like it took.

    Missing packages and unknown environments are preflight's business.
    """
    if spec.run.command is not None:
        # What a command will take is not known, and unknown never counts against a run.
        return Assessment((), (), KEEPER_BYTES if seen_bytes is None else seen_bytes)
    memory = estimate_memory(spec, machine.cores)
    parameters = policy_parameters(spec, OBS_FLOATS, ACT_FLOATS)
    hard = (
        *_gpu_lacks(spec, machine),
        *_memory_lacks(spec, machine, memory, seen_bytes, waits=waits),
        *_disk_lacks(spec, machine, parameters),
    )
    warnings = (*_core_warnings(spec, machine), *_slowness(spec, machine, parameters))
    ram = memory.total_bytes if seen_bytes is None else seen_bytes
    return Assessment(tuple(hard), tuple(warnings), ram)


def policy_parameters(spec: Spec, obs_floats: int, act_floats: int) -> int:
    """Weights and biases of SB3's separate actor and critic networks (``MlpPolicy``, ``MlpLstmPolicy``)."""
    if (other := other_settings(spec)) is not None:
        return _other_parameters(spec, other, obs_floats, act_floats)
    actor, critic = towers(spec)
    features, remembering = _recurrent(spec, obs_floats)
    chains = ((features, *actor, act_floats), (features, *critic, 1))
    return 2 * remembering + sum((wide + 1) * high for chain in chains for wide, high in pairwise(chain))


def _other_parameters(spec: Spec, settings: AlgorithmSpec, obs_floats: int, act_floats: int) -> int:
    """Of another algorithm: its actor, and its critics or action values with their targets; layers as SB3 has them."""
    actor, critic = towers(spec)
    chains = [((obs_floats, *actor, act_floats), 1), ((obs_floats, *critic, act_floats), 2)]
    if isinstance(settings, OnPolicySpec):
        chains = [((obs_floats, *actor, act_floats), 1), ((obs_floats, *critic, 1), 1)]
    elif not isinstance(settings, DqnSpec):
        chains = [((obs_floats, *actor, 2 * act_floats), 2), ((obs_floats + act_floats, *critic, 1), 4)]
    else:
        chains = chains[1:]
    return sum(times * (wide + 1) * high for chain, times in chains for wide, high in pairwise(chain))


def _recurrent(spec: Spec, obs_floats: int) -> tuple[int, int]:
    """What the layers above see, and the parameters of one LSTM below them: four gates, each with two biases."""
    shape = lstm_shape(spec)
    if shape is None:
        return obs_floats, 0
    hidden, layers = shape
    inputs = (obs_floats, *[hidden] * (layers - 1))
    return hidden, sum(4 * hidden * (wide + hidden + 2) for wide in inputs)


def likely_workers(spec: Spec, cores: int) -> int:
    """Env worker processes that `spec` will start on `cores` cores, at most, unless its environments wait.

    "auto" may find that workers do not pay; how many do for environments that wait is known once they are measured.
    """
    env = spec.env
    if env.vec == "inline" or _is_batched(spec):
        return 0
    if env.n_workers is not None:
        return env.n_workers
    if env.vec == "workers":
        return nearby_workers("workers", env.n_envs, cores)[0]
    return next((count for count in nearby_workers("split", env.n_envs, cores - 1) if count < cores), 0)


def busy_cores(spec: Spec, cores: int) -> int:
    """Cores of `cores` that a run of `spec` keeps busy, at least: who steps its environments and its threads take
    turns.
    """
    # "auto" may start none; it is not counted against anybody before it was measured.
    counted = spec.env.vec in WITH_WORKERS or spec.env.n_workers is not None
    stepping = shares_of(spec.env.vec, likely_workers(spec, cores)) if counted else 0
    return min(cores, max(spec.run.threads or 1, stepping))


def _is_batched(spec: Spec) -> bool:
    """Whether one object steps all environments at once, not one after another."""
    env = spec.env
    has_form = env.id.startswith(_POOL) or env.id.rpartition(":")[2] == MISSION_GYM
    return env.vec == "native" or (env.vec == "auto" and has_form and not env.wrappers)


def estimate_memory(spec: Spec, cores: int) -> Memory:
    """Peak host memory of `spec`: buffer, policy, one minibatch's activations, and every process of the run.

    Observations are counted as float32, actions as int64; on a GPU part of it lives there instead, and the driver's own
    host memory is not counted.
    """
    if (other := other_settings(spec)) is not None:
        return _other_memory(spec, other, cores)
    hidden, layers = lstm_shape(spec) or (0, 0)
    # Hidden and cell states, of actor and critic, are kept with every transition.
    transition = 4 * OBS_FLOATS + 8 * ACT_FLOATS + 6 * 4 + 4 * 4 * hidden * layers
    widths = sum(map(sum, towers(spec)))
    batch = min(plan_batch(spec).batch_size, rollout_size(spec))
    activations = 2 * 4 * batch * (widths + OBS_FLOATS)
    workers = likely_workers(spec, cores)
    learning = PARAMETER_BYTES * policy_parameters(spec, OBS_FLOATS, ACT_FLOATS) + activations
    buffer = BUFFER_COPIES * transition * spec.ppo.n_steps
    return Memory(
        per_env_bytes=buffer + (0 if _is_batched(spec) else ENV_BYTES),
        fixed_bytes=TRAINER_BYTES + KEEPER_BYTES + workers * WORKER_BYTES + learning,
        n_envs=spec.env.n_envs,
        tensor_bytes=buffer * spec.env.n_envs + learning,
    )


def _other_memory(spec: Spec, settings: AlgorithmSpec, cores: int) -> Memory:
    """The same of another algorithm, a replay buffer as it is once it is full. That lies in host memory always."""
    plan, replay = plan_batch(spec), replay_size(spec, OBS_FLOATS)
    activations = 2 * 4 * plan.batch_size * (4 * sum(map(sum, towers(spec))) + OBS_FLOATS)
    learning = PARAMETER_BYTES * policy_parameters(spec, OBS_FLOATS, ACT_FLOATS) + activations
    rollout = 0
    if isinstance(settings, OnPolicySpec):
        rollout = BUFFER_COPIES * (4 * OBS_FLOATS + 8 * ACT_FLOATS + 6 * 4) * settings.n_steps
    buffer = 0 if replay is None else replay.full_bytes
    return Memory(
        per_env_bytes=rollout + (0 if _is_batched(spec) else ENV_BYTES),
        fixed_bytes=TRAINER_BYTES + KEEPER_BYTES + likely_workers(spec, cores) * WORKER_BYTES + learning + buffer,
        n_envs=spec.env.n_envs,
        tensor_bytes=learning,
    )


def _gpu_lacks(spec: Spec, machine: Machine) -> Iterator[str]:
    device = spec.run.device
    if not device.startswith("cuda"):
        return
    if not machine.gpu:
        yield f"run.device = '{device}' but there is no usable NVIDIA GPU here; use run.device = 'cpu' or 'auto'"
        return
    index = int(device.partition(":")[2] or 0)
    if machine.gpu_count is not None and index >= machine.gpu_count:
        yield (
            f"run.device = '{device}' but this machine has {machine.gpu_count} GPU(s); "
            f"the nearest valid value is 'cuda:{machine.gpu_count - 1}'"
        )


def _memory_lacks(
    spec: Spec, machine: Machine, memory: Memory, seen_bytes: int | None, *, waits: bool
) -> Iterator[str]:
    ever = None if machine.ram_total is None else int((1.0 - SPARE_SHARE) * machine.ram_total)
    there = ever if waits else machine.ram_free
    needed = memory.total_bytes if seen_bytes is None else seen_bytes
    if there is None or needed <= there:
        return
    group = shares_of(spec.env.vec, spec.env.n_workers) if spec.env.n_workers else 1
    # What was measured beyond the arithmetic may belong to the environments or not: it counts as fixed.
    fixed = memory.fixed_bytes + max(0, needed - memory.total_bytes)
    fitting = (there - fixed) // memory.per_env_bytes // group * group
    smaller = _fitting_buffer(spec, there, needed)
    fewer = f"env.n_envs = {fitting} fits" if fitting > 0 else "free some, or use a smaller network or ppo.batch_size"
    remedy = smaller or fewer
    free = f"{there / MIB:,.0f} MiB {'are the most that can be' if waits else 'are'} free"
    seen = "" if seen_bytes is None else " (measured last time)"
    yield f"needs about {needed / MIB:,.0f} MiB of memory{seen} and {free}; {remedy}"


def _fitting_buffer(spec: Spec, there: int, needed: int) -> str:
    """A replay buffer that fits, where it is what does not."""
    settings, replay = replay_buffer_of(spec), replay_size(spec)
    if settings is None or replay is None or replay.full_bytes <= needed - there:
        return ""
    share = 1.0 - (needed - there) / replay.full_bytes
    return f"{spec.run.algo}.buffer_size = {int(settings.buffer_size * share):,} fits"


def _disk_lacks(spec: Spec, machine: Machine, parameters: int) -> Iterator[str]:
    replay, own = replay_size(spec), CHECKPOINT_BYTES_PER_PARAMETER * parameters
    kept = spec.keep.checkpoint.most(own + (0 if replay is None else replay.checkpoint_bytes))
    needed = LOG_BYTES + kept * own
    needed += 0 if replay is None else replay.kept_bytes
    if machine.disk_free is not None and needed > machine.disk_free:
        yield (
            f"needs about {needed / MIB:,.0f} MiB of disk for {kept} checkpoints and its records, and "
            f"{machine.disk_free / MIB:,.0f} MiB are free at the runs root{_of_replay(replay)}"
        )


def _of_replay(replay: ReplaySize | None) -> str:
    if replay is None or not replay.kept_bytes:
        return ""
    part = f"{replay.kept_bytes / MIB:,.0f} MiB of it are replay buffers"
    return f"; {part}, which keep.checkpoint.replay_buffer = false leaves out"


def _core_warnings(spec: Spec, machine: Machine) -> Iterator[str]:
    n_envs, n_workers, threads = spec.env.n_envs, spec.env.n_workers, spec.run.threads
    vec, most = spec.env.vec, machine.cores - shares_of(spec.env.vec, 0)
    if n_workers is not None and likely_workers(spec, machine.cores) > most:
        fitting = [count for count in nearby_workers(vec, n_envs, most) if count <= most]
        enough = f"env.n_workers = {fitting[0]}" if fitting else "env.vec = 'inline'"
        yield (
            f"env.n_workers = {n_workers} on {machine.cores} core(s) pays only where environments wait more than they "
            f"compute; for those that compute, {enough} is as fast"
        )
    cores = 1 if spec.env.vec == "inline" else machine.cores
    if not _is_batched(spec) and n_envs > ENVS_A_CORE * cores:
        yield (
            f"env.n_envs = {n_envs} on {cores} core(s) are {n_envs / cores:.0f} a core, stepped one after another, and "
            f"{ENVS_A_CORE} keep it busy: rollouts take about {n_envs / cores / ENVS_A_CORE:.1f} x as long as on "
            f"{math.ceil(n_envs / ENVS_A_CORE)} cores"
        )
    if threads is not None and threads > machine.cores:
        yield (
            f"run.threads = {threads} on {machine.cores} core(s) is slower than run.threads = {machine.cores}: "
            f"threads without a core wait for each other"
        )


def _slowness(spec: Spec, machine: Machine, parameters: int) -> Iterator[str]:
    total, buffer = spec.run.total_timesteps, rollout_size(spec)
    if other_settings(spec) is not None:
        return  # the arithmetic below is of PPO's update
    if total is None or (machine.gpu and spec.run.device != "cpu"):
        return
    threads = min(spec.run.threads or 1, machine.cores)
    operations = 6.0 * parameters * buffer * plan_batch(spec).n_epochs
    seconds = operations / (threads * GFLOPS_A_CORE * 1e9)
    hours = seconds * math.ceil(total / buffer) / 3600
    if hours > SLOW_HOURS:
        yield (
            f"without a GPU one update computes for about {seconds:,.0f} s on {threads} thread(s), "
            f"{hours:,.0f} h in all for run.total_timesteps = {total:,}{_faster(spec, machine)}"
        )


def _faster(spec: Spec, machine: Machine) -> str:
    if machine.cores == 1 or spec.run.threads is not None:
        return ""
    return f"; run.threads = {machine.cores} shortens it while no other run needs the cores"


MOST_CORES = 4096
"""Of a node whose cores nobody knows here."""

MOST_BYTES = 1 << 50
Bytes = Annotated[int, Meta(ge=0, le=MOST_BYTES)]
MOST_CLAIMS = 512
CONTEXT_BYTES = 832 * MIB
"""What CUDA, its kernels and torch's libraries take of a GPU whatever the net: of an H100 612 MiB before the first
tensor, and 210 more once it trains; less of a smaller GPU.
"""
_COPIES_ON_GPU = 2.3
"""Of what an update holds at once: captured gradient steps keep their own memory. `fast`, `heavy` and `beast` took 906,
1,106 and 1,640 MiB of that card.
"""


class Claim(Struct, frozen=True, kw_only=True):
    """One run: cores it keeps busy, and bytes it was promised, of which it holds some; `gpu` is a UUID."""

    cores: Annotated[int, Meta(ge=0, le=4096)] = 0
    ram_bytes: Bytes = 0
    ram_held_bytes: Bytes = 0
    gpu: Annotated[str, Meta(max_length=80)] = ""
    vram_bytes: Bytes = 0
    vram_held_bytes: Bytes = 0


class Reservations(Struct, frozen=True, kw_only=True):
    """All claims of one supervisor, which is told from a later process of its number by boot and start time (ticks)."""

    boot_id: Annotated[str, Meta(max_length=64)]
    pid: Annotated[int, Meta(ge=1, le=1 << 31)]
    start_time: Annotated[int, Meta(ge=0, le=1 << 62)]
    claims: Annotated[tuple[Claim, ...], Meta(max_length=MOST_CLAIMS)] = ()


class Reserved(Struct, frozen=True):
    """Claims of another living supervisor. `trusted`: its user is this one (`own`) or root, so that it may refuse a
    launch.
    """

    user: str
    trusted: bool
    claims: tuple[Claim, ...]
    own: bool = False


def claim_for(spec: Spec, cores: int, gpu: str | None, seen: Peak | None = None) -> Claim:
    """What a run of `spec` on `cores` cores is going to take; `gpu` (UUID) is the one it may use.

    That is what was `seen` of runs like it, else an estimate. Of a command nothing is known but its keeper then.
    """
    if spec.run.command is not None:
        return Claim(cores=busy_cores(spec, cores), ram_bytes=KEEPER_BYTES if seen is None else seen.rss_bytes)
    memory = estimate_memory(spec, cores)
    ram = memory.total_bytes if seen is None else seen.rss_bytes
    claim = Claim(cores=busy_cores(spec, cores), ram_bytes=min(ram, MOST_BYTES))
    if gpu is None:
        return claim
    vram = CONTEXT_BYTES + int(_COPIES_ON_GPU * memory.tensor_bytes)
    if seen is not None and seen.vram_bytes is not None:
        vram = seen.vram_bytes
    return structs.replace(claim, gpu=gpu, vram_bytes=min(vram, MOST_BYTES))


def claim_with_usage(claim: Claim, *, trains: bool, held_bytes: int, vram_held_bytes: int | None) -> Claim:
    """The claim of a run that holds so much now; once it `trains`, what it holds is all that it will take.

    None is not known: the estimate stays.
    """
    ram = held_bytes if trains else max(claim.ram_bytes, held_bytes)
    vram, held = claim.vram_bytes, vram_held_bytes or 0
    if vram_held_bytes is not None:
        vram = held if trains else max(vram, held)
    return structs.replace(
        claim, ram_bytes=ram, ram_held_bytes=min(held_bytes, ram), vram_bytes=vram, vram_held_bytes=min(held, vram)
    )


def outstanding_ram(claims: Sequence[Claim]) -> int:
    """Bytes of memory that these runs will still take."""
    return sum(max(0, claim.ram_bytes - claim.ram_held_bytes) for claim in claims)


def outstanding_vram(claims: Sequence[Claim], gpu: str) -> int:
    """Bytes of the GPU's memory that these runs will still take."""
    return sum(max(0, claim.vram_bytes - claim.vram_held_bytes) for claim in claims if claim.gpu == gpu)


class ReferenceSpeed(Struct, frozen=True, kw_only=True):
    """How fast runs of these settings were, by the median over `runs` of them, of which the newest is called `name` and
    was so at unix time `t`; `differs` are the settings that are others here. Half of the updates of each and more had
    `low_steps_per_s` to `high_steps_per_s`.

    `start_s` is from its attempt's start to its first rollout; None where that is not on record any more.
    """

    name: str
    t: float
    steps_per_s: float
    start_s: float | None = None
    differs: tuple[str, ...] = ()
    low_steps_per_s: float | None = None
    high_steps_per_s: float | None = None
    runs: int = 1


class Cost(Struct, frozen=True, kw_only=True):
    """One run's: bytes it will take at most, as `seen` of runs like it or by estimate, and `cores` it keeps busy.

    `vram_bytes` is None for one that uses no GPU. `gpu` is the number of that on which it would begin now, unless it
    `waits`, which is a sentence that goes on after its name. Without a `pace` nothing like it has trained here.
    """

    ram_bytes: int
    ram_seen: bool = False
    vram_bytes: int | None = None
    vram_seen: bool = False
    cores: int = 1
    gpu: int | None = None
    waits: str = ""
    pace: ReferenceSpeed | None = None


def cost_of(
    claim: Claim, peak: Peak | None, pace: ReferenceSpeed | None, *, gpu: int | None = None, waits: str = ""
) -> Cost:
    """What the run of `claim` costs; `peak` is what runs of its shape were seen to take, if any were."""
    return Cost(
        ram_bytes=claim.ram_bytes,
        ram_seen=peak is not None,
        vram_bytes=claim.vram_bytes if claim.gpu else None,
        vram_seen=peak is not None and peak.vram_bytes is not None,
        cores=claim.cores,
        gpu=gpu,
        waits=waits,
        pace=pace,
    )


def estimated_cost(
    spec: Spec, cores: int, peak: Peak | None = None, pace: ReferenceSpeed | None = None, *, driver: bool
) -> Cost:
    """The cost of a run of `spec` without asking the machine, so it is left open on which GPU it would be.

    `driver`: whether the machine, of `cores` cores, has one for GPUs.
    """
    wants = driver and spec.run.command is None and spec.run.device != "cpu"
    return cost_of(claim_for(spec, cores, "any" if wants else None, peak), peak, pace)


def claim_elsewhere(spec: Spec, peak: Peak | None = None) -> Claim:
    """What a run of `spec` will take of the node that its engine gives it; a GPU where it is to have one."""
    wants = spec.run.command is None and spec.run.device.startswith("cuda")
    return claim_for(spec, MOST_CORES, "any" if wants else None, peak)


def first_update_s(spec: Spec, pace: ReferenceSpeed | None) -> float | None:
    """Seconds from the start of a run of `spec` to the end of its first update."""
    if pace is None or pace.start_s is None:
        return None
    return pace.start_s + rollout_size(spec) / pace.steps_per_s


def whole_run_s(spec: Spec, pace: ReferenceSpeed | None) -> float | None:
    """Seconds that a run of `spec` trains: its budget in whole updates at `pace`, or the time that it asks for."""
    if spec.run.duration_s is not None:
        return spec.run.duration_s
    if pace is None or spec.run.total_timesteps is None:
        return None
    return _steps(spec) / pace.steps_per_s


def whole_run_range_s(spec: Spec, pace: ReferenceSpeed | None) -> tuple[float, float] | None:
    """Between what the seconds of `whole_run_s` lie; None where they are given, or nothing is known of it."""
    if spec.run.duration_s is not None or spec.run.total_timesteps is None or pace is None:
        return None
    if pace.low_steps_per_s is None or pace.high_steps_per_s is None:
        return None
    return _steps(spec) / pace.high_steps_per_s, _steps(spec) / pace.low_steps_per_s


def _steps(spec: Spec) -> int:
    """The budget in whole updates."""
    rollout = rollout_size(spec)
    return math.ceil((spec.run.total_timesteps or 0) / rollout) * rollout
