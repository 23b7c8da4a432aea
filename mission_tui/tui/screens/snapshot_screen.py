"""What the two screens that show runs have in common: the snapshot they show, and the runs that actions apply to."""

from __future__ import annotations

from textual import on
from textual.binding import Binding
from textual.reactive import reactive

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView
from mission_tui.tui.actions import ACTIONS, Place
from mission_tui.tui.state.app_context import AppContext, RunsScreen
from mission_tui.tui.state.run_status import open_findings
from mission_tui.tui.widgets.filter_bar import FilterBar
from mission_tui.tui.widgets.footer import Footer, hints
from mission_tui.tui.widgets.split_container import SplitContainer


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
