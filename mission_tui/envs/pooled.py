"""envpool's tasks (C++: Atari, classic control, MuJoCo, ...) as Gymnasium's `envpool/TASK`; importing registers them.

envpool begins an episode one step after the last one ended, and that step ignores its action and rewards nothing. Here
lanes that end are reset within the same step, by the pool's own partial reset, so that every step is a transition of
the task. A pool's seeds are given when it is made: whoever seeds a reset gets a new pool.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from mission_tui.control_groups import usable_cores
from mission_tui.envs.masks import reset_mask

_SEED_SPAN = 2**31
_LANES_A_THREAD = 4
_POOLS_OWN = ("env_id", "players", "elapsed_step")
"""Infos by which envpool keeps its books."""

Seeds = int | Sequence[int | None] | None


class _Pool:
    """`lanes` instances of `task`, made when they are first reset. Actions go in as the task's own type."""

    def __init__(self, task: str, lanes: int, num_threads: int | None, options: dict[str, Any]) -> None:
        import envpool

        # A second thread slows the cheapest a little (32 CartPole: 0.86 x) and speeds dear ones (16 Pong: 1.34 x).
        most = max(1, min(usable_cores(), lanes // _LANES_A_THREAD))
        self._making = {"task_id": task, "num_envs": lanes, "num_threads": num_threads or most, **options}
        with _warnings_ignored():
            spec = envpool.make_spec(task, **options)
            self.observations = spec.gymnasium_observation_space
            self.actions = spec.gymnasium_action_space
        self._lanes = lanes
        self._envs: Any = None

    def reset(self, seeds: Seeds, generator: np.random.Generator) -> tuple[Any, dict[str, Any]]:
        """Begin anew in every lane; without `seeds` the episodes go on from where the pool's generators are."""
        if self._envs is None or seeds is not None:
            import envpool

            with _warnings_ignored():
                self._envs = envpool.make_gymnasium(**self._making, seed=self._seeds(seeds, generator))
                _ = self._envs.observation_space, self._envs.action_space  # worked out when first asked for
        return self._envs.reset()  # type: ignore[no-any-return]

    def reset_lanes(self, lanes: NDArray[np.int32]) -> tuple[Any, NDArray[np.int32]]:
        """Begin anew in these; their first observations, and the lane of each."""
        observations, infos = self._envs.reset(lanes)
        return observations, infos["env_id"]

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        return self._envs.step(np.asarray(actions, dtype=self.actions.dtype))  # type: ignore[no-any-return]

    def close(self) -> None:
        if self._envs is not None:
            self._envs.close()
            self._envs = None

    def _seeds(self, seeds: Seeds, generator: np.random.Generator) -> list[int]:
        if isinstance(seeds, int):
            seeds = [seeds + lane for lane in range(self._lanes)]
        drawn = generator.integers(_SEED_SPAN, size=self._lanes).tolist()
        given = seeds if seeds is not None else [None] * self._lanes
        return [instead if seed is None else seed % _SEED_SPAN for seed, instead in zip(given, drawn, strict=True)]


class PooledBatch(VectorEnv[Any, Any, Any]):
    """`num_envs` lanes of `task` with same-step autoreset; lane i with seed s lives what a single one with s lives.

    `num_threads` step them: unless given, one for each core and at least four lanes. Other `options` are envpool's.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012 - as in the base class

    def __init__(self, num_envs: int, task: str, num_threads: int | None = None, **options: Any) -> None:
        self._pool = _Pool(task, num_envs, num_threads, options)
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = self._pool.observations, self._pool.actions
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._observations: Any = None
        """Those that were given last."""

    def reset(self, *, seed: Seeds = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in every lane.

        `options["reset_mask"]`, an array of `num_envs` booleans, leaves lanes whose entry is false where they are.
        Raises `ValueError` for a mask of another form, and for one with a seed: a pool's seeds are given when it is
        made.
        """
        mask = np.ones(self.num_envs, dtype=np.bool_) if options is None else reset_mask(options, self.num_envs)
        if mask.all():
            self._observations, _ = self._pool.reset(seed, self.np_random)
            return self._observations, {}
        if seed is not None:
            raise ValueError("envpool seeds all environments or none: reset those of a reset_mask without a seed")
        if self._observations is None:
            raise gymnasium.error.ResetNeeded("reset all environments before those of a reset_mask")
        lanes = np.flatnonzero(mask).astype(np.int32)
        self._observations = _put(self._observations, *self._pool.reset_lanes(lanes))
        return self._observations, {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One step of every lane; `final_obs` and `final_info` are those of lanes that ended, which stand anew."""
        observations, rewards, terminated, truncated, infos = self._pool.step(actions)
        self._observations = observations
        ended = terminated | truncated
        if not ended.any():
            return observations, rewards, terminated, truncated, {}
        finals = np.empty(self.num_envs, dtype=object)
        for lane in np.flatnonzero(ended):
            finals[lane] = _at(observations, int(lane))
        own = {key: values for key, values in infos.items() if key not in _POOLS_OWN}
        final_info = own | {f"_{key}": ended for key in own}
        observations = _put(observations, *self._pool.reset_lanes(np.flatnonzero(ended).astype(np.int32)))
        self._observations = observations
        return observations, rewards, terminated, truncated, {"final_obs": finals, "final_info": final_info}

    def close_extras(self, **kwargs: Any) -> None:
        """End the pool's threads."""
        self._pool.close()


class PooledEnv(gymnasium.Env[Any, Any]):
    """One environment of `task`: a pool of one lane."""

    def __init__(self, task: str, num_threads: int | None = None, **options: Any) -> None:
        self._pool = _Pool(task, 1, num_threads, options)
        self.observation_space, self.action_space = self._pool.observations, self._pool.actions

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; `options` are not used."""
        super().reset(seed=seed)
        observations, _ = self._pool.reset(seed, self.np_random)
        return _at(observations, 0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step of the task."""
        observations, rewards, terminated, truncated, infos = self._pool.step(np.asarray(action)[None])
        info = {key: values[0] for key, values in infos.items() if key not in _POOLS_OWN}
        return _at(observations, 0), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    def close(self) -> None:
        """End the pool's threads."""
        self._pool.close()


def _at(observations: Any, lane: int) -> Any:
    if isinstance(observations, dict):
        return {key: _at(part, lane) for key, part in observations.items()}
    return observations[lane].copy()


def _put(observations: Any, fresh: Any, lanes: NDArray[np.int32]) -> Any:
    """`observations` with `fresh` ones in `lanes`; a copy, because the pool may hold the original."""
    if isinstance(observations, dict):
        return {key: _put(part, fresh[key], lanes) for key, part in observations.items()}
    observations = observations.copy()
    observations[lanes] = fresh
    return observations


def _warnings_ignored() -> warnings.catch_warnings[None]:
    # Gymnasium warns of bounds that envpool gives in double precision, at every making.
    return warnings.catch_warnings(action="ignore")


def _register() -> None:
    """Past `gymnasium.register`, which looks through all ids for each of the 1,651: 100 ms instead of 10."""
    if importlib.util.find_spec("envpool") is None:
        return  # it is an extra, and whoever asks for one of its tasks is told so
    import envpool

    here = f"{__name__}:"
    for task in envpool.list_all_envs():
        spec = EnvSpec(
            id=f"envpool/{task.replace('/', '.')}",
            entry_point=here + PooledEnv.__name__,
            vector_entry_point=here + PooledBatch.__name__,
            kwargs={"task": task},
            disable_env_checker=True,
        )
        gymnasium.registry[spec.id] = spec


_register()
