"""How an attempt ended: three processes that vanish in three ways have three different, correct causes."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mission_tui.errors import PROCESSES_LIMIT
from mission_tui.fleet.events.journal import Verb
from mission_tui.fleet.events.metrics import TrainingEnded
from mission_tui.fleet.events.outcome import Failed, Finished, Killed, Lost, Outcome, Stopped
from mission_tui.fleet.history.classify import ExitFacts, classify, never_begun

LAST = "000004096"
UNSEEN = (
    "its keeper and its trainer are gone, and how it ended is not known; `mission-tui doctor` says whether a logout "
    "from this machine ends runs, which is the usual reason"
)
FINAL = "000010240"
FAULT = (
    "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n"
    '  File "/home/ada/my_env.py", line 3 in step\n'
)


def end(
    how: Literal["finished", "stopped", "failed"],
    cause: str = "",
    failure: Literal["nan", "oom", "env"] | None = None,
    checkpoint: str | None = FINAL,
) -> TrainingEnded:
    """The trainer's last word."""
    return TrainingEnded(
        seq=9,
        attempt=1,
        update=10,
        timesteps=10_240,
        t=1.0,
        how=how,
        failure=failure,
        cause=cause,
        checkpoint=checkpoint,
    )


@pytest.mark.parametrize(
    ("facts", "asked", "outcome"),
    [
        (ExitFacts(code=0), (), Finished(None, "exit code 0")),
        (ExitFacts(code=3, last_output="a\nbad\n"), (), Failed("exit", "exit code 3: bad")),
        (ExitFacts(signal=9, oom_killed=True), (), Failed("oom", "the kernel ended it for lack of memory", signal=9)),
        (
            ExitFacts(code=3, last_output="bad\nmission-tui: following: reading x\n"),
            (),
            Failed("exit", "exit code 3: bad"),
        ),
        (ExitFacts(code=78, last_output="x"), (), Failed("exit", "exit code 78: x")),
        (ExitFacts(signal=15, asked="term"), ("stop",), Stopped(None, "stopped by you")),
        (ExitFacts(code=0, asked="term"), ("stop",), Stopped(None, "stopped by you")),
        (ExitFacts(code=1, asked="term"), ("stop",), Stopped(None, "stopped by you (exit code 1)")),
        (
            ExitFacts(code=1, asked="term"),
            (),
            Stopped(None, "terminated by a signal from outside (SIGTERM to its keeper) (exit code 1)"),
        ),
        (
            ExitFacts(signal=9, asked="quit"),
            (),
            Killed(None, "terminated by a signal from outside (SIGQUIT to its keeper)"),
        ),
        (ExitFacts(code=0), ("stop",), Stopped(None, "stopped by you")),
        (
            ExitFacts(signal=9, asked="term", escalated=True),
            ("stop",),
            Killed(None, "did not stop in time and was killed"),
        ),
        (ExitFacts(signal=9, asked="quit"), ("kill",), Killed(None, "killed by you")),
        (ExitFacts(signal=15), (), Failed("crash", "ended by SIGTERM (signal 15)", signal=15)),
        (ExitFacts(start_error="no"), (), Failed("start", "no")),
        (None, (), Lost(UNSEEN)),
    ],
)
def test_of_a_command_its_exit_alone_counts(facts: ExitFacts | None, asked: tuple[Verb, ...], outcome: Outcome) -> None:
    """0 is finished, another code or signal a failure, and whatever follows a stop within its grace has stopped."""
    assert classify(end("finished"), facts, asked, None, by_exit=True) == outcome


@pytest.mark.parametrize(
    ("said", "facts", "asked", "outcome"),
    [
        (end("finished"), ExitFacts(code=0), set(), Finished(FINAL)),
        (end("finished", "trained for 60 s"), ExitFacts(code=0), set(), Finished(FINAL, "trained for 60 s")),
        (end("stopped"), ExitFacts(code=0), {"stop"}, Stopped(FINAL)),
        (
            end("stopped"),
            ExitFacts(code=0),
            {"pause"},
            Stopped(FINAL, "terminated by a signal from outside (SIGTERM to its trainer)"),
        ),
        (
            end("stopped"),
            ExitFacts(code=0, asked="term"),
            set(),
            Stopped(FINAL, "terminated by a signal from outside (SIGTERM to its keeper)"),
        ),
        (end("stopped", "a callback had enough"), ExitFacts(code=0), set(), Stopped(FINAL, "a callback had enough")),
        (
            None,
            ExitFacts(signal=15, asked="term"),
            set(),
            Killed(LAST, "terminated by a signal from outside (SIGTERM to its keeper) before it could save"),
        ),
        (
            None,
            ExitFacts(signal=9, asked="term", escalated=True),
            set(),
            Killed(
                LAST,
                "terminated by a signal from outside (SIGTERM to its keeper); it did not end in time and was killed",
            ),
        ),
        (
            None,
            ExitFacts(code=1, disk_full="the disk of /runs is full"),
            set(),
            Failed("unknown", "exit code 1; the disk of /runs is full", LAST),
        ),
        (
            None,
            ExitFacts(code=1, last_output="boom", disk_full="the disk of /runs is full"),
            set(),
            Failed("unknown", "exit code 1: boom; the disk of /runs is full", LAST),
        ),
        (
            None,
            ExitFacts(code=1, last_output="RuntimeError: can't start new thread"),
            set(),
            Failed("unknown", f"exit code 1: RuntimeError: can't start new thread; {PROCESSES_LIMIT}", LAST),
        ),
        (end("stopped"), ExitFacts(code=0, asked="term"), {"stop"}, Stopped(FINAL)),
        # Asked once more while its interpreter was on its way out.
        (end("stopped"), ExitFacts(signal=15, asked="term"), {"stop"}, Stopped(FINAL)),
        (end("finished"), ExitFacts(signal=15, asked="term"), {"stop"}, Finished(FINAL)),
        (
            end("stopped"),
            ExitFacts(signal=9, asked="term", escalated=True),
            {"stop"},
            Stopped(FINAL, "stopped by you; its process hung afterwards and was killed"),
        ),
        (
            end("failed", "loss is nan", "nan", None),
            ExitFacts(code=1),
            set(),
            Failed("nan", "loss is nan", LAST),
        ),
        (
            end("failed", "", None, None),
            ExitFacts(code=1),
            set(),
            Failed("unknown", "failed without naming a cause", LAST),
        ),
        (None, ExitFacts(code=0), set(), Failed("unknown", "exit code 0 without saying how it ended", LAST)),
        (None, ExitFacts(code=1), set(), Failed("unknown", "exit code 1", LAST)),
        (
            None,
            ExitFacts(code=1, last_output="Traceback\n  ...\nRuntimeError: \x1b[31mboom\x1b[0m\n\n"),
            set(),
            Failed("unknown", "exit code 1: RuntimeError: boom", LAST),
        ),
        (
            end("finished"),
            ExitFacts(code=1),
            set(),
            Failed("unknown", "exit code 1 after it said it had finished", FINAL),
        ),
        (None, ExitFacts(signal=11), set(), Failed("crash", "ended by SIGSEGV (signal 11)", LAST, 11)),
        (
            None,
            ExitFacts(signal=11, last_output=FAULT),
            set(),
            Failed("crash", "ended by SIGSEGV (signal 11), at /home/ada/my_env.py:3", LAST, 11),
        ),
        (
            None,
            ExitFacts(signal=1, last_output=FAULT),
            set(),
            Failed("crash", "ended by SIGHUP (signal 1)", LAST, 1),
        ),
        (None, ExitFacts(signal=9), {"stop"}, Failed("crash", "ended by SIGKILL (signal 9)", LAST, 9)),
        (None, ExitFacts(signal=63), set(), Failed("crash", "ended by signal 63", LAST, 63)),
        (
            None,
            ExitFacts(signal=9, oom_killed=True),
            set(),
            Failed("oom", "the kernel ended it for lack of memory", LAST, 9),
        ),
        (None, ExitFacts(signal=9, asked="quit"), {"kill"}, Killed(LAST)),
        (end("finished"), ExitFacts(code=0, asked="quit"), {"kill"}, Finished(FINAL)),
        (
            None,
            ExitFacts(signal=9, asked="term", escalated=True),
            {"stop"},
            Killed(LAST, "did not stop in time and was killed"),
        ),
        (None, ExitFacts(signal=15, asked="term"), {"stop"}, Killed(LAST, "ended by SIGTERM before it could save")),
        (None, ExitFacts(), {"kill"}, Killed(LAST, "killed by you, but its process does not die")),
        (None, ExitFacts(), set(), Failed("unknown", "its process does not die", LAST)),
        (
            None,
            ExitFacts(code=78, last_output="warming up\nspec.toml: ppo.gama is unknown\n"),
            set(),
            Failed("config", "spec.toml: ppo.gama is unknown", LAST),
        ),
        (
            None,
            ExitFacts(start_error="[Errno 2] No such file or directory: '/opt/python'"),
            set(),
            Failed("start", "[Errno 2] No such file or directory: '/opt/python'", LAST),
        ),
        (
            None,
            ExitFacts(signal=9, asked="limit", escalated=True),
            set(),
            Killed(
                LAST,
                "the time limit of its job was near, and it could not save in time; "
                "a larger slurm.warn_s gives it longer",
            ),
        ),
        (end("stopped"), None, {"stop"}, Stopped(FINAL)),
        (None, None, {"kill"}, Killed(LAST)),
        (None, None, set(), Lost(UNSEEN, LAST)),
    ],
)
def test_outcome_and_cause(
    said: TrainingEnded | None, facts: ExitFacts | None, asked: set[Verb], outcome: Outcome
) -> None:
    """Each combination of last word, exit and request has its one outcome."""
    assert classify(said, facts, asked, LAST) == outcome


def test_reboot_is_a_loss_with_its_own_cause() -> None:
    """After a reboot nothing about the processes is known, and the checkpoint is offered."""
    assert classify(None, None, {"kill"}, LAST, rebooted=True) == Lost("the machine was restarted while it ran", LAST)


@pytest.mark.parametrize(
    ("asked", "checkpoint", "cancelled", "outcome"),
    [
        (set(), LAST, "", Failed("start", "its keeper was never started, or died at once", LAST)),
        ({"stop"}, LAST, "", Stopped(LAST, "ended by you before it had begun")),
        ({"stop"}, None, "", Killed(None, "ended by you before it had begun")),
        ({"kill"}, LAST, "", Killed(LAST, "ended by you before it had begun")),
        (set(), LAST, "cancelled", Stopped(LAST, "cancelled before it had begun")),
        (set(), None, "cancelled", Killed(None, "cancelled before it had begun")),
        ({"stop"}, LAST, "cancelled", Stopped(LAST, "ended by you before it had begun")),
    ],
)
def test_an_attempt_that_never_began_ended_as_it_was_asked_to(
    asked: set[Verb], checkpoint: str | None, cancelled: str, outcome: Outcome
) -> None:
    """What was stopped before a process of it was seen is not lost, wherever it was stopped; what nobody stopped has
    failed to start.
    """
    assert never_begun(asked, checkpoint, cancelled) == outcome


def test_a_claim_without_a_checkpoint_is_not_believed() -> None:
    """`stopped` promises a checkpoint; without one the run has failed."""
    outcome = classify(end("stopped", checkpoint=None), ExitFacts(code=0), {"stop"}, None)
    assert outcome == Failed("unknown", "said it stopped, but saved no checkpoint")


@given(
    said=st.none() | st.builds(end, st.sampled_from(["finished", "stopped", "failed"]), st.text()),
    facts=st.none()
    | st.builds(
        ExitFacts,
        code=st.none() | st.integers(0, 255),
        signal=st.none() | st.integers(1, 64),
        asked=st.sampled_from([None, "term", "quit"]),
        escalated=st.booleans(),
        oom_killed=st.booleans(),
        start_error=st.none() | st.text(),
        last_output=st.text(),
    ),
    asked=st.sets(st.sampled_from(["stop", "kill", "pause", "launch"])),
    checkpoint=st.none() | st.just(LAST),
    rebooted=st.booleans(),
)
def test_every_ended_run_has_a_cause(
    said: TrainingEnded | None, facts: ExitFacts | None, asked: set[Verb], checkpoint: str | None, rebooted: bool
) -> None:
    """Whatever was seen, there is an outcome with one printable, non-empty sentence."""
    cause = classify(said, facts, asked, checkpoint, rebooted=rebooted).cause
    assert cause.strip()
    assert cause.isprintable()
