"""The keeper of an overtaken attempt: it starts nothing, and what it started it ends."""

from __future__ import annotations

import subprocess
import sys

from mission_tui.fence import fence_document
from tests.keeper.conftest import CHECKOUT, KeptRun, alive
from tests.waiting import until

QUICK = (
    "import mission_tui.fence as f, sys; f.FENCE_S = 0.2\nimport mission_tui.keeper.__main__ as m; sys.exit(m.main())"
)


def test_an_overtaken_attempt_is_not_started(kept: KeptRun) -> None:
    """Its job waited in a queue while another attempt was begun: exit code 75, with the reason on record."""
    kept.order("ready()")
    kept.run.fence.write_bytes(fence_document(2, "x"))
    kept.keep()
    ended = kept.ended(code=75)
    assert "the run goes on as attempt 2" in (ended.start_error or "")
    assert not (kept.run.path / "ready").exists()


def test_a_deaf_trainer_is_ended_once_it_is_overtaken(kept: KeptRun) -> None:
    """A command, or a trainer that hangs, asks nobody: its keeper ends it with all that it started."""
    folder = kept.order(
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        helper = os.fork()
        if not helper:
            os.setsid()
            wait_for_ever()
        ready(os.getpid(), helper)
        wait_for_ever()
        """
    )
    words = [sys.executable, "-c", QUICK, str(kept.run.path), "1"]
    kept.keepers.append(subprocess.Popen(words, cwd=CHECKOUT, start_new_session=True, stdin=subprocess.DEVNULL))
    until(lambda: (kept.run.path / "ready").exists() and folder.identity.exists())
    pids = kept.told_pids()
    kept.run.fence.write_bytes(fence_document(2, "x"))
    ended = kept.ended(code=75)
    assert ended.signal == 9
    assert not any(alive(pid) for pid in pids)
