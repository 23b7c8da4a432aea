"""What a person chose about the look of the screen, as a plain table that outlives the session and may come damaged.

The table has only what was chosen. The caller stores it; nothing here reads or writes a file. Splits of a screen are
kept as shares of its room, so that a terminal of another size is split alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Struct, field
from textual.geometry import Region

from mission_tui.tui.drawing.colours import MOST_CURVES

Changes = Mapping[str, object]
"""By name what was chosen since; None for what is as it comes again."""
Keep = Callable[[Changes], None]

Word = Annotated[str, Meta(max_length=200)]
FormText = Annotated[str, Meta(max_length=20_000)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
_STEP = 0.05
"""Of the whole; a row of a small terminal."""
GhostWord = Literal["marked", "best", "previous"]
"""Which finished run of the same task is drawn beside a run."""
Over = Literal["timesteps", "updates", "run time", "clock"]
OVERS: tuple[Over, ...] = get_args(Over)
Pixels = Literal["auto", "off"]
AxisScale = Literal["linear", "log", "symlog"]
"""As matplotlib calls them: a symmetric-logarithmic axis has zero and negative values too."""
AXIS_SCALES: tuple[AxisScale, ...] = get_args(AxisScale)

FACTORS = (0.0, 0.5, 0.8, 0.9, 0.97, 0.99, 0.997, 0.999)
"""Weights of what was before, per update; 0 is no smoothing. One of 0.99 remembers about 100 updates."""


class Preferences(msgspec.Struct, frozen=True):
    """Each default is how the screen comes. Sizes are shares, so that a terminal of another size is split alike.

    `panes` None lets the width decide; `strip_s` is how far back the strip goes (seconds); `chart_smoothing` the weight
    of what was before, per update; `shares` are by the name of a split. `watch_pixels` is whether a policy at play is
    shown in pixels where the terminal and its line allow that. `form` is a launch form that was not started: its preset
    and what was typed, by field.
    """

    panes: bool | None = None
    sort: Word = "age"
    machine_sort: Word = "age"
    log_folds: bool = True
    redraws_hz: float = 4.0
    strip_s: float = 300.0
    chart_over: Over = "timesteps"
    chart_scale: AxisScale = "linear"
    chart_smoothing: Share = 0.0
    chart_kept: Annotated[tuple[Word, ...], Meta(max_length=MOST_CURVES - 1)] = ()
    bell: bool = True
    watch_pixels: Pixels = "auto"
    shares: dict[str, Share] = {}
    form: Annotated[dict[Word, FormText], Meta(max_length=20)] = {}


def _table(preferences: Preferences) -> dict[str, object]:
    """What differs from how the screen comes."""
    usual, chosen = msgspec.to_builtins(Preferences()), msgspec.to_builtins(preferences)
    return {name: value for name, value in chosen.items() if value != usual[name]}


def preferences_in(table: Mapping[str, object]) -> Preferences:
    """What `table` says; what is unknown or no sensible value is left as it comes."""
    chosen: dict[str, Any] = {}
    if table.get("chart_log") is True:  # as it was written before there was a third scale
        table = {"chart_scale": "log"} | dict(table)
    for each in msgspec.structs.fields(Preferences):
        if each.name in table:
            with suppress(msgspec.ValidationError):
                chosen[each.name] = msgspec.convert(table[each.name], each.type)
    return Preferences(**chosen)


class UnsavedPreferences:
    """Tells `keep` what was chosen since it was last told, so that two screens at once keep what each of them chose."""

    def __init__(self, found: Preferences, keep: Keep) -> None:
        self._told = _table(found)
        self._keep = keep

    def save(self, preferences: Preferences) -> None:
        """Have what is new in `preferences` kept; may take as long as keeping takes."""
        table = _table(preferences)
        names = self._told.keys() | table.keys()
        changed = {name: table.get(name) for name in names if table.get(name) != self._told.get(name)}
        if changed:
            self._told = table
            self._keep(changed)


def keep_nothing(_changes: Changes) -> None:
    """Forget what was chosen when the session ends."""


class Split(Struct, frozen=True):
    """The part called `name` has `cells` of `whole`, rows or with `sideways` columns, and may have `least` to `most`.

    `edge` is its end that stays, `grip` the border that moves, in cells of the screen.
    """

    name: str
    cells: int
    whole: int
    least: int
    most: int
    edge: int
    grip: Region
    sideways: bool = False

    def reaching(self, x: int, y: int) -> int:
        """The cells of the part if its border lay at that place."""
        return abs((x if self.sideways else y) - self.edge)


def split_of(
    name: str, part: Region, grip: Region, whole: int, *, least: int, other_least: int, sideways: bool = False
) -> Split:
    """The split between `part` and what is beyond `grip`, which keeps `other_least` cells of `whole`."""
    cells, first, last = (part.width, part.x, part.right) if sideways else (part.height, part.y, part.bottom)
    after = (grip.x if sideways else grip.y) > first
    return Split(name, cells, whole, least, max(least, whole - other_least), first if after else last, grip, sideways)


class Shares:
    """The shares that were chosen, by the name of their part; of others there is none."""

    def __init__(self, found: Mapping[str, float]) -> None:
        self._of = dict(found)

    def as_table(self) -> dict[str, float]:
        """The shares that were chosen."""
        return dict(self._of)

    def cells(self, name: str, whole: int, least: int, other_least: int) -> int | None:
        """What a part was given of `whole`, which leaves `other_least`; None where nothing was chosen, or can be."""
        if name not in self._of or whole < least + other_least:
            return None
        return max(least, min(round(self._of[name] * whole), whole - other_least))

    def step(self, split: Split, by: int) -> bool:
        """One step more for the part, or with -1 less; false at the end of the way."""
        return self.give(split, split.cells + by * max(1, round(_STEP * split.whole)))

    def give(self, split: Split, cells: int) -> bool:
        """Give the part so many cells, as far as may be; false if it has them."""
        cells = max(split.least, min(cells, split.most))
        if cells == split.cells:
            return False
        self._of[split.name] = cells / split.whole
        return True

    def forget(self) -> None:
        """All as it comes."""
        self._of.clear()


class ChartSettings(Struct):
    """Mutable; one for all runs of a session. `pinned` gives each metric that stays its slot, for letter and colour;
    `ghost_run` is the id of the run that was marked to be held against.
    """

    pinned: dict[str, int] = field(default_factory=dict)
    ghost: GhostWord | Literal[""] = ""
    ghost_run: str = ""
    scale: AxisScale = "linear"
    over: Over = OVERS[0]
    _smoothing: int = 0

    @classmethod
    def found(cls, kept: Iterable[str], over: Over, factor: float, scale: AxisScale) -> ChartSettings:
        """As it was left: `kept` metrics on the chart, smoothed by `factor`, if that is one of ours."""
        settings = cls(scale=scale, over=over, _smoothing=FACTORS.index(factor) if factor in FACTORS else 0)
        for tag in dict.fromkeys(kept):
            settings.pin(tag)
        return settings

    @property
    def kept(self) -> tuple[str, ...]:
        """The metrics that stay, in the order of their slots."""
        return tuple(sorted(self.pinned, key=self.pinned.__getitem__))

    @property
    def factor(self) -> float:
        """The weight of what was before, per update; 0 is no smoothing."""
        return FACTORS[self._smoothing]

    def smooth(self, by: int) -> None:
        """More smoothing, or less."""
        self._smoothing = max(0, min(self._smoothing + by, len(FACTORS) - 1))

    def turn_scale(self) -> None:
        """Linear, logarithmic, symmetric-logarithmic."""
        self.scale = AXIS_SCALES[(AXIS_SCALES.index(self.scale) + 1) % len(AXIS_SCALES)]

    def turn_over(self) -> None:
        """Draw over the next of timesteps, updates, run time and clock."""
        self.over = OVERS[(OVERS.index(self.over) + 1) % len(OVERS)]

    def pin(self, tag: str) -> bool:
        """Keep `tag` on the chart, or no longer; false when there are as many as can be told apart.

        One slot stays free for the metric under the cursor.
        """
        if tag in self.pinned:
            del self.pinned[tag]
        elif len(self.pinned) >= MOST_CURVES - 1:
            return False
        else:
            self.pinned[tag] = self._free()
        return True

    def shown(self, chosen: str, known: Collection[str]) -> list[tuple[int, str]]:
        """Slots and tags of what is drawn of a run with the metrics `known`: those that stay, and the chosen one."""
        slots = {tag: slot for tag, slot in self.pinned.items() if tag in known}
        slots.setdefault(chosen, self._free())
        return sorted((slot, tag) for tag, slot in slots.items())

    def _free(self) -> int:
        taken = set(self.pinned.values())
        return next(slot for slot in range(MOST_CURVES) if slot not in taken)
