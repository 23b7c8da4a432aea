"""The life of runs as a state machine: every verb and every death, in any order, against real processes.

After each step the run stands as the model says, also for a supervisor that was just started; in the end all seven
invariants hold and nothing is left.
"""

from __future__ import annotations

import os
import signal
from typing import Any, ClassVar

import psutil
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from mission_tui.fleet.views.snapshot import RunView
from tests.faults.witness import Witness

__all__ = ["Lifecycle"]

LIVE = ("running", "paused", "frozen")
MOST_RUNS = 3
WITHIN_S = 20.0


class Lifecycle(RuleBasedStateMachine):
    """`stands` is how each run of this example must be shown; `keeperless` are those whose keeper was killed;
    `paused_below` those that were paused before they were frozen.
    """

    witness: ClassVar[Witness]

    def __init__(self) -> None:
        super().__init__()
        self.stands: dict[str, str] = {}
        self.keeperless: set[str] = set()
        self.paused_below: set[str] = set()
        self.families: dict[str, list[psutil.Process]] = {}

    def some(self, data: Any, *states: str) -> str:
        """One of the runs that stand so."""
        return str(data.draw(st.sampled_from([run for run, state in self.stands.items() if state in states])))

    def has(self, *states: str) -> bool:
        return any(state in states for state in self.stands.values())

    @precondition(lambda self: sum(state in LIVE for state in self.stands.values()) < MOST_RUNS)
    @rule()
    def launch(self) -> None:
        (run,) = self.witness.launch(1, STUB_WORKERS="1")
        self._begun(run)

    @precondition(lambda self: self.has("running"))
    @rule(data=st.data(), verb=st.sampled_from(["pause", "freeze"]))
    def hold(self, data: Any, verb: str) -> None:
        run = self.some(data, "running")
        self.witness.act(verb, run)
        self._stands(run, {"pause": "paused", "freeze": "frozen"}[verb])

    @precondition(lambda self: self.has("paused"))
    @rule(data=st.data())
    def freeze_paused(self, data: Any) -> None:
        run = self.some(data, "paused")
        self.witness.act("freeze", run)
        self.paused_below.add(run)
        self._stands(run, "frozen")

    @precondition(lambda self: self.has("paused", "frozen"))
    @rule(data=st.data())
    def go_on(self, data: Any) -> None:
        run = self.some(data, "paused", "frozen")
        self.witness.resume(run)
        self._stands(run, "running")

    @precondition(lambda self: self.has(*LIVE))
    @rule(data=st.data(), verb=st.sampled_from(["stop", "park", "kill"]))
    def end(self, data: Any, verb: str) -> None:
        run = self.some(data, *LIVE)
        self.witness.act(verb, run)
        self._over(run, {"stop": "stopped", "park": "parked", "kill": "killed"}[verb])

    @precondition(lambda self: self.has("stopped", "parked", "killed", "failed", "lost"))
    @rule(data=st.data())
    def resume(self, data: Any) -> None:
        run = self.some(data, "stopped", "parked", "killed", "failed", "lost")
        if self.witness.lab.view(run).last_checkpoint:
            self.witness.resume(run)
            self._begun(run)

    @precondition(lambda self: self.has("running"))
    @rule(data=st.data())
    def checkpoint(self, data: Any) -> None:
        run = self.some(data, "running")
        self.witness.act("checkpoint", run)
        self.witness.lab.wait(run, lambda view: view.last_checkpoint, WITHIN_S)

    @precondition(lambda self: self.has(*LIVE))
    @rule(data=st.data())
    def trainer_dies(self, data: Any) -> None:
        run = self.some(data, *LIVE)
        pid = self.witness.lab.view(run).pids.trainer
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self._over(run, "lost" if run in self.keeperless else "failed")

    @precondition(lambda self: self.has(*LIVE))
    @rule(data=st.data())
    def keeper_dies(self, data: Any) -> None:
        run = self.some(data, *LIVE)
        pid = self.witness.lab.view(run).pids.keeper
        if run not in self.keeperless and pid is not None:
            os.kill(pid, signal.SIGKILL)
            self.keeperless.add(run)
            self.witness.lab.wait(run, lambda view: "keeperless" in view.flags, WITHIN_S)
            # The kernel lets a stopped group go on when its session loses the last parent outside of it.
            thawed = "paused" if run in self.paused_below else "running"
            self._stands(run, thawed if self.stands[run] == "frozen" else self.stands[run])

    @rule()
    def supervisor_dies(self) -> None:
        self.witness.lab.kill_supervisor()
        self.witness.lab.start()
        for run, state in self.stands.items():
            self._stands(run, state)

    def teardown(self) -> None:
        """End what lives, then look at everything."""
        for run, state in self.stands.items():
            if state in LIVE:
                self.witness.act("kill", run)
        for run, state in list(self.stands.items()):
            if state in LIVE:
                self._over(run, "killed")
        assert list(self.witness.wrong()) == []

    def _begun(self, run: str) -> None:
        self.keeperless.discard(run)
        self._stands(run, "running")
        self.families[run] = self.witness.lab.family(run)

    def _stands(self, run: str, state: str) -> None:
        def so(view: RunView) -> bool:
            if state in LIVE:
                return view.state == state and (view.connected or state == "frozen") and view.pids.trainer is not None
            return state in (view.state, view.outcome)

        self.stands[run] = state
        if state != "frozen":
            self.paused_below.discard(run)
        try:
            self.witness.lab.wait(run, so, WITHIN_S)
        except AssertionError as error:
            view = self.witness.lab.view(run)
            raise AssertionError(f"{run} should be {state} and is {view.state} {view.outcome} {view.flags}") from error

    def _over(self, run: str, state: str) -> None:
        self._stands(run, state)
        view = self.witness.lab.view(run)
        assert view.cause or view.state == "parked"
        family = self.families.pop(run)
        # Without a keeper nobody sweeps what a killed trainer leaves; `clean` names it.
        if state != "lost":
            assert list(self.witness.left(family, f"{run} was {state}")) == []
        else:
            for process in family:
                if process.is_running():
                    process.kill()
