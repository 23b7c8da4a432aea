"""The top line: whose screen this is and where else runs go on, how many live, wait, are parked and have ended, how
many findings ask.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from rich.cells import cell_len
from textual import events

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.outcome import ALIVE
from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.present import numbers
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import SEVERITY_SHAPES
from mission_tui.tui.drawing.strips import Part, fit, home_relative, key_at, line, literal
from mission_tui.tui.state.run_status import open_findings
from mission_tui.tui.widgets.lines import Lines
from mission_tui.tui.widgets.notices import also_live, least_cells

_COUNTED: tuple[Severity, ...] = ("critical", "warning")
_LEAST_WHERE = 8
_SAME_DAY_S = 43_200


class Header(Lines):
    """One line; `way_out` names the key that leaves this screen."""

    def __init__(self, way_out: str, home: str) -> None:
        super().__init__(id="header")
        self._way_out = way_out
        self._home = home
        self._snapshot: FleetSnapshot | None = None
        self._filter_text = ""
        self._shown_way_out = ""

    def update(self, snapshot: FleetSnapshot | None, filter_text: str = "", note: str = "") -> None:
        """Show the counts of `snapshot`, the active filter, and a note such as "2 marked"."""
        self._snapshot = snapshot
        self._filter_text = "  ".join(part for part in (note, filter_text) if part)
        self.redraw()

    def redraw(self) -> None:
        """Place name left, counts in the middle and the way out right; the runs root gives way first."""
        width = self.size.width
        title = _title(self._snapshot)
        counts = _counts(self._snapshot)
        if _cells(counts) > width - _cells(title) - 3:
            counts = _counts(self._snapshot, over=False)
        if self._filter_text:
            counts = [(f"{self._filter_text}  ", colours.KEY), *counts]
        taken = _cells(counts) + _cells(title) + 2
        way_out = self._way_out if taken + len(self._way_out) < width else "?"
        self._shown_way_out = way_out
        right: list[Part] = [(way_out, colours.QUIET), (" ", colours.QUIET)]
        fixed = taken + len(way_out) + 1
        roots = self._snapshot.elsewhere if self._snapshot else ()
        least = least_cells(roots)
        where = _where(self._snapshot, self._home, width - fixed - 2 - (least + 2 if least else 0))
        room = width - fixed - cell_len(where)
        also = also_live(roots, self._home, room - 2) if where else []
        if also:
            where += "  "
            room -= 2 + _cells(also)
        blank: Part = (" " * max(2, room + 2), colours.INK)
        left: list[Part] = [*title, (where, colours.INK), *also, blank]
        self.show([line([*left, *counts, *right], width)])

    def on_click(self, event: events.Click) -> None:
        """A click on the way out takes it."""
        begin = self.size.width - 1 - len(self._shown_way_out)
        if (key := key_at(self._shown_way_out, event.x - begin)) is not None:
            self.app.simulate_key(key)


def _title(snapshot: FleetSnapshot | None) -> list[Part]:
    """The program, or in a replay the moment that is shown: so that a replay is not mistaken for the present."""
    if snapshot is None or snapshot.replay is None:
        return [(" mission-tui ", colours.BOLD)]
    t, now = snapshot.t, snapshot.replay.until
    day = "" if abs(now - t) < _SAME_DAY_S else time.strftime("%d %b ", time.localtime(t))
    clock = time.strftime("%H:%M:%S", time.localtime(t))
    return [(" REPLAY ", colours.WARN), (f"{day}{clock} ", colours.BOLD), (f"{numbers.ago(t, now)} ", colours.WARN)]


def _where(snapshot: FleetSnapshot | None, home: str, width: int) -> str:
    """Host and runs root, or as much of the root's end as fits: the end of a path says most. Of several machines their
    names.
    """
    if snapshot is None or width < _LEAST_WHERE:
        return ""
    if len(snapshot.hosts) > 1:
        names = " + ".join(literal(machine.name) for machine in snapshot.hosts)
        return names if cell_len(names) <= width else f"{len(snapshot.hosts)} machines"[:width]
    root, host = home_relative(snapshot.runs_root, home), literal(snapshot.host.name)
    if snapshot.hosts:
        host, root = literal(snapshot.hosts[0].name), snapshot.runs_root
        return fit(f"{host}:{root}", width).rstrip()
    for text in (f"{host}:{root}", root):
        if cell_len(text) <= width:
            return text
    return "…" + root[-(width - 1) :]


def _counts(snapshot: FleetSnapshot | None, over: bool = True) -> list[Part]:
    """Without `over` what has ended is left out, so that warnings are never cut."""
    if snapshot is None:
        return []
    live = sum(view.state in ALIVE and view.unheard_since is None for view in snapshot.runs)
    unheard = sum(view.unheard_since is not None for view in snapshot.runs)
    waiting = [view.restart for view in snapshot.runs if view.restart is not None]
    restarts = [restart for restart in waiting if restart.after != "request"]
    heard = [view for view in snapshot.runs if view.unheard_since is None]
    queued = sum(view.state == "queued" for view in heard) - len(restarts)
    asking = [finding for view in snapshot.runs if view.state in ALIVE for finding in open_findings(view)]
    parts: list[Part] = [(f"{live} live ", colours.LIVE if live else colours.QUIET)]
    if unheard:
        parts.append((f"{unheard} no link ", colours.WARN))
    if queued:
        parts.append((f"{queued} queued ", colours.INK))
    if restarts:
        parts.append((_restarting([restart.due_t for restart in restarts], snapshot.t), colours.INK))
    if over and snapshot.parked_total:
        parts.append((f"{snapshot.parked_total} parked ", colours.INK))
    if over:
        parts.append((f"{snapshot.ended_total - snapshot.parked_total} ended  ", colours.QUIET))
    if snapshot.unread:
        parts.append((f"+{numbers.count(snapshot.unread)} being read  ", colours.WARN))
    if stale := sum(run.processes for run in snapshot.stale):
        parts.append((f"{stale} stale X  ", colours.WARN))
    counted = ((severity, sum(finding.severity == severity for finding in asking)) for severity in _COUNTED)
    flags = [(f"{SEVERITY_SHAPES[kind]}{count} ", colours.severity_style(kind)) for kind, count in counted if count]
    return [*parts, *flags, (" ", colours.QUIET)] if flags else parts


def _cells(parts: Iterable[Part]) -> int:
    return sum(cell_len(literal(text)) for text, _ in parts)


def _restarting(due: list[float], now: float) -> str:
    """How many wait for their restart, and how long the first of them still does."""
    left = numbers.due(min(due) - now)
    return f"1 restarts {left} " if len(due) == 1 else f"{len(due)} restart, next {left} "
