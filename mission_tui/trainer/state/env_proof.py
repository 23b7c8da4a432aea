"""Whether an environment, a single or a batched one, that says it can save its state really can: saved, stepped on,
restored elsewhere, compared.

Two methods of the right names prove nothing. A state that lacks the random generator, or a counter, or that shares
memory with the environment would make a resume compute other numbers than the run that never stopped, and call itself
exact. So the state takes the way of a checkpoint, through files, into a second instance, which must live the same
future. Ours and Gymnasium's classic control are held to that by tests and are not tried.

Needs gymnasium and NumPy only. The global random generators are left as they were.
"""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from mission_tui.envs.masks import MASKS
from mission_tui.envs.state import StatefulEnv, can_save_state, restore_env_state, save_env_state, tested_class
from mission_tui.errors import CheckpointError, MissionError, raised_by
from mission_tui.fleet.specs.spec import CLASSIC_CONTROL, MISSION_GYM, EnvSpec
from mission_tui.fleet.text import clean
from mission_tui.run_module import module_words
from mission_tui.trainer.named_parts import env_kwargs, find_env, load_entry_point, make_env, making
from mission_tui.trainer.tree import read_tree, write_tree

_MOST_REMEMBERED, _MOST_BYTES, _DEEPEST = 2_000, 1 << 20, 3
_GYMNASIUMS = ("spec", "metadata", "render_mode", "observation_space", "action_space", "_np_random_seed")
_CLOCKS = ("time", "clock", "fps", "duration", "elapsed_s", "seconds", "wall", "latency", "took", "_ms")


class _Subject:
    """What single and batched environments are asked in the same way."""

    _env: Any

    def attributes(self) -> dict[str, Any]:
        """What the environment itself remembers, as plain values by name."""
        return _remembered(self._env.unwrapped)

    def move(self, name: str, by: int) -> bool:
        """Add `by` to a number that it remembers; false where that cannot be done."""
        base = self._env.unwrapped
        if name not in vars(base):
            return False
        setattr(base, name, getattr(base, name) + by)
        return True

    def close(self) -> None:
        with suppress(Exception):
            self._env.close()


class SingleSubject(_Subject):
    """One environment, whose episodes begin anew as a vectorised one has them begin."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._actions = deepcopy(env.action_space)

    @property
    def saves(self) -> bool:
        return can_save_state(self._env)

    @property
    def tested(self) -> bool:
        return tested_class(self._env.unwrapped) or not isinstance(self._env.unwrapped, StatefulEnv)

    def reset(self, seed: int | None) -> dict[str, Any]:
        observation, info = self._env.reset(seed=seed)
        return {"first observations": deepcopy(observation), "infos of a reset": deepcopy(_comparable(info))}

    def choose(self, chooser: np.random.Generator) -> Any:
        mask = self._env.get_wrapper_attr(MASKS)() if self._env.has_wrapper_attr(MASKS) else None
        return _choice(self._actions, chooser, mask)

    def step(self, action: Any) -> tuple[dict[str, Any], bool]:
        observation, reward, terminated, truncated, info = self._env.step(deepcopy(action))
        seen = {
            "observations": deepcopy(observation),
            "rewards": float(reward),
            "terminations": bool(terminated),
            "truncations": bool(truncated),
            "infos": deepcopy(_comparable(info)),
        }
        if terminated or truncated:
            seen |= self.reset(None)
        return seen, bool(terminated or truncated)

    def save(self) -> Any:
        return save_env_state(self._env)

    def restore(self, state: Any) -> None:
        restore_env_state(self._env, state)


class BatchedSubject(_Subject):
    """A batched environment, which begins the episodes of its lanes anew by itself."""

    def __init__(self, envs: Any) -> None:
        self._env = envs
        self._actions = deepcopy(envs.single_action_space)

    @property
    def saves(self) -> bool:
        return isinstance(self._env, StatefulEnv)

    @property
    def tested(self) -> bool:
        return tested_class(self._env.unwrapped)

    def reset(self, seed: int | None) -> dict[str, Any]:
        observations, _ = self._env.reset(seed=seed)
        return {"first observations": deepcopy(observations)}

    def choose(self, chooser: np.random.Generator) -> Any:
        masks = getattr(self._env, MASKS)() if hasattr(self._env, MASKS) else [None] * self._env.num_envs
        return np.stack([_choice(self._actions, chooser, mask) for mask in masks])

    def step(self, actions: Any) -> tuple[dict[str, Any], bool]:
        observations, rewards, terminated, truncated, _ = self._env.step(actions.copy())
        seen = {
            "observations": deepcopy(observations),
            "rewards": np.array(rewards),
            "terminations": np.array(terminated),
            "truncations": np.array(truncated),
        }
        return seen, bool(np.any(terminated | truncated))

    def save(self) -> Any:
        return self._env.get_state()

    def restore(self, state: Any) -> None:
        self._env.set_state(state)


@dataclass(frozen=True, slots=True)
class GeneratorPosition:
    """Where a random generator stands."""

    state: str


def _remembered(base: Any) -> dict[str, Any]:
    """What `base` remembers, by path: numbers, words, arrays, lists of such, generators; and in what it is made of."""
    found: dict[str, Any] = {}
    _remember(found, "", base, 0, set())
    return found


def _remember(found: dict[str, Any], path: str, value: Any, depth: int, seen: set[int]) -> None:
    if len(found) >= _MOST_REMEMBERED:
        return
    match value:
        case None | bool() | int() | float() | str() | np.number() | np.bool_():
            found[path] = value
        case np.random.Generator():
            found[path] = GeneratorPosition(repr(value.bit_generator.state))
        case np.random.RandomState():
            found[path] = GeneratorPosition(repr(value.get_state(legacy=False)))
        case random.Random():
            found[path] = GeneratorPosition(repr(value.getstate()))
        case np.ndarray():
            if value.dtype != object and value.nbytes <= _MOST_BYTES:
                found[path] = value.copy()
        case list() | tuple() | deque():
            if len(value) <= _MOST_REMEMBERED and all(map(_is_plain, value)):
                found[path] = list(value)
            elif depth < _DEEPEST:
                for index, each in enumerate(value):
                    _remember(found, f"{path}[{index}]", each, depth + 1, seen)
        case set() | frozenset():
            if len(value) <= _MOST_REMEMBERED:
                found[path] = sorted(map(repr, value))
        case _:
            inside = value if isinstance(value, dict) else getattr(value, "__dict__", None)
            module = type(value).__module__
            foreign = isinstance(value, type | ModuleType | spaces.Space) or callable(value) or module == "builtins"
            if not isinstance(inside, dict) or id(value) in seen or depth > _DEEPEST:
                return
            if foreign and not isinstance(value, dict) and depth:
                return
            seen.add(id(value))
            for name, each in list(inside.items()):
                if not (depth == 0 and name in _GYMNASIUMS):
                    _remember(found, f"{path}.{name}" if path else str(name), each, depth + 1, seen)


def _is_plain(value: Any) -> bool:
    return isinstance(value, int | float | str | np.number)


def _comparable(info: Any) -> dict[str, Any]:
    """What of an info says something about the task: numbers, words and arrays, but no clocks."""
    if not isinstance(info, dict):
        return {}
    return {
        str(name): value
        for name, value in info.items()
        if isinstance(value, bool | int | float | str | np.number | np.bool_)
        or (isinstance(value, np.ndarray) and value.dtype != object)
        if not any(word in str(name).lower() for word in _CLOCKS)
    }


def _choice(actions: spaces.Space[Any], chooser: np.random.Generator, mask: Any) -> Any:
    """An action by chance, of those that the mask allows; the environment's own space draws nothing for it."""
    match actions:
        case spaces.Discrete() if mask is not None:
            return actions.start + int(chooser.choice(np.flatnonzero(mask)))
        case spaces.MultiDiscrete() if mask is not None:
            parts = np.split(np.asarray(mask), np.cumsum(actions.nvec.ravel())[:-1])
            chosen = [int(chooser.choice(np.flatnonzero(part))) for part in parts]
            return np.array(chosen, dtype=actions.dtype).reshape(actions.nvec.shape)
        case _:
            actions.seed(int(chooser.integers(2**31)))
            return actions.sample()


BUDGET_S = 0.12
"""How long each of the two futures is lived at most, once it is long enough to mean anything."""

LANES = 3
ELSEWHERE_S = 120.0
"""For a Python, the imports of an environment and what was lived here."""

_SEED, _OTHER_SEED = 20_077, 31_013
_WARM_STEPS, _FEWEST_STEPS, _MOST_STEPS, _EPISODES, _AFTERMATH = 7, 48, 20_000, 2, 12
_EARLY_STEPS, _JUMPS = 5, (7, 1_009, 1_000_003, -1_009)

Elsewhere = Callable[[Any, "_Future"], str]
"""Tries a state and a future in another process; the sentence that comes of it."""


def unproven(env: EnvSpec, snapshot: Path | None, *, batched: bool) -> str:
    """Why environments of `env` cannot be restored exactly although they say so, as a sentence without its subject;
    empty where they can, or say nothing of the kind. Raises `PresetError` for what cannot be made.
    """
    if not env.wrappers and env.id.rpartition(":")[2] in CLASSIC_CONTROL | {MISSION_GYM}:
        return ""

    _, make = _maker(env, snapshot, batched)
    return prove(make, batched=batched, elsewhere=partial(_tried_elsewhere, env, snapshot, batched))


def _maker(env: EnvSpec, snapshot: Path | None, batched: bool) -> tuple[Any, Callable[[], Any]]:
    """How an environment, or a batch of them, is dealt with, and made."""

    def make() -> gymnasium.Env[Any, Any]:
        return make_env(env, snapshot, around=lambda made: made)

    def make_batch() -> Any:
        registered = find_env(env)
        with making(env.id):
            load_entry_point(registered.vector_entry_point)
            return gymnasium.make_vec(
                registered,
                min(env.n_envs, LANES),
                vectorization_mode="vector_entry_point",
                **env_kwargs(env, snapshot),
            )

    return (BatchedSubject, make_batch) if batched else (SingleSubject, make)


def answer_elsewhere(folder: Path) -> None:
    """In the second process, which runs this module: `folder` is where the first left the state and its future."""
    path, env, snapshot, batched, acts, seen = pickle.loads((folder / "future").read_bytes())  # noqa: S301 - its own
    sys.path[:] = path
    subject, make = _maker(env, snapshot, batched)
    with closing(subject(make())) as copy:
        copy.restore(read_tree(folder / "state")["env"])
        (folder / "answer").write_text(_difference(copy, _Future(acts, seen)), encoding="utf-8")


def _tried_elsewhere(env: EnvSpec, snapshot: Path | None, batched: bool, kept: Any, future: _Future) -> str:
    """The same in a process of its own: a state that names something in this one's memory is worth nothing there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tree({"env": kept}, folder / "state")
        (folder / "future").write_bytes(pickle.dumps((sys.path, env, snapshot, batched, future.acts, future.seen)))
        words = (*module_words("mission_tui.trainer.state.env_proof"), name)
        try:
            with (folder / "said").open("wb") as said:
                code = subprocess.run(
                    words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=ELSEWHERE_S, check=False
                ).returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"its state could not be tried in another process: {error}"
        answer = folder / "answer"
        if code or not answer.is_file():
            last = (folder / "said").read_bytes()[-400:].decode("utf-8", "replace").strip().splitlines()[-1:]
            return clean(f"its get_state does not hold in another process: {''.join(last) or f'exit code {code}'}", 300)
        sentence = answer.read_text(encoding="utf-8")
        return f"{sentence}, in another process" if sentence else ""


def prove(make: Callable[[], Any], *, batched: bool, elsewhere: Elsewhere | None = None) -> str:
    """As `unproven`, of what `make` makes: single environments, or batches that begin their episodes anew.

    `elsewhere` tries the same once more, in a process that knows nothing of this one.
    """
    subject = BatchedSubject if batched else SingleSubject
    with _generators_kept():
        original: Any = subject(make())
        try:
            if not original.saves or original.tested:
                return ""
            return _tried(original, lambda: subject(make()), elsewhere)
        except MissionError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an environment is foreign code and may raise anything
            return f"it raised {raised_by(error)} while its get_state was tried"
        finally:
            original.close()


def _tried(original: Any, again: Callable[[], Any], elsewhere: Elsewhere | None) -> str:
    original.reset(_SEED)
    chooser = np.random.default_rng(_SEED)
    for _ in range(2):
        for _ in range(_WARM_STEPS):
            original.step(original.choose(chooser))
        began, kept = original.attributes(), original.save()
        try:
            steady = _same(_through_files(kept), _through_files(original.save()))
        except CheckpointError as error:
            return f"what its get_state returns cannot be kept in a checkpoint: {error}"
        if not steady:
            return "its get_state changes what it saves: a second one is different"
        future = _lived(original, chooser)
        with closing(again()) as copy:
            # Again, and only now: what was given may go on changing.
            state = _through_files(kept)
            try:
                copy.restore(state)
            except Exception as error:  # noqa: BLE001 - foreign code
                return f"its set_state raised {raised_by(error)}"
            restored, early = copy.attributes(), list[dict[str, Any]]()
            different = _difference(copy, future, early)
            still = _still_different(began, restored, early, future)
            if sentence := _left_out(began, still, future) or different or _undrawn(began, still, future):
                return sentence
            ends = future.beginnings[-1]
            counters = {name for name in still if _is_counter(began[name]) and not _same(began[name], ends.get(name))}
        if sentence := _jumped(again, kept, counters, future):
            return sentence
    return "" if elsewhere is None else elsewhere(kept, future)


@dataclass(slots=True)
class _Future:
    """What was done and what came of it.

    `beginnings`: what an environment remembers right after its resets; `early`: after its first steps.
    """

    acts: list[Any] = field(default_factory=list)
    seen: list[dict[str, Any]] = field(default_factory=list)
    beginnings: list[dict[str, Any]] = field(default_factory=list)
    early: list[dict[str, Any]] = field(default_factory=list)


def _lived(subject: Any, chooser: np.random.Generator) -> _Future:
    """Some episodes if they are short, at least so many steps if not; then a beginning after a reset in mid-episode."""
    future, until, episodes = _Future(), time.monotonic() + BUDGET_S, 0
    for step in range(_MOST_STEPS):
        long_enough = step >= _FEWEST_STEPS and (episodes >= _EPISODES or time.monotonic() > until)
        if long_enough:
            break
        act = subject.choose(chooser)
        seen, ended = subject.step(act)
        future.acts.append(act)
        future.seen.append(seen)
        if not ended and episodes == 0 and step < _EARLY_STEPS:
            future.early.append(subject.attributes())
        if ended:
            episodes += 1
            future.beginnings.append(subject.attributes())
    future.acts.append(None)
    future.seen.append(subject.reset(None))
    future.beginnings.append(subject.attributes())
    for _ in range(_AFTERMATH):
        act = subject.choose(chooser)
        future.acts.append(act)
        future.seen.append(subject.step(act)[0])
    return future


def _difference(copy: Any, future: _Future, early: list[dict[str, Any]] | None = None) -> str:
    for step, (act, was) in enumerate(zip(future.acts, future.seen, strict=True), start=1):
        now = copy.reset(None) if act is None else copy.step(act)[0]
        for name, value in was.items():
            if not _same(value, now.get(name)):
                return f"its get_state does not restore its {name}: first difference at step {step}"
        if early is not None and len(early) < len(future.early):
            early.append(copy.attributes())
    return ""


def _still_different(
    was: dict[str, Any], now: dict[str, Any], early: list[dict[str, Any]], future: _Future
) -> list[str]:
    """What a restored environment remembers otherwise, and goes on to after some steps: no note of the last step."""
    pairs = list(zip(future.early, early, strict=False))
    return [
        name
        for name, value in was.items()
        if name in now
        and not _same(value, now[name])
        and all(not _same(one.get(name), other.get(name)) for one, other in pairs)
    ]


def _left_out(was: dict[str, Any], still: list[str], future: _Future) -> str:
    """What every episode begins with anew, and a restored environment has not as it was.

    A limit of steps may lie further away than anything that is tried here.
    """
    for name in still:
        anew = [beginning.get(name) for beginning in future.beginnings]
        if all(_same(each, anew[0]) for each in anew) and not _same(was[name], anew[0]):
            return f"its get_state leaves out '{name}', which changes within an episode"
    return ""


def _undrawn(was: dict[str, Any], still: list[str], future: _Future) -> str:
    """A random generator that stands elsewhere: the next draw may lie further away likewise."""
    for name in still:
        # Gymnasium's own is there whether it is used or not.
        used = name != "_np_random" or any(not _same(each.get(name), was[name]) for each in future.beginnings)
        if used and isinstance(was[name], GeneratorPosition):
            return f"its get_state leaves out '{name}', a random generator"
    return ""


def _is_counter(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _jumped(again: Callable[[], Any], kept: Any, counters: set[str], future: _Future) -> str:
    """Whether what it does depends on a number that is left out and only ever grows: with a large one it would show."""
    for jump in _JUMPS if counters else ():
        with closing(again()) as copy:
            copy.restore(_through_files(kept))
            moved = [name for name in sorted(counters) if copy.move(name, jump)]
            try:
                differs = bool(moved and _difference(copy, future))
            except Exception:  # noqa: BLE001 - foreign code, which has met a number that it did not make
                differs = True
            if differs:
                names = ", ".join(f"'{name}'" for name in moved)
                return f"its get_state leaves out {names}, and what it does depends on that"
    return ""


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        alike = isinstance(other, list | tuple) and len(one) == len(other)
        return alike and all(_same(a, b) for a, b in zip(one, other, strict=True))
    first, second = np.asarray(one), np.asarray(other)
    if first.shape != second.shape or first.dtype.kind != second.dtype.kind:
        return False
    return bool(np.array_equal(first, second, equal_nan=first.dtype.kind in "fc"))


def _through_files(state: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        write_tree({"env": state}, Path(folder) / "state")
        return read_tree(Path(folder) / "state")["env"]


@contextmanager
def _generators_kept() -> Iterator[None]:
    """Python's, NumPy's and, where it is loaded, torch's global generators stand afterwards where they stood.

    Meanwhile they go their own way: what an environment draws from them is not its state, and must not look like it.
    """
    torch = sys.modules.get("torch")
    kept, legacy = random.getstate(), np.random.get_state()
    positions = None if torch is None else torch.get_rng_state()
    try:
        random.seed(_OTHER_SEED)
        np.random.seed(_OTHER_SEED)
        yield
    finally:
        random.setstate(kept)
        np.random.set_state(legacy)
        if torch is not None:
            torch.set_rng_state(positions)


if __name__ == "__main__":
    answer_elsewhere(Path(sys.argv[1]))
