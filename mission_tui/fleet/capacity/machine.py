"""Whether a machine can carry a run: hard lacks that must keep it from starting, and warnings with numbers.

The memory estimate is arithmetic over the spec, checked against two measured SB3 runs (64 x 512 with 1024-512-512-256:
702 MiB against 690 estimated; 2,048 x 64 with 64-64: 398 against 471). What it cannot know, it takes as an argument.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

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
