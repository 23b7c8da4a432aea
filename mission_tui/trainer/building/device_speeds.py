"""How long an update of a run's own net takes on the CPU and on a GPU: rollouts and minibatches by the run's engine, in
environments that cost nothing. Nothing of the run is touched, and a few seconds are enough.

A trainer has it measured in a process of its own: a context on the GPU, its memory there and its libraries here, is
given back by nothing but the end of its process, and most runs that are measured train on the CPU. That process keeps
what it found in the runs root, where no further one is started for it.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import gymnasium
import msgspec
import numpy as np
import torch as th
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from mission_tui.envs.masks import MASKS, choices
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.tuning.record import DeviceSpeeds
from mission_tui.records.tuning_files import kept_speeds, measured_of
from mission_tui.run_module import module_words
from mission_tui.trainer.ppo import PPO
from mission_tui.trainer.spaces import short

Build = Callable[[dict[str, Any], VecEnv, str], PPO]
"""A model with such arguments, in such environments, on such a device."""

MEASURE_S = 4.0
"""No further pair is begun after so long; each device is asked twice at least."""
APART_S = 90.0
"""For a process that measures: it may wait for another, torch is loaded, a driver may have to start the GPU, and then
those seconds.
"""
_GONE_S = 1.0
_FEWEST, _MOST = 3, 12
_LONG_ENOUGH_S = 0.03
_EPOCHS_S = 0.1
"""As many epochs as fit are measured: what an update does once must not be counted with each of them."""
_SURELY_WARM_S = 1.0
"""What a first call takes beside the work is little of that on a CPU; a GPU is asked twice more before any verdict."""
_MINIBATCHES = 2


@dataclass(frozen=True, slots=True)
class NetShape:
    """The spaces of a run's environments as its model sees them, and how many there are side by side."""

    observations: gymnasium.Space[Any]
    actions: gymnasium.Space[Any]
    lanes: int

    @classmethod
    def of(cls, vec: VecEnv) -> Self:
        return cls(vec.observation_space, vec.action_space, vec.num_envs)

    @property
    def spaces(self) -> str:
        """In words, which are others as soon as the net is."""
        return f"{short(self.observations)} -> {short(self.actions)}"


class NoSpeedsError(Exception):
    """Nothing was measured; says why."""


def speeds_here(spec: Spec, shape: NetShape, root: Path | None) -> tuple[DeviceSpeeds, bool]:
    """The speeds of the net of `spec`, and whether they were kept in the runs root `root`, by whomever they had been
    measured. Raises `NoSpeedsError`.
    """
    if root is not None:
        kept = kept_speeds(root, measured_of(spec, sys.executable, os.environ), shape.spaces)
        if kept is not None:
            return kept, True
    return speeds_apart(spec, shape, root)


def speeds_apart(
    spec: Spec, shape: NetShape, root: Path | None = None, within_s: float = APART_S
) -> tuple[DeviceSpeeds, bool]:
    """As `speeds_here`, measured by a process that has ended when this returns, or at the latest with this one, if no
    other process was just at it. Raises `NoSpeedsError`.
    """
    # In bytes, because a path need not be text.
    spaces = shape.spaces.encode(errors="replace")
    keeping = {} if root is None else {"root": os.fsencode(root), "spaces": spaces}
    asked = b"\n".join((msgspec.json.encode(spec), msgspec.json.encode(keeping), _pickled(shape)))
    argv = module_words("mission_tui.trainer.checking.device_speeds")
    try:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError as error:
        raise NoSpeedsError(f"the process that compares it with the CPU cannot be started: {error}") from error
    try:
        said, _ = process.communicate(asked, within_s)
    except subprocess.TimeoutExpired:
        raise NoSpeedsError(f"the comparison with the CPU did not end within {within_s:g} s") from None
    finally:
        _end(process)
    return _speeds_in(said, process.returncode)


def _pickled(shape: NetShape) -> bytes:
    """Empty for what cannot be: the process then makes an environment for it."""
    try:
        return pickle.dumps(shape)
    except Exception:  # noqa: BLE001 - a space of the user's own, which may raise anything
        return b""


def shape_in(pickled: bytes) -> NetShape | None:
    """Of the run whose trainer asks, None where that has sent none; it was made by that trainer."""
    try:
        return pickle.loads(pickled) if pickled else None  # noqa: S301
    except Exception:  # noqa: BLE001 - likewise
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """See it gone; one that is stuck in the driver is left to the kernel."""
    if process.poll() is None:
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GONE_S)


def _speeds_in(said: bytes, code: int) -> tuple[DeviceSpeeds, bool]:
    try:
        answers = [json.loads(line) for line in said.splitlines()]
    except ValueError:
        answers = []
    for answer in answers:
        if "speeds" in answer:
            return msgspec.convert(answer["speeds"], DeviceSpeeds), "kept" in answer
        if why := answer.get("why") or answer.get("error"):
            raise NoSpeedsError(str(why))
    how = f"exit code {code}" if code >= 0 else f"signal {-code} ({signal.strsignal(-code)})"
    raise NoSpeedsError(f"the process that compares it with the CPU ended with {how}")


def measured_speeds(
    build: Build, shape: NetShape, arguments: Mapping[str, Any], gpu: str, *, within_s: float
) -> DeviceSpeeds:
    """Pairs of measurements in turns, until they say where it is faster or their time is over.

    Raises `RuntimeError` where the GPU cannot compute or has no memory left.
    """
    sides = [_Side(build, shape, arguments, device) for device in ("cpu", gpu)]
    began_s = time.perf_counter()
    found: list[tuple[float, ...]] = []
    while len(found) < _MOST:
        turn = sides if len(found) % 2 == 0 else sides[::-1]
        took = {side.device: side.update_seconds() for side in turn}
        found.append(tuple(took[side.device] for side in sides))
        speeds = DeviceSpeeds(cpu_s=tuple(cpu for cpu, _ in found), gpu_s=tuple(it for _, it in found), gpu=_name(gpu))
        late = time.perf_counter() - began_s > within_s
        if len(found) > 1 and (late or (len(found) >= _FEWEST and speeds.faster is not None)):
            break
    return speeds


def _name(device: str) -> str:
    return th.cuda.get_device_name(device) if th.device(device).type == "cuda" else device


class _Side:
    """The net on one device, warmed up."""

    def __init__(self, build: Build, shape: NetShape, arguments: Mapping[str, Any], device: str) -> None:
        self.device = device
        n_steps, transitions = arguments["n_steps"], arguments["n_steps"] * shape.lanes
        batch_size = min(arguments["batch_size"], transitions)
        tried = min(n_steps, -(-_MINIBATCHES * batch_size // shape.lanes))
        self._rollouts = n_steps / tried
        self._updates = -(-transitions // batch_size) / -(-tried * shape.lanes // batch_size)
        # An update that is ended early by its KL says nothing of how long a whole one takes.
        small = {**arguments, "n_steps": tried, "batch_size": batch_size, "n_epochs": 1, "target_kl": None}
        self._model = in_still_envs(build, shape, small, device)
        self._repeats = 1
        for _ in range(2):
            once_s = self._timed(self._model.collect) + self._timed(self._model.update)
            if once_s > _SURELY_WARM_S:
                break
        n_epochs = int(arguments["n_epochs"])
        self._model.n_epochs = max(1, min(n_epochs, round(_EPOCHS_S / max(once_s, 1e-6))))
        self._updates *= n_epochs / self._model.n_epochs
        once_s *= self._model.n_epochs
        self._repeats = max(1, min(50, round(_LONG_ENOUGH_S / max(once_s, 1e-6))))

    def update_seconds(self) -> float:
        """Of a whole update: all steps of its rollout, and all its gradient steps."""
        collect_s, update_s = self._timed(self._model.collect), self._timed(self._model.update)
        return float(self._rollouts * collect_s + self._updates * update_s)

    def _timed(self, work: Callable[[], object]) -> float:
        """Seconds of one `work`, with the device's queue empty before and after."""
        self._wait()
        began_s = time.perf_counter()
        for _ in range(self._repeats):
            work()
        self._wait()
        return (time.perf_counter() - began_s) / self._repeats

    def _wait(self) -> None:
        if th.device(self.device).type == "cuda":
            th.cuda.synchronize(self.device)


def in_still_envs(build: Build, shape: NetShape, arguments: Mapping[str, Any], device: str) -> PPO:
    """A model ready to collect and update, in environments that cost nothing."""
    with warnings.catch_warnings():
        # A minibatch may not divide such a buffer, which does not matter here.
        warnings.simplefilter("ignore", UserWarning)
        model = build(dict(arguments), _StillEnvs(shape), device)
    assert model.env is not None
    model._last_obs = model.env.reset()  # type: ignore[assignment]
    model._last_episode_starts = np.ones(shape.lanes, dtype=bool)
    model.ep_info_buffer, model.ep_success_buffer = deque(), deque()
    return model


class _StillEnvs(VecEnv):
    """Environments that cost nothing: at each step the same observations, no reward, no end of an episode."""

    def __init__(self, shape: NetShape) -> None:
        super().__init__(shape.lanes, shape.observations, shape.actions)
        self._observations: VecEnvObs = _repeated(shape.observations.sample(), shape.lanes)
        self._infos: list[dict[str, Any]] = [{} for _ in range(shape.lanes)]

    def reset(self) -> VecEnvObs:
        return self._observations

    def step_async(self, actions: Any) -> None:
        pass

    def step_wait(self) -> VecEnvStepReturn:
        rewards, dones = np.zeros(self.num_envs, dtype=np.float32), np.zeros(self.num_envs, dtype=bool)
        return self._observations, rewards, dones, self._infos

    def env_method(self, method_name: str, *_args: Any, indices: Any = None, **_kwargs: Any) -> list[Any]:
        assert method_name == MASKS
        return [np.ones(sum(choices(self.action_space)), dtype=bool)] * self.num_envs

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        pass

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs

    def close(self) -> None:
        pass


def _repeated(sample: Any, lanes: int) -> VecEnvObs:
    if isinstance(sample, dict):
        return {name: np.repeat(np.asarray(part)[None], lanes, axis=0) for name, part in sample.items()}
    return np.repeat(np.asarray(sample)[None], lanes, axis=0)
