"""What each tab of a run shows in its short form. A section is loaded when its tab is first shown: the first picture
needs none but `learn`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.strip import Strip

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import line
from mission_tui.tui.sections.learn import learn

if TYPE_CHECKING:
    from mission_tui.tui.queries.run_data import RunData

__all__ = ["section"]

_LOG_LINES = 300
"""The short form of a log; the run's own screen has all of it."""


def section(tab: str, view: RunView, data: RunData | None, width: int, height: int, now: float) -> list[Strip]:
    """The content of a tab; one that needs an answer says that it was asked for, or why it did not come."""
    if tab == "learn":
        return learn(view, width, height, now)
    if tab == "health":
        from mission_tui.tui.sections.health import health

        return health(view, data.details if data else None, width, now)
    if tab == "machine":
        from mission_tui.tui.sections.usage import usage_lines

        return usage_lines(view, width, data.summaries, now) if data else usage_lines(view, width)
    return _answered(tab, view, data, width, height, now) if data else []


def _answered(tab: str, view: RunView, data: RunData, width: int, height: int, now: float) -> list[Strip]:
    """A tab whose content the supervisor has to be asked for."""
    if tab == "episodes":
        from mission_tui.fleet.history.series import EPISODES
        from mission_tui.tui.sections.episodes import episodes

        return episodes(view, data.history.get(EPISODES), data.trouble or "", width, height)
    if tab == "log" and data.log.attempt is not None:
        from mission_tui.tui.drawing.wrapping import fold

        lines = data.log.lines[-_LOG_LINES:] or ["(nothing was printed)"]
        return [line([(" " + text, colours.INK)], width) for raw in lines for text in fold(raw, width - 2, 20)]
    if (details := data.details) is not None:
        match tab:
            case "config":
                from mission_tui.tui.sections.config import config

                return config(details, width)
            case "checkpoints":
                from mission_tui.tui.sections.checkpoints import checkpoints

                return checkpoints(details, width, now)
            case "journal":
                from mission_tui.tui.sections.journal import journal

                return journal(details, width, now)
    return [line([(f" {data.trouble or 'asking…'}", colours.QUIET)], width)]
