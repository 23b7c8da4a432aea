"""Pictures as files: what stands on the screen, the chart as lines, always new files, and names that are only names."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec import structs

from mission_tui.errors import MissionError
from mission_tui.fleet.process_limits import ProcessLimits
from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.ipc.client_environment import Origin
from mission_tui.ipc.replies import Progress
from mission_tui.ipc.requests import Answer, AnsweredBy, GetDetails, GetSnapshot
from mission_tui.tui.plot.picture_file import (
    GROUND,
    WIDTH,
    PngSurface,
    SvgSurface,
    draw_charts,
    draw_screen,
    fonts_folder,
    height_of,
    panels_of,
    size_of,
    write_fresh,
)
from mission_tui.tui.session import draw_once
from mission_tui.tui.state.preferences import AXIS_SCALES, AxisScale, ChartSettings
from mission_tui.tui.textual_fixes.screen_cells import Cells
from tests.tui.fake_client import FakeClient
from tests.tui.fleets import LIVE, a_fleet
from tests.tui.stage import PRESETS, Stage, staged
from tests.tui.test_plot import KL, RETURN, a_content, a_history

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "x</text><script>alert(1)</script>\x1b]0;t\x07&\u202e"


def texts(svg: bytes) -> list[str]:
    """The words of a picture, which loads and runs nothing."""
    root = ElementTree.fromstring(svg)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "style", "rect", "path", "polygon", "polyline", "text",
    }  # fmt: skip
    assert "url(" not in svg.decode()
    assert "href" not in svg.decode()
    return [text.text or "" for text in root.iter(f"{SVG}text")]


def saved_in(folder: Path) -> list[Path]:
    """The pictures there."""
    return sorted(folder.iterdir())


def at_home(stage: Stage, folder: Path) -> None:
    """The screen was started in `folder`."""
    stage.app.app_context.origin = Origin(**{**stage.app.app_context.origin, "cwd": str(folder)})


class Training(FakeClient):
    """Runs that train: something of the list is another with every snapshot, and details are slow to come."""

    async def watch(self) -> AsyncIterator[FleetSnapshot]:
        for step in itertools.count(1):
            runs = tuple(structs.replace(run, timesteps=100_000 * step) for run in self.snapshot.runs)
            yield structs.replace(self.snapshot, runs=runs)
            await asyncio.sleep(0.1)

    async def stream(self, make: Callable[[int], AnsweredBy[Answer]]) -> AsyncIterator[Answer | Progress]:
        if isinstance(make(0), GetDetails):
            await asyncio.sleep(0.8)
        async for reply in super().stream(make):
            yield reply


@pytest.mark.parametrize("view", [None, "config", "machine"])
def test_a_screen_beside_runs_that_train_is_drawn_once_it_has_what_it_shows(view: str | None) -> None:
    """Its numbers never stand still, so that is not waited for; what was asked for is."""
    client, begun = Training(a_fleet(LIVE)), time.monotonic()
    runs = LIVE[:1] if view == "config" else ()
    origin = Origin(cwd="/home/ada/lab", python="/usr/bin/python3", environ={}, limits=ProcessLimits())
    svg = draw_once(client, lambda: PRESETS, origin, "svg", (120, 40), runs, view, readonly=True)
    assert time.monotonic() - begun < 5.0
    shown = {None: "live", "config": "learning_rate", "machine": "GPU"}[view]
    assert any(shown in text for text in texts(svg)), texts(svg)
    assert client.asked_for(GetSnapshot), "the meters are not those of some time ago"


@pytest.mark.parametrize("key", ["n", "question_mark", "x", "S", "K", "M"])
async def test_f12_saves_a_sheet_too(key: str, tmp_path: Path) -> None:
    """Whatever is laid over the screen, also where text is typed."""
    async with staged() as stage:
        at_home(stage, tmp_path)
        stage.app.app_context.toast("something that M lists")
        await stage.press(key)
        await stage.until(lambda: len(stage.app.screen_stack) == 2, "the sheet")
        await stage.press("f12")
        await stage.until(lambda: saved_in(tmp_path), "the file")
        assert len(stage.app.screen_stack) == 2


async def test_f12_saves_the_screen_with_every_word_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file that is new, in the folder where the screen was started; its name is told. Names are only names."""
    monkeypatch.setattr("mission_tui.tui.plot.picture_file.fonts_folder", lambda: None)
    hostile = structs.replace(LIVE[0], name=HOSTILE)
    async with staged(a_fleet((hostile, *LIVE[1:])), size=(100, 30)) as stage:
        at_home(stage, tmp_path)
        await stage.press("f12")
        await stage.until(lambda: saved_in(tmp_path))
        await stage.shows("saved")
        (path,) = saved_in(tmp_path)
        assert re.fullmatch(r"mission-tui-screen-\d{8}-\d{6}\.svg", path.name)
        said = " ".join(texts(path.read_bytes()))
        for word in (LIVE[1].name, "mission-tui"):
            assert word in said
        assert "</text><script>" in said
        assert "extra `report`" in stage.text()


@pytest.mark.parametrize("keys", [("f12",), ("enter", "ctrl+s")])
async def test_who_looks_at_a_served_screen_saves_no_files(
    keys: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be left on the machine that serves it, by anybody who has the address."""
    monkeypatch.setenv("MISSION_TUI_SERVED", "1")
    async with staged(readonly=True) as stage:
        at_home(stage, tmp_path)
        await stage.press(*keys[:-1])
        await stage.still()
        await stage.press(keys[-1])
        await stage.until(lambda: any("saves no pictures" in toast for toast in stage.toasts()))
        assert saved_in(tmp_path) == []


async def test_ctrl_s_saves_the_charts_of_a_run_as_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no chart is shown it says which key shows one, and writes nothing."""
    monkeypatch.setattr("mission_tui.tui.plot.picture_file.fonts_folder", lambda: None)
    async with staged() as stage:
        at_home(stage, tmp_path)
        await stage.press("enter")
        await stage.shows("return over timesteps")
        await stage.press("ctrl+s")
        await stage.until(lambda: saved_in(tmp_path))
        (path,) = saved_in(tmp_path)
        assert path.name.startswith(f"mission-tui-chart-{LIVE[0].name}-")
        assert any("mean episode return" in word for word in texts(path.read_bytes()))
        assert b"<polyline" in path.read_bytes()
        await stage.press("l", "ctrl+s")
        await stage.shows("no chart is shown here")
        assert saved_in(tmp_path) == [path]


@pytest.mark.parametrize("kind", AXIS_SCALES)
def test_a_chart_is_drawn_with_its_axes_and_names(kind: AxisScale) -> None:
    """Several curves by letter and colour, with gaps, on every scale; all that is drawn lies within the picture."""
    settings = ChartSettings(pinned={RETURN: 0, KL: 1}, scale=kind)
    histories = a_history(RETURN, (1.0, "nan", 3.0, 4e5, -2.0, 1.0)), a_history(KL, (0.01, 0.02, 0.03, 0.01, 0.5, 0.1))
    panels = panels_of([a_content(settings, *histories)])
    surface = SvgSurface(WIDTH, height_of(len(panels)), GROUND)
    draw_charts(surface, HOSTILE, panels)
    words = texts(surface.data())
    assert words[0] == "x</text><script>alert(1)</script>&"
    named = [word.partition(":")[0] for word in words if ": " in word]
    assert named == ["mean episode return (A, left)", "approximate KL (nats) (B, right)"]
    assert "timesteps" in words
    lines = re.findall(r'points="([^"]+)"', surface.data().decode())
    assert all(-1 <= float(place) <= WIDTH for line in lines for place in re.split("[ ,]", line))


def test_dots_and_blocks_are_drawn_and_not_written() -> None:
    """No font decides how a curve looks; letters stay letters, each piece at its column."""
    rows = [[Cells("a ⣿█", "#ffffff", "#000000"), Cells("界b", "#ff0000", "#00ff00", bold=True)]]
    surface = SvgSurface(*size_of(rows), "#000000")
    draw_screen(surface, rows, "#000000")
    drawn = surface.data().decode()
    assert texts(surface.data()) == ["a", "界b"]
    assert size_of(rows) == (7 * 8.0, 16.0)
    assert len(re.findall(r"M[\d.]+ ", drawn)) == 1 + 8 + 1
    assert 'textLength="24"' in drawn


def test_the_same_is_a_png_where_pillow_and_fonts_are() -> None:
    """Three pixels a unit."""
    fonts = fonts_folder()
    if fonts is None:
        pytest.skip("the extra `report` is not installed")
    rows = [[Cells("a ⣿", "#ffffff", "#000000")]]
    surface = PngSurface(*size_of(rows), "#000000", fonts)
    draw_screen(surface, rows, "#000000")
    panels = panels_of([a_content(ChartSettings(), a_history())])
    draw_charts(PngSurface(WIDTH, height_of(len(panels)), GROUND, fonts), "x", panels)
    data = surface.data()
    assert data.startswith(b"\x89PNG")
    assert (int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")) == (72, 48)


def test_a_picture_never_replaces_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a part of one left where the disk is full."""
    path = tmp_path / "a.svg"
    write_fresh(path, b"1")
    with pytest.raises(MissionError, match="cannot be written"):
        write_fresh(path, b"2")
    assert path.read_bytes() == b"1"

    def full(*_: object) -> object:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mission_tui.tui.plot.picture_file.os.fdopen", full)
    with pytest.raises(MissionError, match="No space left"):
        write_fresh(tmp_path / "b.svg", b"2")
    assert not (tmp_path / "b.svg").exists()
