"""In a new checkout one worker of pytest-xdist makes the bytecode of the test modules, and the others find it."""

from __future__ import annotations

import fcntl
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier

from tests.conftest import first_alone


def is_alone(folder: Path) -> bool:
    """Whether another worker would have to wait."""
    with (folder / "collecting").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_the_first_collects_alone_and_the_others_together(tmp_path: Path) -> None:
    """Who ends without having collected leaves its place to the next."""
    with suppress(OSError), first_alone(tmp_path):
        assert is_alone(tmp_path)
        raise OSError
    with first_alone(tmp_path):
        assert is_alone(tmp_path)
    all_in = Barrier(2)

    def collect() -> None:
        with first_alone(tmp_path):
            all_in.wait(20)

    with ThreadPoolExecutor(2) as pool:
        for worker in [pool.submit(collect), pool.submit(collect)]:
            worker.result()
    with first_alone(tmp_path):
        assert not is_alone(tmp_path)
