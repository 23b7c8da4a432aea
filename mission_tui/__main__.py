"""`python -m mission_tui` and the `mission-tui` command: both are the command line of `mission_tui.cli`."""

from __future__ import annotations

import sys

from mission_tui.cli.root import main as command_line

__all__ = ["main"]


def main() -> None:
    """Run the command line and end the process with its exit code."""
    sys.exit(command_line())


if __name__ == "__main__":
    main()
