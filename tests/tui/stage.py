"""Puts the screen on a stage: a fake supervisor, a clock that only tests move, fixed presets, and readable screens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from textual._compositor import Compositor
from textual.pilot import Pilot
from textual.screen import Screen

from mission_tui.fleet.process_limits import ProcessLimits
from mission_tui.fleet.specs.assignment import expand
from mission_tui.fleet.specs.preset import as_tables, read_preset
from mission_tui.fleet.specs.preset import resolve as resolve_preset
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.ipc.client_environment import Origin
from mission_tui.tui.app import MissionApp
from mission_tui.tui.state.presets import PresetChoice
from tests.tui.fake_client import FakeClient, a_spec
from tests.tui.fleets import a_fleet
from tests.tui.quiet import wait_at_the_loop
from tests.tui.stylesheets import share_rules

share_rules()
wait_at_the_loop()

PRESETS = (
    PresetChoice("demo", "MissionGym, about two minutes", "1"),
    PresetChoice("fast", "CartPole until solved", "2"),
    PresetChoice("heavy", "32 fields, 27M steps", "3"),
    PresetChoice("beast", "64 fields, wide nets", "4"),
    PresetChoice("trio", "large batch, wide and deep at once", "P", ("large-batch", "wide", "deep")),
)
_TURNS = 25
UTF8 = {"LANG": "C.UTF-8", "HOME": "/home/ada"}


class Clock:
    """Monotonic seconds that stand still until a test moves them."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


def resolve(name: str, words: Sequence[str]) -> list[Spec]:
    """One spec for every combination of the words, over those of `a_spec`; `shipped:` is no part of a preset's name."""
    name = name.rpartition(":")[2]
    tables = {table: it for table, it in as_tables(a_spec(name)).items() if table in ("env", "ppo", "run")}
    preset = read_preset(tables, Path(f"/home/ada/lab/presets/{name}.toml"))
    return [resolve_preset(preset, lambda _: preset, assignments) for assignments in expand(words)]


class Stage:
    """A running screen with what a test needs to play on it."""

    def __init__(self, app: MissionApp, client: FakeClient, clock: Clock, pilot: Pilot[int]) -> None:
        self.app = app
        self.client = client
        self.clock = clock
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        """Press keys and let what they start be done."""
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def until(self, true: Callable[[], object], what: str = "") -> None:
        """Let the screen work until `true`; fail after half a minute."""
        deadline = time.monotonic() + 30
        while not true():
            assert time.monotonic() < deadline, f"not within 30 s: {what or true}\n{self.text()}"
            await asyncio.sleep(0.01)
            await self.pilot.pause()

    async def still(self) -> None:
        """Let the screen work until its picture no longer changes: a layout takes more than one turn of the loop."""
        pictures: list[str] = []

        def unchanged() -> bool:
            pictures.append(self.text())
            return len(pictures) > 4 and len(set(pictures[-4:])) == 1

        await self.until(unchanged, "a still picture")

    async def shows(self, text: str) -> None:
        """Wait until `text` is on the screen."""
        await self.until(lambda: text in self.text(), f"{text!r} on the screen")

    def lines(self) -> list[str]:
        """The screen as it is painted, one string a line."""
        return ["".join(segment.text for segment in strip) for strip in self.app.screen._compositor.render_strips()]

    def text(self) -> str:
        """The whole screen, and the toasts on it."""
        return "\n".join(self.lines())

    def toasts(self) -> list[str]:
        """The messages of all toasts that are up."""
        return [notification.message for notification in self.app._notifications]

    @property
    def screen(self) -> Screen[Any]:
        """The screen on top."""
        return self.app.screen

    async def arrive(self, snapshot: FleetSnapshot) -> None:
        """Let the supervisor send `snapshot` and wait until it is drawn."""
        self.clock.advance(10)
        self.client.show(snapshot)
        await self.until(lambda: self.app.app_context.snapshot == snapshot, "the snapshot is drawn")
        await self.pilot.pause()


@contextmanager
def hurried() -> Iterator[None]:
    """A pilot that goes on when its messages have gone through, not when the processor has been idle for a while.

    For campaigns of many thousand keys: what a key starts may be drawn a key later.
    """

    async def turns(*_wait: object) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    with mock.patch("textual.app.wait_for_idle", turns), mock.patch("textual.pilot.wait_for_idle", turns):
        yield


@contextmanager
def unpainted() -> Iterator[None]:
    """A screen that paints nothing by itself, only what a test reads of it: Pilot has no terminal, and throws it away.

    For bursts that are played again and again, each sheet of which was painted once before.
    """

    def clean(compositor: Compositor, *_how: object, **_more: object) -> None:
        compositor._dirty_regions.clear()

    with mock.patch.object(Compositor, "render_update", clean):
        yield


def make_app(client: FakeClient, clock: Clock, **options: Any) -> MissionApp:
    """The application with everything around it faked."""
    options = {"environ": UTF8} | options
    origin = Origin(cwd="/home/ada/lab", python="/usr/bin/python3", environ={"PATH": "/bin"}, limits=ProcessLimits())
    presets = options.pop("presets", PRESETS)
    return MissionApp(client, lambda: presets, resolve, origin, clock=clock, **options)


@asynccontextmanager
async def staged(
    snapshot: FleetSnapshot | None = None, size: tuple[int, int] = (80, 24), **options: Any
) -> AsyncIterator[Stage]:
    """The screen, drawn, with presets read."""
    client, clock = FakeClient(snapshot if snapshot is not None else a_fleet()), Clock()
    app = make_app(client, clock, **options)
    async with app.run_test(size=size, notifications=True) as pilot:
        stage = Stage(app, client, clock, pilot)
        await stage.until(lambda: app.app_context.snapshot is not None and app.app_context.presets, "first picture")
        await stage.still()
        yield stage
