"""Runs that differ by their seed alone, seen as one experiment: their median and their quartiles.

They were launched together from one preset, each with a seed of its own. Of a sweep those of one setting are a group;
where nobody said a seed, each of its runs has drawn one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from mission_tui.fleet.events.metrics import RETURN, number
from mission_tui.fleet.events.outcome import ALIVE
from mission_tui.fleet.statistics import Quartiles, quartiles
from mission_tui.fleet.views.snapshot import RunView


class SeedGroup(Struct, frozen=True):
    """Two runs or more, in the order in which they are listed; `setting` is that of a group of a sweep."""

    members: tuple[RunView, ...]
    setting: str = ""

    @property
    def id(self) -> str:
        """No run's id, and the same while the group is."""
        return " ".join(("seeds", *_launch_key(self.members[0]), *filter(None, (self.setting,))))

    @property
    def name(self) -> str:
        """What the names of its members begin with, else their preset.

        Where that is a preset with a tag made up at launch (`wide-11c0`), in a group that somebody named, it is that
        name, which commands take too, and the preset, as several may be launched into one group. Clones of a group say
        that they are some: theirs begin like those of the group itself.
        """
        first = self.members[0]
        stem = re.sub(r"-s\d*$", "", _common([view.name for view in self.members]))  # seeds 1001 and 1002 begin alike
        stem = stem.rstrip("-_.")
        if stem and all(re.search(r"-clone-[0-9a-f]{4}$", view.name) for view in self.members):
            return f"{stem}-clone"
        if first.group and first.group != stem and re.fullmatch(rf"{re.escape(first.preset)}-[0-9a-f]{{4}}", stem):
            return f"{first.group} {first.preset}"
        return stem or first.preset

    @property
    def live(self) -> tuple[RunView, ...]:
        return tuple(view for view in self.members if view.state in ALIVE)

    @property
    def returns(self) -> Quartiles | None:
        """Median and quartiles of the newest returns; None while none is known."""
        return quartiles([number(view.metrics.get(RETURN)) for view in self.members])

    @property
    def pace(self) -> float | None:
        """The median of the paces of the living, in steps per second; None while none is known."""
        known = [view.pace for view in self.live if view.pace is not None]
        return _middle(known) if known else None

    @property
    def medians(self) -> tuple[float | None, ...]:
        """The median return of the last updates that every member has done; None where one of them has none."""
        last = min((view.update or 0) for view in self.members)
        series = []
        for view in self.members:
            values = view.series.get(RETURN, ())
            series.append(values[: max(0, len(values) - ((view.update or 0) - last))])
        rows = min(map(len, series))
        return tuple(_median([number(values[len(values) - rows + at]) for values in series]) for at in range(rows))


def _launch_key(view: RunView) -> tuple[str, str]:
    """What runs that were launched together have in common; empty words for a run that was launched alone."""
    return (view.group, view.preset) if view.group and view.seed is not None else ("", "")


def seed_groups(views: Iterable[RunView]) -> list[SeedGroup]:
    """The groups among `views`, in the order of their first members: at least two members, and no seed twice."""
    together: dict[tuple[str, str], list[RunView]] = {}
    for view in views:
        if (key := _launch_key(view)) != ("", ""):
            together.setdefault(key, []).append(view)
    found = []
    for members in together.values():
        if _each_once(members) and len({view.setting for view in members}) == 1:
            found.append(SeedGroup(tuple(members)))
            continue
        settings: dict[str, list[RunView]] = {}
        for view in members:
            if view.setting:
                settings.setdefault(view.setting, []).append(view)
        found += [SeedGroup(tuple(alike), setting) for setting, alike in settings.items() if _each_once(alike)]
    return found


def _each_once(members: list[RunView]) -> bool:
    return len(members) > 1 and len({view.seed for view in members}) == len(members)


def launched_with(view: RunView, known: Iterable[RunView]) -> tuple[RunView, ...]:
    """All runs of its launch among `known`, by seeds or settings; itself if it was launched alone."""
    together = tuple(other for other in known if view.group and other.group == view.group)
    return together if len(together) > 1 else (view,)


def sweep_of(view: RunView, known: Iterable[RunView]) -> tuple[RunView, ...]:
    """All runs of its launch, where that has several settings; none of one that has seeds alone, or nothing but it."""
    together = launched_with(view, known)
    seeds = any(len(group.members) == len(together) for group in seed_groups(together))
    return () if len(together) < 2 or seeds else together


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _middle(known) if len(known) == len(values) else None


def _middle(values: list[float]) -> float:
    from statistics import median  # a millisecond to load, and most lists have no group

    return median(values)


def _common(names: list[str]) -> str:
    least, most = min(names), max(names)
    cells = next((at for at, char in enumerate(least) if at >= len(most) or most[at] != char), len(least))
    return least[:cells]
