"""``python -m mission_tui.trainer.checking.preflight``: can this spec be trained here? JSON on stdin, JSON lines back.

Modules that the spec names are imported first, so that a broken one is named by its key. Well-known environments are
answered from a table without importing gymnasium; nothing here imports torch by itself, but for a Python that
`run.python` names. What is done is said before it is done, because foreign code may crash.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from mission_tui.errors import MissionError, PresetError, raised_by
from mission_tui.fleet.specs.algorithm import algorithm_name, learning_table
from mission_tui.fleet.specs.spec import MISSION_GYM, EnvSpec, Spec
from mission_tui.trainer.named_parts import check_contrib, gym_id, import_named, make_env, native_refusal
from mission_tui.trainer.process import Say, answer, asked_spec

_KNOWN = {
    "CartPole-v1": ("Box(4,)", "Discrete(2)"),
    "Acrobot-v1": ("Box(6,)", "Discrete(3)"),
    "MountainCar-v0": ("Box(2,)", "Discrete(3)"),
    "MountainCarContinuous-v0": ("Box(2,)", "Box(1,)"),
    "Pendulum-v1": ("Box(3,)", "Box(1,)"),
}
_MISSIONS = {
    None: ("Box(42,)", "MultiDiscrete([9 9 9 9])"),
    "standard": ("Box(42,)", "MultiDiscrete([9 9 9 9])"),
    "demo": ("Box(32,)", "MultiDiscrete([9 9 9])"),
}


def main() -> int:
    """Answer for the spec on stdin; returns the exit code."""
    return answer(_check)


def known_spaces(env: EnvSpec) -> tuple[str, str] | None:
    """Observation and action space of an environment that needs no looking, as short names."""
    if env.kwargs or env.wrappers or env.frame_stack or env.imports or env.vec == "native":
        return None
    if env.id == MISSION_GYM:
        return _MISSIONS.get(env.config)
    return _KNOWN.get(env.id) if env.config is None else None


def _check(say: Say) -> None:
    spec = asked_spec(sys.stdin.buffer.read())
    if spec.run.python is not None:
        _import_trainer(say)
    import_all(spec, say)
    check_contrib(algorithm_name(spec))
    learning = learning_table(spec)[1]
    if spec.run.callbacks or learning.policy_kwargs or ":" in learning.policy:
        _check_classes(spec)
    known = known_spaces(spec.env) if algorithm_name(spec) == "ppo" else None
    if known is not None and spec.ppo.policy == "MlpPolicy" and (not spec.ppo.use_sde or known[1].startswith("Box")):
        say({"ok": True, "obs": known[0], "act": known[1]})
        return
    from mission_tui.envs.masks import MASKS
    from mission_tui.trainer.spaces import masks_refusal, refusal_of, short, stack_refusal, stacked

    say({"doing": f"making an environment of env.id '{spec.env.id}'"})
    env = make_env(spec.env, None, around=lambda made: made)
    try:
        observations, frames = env.observation_space, spec.env.frame_stack or 1
        sentence = stack_refusal(observations) if frames > 1 else None
        if sentence is None:
            observations = stacked(observations, frames) if frames > 1 else observations
            sentence = refusal_of(spec, observations, env.action_space)
        if sentence is None:
            sentence = masks_refusal(spec.ppo, offered=env.has_wrapper_attr(MASKS))
        if sentence is None and spec.env.vec == "native":
            sentence = native_refusal(spec.env)
        if sentence is not None:
            raise PresetError(f"env.id '{spec.env.id}' cannot be trained: {sentence}")
        say({"doing": f"saving and restoring an environment of env.id '{spec.env.id}'"})
        state = _unproven(spec, env)
        said = {"ok": True, "obs": short(observations), "act": short(env.action_space)}
        say(said | {"state": state} if state else said)
    finally:
        env.close()


def _unproven(spec: Spec, made: Any) -> str:
    """Why a resume will not be exact although the environment says that it saves its state; empty for no such reason.

    `made` is one of them: others are made only where it says so, because some are large.

    What cannot be tried at all is none: it is tried again before a resume is called exact.
    """
    from mission_tui.envs.state import can_save_state
    from mission_tui.trainer.state.env_proof import unproven

    env = spec.env
    batched = env.vec == "native" or (env.vec == "auto" and native_refusal(env) is None)
    try:
        return unproven(env, None, batched=batched) if batched or can_save_state(made) else ""
    except MissionError:
        return ""


def _import_trainer(say: Say) -> None:
    """Another Python's packages may be of versions whose insides are not those that the trainer uses."""
    say({"doing": "importing torch, Stable-Baselines3 and the trainer"})
    try:
        import mission_tui.trainer.training  # noqa: F401 - what it takes is tried here
    except Exception as error:  # importing runs foreign code, which may raise anything
        raise PresetError(f"run.python = '{sys.executable}' cannot train: {raised_by(error)}") from error


def _check_classes(spec: Spec) -> None:
    """Find every class of the user's that a training will need; such a module imports torch in any case."""
    from mission_tui.trainer.building.model import learner_arguments
    from mission_tui.trainer.callbacks import check_callbacks

    learner_arguments(spec)
    check_callbacks(spec)


def named_modules(spec: Spec) -> tuple[tuple[str, str], ...]:
    """Keys and modules, each module once, in the order in which they are imported."""
    found: dict[str, str] = {}
    for key, module in _named(spec):
        found.setdefault(module, key)
    return tuple((key, module) for module, key in found.items())


def import_all(spec: Spec, say: Say) -> tuple[str, ...]:
    """Import what `spec` names, saying before each what is done, because some do not come back. Raises `PresetError`.

    Returns the names.
    """
    named = named_modules(spec)
    for key, module in named:
        say({"doing": f"{key}: importing '{module}'"})
        import_named(module, key)
    return tuple(module for _, module in named)


def _named(spec: Spec) -> Iterator[tuple[str, str]]:
    for module in spec.env.imports:
        yield "env.imports", module
    if gym_id(spec.env.id) == spec.env.id and ":" in spec.env.id:
        yield "env.id", spec.env.id.rpartition(":")[0]
    tables: dict[str, Any] = msgspec.to_builtins(spec)
    yield from _classes("env.wrappers", tables["env"]["wrappers"])
    table, learning = learning_table(spec)
    yield from _classes(f"{table}.policy", learning.policy)
    for name, value in learning.policy_kwargs.items():
        yield from _classes(f"{table}.policy_kwargs.{name}", value)
    yield from _classes("run.callbacks", tables["run"].get("callbacks"))


def _classes(key: str, value: object) -> Iterator[tuple[str, str]]:
    """The modules of ``package.module:Name``, plain or as the `cls` of a table, alone or in a list."""
    match value:
        case str() if ":" in value:
            yield key, value.partition(":")[0]
        case dict():
            yield from _classes(key, value.get("cls"))
        case list() | tuple():
            for part in value:
                yield from _classes(key, part)


if __name__ == "__main__":
    sys.exit(main())
