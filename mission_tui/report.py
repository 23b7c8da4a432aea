"""Report a training in one line: `report.update(timesteps=n, approx_kl=kl)`. Standard library only: copy this file.

Calls never raise or wait, and do nothing where mission-tui did not launch the process. A thread writes `metrics.jsonl`,
which is the truth, and speaks to whichever supervisor listens. Forks, multiprocessing children and torchrun's other
ranks say nothing.
"""

from __future__ import annotations

import atexit
import json
import multiprocessing
import os
import signal
import socket
import threading
import time
import zlib
from collections import Counter, deque
from contextlib import suppress
from typing import Any

TICK_S, ROWS_A_TICK, HELD, MOST = 0.1, 10, 4096, 256
MARKS = [f"MISSION_TUI_{name}" for name in ("RUN_DIR", "RUN", "ATTEMPT", "NONCE", "TELEMETRY")]
PHASES = ("starting", "rollout", "update", "saving", "paused", "ending")
_here: list[Any] = []  # the reporter, or None where there is to be none; empty until somebody calls
_lock = threading.RLock()


def update(timesteps: int | None = None, **metrics: Any) -> None:
    """One update is done, `timesteps` environment steps in all; a metric without a family belongs to `train/`."""
    _tell(_Reporter.update, timesteps, metrics)


def phase(name: str) -> None:
    """What begins now: "rollout" or "update"; or "starting", "saving", "paused", "ending"."""
    _tell(_Reporter.enter, name)


def episode(r: float, l: int, outcome: str | None = None) -> None:  # noqa: E741 - as Monitor files have it
    """An episode ended with return `r` after `l` steps, in the environment's own word `outcome`."""
    _tell(_Reporter.episode, r, l, outcome)


def checkpoint(path: Any) -> None:
    """The training can go on from the file or folder `path`, which is written."""
    _tell(_Reporter.checkpoint, path)


def should_stop() -> bool:
    """Whether to save and leave. From the first call on SIGTERM asks for that, instead of ending the process."""
    return _here[0].stopping if _here and _here[0] is not None and _here[0].listens else bool(_tell(_Reporter.asked))


def _tell(what: Any, *said: Any) -> Any:
    try:
        if _here and (_here[0] is None or _here[0].pid != os.getpid()):
            return None  # before the lock, which a fork may have from a thread that it has not
        with _lock:
            alone = multiprocessing.parent_process() is None and os.environ.get("RANK", "0") == "0"
            _here[:] = _here or [_Reporter() if alone and all(mark in os.environ for mark in MARKS) else None]
            return _here[0] and what(_here[0], *said)
    except Exception:  # noqa: BLE001 - no training ends for what is said about it
        return None


def _number(value: Any) -> Any:
    """As files have it: by its name if it is not finite; None for what is no number."""
    try:
        number = float("" if isinstance(value, (bool, str, bytes)) else value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
    return number if abs(number) < float("inf") else str(number)


class Rows:
    """The rows of one attempt in `metrics.jsonl`: one writer, each row whole, none forgotten that counts."""

    def __init__(self, folder: str, attempt: int) -> None:
        """Open the file of the run in `folder`. Raises `OSError`; `BlockingIOError` when another process reports."""
        import fcntl

        self.attempt, self.begun, self.seq, self.offset, self.before = attempt, False, 0, 0, [(0, 0)]
        self.synced_at = 0.0
        path, line, before = os.path.join(folder, "metrics.jsonl"), b"\n", self.before  # noqa: PTH118
        self.file = open(path, "ab", buffering=0)  # noqa: SIM115, PTH123
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # one writer
        except OSError:
            self.file.close()
            raise
        with open(path, "rb") as lines:  # noqa: PTH123
            for line in lines:
                if line[-19:] == _seal(line[:-19]):
                    row = json.loads(line)
                    self.seq, self.begun = row["seq"], row["attempt"] == self.attempt
                    while row["kind"] == "start" and before[-1][0] > row.get("from_update", 0):
                        before.pop()
                    if row["kind"] == "update":
                        before.append((row["update"], row["timesteps"]))
        if line[-1:] != b"\n":
            self.file.write(b"\n")  # a crash cut this line: readers pass over it
        if len(before) == 1:
            self.begin(0, time.time())

    def begin(self, steps: float, t: float) -> None:
        """The attempt goes on behind the last update with fewer steps: where its checkpoint was, or from nothing."""
        while len(self.before) > 1 and self.before[-1][1] >= steps:
            self.before.pop()
        if not self.begun:
            self.write("start", {"t": t, "from_update": self.before[-1][0], "from_timesteps": self.before[-1][1]})
        self.begun = True

    def take(self, kind: str, steps: int | None, fields: dict[str, Any], took_s: float) -> None:
        if not self.begun:
            self.begin(float("inf") if steps is None else steps, fields["t"])
        number, last = self.before[-1]
        if steps is not None and steps + self.offset < last:
            self.offset = last  # the script counts anew, the run goes on
        steps = last if steps is None else steps + self.offset
        if kind == "update":
            number, rate = number + 1, (steps - last) / took_s if took_s > 0.01 else 0.0
            fields = {"steps_per_s": rate, **fields}
        self.write(kind, {"update": number, "timesteps": steps, **fields})
        self.before[1:] = [(number, steps)]  # of the same attempt nothing is taken back

    def write(self, kind: str, fields: dict[str, Any]) -> None:
        record = {"kind": kind, "seq": self.seq + 1, "attempt": self.attempt, **fields}
        body = json.dumps(record, separators=(",", ":"))[:-1].encode()
        line, size = body + _seal(body), os.fstat(self.file.fileno()).st_size
        if self.file.write(line) != len(line):
            self.file.truncate(size)
            raise OSError("no room for a whole row")
        self.seq += 1
        if time.monotonic() - self.synced_at > 1.0:
            self.synced_at = time.monotonic()
            with suppress(OSError):  # the row is written, and must not be written again
                os.fdatasync(self.file.fileno())


class _Reporter:
    """Callers collect, under the lock; the file and the link are the thread's."""

    def __init__(self) -> None:
        self.folder, self.run, attempt, self.nonce, self.address = (os.environ[mark] for mark in MARKS)
        self.pid, self.attempt, self.leaving, self.stopping = os.getpid(), int(attempt), threading.Event(), False
        self.listens = False
        self.rows, self.recent, self.ended = (deque[Any](maxlen=most) for most in (HELD, 100, MOST))
        self.n, self.outcomes, self.phase, self.spent = 0, Counter[str](), "", dict.fromkeys(PHASES, 0.0)
        self.at, self.room = (0, 0), ROWS_A_TICK
        self.news, self.newest = dict[str, Any](), dict[str, Any]()
        self.link: Any = None
        self.retry_at = self.beat_at = 0.0
        self.phase_at = self.row_at = time.monotonic()
        thread = threading.Thread(target=self.serve, name="mission-tui report", daemon=True)
        thread.start()
        atexit.register(thread.join, 1.5)
        atexit.register(self.leaving.set)  # the last one registered comes first

    def asked(self) -> bool:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self.on_sigterm)
        self.listens = self.listens or main
        return self.stopping

    def on_sigterm(self, number: int, _frame: Any) -> None:
        self.stopping = True
        if os.getpid() != self.pid:  # a fork, which has this from its parent
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def enter(self, name: str) -> None:
        now, (number, steps) = time.monotonic(), self.at
        self.spent[self.phase] = self.spent.get(self.phase, 0.0) + now - self.phase_at
        self.phase, self.phase_at = name, now
        if name in PHASES:
            self.news["phase"] = {"phase": name, "update": number, "timesteps": steps, "t": time.time()}

    def episode(self, r: float, length: int, outcome: str | None) -> None:
        word = "".join(it for it in str(outcome)[:40] if it.isprintable())
        self.recent.append((float(r), int(length)))
        self.ended.append(self.recent[-1])
        self.n += 1
        if outcome is not None and len(self.outcomes) < MOST:
            self.outcomes[word] += 1

    def update(self, steps: int | None, metrics: dict[str, Any]) -> None:
        if self.room == 0:  # called many times a tick: a row now and then says the same
            return
        self.enter(self.phase)
        said = {f"rollout/ep_{name}_mean": 0.0 for name in ("rew", "len") if self.recent}
        for place, name in enumerate(said):
            said[name] = sum(both[place] for both in self.recent) / len(self.recent)
        said |= {name if "/" in name else f"train/{name}": value for name, value in list(metrics.items())[:MOST]}
        said = {name: number for name, value in said.items() if (number := _number(value)) is not None}
        ended = {"n": self.n, "r": [_number(r) for r, _ in self.ended], "l": [length for _, length in self.ended]}
        ended["outcomes"] = dict(self.outcomes)
        spent = {"rollout_s": self.spent["rollout"], "update_s": self.spent["update"]}
        self.put("update", steps, {**spent, "metrics": said, "episodes": ended}, self.phase_at - self.row_at)
        self.n, self.row_at, self.room, self.spent = 0, self.phase_at, self.room - 1, dict.fromkeys(PHASES, 0.0)
        self.ended.clear()
        self.outcomes.clear()

    def checkpoint(self, path: Any) -> None:
        self.put("checkpoint", None, {"name": os.path.abspath(os.fsdecode(path)), "reason": "reported"})  # noqa: PTH100

    def put(self, kind: str, steps: int | None, fields: dict[str, Any], took_s: float = 0.0) -> None:
        self.rows.append((kind, None if steps is None else max(0, int(steps)), {"t": time.time(), **fields}, took_s))

    def serve(self) -> None:
        try:
            self.file = Rows(self.folder, self.attempt)
            self.told()
            looked, leaving = (time.monotonic(), time.process_time()), False
            while not leaving:
                leaving = self.leaving.wait(TICK_S)
                now, worked = time.monotonic(), time.process_time()
                with _lock:
                    self.room = ROWS_A_TICK
                    if now - looked[0] > 1.0 and worked - looked[1] < 0.05 * (now - looked[0]):
                        self.row_at += now - looked[0]  # SIGSTOP is no slow update
                        self.phase_at += now - looked[0]
                looked = now, worked
                self.flush()
                self.talk(now)
            self.hang_up()
        except Exception:  # noqa: BLE001 - another process of the run reports, or its folder is gone
            _here[:] = [None]

    def told(self) -> None:
        with _lock:
            self.at, self.news["wrote"] = self.file.before[-1], {"seq": self.file.seq}

    def flush(self) -> None:
        while self.rows:
            with _lock:
                row = self.rows.popleft()
            try:
                self.file.take(*row)
                self.told()
            except OSError:  # the disk is full: rows wait for room
                self.rows.appendleft(row)
                return

    def talk(self, now: float) -> None:
        try:
            if self.link is None and now >= self.retry_at:
                self.retry_at = now + 1.0
                self.call()
            if self.link is None:
                return
            with _lock:
                news, self.news = self.news, {}
            if now >= self.beat_at:
                news["heartbeat"], self.beat_at = {"t": time.time()}, now + 1.0
            self.newest |= {say: news[say] for say in ("phase", "wrote") if say in news}
            self.link.settimeout(TICK_S)
            self.link.sendall(b"".join(json.dumps({"say": say, **news[say]}).encode() + b"\n" for say in news))
            self.link.settimeout(0.0)
            orders = self.link.recv(1 << 14)
            self.stopping = self.stopping or b'"what":"stop"' in orders
            if not orders:
                self.hang_up()
        except BlockingIOError:
            pass  # nothing was ordered
        except OSError:
            self.hang_up()

    def call(self) -> None:
        if os.stat(self.address).st_uid == os.getuid():  # noqa: PTH116
            self.link = socket.socket(socket.AF_UNIX)
            self.link.settimeout(TICK_S)
            self.link.connect(self.address)
            hello = {"protocol": 1, "run": self.run, "attempt": self.attempt, "nonce": self.nonce, "pid": self.pid}
            with _lock:
                self.news = {"hello": hello, **self.newest, **self.news}

    def hang_up(self) -> None:
        if self.link is not None:
            self.link.close()
            self.link = None


def _seal(body: bytes) -> bytes:
    return b',"crc":"%08x"}\n' % zlib.crc32(body)
