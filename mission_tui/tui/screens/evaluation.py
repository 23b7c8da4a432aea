"""Playing episodes with a run's newest checkpoint: progress, then the result with its interval."""

from __future__ import annotations

from typing import Any

from textual.strip import Strip

from mission_tui.errors import MissionError
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Evaluated, Progress
from mission_tui.ipc.requests import Evaluate
from mission_tui.present import numbers
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.sparkline import bar
from mission_tui.tui.drawing.strips import Part, line
from mission_tui.tui.screens.sheet import Sheet, still_open
from mission_tui.tui.state.app_context import AppContext

_EPISODES = 100


class EvaluationScreen(Sheet[None]):
    """Closing it does not end the evaluation; the result is then told in a toast."""

    def __init__(self, app_context: AppContext, view: RunView) -> None:
        super().__init__(f"Evaluate {view.name} from {view.last_checkpoint}", "Esc goes back; the evaluation goes on")
        self._app_context = app_context
        self._view = view
        self._progress = Progress(re=0, done=0, total=_EPISODES)
        self._began_t = app_context.clock()
        self._result: dict[str, Any] | None = None
        self._trouble: str | None = None

    def on_mount(self) -> None:
        """Begin."""
        self._app_context.start(self._play())

    async def _play(self) -> None:
        run, shown, environ = self._view.id, self._view.name, self._app_context.origin["environ"]
        try:
            async for reply in self._app_context.stream(
                lambda id_: Evaluate(id=id_, run=run, episodes=_EPISODES, environ=environ)
            ):
                if isinstance(reply, Progress):
                    self._progress = reply
                elif isinstance(reply, Evaluated):
                    self._result = reply.result
                if still_open(self):
                    self.refill()
        except MissionError as error:
            self._trouble = str(error)
        if not still_open(self):
            self._app_context.toast(
                f"{shown}: {self._trouble or _sentence(self._result)}", "error" if self._trouble else "information"
            )
            return
        self.hint("Esc back")
        self.refill()

    def lines(self, width: int) -> list[Strip]:
        """A bar with time left, or the result, or why there is none."""
        if self._trouble is not None:
            return [line([(self._trouble, colours.ALARM)], width)]
        if self._result is not None:
            return [line(parts, width) for parts in result_rows(self._result)]
        done, total = self._progress.done, max(1, self._progress.total)
        elapsed_s = self._app_context.clock() - self._began_t
        left = numbers.duration(elapsed_s * (total - done) / done) if done else numbers.DASH
        tail = f" {done}/{total} episodes  {left} left"
        filled, rest = bar(done / total, width - len(tail))
        return [line([(filled, colours.LIVE), (rest, colours.TRACK), (tail, colours.INK)], width)]


def result_rows(result: dict[str, Any]) -> list[list[Part]]:
    """The result as label and value: mean with spread and interval, length, share won, outcomes."""
    interval = result.get("ci95")
    rows: list[tuple[str, str]] = [
        ("return", f"{_reading(result.get('mean'))} ± {_reading(result.get('std'))}"),
        ("95 % of mean", " to ".join(map(_reading, interval)) if interval else numbers.DASH),
        (
            "episodes",
            f"{result.get('episodes', numbers.DASH)}, length {_reading((result.get('lengths') or {}).get('mean'))}",
        ),
    ]
    if isinstance(result.get("won"), float | int):
        rows.append(("won", numbers.percent(result["won"])))
    outcomes = result.get("outcomes") or {}
    if outcomes:
        rows.append(
            ("outcomes", "  ".join(f"{name} {n}" for name, n in sorted(outcomes.items(), key=lambda pair: -pair[1])))
        )
    return [[(f"{label:<14}", colours.QUIET), (value, colours.INK)] for label, value in rows]


def _sentence(result: dict[str, Any] | None) -> str:
    if result is None:
        return "the evaluation ended without a result"
    spread = f"{_reading(result.get('mean'))} ± {_reading(result.get('std'))}"
    return f"evaluated: {spread} over {result.get('episodes')} episodes"


def _reading(value: object) -> str:
    return numbers.reading(value) if isinstance(value, float | int) else str(value or numbers.DASH)
