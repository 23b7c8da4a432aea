"""What `run.algo` may name besides PPO: algorithms of Stable-Baselines3 and sb3-contrib that are trained as they are.

Each has a table of settings of its own, which are the arguments of its class by their names and with its defaults (a
test compares them with the signature), and a description: whose class it is, which actions it takes, and whether it
learns from a replay buffer. Everybody who has to know one algorithm from another asks here.

An update of theirs is a period: whole rounds of collecting and learning until `PERIOD_STEPS` environment steps are
done. Off-policy algorithms have no other, and A2C's own rollouts are far shorter than a row is worth. A round of ARS is
one iteration: all of its candidates play, and the weights move once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct, field

from mission_tui.fleet.ranges import AboveZero, LearningRate, NonNegative, Positive, Schedule, Share

PERIOD_STEPS = 500
"""Environment steps of an update, at least: SAC does them in some five seconds on a core, DQN in half of one."""

OtherAlgo = Literal["sac", "td3", "ddpg", "dqn", "a2c", "tqc", "trpo", "qrdqn", "crossq", "ars"]
RunAlgo = Literal["ppo", "sac", "td3", "ddpg", "dqn", "a2c", "tqc", "trpo", "qrdqn", "crossq", "ars"]
_Whole = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_OrMinusOne = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
FEEDFORWARD = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")


class ActionNoise(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Noise that is added to actions (of -1 to 1) while experience is collected: `std` of each component."""

    kind: Literal["normal", "ornstein-uhlenbeck"] = "normal"
    std: AboveZero = 0.1


class AlgorithmSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every algorithm has. `net_arch` and `policy_kwargs` together are SB3's `policy_kwargs`."""

    policy: str = "MlpPolicy"
    learning_rate: LearningRate | Schedule = 3e-4
    net_arch: tuple[Positive, ...] | dict[str, tuple[Positive, ...]] | None = None
    policy_kwargs: dict[str, Any] = field(default_factory=dict)


class GradientSpec(AlgorithmSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What learns values of states or actions, by gradients: rewards that are far off count less by `gamma`."""

    gamma: Share = 0.99


class OffPolicySpec(GradientSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What learns from a replay buffer. `train_freq` is in steps of all environments at once, or "episode".

    `gradient_steps` of -1 are as many as steps were collected.
    """

    buffer_size: Positive = 1_000_000
    learning_starts: _Whole = 100
    batch_size: Positive = 256
    train_freq: Positive | Literal["episode"] = 1
    gradient_steps: _OrMinusOne = 1
    optimize_memory_usage: bool = False
    n_steps: Positive = 1


class DdpgSpec(OffPolicySpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """SB3's `DDPG`."""

    learning_rate: LearningRate | Schedule = 1e-3
    tau: Share = 0.005
    action_noise: ActionNoise | None = None


class Td3Spec(DdpgSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """SB3's `TD3`."""

    policy_delay: Positive = 2
    target_policy_noise: NonNegative = 0.2
    target_noise_clip: NonNegative = 0.5
    stats_window_size: Positive = 100


class _SoftSpec(OffPolicySpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    action_noise: ActionNoise | None = None
    ent_coef: NonNegative | str = "auto"
    target_entropy: Annotated[float, Meta(ge=-1e9, le=1e9)] | Literal["auto"] = "auto"
    use_sde: bool = False
    sde_sample_freq: _OrMinusOne = -1
    use_sde_at_warmup: bool = False
    stats_window_size: Positive = 100


class SacSpec(_SoftSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """SB3's `SAC`."""

    tau: Share = 0.005
    target_update_interval: Positive = 1


class TqcSpec(SacSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """sb3-contrib's `TQC`."""

    top_quantiles_to_drop_per_net: _Whole = 2


class CrossqSpec(_SoftSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """sb3-contrib's `CrossQ`."""

    learning_rate: LearningRate | Schedule = 1e-3
    policy_delay: Positive = 3


class DqnSpec(OffPolicySpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """SB3's `DQN`."""

    learning_rate: LearningRate | Schedule = 1e-4
    batch_size: Positive = 32
    train_freq: Positive | Literal["episode"] = 4
    tau: Share = 1.0
    target_update_interval: Positive = 10_000
    exploration_fraction: Share = 0.1
    exploration_initial_eps: Share = 1.0
    exploration_final_eps: Share = 0.05
    max_grad_norm: AboveZero = 10.0
    stats_window_size: Positive = 100


class QrdqnSpec(DqnSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """sb3-contrib's `QRDQN`."""

    learning_rate: LearningRate | Schedule = 5e-5
    exploration_fraction: Share = 0.005
    exploration_final_eps: Share = 0.01
    max_grad_norm: AboveZero | None = None  # type: ignore[assignment]  # SB3 clips where contrib does not


class OnPolicySpec(GradientSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What learns from a rollout and throws it away."""

    n_steps: Positive = 5
    gae_lambda: Share = 1.0
    normalize_advantage: bool = False
    use_sde: bool = False
    sde_sample_freq: _OrMinusOne = -1
    stats_window_size: Positive = 100


class A2cSpec(OnPolicySpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """SB3's `A2C`."""

    learning_rate: LearningRate | Schedule = 7e-4
    ent_coef: NonNegative = 0.0
    vf_coef: NonNegative = 0.5
    max_grad_norm: AboveZero = 0.5
    rms_prop_eps: AboveZero = 1e-5
    use_rms_prop: bool = True


class TrpoSpec(OnPolicySpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """sb3-contrib's `TRPO`."""

    learning_rate: LearningRate | Schedule = 1e-3
    n_steps: Positive = 2048
    batch_size: Positive = 128
    gae_lambda: Share = 0.95
    normalize_advantage: bool = True
    cg_max_steps: Positive = 15
    cg_damping: NonNegative = 0.1
    line_search_shrinking_factor: Share = 0.8
    line_search_max_iter: Positive = 10
    n_critic_updates: Positive = 10
    target_kl: AboveZero = 0.01
    sub_sampling_factor: Positive = 1


class ArsSpec(AlgorithmSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """sb3-contrib's `ARS`: in each iteration `n_delta` perturbations of the weights, of deviation `delta_std`, are
    played in both directions, `n_eval_episodes` each, and the best `n_top` of them (None: all) move the weights.
    """

    policy: str = "LinearPolicy"
    learning_rate: LearningRate | Schedule = 0.02
    n_delta: Positive = 8
    n_top: Positive | None = None
    delta_std: AboveZero | Schedule = 0.05
    zero_policy: bool = True
    alive_bonus_offset: Annotated[float, Meta(ge=-1e9, le=1e9)] = 0.0
    n_eval_episodes: Positive = 1
    stats_window_size: Positive = 100


class OtherAlgorithm(Struct, frozen=True):
    """`name` is what `run.algo` and its table are called, `called` its class in `package`.

    `actions` are the kinds of Gymnasium spaces that it can act in, `towers` the names that `net_arch` may have apart.
    """

    name: OtherAlgo
    called: str
    table: type[AlgorithmSpec]
    package: Literal["stable_baselines3", "sb3_contrib"]
    actions: tuple[str, ...]
    towers: tuple[str, ...] = ()
    policies: tuple[str, ...] = FEEDFORWARD

    @property
    def off_policy(self) -> bool:
        """Whether it learns from a replay buffer."""
        return issubclass(self.table, OffPolicySpec)

    @property
    def borrowed(self) -> bool:
        """Whether it needs sb3-contrib."""
        return self.package == "sb3_contrib"

    @property
    def scheduled(self) -> tuple[str, ...]:
        """Fields that may be a schedule, and the only ones that can be set while it trains."""
        return tuple(name for name in SCHEDULED if name in self.table.__struct_fields__)


_ANY = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
_ACTOR = ("pi", "qf")
OTHERS: Mapping[OtherAlgo, OtherAlgorithm] = {
    it.name: it
    for it in (
        OtherAlgorithm("sac", "SAC", SacSpec, "stable_baselines3", ("Box",), _ACTOR),
        OtherAlgorithm("td3", "TD3", Td3Spec, "stable_baselines3", ("Box",), _ACTOR),
        OtherAlgorithm("ddpg", "DDPG", DdpgSpec, "stable_baselines3", ("Box",), _ACTOR),
        OtherAlgorithm("dqn", "DQN", DqnSpec, "stable_baselines3", ("Discrete",)),
        OtherAlgorithm("a2c", "A2C", A2cSpec, "stable_baselines3", _ANY, ("pi", "vf")),
        OtherAlgorithm("tqc", "TQC", TqcSpec, "sb3_contrib", ("Box",), _ACTOR),
        OtherAlgorithm("trpo", "TRPO", TrpoSpec, "sb3_contrib", _ANY, ("pi", "vf")),
        OtherAlgorithm("qrdqn", "QRDQN", QrdqnSpec, "sb3_contrib", ("Discrete",)),
        OtherAlgorithm("crossq", "CrossQ", CrossqSpec, "sb3_contrib", ("Box",), _ACTOR, ("MlpPolicy",)),
        OtherAlgorithm("ars", "ARS", ArsSpec, "sb3_contrib", ("Box", "Discrete"), (), ("LinearPolicy", "MlpPolicy")),
    )
}
assert ("ppo", *OTHERS) == get_args(RunAlgo)

SCHEDULED = ("learning_rate", "delta_std")
"""Fields of any of them that may be a schedule."""


def other_algorithm(name: str | None) -> OtherAlgorithm | None:
    """The algorithm of that `run.algo`; None for PPO and where nothing was written."""
    return OTHERS.get(name) if name is not None else None  # type: ignore[call-overload]


def plays_episodes(settings: AlgorithmSpec) -> bool:
    """Whether a round is of whole episodes, so that `period_steps` are only the least that an update has."""
    return isinstance(settings, ArsSpec) or getattr(settings, "train_freq", None) == "episode"


def round_steps(settings: AlgorithmSpec, n_envs: int) -> int:
    """Environment steps of one round of collecting; of whole episodes it is not known, and counts as one step each."""
    if isinstance(settings, ArsSpec):
        return 2 * settings.n_delta * settings.n_eval_episodes
    if isinstance(settings, OnPolicySpec):
        return n_envs * settings.n_steps
    assert isinstance(settings, OffPolicySpec)
    return n_envs * (1 if settings.train_freq == "episode" else settings.train_freq)


def period_steps(settings: AlgorithmSpec, n_envs: int) -> int:
    """Environment steps of one update: whole rounds of collecting that make at least `PERIOD_STEPS`."""
    steps = round_steps(settings, n_envs)
    return -(-PERIOD_STEPS // steps) * steps


def gradient_steps(settings: AlgorithmSpec, n_envs: int) -> int:
    """Gradient steps of one update of `period_steps`, once it learns."""
    rounds = period_steps(settings, n_envs) // round_steps(settings, n_envs)
    if isinstance(settings, TrpoSpec):
        return rounds * settings.n_critic_updates * -(-n_envs * settings.n_steps // settings.batch_size)
    if not isinstance(settings, OffPolicySpec):
        return rounds
    if settings.gradient_steps < 0:
        return rounds * round_steps(settings, n_envs)
    return rounds * settings.gradient_steps
