"""`python -m mission_tui` and the `mission-tui` command: both are the command line of `mission_tui.cli`."""

from __future__ import annotations

import signal
import sys

# Until the command line can answer a Ctrl-C itself, the process ends at once, and not in the traceback of an import.
# Whoever ignores it, as a shell lets its background jobs do, goes on ignoring it.
_LATER = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if _LATER:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from mission_tui.cli.root import main as command_line  # noqa: E402 - what takes long is imported behind it

__all__ = ["main"]


def main() -> None:
    """Run the command line and end the process with its exit code."""
    if _LATER:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(command_line())


if __name__ == "__main__":
    main()
