"""Which algorithm a spec names, which policies it has, which engine carries it, and what it cannot be given: those of
the PPO family, which share a table, and the others (`sb3_algorithms`), which have one each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from mission_tui.errors import nearest
from mission_tui.fleet.specs import sb3_algorithms
from mission_tui.fleet.specs.quantity import format_quantity
from mission_tui.fleet.specs.spec import Algo, Engine, PpoSpec, Schedule, Spec, other_settings

POLICIES: Mapping[Algo, tuple[str, ...]] = {
    "ppo": sb3_algorithms.FEEDFORWARD,
    "maskable_ppo": sb3_algorithms.FEEDFORWARD,
    "recurrent_ppo": ("MlpLstmPolicy", "CnnLstmPolicy", "MultiInputLstmPolicy"),
}
"""The names that SB3 and sb3-contrib know; each algorithm takes ``module:Class`` besides."""

_LSTM_HIDDEN, _LSTM_LAYERS = 256, 1
"""What sb3-contrib builds unless `ppo.policy_kwargs` says otherwise."""


_SB3_NET = (64, 64)
_OTHER_NETS: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "sac": ((256, 256), (256, 256)),
    "tqc": ((256, 256), (256, 256)),
    "crossq": ((256, 256), (1024, 1024)),
    "td3": ((400, 300), (400, 300)),
    "ddpg": ((400, 300), (400, 300)),
}
"""Layers of actor and critic where nobody wrote them, of the algorithms that have others than PPO's."""


def engine_of(spec: Spec) -> Engine:
    """The engine that trains `spec`: what `run.engine` says, except that only PPO itself has a fast one."""
    return spec.run.engine if spec.ppo.algo == "ppo" else "stock"


def algorithm_name(spec: Spec) -> str:
    """What trains `spec`: "ppo", "maskable_ppo", "sac", ..."""
    other = sb3_algorithms.other_algorithm(spec.run.algo)
    return spec.ppo.algo if other is None else other.name


def learning_table(spec: Spec) -> tuple[str, PpoSpec | sb3_algorithms.AlgorithmSpec]:
    """The table of the algorithm that trains `spec`, and its settings. All have `learning_rate` and a policy."""
    other = sb3_algorithms.other_algorithm(spec.run.algo)
    settings = other_settings(spec)
    return ("ppo", spec.ppo) if other is None or settings is None else (other.name, settings)


def towers(spec: Spec) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The widths of the layers between, of the actor and of the critic or the action values; SB3's own of ``MlpPolicy``
    where nobody wrote them.
    """
    name, settings = learning_table(spec)
    actor, critic = _OTHER_NETS.get(name, (_SB3_NET, _SB3_NET))
    arch = settings.net_arch
    if arch is None:
        return actor, critic
    if not isinstance(arch, dict):
        return arch, arch
    if name == "ppo":
        actor = critic = ()
    return arch.get("pi", actor), arch.get("qf", arch.get("vf", critic))


def discount_of(spec: Spec) -> float | None:
    """The `gamma` of the algorithm that trains `spec`; None for ARS, which adds rewards up as they are."""
    return getattr(learning_table(spec)[1], "gamma", None)


def replay_buffer_of(spec: Spec) -> sb3_algorithms.OffPolicySpec | None:
    """The settings of the replay buffer that `spec` learns from; None where it has none."""
    settings = other_settings(spec)
    return settings if isinstance(settings, sb3_algorithms.OffPolicySpec) else None


def keeps_replay_buffer(spec: Spec) -> bool:
    """Whether the replay buffer of `spec` is in its checkpoints."""
    return replay_buffer_of(spec) is not None and spec.keep.checkpoint.replay_buffer is not False


def lstm_shape(spec: Spec) -> tuple[int, int] | None:
    """Hidden units and layers of each of a recurrent policy's two LSTMs; None for policies without memory."""
    if spec.ppo.algo != "recurrent_ppo" or sb3_algorithms.other_algorithm(spec.run.algo) is not None:
        return None
    kwargs = spec.ppo.policy_kwargs
    sizes = kwargs.get("lstm_hidden_size", _LSTM_HIDDEN), kwargs.get("n_lstm_layers", _LSTM_LAYERS)
    # What is no size is refused where the policy is built.
    hidden, layers = (size if isinstance(size, int) and size > 0 else 1 for size in sizes)
    return hidden, layers


def algorithm_complaints(spec: Spec) -> Iterator[tuple[tuple[str, ...], str]]:
    """Keys that contradict `ppo.algo`, the one to change first in front, and a sentence with what is valid instead."""
    yield from _policy(spec)
    algo, run = spec.ppo.algo, spec.run
    if algo == "ppo":
        return
    alone = f"needs the fast engine, which trains ppo alone, and ppo.algo = '{algo}'; the nearest valid value is"
    if run.precision != "fp32":
        said = f"run.precision = '{run.precision}' {alone} run.precision = 'fp32'"
        yield ("run.precision", "ppo.algo"), said
    if run.compile:
        yield ("run.compile", "ppo.algo"), f"run.compile = true {alone} run.compile = false"
    if algo == "maskable_ppo" and spec.ppo.use_sde:
        yield (
            ("ppo.use_sde", "ppo.algo"),
            (
                "ppo.use_sde = true explores continuous actions, and ppo.algo = 'maskable_ppo' has discrete ones; "
                "the nearest valid value is ppo.use_sde = false"
            ),
        )


def _policy(spec: Spec) -> Iterator[tuple[tuple[str, ...], str]]:
    policy, algo = spec.ppo.policy, spec.ppo.algo
    valid = POLICIES[algo]
    if policy in valid or ":" in policy:
        return
    other = next((name for name, policies in POLICIES.items() if policy in policies), None)
    keys = ("ppo.policy",) if other is None else ("ppo.policy", "ppo.algo")
    whose = "" if algo == "ppo" and other is None else f" with ppo.algo = '{algo}'"
    hint = nearest(policy[:40], valid)
    if other == "recurrent_ppo":
        hint = f"; {policy} is for ppo.algo = 'recurrent_ppo'"
    yield (
        keys,
        f"ppo.policy = {format_quantity(policy)} must be one of {', '.join(valid)}, or module:Class{whose}{hint}",
    )


_AUTO = re.compile(r"auto(_\d+(\.\d+)?)?", re.ASCII)
_OF_PPO = ("precision", "compile", "auto_scale")
"""Fields of `run` that only PPO obeys, and what every other algorithm has there."""


def complaints_about_unused_tables(spec: Spec) -> Iterator[tuple[tuple[str, ...], str]]:
    """Tables of algorithms that `run.algo` does not name: what they say would have no effect."""
    other = sb3_algorithms.other_algorithm(spec.run.algo)
    for name in sb3_algorithms.OTHERS:
        if getattr(spec, name) is not None and (other is None or name != other.name):
            now = "PPO" if other is None else f"run.algo = '{other.name}'"
            yield (name, "run.algo"), f"[{name}] has no effect with {now}; write algo = '{name}' to train with it"
    if other is not None and spec.ppo != PpoSpec():
        default = PpoSpec()
        written = next(key for key in default.__struct_fields__ if getattr(spec.ppo, key) != getattr(default, key))
        there = written in other.table.__struct_fields__
        near = f"the nearest valid key is {other.name}.{written}" if there else f"[{other.name}] has no such setting"
        yield (f"ppo.{written}", "run.algo"), f"ppo.{written} has no effect with run.algo = '{other.name}'; {near}"


def other_complaints(spec: Spec, other: sb3_algorithms.OtherAlgorithm) -> Iterator[tuple[tuple[str, ...], str]]:
    """What contradicts itself in the table of `other`, which trains `spec`."""
    name, settings = other.name, other_settings(spec)
    assert settings is not None
    for field, usual in zip(_OF_PPO, ("fp32", False, False), strict=True):
        if getattr(spec.run, field) != usual:
            value = f"'{usual}'" if isinstance(usual, str) else str(usual).lower()
            said = f"run.{field} is for PPO alone, and run.algo = '{name}'; the nearest valid value is {value}"
            yield (f"run.{field}", "run.algo"), said
    yield from _other_policy(settings, other)
    for field in other.scheduled:
        yield from _schedule(f"{name}.{field}", getattr(settings, field))
    ent_coef = getattr(settings, "ent_coef", None)
    if isinstance(ent_coef, str) and not _AUTO.fullmatch(ent_coef):
        said = f"{name}.ent_coef = {format_quantity(ent_coef)} must be a number, 'auto' or such as 'auto_0.1'"
        yield (f"{name}.ent_coef",), f"{said}; the nearest valid value is 'auto'"
    if isinstance(settings, sb3_algorithms.OffPolicySpec):
        yield from _replaying(spec, settings, name)
    elif isinstance(settings, sb3_algorithms.OnPolicySpec) and spec.env.n_envs * settings.n_steps < 2:
        yield (f"{name}.n_steps",), f"{name}.n_steps = 1 leaves nothing to compare; the nearest valid value is 2"
    elif isinstance(settings, sb3_algorithms.ArsSpec):
        yield from _searching(spec, settings)


def _schedule(key: str, value: object) -> Iterator[tuple[tuple[str, ...], str]]:
    if not isinstance(value, Schedule):
        return
    for end in ("start", "end"):
        if key.endswith(".learning_rate") and getattr(value, end) > 1.0:
            yield (key,), f"{key}.{end} must be at most 1; that is the nearest"
    if value.start == value.end == 0.0:
        yield (key,), f"{key} is 0 from start to end; its start must be above 0"


def _searching(spec: Spec, settings: sb3_algorithms.ArsSpec) -> Iterator[tuple[tuple[str, ...], str]]:
    if spec.env.n_envs > 1:
        said = f"run.algo = 'ars' plays one episode after the other, and env.n_envs = {spec.env.n_envs}"
        yield ("env.n_envs", "run.algo"), f"{said}; the nearest valid value is env.n_envs = 1"
    if settings.n_top is not None and settings.n_top > settings.n_delta:
        said = f"ars.n_top = {settings.n_top} is more than there are perturbations (ars.n_delta = {settings.n_delta})"
        yield ("ars.n_top", "ars.n_delta"), f"{said}; the nearest valid value is {settings.n_delta}"
    if settings.net_arch is not None and settings.policy == "LinearPolicy":
        said = "ars.net_arch has no effect with LinearPolicy, which has no layers between"
        yield ("ars.net_arch", "ars.policy"), f"{said}; ars.policy = 'MlpPolicy' has"


def _replaying(spec: Spec, settings: sb3_algorithms.OffPolicySpec, name: str) -> Iterator[tuple[tuple[str, ...], str]]:
    if settings.train_freq == "episode" and spec.env.n_envs > 1:
        said = f"{name}.train_freq = 'episode' trains one environment at a time; the nearest valid is env.n_envs = 1"
        yield (f"{name}.train_freq", "env.n_envs"), said
    least = spec.env.n_envs * 2
    if settings.buffer_size < least:
        said = f"{name}.buffer_size = {settings.buffer_size} holds less than two steps of every environment"
        yield (f"{name}.buffer_size", "env.n_envs"), f"{said}; the nearest valid value is {least}"
    if settings.optimize_memory_usage and settings.n_steps > 1:
        said = f"{name}.optimize_memory_usage and {name}.n_steps = {settings.n_steps} exclude each other"
        yield (f"{name}.optimize_memory_usage", f"{name}.n_steps"), f"{said}; the nearest valid value is false"


def _other_policy(
    settings: sb3_algorithms.AlgorithmSpec, other: sb3_algorithms.OtherAlgorithm
) -> Iterator[tuple[tuple[str, ...], str]]:
    name, policy, arch = other.name, settings.policy, settings.net_arch
    if policy not in other.policies and ":" not in policy:
        hint = nearest(policy[:40], other.policies)
        valid = ", ".join(other.policies)
        said = f"{name}.policy = {format_quantity(policy)} must be one of {valid}, or module:Class{hint}"
        yield (f"{name}.policy",), said
    for tower in arch if isinstance(arch, dict) else ():
        if tower not in other.towers:
            valid = f"valid here: {', '.join(other.towers)}" if other.towers else "it takes a list, such as [256, 256]"
            yield (f"{name}.net_arch",), f"unknown key {name}.net_arch.{tower[:60]!r}; {valid}"
    if isinstance(arch, dict) and arch.keys() < set(other.towers):
        lacking = next(tower for tower in other.towers if tower not in arch)
        yield (f"{name}.net_arch",), f"{name}.net_arch says nothing of {lacking}; give both, or a list for both"
    if arch is not None and "net_arch" in settings.policy_kwargs:
        said = f"{name}.policy_kwargs.net_arch and {name}.net_arch exclude each other; keep {name}.net_arch"
        yield (f"{name}.policy_kwargs", f"{name}.net_arch"), said
