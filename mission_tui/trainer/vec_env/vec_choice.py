"""What nobody wrote about `env.vec` and `env.n_workers`: native where a batched form will do, else what is cheapest.

Workers share environments evenly. Those that compute get at most a core each; those that wait may be more, because
waiting side by side costs no core (measured on 2 cores: 64 that wait 10 ms make 195 steps/s on 2 workers, 1,480 on 16,
2,600 on 32 and 3,400 on 64; 8 that compute 10 ms gain 1.82 x over one worker on 2, and 1.77 x on 4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium

from mission_tui.fleet.specs.sizes import divisors, nearby_divisors
from mission_tui.fleet.specs.spec import EnvSpec
from mission_tui.trainer.env_ids import native_refusal
from mission_tui.trainer.vec_env.step_cost import StepCost, step_cost

__all__ = ["Choice", "VecKind", "cheapest", "choose", "keep"]

VecKind = Literal["native", "inline", "workers"]

_HAND_OVER_S = 100e-6
"""What a step of all environments costs over their work for each worker: waking it and hearing it.

Measured: 200 to 350 us with 2 workers, 4.5 ms with 32, 8.6 ms with 64.
"""
_WORTH_IT = 0.8
_AS_GOOD = 1.1
_MOST_A_CORE = 16
"""Workers that wait: each takes 26 MiB and about a tenth of a second to start (32: 3.9 s, on 2 cores)."""


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
        case "workers", int(n_workers):
            return Choice("workers", n_workers, "as the preset says")
    if env.vec == "auto" and native_refusal(env) is None:
        return Choice("native", None, f"{env.id} has a batched form with same-step autoreset")
    if env.n_envs == 1:
        alone = "one environment cannot be shared out"
        return Choice("workers", 1, alone) if env.vec == "workers" else Choice("inline", None, alone)
    return cheapest(env, step_cost(make), cores)


def keep(env: EnvSpec, kind: VecKind, n_workers: int | None, cores: int) -> Choice:
    """What an earlier attempt resolved, as far as it still fits: a resume may have changed `n_envs`."""
    if kind != "workers":
        return Choice(kind, None, "as in the attempt before")
    wanted = env.n_workers or n_workers or cores
    return Choice("workers", nearby_divisors(env.n_envs, wanted)[0], "as in the attempt before")


def cheapest(env: EnvSpec, cost: StepCost, cores: int) -> Choice:
    """The fewest workers that are as good as any, or inline where those do not pay and `env.vec` leaves it open."""
    n_envs, inline_s = env.n_envs, env.n_envs * cost.step_s
    counts = _counts(env, cost, cores)
    times = {count: _seconds(n_envs, count, cost, cores) for count in counts}
    n_workers = next(count for count in counts if times[count] <= _AS_GOOD * min(times.values()))
    compared = (
        f"{cost}; {n_envs} environments on {n_workers} worker(s) take {times[n_workers] * 1e3:.2f} ms, "
        f"inline {inline_s * 1e3:.2f} ms on {cores} core(s)"
    )
    if env.vec == "auto" and times[n_workers] >= _WORTH_IT * inline_s:
        return Choice("inline", None, compared + _unshared(env, counts, cores))
    return Choice("workers", n_workers, compared + _next(times, n_workers) + _unshared(env, counts, cores))


def _counts(env: EnvSpec, cost: StepCost, cores: int) -> Sequence[int]:
    """The numbers of workers to choose from, ascending."""
    if env.n_workers is not None:
        return [env.n_workers]
    most = _MOST_A_CORE * cores if cost.waits else cores
    return [count for count in divisors(env.n_envs) if count <= most]


def _seconds(n_envs: int, n_workers: int, cost: StepCost, cores: int) -> float:
    """A step of all: workers step theirs one after another, and no more work is done at once than there are cores."""
    share_s = n_envs // n_workers * cost.step_s
    return _HAND_OVER_S * n_workers + max(share_s, n_envs * cost.work_s / cores)


def _next(times: dict[int, float], n_workers: int) -> str:
    more = next((count for count in times if count > n_workers), None)
    return "" if more is None else f", {more} workers {times[more] * 1e3:.2f} ms"


def _unshared(env: EnvSpec, counts: Sequence[int], cores: int) -> str:
    """A word about cores that stay idle because no larger number of workers divides the environments."""
    if env.n_workers is not None or counts[-1] >= min(cores, env.n_envs):
        return ""
    even = -(-env.n_envs // cores) * cores
    return f"; {env.n_envs} cannot be shared evenly by {cores}, env.n_envs = {even} could"
