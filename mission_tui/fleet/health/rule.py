"""What every health rule has in common: the row it reads, the run it belongs to, what it concludes and how it says so.

A row holds only numbers that were said; blank is not NaN and never 0, and what is no number at all is blank.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, ValuesView
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast, overload

from msgspec import Struct, field, structs

from mission_tui.fleet.events.findings import Severity, Undo
from mission_tui.fleet.events.journal import Break
from mission_tui.fleet.events.metrics import Metric, UpdateDone, spoken
from mission_tui.fleet.health.returns import Returns
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.specs.thresholds import Limits

if TYPE_CHECKING:
    from mission_tui.fleet.health.usual_settings import LossParts

_D = TypeVar("_D")
_S = TypeVar("_S")
FLOAT = frozenset({float})

LARGEST_EXACT = 2**53
"""The largest count that a float holds exactly."""


class Row(Struct, frozen=True):
    """One update as rules read it: numbers by tag, NaN and infinities included; how many episodes ended; seconds.

    `t` is unix time and 0 where it is not known; so are seconds and steps per second that were not measured. `env_s`
    are the seconds of the rollout in which environments were stepped, None where those were not timed apart. Rules keep
    rows, so what is large is not here: episodes' returns and lengths are with the `Returns`, of the newest row alone,
    and the judge packs a row once every rule has read it.
    """

    attempt: int
    update: int
    timesteps: int
    metrics: Mapping[str, float]
    t: float = 0.0
    rollout_s: float = 0.0
    update_s: float = 0.0
    env_s: float | None = None
    steps_per_s: float = 0.0
    episodes: int = 0
    outcomes: Mapping[str, int] | None = None

    def evidence(self, *tags: str) -> dict[str, Metric]:
        """The row as a line of evidence: where it is, and those of `tags` that are known."""
        shown = {tag: spoken(self.metrics[tag]) for tag in tags if tag in self.metrics}
        at = {"update": min(self.update, LARGEST_EXACT), "timesteps": min(self.timesteps, LARGEST_EXACT)}
        return {name: float(max(number, -LARGEST_EXACT)) for name, number in at.items()} | shown

    def pack(self) -> None:
        """Hold the same numbers in a third of the memory; reading one then takes three times as long."""
        structs.force_setattr(self, "metrics", NumbersByTag(self.metrics))


class RuleContext(Struct, frozen=True):
    """The run a rule judges: its settings, the limits in force, its returns so far, and what its losses tell of its
    settings (both taken in before any rule); and what of learning its resume changed, each as `ppo.gamma: 0.99 -> 0.9`.
    """

    settings: Settings
    limits: Limits
    returns: Returns
    losses: LossParts
    changes: tuple[str, ...] = ()
    _shared: dict[object, object] = field(default_factory=dict)

    def shared(self, key: object, make: Callable[[], _S]) -> _S:
        """What several rules follow, by `key`: made once. Each of them gives it every row, of which it takes the first
        and passes over the others.
        """
        found = self._shared.get(key)
        if found is None:
            found = self._shared[key] = make()
        return cast(_S, found)


class Explanation(Struct, frozen=True):
    """The words of a finding: what is, why in this run's own settings, and the one thing to do about it.

    `signal` is the tag whose curve shows it, `threshold` the level on that curve that was passed, `window` how many
    updates were looked at: what a chart needs to draw the evidence. `undo`: see `Finding`. `compare_first` is whether a
    run may do better without the advice, which says so.
    """

    sentence: str
    cause: str
    advice: str
    advice_set: tuple[str, ...] = ()
    evidence: tuple[dict[str, Metric], ...] = ()
    signal: str = ""
    threshold: float | None = None
    window: int = 1
    undo: Undo = ""
    compare_first: bool = False


class Rule:
    """One rule of one attempt. It sees every update once, in order, and keeps its own bounded windows."""

    id: ClassVar[str]
    retell = False
    """Whether the newest update gives an open incident other words; else they change with its severity."""

    def __init__(self, context: RuleContext) -> None:
        self.context = context

    def judge(self, row: Row) -> Severity | None:
        """How bad things are as of `row`; None when there is nothing to say. Never raises."""
        raise NotImplementedError

    def explain(self, severity: Severity) -> Explanation:
        """The words for what `judge` has just said."""
        raise NotImplementedError

    def broken(self, cause: Break) -> None:
        """A declared break lies between the row before and the next one; forget what it makes incomparable."""


def row_of(record: UpdateDone) -> Row:
    """`record` as a row; values that are no numbers are left out, times that are not finite are not known."""
    episodes, known = record.episodes, math.isfinite
    outcomes = episodes.outcomes and {
        name: count for name, count in episodes.outcomes.items() if type(count) is int and count > 0
    }
    return Row(
        attempt=record.attempt,
        update=record.update,
        timesteps=record.timesteps,
        metrics=_numbers(record.metrics),
        t=record.t if known(record.t) else 0.0,
        rollout_s=record.rollout_s if known(record.rollout_s) else 0.0,
        update_s=record.update_s if known(record.update_s) else 0.0,
        env_s=record.env_s if record.env_s is not None and record.env_s <= record.rollout_s else None,
        steps_per_s=record.steps_per_s if known(record.steps_per_s) else 0.0,
        episodes=episodes.n,
        outcomes=outcomes,
    )


class NumbersByTag(Mapping[str, float]):
    """The numbers of one row. Rows with the same tags, as are nearly all of a training's, hold those tags together."""

    __slots__ = ("_numbers", "_places")

    def __init__(self, numbers: Mapping[str, float]) -> None:
        self._places = _places_of(tuple(numbers))
        # Of a list: an array of any other iterable takes half as long again.
        self._numbers = array("d", [*numbers.values()])

    def __getitem__(self, tag: str) -> float:
        return self._numbers[self._places[tag]]

    @overload
    def get(self, tag: str, /) -> float | None: ...
    @overload
    def get(self, tag: str, /, default: float) -> float: ...
    @overload
    def get(self, tag: str, /, default: _D) -> float | _D: ...
    def get(self, tag: str, /, default: object = None) -> object:
        """The number of `tag`, else `default`."""
        place = self._places.get(tag)
        return default if place is None else self._numbers[place]

    def __contains__(self, tag: object) -> bool:
        return tag in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def values(self) -> ValuesView[float]:
        """The numbers, without asking for each by its tag."""
        return _Values(self)

    def __len__(self) -> int:
        return len(self._numbers)


class _Values(ValuesView[float]):
    _mapping: NumbersByTag

    def __iter__(self) -> Iterator[float]:
        return iter(self._mapping._numbers)


@lru_cache(maxsize=256)
def _places_of(tags: tuple[str, ...]) -> dict[str, int]:
    return {tag: place for place, tag in enumerate(tags)}


def _numbers(metrics: Mapping[str, object]) -> Mapping[str, float]:
    if set(map(type, metrics.values())) <= FLOAT:
        return cast(Mapping[str, float], metrics)
    numbers = {tag: _number(metric) for tag, metric in metrics.items()}
    return {tag: value for tag, value in numbers.items() if value is not None}


def returns_of(record: UpdateDone) -> tuple[float, ...]:
    """The returns of the episodes of `record` that were sampled; what is no number is left out."""
    values = record.episodes.r
    if set(map(type, values)) <= FLOAT:
        return cast(tuple[float, ...], tuple(values))
    return tuple(value for value in map(_number, values) if value is not None)


def _number(metric: object) -> float | None:
    if isinstance(metric, bool) or not isinstance(metric, int | float | str):
        return None
    try:
        return float(metric)
    except (ValueError, OverflowError):
        return None


class Hysteresis:
    """On after `needed` of the last `window` looks were over the entry level, off after `window` calm ones in a row.

    `looks` counts those of the window; they are fewer than `window` only at the beginning.
    """

    def __init__(self, needed: int, window: int) -> None:
        self._needed = needed
        self._window = window
        self._over = 0
        self._mask = (1 << window) - 1
        self._calm = 0
        self.looks = 0
        self.on = False

    @property
    def count(self) -> int:
        """Looks of the window that were over the entry level."""
        return self._over.bit_count()

    def update(self, *, over: bool, calm: bool) -> bool:
        """Take in one look; `calm` means below the level for leaving, which lies under that for entering."""
        # As nearly all looks are: only where something was over does it matter what is calm.
        if not (over or self._over or self.on):
            if self.looks < self._window:
                self.looks += 1
            return False
        # One bit a look, the newest the lowest: every rule looks at every update, and a row of flags costs more to sum.
        self._over = looks = ((self._over << 1) | over) & self._mask
        self._calm = calm_for = self._calm + 1 if calm else 0
        if self.looks < self._window:
            self.looks += 1
        if looks.bit_count() >= self._needed:
            self.on = True
        elif self.on and calm_for >= self._window:
            self.on = False
        return self.on
