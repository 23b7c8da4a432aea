"""Waiting for a condition with a deadline: the only way a test waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LONGEST_PAUSE_S = 0.1
"""Asking takes the core of whoever is waited for: what takes long is asked about less often."""


def until(predicate: Callable[[], T], timeout_s: float = 20.0, what: str = "") -> T:
    """The first truthy value of `predicate` within `timeout_s`; fails the test otherwise."""
    pause_s = 0.01
    deadline = time.monotonic() + timeout_s
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what or predicate}")
        time.sleep(pause_s)
        pause_s = min(1.25 * pause_s, LONGEST_PAUSE_S)
