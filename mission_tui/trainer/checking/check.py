"""``python -m mission_tui.trainer.checking.check LIMIT_S [ROOT]``: a smoke run, watched from outside.

The spec comes as JSON on stdin, answers are JSON lines. The work is done by a child, `smoke` beside this, because what
it tries may crash, hang or leave processes behind. Whatever happens to it, the step it was at is named, and nothing of
it is left: no process, and no file but what the runs root ROOT keeps of how fast the net is.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from types import FrameType
from typing import Any

from mission_tui.errors import EX_CONFIG, EX_FAILED
from mission_tui.fleet.history.classify import faulting_line
from mission_tui.run_module import module_words
from mission_tui.trainer.process import children

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_KEPT_BYTES = 64 << 10
_LAST_WORDS_S = 3.0
_LOOK_S = 0.5
_LEAVE_S = 0.5
_WORD_EVERY_S = 10.0


def main(arguments: list[str] | None = None) -> int:
    """Watch one smoke run, which may take `LIMIT_S` seconds for each step; 0, whatever the steps say."""
    limit, *root = sys.argv[1:] if arguments is None else arguments
    limit_s = float(limit)
    kernel = ctypes.CDLL(None)
    kernel.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # Without whoever asked, nobody reads the answer.
    kernel.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGTERM, _leave)
    folder = tempfile.mkdtemp(prefix="mission-tui-check-")
    watch = None
    try:
        watch = _Watch([folder, *root], limit_s)
        watch.until_over()
        left = _sweep()
        watch.conclude(left)
        return 0
    finally:
        # Again, for the way out by a signal or a closed pipe.
        _sweep()
        shutil.rmtree(folder, ignore_errors=True)


class _Watch:
    """The child, what it said last, and since when it is at that."""

    def __init__(self, words: list[str], limit_s: float) -> None:
        self._limit_s = limit_s
        self._child = subprocess.Popen(
            [*module_words("mission_tui.trainer.checking.smoke"), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._at, self._doing, self._since = "versions", "starting Python", time.monotonic()
        self._word_at = self._since
        self._said = b""
        self._half = b""
        self._late = False
        self._finished = False

    def until_over(self) -> None:
        """Pass its lines on until both its pipes are closed, or it has been silent for too long."""
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        with selectors.DefaultSelector() as pipes:
            for pipe in (self._child.stdout, self._child.stderr):
                pipes.register(pipe, selectors.EVENT_READ)
            while pipes.get_map() and self._child.poll() is None:
                for key, _ in pipes.select(_LOOK_S):
                    self._take(key, pipes)
                self._check_time()
            self._drain(pipes)
        self._child.wait()

    def conclude(self, left: int) -> None:
        """Say how it ended where it could not say so itself, and what it had left behind."""
        if not self._finished:
            why = f"did not come back within {self._limit_s:g} s" if self._late else _how(self._child.returncode)
            place = faulting_line(self._said.decode("utf-8", "replace"))
            said = f", at {place}" if place else self._last_line()
            self._fail(f"{self._doing}: the process {why}{said}")
        some = "1 process was" if left == 1 else f"{left} processes were"
        detail = f"{some} left running, and ended" if left else "no process, no file"
        _say({"step": "leftovers", "level": "note" if left else "ok", "detail": detail})

    def _take(self, key: selectors.SelectorKey, pipes: selectors.BaseSelector) -> None:
        data = os.read(key.fd, 1 << 16)
        if not data:
            pipes.unregister(key.fileobj)
        elif key.fileobj is self._child.stderr:
            self._said = (self._said + data)[-_KEPT_BYTES:]
        else:
            *lines, self._half = (self._half + data).split(b"\n")
            for line in lines:
                self._take_lines(json.loads(line))

    def _take_lines(self, said: dict[str, Any]) -> None:
        self._since = time.monotonic()
        if "error" in said:
            # What nobody foresaw, at the edge of the process.
            self._finished = True
            _say({"step": self._at, "level": "failed", "detail": said["error"], "exit_code": said["exit_code"]})
            return
        self._at = said.get("begin", self._at)
        self._doing = said.get("doing", self._doing)
        self._finished = self._finished or "over" in said
        _say(said)

    def _drain(self, pipes: selectors.BaseSelector) -> None:
        """What is in the pipes already; others may hold their ends open for ever."""
        while ready := pipes.select(0):
            for key, _ in ready:
                self._take(key, pipes)

    def _check_time(self) -> None:
        now = time.monotonic()
        if now - self._since > self._limit_s and not self._late:
            self._give_up()
        elif now - self._word_at > _WORD_EVERY_S:
            # Whoever asked takes silence for a supervisor that hangs.
            self._word_at = now
            _say({"doing": self._doing})

    def _give_up(self) -> None:
        # The fault handler writes where it is, and the process ends of it.
        self._late = True
        self._since = time.monotonic()
        self._child.send_signal(signal.SIGABRT)
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(_LAST_WORDS_S)
        self._child.kill()

    def _fail(self, detail: str) -> None:
        # What the preset names is the preset's.
        code = EX_CONFIG if self._at == "imports" else EX_FAILED
        _say({"step": self._at, "level": "failed", "detail": detail, "exit_code": code})

    def _last_line(self) -> str:
        lines = self._said.decode("utf-8", "replace").strip().splitlines()
        return f"; it last said: {lines[-1]}" if lines else " without a word"


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"


def _say(said: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(EX_FAILED)


def _sweep() -> int:
    """See every process below this one gone, whoever started it; returns how many had to be ended for that.

    Some leave by themselves when their parent does, and are given the time.
    """
    ended: set[int] = set()
    patient_until = time.monotonic() + _LEAVE_S
    while left := children():
        for pid in left:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() < patient_until:
            time.sleep(_LEAVE_S / 10)
            continue
        for pid in children():
            ended.add(pid)
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
    return len(ended)


if __name__ == "__main__":
    sys.exit(main())
