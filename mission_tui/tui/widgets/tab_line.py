"""The rule that names the chosen run and its tabs, the shown one underlined."""

from __future__ import annotations

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from mission_tui.fleet.snapshot import RunView
from mission_tui.tui import colours
from mission_tui.tui.literal import literal
from mission_tui.tui.outlook import TABS
from mission_tui.tui.standing import alarms
from mission_tui.tui.strips import Part, fit, line

__all__ = ["tab_line"]

_SHOWN = Style(color=colours.PALETTE.bold, bold=True, underline=True)


def tab_line(view: RunView, tab: str, width: int, *, focused: bool, note: str = "", named: bool = True) -> Strip:
    """One strip; the run's name gives way before the tabs do."""
    rule = colours.KEY if focused else colours.LINE
    tabs: list[Part] = []
    asking = len(alarms(view))
    for name in TABS:
        title = f"{name} {asking}" if name == "health" and asking else name
        style = (_SHOWN if name == tab else colours.QUIET) + Style(meta={"@click": f"screen.tab({name!r})"})
        tabs += [(" ", rule), (title, style), (" ", rule), ("│", rule)]
    tabs.pop()
    room = width - sum(cell_len(text) for text, _ in tabs) - 6
    name = fit(view.name, min(room, cell_len(literal(view.name)))) if named and room > 3 else ""
    lead: list[Part] = [("─ ", rule), (name, colours.BOLD), (" ─", rule)] if name else [("──", rule)]
    used = sum(cell_len(text) for text, _ in lead + tabs)
    tail = f" {note} ─" if note else ""
    fill = "─" * max(0, width - used - cell_len(tail))
    return line([*lead, *tabs, (fill, rule), (tail, colours.QUIET)], width)
