"""In a new checkout one worker of pytest-xdist makes the bytecode of the test modules, and the others find it."""

from __future__ import annotations

import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier

from _pytest.assertion import rewrite

from tests.conftest import are_compiled, first_alone


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


def test_nobody_waits_for_what_was_compiled_before(tmp_path: Path) -> None:
    """A module that was changed since counts as one that was never compiled; one of many is no reason to wait."""
    modules = [tmp_path / f"test_{number}.py" for number in range(20)]
    for module in modules:
        module.write_text("")
    assert not are_compiled(modules)
    made = rewrite.get_cache_dir(tmp_path / "test_0.py")
    made.mkdir()
    for module in modules:
        (made / f"{module.stem}{rewrite.PYC_TAIL}").write_bytes(b"")
    assert are_compiled(modules)
    later = modules[0].stat().st_mtime + 10
    os.utime(modules[0], (later, later))
    assert are_compiled(modules)
    for module in modules:
        os.utime(module, (later, later))
    assert not are_compiled(modules)
