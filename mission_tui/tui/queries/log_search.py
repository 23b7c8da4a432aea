"""Looking for a line further back in an output than is known of it: page after page, up to a bound for each key."""

from __future__ import annotations

from collections.abc import Callable

from mission_tui.tui.drawing import numbers
from mission_tui.tui.queries.log_tail import LogTail
from mission_tui.tui.queries.run_data import RunDataLoader
from mission_tui.tui.widgets.log_lines import LogLines

__all__ = ["LogSearch"]

_PAGE_BYTES = 1 << 18
"""What the supervisor gives at most."""
_MOST_BYTES = 4 << 20


class LogSearch:
    """`busy` while pages are asked for; meanwhile the log stays as it is, and `draw` then shows what there is."""

    def __init__(self, loader: RunDataLoader, tell: Callable[[str], None], draw: Callable[[], None]) -> None:
        self._loader, self._tell, self._draw = loader, tell, draw
        self._from = 0
        self._line = 0
        self.busy = False

    def jump(self, log: LogLines, tail: LogTail, by: int) -> None:
        """To the line before or after; one before that is not among the known ones is looked for in earlier pages."""
        why_not = log.jump(by)
        self.busy = bool(why_not) and by < 0 and tail.start > 0
        if self.busy:
            self._from, self._line = tail.start, tail.stretch.first
            self._loader.request_log("earlier", _PAGE_BYTES)
        elif why_not:
            self._tell(why_not)

    def answered(self, log: LogLines) -> None:
        """Go on unless a new line has what is wanted, or nothing is left to look at."""
        data = self._loader.data
        if not self.busy or data is None:
            return
        tail, first = data.log, data.log.stretch.first
        # The page before ended within the line that was the first one.
        new = tail.lines[: max(0, self._line - first) + 1]
        self._line = first
        far = self._from - tail.start >= _MOST_BYTES
        self.busy = not (any(log.search_pattern.among(new)) or data.trouble or far or tail.start == 0)
        if self.busy:
            self._loader.request_log("earlier", _PAGE_BYTES)
            return
        self._draw()
        if why_not := log.jump(-1):
            looked = f"in the {numbers.size(self._from - tail.start)} before"
            self._tell(f"{why_not} {looked}; < looks further back" if tail.start else why_not)

    def give_up(self) -> None:
        """The person does something else."""
        self.busy = False
