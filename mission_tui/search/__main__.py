"""`python -m mission_tui.search`: the driver of a search, as its run starts it. The plan is in the run's spec.

It exits 0 when the search is over and when it was asked to stop: what is left is in the study, for a resume.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mission_tui import report
from mission_tui.errors import EX_USAGE, MissionError
from mission_tui.records.runs.attempt import read_sealed_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.search.driver import Driver, StopAskedError, say
from mission_tui.search.plan import plan_of
from mission_tui.search.study import check_installed

_MARKERS = ("RUN", "RUN_DIR", "ATTEMPT", "NONCE", "TELEMETRY", "MAILBOX", "SEED")


def main() -> int:
    """Search. The exit code is that of the error that ended it, if any did."""
    if "MISSION_TUI_RUN_DIR" not in os.environ:
        say("this is the driver of a search; begin one with `mission-tui search`")
        return EX_USAGE
    run, attempt = RunDir(Path(os.environ["MISSION_TUI_RUN_DIR"])), int(os.environ["MISSION_TUI_ATTEMPT"])
    report.should_stop()  # which finds its socket by the variables that go next
    for name in _MARKERS:  # what is started from here, a supervisor for one, is no process of this run
        os.environ.pop(f"MISSION_TUI_{name}", None)
    try:
        check_installed()
        spec = read_sealed_spec(run, attempt, os.environ)
        plan, group = plan_of(spec, str(run.spec))
        Driver(run, plan, group, plan.parameters).work()
    except StopAskedError:
        say("stopped; `mission-tui search --continue` goes on")
        return 0
    except MissionError as error:
        say(f"error: {error}")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
