"""What an attempt is asked to do: by its command line (run directory, number, checkpoint to go on from), and while it
trains by a supervisor: stop, pause, go on, save. Orders are noted at once and carried out at safe points. SIGTERM is an
order to stop, and its signal handler only sets a flag. Without a supervisor a training runs just the same.

Where no socket reaches, files of the attempt carry the same messages, its mailbox: a thread replaces `alive.json` every
two seconds with the newest message of each kind, and reads new orders from `orders.jsonl` once a second. It opens both
anew each time: that is when a network file system asks its server. Like the socket's side it never blocks training and
never raises.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import msgspec

from mission_tui.errors import ProtocolError
from mission_tui.fence import Fence
from mission_tui.fleet.events.processes import EnvWorkers
from mission_tui.fleet.resume.verdict import Terms
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc import telemetry_messages as messages
from mission_tui.ipc.sockets import PROTOCOL
from mission_tui.ipc.telemetry import Telemetry, TrainerSide
from mission_tui.ipc.telemetry_messages import Order, TelemetryMessage, TrainerHello
from mission_tui.plain_files import open_fresh
from mission_tui.records.atomic import write_all
from mission_tui.records.jsonl import Tail
from mission_tui.records.runs.attempt import attempt_spec_file, read_sealed_spec, read_terms
from mission_tui.records.runs.layout import AttemptDir, RunDir
from mission_tui.trainer.record import CheckpointReason

ORDERS_S = 1.0
BEAT_S = 2.0
SOON_S = 0.25
"""The least time between two beats: an answer that somebody waits for does not wait for the next one."""


class Mailbox(TrainerSide):
    """Says it in a file of the attempt's directory, and reads the orders there."""

    def __init__(self, folder: AttemptDir, hello: messages.TrainerHello, fence: Fence | None = None) -> None:
        super().__init__(hello)
        self._path = folder.alive
        self._fence = fence
        self._tail = Tail(folder.orders, messages.NumberedOrder)
        self._beat = 0
        self._urgent = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="mailbox", daemon=True)
        self._thread.start()

    def send(self, message: messages.TelemetryMessage) -> None:
        super().send(message)
        held = isinstance(message, messages.PhaseEntered) and message.phase in ("paused", "ending")
        if held or isinstance(message, messages.CheckpointAnswered | messages.TrainerDutyFailed):
            self._urgent.set()

    def close(self, timeout_s: float = 1.0) -> None:
        self._closing = True
        self._urgent.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        read_at = beat_at = written_at = float("-inf")
        while not self._closing:
            now = time.monotonic()
            if now >= read_at:
                read_at = now + ORDERS_S
                self._read()
            if now >= beat_at or (self._urgent.is_set() and now >= written_at + SOON_S):
                beat_at, written_at = now + BEAT_S, now
                self._urgent.clear()
                self._write()
            until = min(read_at, beat_at, written_at + SOON_S if self._urgent.is_set() else beat_at)
            if self._urgent.is_set():
                time.sleep(max(0.0, until - time.monotonic()))
            else:
                self._urgent.wait(max(0.0, until - time.monotonic()))
        self._write()

    def _read(self) -> None:
        with suppress(OSError):
            self._orders.extend(numbered.order for numbered in self._tail.read())

    def _write(self) -> None:
        """Not synced: a node that goes down with it has nothing more to say."""
        if self._fence is not None:
            self._fence.check_if_due()
        self._beat += 1
        with self._lock:
            said = tuple(self._newest.values())
        try:
            document = msgspec.json.encode(messages.TrainerWord(self._hello, self._beat, (*said, self._heartbeat())))
        except (TypeError, ValueError, ProtocolError):
            self._dropped += 1
            return
        if len(document) > messages.TELEMETRY_LINE_BYTES:
            self._dropped += 1
            return
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")
        try:
            descriptor = open_fresh(temporary)
            try:
                write_all(descriptor, document)
            finally:
                os.close(descriptor)
            temporary.replace(self._path)
        except OSError:
            self._dropped += 1
            with suppress(OSError):
                temporary.unlink()


_LOOK_EVERY_S = 0.2


class Orders:
    """Orders from the supervisor, and SIGTERM as an order to stop. A stop is final; nothing takes it back."""

    def __init__(self, receive: Callable[[], Sequence[Order]] = tuple) -> None:
        """`receive` gives the orders that came since it was last asked, and does not block."""
        self._receive = receive
        self._next_look = 0.0
        # Plain flags: a signal handler that took a lock could wait for the very code it interrupted.
        self._stop = False
        self.paused = False
        self._checkpoint: CheckpointReason | None = None
        self._checkpoint_number = 0
        self.kept: set[str] = set()
        self._settings: list[Order] = []

    def obey_signals(self) -> None:
        """SIGTERM stops gracefully; SIGINT is ignored, because Ctrl-C in some terminal must never reach a run."""
        signal.signal(signal.SIGTERM, self._on_sigterm)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.register_at_fork(before=_hold_term, after_in_parent=_let_term, after_in_child=self._forget)

    def stop_asked(self) -> bool:
        """Cheap enough for every environment step: looks for new orders five times a second."""
        if time.monotonic() >= self._next_look:
            self.poll()
        return self._stop

    def poll(self) -> None:
        """Take in all waiting orders."""
        self._next_look = time.monotonic() + _LOOK_EVERY_S
        for order in self._receive():
            self.obey(order)

    def obey(self, order: Order) -> None:
        """Note what `order` asks; it is done at the next safe point. The checkpoints to keep are in `kept`."""
        match order.what:
            case "stop":
                self._stop = True
                self.kept.update(order.keep)
            case "keep":
                self.kept = set(order.keep)
            case "pause":
                self.paused = True
            case "unpause":
                self.paused = False
            case "checkpoint":
                self._checkpoint = order.reason
                self._checkpoint_number = max(self._checkpoint_number, order.number)
            case "set":
                self._settings.append(order)

    def take_checkpoint(self) -> CheckpointReason | None:
        """Why a checkpoint was asked for since the last call, if one was."""
        reason, self._checkpoint = self._checkpoint, None
        return reason

    def take_checkpoint_number(self) -> int:
        """The number of the newest order for a checkpoint since the last call, by which it is answered; 0: none is."""
        number, self._checkpoint_number = self._checkpoint_number, 0
        return number

    def take_settings(self) -> list[Order]:
        """What was set since the last call, in order."""
        taken, self._settings = self._settings, []
        return taken

    def wait(self) -> None:
        """Wait, while paused, until it is time to look again."""
        time.sleep(_LOOK_EVERY_S)
        self.poll()

    def _forget(self) -> None:
        """In what an environment forks a SIGTERM asks for no checkpoint: a pool ends its processes by it."""
        with suppress(ValueError):
            if signal.getsignal(signal.SIGTERM) == self._on_sigterm:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _let_term()

    def _on_sigterm(self, _number: int, _frame: FrameType | None) -> None:
        self._stop = True


_forking = threading.local()


def _hold_term() -> None:
    """No SIGTERM comes to this thread while it forks: one to a child that still has our handler would be lost there,
    because Python forgets in a child what signals came before its hooks.
    """
    _forking.masked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))


def _let_term() -> None:
    if (masked := getattr(_forking, "masked", None)) is not None:
        _forking.masked = None
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)


class Link:
    """Says facts and receives orders; never blocks and never raises."""

    def __init__(self, attempt: Attempt, environ: Mapping[str, str], fence: Fence | None = None) -> None:
        self._fence = fence
        self._telemetry: Telemetry | Mailbox | None = None
        run = environ.get("MISSION_TUI_RUN", attempt.run_dir.id)
        hello = TrainerHello(PROTOCOL, run, attempt.number, environ.get("MISSION_TUI_NONCE", ""), os.getpid())
        if "MISSION_TUI_MAILBOX" in environ:
            self._telemetry = Mailbox(attempt.run_dir.attempt(attempt.number), hello, fence)
        elif path := environ.get("MISSION_TUI_TELEMETRY"):
            self._telemetry = Telemetry(Path(path), hello)

    def send(self, message: TelemetryMessage) -> None:
        """Tell the supervisor, if there is one."""
        if self._telemetry is not None:
            self._telemetry.send(message)

    def orders(self) -> list[Order]:
        """Orders that came since the last call. An attempt that was overtaken obeys none: its process ends here."""
        if self._fence is not None:
            self._fence.check_if_due()
        return [] if self._telemetry is None else self._telemetry.orders()

    def name_workers(self, pids: tuple[int, ...], look: Callable[[], EnvWorkers] | None) -> None:
        """Have heartbeats name the processes that environments live in, and say how these are, as `look` tells."""
        if self._telemetry is not None:
            self._telemetry.workers, self._telemetry.look = pids, look

    def name_callbacks(self, are_long: Callable[[], bool]) -> None:
        """Have heartbeats say while a callback goes on for long, as `are_long` tells."""
        if self._telemetry is not None:
            self._telemetry.in_callback = are_long

    def close(self) -> None:
        """Say what is unsaid and hang up."""
        if self._telemetry is not None:
            self._telemetry.close()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One process lifetime of a run."""

    run_dir: RunDir
    number: int
    checkpoint: str | None
    other_root: Path | None = None
    """The runs root of whoever has it tried in a run directory that is in none."""

    @property
    def root(self) -> Path:
        """The runs root, which keeps what is known of all its runs' nets."""
        return self.other_root or self.run_dir.path.parent

    @classmethod
    def parse(cls, arguments: Sequence[str] | None) -> Attempt:
        """The attempt that the command line names; exits with 2 when it names none."""
        parser = argparse.ArgumentParser(prog="mission_tui.trainer", description="Train one attempt of a run.")
        parser.add_argument("run_dir", type=Path)
        parser.add_argument("attempt", type=int)
        parser.add_argument("--checkpoint", help="name of the checkpoint to go on from")
        parsed = parser.parse_args(arguments)
        return cls(RunDir(parsed.run_dir.resolve()), parsed.attempt, parsed.checkpoint)

    @property
    def spec_file(self) -> Path:
        return attempt_spec_file(self.run_dir, self.number)

    def read_spec(self) -> Spec:
        """The attempt's spec. Raises `DamagedError` and `PresetError`."""
        return read_sealed_spec(self.run_dir, self.number, os.environ)

    def read_terms(self) -> Terms:
        """The terms on which it goes on. Raises `DamagedError`."""
        return read_terms(self.run_dir.attempt(self.number).terms)
