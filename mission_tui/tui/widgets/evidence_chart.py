"""A finding drawn on the curve that shows it: threshold, what the rule looked at, and the incident as a shaded band."""

from __future__ import annotations

from mission_tui.fleet.events.findings import Finding
from mission_tui.tui.drawing import colours
from mission_tui.tui.plot.canvas import Canvas
from mission_tui.tui.plot.frame import Frame, down_of, frame_for, framed, numbers_beside
from mission_tui.tui.plot.hues import faint, hue
from mission_tui.tui.plot.scale import Scale, scale_of
from mission_tui.tui.queries.evidence import Points, evidence_start
from mission_tui.tui.widgets.lines import Lines

__all__ = ["BAND", "EvidenceChart"]

BAND = "░"
_BEHIND, _DRAWN = 1, 2


class EvidenceChart(Lines):
    """Over updates, because that is how findings and logs name places."""

    def __init__(self) -> None:
        super().__init__(id="evidence-chart")
        self._shown: tuple[Finding, Points] | None = None

    def draw_finding(self, finding: Finding, points: Points) -> None:
        """Draw `finding` on the curve of its signal over updates; fewer than two points draw nothing."""
        self._shown = finding, points
        self.redraw()

    def redraw(self) -> None:
        """The picture for the present size."""
        finding, points = self._shown or (None, [])
        if finding is None or len(points) < 2:
            self.show([])
            return
        values = [value for _, low, high in points for value in (low, high)]
        scale = scale_of([*values, *([] if finding.threshold is None else [finding.threshold])], log=False)
        frame = frame_for(*self.size, (points[0][0], points[-1][0]), ["left"])
        if scale is None or not frame.roomy:
            self.show([])
            return
        canvas = Canvas(frame.columns, frame.rows)
        _draw_curve(canvas, points, scale, frame)
        _draw_incident(canvas, finding, scale, frame)
        self.show(framed(frame, canvas, "updates", numbers_beside(scale, frame.rows)))


def _draw_curve(canvas: Canvas, points: Points, scale: Scale, frame: Frame) -> None:
    """The middle of each bucket, and its span behind it where a bucket holds several updates."""
    lows, means, highs = (
        [_dot(place, value, scale, frame) for place, value in column]
        for column in (
            [(place, low) for place, low, _ in points],
            [(place, (low + high) / 2) for place, low, high in points],
            [(place, high) for place, _, high in points],
        )
    )
    if any(high > low for _, low, high in points):
        canvas.stroke(lows, faint(0), _BEHIND)
        canvas.stroke(highs, faint(0), _BEHIND)
    canvas.stroke(means, hue(0), _DRAWN)


def _dot(place: float, value: float, scale: Scale, frame: Frame) -> tuple[int, int] | None:
    down = down_of(value, scale, frame.rows)
    return None if down is None else (frame.across(place), down)


def _draw_incident(canvas: Canvas, finding: Finding, scale: Scale, frame: Frame) -> None:
    alarm = colours.severity_style(finding.severity)
    if finding.threshold is not None:
        limit = finding.threshold
        canvas.stroke([_dot(place, limit, scale, frame) for place in (frame.low, frame.high)], alarm, _BEHIND)
    looked = evidence_start(finding)
    if frame.low <= looked < finding.first_update:
        canvas.fill(frame.column(looked), "│", colours.LINE)
    if frame.low <= finding.first_update <= frame.high:
        canvas.fill(frame.column(finding.first_update), "│", alarm)
    # A pattern is seen without colour too.
    if finding.last_update > max(frame.low, finding.first_update):
        for column in range(frame.column(finding.first_update), frame.column(finding.last_update) + 1):
            canvas.fill(column, BAND, colours.TRACK)
