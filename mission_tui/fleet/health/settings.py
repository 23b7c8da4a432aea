"""What rules know of the settings of a run, of ours or of another program, and of the algorithm that wrote a log. None
is not known, and is never guessed.

An algorithm is told by the tags that it alone writes. Stable-Baselines3 and sb3-contrib name the same thing alike
everywhere, so a tag tells an algorithm or its near kin: SAC cannot be told from TQC, nor DQN from QR-DQN. What is
known of PPO's updates says nothing about another algorithm, so there only the rules of this table judge.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import mul

from msgspec import Struct
from msgspec.structs import replace

from mission_tui.fleet.events.metrics import Resumed, TrainingStarted
from mission_tui.fleet.specs import spec as specs
from mission_tui.fleet.specs.algorithm import discount_of, learning_table
from mission_tui.fleet.specs.sb3_algorithms import AlgorithmSpec, OnPolicySpec
from mission_tui.fleet.specs.sizes import plan_batch

SMALL_NET = 256 * 256
"""Weights between hidden layers: two layers of 256 units."""


class Settings(Struct, frozen=True, kw_only=True):
    """`ours` is whether the built-in trainer trains, so that `--set` reaches it; `command` is what runs in its place.

    `algo` is the table of `--set` with the settings of its algorithm, whose names rules say as those of PPO.
    `rollout` is in transitions, `gradient_steps` per update; SB3's names mean what they mean there.

    `checkpoint_every_s` is how often a checkpoint is due. `clip_range` is that of the start, and `clip_range_decays`
    whether a schedule is known to narrow it.
    `reduced_precision` is whether products may be rounded to fewer than 24 bits (TF32, bf16);
    `reward_threshold` and `max_episode_steps` are what the environment's own registration says, `shaping` what the
    preset says of MissionGym's rewards. `vec` and `device` are what the preset says, `in_use` what the trainer said
    that came of them; `batched` is whether the environment is one that can be stepped as one batch, `small_net` whether
    the policy is an MLP that a CPU computes as soon as it has been asked.
    """

    ours: bool = False
    algo: str = "ppo"
    command: tuple[str, ...] = ()
    env_id: str = ""
    shaping: str | None = None
    total_timesteps: int | None = None
    rollout: int | None = None
    learning_rate: float | specs.Schedule | None = None
    batch_size: int | None = None
    n_epochs: int | None = None
    gradient_steps: int | None = None
    clip_range: float = 0.2
    clip_range_decays: bool = False
    target_kl: float | None = None
    ent_coef: float | None = None
    vf_coef: float | None = None
    gamma: float | None = None
    max_grad_norm: float = 0.5
    normalize_reward: bool | None = None
    normalize_obs: bool | None = None
    use_sde: bool = False
    reduced_precision: bool = False
    stats_window: int = 100
    checkpoint_every_s: float | None = None
    reward_threshold: float | None = None
    max_episode_steps: int | None = None
    n_envs: int | None = None
    n_steps: int | None = None
    vec: str | None = None
    device: str | None = None
    threads: int | None = None
    batched: bool = False
    small_net: bool = False
    in_use: tuple[str, str] = ("", "")
    resumed: Resumed | None = None

    @property
    def budget(self) -> int | None:
        """Updates of the whole training."""
        return None if not self.total_timesteps or not self.rollout else max(1, self.total_timesteps // self.rollout)

    @property
    def starting_rate(self) -> float | None:
        """The learning rate of the first update; of a schedule, its start."""
        return self.learning_rate.start if isinstance(self.learning_rate, specs.Schedule) else self.learning_rate

    def with_env(self, record: TrainingStarted) -> Settings:
        """With what the trainer said of the environment, of the machine, and of the resume, when it began."""
        return replace(
            self,
            reward_threshold=record.reward_threshold,
            max_episode_steps=record.max_episode_steps,
            in_use=(record.vec, record.device),
            resumed=record.resumed,
        )


def settings_of(spec: specs.Spec, total_timesteps: int | None = None) -> Settings:
    """The settings that `spec` trains with; `total_timesteps` is a resumed attempt's own budget.

    Those of a command are its own affair, so nothing of them is known.
    """
    if spec.run.command is not None:
        return Settings(command=spec.run.command, total_timesteps=total_timesteps or spec.run.total_timesteps)
    normalize, other = spec.env.normalize, specs.other_settings(spec)
    known = Settings(
        ours=True,
        env_id=spec.env.id,
        shaping=_shaping(spec),
        total_timesteps=total_timesteps or spec.run.total_timesteps,
        rollout=specs.rollout_size(spec),
        normalize_reward=normalize if isinstance(normalize, bool) else normalize.reward,
        normalize_obs=normalize if isinstance(normalize, bool) else normalize.obs,
        # On CUDA the trainer multiplies in TF32, and "auto" may be CUDA.
        reduced_precision=spec.run.device != "cpu",
        checkpoint_every_s=spec.keep.checkpoint.every_s,
        n_envs=spec.env.n_envs,
        vec=spec.env.vec,
        device=spec.run.device,
        threads=spec.run.threads,
        batched=spec.env.id.rpartition(":")[2] == specs.MISSION_GYM and not spec.env.wrappers,
    )
    return _with_ppo(known, spec) if other is None else _with_other(known, spec, other)


def _with_ppo(known: Settings, spec: specs.Spec) -> Settings:
    plan, ppo = plan_batch(spec), spec.ppo
    return replace(
        known,
        learning_rate=ppo.learning_rate,
        batch_size=plan.batch_size,
        n_epochs=plan.n_epochs,
        gradient_steps=plan.gradient_steps,
        clip_range=ppo.clip_range.start if isinstance(ppo.clip_range, specs.Schedule) else ppo.clip_range,
        clip_range_decays=isinstance(ppo.clip_range, specs.Schedule) and ppo.clip_range.end < ppo.clip_range.start,
        target_kl=ppo.target_kl,
        ent_coef=ppo.ent_coef,
        vf_coef=ppo.vf_coef,
        gamma=ppo.gamma,
        max_grad_norm=ppo.max_grad_norm,
        use_sde=ppo.use_sde,
        stats_window=ppo.stats_window_size,
        n_steps=ppo.n_steps,
        small_net=ppo.policy == "MlpPolicy" and _weights(ppo) <= SMALL_NET,
    )


def _with_other(known: Settings, spec: specs.Spec, other: AlgorithmSpec) -> Settings:
    """With what the rules that fit another algorithm ask for. A clip range or epochs it has none."""
    plan = plan_batch(spec)
    # A weight of the entropy as PPO has it; SAC calls its temperature so, and has usual values of its own.
    ent_coef = getattr(other, "ent_coef", None) if isinstance(other, OnPolicySpec) else None
    return replace(
        known,
        algo=learning_table(spec)[0],
        learning_rate=other.learning_rate,
        batch_size=plan.batch_size,
        gradient_steps=plan.gradient_steps,
        ent_coef=ent_coef if isinstance(ent_coef, float) else None,
        gamma=discount_of(spec),
        use_sde=getattr(other, "use_sde", False),
        stats_window=getattr(other, "stats_window_size", 100),
    )


def _weights(ppo: specs.PpoSpec) -> int:
    """The weights between hidden layers of the widest of the policy's towers."""
    arch = ppo.net_arch if ppo.net_arch is not None else (64, 64)
    towers = arch.values() if isinstance(arch, dict) else (arch,)
    return max((sum(map(mul, tower, tower[1:])) for tower in towers), default=0)


def _shaping(spec: specs.Spec) -> str | None:
    """MissionGym's shaping: the argument, or the rewards that are overridden, or that of the shipped missions."""
    said = spec.env.kwargs.get("shaping")
    overrides = spec.env.kwargs.get("overrides")
    rewards = overrides.get("rewards") if isinstance(overrides, dict) else None
    if said is None and isinstance(rewards, dict):
        said = rewards.get("shaping")
    if said is None and spec.env.config in specs.SHIPPED_MISSIONS:
        said = "best_so_far"
    return said if isinstance(said, str) else None


PPO = "PPO"
UNKNOWN = "unknown"
"""A log of returns alone, which any algorithm may have written."""

OF_ANY = ("hang", "nan", "checkpoint-age", "throughput", "drawdown", "stall", "plateau")
"""What every training has: a clock, numbers that have to be finite, a return and the length of its episodes."""

OF_CRITICS = (*OF_ANY, "value-loss")


class Algorithm(Struct, frozen=True):
    """`tags` are written by it or its `kin` alone, and `rules` fit it."""

    name: str
    tags: tuple[str, ...]
    rules: tuple[str, ...] = OF_CRITICS
    kin: tuple[str, ...] = ()


OTHERS = (
    Algorithm("DQN", ("rollout/exploration_rate",), kin=("QRDQN",)),
    Algorithm("SAC", ("train/ent_coef",), (*OF_CRITICS, "ent-coef"), kin=("TQC", "CrossQ")),
    Algorithm("TD3", ("train/actor_loss", "train/critic_loss"), kin=("DDPG",)),
    Algorithm("TRPO", ("train/policy_objective",)),
    Algorithm("A2C", ("train/policy_loss",)),
    Algorithm("ARS", ("train/step_size",), OF_ANY),
)
"""In the order in which they are asked: SAC has the tags of TD3 too."""

RETURNS_ALONE = Algorithm(UNKNOWN, (), OF_ANY)
"""What stands for any algorithm where a log has returns and nothing that was learned."""

_OF_PPO = frozenset(("train/approx_kl", "train/clip_fraction", "train/clip_range", "train/policy_gradient_loss"))
TELLING: frozenset[str] = _OF_PPO.union(*(algorithm.tags for algorithm in OTHERS))
"""The tags that tell an algorithm."""


_OF_SB3 = TELLING | {
    "train/entropy_loss", "train/explained_variance", "train/n_updates", "train/std", "train/value_loss"
}  # fmt: skip


def is_of_no_known_algorithm(tags: Collection[str]) -> bool:
    """Whether `tags` are those of no algorithm of Stable-Baselines3: any trainer of nets writes `train/loss`."""
    return _OF_SB3.isdisjoint(tags)


class RecognizedAlgorithm(Struct, frozen=True):
    """`algorithm` is None where PPO wrote it; `tag` is the one that shows it."""

    algorithm: Algorithm | None
    tag: str


def recognize_algorithm(tags: Collection[str]) -> RecognizedAlgorithm | None:
    """Who wrote a log with `tags`; None where they tell nothing."""
    if ours := min(_OF_PPO.intersection(tags), default=""):
        return RecognizedAlgorithm(None, ours)
    found = ((algorithm, tag) for algorithm in OTHERS for tag in algorithm.tags if tag in tags)
    return next((RecognizedAlgorithm(algorithm, tag) for algorithm, tag in found), None)


def other_called(name: str) -> Algorithm | None:
    """The algorithm, or the one whose kin is called, `name` in Stable-Baselines3, whatever the case."""
    plain = name.lower().replace("-", "").replace("_", "")
    return next((it for it in OTHERS if plain in (it.name.lower(), *map(str.lower, it.kin))), None)


def critic_loss(metrics: Mapping[str, float]) -> str | None:
    """The tag of the value function's loss in a row; None where it has none."""
    for tag in ("train/value_loss", "train/critic_loss"):
        if tag in metrics:
            return tag
    return "train/loss" if "rollout/exploration_rate" in metrics and "train/loss" in metrics else None
