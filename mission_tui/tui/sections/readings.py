"""What rules read in the newest update, each value beside the levels that it is compared with in this run."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.health.readings import Reading, readings
from mission_tui.fleet.health.settings import settings_of
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import DetailsReply
from mission_tui.tui.drawing import colours, numbers
from mission_tui.tui.drawing.glyphs import SEVERITY_SHAPES
from mission_tui.tui.drawing.strips import Part, fit, line, wrap

__all__ = ["flags", "limits_on_curve", "reading_lines", "readings_of"]

_LABEL, _VALUE, _LEVEL, _HELD = 20, 8, 11, 16
_RULE_FROM = 98
_REMARK = (
    "A value past its level is no finding yet: a rule also looks at how long, and at what the return does meanwhile."
)


def readings_of(view: RunView, details: DetailsReply) -> tuple[Reading, ...]:
    """The readings of `view`'s newest update under its own limits."""
    spec = details.spec
    return readings(
        view.metrics,
        settings_of(spec, view.total_timesteps),
        spec.keep.health,
        speeds=view.series.get("steps_per_s", ()),
        outcomes=view.outcomes,
    )


def reading_lines(view: RunView, details: DetailsReply, width: int, note: str = "") -> list[Strip]:
    """A table with a line per reading, and `note` below it; one sentence while there is nothing to read."""
    rows = [_row(reading, view, width) for reading in readings_of(view, details)]
    if not rows:
        return [line([(" no value to compare with a limit yet", colours.QUIET)], width)]
    titles = ("what rules read", "newest", "warning if", "critical if", "for")
    cells = (_LABEL, _VALUE, _LEVEL, _LEVEL, _HELD)
    head = "   " + "  ".join(
        fit(title, cell, "right" if title == "newest" else "left") for title, cell in zip(titles, cells, strict=True)
    )
    strips = [line([(head, colours.QUIET)], width), *rows, line([], width)]
    for said, style in ((_REMARK, colours.QUIET), (note, colours.GOOD)):
        strips += [line([(f" {text}", style)], width) for text in wrap(said, width - 2)]
    return strips


def flags(read: Sequence[Reading]) -> dict[str, Severity]:
    """By series, the worst level that its newest value has passed; series within their limits are left out."""
    passed: dict[str, Severity] = {}
    for reading in read:
        if reading.level == "critical" or (reading.level == "warning" and reading.tag not in passed):
            passed[reading.tag] = "critical" if reading.level == "critical" else "warning"
    return passed


def limits_on_curve(read: Sequence[Reading], tag: str) -> list[Part]:
    """The levels of `tag`'s first reading in the curve's own units, as one would say them; nothing where none apply."""
    for reading in read:
        if reading.tag == tag:
            sign = "<" if reading.below else ">"
            levels: tuple[tuple[Severity, float | None], ...]
            levels = (("warning", reading.warning), ("critical", reading.critical))
            return [
                (f"   {SEVERITY_SHAPES[severity]} {sign} {numbers.reading(level)}", colours.severity_style(severity))
                for severity, value in levels
                if (level := reading.on_curve(value)) is not None
            ]
    return []


def _row(reading: Reading, view: RunView, width: int) -> Strip:
    shape, style = " ", colours.INK
    if reading.level in ("warning", "critical"):
        severity: Severity = "critical" if reading.level == "critical" else "warning"
        shape, style = SEVERITY_SHAPES[severity], colours.severity_style(severity)
    value = fit(numbers.reading(reading.value), _VALUE, "right")
    parts: list[Part] = [
        (f" {shape} ", style),
        (f"{fit(reading.label, _LABEL)}  ", colours.INK),
        (f"{value}  ", style),
        (f"{fit(_level(reading, reading.warning), _LEVEL)}  ", colours.QUIET),
        (f"{fit(_level(reading, reading.critical), _LEVEL)}  ", colours.QUIET),
        (f"{fit(reading.held, _HELD)}  ", colours.QUIET),
    ]
    if width >= _RULE_FROM:
        parts.append((reading.rule, colours.QUIET))
    if reading.rule in view.silenced:
        parts.append(("  silenced", colours.QUIET))
    return line(parts, width)


def _level(reading: Reading, level: float | None) -> str:
    return numbers.DASH if level is None else f"{'<' if reading.below else '>'} {numbers.reading(level)}"
