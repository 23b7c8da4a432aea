"""Keeps a ledger of all signals that this interpreter sends, in the file `$SIGNAL_LEDGER`: a line before each is sent.

A line is `SENDER TARGET SIGNAL WHOSE`; `whose` is `ours` when the target's words or environment name `$SIGNAL_ROOT`,
`gone` when it has ended, else its command line.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def _whose(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return "gone"
    if not words:
        return "gone"
    return "ours" if os.fsencode(os.environ["SIGNAL_ROOT"]) in words + environ else repr(words)


def _one(pid: int, *_: object) -> Iterator[int]:
    yield pid


def _group(number: int, *_: object) -> Iterator[int]:
    for entry in os.scandir("/proc"):
        try:
            if entry.name.isdigit() and os.getpgid(int(entry.name)) == number:
                yield int(entry.name)
        except ProcessLookupError:
            continue


def _held(descriptor: int, _number: int, _info: object = None, flags: int = 0) -> Iterator[int]:
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii").splitlines()
    pid = int(next(line.split()[1] for line in lines if line.startswith("Pid:")))
    if pid > 0:
        yield from _group(pid) if flags else _one(pid)


def _kept(send: Callable[..., Any], targets: Callable[..., Iterator[int]], ledger: str) -> Callable[..., Any]:
    def keep(*arguments: Any) -> Any:
        lines = [f"{os.getpid()} {pid} {int(arguments[1])} {_whose(pid)}\n" for pid in targets(*arguments)]
        with open(ledger, "a", encoding="utf-8") as file:  # noqa: PTH123 - small, since every keeper imports it
            file.write("".join(lines))
        return send(*arguments)

    return keep


if "SIGNAL_LEDGER" in os.environ:
    os.kill = _kept(os.kill, _one, os.environ["SIGNAL_LEDGER"])
    os.killpg = _kept(os.killpg, _group, os.environ["SIGNAL_LEDGER"])
    signal.pidfd_send_signal = _kept(signal.pidfd_send_signal, _held, os.environ["SIGNAL_LEDGER"])
