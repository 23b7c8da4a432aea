"""Building the vectorised environment of a run: the kind, the lanes, and around them the normaliser and the frames, or
action masks: which choices are allowed now, asked of every environment and checked. Whatever an environment answers
wrongly is an `EnvError` that names it, before the policy samples from it.

`Monitor` sits directly around each environment, as in SB3's own `make_vec_env`, so that returns are those of the task
and not those of a wrapper.

Where nobody wrote `env.vec` and `env.n_workers`, it is native where a batched form will do, else what is cheapest.
Processes share environments evenly: the trainer and workers ("split"), or workers alone, for which the trainer waits.
Where so few processes cannot, the trainer steps all. Those that compute get at most a core each; those that wait may be
more, because waiting (for a simulator, for a socket) side by side costs no core. So a step is measured twice: time of
the clock, and time of the processor within it. On 2 cores 64 environments that wait 10 ms make 195 steps/s on 2
workers, 1,480 on 16, 2,600 on 32 and 3,400 on 64; 8 that compute 10 ms gain 1.82 x over one worker on 2, and 1.77 x on
4.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import gymnasium
import msgspec
import numpy as np
import psutil
from numpy.typing import NDArray
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecFrameStack, VecNormalize
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from mission_tui.control_groups import usable_cores
from mission_tui.envs.channel import EnvRecipe
from mission_tui.envs.masks import MASKS, choices, sampled
from mission_tui.errors import PresetError, raised_by
from mission_tui.fleet.events.processes import EnvWorkers
from mission_tui.fleet.specs.algorithm import discount_of
from mission_tui.fleet.specs.sizes import WITH_WORKERS, divisors, nearby_workers, shares_of
from mission_tui.fleet.specs.spec import EnvSpec, Normalize, Spec, parse_part
from mission_tui.forks import leave_fork
from mission_tui.trainer.failures import EnvError, complain
from mission_tui.trainer.named_parts import env_kwargs, find_env, gym_id, make_env, making, native_refusal
from mission_tui.trainer.spaces import short, stack_refusal
from mission_tui.trainer.vec_env.in_process import InlineVecEnv, NativeVecEnv
from mission_tui.trainer.vec_env.workers import WorkersVecEnv

VecKind = Literal["native", "inline", "split", "workers"]

_HAND_OVER_S = 100e-6
"""What a step of all environments costs over their work for each worker: waking it and hearing it.

Measured: 140 to 270 us with 2 workers on 2 cores, 4.5 ms with 32, 8.6 ms with 64.
"""
_SPUN_HAND_OVER_S = 30e-6
"""The same where trainer and workers have a core each, on which they spin for a while: 20 us were measured."""
_WORTH_IT = 0.7
"""Of the time inline, at most: two cores step 1.3 to 1.9 times as much as one, and others may want the second."""
_AS_GOOD = 1.1
_MOST_A_CORE = 16
"""Workers that wait: each takes 26 MiB and about a tenth of a second to start (32: 3.9 s, on 2 cores)."""
_MEASURE_S = 0.15
_SILENT_S = 30.0
"""No environment that was seen takes so long to be made, to be reset twice and to make a few steps."""
_WAITS_A_STEP = 0.5

Masks = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class StepCost:
    """Seconds of a step alone on a quiet machine, and processor seconds within it, of whatever process it starts too.

    `work_s` may exceed `step_s` where several threads work on one step.
    """

    step_s: float
    work_s: float

    @property
    def waits(self) -> bool:
        """Whether more of a step is waiting than work."""
        return self.work_s < 0.5 * self.step_s

    def __str__(self) -> str:
        step = f"one step takes {self.step_s * 1e6:,.0f} us"
        return f"{step}, of which {self.work_s * 1e6:,.0f} us are work" if self.waits else step


@contextmanager
def _hang_said() -> Iterator[None]:
    """Says in the log where the environment stands that does not come back: no heartbeat and no row can tell yet."""
    silence = threading.Timer(_SILENT_S, _say_where, (threading.get_ident(),))
    silence.daemon = True
    silence.start()
    try:
        yield
    finally:
        silence.cancel()


def _say_where(thread: int) -> None:
    frame = sys._current_frames().get(thread)  # the only way to see another thread's
    if frame is not None:
        at = f"{frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}"
        complain(f"the environment that is tried out to choose env.vec has not answered for {_SILENT_S:g} s ({at})")


def step_cost(make: Callable[[], gymnasium.Env[Any, Any]]) -> StepCost:
    """The cost of a step with random actions, allowed ones where the environment says which, resets included but not
    the very first step. Raises `EnvError` for whatever the environment raises in it.

    An environment that never gives the processor away computes: its time is processor time, which does not grow on a
    busy machine. One that does is measured again, by the clock, with the processes that work for it by then.
    """
    env = make()
    try:
        env.reset()
        draw = _drawing(env)
        env.step(draw())
        env.reset()
        waits, worked = _waits(), time.thread_time()
        steps, _ = _stepped(env, draw)
        if _waits() - waits < _WAITS_A_STEP * steps:
            each_s = (time.thread_time() - worked) / steps
            return StepCost(each_s, each_s)
        family = [os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))]
        before = _processor_s(family)
        steps, elapsed_s = _stepped(env, draw)
        after = _processor_s(family)
        return StepCost(elapsed_s / steps, sum(after[pid] - before[pid] for pid in after.keys() & before) / steps)
    except Exception as error:  # an environment is foreign code and may raise anything
        leave_fork(error)
        raise EnvError(f"an environment raised {raised_by(error)}") from error
    finally:
        leave_fork(sys.exc_info()[1])
        env.close()


def _stepped(env: gymnasium.Env[Any, Any], draw: Callable[[], Any]) -> tuple[int, float]:
    steps, begun = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begun) < _MEASURE_S:
        _, _, terminated, truncated, _ = env.step(draw())
        steps += 1
        if terminated or truncated:
            env.reset()
    return steps, elapsed


def _drawing(env: gymnasium.Env[Any, Any]) -> Callable[[], Any]:
    """How an action is drawn; decided once, because asking costs as much as some steps."""
    if not env.has_wrapper_attr(MASKS):
        return env.action_space.sample
    masks = env.get_wrapper_attr(MASKS)
    return lambda: sampled(env.action_space, np.asarray(masks(), dtype=bool))


def _waits() -> int:
    """How often this thread has given the processor away of its own accord; being preempted does not count."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def _processor_s(pids: Sequence[int]) -> dict[int, float]:
    """Processor seconds of each process that lives, to the nanosecond: `/proc` and psutil count hundredths, and a
    busy machine takes seven steps in the time of a measure.
    """
    seconds = {}
    for pid in pids:
        with suppress(OSError):  # it has ended
            seconds[pid] = time.clock_gettime(~pid << 3 | 2)  # what clock_getcpuclockid(3) returns on Linux
    return seconds


@dataclass(frozen=True, slots=True)
class Choice:
    """How environments are stepped, and the sentence that explains it; `n_workers` is None where there are none."""

    kind: VecKind
    n_workers: int | None
    reason: str


def choose(env: EnvSpec, make: Callable[[], gymnasium.Env[Any, Any]], cores: int) -> Choice:
    """What `env` leaves open, measured where that takes measuring."""
    match env.vec, env.n_workers:
        case ("native" | "inline") as kind, _:
            return Choice(kind, None, "as the preset says")
        case ("split" | "workers") as kind, int(n_workers):
            return Choice(kind, n_workers, "as the preset says" + _crowded(kind, n_workers, cores))
    if env.vec == "auto" and native_refusal(env) is None:
        return Choice("native", None, f"{env.id} has a batched form with same-step autoreset")
    if env.n_envs == 1:
        alone = "one environment cannot be shared out"
        return Choice("workers", 1, alone) if env.vec == "workers" else Choice("inline", None, alone)
    with _hang_said():
        cost = step_cost(make)
    return cheapest(env, cost, cores)


def keep(env: EnvSpec, kind: VecKind, n_workers: int | None, cores: int) -> Choice:
    """What an earlier attempt resolved, as far as it still fits: a resume may have changed `n_envs`."""
    if kind not in WITH_WORKERS:
        return Choice(kind, None, "as in the attempt before")
    most = env.n_workers or n_workers or cores - shares_of(kind, 0)
    fitting = [count for count in nearby_workers(kind, env.n_envs, most) if count <= most]
    if not fitting:
        return Choice("inline", None, f"{env.n_envs} cannot be shared evenly by {shares_of(kind, most)} or fewer")
    return Choice(kind, fitting[0], "as in the attempt before")


def cheapest(env: EnvSpec, cost: StepCost, cores: int) -> Choice:
    """The fewest workers that are as good as any, or inline where those do not pay and `env.vec` leaves it open.

    Where it leaves that open, too, the trainer steps a share: its core has nothing else to do meanwhile.
    """
    n_envs, inline_s = env.n_envs, env.n_envs * cost.step_s
    kind: Literal["split", "workers"] = "split" if env.vec != "workers" and env.n_workers is None else "workers"
    own = shares_of(kind, 0)
    counts = [count - own for count in _shares(env, cost, cores) if count > own]
    if not counts:
        return Choice("inline", None, f"{cost}, on {cores} core(s)" + _unshared(env, 1, cores))
    times = {count: _seconds(n_envs, count, own, cost, cores) for count in counts}
    n_workers = next(count for count in counts if times[count] <= _AS_GOOD * min(times.values()))
    on = f"split with {n_workers}" if own else f"on {n_workers}"
    compared = (
        f"{cost}; {n_envs} environments {on} worker(s) take {times[n_workers] * 1e3:.2f} ms, "
        f"inline {inline_s * 1e3:.2f} ms on {cores} core(s)"
    )
    if env.vec == "auto" and times[n_workers] >= _WORTH_IT * inline_s:
        return Choice("inline", None, compared + _unshared(env, counts[-1] + own, cores))
    return Choice(kind, n_workers, compared + _next(times, n_workers) + _unshared(env, counts[-1] + own, cores))


def _shares(env: EnvSpec, cost: StepCost, cores: int) -> Sequence[int]:
    """The numbers of processes to choose from, ascending."""
    if env.n_workers is not None:
        return [env.n_workers]
    most = _MOST_A_CORE * cores if cost.waits else cores
    return [count for count in divisors(env.n_envs) if count <= most]


def _seconds(n_envs: int, n_workers: int, own: int, cost: StepCost, cores: int) -> float:
    """A step of all: processes step theirs one after another, and no more work is done at once than there are cores.

    `own` is 1 where the trainer steps a share, too.
    """
    share_s = n_envs // (n_workers + own) * cost.step_s
    hand_over_s = _SPUN_HAND_OVER_S if n_workers < cores else _HAND_OVER_S
    return hand_over_s * n_workers + max(share_s, n_envs * cost.work_s / cores)


def _next(times: dict[int, float], n_workers: int) -> str:
    more = next((count for count in times if count > n_workers), None)
    return "" if more is None else f", {more} workers {times[more] * 1e3:.2f} ms"


def _crowded(kind: VecKind, n_workers: int, cores: int) -> str:
    """A word about a trainer that has no core of its own: at every step somebody waits to be let on one, which takes
    ten times as long as with a share for each core (`benchmarks.stepping`).
    """
    if kind != "workers" or n_workers != cores or cores == 1:
        return ""
    shared = f'env.vec = "split" with env.n_workers = {n_workers - 1}'
    return f"; {n_workers} workers and the trainer share {cores} cores, where {shared} has one for each"


def _unshared(env: EnvSpec, shares: int, cores: int) -> str:
    """A word about cores that stay idle because no larger number of processes divides the environments."""
    if env.n_workers is not None or shares >= min(cores, env.n_envs):
        return ""
    even = -(-env.n_envs // cores) * cores
    return f"; {env.n_envs} cannot be shared evenly by {cores}, env.n_envs = {even} could"


@runtime_checkable
class SavableVecEnv(Protocol):
    """A VecEnv at the bottom of the wrapper stack."""

    @property
    def can_save_state(self) -> bool:
        """Whether `get_state` covers everything its future depends on."""
        ...

    def get_state(self) -> dict[str, Any]:
        """A copy of the state: nested dictionaries and lists of arrays and JSON values."""
        ...

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from `state`; raises `CheckpointError` when it does not fit."""
        ...


def savable(vec: VecEnv) -> SavableVecEnv | None:
    """The environment below all wrappers if its state can be saved, else None."""
    base = vec.unwrapped
    return base if isinstance(base, SavableVecEnv) and base.can_save_state else None


@dataclass(frozen=True, slots=True)
class EnvMaker:
    """A factory that can be sent to a worker process: importing happens where the environment is made."""

    env: EnvSpec
    snapshot: Path | None

    def __call__(self) -> gymnasium.Env[Any, Any]:
        """One monitored, wrapped environment. Raises `PresetError` for what the preset has wrong."""
        try:
            env = make_env(self.env, self.snapshot, around=Monitor)
        except BaseException as error:
            leave_fork(error)
            raise
        leave_fork()
        return env


def _make_batched(env: EnvSpec, snapshot: Path | None) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """All `env.n_envs` lanes as one environment through its `vector_entry_point`. Raises `PresetError`."""
    sentence = native_refusal(env)
    if sentence is not None:
        raise PresetError(f"env.vec = 'native': {sentence}; use env.vec = 'inline', 'split' or 'workers'")
    arguments = env_kwargs(env, snapshot)
    with making(env.id):
        # Loaded by now, and guarded, as it was asked how its episodes begin anew.
        return gymnasium.make_vec(find_env(env), env.n_envs, vectorization_mode="vector_entry_point", **arguments)


@dataclass(frozen=True, slots=True)
class BuiltEnvs:
    """The environment of a run, which kind it is, and why."""

    vec: VecEnv
    kind: VecKind
    reason: str

    @property
    def worker_pids(self) -> tuple[int, ...]:
        base = self.vec.unwrapped
        return base.pids if isinstance(base, WorkersVecEnv) else ()

    @property
    def worker_status(self) -> Callable[[], EnvWorkers] | None:
        """Says who of the workers is late and who is slow; None where there are none."""
        base = self.vec.unwrapped
        return base.pool.sample if isinstance(base, WorkersVecEnv) else None

    @property
    def n_workers(self) -> int | None:
        """How many processes step it beside the trainer, or for it; None where the trainer does all of that itself."""
        return len(self.worker_pids) or None


def build_vec_env(
    spec: Spec, snapshot: Path | None, kept_kind: VecKind | None = None, kept_workers: int | None = None
) -> BuiltEnvs:
    """Build `spec.env`; what it leaves open is as an earlier attempt of the run resolved it, if there was one.

    Raises `PresetError` for what the preset has wrong, `EnvError` for an environment that fails.
    """
    choice = _choice(spec.env, snapshot, kept_kind, kept_workers)
    maker = EnvMaker(spec.env, snapshot)
    # Nothing in a training reads the infos of steps that end no episode; callbacks may.
    all_infos = bool(spec.run.callbacks)
    vec: NativeVecEnv | InlineVecEnv | WorkersVecEnv
    if choice.kind == "native":
        vec = NativeVecEnv(_make_batched(spec.env, snapshot), all_infos=all_infos)
    elif choice.kind == "inline":
        vec = InlineVecEnv([maker] * spec.env.n_envs)
    else:
        assert choice.n_workers is not None
        split = choice.kind == "split"
        vec = _workers(spec.env, snapshot, maker, choice.n_workers, all_infos=all_infos, split=split)
    return BuiltEnvs(_wrapped(vec, spec), choice.kind, choice.reason)


def spaces_alone(spec: Spec, observations: gymnasium.Space[Any], actions: gymnasium.Space[Any]) -> VecEnv:
    """The environment of a run as its model sees it, made of spaces and of nothing that could be stepped."""
    return _wrapped(InlineVecEnv([lambda: _SpacesOnlyEnv(observations, actions)]), spec)


class _SpacesOnlyEnv(gymnasium.Env[Any, Any]):
    def __init__(self, observations: gymnasium.Space[Any], actions: gymnasium.Space[Any]) -> None:
        self.observation_space, self.action_space = observations, actions


def _wrapped(vec: VecEnv, spec: Spec) -> VecEnv:
    return _stacked(_normalized(vec, spec), spec.env)


def in_this_process(spec: Spec, native: int = 1, inline: int = 1) -> Spec:
    """`spec` with its environments in this process: `native` lanes where they have a batched form, else `inline`.

    By what the environment is and not by the machine, so that the same seed plays the same episodes everywhere.
    """
    kind, lanes = ("inline", inline) if native_refusal(spec.env) else ("native", native)
    return msgspec.structs.replace(spec, env=msgspec.structs.replace(spec.env, vec=kind, n_envs=lanes))


def _workers(
    env: EnvSpec, snapshot: Path | None, maker: EnvMaker, n_workers: int, *, all_infos: bool, split: bool
) -> WorkersVecEnv:
    # Made here once: what is wrong with a preset is said best by the process that knows presets.
    made = maker()
    spaces = made.observation_space, made.action_space
    made.close()
    wrappers = tuple((part.cls, part.kwargs) for part in map(parse_part, env.wrappers))
    recipe = EnvRecipe(gym_id(env.id), env_kwargs(env, snapshot), env.imports, wrappers)
    try:
        return WorkersVecEnv(recipe, env.n_envs, spaces, n_workers, all_infos=all_infos, split=split)
    except ValueError as error:
        kind = "split" if split else "workers"
        raise PresetError(f"env.vec = '{kind}': {error}; use env.vec = 'inline'") from error


def _choice(env: EnvSpec, snapshot: Path | None, kept_kind: VecKind | None, kept_workers: int | None) -> Choice:
    cores = usable_cores()
    shared_as_before = env.vec in WITH_WORKERS and env.vec == kept_kind
    left_open = env.vec == "auto" or (shared_as_before and env.n_workers is None)
    if kept_kind is not None and left_open and (kept_kind != "native" or native_refusal(env) is None):
        return keep(env, kept_kind, kept_workers, cores)
    return choose(env, EnvMaker(env, snapshot), cores)


def _normalized(vec: VecEnv, spec: Spec) -> VecEnv:
    wanted = spec.env.normalize
    if wanted is False:
        return vec
    normalize = Normalize() if wanted is True else wanted
    try:
        return VecNormalize(
            vec,
            norm_obs=normalize.obs,
            norm_reward=normalize.reward,
            clip_obs=normalize.clip_obs,
            clip_reward=normalize.clip_reward,
            # Without one, as `VecNormalize` has it: by it rewards are scaled, which ARS does not look at.
            gamma=0.99 if (gamma := discount_of(spec)) is None else gamma,
        )
    except ValueError as error:
        raise PresetError(f"env.normalize cannot be used here: {error}") from error


def _stacked(vec: VecEnv, env: EnvSpec) -> VecEnv:
    """Outside the normalizer, as in SB3's zoo: its statistics are those of one frame."""
    if env.frame_stack in (None, 1):
        return vec
    assert env.frame_stack is not None
    if sentence := stack_refusal(vec.observation_space):
        raise PresetError(sentence)
    return VecFrameStack(vec, env.frame_stack)


class MaskedVecEnv(VecEnvWrapper):
    """`venv`, whose `action_masks` are answered together and only if a policy can sample from them."""

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        self._sizes = choices(venv.action_space)
        self._starts = np.cumsum([0, *self._sizes[:-1]])

    def reset(self) -> VecEnvObs:
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        return self.venv.step_wait()

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        if method_name == MASKS and indices is None:
            # In one piece, which stacks to the same numbers: thousands of rows take longer to stack than to step.
            return [self.masks()]
        return self.venv.env_method(method_name, *method_args, indices=indices, **method_kwargs)

    def masks(self) -> Masks:
        """Which choices are allowed, shape (n_envs, choices of all heads side by side). Raises `EnvError`."""
        base = self.venv.unwrapped
        try:
            if isinstance(base, NativeVecEnv | WorkersVecEnv):
                asked: Any = base.action_masks()
            else:
                asked = self.venv.env_method(MASKS)
            masks = np.asarray(asked, dtype=bool).reshape(self.num_envs, -1)
        except EnvError:
            raise
        except Exception as error:  # an environment is foreign code and may raise anything
            raise EnvError(f"{MASKS}() of an environment raised {raised_by(error)}") from error
        self._check(masks)
        return masks

    def sample(self, masks: Masks) -> NDArray[Any]:
        """One action for each environment by chance, of those that are allowed."""
        return np.stack([sampled(self.action_space, row) for row in masks])

    def _check(self, masks: Masks) -> None:
        if masks.shape[1] != sum(self._sizes):
            needed, space = sum(self._sizes), short(self.action_space)
            raise EnvError(f"{MASKS}() has {masks.shape[1]} entries, and actions {space} need {needed}")
        allowed = np.logical_or.reduceat(masks, self._starts, axis=1)
        if not allowed.all():
            lane, head = np.argwhere(~allowed)[0]
            part = f" for part {head} of it" if len(self._sizes) > 1 else ""
            raise EnvError(f"{MASKS}() of environment {lane} allows no action{part}; one at least must be allowed")
