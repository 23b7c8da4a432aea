"""`python -m mission_tui` and the `mission-tui` command: both are the command line of `mission_tui.cli`.

A call without a word is the screen, which comes up a tenth sooner without loading what reads words.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import TracebackType

# Until the command line can answer a Ctrl-C itself, the process ends at once, and not in the traceback of an import.
# Whoever ignores it, as a shell lets its background jobs do, goes on ignoring it.
_LATER = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if _LATER:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


_COMPLETING = "_MISSION_TUI_COMPLETE"
"""Set by a shell that asks click for completions; the call itself has no words then."""

_UNAVAILABLE = 69
_LINUX_ALONE = (
    "mission-tui runs on Linux, and this is {}: it reads /proc and holds processes by pidfds. Run it on Linux, "
    "in WSL2 or in a Linux container; its screen comes over SSH, or with `mission-tui serve` into a browser"
)
_LOADED_OBJECTS = 100_000
"""More than any verb loads, which is no garbage: before that many there is nothing to collect."""


def _say_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print it cleaned: an error that was not foreseen may quote text of other people."""
    from mission_tui.cli.terminal_output import print_traceback

    print_traceback(kind, error, trace)


def main() -> None:
    """Run the command line and end the process with its exit code."""
    if sys.platform != "linux":
        print(_LINUX_ALONE.format(sys.platform), file=sys.stderr)  # noqa: T201 - nothing of ours is loaded yet
        sys.exit(_UNAVAILABLE)
    sys.excepthook = _say_traceback
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the shell (`>&-`): the next thing opened would get its number
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - a Path costs more; for the whole process
    if len(sys.argv) == 1 and _COMPLETING not in os.environ:
        gc.disable()  # what is loaded is no garbage; the screen's door says for how long
        from mission_tui.cli.screen import main as answer
    else:
        gc.set_threshold(_LOADED_OBJECTS, 10, 10)
        from mission_tui.cli.root import main as answer
    if _LATER:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(answer())


if __name__ == "__main__":
    main()
