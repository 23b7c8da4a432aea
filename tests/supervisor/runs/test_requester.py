"""Who asked: a client as the journal names it, on which terminal, and what the supervisor does by itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mission_tui.fleet.events.journal import Asked, AttemptStarting, FleetEvent, RunCreated, RunNoted
from mission_tui.ipc.requests import Act, Note
from mission_tui.records.jsonl import read_all
from mission_tui.supervisor.runs.journal import requested_by, requester, signed, word_for
from tests.supervisor.simulated_lab import SimulatedLab

PTS_3 = 136 << 8 | 3
PTS_300 = 137 << 8 | 44


@pytest.mark.parametrize(
    ("line", "terminal", "word"),
    [
        ("/v/bin/python /v/bin/mission-tui", PTS_3, "screen, pts/3"),
        ("/v/bin/python /v/bin/mission-tui --readonly --runs-dir runs replay --at 03:12", PTS_300, "screen, pts/300"),
        ("/v/bin/python /v/bin/mission-tui --runs-dir pause stop heavy", 0, "command line"),
        ("python -m mission_tui pause heavy", 0, "command line"),
        ("python /v/bin/mission-tui --runs-dir runs bridge --unless-stopped", 0, "screen elsewhere"),
        ("python -P /lib/mission_tui/__main__.py import-checkpoint x", 0, "command line"),
        ("/usr/bin/python3 sweep.py --all", PTS_3, "sweep.py, pts/3"),
        ("/usr/bin/python3 -c print(1)", 0, "python3"),
        ("/opt/job\x1b[2Jrunner now", 0, "jobrunner"),
        ("", 0, ""),
    ],
)
def test_a_client_is_named_by_what_was_typed(line: str, terminal: int, word: str) -> None:
    """Screen or command line, and on which terminal; the script where it is not ours; nothing that moves a cursor."""
    assert word_for(line.split(" "), terminal) == word


def test_only_within_a_request_somebody_asks() -> None:
    """What the supervisor does by itself has no asker, and what it merely saw gets none."""
    assert requester() == ""
    with requested_by(os.getpid()):
        assert requester() != ""
        event = signed(RunNoted(1, 2.0, "hello"))
        assert isinstance(event, RunNoted)
        assert event.asker == requester()
        seen = AttemptStarting(1, 2.0, 1)
        assert signed(seen) is seen
    assert requester() == ""


def test_a_client_that_is_gone_is_not_named() -> None:
    """Its number may belong to another process one day: an unknown name is better than a wrong one."""
    with requested_by(1 << 30):
        assert requester() == ""


def test_the_journal_says_who_asked(sim: SimulatedLab) -> None:
    """Of a launch, of a note and of a stop, and of nothing that nobody asked for."""
    me = word_for(Path("/proc/self/cmdline").read_bytes().decode().rstrip("\0").split("\0"), 0)
    (run,) = sim.launch(STUB_UPDATE_S="0.05")
    sim.wait(run, lambda view: view.update)
    sim.ask(lambda id_: Note(id=id_, run=run, text="hello"))
    sim.ask(lambda id_: Act(id=id_, verb="stop", runs=(run,)))
    sim.wait(run, lambda view: view.state == "ended")
    by = {type(event): getattr(event, "asker", None) for event in read_all(sim.dir(run).events, FleetEvent)[0]}
    for kind in (RunCreated, AttemptStarting, Asked, RunNoted):
        assert (by[kind] or "").startswith(me), kind
