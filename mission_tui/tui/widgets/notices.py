"""What the fleet's list says beside its runs: how to begin where it is empty, in the words of the presets there, and
where else runs go on; and lines that come and go above it: what happened while nobody looked, and the position in a
replay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.strip import Strip

from mission_tui.fleet.views.snapshot import FleetSnapshot, OtherRoot, Replay
from mission_tui.present import numbers
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part, home_relative, key_at, line, literal, wrap
from mission_tui.tui.state.news import Away
from mission_tui.tui.state.presets import PresetChoice, by_key
from mission_tui.tui.widgets.lines import Lines

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
        while keys and width - fixed - _cells(keys) < _LEAST_BAR:
            keys.pop()
        room = max(2, min(_MOST_BAR, width - fixed - _cells(keys) - 1))
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


def _cells(keys: list[list[Part]]) -> int:
    return sum(2 + sum(cell_len(text) for text, _ in hint) for hint in keys)


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
        gap = width - 2 - sum(cell_len(text) for text, _ in best) - cell_len(self._hint)
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
            if sum(cell_len(text) for text, _ in parts + more) > room:
                break
            parts += more
        return parts if len(parts) > 1 else []
