"""Watching a run's policy in the tab `watch`: what its keys do, when there is something to play, and what is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from mission_tui.errors import UsageError
from mission_tui.fleet.commands import refusal
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.views.episode_picture import Canvas
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import CheckpointView
from mission_tui.tui.screens.questions import ask_line
from mission_tui.tui.sections.watch import Shown
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.player_feed import PlayerFeed
from mission_tui.tui.state.run_data import RunData
from mission_tui.tui.widgets.player import Player

PlayAct = Literal["hold", "step", "faster", "slower", "next", "seed", "older", "newer", "oldest", "newest"]
_TOP_SEED = 2**32 - 1


class RunPlayer:
    """One for each screen of a run. `canvas` is how large a picture may be now; None while nobody could see one."""

    def __init__(
        self, app_context: AppContext, run: str, widget: Callable[[], Player], canvas: Callable[[], Canvas | None]
    ) -> None:
        self._app_context, self._widget = app_context, widget
        self.feed = PlayerFeed(app_context, run, canvas, self._draw)
        self._view: RunView | None = None
        self._data: RunData | None = None
        self._against = ""

    def update(self, view: RunView, data: RunData) -> None:
        """Show the newest of the run, and play if it can be played."""
        self._view, self._data = view, data
        self._against = self._objection(view)
        if self._against:
            self.feed.close()
        elif not self.feed.open:
            self.feed.start()
        self.feed.wake()
        self._draw()

    def close(self) -> None:
        """The tab is left."""
        self.feed.close()

    def act(self, what: PlayAct) -> None:
        """Carry out a key of the tab."""
        if self._against:
            return
        feed = self.feed
        match what:
            case "hold":
                feed.hold()
            case "step":
                feed.step()
            case "faster":
                feed.turn(1)
            case "slower":
                feed.turn(-1)
            case "next" if feed.trouble:
                feed.again()
            case "next":
                feed.next_episode()
            case "seed":
                self._app_context.carry_out(self._type_seed())
            case _:
                self._slide(what)

    def _slide(self, what: PlayAct) -> None:
        names = [row.name for row in self._checkpoints()]
        by = {"older": -1, "newer": 1, "oldest": -len(names), "newest": len(names)}[what]
        if (taken := self.feed.beside(names, by)) is not None:
            self.feed.take(taken)

    async def _type_seed(self) -> None:
        async def begin(said: str) -> None:
            if not said.isascii() or not said.isdigit() or int(said) > _TOP_SEED:
                raise UsageError(f"a seed is a whole number from 0 to {_TOP_SEED}, not '{said}'")
            self.feed.reset(int(said))

        about = "The episode of this seed, as `mission-tui evaluate --episodes 1 --seed` plays it."
        await ask_line(self._app_context, "Seed of the episode", about, "plays it", "10000", begin)

    def _objection(self, view: RunView) -> str:
        """Why nothing is played, in words; empty when something is."""
        context = self._app_context
        if context.snapshot is not None and context.snapshot.replay is not None:
            return "a replay shows the past and starts nothing, so no policy is played here: H goes to now"
        if context.readonly:
            return "this screen is read-only and starts no process, so no policy is played here"
        if (against := refusal(view.can, "evaluate")) is not None:
            return f"nothing to watch: {against}"
        if view.last_checkpoint is None:
            wait = "nothing was saved" if view.state in OVER else "C saves one at the next update, and it plays then"
            return f"no checkpoint yet to be played: {wait}"
        return ""

    def _checkpoints(self) -> tuple[CheckpointView, ...]:
        details = None if self._data is None else self._data.details
        if details is None:
            return ()
        return tuple(sorted(details.checkpoints, key=lambda row: (row.timesteps, row.name)))

    def _draw(self) -> None:
        feed = self.feed
        said, alarming = self._against, False
        if feed.trouble:
            said, alarming = f"{feed.trouble}  (Enter tries again)", True
        elif not said and feed.frame is None:
            said = "starting a process that plays the newest checkpoint; with torch to load this takes some seconds…"
        state = f"{feed.pace.word}   Space holds"
        if feed.held:
            state = "held: Space goes on, . one step"
            if feed.unattended:
                state = "held after 30 min without a key: Space"
        history = None if self._data is None else self._data.history.get(RETURN)
        frame = None if self._against else feed.frame
        self._widget().update(Shown(frame, feed.checkpoint, self._checkpoints(), history, state, said, alarming))
