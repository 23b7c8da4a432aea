"""What is done to a training between two updates: the mistakes people make in settings, rewards, environments, resumes.

Tamperers act from their onset on, on the living model and environments of the trainer. They reach into private parts on
purpose: a mistake asks nobody either.
"""

from __future__ import annotations

import errno
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.running_mean_std import RunningMeanStd

from benchmarks.health.train import Bench, Tamper
from mission_tui.envs import MissionGymVector, load_mission
from mission_tui.envs.core import Progress, RewardModel
from mission_tui.ipc.telemetry_messages import Order
from mission_tui.records.atomic import StorageError
from mission_tui.trainer.state.checkpoint import Checkpoints
from mission_tui.trainer.vec_env.in_process import InlineVecEnv, NativeVecEnv

__all__ = [
    "acts_late",
    "alternating",
    "blurs_the_update",
    "clips_rewards",
    "creeps",
    "crosses_observations",
    "deafens",
    "drifts",
    "drowns_rewards",
    "freezes_observations",
    "from_onset",
    "hangs",
    "hides_observations",
    "leaves_alone",
    "liars",
    "loses_its_critic",
    "loses_its_head",
    "loses_its_normalizer",
    "loses_its_optimizer",
    "mission_rewards",
    "nan_rewards",
    "noise",
    "noisy_observations",
    "observations_times",
    "reverses_actions",
    "rewards_times",
    "set_ppo",
    "sleeps",
    "stops",
    "survival_bonus",
    "swaps_actions",
    "warms_up",
    "without_checkpoints",
]

Step = tuple[Any, Any, bool, bool, dict[str, Any]]


def leaves_alone(bench: Bench, update: int) -> None:
    """The healthy twin's tamperer."""


def from_onset(onset: int, act: Callable[[Bench], None]) -> Tamper:
    """Act once, before update `onset`."""

    def tamper(bench: Bench, update: int) -> None:
        if update == onset:
            act(bench)

    return tamper


def set_ppo(learning_rate_times: float = 1.0, **settings: Any) -> Callable[[Bench], None]:
    """Set attributes of the model by SB3's names, and multiply its learning rate."""

    def act(bench: Bench) -> None:
        _set_learning_rate(bench, learning_rate_times)
        for name, value in settings.items():
            setattr(bench.model, name, value)

    return act


def noise(onset: int, share: float, every: int) -> Tamper:
    """From `onset` on, every `every` updates all weights get noise of `share` of their own standard deviation."""

    def tamper(bench: Bench, update: int) -> None:
        if update < onset or (update - onset) % every:
            return
        generator = th.Generator().manual_seed(bench.seed + update)
        with th.no_grad():
            for parameter in bench.model.policy.parameters():
                scale = share * float(parameter.std()) if parameter.numel() > 1 else 0.0
                parameter.add_(th.randn(parameter.shape, generator=generator) * scale)

    return tamper


def loses_its_optimizer(bench: Bench) -> None:
    """The optimizer keeps stepping parameters that the policy no longer uses."""
    for group in bench.model.policy.optimizer.param_groups:
        group["params"] = [parameter.detach().clone().requires_grad_() for parameter in group["params"]]


def loses_its_critic(bench: Bench) -> None:
    """The optimizer steps the policy alone: the values stay as they are."""
    policy = bench.model.policy
    lost = {id(it) for part in (policy.mlp_extractor.value_net, policy.value_net) for it in part.parameters()}
    for group in policy.optimizer.param_groups:
        group["params"] = [it.detach().clone().requires_grad_() if id(it) in lost else it for it in group["params"]]


def loses_its_head(bench: Bench) -> None:
    """The layer that gives the actions starts anew, as where a policy was loaded without it."""
    generator = th.Generator().manual_seed(bench.seed)
    with th.no_grad():
        for parameter in bench.model.policy.action_net.parameters():
            drawn = th.randn(parameter.shape, generator=generator) / parameter.shape[-1] ** 0.5
            parameter.copy_(drawn if parameter.dim() > 1 else th.zeros(parameter.shape))


def hides_observations(bench: Bench) -> None:
    """Every other value of an observation is 0 from now on."""

    def hide(step: Step) -> Step:
        seen = step[0].copy()
        seen[::2] = 0.0
        return (seen, *step[1:])

    _on_each_step(hide)(bench)


def swaps_actions(bench: Bench) -> None:
    """The environments take each discrete action for the one after it."""
    for env in _envs(bench):
        env.unwrapped.step = _taking_the_next(env.unwrapped.step, env.action_space.n)


def reverses_actions(bench: Bench) -> None:
    """The environments take each continuous action with the opposite sign."""
    for env in _envs(bench):
        env.unwrapped.step = _taking_the_opposite(env.unwrapped.step)


def freezes_observations(bench: Bench) -> None:
    """Each environment goes on showing the first observation that it shows from now on, as a sensor that hangs."""
    for env in _envs(bench):
        shown: list[Any] = []

        def show(step: Step, shown: list[Any] = shown) -> Step:
            if not shown:
                shown.append(step[0])
            return (shown[0], *step[1:])

        _patch_steps([env], show)


def noisy_observations(bench: Bench) -> None:
    """Each value of an observation gets noise of 1, as from a sensor that comes loose."""
    generator = np.random.default_rng(bench.seed)
    _on_each_step(
        lambda step: ((step[0] + generator.normal(size=step[0].shape)).astype(step[0].dtype), *step[1:]),
    )(bench)


def crosses_observations(bench: Bench) -> None:
    """Each environment shows what the one before it shows, as where rows of a batch are mixed up."""
    shown: dict[int, Any] = {}
    envs = list(_envs(bench))
    for lane, env in enumerate(envs):

        def cross(step: Step, lane: int = lane) -> Step:
            shown[lane] = step[0]
            return (shown.get((lane - 1) % len(envs), step[0]), *step[1:])

        _patch_steps([env], cross)


def drifts(onset: int, shift: float) -> Tamper:
    """From `onset` on observations lie off their zero, by `shift` more in each update, as those of sensors that age."""

    def tamper(bench: Bench, update: int) -> None:
        if update < onset:
            return
        bench.memory["shift"] = shift * (update - onset + 1)
        if update == onset:
            _on_each_step(
                lambda step: ((step[0] + bench.memory["shift"]).astype(step[0].dtype), *step[1:]),
            )(bench)

    return tamper


def deafens(bench: Bench) -> None:
    """The environments take an action of their own, drawn by chance, in half of the steps."""
    for number, env in enumerate(_envs(bench)):
        generator = np.random.default_rng((bench.seed, number))
        space = deepcopy(env.action_space)
        space.seed(int(generator.integers(2**31)))
        env.unwrapped.step = _taking_any(env.unwrapped.step, space, generator)


def drowns_rewards(deviation: float) -> Callable[[Bench], None]:
    """The environments pay as much as before, under noise of `deviation` in every step."""

    def act(bench: Bench) -> None:
        generator = np.random.default_rng(bench.seed)
        _on_each_step(lambda step: (step[0], step[1] + deviation * float(generator.normal()), *step[2:]))(bench)

    return act


def rewards_times(factor: float) -> Callable[[Bench], None]:
    """The environments themselves pay `factor` times as much, so that monitored returns grow too."""
    return _on_each_step(lambda step: (step[0], step[1] * factor, *step[2:]))


def observations_times(factor: float) -> Callable[[Bench], None]:
    """The environments' observations change their unit."""
    return _on_each_step(lambda step: (step[0] * factor, *step[1:]))


def clips_rewards(bench: Bench) -> None:
    """The environments pay the sign of what they paid before, as wrappers made for Atari do."""
    _on_each_step(lambda step: (step[0], float(np.sign(step[1])), *step[2:]))(bench)


def acts_late(steps: int) -> Callable[[Bench], None]:
    """The environments take each action `steps` steps after it was chosen."""

    def act(bench: Bench) -> None:
        for env in _envs(bench):
            env.unwrapped.step = _taking_late(env.unwrapped.step, steps)

    return act


def loses_its_normalizer(bench: Bench) -> None:
    """The statistics of observations are new and stay so: a resume that did not load what `VecNormalize` had saved."""
    normalizer = bench.model.get_vec_normalize_env()
    assert normalizer is not None
    normalizer.obs_rms = RunningMeanStd(shape=normalizer.observation_space.shape or ())  # type: ignore[assignment]
    normalizer.training = False


def nan_rewards(bench: Bench) -> None:
    """One environment starts to pay NaN."""
    _patch_steps(list(_envs(bench))[3:4], lambda step: (step[0], math.nan, *step[2:]))


def liars(bench: Bench) -> None:
    """Half of the environments pay the opposite of what they should."""
    envs = list(_envs(bench))
    _patch_steps(envs[: len(envs) // 2], lambda step: (step[0], -step[1], *step[2:]))


def blurs_the_update(share: float) -> Callable[[Bench], None]:
    """The update sees observations with noise that the rollout did not see, as layers that act otherwise make it."""

    def act(bench: Bench) -> None:
        evaluator = bench.model._evaluator  # type: ignore[attr-defined]
        evaluate = evaluator.evaluate_actions
        generator = th.Generator().manual_seed(bench.seed)

        def blurred(observations: th.Tensor, actions: th.Tensor) -> Any:
            blur = th.randn(observations.shape, generator=generator) * share
            return evaluate(observations + blur, actions)

        evaluator.evaluate_actions = blurred

    return act


def creeps(onset: int, factor: float) -> Tamper:
    """From `onset` on the learning rate is `factor` times that of the update before."""

    def tamper(bench: Bench, update: int) -> None:
        if update >= onset:
            _set_learning_rate(bench, factor ** (update - onset + 1))

    return tamper


def warms_up(updates: int) -> Tamper:
    """Over the first `updates` updates the learning rate grows to what was set, as schedules of one's own do."""

    def tamper(bench: Bench, update: int) -> None:
        if update <= updates:
            _set_learning_rate(bench, update / updates)

    return tamper


def without_checkpoints(onset: int, updates: int) -> Tamper:
    """For `updates` updates from `onset` on, every checkpoint that is asked for meets a full disk."""
    save = Checkpoints.save

    def full(*_: Any, **__: Any) -> Any:
        raise StorageError(os.strerror(errno.ENOSPC), errno.ENOSPC)

    def tamper(bench: Bench, update: int) -> None:
        if onset <= update < onset + updates:
            Checkpoints.save = full  # type: ignore[method-assign]
            bench.orders.obey(Order("checkpoint"))
        else:
            Checkpoints.save = save  # type: ignore[method-assign]

    return tamper


def alternating(onset: int, every: int, *acts: Callable[[Bench], None]) -> Tamper:
    """From `onset` on, one of `acts` in turn every `every` updates."""

    def tamper(bench: Bench, update: int) -> None:
        turn, left = divmod(update - onset, every)
        if turn >= 0 and not left:
            acts[turn % len(acts)](bench)

    return tamper


def sleeps(onset: int, updates: int, seconds: float) -> Tamper:
    """For `updates` updates from `onset` on, one environment really sleeps `seconds` in every step."""

    def act(step: Step) -> Step:
        time.sleep(seconds)
        return step

    def tamper(bench: Bench, update: int) -> None:
        env = next(iter(_envs(bench)))
        if update == onset:
            bench.memory["step"] = env.unwrapped.step
            _patch_steps([env], act)
        elif update == onset + updates:
            env.unwrapped.step = bench.memory["step"]

    return tamper


def hangs(seconds: float) -> Callable[[Bench], None]:
    """One step of one environment takes `seconds` by the clock that the trainer reads; nobody really waits."""

    def act(bench: Bench) -> None:
        left = [seconds]

        def hang(step: Step) -> Step:
            bench.clock.skipped_s += left.pop() if left else 0.0
            return step

        _patch_steps(list(_envs(bench))[:1], hang)

    return act


def stops(bench: Bench) -> None:
    """Somebody stops the first attempt, so that a second one resumes."""
    if bench.attempt == 1:
        bench.stop()


def mission_rewards(rewards: Mapping[str, Any]) -> Callable[[Bench], None]:
    """MissionGym's prices and shaping change; world, units and rules stay."""

    def act(bench: Bench) -> None:
        vector = _mission(bench)
        mission = replace(vector.mission, rewards=load_mission("demo", {"rewards": rewards}).rewards)
        vector.core._rewards = RewardModel(mission)
        vector.core._progress = Progress(mission, mission.rewards.shaping)

    return act


def survival_bonus(per_step: float) -> Callable[[Bench], None]:
    """MissionGym pays for every decision that an episode lasts, which no `rewards.toml` may say."""

    def act(bench: Bench) -> None:
        prices = _mission(bench).core._rewards
        pay = prices.compute
        prices.compute = lambda *gains: pay(*gains) + per_step  # type: ignore[method-assign]

    return act


def _set_learning_rate(bench: Bench, times: float) -> None:
    untouched: Callable[[float], float] = bench.memory.setdefault("schedule", bench.model.lr_schedule)
    bench.model.lr_schedule = lambda progress: untouched(progress) * times


def _on_each_step(change: Callable[[Step], Step]) -> Callable[[Bench], None]:
    return lambda bench: _patch_steps(list(_envs(bench)), change)


def _patch_steps(envs: list[Any], change: Callable[[Step], Step]) -> None:
    """Replace each environment's own `step`, below Monitor, so that what is recorded is what it says."""
    for env in envs:
        env.unwrapped.step = _changing(env.unwrapped.step, change)


def _changing(step: Callable[[Any], Step], change: Callable[[Step], Step]) -> Callable[[Any], Step]:
    return lambda action: change(step(action))


def _taking_the_next(step: Callable[[Any], Step], actions: int) -> Callable[[Any], Step]:
    return lambda action: step((int(action) + 1) % actions)


def _taking_the_opposite(step: Callable[[Any], Step]) -> Callable[[Any], Step]:
    return lambda action: step(-np.asarray(action))


def _taking_any(step: Callable[[Any], Step], space: Any, generator: np.random.Generator) -> Callable[[Any], Step]:
    return lambda action: step(space.sample() if generator.random() < 0.5 else action)


def _taking_late(step: Callable[[Any], Step], steps: int) -> Callable[[Any], Step]:
    chosen: deque[Any] = deque()

    def late(action: Any) -> Step:
        chosen.append(np.array(action))
        return step(chosen.popleft() if len(chosen) > steps else chosen[0])

    return late


def _envs(bench: Bench) -> Iterator[Any]:
    assert bench.model.env is not None
    vec = bench.model.env.unwrapped
    assert isinstance(vec, InlineVecEnv)
    yield from vec.envs


def _mission(bench: Bench) -> MissionGymVector:
    assert bench.model.env is not None
    vec = bench.model.env.unwrapped
    assert isinstance(vec, NativeVecEnv)
    assert isinstance(vec.envs, MissionGymVector)
    return vec.envs
