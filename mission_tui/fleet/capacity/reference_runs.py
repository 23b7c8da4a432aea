"""Past runs that predict what another one will take. Its speed is predicted from runs with the same settings, else from
runs of the same preset with other settings; its memory and cores from the most that runs of its shape were seen to
take, which is worth more than arithmetic.

A shape is what memory depends on: environments, rollout, network and engine; rates, seeds and budgets do not matter.
"""

from __future__ import annotations

import statistics
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from mission_tui.fleet.capacity.demand import ReferenceSpeed
from mission_tui.fleet.events.processes import Peak
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.specs.algorithm import learning_table, replay_buffer_of
from mission_tui.fleet.specs.spec import Spec, other_settings
from mission_tui.fleet.statistics import quartiles

_ROWS = 20
"""The median of so many updates is the pace; the last alone may have been a slow one."""

_ENV = ("id", "n_envs", "vec", "n_workers", "kwargs", "config", "wrappers", "normalize", "frame_stack")
_PPO = ("n_steps", "batch_size", "n_epochs", "net_arch", "policy", "policy_kwargs", "algo", "use_sde")
_NET = ("net_arch", "policy", "policy_kwargs")
"""What a step costs hangs on these alone by orders of magnitude, as it does on the algorithm: no run with another of
them foretells it.
"""
_RUN = ("device", "engine", "precision", "compile", "tf32", "threads", "auto_scale", "callbacks")
_ENDS = ("low_steps_per_s", "high_steps_per_s")
_RUNS = 5
"""Of each shape the last so many runs count: what changed in packages or driver is forgotten with them."""
_SHAPES = 1000


class ReferenceRun(Struct, frozen=True):
    """A past run by whose pace another may be foretold; the fewer `differs`, the better."""

    run: str
    pace: ReferenceSpeed

    @property
    def place(self) -> tuple[int, float]:
        """The nearest first, of those the newest."""
        return len(self.pace.differs), -self.pace.t


def differences(spec: Spec, other: Spec) -> tuple[str, ...]:
    """The settings that a run's speed hangs on and that differ between the two, as ``ppo.n_steps 256``: the other's."""
    differ: list[str] = []
    for table, names in (("env", _ENV), ("ppo", _PPO), ("run", _RUN)):
        here, there = getattr(spec, table), getattr(other, table)
        differ += [
            f"{table}.{name} {_word(getattr(there, name))}"
            for name in names
            if getattr(here, name) != getattr(there, name)
        ]
    differ += _of_algorithms(spec, other)
    return tuple(differ)


def _has_net_of(spec: Spec, other: Spec) -> bool:
    """Whether both train the same net, and by the same algorithm."""
    (here, mine), (there, theirs) = learning_table(spec), learning_table(other)
    return here == there and all(getattr(mine, name, None) == getattr(theirs, name, None) for name in _NET)


def _of_algorithms(spec: Spec, other: Spec) -> list[str]:
    """The settings of another algorithm than PPO: all of them, since any may bear on its speed."""
    (here, mine), (there, theirs) = learning_table(spec), learning_table(other)
    if here != there:
        return [f"run.algo {there}"]
    if here == "ppo":
        return []
    names = (name for name in mine.__struct_fields__ if getattr(mine, name) != getattr(theirs, name))
    return [f"{here}.{name} {_word(getattr(theirs, name))}" for name in names]


def reference_runs(spec: Spec, runs: Iterable[RunHistory]) -> list[ReferenceRun]:
    """The runs by whose pace a run of `spec` may be foretold, the best first: runs of the same settings, whatever they
    are called, and of the same preset, environment and net with others.
    """
    if spec.run.command is not None:
        return []
    found: list[ReferenceRun] = []
    for run in runs:
        other = run.spec
        if other is None or other.run.command is not None or other.env.id != spec.env.id:
            continue
        differ = differences(spec, other)
        if differ and (other.preset != spec.preset or not _has_net_of(spec, other)):
            continue
        pace = _pace_of(run, differ)
        if pace is not None:
            found.append(ReferenceRun(run.id, pace))
    return sorted(found, key=lambda it: it.place)


def _pace_of(run: RunHistory, differs: tuple[str, ...]) -> ReferenceSpeed | None:
    row = run.metrics.row
    paces = [pace for pace in run.metrics.columns.paces(_ROWS) if pace is not None and pace > 0.0]
    if row is None or not paces:
        return None
    middle = quartiles(paces)
    if middle is None:
        return None
    return ReferenceSpeed(
        name=run.journal.name,
        t=row.t,
        steps_per_s=middle.median,
        differs=differs,
        low_steps_per_s=middle.first,
        high_steps_per_s=middle.third,
    )


def pace_of_several(paces: Sequence[ReferenceSpeed]) -> ReferenceSpeed:
    """That of runs that are equally alike, the newest first: one run that had the machine for itself, or shared it,
    moves the price of the next launch no further than the range that is said with it.
    """
    lows, highs = ([value for it in paces if (value := getattr(it, name))] for name in _ENDS)
    return msgspec.structs.replace(
        paces[0],
        steps_per_s=statistics.median(pace.steps_per_s for pace in paces),
        low_steps_per_s=min(lows, default=None),
        high_steps_per_s=max(highs, default=None),
        runs=len(paces),
    )


def _word(value: object) -> str:
    if value is None:
        return "not written"
    plain: Any = msgspec.to_builtins(value)
    if isinstance(plain, bool):
        return str(plain).lower()
    if isinstance(plain, Mapping):
        return "other" if plain else "none"
    if isinstance(plain, Sequence) and not isinstance(plain, str):
        return f"[{', '.join(map(str, plain))}]"
    return str(plain)


def shape_of(spec: Spec) -> bytes:
    """The same bytes for specs that take the same memory."""
    ppo, run = spec.ppo, spec.run
    parts = (
        spec.env,
        (ppo.policy, ppo.algo, ppo.n_steps, ppo.batch_size, ppo.net_arch, ppo.policy_kwargs, ppo.use_sde),
        (run.device, run.engine, run.precision, run.compile, run.threads, run.auto_scale, run.callbacks),
        (run.command, run.python),
    )
    if (settings := other_settings(spec)) is not None:
        return msgspec.json.encode((*parts, run.algo, settings), order="deterministic")
    return msgspec.json.encode(parts, order="deterministic")


class Peaks:
    """Peaks of ended attempts by shape, in memory: they are read again from the journals."""

    def __init__(self) -> None:
        self._seen: OrderedDict[bytes, dict[float, Peak]] = OrderedDict()

    def add(self, spec: Spec, peak: Peak, t: float) -> None:
        """Take in what an attempt that ended at unix time `t` took."""
        shape = shape_of(spec)
        known = self._seen.setdefault(shape, {})
        self._seen.move_to_end(shape)
        known[t] = peak
        for old in sorted(known)[:-_RUNS]:
            del known[old]
        if len(self._seen) > _SHAPES:
            self._seen.popitem(last=False)

    def of(self, spec: Spec) -> Peak | None:
        """The most that the last runs of its shape took; None when none is known.

        Of a replay buffer none is: it takes its memory as it fills, and a run may have been stopped before.
        """
        if replay_buffer_of(spec) is not None:
            return None
        known = self._seen.get(shape_of(spec))
        if not known:
            return None
        vram = [peak.vram_bytes for peak in known.values() if peak.vram_bytes is not None]
        return Peak(max(peak.rss_bytes for peak in known.values()), max(vram, default=None))
