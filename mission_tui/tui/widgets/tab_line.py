"""The rule that names the chosen run and its tabs, the shown one underlined; where it is short they stand closer."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.literal import literal
from mission_tui.tui.drawing.strips import Part, fit, line
from mission_tui.tui.listing.fleet_view_state import TABS
from mission_tui.tui.listing.run_status import alarms

__all__ = ["tab_line"]

_SHOWN = Style(color=colours.PALETTE.bold, bold=True, underline=True)


def tab_line(
    view: RunView,
    tab: str,
    width: int,
    *,
    focused: bool,
    note: str = "",
    named: bool = True,
    names: Sequence[str] = TABS,
) -> Strip:
    """One strip; the run's name gives way before the tabs do, and before them the blanks between them."""
    rule = colours.KEY if focused else colours.LINE
    asking = len(alarms(view))
    titles = {name: f"{name} {asking}" if name == "health" and asking else name for name in names}
    wide = sum(map(cell_len, titles.values())) + 3 * len(titles) + 1 + (cell_len(note) + 3 if note else 0)
    gap = " " if wide <= width else ""
    tabs: list[Part] = []
    for name, title in titles.items():
        style = (_SHOWN if name == tab else colours.QUIET) + Style(meta={"@click": f"screen.tab({name!r})"})
        tabs += [(gap, rule), (title, style), (gap, rule), ("│", rule)]
    tabs.pop()
    room = width - sum(cell_len(text) for text, _ in tabs) - 6
    name = fit(view.name, min(room, cell_len(literal(view.name)))) if named and room > 3 else ""
    lead: list[Part] = [("─ ", rule), (name, colours.BOLD), (" ─", rule)] if name else [("──" if gap else "─", rule)]
    used = sum(cell_len(text) for text, _ in lead + tabs)
    tail = f" {note} ─" if note else ""
    fill = "─" * max(0, width - used - cell_len(tail))
    return line([*lead, *tabs, (fill, rule), (tail, colours.QUIET)], width)
