"""Watches a runs root with real processes while it is under fire, and says which of the seven invariants was broken.

What a client was told is remembered here; everything else is read from files and from the kernel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from mission_tui.fleet.events.journal import Asked, AttemptEnded, AttemptStarting, FleetEvent
from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Resume
from mission_tui.records.jsonl import Tail
from mission_tui.records.runs.attempt import read_launch
from tests.faults.campaign.part import Violation
from tests.supervisor.conftest import REPOSITORY, STUB, Lab, living, opened_lab
from tests.waiting import until

__all__ = ["NOTHING_LEFT_S", "Witness", "watched"]

NOTHING_LEFT_S = 10.0
LEDGER = Path(__file__).parent / "ledger"
SLEEPER = "import time\nwhile True: time.sleep(60)"


class Witness:
    """One runs root: acts on it, and remembers what was acknowledged. `strangers` are innocent processes beside it."""

    def __init__(self, lab: Lab, ledger: Path) -> None:
        self.lab = lab
        self.known: list[str] = []
        self.strangers: list[subprocess.Popen[bytes]] = []
        self._acknowledged: Counter[tuple[str, str]] = Counter()
        self._journals: dict[str, tuple[Tail, list[FleetEvent]]] = {}
        self._metrics: dict[str, tuple[Tail, int]] = {}
        self._ledger = ledger
        self._ledger_read = 0

    def launch(self, count: int, **stub: str) -> list[str]:
        """Launch runs of the stub, and know them from the moment they were acknowledged."""
        runs = self.lab.launch(count, spec=None, name=None, **stub)
        self.known += runs
        return runs

    def act(self, verb: str, run: str) -> None:
        """Ask for `verb`; what was accepted must be on record for ever. Raises `MissionError` when refused."""
        if run in self.lab.act(verb, run).runs:
            self._acknowledged[run, verb] += 1

    def resume(self, run: str) -> None:
        """Let a paused run, or one that has ended, go on. Raises `MissionError` when refused."""
        reply = self.lab.ask(lambda id_: Resume(id=id_, run=run, accept=True))
        if isinstance(reply, Accepted):
            self._acknowledged[run, "resume"] += 1

    def add_strangers(self, run: str) -> None:
        """A process that is nobody's, and one that carries the marker of `run` in a session of its own."""
        order = read_launch(self.lab.dir(run).attempt(1).launch)
        assert order is not None
        for environ in (None, order.env | {"MISSION_TUI_RUN_DIR": str(self.lab.dir(run).path)}):
            command = [sys.executable, "-S", "-c", SLEEPER]
            self.strangers.append(subprocess.Popen(command, env=environ, start_new_session=True))

    def trainers(self) -> Counter[str]:
        """How many living trainers each run has."""
        found: Counter[str] = Counter()
        for process in self.lab.processes():
            try:
                words = process.cmdline()
            except psutil.Error:
                continue
            if str(STUB) in words:
                found[Path(words[words.index(str(STUB)) + 1]).name] += 1
        return found

    def wrong(self) -> Iterator[Violation]:
        """What of the invariants does not hold now."""
        yield from (f"{count} trainers of {run} at once" for run, count in self.trainers().items() if count > 1)
        snapshot = self.lab.snapshot()
        views = {view.id: view for view in snapshot.runs}
        # A snapshot shows the newest ended runs only, and counts the others.
        unseen = snapshot.ended_total - sum(view.state == "ended" for view in snapshot.runs)
        if missing := sorted(set(self.known) - set(views))[unseen:]:
            yield f"{', '.join(missing)}: acknowledged and not known any more"
        for run in self.known:
            if run in views and views[run].state == "ended" and not (views[run].outcome and views[run].cause):
                yield f"{run} has ended without a cause"
            yield from self._journal(run)
            yield from self._rows(run)
        yield from (f"stranger {it.pid} was ended" for it in self.strangers if it.poll() is not None)
        yield from self._signals()

    def left(self, family: list[psutil.Process], what: str) -> Iterator[Violation]:
        """Whether any of `family` still lives after ten seconds."""
        try:
            until(lambda: not living(family), NOTHING_LEFT_S)
        except AssertionError:
            words = [(process.pid, process.status(), process.cmdline()[:4]) for process in living(family)]
            yield f"left ten seconds after {what}: {words}"

    def _journal(self, run: str) -> Iterator[Violation]:
        tail, events = self._journals.setdefault(run, (Tail(self.lab.dir(run).events, FleetEvent), []))
        events += tail.read()
        yield from (f"{run}: events.jsonl: {damage}" for damage in tail.damage)
        tail.damage.clear()
        if [event.seq for event in events] != list(range(1, len(events) + 1)):
            yield f"{run}: events.jsonl has a gap: {[event.seq for event in events]}"
        asked = Counter(event.verb for event in events if isinstance(event, Asked))
        begun = [event.attempt for event in events if isinstance(event, AttemptStarting)]
        ended = Counter(event.attempt for event in events if isinstance(event, AttemptEnded))
        if len(set(begun)) != len(begun):
            yield f"{run}: an attempt was started twice: {begun}"
        yield from (f"{run}: attempt {attempt} ended {many} times" for attempt, many in ended.items() if many > 1)
        for (named, verb), count in self._acknowledged.items():
            on_record = asked[verb] + (len(begun) - 1 if verb == "resume" else 0)  # type: ignore[index]
            # Asked again of a run that is ending already, an end is on record once.
            least = min(count, 1) if verb in ("stop", "kill") else count
            if named == run and on_record < least:
                yield f"{run}: {verb} was acknowledged {count} times and is on record {on_record} times"

    def _rows(self, run: str) -> Iterator[Violation]:
        tail, last = self._metrics.get(run, (Tail(self.lab.dir(run).metrics, MetricRecord), 0))
        records = tail.read()
        yield from (f"{run}: metrics.jsonl: {damage}" for damage in tail.damage)
        tail.damage.clear()
        if [record.seq for record in records] != list(range(last + 1, last + 1 + len(records))):
            yield f"{run}: metrics.jsonl has a gap after {last}"
        self._metrics[run] = tail, last + len(records)

    def _signals(self) -> Iterator[Violation]:
        if self._ledger.exists():
            with self._ledger.open(encoding="utf-8") as file:
                file.seek(self._ledger_read)
                for line in file:
                    if line.rstrip().split(" ", 3)[3] not in ("ours", "gone"):
                        yield f"a signal to a stranger: {line.rstrip()}"
                self._ledger_read = file.tell()


@contextmanager
def watched() -> Iterator[Witness]:
    """A fresh runs root with a supervisor, its ledger of signals, and nothing of it left afterwards."""
    with tempfile.TemporaryDirectory(prefix="mission-tui-faults-") as name:
        root, ledger = Path(name) / "runs", Path(name) / "signals"
        with opened_lab(root) as lab:
            lab.environ |= {
                "PYTHONPATH": f"{LEDGER}{os.pathsep}{REPOSITORY}",
                "SIGNAL_LEDGER": str(ledger),
                "SIGNAL_ROOT": str(root),
            }
            lab.start()
            witness = Witness(lab, ledger)
            try:
                yield witness
            finally:
                for stranger in witness.strangers:
                    stranger.kill()
                    stranger.wait()
