"""What failed in `make test` is tried once more, alone, where that says something; what needed it is kept in a list.

Real processes are waited for, and a neighbour may take the core that one needs. A retry must not hide anything: it
happens only when every collected test ran and at most five failed, and never for a test that waits for nobody, nor
for one that needed it in one of the last nine sessions too. As a plugin this module writes down what a session did; run
as a program after each session it decides by that, retries, and remembers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct, field

__all__ = ["FLAKY", "HISTORY", "MOST", "Session", "main", "why_not"]

MOST = 5
PURE = (
    "tests/fleet/",
    "tests/present/",
    "tests/records/",
    "tests/ipc/test_framing.py",
    "tests/ipc/test_snapshot_lines.py",
)
"""Tests that start nothing and wait for nothing: what fails there fails again, or for a reason worth knowing."""

CERTAIN = {"property", "simulated"}
"""Marks of those that do so wherever they stand."""

SESSION = Path(".pytest_cache", "session.json")
FLAKY = Path("build", "flaky.txt")
"""What passed only alone in the newest session."""

HISTORY = Path("build", "sessions.jsonl")
"""The last sessions, a line each; `TEST_HISTORY` names another file, for checkouts that are made anew each time."""

REMEMBERED = 10
PARTS = {
    "Slurm": "tests/slurm/",
    "Ray": "tests/ray/",
    "several boxes over sshd": "tests/hosts/",
    "a browser": "tests/web/",
    "terminals": "tests/e2e/test_terminal.py",
}
"""What needs an engine or a program of its own: whether those tests ran is said after each session."""


class Session(Struct):
    """What a session of pytest did. Tests are named by their nodes; `certain` are those that a retry cannot excuse."""

    collected: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    certain: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Modules that could not be collected, and how the session was ended before its time."""


# The plugin.

_session: dict[str, dict[str, None]] = {name: {} for name in Session.__struct_fields__}


def _say(kind: str, *nodes: str) -> None:
    _session[kind].update(dict.fromkeys(nodes))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Of a session without workers."""
    _say("collected", *(item.nodeid for item in session.items))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(ids: Sequence[str]) -> None:
    """Of one worker; all have collected the same."""
    _say("collected", *ids)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A module that cannot be collected has tests that nobody counted."""
    if report.failed:
        _say("broken", report.nodeid or "the collection")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test that failed in any phase; the report of a worker that crashed has a phase of its own."""
    _say("ran", report.nodeid)
    if report.failed:
        _say("failed", report.nodeid)
        if report.nodeid.startswith(PURE) or not CERTAIN.isdisjoint(report.keywords):
            _say("certain", report.nodeid)
    elif report.skipped:
        _say("skipped", report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write it down, in the process that other ones report to."""
    if hasattr(session.config, "workerinput"):
        return
    if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        _say("broken", f"pytest ended with {int(exitstatus)}")
    path = session.config.rootpath / SESSION
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({kind: list(nodes) for kind, nodes in _session.items()}), encoding="utf-8")


# The program.


class Past(Struct):
    """A session before this one: when it ended, and which tests passed only alone."""

    t: str
    flaky: list[str] = field(default_factory=list)


def why_not(session: Session | None, before: Sequence[Past] = ()) -> str:
    """Why what failed is not tried again; empty when it is, and when nothing failed."""
    if session is None:
        return "pytest did not come to its end"
    if session.broken:
        return f"not every test was collected, or run: {', '.join(session.broken)}"
    if missing := sorted(set(session.collected) - set(session.ran)):
        return f"{len(missing)} of {len(session.collected)} tests did not run, {missing[0]} among them"
    if session.certain:
        return f"what starts and waits for nothing does not fail by chance: {', '.join(session.certain)}"
    if len(session.failed) > MOST:
        return f"{len(session.failed)} tests failed; more than {MOST} are no chance"
    for past in before:
        if again := sorted({*past.flaky} & {*session.failed}):
            return f"a second time in {REMEMBERED} sessions is no chance, {past.t} was the first: {', '.join(again)}"
    return ""


def parts_of(session: Session) -> list[str]:
    """A line for each of `PARTS` of which something was collected: how many of its tests ran, failed, were skipped."""
    lines = []
    for name, folder in PARTS.items():
        collected, failed, skipped = (
            sum(node.startswith(folder) for node in nodes)
            for nodes in (session.collected, session.failed, session.skipped)
        )
        if collected:
            lines.append(f"{name}: {collected - skipped} of {collected} tests ran, {failed} failed, {skipped} skipped")
    return lines


def _read(root: Path) -> Session | None:
    try:
        return msgspec.json.decode((root / SESSION).read_bytes(), type=Session)
    except (OSError, ValueError):
        return None


def _retry(root: Path, nodes: list[str], words: Sequence[str]) -> bool:
    """Whether each of them passes when they run alone, one after the other."""
    (root / SESSION).unlink(missing_ok=True)
    done = subprocess.run([sys.executable, "-m", "pytest", *words, *nodes], cwd=root)
    again = _read(root)
    return done.returncode == 0 and again is not None and set(again.ran) - {*again.failed, *again.skipped} >= set(nodes)


def _history(root: Path) -> Path:
    named = os.environ.get("TEST_HISTORY")
    return Path(named) if named else root / HISTORY


def _sessions_before(path: Path) -> list[Past]:
    """The last nine; a file that is no history counts for none."""
    try:
        lines = path.read_bytes().splitlines()[1 - REMEMBERED :]
        return [msgspec.json.decode(line, type=Past) for line in lines]
    except (OSError, ValueError):
        return []


def _remember(root: Path, before: list[Past], flaky: list[str]) -> None:
    past = [*before, Past(time.strftime("%Y-%m-%d %H:%M", time.gmtime()), flaky)]
    path = _history(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in past))
    listed = root / FLAKY
    listed.parent.mkdir(exist_ok=True)
    listed.write_text("".join(f"{node}\n" for node in flaky), encoding="utf-8")


def main(words: Sequence[str], root: Path) -> int:
    """Try again what failed in the session before, with pytest's `words`; 0 when all of it passes now."""
    session, before = _read(root), _sessions_before(_history(root))
    for line in parts_of(session) if session is not None else ():
        print(line, file=sys.stderr)
    reason = why_not(session, before)
    if session is None or reason:
        print(f"nothing is tried again: {reason}", file=sys.stderr)
        return 1
    if session.failed:
        print(f"tried again, alone: {', '.join(session.failed)}", file=sys.stderr, flush=True)
        if not _retry(root, session.failed, words):
            return 1
        print(f"passed only alone, and kept in {FLAKY}: {', '.join(session.failed)}", file=sys.stderr)
    _remember(root, before, session.failed)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path.cwd()))
