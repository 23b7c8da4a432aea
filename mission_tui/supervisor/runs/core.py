"""What acts on runs is handed this: the runs, and what starting, watching and ending them takes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from mission_tui.errors import UsageError
from mission_tui.fence import fence_document
from mission_tui.fleet.specs.spec import LAUNCHERS, Spec
from mission_tui.records.atomic import StorageError, write_atomic, write_json
from mission_tui.records.runs.attempt import Handle, LaunchOrder
from mission_tui.records.runs.seal import Sealed, Seals, check_seal
from mission_tui.supervisor.host.identity import Exits
from mission_tui.supervisor.host.machine import HostSampler
from mission_tui.supervisor.launchers import Launcher
from mission_tui.supervisor.launchers.provenance import ProvenanceWatch
from mission_tui.supervisor.runs.clock_steps import ClockSteps
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.machine_state import MachineState
from mission_tui.supervisor.runs.registry import Runs, hold_reserve
from mission_tui.supervisor.runs.variables import Variables

ON_REQUEST = "asked to"
"""Why this process leaves where a person asked for that."""


class FleetReading:
    """How far the start is: `unread` directories are still being read, and `whole` is set once none is."""

    def __init__(self) -> None:
        self.unread = 0
        self.whole = asyncio.Event()
        self.whole.set()

    def expect(self, directories: int) -> None:
        """So many run directories are being read."""
        self.unread = directories

    def read_one(self) -> None:
        """One of them is known."""
        self.unread = max(0, self.unread - 1)


class Core(Runs):
    """The runs, and what starting, watching and ending them takes: launchers by name, their variables, and the machine.

    What needs only runs and their journals takes `Runs`, what needs only meters takes `MachineState`; what may begin or
    end an attempt takes all of it. One request at a time is `adopting` runs. `unkillable` are processes that even
    SIGKILL does not end, by run. `evaluated` have results of `evaluate` that nobody has passed on yet. `orphaned`:
    processes of a dead run may be left, and were not searched for yet.
    """

    def __init__(self, root: Path, launchers: Mapping[str, Launcher]) -> None:
        reserve, host = hold_reserve(root), HostSampler(root)
        super().__init__(root, reserve, host.sample("", disk_full=reserve.needed))
        self.machine = MachineState(host, reserve, self.duties, self.store)
        self.launchers = launchers
        self.exits = Exits()
        self.seals = Seals.of(os.environ)
        self.variables = Variables(self, self.seals)
        self.provenance = ProvenanceWatch()
        self.provenance.failed = self.fail_for
        self.clock_steps = ClockSteps()
        self.reading = FleetReading()
        self.adopting = asyncio.Lock()
        self.unkillable: dict[str, tuple[int, ...]] = {}
        self.evaluated: set[str] = set()
        self.orphaned = True
        self.leaving: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def forget(self, run_id: str) -> None:
        """Know nothing more of a run whose directory was removed."""
        super().forget(run_id)
        self.variables.forget(run_id)

    def request_exit(self, why: str) -> None:
        """Have this process end in order."""
        if not self.leaving.done():
            self.leaving.set_result(why)

    def must_be_kept(self, run_id: str, attempt: int) -> bool:
        """Whether nothing of the attempt may be cleaned up: it lives, or is not ours. May be asked from any thread.

        A directory that is gone is nobody's: what its processes prove themselves is all there is.
        """
        if self.is_live(run_id, attempt):
            return True
        run = self.run_dir(run_id)
        return os.path.lexists(run.path) and bool(self.seals.check(run, attempt).foreign)

    def launcher_for(self, spec: Spec | None, handle: Handle | None = None) -> Launcher:
        """The one that carries out attempts of `spec`, or has the one that `handle` names; this machine's for a spec
        that cannot be read. Raises `UsageError` for one that this supervisor does not have.
        """
        name = handle.launcher if handle is not None else LAUNCHERS[0] if spec is None else spec.run.launcher
        if name not in self.launchers:
            has = ", ".join(self.launchers)
            raise UsageError(f"its launcher '{name}' is not known to this supervisor, which has {has}")
        return self.launchers[name]

    def is_free(self, run_id: str) -> bool:
        """Whether no process or job of any attempt owns the run."""
        return self.launcher_for(self.store.run(run_id).spec).is_free(self.run_dir(run_id))

    def prepare_launch(self) -> None:
        """Have every launcher ready: a client watches, and a launch may come soon."""
        for launcher in self.launchers.values():
            launcher.prepare()

    def submit(self, run: LiveRun, order: LaunchOrder) -> None:
        """Have the run's launcher carry the written order out. Raises `MissionError`, also for an order that is not the
        one that was sealed. A trainer of an earlier attempt that still lives somewhere is fenced off first.
        """
        sealed = self.seals.check(run.dir, order.attempt)
        if sealed.foreign:
            raise UsageError(f"attempt {order.attempt} of {run.id} is not started: {sealed.foreign}")
        if order.attempt > 1:
            write_atomic(run.dir.fence, fence_document(order.attempt, order.nonce))
        handle = run.launcher.submit(run.dir, order, sealed.digest)
        run.handed_over(handle)
        try:
            write_json(run.dir.attempt(order.attempt).handle, handle)
        except StorageError as error:
            # It has begun: whoever comes later looks for it without.
            self.fail_for(run.id, "writing its handle", str(error))

    def fence_off(self, run: LiveRun) -> None:
        """See that a trainer of the run that still lives somewhere, unseen, ends itself and writes nothing more: its
        engine has lost sight of it, and what is shown as over must not train. A further attempt names itself there.
        """
        try:
            write_atomic(run.dir.fence, fence_document(run.attempt + 1, ""))
        except StorageError as error:
            self.fail_for(run.id, "fencing it off", str(error))

    def check_ours(self, run_id: str, verb: str, *, starts: bool) -> None:
        """Raise `UsageError` for a run that is foreign. Of one that `verb` `starts` something of, the seal is looked at
        anew: order and specs must be as they were when it was launched. What lives and is ours can always be ended.
        """
        if run_id not in self.live and not os.path.lexists(self.run_dir(run_id).path):
            # It is listed until the next look at the runs root, and without its files it would pass for foreign.
            name = self.store.view(run_id).name
            raise UsageError(f"cannot {verb} {name}: its folder {self.run_dir(run_id).path} was removed or moved away")
        self.fetch(run_id)
        journal = self.store.run(run_id).journal
        sealed = Sealed(journal.foreign)
        if starts and not journal.foreign:
            sealed = self.seals.check(self.run_dir(run_id), max(1, journal.attempt))
        check_seal(sealed, verb, journal.name)
