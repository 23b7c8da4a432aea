"""The strip on the screen: asked for while it is seen, and drawn again when an answer comes."""

from __future__ import annotations

import time

from mission_tui.fleet.events.outcome import ALIVE
from mission_tui.fleet.strips.attribution import attribute, duty_sentence
from mission_tui.fleet.strips.strip import Strip
from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import line
from mission_tui.tui.sections.timeline import columns_for, rows_for, timeline
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.timeline import TimelineQuery
from mission_tui.tui.widgets.lines import Lines

_ALL = 1 << 20


class Timeline(Lines):
    """`rows` is how many it takes; none where it is not shown."""

    def __init__(self, app_context: AppContext) -> None:
        super().__init__(id="timeline")
        self._app_context = app_context
        self._timeline_query = TimelineQuery(app_context, self._answered)
        self._snapshot: FleetSnapshot | None = None
        self._most = 0
        self._cut: Strip | None = None
        self._how: tuple[object, ...] = ()
        self._told: tuple[Strip, list[str]] | None = None
        self.rows = 0

    def update(self, snapshot: FleetSnapshot | None, most: int) -> None:
        """Take at most `most` rows for what `snapshot` says is there, and ask for what is not known."""
        self._snapshot, self._most = snapshot, most
        self.rows = self._needed()
        if self.display != (self.rows > 0):
            self.display = self.rows > 0
        if not self.rows:
            return
        self.styles.height = self.rows
        self._request()
        self.redraw()

    def _request(self) -> None:
        if self._is_visible():
            self._timeline_query.request(self._app_context.zoom.seconds, columns_for(self.app.size.width), self._past_t)

    @property
    def _past_t(self) -> float | None:
        """In a replay the moment at which the strip ends."""
        return None if self._snapshot is None or self._snapshot.replay is None else self._snapshot.t

    def _is_visible(self) -> bool:
        """Whether nothing but a question lies over it: a screen below another one is drawn, too."""
        top = self.app.screen
        return top is self.screen or (top.is_modal and self._app_context.shown is self.screen)

    @property
    def wanted_rows(self) -> int:
        """How many rows there is something for."""
        return self._needed(_ALL)

    def _needed(self, most: int | None = None) -> int:
        most = self._most if most is None else most
        if self._snapshot is None or most < 1:
            return 0
        strip = self._timeline_query.strip
        if strip is None and self._timeline_query.trouble is not None:
            return 1
        lanes = sum(view.state in ALIVE for view in self._snapshot.runs)
        if strip is not None:
            lanes = 0 if not strip.lanes else max(lanes, len(strip.lanes))
        return rows_for(len(self._snapshot.gpus), lanes, most)

    @property
    def sentences(self) -> list[str]:
        """What the strip says of each GPU in a sentence."""
        strip = self._timeline_query.strip
        if strip is None or not any(gpu.busy for gpu in strip.gpus):
            return []
        if self._told is None or self._told[0] is not strip:
            duties = attribute(strip).gpus
            named = [f"GPU{at}: " if len(strip.gpus) > 1 else "" for at in range(len(strip.gpus))]
            places = {gpu.uuid: place for gpu, place in zip(strip.gpus, named, strict=True)}
            zoom = self._app_context.zoom.word
            said = [f"{places[duty.uuid]}{duty_sentence(duty)}, in the last {zoom}" for duty in duties]
            self._told = strip, said
        return self._told[1]

    def _answered(self) -> None:
        if not self.is_attached:
            return
        self._request()  # No snapshot comes in a replay, where another moment may be wanted by now.
        if self.rows != self._needed():
            self._app_context.redraw()
        else:
            self.redraw()

    def redraw(self) -> None:
        """The newest strip for the present size."""
        width, strip = self.size.width, self._timeline_query.strip
        if strip is None:
            said = self._timeline_query.trouble or "asking what the machine did…"
            self.show([line([(f" {said}", colours.QUIET)], width)])
            return
        views = self._snapshot.runs if self._snapshot else ()
        live = frozenset(view.id for view in views if view.state in ALIVE)
        zoom = self._app_context.zoom
        # Snapshots come far more often than answers, and cutting a day into columns is work.
        end = "now" if self._past_t is None else time.strftime("%H:%M:%S", time.localtime(strip.until))
        how = (zoom.seconds, width, self.rows, live)
        if strip is not self._cut or how != self._how or not self._strips:
            self._cut, self._how = strip, how
            self.show(timeline(strip, zoom.seconds, zoom.word, width, self.rows, live, end))
