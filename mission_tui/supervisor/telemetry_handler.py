"""The telemetry handler: hello, heartbeat, phase and new rows of each trainer, taken into the store.

A trainer is believed only about the run and attempt whose nonce it knows. Losing its link changes nothing but what is
fresh on the screen. To the late env workers that it names, their state and place in the kernel are added.
"""

from __future__ import annotations

from msgspec import structs

from mission_tui.fleet.events import processes
from mission_tui.fleet.events.journal import RunPaused, RunResumed
from mission_tui.fleet.history.run import not_taken
from mission_tui.fleet.text import clean
from mission_tui.ipc import telemetry_messages
from mission_tui.procfs import wait_channel
from mission_tui.supervisor.ending.ladder import stop_gracefully
from mission_tui.supervisor.host.process_files import read_state
from mission_tui.supervisor.lifecycle.attempts import show_pids
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun, OrderLink
from mission_tui.supervisor.watching.finding_actions import keep_last_good, react_to_due
from mission_tui.supervisor.watching.metrics_feed import on_rows_written, read_news, record_duty_failure

_PLACE_CHARS = 40


class TelemetryHandler:
    """The three callbacks of the telemetry plane."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def admit(self, link: OrderLink) -> bool:
        """Whether the trainer is the one that was launched. What it was asked before it came is said again."""
        import hmac  # with OpenSSL: a start does not wait for it

        hello = link.hello
        run = self._core.live.get(hello.run)
        if run is None or not run.nonce or run.attempt != hello.attempt:
            return False
        if not hmac.compare_digest(run.nonce.encode(), hello.nonce.encode()):
            return False
        run.connected(link)
        self._core.apply(run.id, processes.LinkSeen(connected=True))
        show_pids(self._core, run)
        asked = self._core.store.run(run.id).journal.asked
        if asked & {"stop", "park"}:
            stop_gracefully(self._core, run)
        elif run.wants_pause:
            link.send(telemetry_messages.Order("pause"))
        for event in not_taken(self._core.store.run(run.id)):
            link.send(telemetry_messages.Order("set", number=event.seq, assignments=event.assignments))
        react_to_due(self._core, run)
        keep_last_good(self._core, run)
        return True

    def receive(self, link: OrderLink, message: telemetry_messages.TelemetryMessage) -> None:
        """Take in what an admitted trainer says. A run that has ended here has nothing more to say."""
        run = self._core.live.get(link.hello.run)
        if run is None or run.link is not link:
            return
        match message:
            case telemetry_messages.PhaseEntered():
                self._phase(run, message)
            case telemetry_messages.Heartbeat(t=t, workers=workers, env_workers=env_workers):
                run.workers_seen(workers)
                self._core.apply_quietly(run.id, processes.HeartbeatSeen(t))
                self._core.apply_quietly(
                    run.id,
                    processes.WorkersSeen(with_process_state(env_workers) if run.launcher.can.here else env_workers),
                )
            case telemetry_messages.RowsWritten(seq=seq):
                on_rows_written(self._core, run, seq)
            case telemetry_messages.TrainerDutyFailed(duty=duty, why=why, number=number):
                record_duty_failure(self._core, run, duty, why, number)
            case telemetry_messages.CheckpointAnswered():
                # First the news: a client that gets this answer and asks for the run must see the checkpoint there.
                read_news(self._core, run)
                run.checkpoint_answered(message)
            case telemetry_messages.TrainerHello():
                raise AssertionError("the server lets only one hello through")

    def disconnected(self, link: OrderLink) -> None:
        """The connection ended."""
        run = self._core.live.get(link.hello.run)
        if run is not None and run.link is link:
            run.disconnected()
            self._core.apply_quietly(run.id, processes.WorkersSeen(None))
            self._core.apply(run.id, processes.LinkSeen(connected=False))

    def _phase(self, run: LiveRun, said: telemetry_messages.PhaseEntered) -> None:
        self._core.apply(run.id, processes.PhaseSeen(said.phase, said.t))
        was_paused = self._core.store.run(run.id).journal.paused
        if said.phase == "paused" and not was_paused:
            read_news(self._core, run)
            # Said again after a lost link: the pause began when the trainer says it did, and was no silence since.
            self._core.record_observed(run, lambda seq, t: RunPaused(seq, min(t, said.t), run.attempt))
        elif said.phase != "paused" and was_paused:
            self._core.record_observed(run, lambda seq, t: RunResumed(seq, t, run.attempt))


def with_process_state(said: processes.EnvWorkers | None) -> processes.EnvWorkers | None:
    """`said`, with a look at each late process. Costs nothing where none is late."""
    if said is None or not said.late:
        return said
    return structs.replace(said, late=tuple(map(_seen, said.late[: processes.MOST_LATE])))


def _seen(late: processes.LateWorker) -> processes.LateWorker:
    state = read_state(late.pid) or "Z"
    return structs.replace(late, state=state, waits_in=_place(late.pid) if state in "DS" else "")


def _place(pid: int) -> str:
    """The kernel function that it waits in; empty where the kernel keeps that to itself."""
    name = wait_channel(pid)
    return "" if name == "0" else clean(name, _PLACE_CHARS)
