"""An algorithm of SB3's as the loop of a run trains it: rounds of SB3's own `collect_rollouts` and `train`, one after
the other as its `learn` has them, counted as one update each time that enough environment steps are done.

A test compares parameters with those of SB3's `learn`, bit for bit. What an algorithm logs is the mean over the period
of what it logged after each of its updates; counts, rates and the learning rate are those of the last one.

A replay buffer is never copied at a boundary, because it may be gigabytes. Only a few rows are overwritten between two
boundaries; those are set aside before they are, so that a period that is given up can be taken back. In a checkpoint it
is one npz of the rows that are filled, which is read array by array.
"""

from __future__ import annotations

import importlib
import zipfile
from collections import defaultdict
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import VectorizedActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from mission_tui.errors import CheckpointError
from mission_tui.fleet.events.outcome import Phase
from mission_tui.fleet.specs.sb3_algorithms import PERIOD_STEPS, ArsSpec, OtherAlgorithm
from mission_tui.trainer.failures import NonFiniteError
from mission_tui.trainer.learner import Advanced, Learner, Replayed, timed
from mission_tui.trainer.ppo.reference import RolloutWatch, never
from mission_tui.trainer.ppo.signals import check_observations, check_parameters, episode_means
from mission_tui.trainer.running_time import unstopped_s
from mission_tui.trainer.tree import Tree
from mission_tui.trainer.vec_env.episodes import EpisodeTally

_ARRAYS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def _check_stored(path: Path) -> None:
    """We never compress, so that what is read is bounded by the file's own size."""
    with zipfile.ZipFile(path) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError("a member is compressed")


class StopAskedError(Exception):
    """A stop was asked in the middle of gradient steps."""


class Replay(Replayed):
    """`buffer` with its undo; it is SB3's own, of whatever class, and is watched through its `add` and `sample`."""

    def __init__(self, buffer: ReplayBuffer, stop_asked: Callable[[], bool]) -> None:
        self._buffer: Any = buffer
        self._stop_asked = stop_asked
        self._add, self._sample = buffer.add, buffer.sample
        self._overwritten: list[tuple[int, dict[str, NDArray[Any]]]] = []
        self._position = (0, False)
        watched: Any = buffer
        watched.add, watched.sample = self.add, self.sample
        self.mark()

    @property
    def filled(self) -> int:
        """Transitions that can be sampled."""
        return int(self._buffer.size() * self._buffer.n_envs)

    @property
    def size_bytes(self) -> int:
        return sum(array.nbytes for array in self._arrays().values())

    def add(self, *arguments: Any, **named: Any) -> None:
        """SB3's `add`, after what it overwrites was set aside."""
        buffer = self._buffer
        rows = [buffer.pos] if buffer.full else []
        following = (buffer.pos + 1) % buffer.buffer_size
        if buffer.optimize_memory_usage and (buffer.full or following == 0):
            rows.append(following)
        for row in rows:
            self._overwritten.append((row, {name: array[row].copy() for name, array in self._arrays().items()}))
        self._add(*arguments, **named)

    def sample(self, *arguments: Any, **named: Any) -> Any:
        """SB3's `sample`; a stop ends the gradient steps here. Raises `StopAskedError`."""
        if self._stop_asked():
            raise StopAskedError
        return self._sample(*arguments, **named)

    def mark(self) -> None:
        self._overwritten.clear()
        self._position = (int(self._buffer.pos), bool(self._buffer.full))

    def rewind(self) -> None:
        """Back to the last mark."""
        arrays = self._arrays()
        for row, was in reversed(self._overwritten):
            for name, values in was.items():
                arrays[name][row] = values
        self._overwritten.clear()
        self._buffer.pos, self._buffer.full = self._position

    def write(self, path: Path) -> None:
        self.rewind()
        pos, full = self._position
        # With one array for both, the row after the last transition is its next observation.
        shared = self._buffer.optimize_memory_usage
        rows = self._buffer.buffer_size if full or shared else pos
        members = {name: array[:rows] for name, array in self._arrays().items()}
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, position=np.array([pos, full, self._buffer.buffer_size]), **members)

    def read(self, path: Path) -> str:
        """Raises `CheckpointError` for anything else than what was written."""
        try:
            _check_stored(path)
            with np.load(path, allow_pickle=False) as members:
                said = self._take(members)
        except (OSError, ValueError, KeyError, EOFError, MemoryError, zipfile.BadZipFile) as error:
            raise CheckpointError(f"{path} does not hold a replay buffer: {type(error).__name__}: {error}") from error
        self.mark()
        return said

    def _take(self, members: Any) -> str:
        buffer, arrays = self._buffer, self._arrays()
        pos, full, size = (int(number) for number in members["position"])
        names = set(members.files) - {"position"}
        if names != arrays.keys():
            return f"it begins empty, because the checkpoint's is of another kind ({', '.join(sorted(names))[:120]})"
        lanes = members["rewards"].shape[1]
        if (size, lanes) == (buffer.buffer_size, buffer.n_envs):
            for name, array in arrays.items():
                kept = members[name]
                array[: len(kept)] = kept
            buffer.pos, buffer.full = pos, bool(full)
            return ""
        return self._refill(members, pos, full=bool(full))

    def _refill(self, members: Any, pos: int, *, full: bool) -> str:
        """The newest transitions that fit a buffer of another size, or of other environments side by side."""
        buffer = self._buffer
        if buffer.optimize_memory_usage or isinstance(buffer, NStepReplayBuffer):
            return "it begins empty, because what follows what is not known in a buffer of another size"
        rows = 0
        for name, array in self._arrays().items():
            kept = members[name]
            ordered = np.roll(kept, -pos, axis=0) if full else kept
            flat = ordered.reshape(-1, *kept.shape[2:])
            rows = min(len(flat) // buffer.n_envs, buffer.buffer_size)
            if rows:
                array[:rows] = flat[-rows * buffer.n_envs :].reshape(rows, buffer.n_envs, *kept.shape[2:])
        buffer.pos, buffer.full = rows % buffer.buffer_size, rows == buffer.buffer_size
        return f"it is of another size, and has the newest {rows * buffer.n_envs:,} transitions"

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Its arrays by name, those of dictionaries by key, each of shape (rows, environments, ...)."""
        found: dict[str, NDArray[Any]] = {}
        for name in _ARRAYS:
            value = getattr(self._buffer, name, None)
            if isinstance(value, dict):
                found |= {f"{name}.{key}": part for key, part in value.items()}
            elif value is not None:
                found[name] = value
        return found


_LAST = frozenset({"train/n_updates", "train/learning_rate", "rollout/exploration_rate"})
_LAST |= {"train/iterations", "train/delta_std"}
_UNDEFINED = "train/explained_variance"
"""Nan where returns do not vary: then it is absent."""
_OPTIMIZED = ("actor", "critic")
_COUNTED = ("_n_calls", "_episode_num", "exploration_rate")
_OURS = ("stop_asked", "episodes", "callbacks", "replay", "keeps_replay", "_remaining", "_watch")
_LOGGED = ("train/iterations", "train/delta_std", "train/learning_rate", "train/step_size", "rollout/return_std")
_TOLD = {"rewards": "rewards", "dones": "dones", "infos": "infos", "actions": "actions", "new_obs": "new_observations"}
"""What callbacks know of a step, by SB3's word in a rollout, and what `evaluate_policy` calls it."""


class PeriodLearner(Learner):
    """Goes in front of an SB3 class. What is not said here is that class's own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stop_asked: Callable[[], bool] = never
        self.episodes = EpisodeTally()
        self.callbacks = None
        self._remaining: Callable[[int], float] | None = None
        self._watch: RolloutWatch | None = None
        if isinstance(self, OffPolicyAlgorithm) and self.replay_buffer is not None:
            self.replay = Replay(self.replay_buffer, self._stop_is_asked)

    def advance(self, enter: Callable[[Phase], None], remaining: Callable[[int], float]) -> Advanced | None:
        if self._watch is None:
            # One for all rounds: making one resets what a callback has counted.
            self._watch = RolloutWatch(self.callbacks)
            self._watch.init_callback(self)
        self._remaining = remaining
        period = Period(enter)
        target, begun_s = self.num_timesteps + PERIOD_STEPS, unstopped_s()
        enter("rollout")
        while self.num_timesteps < target:
            if not self._round(self._watch, period):
                return None
        period.learn()
        period.check_finite()
        check_parameters(self.policy)
        metrics = episode_means(self) | period.means()
        if "exploration_rate" in vars(self):
            metrics["rollout/exploration_rate"] = float(vars(self)["exploration_rate"])
        return Advanced(metrics, max(0.0, unstopped_s() - begun_s - period.update_s), period.update_s)

    def _round(self, watch: RolloutWatch, period: Period) -> bool:
        """One round of collecting and learning; False if it was ended."""
        steps = self._collect(watch)
        if steps is None:
            return False
        gradient_steps = self._due(steps)
        if gradient_steps == 0:
            return True
        period.learn()
        with _logged_into(self, period):
            whole, spent_s = timed(partial(self._learn, gradient_steps))
        period.update_s += spent_s
        return whole

    def _stop_is_asked(self) -> bool:
        return self.stop_asked()

    def _collect(self, watch: BaseCallback) -> int | None:
        """One round of collecting; its environment steps, None if it was ended."""
        model: Any = self
        before = self.num_timesteps
        try:
            if not isinstance(self, OffPolicyAlgorithm):
                going = model.collect_rollouts(self.env, watch, model.rollout_buffer, n_rollout_steps=model.n_steps)
                self._update_current_progress_remaining(self.num_timesteps, self._total_timesteps)
                return self.num_timesteps - before if going else None
            rollout = model.collect_rollouts(
                self.env,
                train_freq=model.train_freq,
                action_noise=model.action_noise,
                callback=watch,
                learning_starts=model.learning_starts,
                replay_buffer=model.replay_buffer,
                log_interval=None,
            )
        except ValueError:
            # torch's distributions refuse nan parameters with a ValueError that says nothing of where they came from.
            check_parameters(self.policy)
            check_observations(self._last_obs)
            raise
        return rollout.episode_timesteps if rollout.continue_training else None

    def _due(self, steps: int) -> int:
        """Gradient steps that are due after a round of so many environment steps."""
        model: Any = self
        if not isinstance(self, OffPolicyAlgorithm):
            return 1
        # The second is SB3's first, but after a resume without its replay buffer.
        assert isinstance(self.replay, Replay)
        filled = self.replay.filled >= min(model.learning_starts, model.replay_buffer.buffer_size * self.n_envs)
        if self.num_timesteps <= model.learning_starts or not filled:
            return 0
        return int(model.gradient_steps) if model.gradient_steps >= 0 else steps

    def _learn(self, gradient_steps: int) -> bool:
        """False if a stop was asked meanwhile."""
        model: Any = self
        try:
            if isinstance(self, OffPolicyAlgorithm):
                model.train(batch_size=model.batch_size, gradient_steps=gradient_steps)
            else:
                model.train()
        except StopAskedError:
            return False
        except ValueError:
            check_parameters(self.policy)
            raise
        return True

    def optimizers(self) -> tuple[th.optim.Optimizer, ...]:
        policy: Any = self.policy
        owners = (policy, *(getattr(policy, name, None) for name in _OPTIMIZED))
        found = [getattr(owner, "optimizer", None) for owner in owners]
        found.append(getattr(self, "ent_coef_optimizer", None))
        whole = (it for it in found if isinstance(it, th.optim.Optimizer))
        return tuple({id(it): it for it in whole}.values())

    def learned_besides(self) -> dict[str, th.Tensor]:
        coefficient = getattr(self, "log_ent_coef", None)
        return {} if coefficient is None else {"log_ent_coef": coefficient}

    def counters(self) -> Tree | None:
        counted: Tree = {name: vars(self)[name] for name in _COUNTED if name in vars(self)}
        noise: Any = getattr(self, "action_noise", None)
        each: list[Any] = noise.noises if isinstance(noise, VectorizedActionNoise) else [noise]
        if any(hasattr(one, "noise_prev") for one in each):
            counted["noise"] = [np.array(one.noise_prev) for one in each]
        if (original := getattr(self, "_last_original_obs", None)) is not None:
            counted["last_original_obs"] = (
                {key: np.array(part) for key, part in original.items()}
                if isinstance(original, dict)
                else np.array(original)
            )
        return counted

    def count_from(self, counters: Tree) -> None:
        for name in _COUNTED:
            if name in counters:
                setattr(self, name, counters[name])
        noise: Any = getattr(self, "action_noise", None)
        each = noise.noises if isinstance(noise, VectorizedActionNoise) else [noise]
        for one, was in zip(each, counters.get("noise", ()), strict=False):
            if hasattr(one, "noise_prev"):
                one.noise_prev = was
        if "last_original_obs" in counters:
            self._last_original_obs = counters["last_original_obs"]

    def _setup_learn(self, *args: Any, **kwargs: Any) -> Any:
        # SB3 resets the noise of actions here, which a resume has just put back.
        noise = (self.counters() or {}).get("noise", ())
        begun = super()._setup_learn(*args, **kwargs)
        self.count_from({"noise": noise})
        return begun

    def _update_current_progress_remaining(self, num_timesteps: int, total_timesteps: int) -> None:
        """By the budget of the run, which may be seconds."""
        if self._remaining is None:
            super()._update_current_progress_remaining(num_timesteps, total_timesteps)
        else:
            self._current_progress_remaining = self._remaining(num_timesteps)

    def _update_info_buffer(self, infos: list[dict[str, Any]], dones: np.ndarray | None = None) -> None:
        super()._update_info_buffer(infos, dones)
        self.episodes.add(infos)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), *_OURS]

    def _maybe_recommend_cpu(self, mlp_class_name: str = "ActorCriticPolicy") -> None:
        """SB3 warns when an MLP is trained on a GPU; here the device was asked for or chosen, and is recorded."""


class Period:
    """What was logged in one period. `enter` is told when it first learns."""

    def __init__(self, enter: Callable[[Phase], None]) -> None:
        self.update_s = 0.0
        self._enter, self._learns = enter, False
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._counts: defaultdict[str, int] = defaultdict(int)

    def learn(self) -> None:
        """It learns now."""
        if not self._learns:
            self._learns = True
            self._enter("update")

    def take(self, logged: dict[str, Any]) -> None:
        """Take what one update logged."""
        for tag, value in logged.items():
            if not isinstance(value, int | float | np.number):
                continue
            number = float(value)
            if tag == _UNDEFINED and not np.isfinite(number):
                continue
            if tag in _LAST:
                self._sums[tag], self._counts[tag] = number, 1
            else:
                self._sums[tag] += number
                self._counts[tag] += 1

    def means(self) -> dict[str, float]:
        """By tag, for the row."""
        return {tag: self._sums[tag] / count for tag, count in self._counts.items()}

    def check_finite(self) -> None:
        """Raise `NonFiniteError` naming the first loss that is nan or infinite."""
        for tag, value in self.means().items():
            if not np.isfinite(value) and tag.endswith("loss"):
                raise NonFiniteError(f"{tag} became {value} in an update")


class _logged_into:  # noqa: N801 - a context, read as a verb
    """While an algorithm trains, what it logs goes into a period instead of the callbacks' log."""

    def __init__(self, model: Any, period: Period) -> None:
        self._model, self._period = model, period

    def __enter__(self) -> None:
        self._before, self._own = self._model._logger, Logger(None, [])
        self._model._logger = self._own

    def __exit__(self, *_: object) -> None:
        self._model._logger = self._before
        self._period.take(dict(self._own.name_to_value))


class SearchLearner(PeriodLearner):
    """Goes in front of sb3-contrib's ARS, which has no gradients: in each iteration candidates around the weights play
    whole episodes, and the weights move towards those that came to more. A round is one iteration, of its own
    operations; a stop drops the one that is under way: its candidates are drawn again.
    """

    _played_s = 0.0

    def _round(self, watch: RolloutWatch, period: Period) -> bool:
        model: Any = self
        # ARS keeps the weights as one vector besides; a checkpoint and a clone put back those of the policy.
        model.weights = th.nn.utils.parameters_to_vector(self.policy.parameters()).detach()
        self._update_current_progress_remaining(self.num_timesteps, self._total_timesteps)
        try:
            model._do_one_update(watch, None)
        except StopAskedError:
            return False
        period.update_s += unstopped_s() - self._played_s
        period.take({tag: self.logger.name_to_value[tag] for tag in _LOGGED})
        return True

    def evaluate_candidates(self, candidate_weights: th.Tensor, callback: BaseCallback, async_eval: None) -> th.Tensor:
        """Their returns, as ARS has them; what it does with them is the update."""
        above: Any = super()
        returns: th.Tensor = above.evaluate_candidates(candidate_weights, callback, async_eval)
        self._played_s = unstopped_s()
        return returns

    def _trigger_callback(
        self, _locals: dict[str, Any], _globals: dict[str, Any], callback: BaseCallback, n_envs: int
    ) -> None:
        """After each step of a candidate. ARS does not ask what callbacks answer, nor what its environment says of an
        episode beyond return and length.
        """
        callback.update_locals({name: _locals[theirs] for name, theirs in _TOLD.items()})
        self._update_info_buffer([_locals["info"]], np.array([_locals["done"]]))
        self.num_timesteps += n_envs
        if not callback.on_step():
            raise StopAskedError

    def _mimic_monitor_wrapper(self, episode_rewards: np.ndarray, episode_lengths: np.ndarray) -> None:
        """Environments here say when an episode has ended; see `_trigger_callback`."""

    def _excluded_save_params(self) -> list[str]:
        # `load` makes the weights anew of the policy's.
        return [*super()._excluded_save_params(), "weights", "_played_s"]


@cache
def learner_class(other: OtherAlgorithm) -> type[PeriodLearner]:
    """The class that trains `other`. Its package is loaded by whoever trains with it; see `check_contrib`."""
    sb3 = getattr(importlib.import_module(other.package), other.called)
    learner = SearchLearner if other.table is ArsSpec else PeriodLearner

    class Trained(learner, sb3):  # type: ignore[misc, valid-type]  # of classes that are known at run time
        algo: ClassVar[str] = other.name

    Trained.__name__ = Trained.__qualname__ = other.called
    return Trained
