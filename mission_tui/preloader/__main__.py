"""``run_module.py mission_tui.preloader DESCRIPTOR ROOT PADDING``: load, say so, fork keepers until nobody wants any.

Each message on the socket DESCRIPTOR asks for one keeper, `{"run_dir": ..., "attempt": ...}`, and comes with two
descriptors: what the keeper reads on its standard input, and a pipe. The answer is `{"pid": ...}`; the keeper does
nothing until a byte comes through the pipe, and ends if it is closed without. It ends when the supervisor does, when
nobody asked for so long, when memory is short, and when a file that it has loaded is changed on disk.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from mission_tui.keeper import __main__ as keeper
from mission_tui.keeper.child import ForkedTrainer, fork_trainer
from mission_tui.preloader import PADDING
from mission_tui.preloader.becoming import be_trainer, draw_own_random_numbers, room_for_variables, take_environ
from mission_tui.preloader.loading import changed, load, stamps
from mission_tui.process_name import call_process

IDLE_S = 600.0
LOOK_S = 30.0
LEAST_FREE_BYTES = 512 << 20
MESSAGE_BYTES = 1 << 16


def main() -> int:
    """Serve until it is over; in a fork, be what was asked for."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    call_process("preloader", sys.argv[2], brief="preload")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked = _serve(channel, room_for_variables())
    if asked is None:
        return 0
    channel.close()
    try:
        return _be_keeper(*asked)
    except ForkedTrainer as forked:
        trainer = forked
    # Out here, so that nothing of the keeper is in any traceback of the trainer.
    return be_trainer(trainer.argv, trainer.environ)


Asked = tuple[list[str], int, int]


def _serve(channel: socket.socket, room: int) -> Asked | None:
    """None when it is over; in a fork, the keeper's words and its two descriptors."""
    with suppress(ValueError):
        sys.path.remove(os.getcwd())  # noqa: PTH109 - each trainer has its own working folder there
    take_environ({name: value for name, value in os.environ.items() if not name.startswith(PADDING)})
    read = load()
    loaded = stamps()
    gc.collect()
    gc.freeze()
    if len(os.listdir("/proc/self/task")) != 1:  # noqa: PTH208
        _say(channel, {"over": "what it has loaded began threads, and a process with threads cannot be forked"})
        return None
    _say(channel, {"ready": True, "read": read, "room": room})
    wanted_at = time.monotonic()
    while True:
        _reap()
        if not select.select([channel], [], [], LOOK_S)[0]:
            free = _free_bytes()
            if time.monotonic() - wanted_at > IDLE_S or (free is not None and free < LEAST_FREE_BYTES):
                return None
            continue
        message, descriptors, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, 2)
        if not message:
            return None
        wanted_at = time.monotonic()
        try:
            if path := changed(loaded):
                _say(channel, {"over": f"{path} is not what it was when it was loaded"})
                return None
            asked = json.loads(message)
            pid = os.fork()
            if pid == 0:
                return [asked["run_dir"], str(asked["attempt"])], descriptors[0], descriptors[1]
            _say(channel, {"pid": pid})
        finally:
            if os.getpid() == PRELOADER:
                for descriptor in descriptors:
                    os.close(descriptor)


PRELOADER = os.getpid()


def _be_keeper(words: Sequence[str], said: int, go: int) -> int:
    """What is started as `python -m mission_tui.keeper` otherwise."""
    if not os.read(go, 1):
        os._exit(0)
    os.close(go)
    os.dup2(said, 0)
    os.close(said)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    draw_own_random_numbers()
    sys.argv[:] = ["mission_tui.keeper", *words]
    return keeper.main(fork_trainer)


def _free_bytes() -> int | None:
    with suppress(OSError, ValueError), open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return None


def _say(channel: socket.socket, words: Mapping[str, object]) -> None:
    with suppress(OSError):
        channel.send(json.dumps(words).encode())


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    sys.exit(main())
