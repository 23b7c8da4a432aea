"""What the two screens that show runs have in common: the snapshot they show, the runs that actions apply to, and how
the rows are shared out between panes, list and detail.
"""

from __future__ import annotations

from msgspec import Struct
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.geometry import Region
from textual.reactive import reactive

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView
from mission_tui.tui.actions import ACTIONS, Place
from mission_tui.tui.state.app_context import AppContext, RunsScreen
from mission_tui.tui.state.preferences import Shares, Split, split_of
from mission_tui.tui.state.run_status import open_findings
from mission_tui.tui.widgets.bars import FilterBar, Footer, hints
from mission_tui.tui.widgets.detail import Detail
from mission_tui.tui.widgets.lines import SplitContainer, give_columns
from mission_tui.tui.widgets.panes import PANE_HEIGHT, columns_for
from mission_tui.tui.widgets.run_table import RunTable

LEAST_WIDTH = 40
LEAST_HEIGHT = 10
_PANES_FROM = 120
BESIDE_FROM = 160

_DETAIL = 7
_LIST = 4
DETAIL_LEAST = 4
"""By hand it may be lower than it comes."""

_AS_IT_COMES = Shares({})

_TIMELINE_FROM = 44
_DETAIL_WIDTH, _LIST_WIDTH = 40, 50
"""Beside each other neither is narrower."""


def timeline_rows(width: int, height: int) -> int:
    """How many rows of a screen of `width` x `height` the strip may take; none where its columns would be few."""
    return height // 4 if width >= BESIDE_FROM and height >= _TIMELINE_FROM else 0


class Arrangement(Struct, frozen=True):
    """Heights in rows; 0 is not displayed, and the list takes what is left. `beside`: the detail is at the right.

    `others` is what panes and list keep of the rows when the detail is made larger by hand.
    """

    panes: int
    detail: int
    listed: bool
    beside: bool = False
    others: int = _LIST


def arrange(
    width: int,
    rows: int,
    live: int,
    rest: int,
    *,
    panes: bool | None,
    maximised: str | None,
    shares: Shares = _AS_IT_COMES,
) -> Arrangement:
    """Share `rows` between panes of `live` runs, a list of the others (of all without panes) and the detail.

    `panes` is the person's choice, None lets the width decide; `maximised` is "list" or "detail" or None; of `shares`
    counts the detail's where it is below the list.
    """
    if maximised == "detail":
        return Arrangement(0, rows, listed=False)
    wide = width >= BESIDE_FROM and maximised is None
    wanted = wants_panes(width, panes)
    detail = 0 if maximised == "list" or rows < _DETAIL + _LIST else _DETAIL
    if not (wanted and live) or rows < PANE_HEIGHT + (detail and _DETAIL) + 2:
        chosen = shares.cells("detail", rows, DETAIL_LEAST, _LIST) if detail else None
        beside = wide and _fills_a_column(live + rest, rows)
        below = _grown(detail, rows, live + rest, whole=wide) if chosen is None else chosen
        return Arrangement(0, rows if beside else below, listed=True, beside=beside)
    needed = -(-live // columns_for(width, live)) * PANE_HEIGHT
    listed = min(rest + 1, _LIST)
    # A whole pane, and a line that says how many more there are.
    least = min(needed, PANE_HEIGHT + 1)
    beside = wide and detail > 0 and _fills_a_column(rest, rows - min(needed, rows))
    chosen = shares.cells("detail", rows, DETAIL_LEAST, least + listed) if detail and not beside else None
    below = max(detail, listed) if beside else (detail if chosen is None else chosen) + listed
    fitting = max(1, (rows - below) // PANE_HEIGHT) * PANE_HEIGHT
    shown = needed if needed <= rows - below else max(min(fitting + 1, rows - below), least)
    left = rows - shown
    if not beside and chosen is not None:
        return Arrangement(shown, chosen, listed=True, others=least + listed)
    below = left if beside else _grown(detail, left, rest, whole=wide)
    return Arrangement(shown, below, listed=True, beside=beside, others=least + listed)


def wants_panes(width: int, panes: bool | None) -> bool:
    """Whether live runs are to be panes: as the person chose, else as the width has it."""
    return panes if panes is not None else width >= _PANES_FROM


def _fills_a_column(listed: int, rows: int) -> bool:
    """Whether a list beside the detail has runs enough for its rows; a short one stands above it, in all the width."""
    return listed + 1 > rows * 2 // 5


def _grown(detail: int, rows: int, listed: int, *, whole: bool) -> int:
    """The detail takes what a short list leaves, up to three fifths of the rows unless it is the `whole` width."""
    if not detail:
        return 0
    left = rows - listed - 1
    return max(detail, left if whole else min(left, rows * 3 // 5))


class ListAndDetail(SplitContainer):
    """Its rows are those of the arrangement; how wide the two are beside each other it knows itself."""

    _room, _others = 0, 0
    _beside = False

    def compose(self) -> ComposeResult:
        """The list has what the detail leaves."""
        yield RunTable()
        yield Detail()

    def lay_out(self, shared: Arrangement, rows: int) -> None:
        """Share the `rows` of panes, list and detail out as `shared` says."""
        self._room, self._others, self._beside = rows, shared.others, shared.beside
        self.set_class(shared.beside, "-beside")
        if (table := self.query_one(RunTable)).display != shared.listed:
            table.display = shared.listed
        whole = self.app.size.width
        detail = self.shares.cells("beside", whole, _DETAIL_WIDTH, _LIST_WIDTH) if shared.beside else None
        give_columns(table, None if detail is None else whole - detail)

    def split(self) -> Split | None:
        """Where the border between the two is, sideways where they stand beside each other."""
        table, detail = self.query_one(RunTable), self.query_one(Detail)
        if not (table.display and detail.display):
            return None
        at = detail.region
        if self._beside:
            grip = Region(at.x - 1, at.y, 2, at.height)
            least, other = _DETAIL_WIDTH, _LIST_WIDTH
            return split_of("beside", at, grip, self.size.width, least=least, other_least=other, sideways=True)
        grip = Region(at.x, at.y, at.width, 1)
        return split_of("detail", at, grip, self._room, least=DETAIL_LEAST, other_least=self._others)


def bindings(place: Place) -> list[Binding]:
    """The key bindings of a place. Launch keys carry their key to the action."""
    bound: list[Binding] = []
    for action in ACTIONS:
        if place in action.places:
            for key in action.keys:
                call = f"app.launch({key!r})" if action.name == "launch" else action.call
                bound.append(Binding(key, call, action.label, show=False))
    return bound


class SnapshotScreen(RunsScreen, inherit_bindings=False):
    """A new snapshot draws the screen; `redraw` draws it again when something beside the snapshot changed."""

    AUTO_FOCUS = ""
    _app_context: AppContext

    snapshot: reactive[FleetSnapshot | None] = reactive(None, init=False, repaint=False)
    _redraw_due = False
    drawn = False
    """Whether it has been drawn in the terminal's size: what would be painted before is a screen of empty frames."""

    def watch_snapshot(self) -> None:
        """Everything is drawn from the newest snapshot; widgets repaint what changed."""
        self.redraw()

    @on(FilterBar.GivenUp)
    def _filter_given_up(self, message: FilterBar.GivenUp) -> None:
        self._app_context.toast(
            f"searching for {message.words} takes too long, so nothing is filtered: make it simpler", "warning"
        )

    @on(SplitContainer.Moved)
    def _border_moved(self) -> None:
        self.redraw()

    def on_resize(self) -> None:
        """Another size is another picture."""
        self.redraw_later()

    def redraw_later(self) -> None:
        """Draw once the layout is settled: once, however many ask for it until then."""
        if not self._redraw_due:
            self._redraw_due = True
            self.call_after_refresh(self._redraw_now)

    def _redraw_now(self) -> None:
        self._redraw_due = False
        self.redraw()
        if not (self.drawn or self._redraw_due) and self.size.width:
            self.drawn = True
            self.refresh(layout=True)

    @property
    def now(self) -> float:
        """The time of the picture in unix seconds: the snapshot's, so that one picture has one time."""
        return self.snapshot.t if self.snapshot else 0.0

    def redraw(self) -> None:
        """Draw what is shown."""

    def draw_footer(self) -> None:
        """Show the keys that fit the chosen run; presets only where they are launched."""
        context = self._app_context
        undoable = bool(context.undoable())
        self.query_one(Footer).update(
            hints(
                self.PLACE, context.presets, self.chosen(), self.finding(), readonly=context.readonly, undoable=undoable
            )
        )

    def chosen(self) -> RunView | None:
        """The run that actions on one run apply to."""
        return None

    def finding(self) -> Finding | None:
        """The finding that actions on one finding apply to: the chosen run's worst open one."""
        one = self.chosen()
        return next(iter(open_findings(one)), None) if one else None

    def targets(self) -> tuple[RunView, ...]:
        """The runs that actions on several runs apply to."""
        one = self.chosen()
        return (one,) if one else ()
