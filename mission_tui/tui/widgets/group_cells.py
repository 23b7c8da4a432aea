"""What the list says of a group of seeds in each of its columns: medians, quartiles, and the worst of its members."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from mission_tui.fleet.views.seed_group import SeedGroup
from mission_tui.present import numbers
from mission_tui.present.run_state import share_done, state_word, time_left
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.sparkline import spark
from mission_tui.tui.drawing.strips import Part
from mission_tui.tui.state import run_status
from mission_tui.tui.state.roster import leader

_LEAST_SPARK = 6
_IQR = "IQR "


def _name(group: SeedGroup, _now: float, _width: int) -> Part:
    return f"{group.name} x{len(group.members)}", colours.INK if group.live else colours.QUIET


def _state(group: SeedGroup, _now: float, width: int) -> Part:
    if group.live:
        part = f"{len(group.live)}/{len(group.members)}"
        return part + " live" * (len(part) + 5 <= width), colours.LIVE
    words = {state_word(view) for view in group.members}
    if any(view.unheard_since is not None for view in group.members):
        return "no link", colours.QUIET
    if len(words) == 1:
        return next(iter(words)), run_status.state_style(group.members[0])
    if any(view.state == "queued" for view in group.members):
        return "queued", colours.QUIET
    parked = sum(view.state == "parked" for view in group.members)
    # Only those go on by `r` with what they have learned.
    return f"{parked} parked" if parked else "ended", colours.QUIET


def _done(group: SeedGroup, _now: float, _width: int) -> Part:
    shares = [share for view in group.members if (share := share_done(view)) is not None]
    return numbers.percent(min(shares) if len(shares) == len(group.members) else None), colours.INK


def _return(group: SeedGroup, _now: float, _width: int) -> Part:
    return numbers.reading(group.returns.median if group.returns else None), colours.INK


def _curve(group: SeedGroup, _now: float, width: int) -> Part:
    """The curve of the medians, and the quartiles of the newest returns; where there is no room for both, these."""
    style = colours.LIVE if group.live else colours.QUIET
    middle = group.returns
    if middle is None:
        return "", style
    span = _span(middle.first, middle.third, width)
    if len(_IQR) + len(span) <= width:
        span = _IQR + span
    room = width - len(span) - 1
    if room < _LEAST_SPARK:
        return span, style
    last = min((view.update or 0) for view in group.members)
    return f"{spark(group.medians, room, last=last)} {span}", style


def _span(low: float, high: float, width: int) -> str:
    """`5.18..6.37` in at most `width` cells where fewer digits bring that about: a figure without its end is a lie."""
    said = f"{numbers.reading(low)}..{numbers.reading(high)}"
    for digits in (3, 2, 1):
        if len(said) <= width or not (math.isfinite(low) and math.isfinite(high)):
            break
        largest = max(abs(low), abs(high))
        places = max(0, digits - 1 - math.floor(math.log10(largest))) if largest else 0
        said = "..".join(_rounded(end, places) for end in (low, high))
    return said


def _rounded(value: float, places: int) -> str:
    if abs(value) >= 1000:
        return f"{'-' * (value < 0)}{numbers.compact(abs(value))}"
    return f"{value:.{places}f}"


def _speed(group: SeedGroup, _now: float, _width: int) -> Part:
    return numbers.rate(group.pace), colours.INK


def _health(group: SeedGroup, _now: float, _width: int) -> Part:
    text, style = run_status.badge(leader(group))
    return f" {text}", style


def _left(group: SeedGroup, now: float, _width: int) -> Part:
    """Time until the last of them is done, unknown while one waits; of a group that is over, the time since."""
    if any(view.state == "queued" for view in group.members):
        return numbers.DASH, colours.INK if group.live else colours.QUIET
    if group.live:
        if any(view.eta_s is None for view in group.live):
            return numbers.DASH, colours.INK
        return time_left(max(group.live, key=lambda view: view.eta_s or 0.0)), colours.INK
    ends = [view.ended_t for view in group.members if view.ended_t is not None]
    return numbers.ago(max(ends, default=None), now), colours.QUIET


GROUP_CELLS: Mapping[str, Callable[[SeedGroup, float, int], Part]] = {
    "run": _name,
    "state": _state,
    "done": _done,
    "return": _return,
    "": _curve,
    "st/s": _speed,
    "health": _health,
    "ETA": _left,
}
"""By the title of the column."""
