"""What `O` copies of each tab of a run: whole lines as one reads them, and what they are. Nothing hidden goes along."""

from __future__ import annotations

from textual.screen import Screen

from mission_tui.tui.drawing import numbers
from mission_tui.tui.drawing.strips import literal
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.widgets.findings import Findings
from mission_tui.tui.widgets.lines import ScrollLines
from mission_tui.tui.widgets.log_lines import LogLines
from mission_tui.tui.widgets.metric_list import MetricList

__all__ = ["MOST_BYTES", "copy_lines", "lines_of"]

MOST_BYTES = 48 << 10
"""Encoded for the terminal a third more; many terminals drop a longer sequence without a word."""


def lines_of(screen: Screen[None], tab: str) -> tuple[str, list[str]]:
    """What `tab` has to copy, in words, and its lines."""
    match tab:
        case "log":
            return screen.query_one(LogLines).to_copy()
        case "learn":
            lines = screen.query_one(MetricList).to_copy()
            return f"{len(lines)} metrics", lines
        case _:
            chosen = "#readings" if screen.query_one(Findings).finding is None else "#finding-text"
            lines = screen.query_one(chosen if tab == "health" else "#section", ScrollLines).text()
            return f"{numbers.count(len(lines))} lines of {tab}", lines


def copy_lines(app_context: AppContext, what: str, lines: list[str]) -> None:
    """Put `lines` on the terminal's clipboard and say so; of too many the last."""
    kept: list[str] = []
    size_bytes = 0
    for text in reversed([literal(text) for text in lines]):
        grown = size_bytes + len(text.encode(errors="replace")) + 1
        if grown > MOST_BYTES:
            break
        kept.append(text)
        size_bytes = grown
    if not kept:
        app_context.toast(
            "nothing to copy here" if not lines else "its last line is too long for the terminal's clipboard"
        )
        return
    app_context.copy("\n".join(reversed(kept)) + "\n")
    cut = "" if len(kept) == len(lines) else f", the last {numbers.count(len(kept))} of them,"
    app_context.toast(f"copied {what}{cut} ({numbers.size(size_bytes)}) to the terminal's clipboard")
