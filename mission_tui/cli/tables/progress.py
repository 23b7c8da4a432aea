"""How runs advance, on one stream: Rich progress bars on a terminal, else a plain line about every ten seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, Self, TextIO, TypeVar

from mission_tui.cli.terminal_output import Table, console_on, draw, text_column, write
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.text import clean
from mission_tui.present.numbers import DASH, count, measure, percent
from mission_tui.present.run_state import share_done, state_word, time_left

if TYPE_CHECKING:
    from types import TracebackType

    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from mission_tui.fleet.views.snapshot import RunView
    from mission_tui.ipc.replies import Progress


Answer = TypeVar("Answer")

PLAIN_EVERY_S = 10.0


class Board(Protocol):
    """Something that shows how runs advance while it is entered."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def show(self, views: tuple[RunView, ...], t: float) -> None:
        """Show `views` as of unix time `t`."""

    def print_table(self, title: str, table: Table) -> None:
        """Print `table` under `title`, above what is shown."""


def board_on(stream: TextIO) -> Board:
    """The board that suits `stream`."""
    return RichBoard(stream) if stream.isatty() else PlainBoard(stream)


def _steps(view: RunView) -> str:
    total = f"/{count(view.total_timesteps)}" if view.total_timesteps else ""
    return f"{count(view.timesteps)}{total}"


class PlainBoard:
    """For files and pipes: says each run's state when it changes, and its numbers about every ten seconds."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._said: dict[str, tuple[str, float]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, views: tuple[RunView, ...], t: float) -> None:
        now = self._clock()
        for view in views:
            state, since = self._said.get(view.id, ("", 0.0))
            if view.state != state or (view.state not in OVER and now - since >= PLAIN_EVERY_S):
                self._said[view.id] = (view.state, now)
                write(self._line(view, t), stream=self._stream)

    def print_table(self, title: str, table: Table) -> None:
        write(title, stream=self._stream)
        table.write(self._stream)

    def _line(self, view: RunView, t: float) -> str:
        words = [view.name, state_word(view), percent(share_done(view)), f"{_steps(view)} steps"]
        if view.state not in OVER:
            words += [f"{count(view.pace)} steps/s", f"ETA {time_left(view)}"]
        words.append(f"return {measure(view.metrics.get(RETURN))}")
        return "  ".join(words)


class RichBoard:
    """For terminals: a bar per run with timesteps, steps/s, return and ETA."""

    def __init__(self, stream: TextIO) -> None:
        from rich import progress

        self._progress = progress.Progress(
            text_column("{task.fields[run]}"),
            progress.BarColumn(bar_width=20),
            text_column("{task.fields[facts]}"),
            console=console_on(stream),
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, views: tuple[RunView, ...], t: float) -> None:
        for view in views:
            if view.id not in self._tasks:
                self._tasks[view.id] = self._progress.add_task("", total=None, run=view.name, facts="")
            share = share_done(view)
            self._progress.update(
                self._tasks[view.id],
                total=None if share is None else 1.0,
                completed=share or 0.0,
                facts=self._facts(view, share),
            )

    def print_table(self, title: str, table: Table) -> None:
        draw(title, self._progress.console)
        draw(table.rich(), self._progress.console)

    def _facts(self, view: RunView, share: float | None) -> str:
        left = DASH if view.state in OVER else time_left(view)
        value = measure(view.metrics.get(RETURN))
        return (
            f"{percent(share)} {state_word(view)}  {_steps(view)}  {count(view.pace)} st/s  return {value}  ETA {left}"
        )


class TaskBar:
    """One task of known size on stderr: a bar on a terminal, else a line about every ten seconds."""

    def __init__(self, what: str, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._stream = stream
        self._clock = clock
        self._said = clock()
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None
        if stream.isatty():
            from rich import progress as rich

            columns = (rich.BarColumn(), rich.TaskProgressColumn(), rich.TimeRemainingColumn())
            self._bar = rich.Progress(
                text_column("{task.description}"), *columns, console=console_on(stream), transient=True
            )

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
            self._task = self._bar.add_task(self._what, total=None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def print_line(self, line: str) -> None:
        """Print a line that stays, above the bar."""
        if self._bar is not None:
            draw(clean(line), self._bar.console)
        else:
            write(clean(line), stream=self._stream)

    def follow(self, replies: Iterable[Answer | Progress], line_of: Callable[[Progress], str] | None = None) -> Answer:
        """Show a long request's progress and return its answer; `line_of` a fact in between stays above the bar."""
        from mission_tui.ipc.replies import Progress

        for reply in replies:
            if not isinstance(reply, Progress):
                return reply
            if line_of is not None and reply.fact is not None:
                self.print_line(line_of(reply))
            self.advance(reply.done, reply.total, reply.note)
        raise AssertionError("a stream ends with an answer or an error")

    def advance(self, done: int, total: int, note: str = "") -> None:
        """The task is at `done` of `total`; `note` says more of it."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=clean(note) or self._what, completed=done, total=total)
        elif self._clock() - self._said >= PLAIN_EVERY_S:
            self._said = self._clock()
            more = f", {clean(note)}" if note and note != self._what else ""
            write(f"{self._what}: {done} of {total}{more}", stream=self._stream)
