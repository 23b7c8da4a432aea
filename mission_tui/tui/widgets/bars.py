"""The lines around what a screen shows. On top: whose screen this is and where else runs go on, how many live, wait,
are parked and have ended, how many findings ask; below that what comes and goes: what happened while nobody looked,
and the position in a replay. In place of an empty list: how to begin, in the words of the presets there, and where
else runs go on. At the bottom: live hints that can be clicked, the most important ones first to stay when the line is
short; and the line for a regular expression, which filters while it is typed, and filters nothing while it is
unfinished.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.containers import Horizontal
from textual.message import Message
from textual.strip import Strip

from mission_tui.fleet.commands import is_applicable
from mission_tui.fleet.events.findings import Finding, Severity
from mission_tui.fleet.events.outcome import ALIVE
from mission_tui.fleet.views.snapshot import FleetSnapshot, OtherRoot, Replay, RunView
from mission_tui.present import numbers
from mission_tui.tui.actions import BY_NAME, Action, Place, key_label, offered
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import SEVERITY_SHAPES
from mission_tui.tui.drawing.strips import Part, fit, home_relative, key_at, line, literal, part_cells, wrap
from mission_tui.tui.state.filter_pattern import FilterPattern, NoExpressionError
from mission_tui.tui.state.news import Away
from mission_tui.tui.state.presets import PresetChoice, by_key
from mission_tui.tui.state.run_status import open_findings
from mission_tui.tui.widgets.lines import Lines, ScrollLines

if TYPE_CHECKING:
    from textual.widgets import Input

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
        if part_cells(counts) > width - part_cells(title) - 3:
            counts = _counts(self._snapshot, over=False)
        if self._filter_text:
            counts = [(f"{self._filter_text}  ", colours.KEY), *counts]
        taken = part_cells(counts) + part_cells(title) + 2
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
            room -= 2 + part_cells(also)
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


def _restarting(due: list[float], now: float) -> str:
    """How many wait for their restart, and how long the first of them still does."""
    left = numbers.due(min(due) - now)
    return f"1 restarts {left} " if len(due) == 1 else f"{len(due)} restart, next {left} "


_ON_FINDINGS = frozenset({"apply", "acknowledge", "silence"})
_STANDS = frozenset({"paused", "frozen", "parked"})


class Hint(Struct, frozen=True):
    """A smaller `rank` stays longer; hints of one group stand closer together."""

    key: str
    label: str
    call: str
    rank: int
    group: str

    @property
    def cells(self) -> int:
        """Width with the blank between key and label and the one after."""
        return cell_len(self.key) + cell_len(self.label) + 2


def hints(
    place: Place,
    presets: Sequence[PresetChoice],
    chosen: RunView | None,
    finding: Finding | None = None,
    *,
    readonly: bool,
    undoable: bool,
) -> list[Hint]:
    """The hints of a place: undo while it works, then starting, then what fits the chosen run, then looking.

    A run that stands still goes on with one key, which comes before all of them: a toast covers what is at the right.
    `finding` is the one that keys for findings would apply to; on a run's own screen they then stay longest.
    """
    shown: list[Hint] = []
    if undoable and not readonly:
        shown.append(Hint("u", "undo", "app.do('undo')", -1, "undo"))
    if chosen is not None and not readonly and (chosen.state in _STANDS or chosen.pausing):
        going_on = BY_NAME["resume"]
        shown.append(Hint(key_label(going_on.keys[0]), going_on.label, going_on.call, -1, "going on"))
    if place == "fleet" and not readonly:
        for key, preset in by_key(presets).items():
            shown.append(Hint(key, literal(preset.label), f"app.launch({key!r})", 0, "presets"))
    return shown + [
        Hint(key_label(action.keys[0]), action.label, action.call, _rank(action, place), action.group)
        for action in offered(place, readonly=readonly)
        if action.hint is not None
        and all(action.call != hint.call for hint in shown)
        and (action.needs == "none" or (chosen and is_applicable(action.name, chosen, finding)))
    ]


def _rank(action: Action, place: Place) -> int:
    return -1 if place == "run" and action.name in _ON_FINDINGS else action.hint or 0


def fitting(shown: Sequence[Hint], width: int) -> list[Hint]:
    """The hints that fit `width` cells, in their own order; the highest ranks go first, of presets the last ones."""
    kept = list(shown)
    while kept and sum(hint.cells for hint in kept) + _gaps(kept) > width - 1:
        # Their order is that of the keys, and who has just come begins with the first; `x` leads to all else.
        kept.remove(max(kept, key=lambda hint: (hint.rank, kept.index(hint) if hint.group == "presets" else 0)))
    return kept


def _gaps(shown: Sequence[Hint]) -> int:
    return sum(one.group != other.group for one, other in pairwise(shown))


class Footer(Lines):
    """One line of hints."""

    def __init__(self) -> None:
        super().__init__(id="footer")
        self._hints: Sequence[Hint] = ()

    def update(self, shown: Sequence[Hint]) -> None:
        """Show those of `shown` that fit."""
        if self._size_drawn != self.size or self._hints != shown:
            self._hints = shown
            self.redraw()

    def redraw(self) -> None:
        """Write keys bright and labels quiet."""
        parts: list[Part] = [(" ", colours.QUIET)]
        group = ""
        for hint in fitting(self._hints, self.size.width):
            if group and hint.group != group:
                parts.append((" ", colours.QUIET))
            group = hint.group
            click = Style(meta={"@click": hint.call})
            parts += [(hint.key, colours.KEY + click), (f" {hint.label}", colours.INK + click), (" ", colours.QUIET)]
        self.show([line(parts, self.size.width)])


class FilterBar(Horizontal):
    """Shown while a pattern is typed. Enter keeps the filter, Escape removes it."""

    class Changed(Message):
        """`FilterBar.pattern` is another one."""

    @dataclass
    class GivenUp(Message):
        """Searching for `words` took too long, and the line that would say so is closed."""

        words: str

    class Closed(Message):
        """The person has finished typing."""

    def __init__(self) -> None:
        super().__init__(id="filter")
        self.display = False
        self.pattern: FilterPattern | None = None
        self._box: Input | None = None

    def open(self) -> None:
        """Show the line and type into it."""
        if self._box is None:
            self._box = self._mounted()
        self.display = True
        self._sign(" /", colours.KEY)
        # At once: `focus` would wait for a turn of the loop, and what is typed meanwhile would be taken for commands.
        self.screen.set_focus(self._box)

    def _mounted(self) -> Input:
        """A slash and a borderless input; an exclamation mark while that is no regular expression yet, and why not."""
        from textual.widgets import Input  # not before somebody filters: the first picture comes sooner without

        box = Input(id="filter-input", compact=True, select_on_focus=False)
        self.mount(ScrollLines(id="filter-sign"), box, ScrollLines(id="filter-trouble"))
        return box

    def close(self, *, clear: bool) -> None:
        """Hide the line; `clear` also removes the filter."""
        if clear and self._box is not None and self._box.value:
            self._box.value = ""
            self.pattern = None
        self.display = False
        self.screen.set_focus(None)
        self.post_message(self.Closed())

    def _sign(self, sign: str, style: Style, trouble: str = "") -> None:
        self.query_one("#filter-sign", ScrollLines).set(lambda width: [line([(sign, style)], width)])
        told = self.query_one("#filter-trouble", ScrollLines)
        told.display = bool(trouble)
        told.styles.width = min(cell_len(trouble) + 2, self.screen.size.width // 2)
        told.set(lambda width: [line([(f" {fit(trouble, width - 1)}", colours.QUIET)], width)])

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter by what is typed."""
        event.stop()
        try:
            self.pattern = FilterPattern(event.value, self._too_slow) if event.value else None
        except NoExpressionError as error:
            self._sign(" !", colours.ALARM, f"not a regular expression yet: {error}")
            return
        self._sign(" /", colours.KEY)
        self.post_message(self.Changed())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter."""
        event.stop()
        self.close(clear=False)

    def _too_slow(self) -> None:
        words = self.pattern.words if self.pattern is not None else ""
        self.pattern = None
        self._sign(" !", colours.ALARM, "takes too long")
        if not self.display:
            self.post_message(self.GivenUp(words))
        self.post_message(self.Changed())


_ROOTS = 3
_KEY: Part = (" W", colours.KEY)


def _deed(preset: PresetChoice) -> str:
    return f"asks about {preset.name} of {preset.from_folder}" if preset.from_folder else f"starts {preset.name}"


def empty_state(
    presets: Sequence[PresetChoice],
    *,
    filtered: bool,
    older: int,
    readonly: bool,
    width: int,
    past: bool,
    elsewhere: Sequence[OtherRoot],
    home: str,
) -> list[list[Part]]:
    """Lines of at most `width` cells for an empty list; another text when runs exist and only the filter hides
    them, and in a replay. `older` runs are over and were not looked through.

    Runs roots `elsewhere` are named first: an empty list often means that the wrong one is open.
    """
    if filtered:
        told = (
            [f"{older:,} older runs are not listed here: `mission-tui status --limit 1000` prints them"]
            if older
            else []
        )
        below = [[(f"  {text}", colours.QUIET)] for said in told for text in wrap(said, max(1, width - 3))]
        return [[], [("  No run matches. Esc shows all again.", colours.QUIET)], *below]
    if past:
        return [[], [("  No run was there at this moment.", colours.BOLD)]]
    lines: list[list[Part]] = [[], [("  No runs yet.", colours.BOLD)]]
    busy = [other for other in elsewhere if other.live != 0]
    lines += [[("  Also live: ", colours.INK), (named(other, home), colours.LIVE)] for other in busy[:_ROOTS]]
    if busy:
        lines += [[("  W ", colours.KEY), ("goes there; everything here goes on", colours.INK)], []]
    if readonly:
        return [*lines, [("  This screen is read-only: start runs elsewhere and watch them here.", colours.QUIET)]]
    for key, preset in by_key(presets).items():
        about = f": {preset.description}" if preset.description else ""
        first, *more = wrap(f"{_deed(preset)}{about}", max(1, width - 5)) or [""]
        lines.append([(f"  {key} ", colours.KEY), (first, colours.INK)])
        lines += [[(f"    {text}", colours.INK)] for text in more]
    lines += [
        [("  n ", colours.KEY), ("opens a form for anything else", colours.INK)],
        [],
        [("  A started run goes on when you leave: ", colours.QUIET), ("q", colours.KEY), (" leaves,", colours.QUIET)],
        [
            ("  and the next mission-tui shows it again. ", colours.QUIET),
            ("?", colours.KEY),
            (" lists all keys.", colours.QUIET),
        ],
    ]
    return lines


def named(other: OtherRoot, home: str) -> str:
    """`~/proj-b/runs (3 runs)`."""
    return f"{home_relative(other.root, home)}{other.remark}"


def also_live(roots: Sequence[OtherRoot], home: str, cells: int) -> list[Part]:
    """Those of `roots` where runs go on, by name or only counted, in at most `cells` cells; nothing when there is none.

    A root with a supervisor and no run is left out: nothing happens there.
    """
    busy = [other for other in roots if other.live != 0]
    if not busy:
        return []
    names = ", ".join(named(other, home) for other in busy)
    counted = f"+{len(busy)} root{'' if len(busy) == 1 else 's'}"
    for text in (f"also live: {names}", f"also live: {counted}", counted, _least(len(busy))):
        if cell_len(text) + 2 <= cells:
            return [(text, colours.INK), _KEY]
    return []


def least_cells(roots: Sequence[OtherRoot]) -> int:
    """Cells of the shortest form of `also_live`; 0 when it says nothing."""
    busy = sum(other.live != 0 for other in roots)
    return len(_least(busy)) + 2 if busy else 0


def _least(busy: int) -> str:
    return f"+{busy}"


_LEAST_BAR = 8
_MOST_BAR = 80
_BLANK: Part = (" ", colours.INK)
_HINT, _HINT_ELSEWHERE = "M all of it  Esc close", "Esc close"
_MOST_ELSEWHERE = 2
_MOST_SENTENCE = 2
_LONGEST_NAME = 20


def share_of(span: Replay, t: float) -> float:
    """Where `t` lies in the span of a replay, 0 to 1; a clock that was set may have put it far outside."""
    if span.until <= span.since:
        return 1.0
    return min(1.0, max(0.0, (t - span.since) / (span.until - span.since)))


class ReplayLine(Lines):
    """Hidden in the present."""

    def __init__(self) -> None:
        super().__init__(id="replay")
        self.display = False
        self._snapshot: FleetSnapshot | None = None
        self._step = ""

    @property
    def rows(self) -> int:
        """How many rows it takes."""
        return int(self.display)

    def update(self, snapshot: FleetSnapshot | None, step: str) -> None:
        """Show where `snapshot` lies; one key goes `step`."""
        self._snapshot, self._step = snapshot, step
        shown = snapshot is not None and snapshot.replay is not None
        if self.display != shown:
            self.display = shown
        self.redraw()

    def redraw(self) -> None:
        """The span of the files as a bar, with the moment on it."""
        snapshot, width = self._snapshot, self.size.width
        if snapshot is None or snapshot.replay is None:
            return
        first, last = snapshot.replay.since, snapshot.replay.until
        before = "nothing before " if snapshot.t <= first else ""
        start, end = f" {before}{numbers.clock(first, last)} ", f" {numbers.clock(last, last)}"
        keys = [
            [_key(",", "back in time"), _BLANK, _key(".", "forward in time"), (f" {self._step} back, on", colours.INK)],
            [_key("H", "replay"), (" now", colours.INK)],
            [_key("(", "finer"), _BLANK, _key(")", "coarser"), (" step", colours.INK)],
            [_key("g", "go to"), (" time", colours.INK)],
        ]
        fixed = cell_len(start) + cell_len(end)
        while keys and width - fixed - _key_cells(keys) < _LEAST_BAR:
            keys.pop()
        room = max(2, min(_MOST_BAR, width - fixed - _key_cells(keys) - 1))
        at = round(share_of(snapshot.replay, snapshot.t) * (room - 1))
        parts: list[Part] = [
            (start, colours.QUIET),
            ("─" * at, colours.LINE),
            ("●", colours.WARN),
            ("─" * (room - 1 - at), colours.LINE),
            (end, colours.QUIET),
        ]
        for hint in keys:
            parts += [("  ", colours.INK), *hint]
        self.show([line(parts, width)])


def _key(label: str, action: str) -> Part:
    return label, colours.KEY + Style(meta={"@click": f"app.do({action!r})"})


def _key_cells(keys: list[list[Part]]) -> int:
    return sum(2 + part_cells(hint) for hint in keys)


class AwayLines(Lines):
    """Hidden while there is nothing to tell."""

    def __init__(self) -> None:
        super().__init__(id="away")
        self.display = False
        self.rows = 0
        self._away: Away | None = None
        self._best: Mapping[str, tuple[float, int]] = {}
        self._elsewhere: tuple[str, ...] = ()

    def update(
        self, away: Away | None, best: Mapping[str, tuple[float, int]], width: int, elsewhere: tuple[str, ...] = ()
    ) -> None:
        """Show `away` in `width` cells, with the best returns that are known by now, and what ended `elsewhere`."""
        self._away, self._best, self._elsewhere = away, dict(best), elsewhere
        self.rows = len(self._lines(width))
        if self.display != (self.rows > 0):
            self.display = self.rows > 0
        self.styles.height = self.rows
        self.redraw()

    def redraw(self) -> None:
        """Fold the sentence for the present width."""
        self.show(self._lines(self.size.width))

    def _lines(self, width: int) -> list[Strip]:
        if (self._away is None and not self._elsewhere) or width < 2:
            return []
        sentences = () if self._away is None else (self._away.sentence,)
        told = (*sentences, *map(literal, self._elsewhere[:_MOST_ELSEWHERE]))
        said = [text for sentence in told for text in wrap(sentence, width - 2, _MOST_SENTENCE)]
        strips = [line([(f" {text}", colours.WARN)], width) for text in said]
        best = self._best_parts(width - cell_len(self._hint) - 4)
        gap = width - 2 - part_cells(best) - cell_len(self._hint)
        return [
            *strips,
            line([(" ", colours.INK), *best, (" " * max(1, gap), colours.INK), (self._hint, colours.QUIET)], width),
        ]

    @property
    def _hint(self) -> str:
        return _HINT if self._away is not None else _HINT_ELSEWHERE

    def on_click(self, event: events.Click) -> None:
        """A click on a hint presses its key."""
        begin = self.size.width - 1 - cell_len(self._hint)
        if event.y == self.rows - 1 and (key := key_at(self._hint, event.x - begin)) is not None:
            self.app.simulate_key(key)

    def _best_parts(self, room: int) -> list[Part]:
        """`best return cart-9a10 500  heavy-3f9a 12.4`, as many as fit."""
        if self._away is None:
            return []
        parts: list[Part] = [("best return", colours.QUIET)]
        for view in self._away.worth_a_look:
            if view.id not in self._best:
                continue
            name = literal(view.name)
            name = name if cell_len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
            more: list[Part] = [(f"  {name} ", colours.INK), (numbers.reading(self._best[view.id][0]), colours.BOLD)]
            if part_cells(parts + more) > room:
                break
            parts += more
        return parts if len(parts) > 1 else []
