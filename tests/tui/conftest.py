"""What tests of the screen share: a time zone that does not depend on the machine, and a collector that waits."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from mission_tui.tui.textual_fixes.memory import ClosedScreens


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times of day on the screen are those of UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def collected_at_once() -> None:
    """For tests of what is collected; asked for before `collected_later` looks."""


@pytest.fixture(autouse=True)
def collected_later(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What closed screens leave waits for the collector's own time: looking through a test process after each of them
    is an eighth of what the tests of the screen take, and none goes on for a day.
    """
    if "collected_at_once" not in request.fixturenames:
        monkeypatch.setattr(ClosedScreens, "_collect", lambda screens: setattr(screens, "_due", False))
