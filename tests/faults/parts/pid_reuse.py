"""An innocent process gets the number of a dead one of ours: cleaning, adopting and killing leave it alone.

The kernel is told which number to give next, so it really is the recorded one. Most rounds put it before the functions
that signal; every hundredth before a supervisor that adopts a run whose keeper's and trainer's numbers were given away.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from mission_tui import procfs
from mission_tui.errors import MissionError
from mission_tui.ipc.replies import CleanReply
from mission_tui.ipc.requests import Clean
from mission_tui.keeper import ladder
from mission_tui.procfs import boot_id
from mission_tui.records.runs.attempt import ProcessIdentity
from mission_tui.supervisor.ending.leftovers import Leftover, remove_leftover
from mission_tui.supervisor.host.identity import open_process, verify
from tests.faults.campaign.part import Part, Tell, Violation
from tests.supervisor.conftest import opened_lab
from tests.waiting import until

__all__ = ["PART", "lacks_choice"]

NS_LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
STARTER = """
import subprocess, sys
innocent = None
for line in sys.stdin:
    what, *words = line.split()
    if what == "end":
        print("alive" if innocent.poll() is None else "dead", flush=True)
        innocent.kill()
        innocent.wait()
        continue
    environ = dict(word.split("=", 1) for word in words[1:])
    for _ in range(200):
        with open("/proc/sys/kernel/ns_last_pid", "w") as last:
            last.write(str(int(words[0]) - 1))
        innocent = subprocess.Popen(["/bin/sleep", "600"], env=environ, start_new_session=True)
        if innocent.pid == int(words[0]):
            break
        innocent.kill()
        innocent.wait()
    print("yes" if innocent.pid == int(words[0]) else "no", flush=True)
if innocent is not None:
    innocent.kill()
"""
WHOLE_EVERY = 100
MARK = {"MISSION_TUI_RUN": "r", "MISSION_TUI_RUN_DIR": "/r", "MISSION_TUI_ATTEMPT": "1", "MISSION_TUI_NONCE": "n"}


def lacks_choice() -> str:
    """Why process numbers cannot be chosen here, or nothing."""
    return "" if os.access(NS_LAST_PID, os.W_OK) else "only root may choose the next process number"


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    del seed  # the numbers are the kernel's
    elsewhere = _Elsewhere()
    try:
        for index in rounds:
            found = _whole(tell) if index % WHOLE_EVERY == WHOLE_EVERY - 1 else _functions(elsewhere, tell)
            yield from (f"round {index}: {violation}" for violation in found)
    finally:
        elsewhere.close()


class _Elsewhere:
    """A process that starts innocent ones with the number it is told: whoever signals here is not their parent."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, pid: int, **environ: str) -> bool:
        """Start one whose number is `pid`, which nobody has now; false when it cannot be had."""
        return self._ask("start", str(pid), *(f"{name}={value}" for name, value in environ.items())) == "yes"

    def ended(self) -> bool:
        """Whether the one started last was ended; it is afterwards."""
        return self._ask("end") == "dead"

    def close(self) -> None:
        self._process.communicate()

    def _ask(self, *words: str) -> str:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


def _functions(elsewhere: _Elsewhere, tell: Tell) -> Iterator[Violation]:
    """Everything that signals a process by what is recorded of it."""
    ours = subprocess.Popen(["/bin/sleep", "600"], env=MARK, start_new_session=True)
    seen, held = procfs.read_stat(ours.pid), open_process(ours.pid)
    assert seen is not None
    assert held is not None
    recorded = ProcessIdentity(ours.pid, seen.start_time, ladder.pidfd_inode(ours.pid))
    leftover = Leftover(ours.pid, seen.start_time, "r", 1, "ours", "sleep", 1.0, None)
    ours.kill()
    ours.wait()
    if not elsewhere.start(ours.pid, **MARK):
        tell("numbers that others took", 1)
        held.close()
        return
    now = procfs.read_stat(ours.pid)
    same_tick = now is not None and now.start_time == seen.start_time
    if ladder.send(seen, signal.SIGKILL):
        yield "a keeper signalled an innocent process"
    if held.send(signal.SIGKILL) or held.send_to_group(signal.SIGKILL):
        yield "a held process was signalled as another one"
    # Without an inode the start time decides, in steps of 10 ms.
    if verify(recorded, boot_id()).verdict == "ours" and (recorded.pidfd_inode is not None or not same_tick):
        yield "an innocent process was taken for the recorded one"
    # Marked as ours and born in the same tick: only then nothing tells it from the one that was listed.
    if not same_tick and remove_leftover(leftover):
        yield "clean signalled an innocent process"
    held.close()
    if elsewhere.ended():
        yield "an innocent process was ended"
    tell("numbers reused", 1)
    tell("within one tick", int(same_tick))


def _whole(tell: Tell) -> Iterator[Violation]:
    """A supervisor that adopts, is asked to kill, and cleans."""
    with tempfile.TemporaryDirectory(prefix="mission-tui-faults-") as name, opened_lab(Path(name) / "runs") as lab:
        lab.start()
        (run,) = lab.launch()  # without workers: the kernel keeps a number while its group or session has members
        pids = lab.running(run).pids
        assert pids.keeper is not None
        assert pids.trainer is not None
        lab.kill_supervisor()
        family = (pids.keeper, pids.trainer)
        for pid in family:
            os.kill(pid, signal.SIGKILL)
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family))
        innocents = [_Elsewhere(), _Elsewhere()]
        try:
            if not all(it.start(pid) for it, pid in zip(innocents, family, strict=True)):
                tell("numbers that others took", 1)
                return
            lab.start()
            ended = lab.ended(run)
            if ended.outcome != "lost":
                yield f"the run of a reused number ended as {ended.outcome}"
            with suppress(MissionError):
                lab.act("kill", run)
            reply = lab.ask(lambda id_: Clean(id=id_))
            assert isinstance(reply, CleanReply)
            lab.ask(lambda id_: Clean(id=id_, remove=tuple(stale.key for stale in reply.stale)))
            if any(stale.pid in family for stale in reply.stale):
                yield "an innocent process was listed"
            tell("numbers reused", 2)
            tell("runs adopted", 1)
            yield from ("an innocent process was ended" for it in innocents if it.ended())
        finally:
            for it in innocents:
                it.close()


PART = Part("pid-reuse", ("K1", "K2"), 2000, _run, lacks_choice)
