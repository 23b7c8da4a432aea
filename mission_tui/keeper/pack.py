"""`python -m mission_tui.keeper.pack FOLDER BEGINNINGS`: one job of an engine that carries several runs.

`pack.json` in FOLDER names them; a further word for each says which order is meant, as a keeper is told. Each has a
keeper of its own, which obeys the file `signal` of its attempt, so that one run is stopped or killed without the
others. What the engine tells the job is told to all keepers. A keeper that is killed leaves no trainer behind, and no
run without a word about its end. Standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from mission_tui.errors import EX_RESUMABLE
from mission_tui.keeper.child import SEALED
from mission_tui.keeper.files import exit_record, signal_in, write_with_retries
from mission_tui.keeper.ladder import TICK_S, become_subreaper, block_signals, descendants, next_signal, send
from mission_tui.plain_files import open_to_append, read_plain
from mission_tui.procfs import Stat, call_process

PACK_BYTES = 1 << 20
KILL_S = 10.0
"""How long a keeper has to carry out a kill before its processes are killed from here."""

SWEEP_S = 8.0
LAST_WORDS_BYTES = 4096
VISIBLE = "CUDA_VISIBLE_DEVICES"


class Member:
    """One run of the job: its attempt, and the keeper that was started for it."""

    def __init__(self, run_dir: Path, attempt: int, words: list[str], environ: dict[str, str], secret: bytes) -> None:
        """Start the keeper; `secret` is what it reads from its standard input."""
        self.attempt = attempt
        self.folder = run_dir / "attempts" / str(attempt)
        self._killed_at: float | None = None
        log = open_to_append(self.folder / "slurm.log")
        said = os.memfd_create("secrets")
        try:
            os.write(said, secret)
            os.lseek(said, 0, os.SEEK_SET)
            argv = [sys.executable, "-P", "-m", "mission_tui.keeper", str(run_dir), str(attempt), *words]
            self.keeper = subprocess.Popen(argv, stdin=said, stdout=log, stderr=log, env=environ, cwd=run_dir)
        finally:
            os.close(log)
            os.close(said)

    def tell(self, number: signal.Signals) -> None:
        """Hand on what the engine said."""
        if self.keeper.poll() is None:
            self.keeper.send_signal(number)

    def has_ended(self) -> bool:
        """Whether its keeper is gone; one that does not carry out a kill is killed, with all that it started."""
        if self.keeper.poll() is not None:
            return True
        if signal_in(self.folder / "signal") == signal.SIGQUIT:
            self._killed_at = self._killed_at or time.monotonic()
            if time.monotonic() - self._killed_at > KILL_S:
                for process in descendants(self.keeper.pid):
                    send(process, signal.SIGKILL)
                self.keeper.kill()
        return False

    def settle(self) -> None:
        """End what a keeper that was killed has left, and record how the attempt ended where no keeper will."""
        swept = self._sweep()
        if (self.folder / "exit.json").exists():
            return
        code = self.keeper.returncode
        if (self.folder / "identity.json").exists():
            if self._kept_by() != self.keeper.pid:
                return  # Another job has it.
            ended = f"its keeper was ended by signal {-code}" if code < 0 else f"its keeper ended with exit code {code}"
            record = exit_record(self.attempt, signal=int(signal.SIGKILL), swept=swept, last_output=ended)
        elif (self.folder / "signal").exists():
            record = exit_record(self.attempt, start_error="it was asked to end before it had begun")
        else:
            said = _last_words(self.folder / "slurm.log") or f"its keeper ended with exit code {code}"
            record = exit_record(self.attempt, start_error=said)
        write_with_retries(self.folder / "exit.json", record)

    def _sweep(self) -> list[int]:
        """SIGKILL whoever is left of the keeper's session; orphans became children of this process."""
        swept: list[int] = []
        deadline = time.monotonic() + SWEEP_S
        while (left := self._left()) and time.monotonic() < deadline:
            swept += [process.pid for process in left if send(process, signal.SIGKILL) and process.pid not in swept]
            signal.sigtimedwait([signal.SIGCHLD], 0.05)
            for process in left:
                with suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
        return swept

    def _left(self) -> list[Stat]:
        return [
            process
            for process in descendants(os.getpid())
            if process.session == self.keeper.pid and process.state not in "ZX"
        ]

    def _kept_by(self) -> int | None:
        with suppress(OSError, ValueError, KeyError, TypeError):
            return int(json.loads(read_plain(self.folder / "identity.json", PACK_BYTES))["keeper"]["pid"])
        return None


def main() -> int:
    """Carry the runs until the last of them has ended; 75 if one is to go on in another job."""
    folder, words = Path(sys.argv[1]), [word for word in sys.argv[2:] if not word.startswith(SEALED)]
    sealed = [word for word in sys.argv[2:] if word.startswith(SEALED)]
    call_process("pack", folder.name, str(folder), brief="pack")
    named = json.loads(read_plain(folder / "pack.json", PACK_BYTES))["attempts"]
    block_signals()
    become_subreaper()
    secrets = [os.environ.pop(f"MISSION_TUI_SECRETS_{place}", "").encode() for place in range(len(named))]
    members = []
    for place, (entry, secret) in enumerate(zip(named, secrets, strict=True)):
        try:
            more = [*sealed[place : place + 1], *words]
            members.append(Member(Path(entry["run_dir"]), int(entry["attempt"]), more, _environ(place), secret))
        except OSError as error:
            # A run that was removed while the job waited is nobody's reason to end the others.
            sys.stderr.write(f"mission-tui: {entry['run_dir']} is not kept: {error}\n")
    alive = list(members)
    while alive:
        arrived = next_signal(TICK_S)
        if arrived is not None and arrived != signal.SIGCHLD:
            for member in alive:
                member.tell(arrived)
        for member in [member for member in alive if member.has_ended()]:
            alive.remove(member)
            member.settle()
    codes = [member.keeper.returncode for member in members]
    return EX_RESUMABLE if EX_RESUMABLE in codes else int(any(codes))


def _environ(place: int) -> dict[str, str]:
    """The environment of a keeper. Of several GPUs that the job has, each run sees one, in turns."""
    environ = dict(os.environ)
    gpus = [gpu for gpu in environ.get(VISIBLE, "").split(",") if gpu]
    if len(gpus) > 1:
        environ[VISIBLE] = gpus[place % len(gpus)]
    return environ


def _last_words(log: Path) -> str:
    with suppress(OSError):
        lines = read_plain(log, PACK_BYTES)[-LAST_WORDS_BYTES:].decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
    return ""


if __name__ == "__main__":
    sys.exit(main())
