"""The typed form of a preset and of a run's `spec.toml`: tables in SB3's own argument names, unknown keys refused.

A field that is `None` was not written by the user; "wrote the default" and "did not write" stay different, because
auto-scaling may fill only what nobody wrote. `n_steps` is per environment; the rollout buffer is `n_envs * n_steps`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, ValidationError, convert, field

from mission_tui.fleet.ranges import AboveZero, LearningRate, NonNegative, Positive, Share, Steps
from mission_tui.fleet.ranges import Schedule as Schedule
from mission_tui.fleet.specs import sb3_algorithms
from mission_tui.fleet.specs.thresholds import HealthKeep

LIVE_KEYS = (
    "ppo.learning_rate",
    "ppo.clip_range",
    "ppo.ent_coef",
    "ppo.vf_coef",
    "ppo.target_kl",
    "ppo.n_epochs",
    "ppo.max_grad_norm",
    "ppo.batch_size",
    "run.total_timesteps",
)


LAUNCHERS = ("local", "slurm", "ray")
"""Where runs can be carried out, as `run.launcher` names it; the supervisor has one of each."""

TRACKERS = ("wandb", "mlflow", "trackio", "tensorboard")
"""What a run can be passed on to, as `run.track` names it; each is an extra of that name."""

LARGEST_SEED = 2**32 - 1
"""NumPy's global generator takes no larger one, and SB3 seeds that too."""

Algo = Literal["ppo", "maskable_ppo", "recurrent_ppo"]
Engine = Literal["fast", "stock"]
Tracker = Literal["wandb", "mlflow", "trackio", "tensorboard"]
MISSION_GYM = "MissionGym-v0"
CLASSIC_CONTROL = frozenset({"CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"})
"""Gymnasium's own tasks: nothing of them has to be tried before a launch, and no state has to be proven."""
SHIPPED_MISSIONS = (None, "standard", "demo")
"""What `env.config` may be besides the path of a folder."""


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`cls` is "package.module:Name"."""

    cls: Annotated[str, Meta(min_length=1)]
    kwargs: dict[str, Any] = field(default_factory=dict)


def parse_part(written: str | Part) -> Part:
    """A class that was written by its name alone is made with nothing."""
    return Part(cls=written) if isinstance(written, str) else written


def part_words(value: object) -> str | None:
    """``pkg:Name(scale=2, inner=pkg:Other)`` for a part, or the table that one is written as; None for all else."""
    if isinstance(value, Part):
        value = {"cls": value.cls, "kwargs": value.kwargs}
    if not isinstance(value, Mapping) or "cls" not in value or not value.keys() <= {"cls", "kwargs"}:
        return None
    kwargs = value.get("kwargs") or {}
    if not isinstance(kwargs, Mapping):
        return None
    arguments = ", ".join(f"{name}={part_words(item) or item}" for name, item in kwargs.items())
    return f"{value['cls']}({arguments})" if arguments else str(value["cls"])


def schedule_words(value: object) -> str | None:
    """``0.001 → 0 linear`` for a schedule, or the table that one is written as; None for all else."""
    if isinstance(value, Mapping) and value.keys() == {"start", "end", "kind"}:
        try:
            value = convert(value, Schedule)
        except ValidationError:
            return None
    return f"{value.start:g} → {value.end:g} {value.kind}" if isinstance(value, Schedule) else None


class Normalize(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """SB3's `VecNormalize`: running mean and variance of observations and of discounted returns."""

    obs: bool = True
    reward: bool = True
    clip_obs: AboveZero = 10.0
    clip_reward: AboveZero = 10.0


class EnvSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is trained on: `id` is a Gymnasium id, `module:id` or `envpool:task`; a dash where a command runs.

    `config` is a folder of MissionGym rules or a mission. `wrappers` go around one environment, the first one nearest
    to it; around all of them come `normalize`, then `frame_stack` (how many observations are shown at once).
    """

    id: Annotated[str, Meta(min_length=1)] = "-"
    n_envs: Positive = 8
    vec: Literal["auto", "native", "inline", "split", "workers"] = "auto"
    n_workers: Positive | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)
    config: str | None = None
    wrappers: tuple[str | Part, ...] = ()
    normalize: Normalize | bool = False
    frame_stack: Annotated[int, Meta(ge=1, le=64)] | None = None
    imports: tuple[str, ...] = ()


class PpoSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """SB3's `PPO` arguments by their own names and with its defaults; `None` means not written.

    `algo` is PPO itself, or one of sb3-contrib's two that take the same arguments.
    """

    policy: str = "MlpPolicy"
    n_steps: Positive = 2048
    batch_size: Annotated[int, Meta(ge=2)] | Literal["auto"] | None = None
    n_epochs: Positive | None = None
    learning_rate: LearningRate | Schedule = 3e-4
    gamma: Share = 0.99
    gae_lambda: Share = 0.95
    clip_range: AboveZero | Schedule = 0.2
    clip_range_vf: AboveZero | Schedule | None = None
    normalize_advantage: bool = True
    ent_coef: NonNegative = 0.0
    vf_coef: NonNegative = 0.5
    max_grad_norm: AboveZero = 0.5
    use_sde: bool = False
    sde_sample_freq: Annotated[int, Meta(ge=-1, le=2**31 - 1)] = -1
    target_kl: AboveZero | None = None
    stats_window_size: Positive = 100
    net_arch: tuple[Positive, ...] | dict[str, tuple[Positive, ...]] | None = None
    policy_kwargs: dict[str, Any] = field(default_factory=dict)
    algo: Algo = "ppo"


class RunSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long, how seeded and on what part of the machine. Exactly one of `total_timesteps` and `duration_s`.

    With `command` that program is run instead of the trainer, and neither needs to be known; `resume_command` is what
    goes on from where it was. In both `{lr}` stands for the entry `lr` of `values`, and `{seed}` for `seed`. `python`,
    `cwd`, `env`, `env_file` and `pythonpath` say whose Python it is; what is not written is the launching client's.
    Values of `env` are on record, those in `env_file` never are. `grace_s` lies between SIGTERM and SIGKILL. `follow`
    names logs of a command that does not report, such as "logs/*". `callbacks` are of SB3's kind and called in order.
    `algo` names another algorithm than PPO, which has a table of its own in the spec; None is PPO.
    `launcher` says by what it is carried out, one of `LAUNCHERS`. `goal` is
    what it is to reach, a mean return or "success 80%", in place of the environment's own reward threshold.
    Without `preload` its processes are started anew, never forked off one that has loaded the libraries already.
    `track` names one of `TRACKERS` to which it is passed on, with `track_checkpoints` its checkpoints too.
    """

    total_timesteps: Steps | None = None
    duration_s: AboveZero | None = None
    seed: Annotated[int, Meta(ge=0, le=LARGEST_SEED)] | None = None
    device: str = "auto"
    threads: Positive | None = None
    auto_scale: bool = False
    engine: Engine = "fast"
    precision: Literal["fp32", "bf16"] = "fp32"
    compile: bool = False
    tf32: bool = True
    grace_s: AboveZero = 30.0
    command: tuple[str, ...] | None = None
    resume_command: tuple[str, ...] | None = None
    values: dict[str, str] = field(default_factory=dict)
    python: str | None = None
    cwd: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    env_file: str | None = None
    pythonpath: tuple[str, ...] = ()
    follow: str | None = None
    callbacks: tuple[str | Part, ...] = ()
    launcher: str = LAUNCHERS[0]
    goal: float | Annotated[str, Meta(max_length=60)] | None = None
    preload: bool = True
    algo: sb3_algorithms.RunAlgo | None = None
    track: Tracker | None = None
    track_checkpoints: bool = False


def command_key(run: RunSpec, attempt: int) -> str:
    """Which field has the command of attempt number `attempt`."""
    return "resume_command" if attempt > 1 and run.resume_command is not None else "command"


def command_words(run: RunSpec, attempt: int = 1) -> tuple[str, ...]:
    """The words of attempt number `attempt` of a command, its values and its seed in place of `{name}`; none without.

    Braces around anything else are the command's own.
    """
    words: tuple[str, ...] = getattr(run, command_key(run, attempt)) or ()
    values = run.values | ({} if run.seed is None else {"seed": str(run.seed)})
    if not values:
        return words
    places = re.compile("|".join(re.escape(f"{{{name}}}") for name in values))
    return tuple(places.sub(lambda found: values[found[0][1:-1]], word) for word in words)


DRIVER = "search of "
"""What the preset of a search's driver begins with: no preset has a name with spaces."""


def is_driver(preset: str) -> bool:
    """Whether a run of `preset` is the driver of a search, not one of its trials."""
    return preset.startswith(DRIVER)


SPREAD_BYTES = 32 * 2**20
"""A larger checkpoint stays only while it is among the newest: that of a net of some million parameters, or one with a
replay buffer."""


class CheckpointKeep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When checkpoints are taken (always at update boundaries) and how many of the newest stay; of older ones `spread`,
    from the first on, while each takes at most `SPREAD_BYTES`.

    `replay_buffer` is whether that of an off-policy algorithm is in them; not written, it is.
    """

    every_s: AboveZero = 600.0
    every_steps: Steps | None = None
    last: Annotated[int, Meta(ge=2, le=10_000)] = 3
    spread: Annotated[int, Meta(ge=0, le=1_000)] = 8
    replay_buffer: bool | None = None

    def most(self, size: int) -> int:
        """How many checkpoints of `size` bytes there are at most: those that stay, and the one that is written now."""
        return self.last + 1 + (self.spread if size <= SPREAD_BYTES else 0)


RestartAlso = Literal["config", "env", "callback", "nan", "oom", "gpu_lost", "start"]


class RestartKeep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often in a row an attempt that crashed, or ended without saying why, is followed by another by itself: never.

    The first restart waits `wait_s`, each further one twice as long. `also` names failures that are restarted besides,
    because whoever wrote it knows that they pass.
    """

    most: Annotated[int, Meta(ge=0, le=1000)] = 0
    wait_s: AboveZero = 10.0
    also: tuple[RestartAlso, ...] = ()


class LimitsKeep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must be left of the machine for the run to begin, beyond what it needs; until then it is queued.

    `disk_free` bytes on the disk of the runs root; `ram_free`, and `vram_free` of its GPU, of what no run was promised;
    `cores_free` that no run keeps busy. `runs` may live, `runs_per_gpu` on its GPU and `group_runs` of its group,
    counting it. `priority` is its place in the queue, a step for an hour of waiting. With `marginal_gain`, a share, it
    waits too while the last run to join brought less, or nobody knows yet. Without `queue` it is refused instead where
    it does not fit now.
    """

    disk_free: Annotated[int, Meta(ge=0, le=10**18)] = 0
    ram_free: Annotated[int, Meta(ge=0, le=10**18)] = 0
    vram_free: Annotated[int, Meta(ge=0, le=10**18)] = 0
    cores_free: Annotated[int, Meta(ge=0, le=4096)] = 0
    runs: Annotated[int, Meta(ge=1, le=4096)] | None = None
    runs_per_gpu: Annotated[int, Meta(ge=1, le=4096)] | None = None
    group_runs: Annotated[int, Meta(ge=1, le=4096)] | None = None
    priority: Annotated[int, Meta(ge=-1000, le=1000)] = 0
    marginal_gain: Share | None = None
    queue: bool = True


class KeepSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of a run, and what is kept an eye on. `on_reboot`: what becomes of it when the machine restarts."""

    checkpoint: CheckpointKeep = CheckpointKeep()
    restart: RestartKeep = RestartKeep()
    on_reboot: Literal["leave", "resume"] = "leave"
    health: HealthKeep = HealthKeep()
    limits: LimitsKeep = LimitsKeep()


class EvaluateSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every so many environment steps the policy is saved and played for `episodes` in a process of its own: never.

    What would cost more than `share` of the time trained is put off; None puts nothing off.
    """

    every: Steps | None = None
    episodes: Annotated[int, Meta(ge=1, le=100_000)] = 20
    deterministic: bool = True
    share: Share | None = 0.02


Word = Annotated[str, Meta(min_length=1, max_length=200)]


class SlurmSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an attempt asks of Slurm where `run.launcher` is "slurm", in the words of `sbatch`; None asks for nothing.

    `cpus` is reckoned from threads and env workers where it is None. `extra` are further words for `sbatch`. `warn_s`
    before the time limit the run saves and ends; with `requeue` it goes on in another job then, and after a lost node.
    Up to `pack` runs that ask for the same and are launched together share one job.
    """

    partition: Word | None = None
    account: Word | None = None
    qos: Word | None = None
    gres: Word | None = None
    constraint: Word | None = None
    time: Word | None = None
    mem: Word | None = None
    cpus: Positive | None = None
    extra: tuple[Word, ...] = ()
    warn_s: Annotated[int, Meta(ge=1, le=86_400)] = 120
    requeue: bool = True
    pack: Annotated[int, Meta(ge=1, le=64)] = 1


class RaySpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an attempt asks of Ray where `run.launcher` is "ray".

    `address` is the URL of its dashboard. `gpus` may be a share of one; None is one for `run.device = "cuda"`, else
    none. `cpus` and `memory`, in bytes, are reckoned as for Slurm. `resources` and `labels` are those of nodes; a label
    may be "x", "!x", "in(x,y)" or "!in(x,y)". With `autoscales` a run that has no room is handed over all the same,
    because nodes are only added for who waits there. With `requeue` it goes on in another job after a lost node.
    """

    address: Word | None = None
    gpus: NonNegative | None = None
    cpus: NonNegative | None = None
    memory: Annotated[int, Meta(ge=1, le=10**18)] | None = None
    resources: dict[str, AboveZero] = field(default_factory=dict)
    labels: dict[str, Word] = field(default_factory=dict)
    autoscales: bool = False
    requeue: bool = True


class Spec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything needed to train one run, resolved: `spec.toml` of a run directory is exactly this.

    Of the algorithms, the one that `run.algo` names has its table; without one it is `ppo`.
    `profile` says what a host profile has set, or why it has not; None where none was asked for.
    """

    preset: str
    env: EnvSpec = EnvSpec()
    ppo: PpoSpec = PpoSpec()
    run: RunSpec = RunSpec()
    keep: KeepSpec = KeepSpec()
    evaluate: EvaluateSpec = EvaluateSpec()
    slurm: SlurmSpec = SlurmSpec()
    ray: RaySpec = RaySpec()
    description: str = ""
    profile: str | None = None
    sac: sb3_algorithms.SacSpec | None = None
    td3: sb3_algorithms.Td3Spec | None = None
    ddpg: sb3_algorithms.DdpgSpec | None = None
    dqn: sb3_algorithms.DqnSpec | None = None
    a2c: sb3_algorithms.A2cSpec | None = None
    tqc: sb3_algorithms.TqcSpec | None = None
    trpo: sb3_algorithms.TrpoSpec | None = None
    qrdqn: sb3_algorithms.QrdqnSpec | None = None
    crossq: sb3_algorithms.CrossqSpec | None = None
    ars: sb3_algorithms.ArsSpec | None = None


class LaunchItem(Struct, frozen=True, kw_only=True):
    """One run to make: its resolved spec, its display name (None: made from preset and id) and its group.

    It begins once the runs that `after` means have ended. A `probe` is made to be measured: nothing of it is to stay.
    """

    spec: Spec
    name: str | None = None
    group: str | None = None
    after: tuple[str, ...] = ()
    probe: bool = False


def goes_on_elsewhere(spec: Spec) -> bool:
    """Whether a run goes on in another job where its engine ended one: at a time limit, or with a node."""
    return bool(getattr(getattr(spec, spec.run.launcher, None), "requeue", False))


def other_settings(spec: Spec) -> sb3_algorithms.AlgorithmSpec | None:
    """The settings of the algorithm that `run.algo` names; None where PPO trains."""
    other = sb3_algorithms.other_algorithm(spec.run.algo)
    if other is None:
        return None
    settings: sb3_algorithms.AlgorithmSpec | None = getattr(spec, other.name)
    return other.table() if settings is None else settings


def rollout_size(spec: Spec) -> int:
    """Transitions of one update: of PPO a rollout, `n_envs * n_steps`; of another algorithm a period."""
    other = other_settings(spec)
    return spec.env.n_envs * spec.ppo.n_steps if other is None else sb3_algorithms.period_steps(other, spec.env.n_envs)
