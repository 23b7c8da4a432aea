"""``python -m mission_tui.envs.worker RUN INDEX/COUNT PARENT FD STEPS``: a process that steps environments of a run.

It imports no torch, obeys what comes over the socket FD and the eventfd STEPS, and lives no longer than its trainer:
the kernel kills it with the trainer's main thread, and the end of the stream ends it too.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import sys
from contextlib import suppress
from types import FrameType
from typing import Any

from mission_tui.envs.channel import (
    DONE,
    ERROR,
    FORM,
    QUIT,
    STEP,
    Assignment,
    Channel,
    Orders,
    Raised,
    SharedArrays,
    Spin,
    frame,
    record_shared_names,
    spins,
)
from mission_tui.envs.lanes import Lanes
from mission_tui.forks import guard_forks, leave_fork
from mission_tui.procfs import call_process, read_stat

_PR_SET_PDEATHSIG = 1


def main(words: list[str]) -> int:
    """Serve until the trainer says so or is gone; returns the exit code."""
    run, place, parent, descriptor, steps = words
    guard_forks()
    # A Ctrl-C is the trainer's to answer: it saves first, and needs its environments for that.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "MISSION_TUI_MAILBOX" in os.environ:
        # An engine that ends a job says so to all its processes at once, as if each could save.
        signal.signal(signal.SIGTERM, _leave_to_trainer)
        os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
    call_process(f"worker {place}", run, brief=f"env{place}")
    die_with(int(parent))
    record_shared_names(os.environ)
    # A process that an environment starts must not hold the stream open after this one is gone.
    os.set_inheritable(int(descriptor), False)
    os.set_inheritable(int(steps), False)
    channel = Channel(socket.socket(fileno=int(descriptor)))
    spin = Spin() if spins(int(place.partition("/")[2]) + 1) else None
    with suppress(EOFError, OSError):
        _serve(channel, Orders(channel, int(steps), spin))
    return 0


def _leave_to_trainer(_number: int, _frame: FrameType | None) -> None:
    """What a worker does of its own at a SIGTERM: nothing. It ends with its trainer."""


def _serve(channel: Channel, orders: Orders) -> None:
    _, assignment = channel.receive()
    sys.path[:] = assignment.path
    arrays = SharedArrays(assignment.layout, assignment.memory)
    os.close(assignment.memory)
    lanes = Lanes(arrays, assignment.index, range(assignment.first, assignment.behind), assignment.all_infos)
    try:
        made = _made(lanes, assignment)
        lanes.count_answer()
        channel.send(made)
        # Also after a failure: leaving is for the trainer to say, and a worker that is gone has died.
        while (order := orders.receive())[0] != QUIT:
            _obey(channel, lanes, assignment.n_envs, *order)
    finally:
        leave_fork(sys.exc_info()[1])
        lanes.close()
        leave_fork()


def _made(lanes: Lanes, assignment: Assignment) -> bytes:
    try:
        lanes.make(assignment.recipe.make)
        leave_fork()
        # What is there now stays to the end: no collection need look at it again.
        gc.freeze()
        return frame(DONE, lanes.can_save_state)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - making an environment is foreign code
        leave_fork(error)
        return frame(ERROR, Raised.of(error, lanes.at))


def _obey(channel: Channel, lanes: Lanes, n_envs: int, kind: bytes, content: Any) -> None:
    try:
        if kind == STEP:
            answer = frame(DONE, lanes.step() or None)
        elif kind == FORM:
            lanes.form(content, n_envs)
            answer = frame(DONE)
        else:
            answer = frame(DONE, lanes.call(content))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an environment is foreign code and may raise anything
        leave_fork(error)
        answer = frame(ERROR, Raised.of(error, lanes.at))
    leave_fork()
    lanes.count_answer()
    channel.send(answer)


def die_with(parent: int) -> None:
    """Ask the kernel for SIGKILL at the end of the thread that started this process. 0 means: that one may end.

    A fork of the preloader is a grandchild of `parent`: it ends with the preloader, which ends with `parent`.
    """
    if not parent or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if (mine := os.getppid()) != parent:
        between = read_stat(mine)
        if between is None or between.parent != parent:  # it went before the kernel was asked
            sys.exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
