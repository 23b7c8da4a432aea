"""Showing an episode: the one that an evaluation would play, drawn as text; pixels become half blocks."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mission_tui.envs import mission_files
from mission_tui.fleet.views.played_frame import Canvas, is_sound
from mission_tui.records.runs.code_files import write_rules
from mission_tui.trainer.playing import show
from mission_tui.trainer.playing.show import half_blocks, pixels_of
from tests.trainer.harness import PROBES
from tests.trainer.playing.test_evaluate import BRIEF, evaluated, trained

FAST = '{"fps": 1000}'


def shown(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and lines of the process."""
    capfd.readouterr()
    code = show.main([*words, "--canvas", FAST])
    return code, [json.loads(line) for line in capfd.readouterr().out.splitlines()]


@pytest.mark.slow
def test_it_is_the_episode_that_an_evaluation_plays(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A picture for every step, return, length and outcome as evaluated with that seed, and nothing is written."""
    mission = {"id": "MissionGym-v0", "config": "demo", "vec": "native"}
    run_dir, name = trained(tmp_path / "run", env=mission, run=BRIEF)
    write_rules(run_dir.snapshot, {file.name: file.read_bytes() for file in mission_files("demo")})
    before = sorted(run_dir.path.rglob("*"))
    code, lines = shown(capfd, str(run_dir.path), "--checkpoint", name, "--seed", "7")
    assert code == 0
    result = lines[-1]["result"]
    assert [line["step"] for line in lines[:-1]] == list(range(result["steps"]))
    assert "capture" in lines[0]["frame"]
    assert lines[0]["frame"] != lines[5]["frame"]
    assert sorted(run_dir.path.rglob("*")) == before
    played = evaluated(run_dir, name, capfd, "--episodes", "1", "--seed", "7")
    assert (result["return"], result["steps"]) == (played["mean"], played["lengths"]["mean"])
    assert list(played["outcomes"]) == [result["outcome"]]
    (run_dir.snapshot / "rules.toml").write_bytes(b"edited")
    code, lines = shown(capfd, str(run_dir.path), "--checkpoint", name)
    assert (code, "has changed since the run was trained" in lines[-1]["error"]) == (1, True)


def test_what_has_a_state_to_draw_needs_no_package_for_pixels(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CartPole without pygame: a cart and its pole in characters, another picture each step."""
    monkeypatch.setitem(sys.modules, "pygame", None)
    run_dir, name = trained(tmp_path / "run", run=BRIEF)
    code, lines = shown(capfd, str(run_dir.path), "--checkpoint", name)
    assert (code, lines[-1]["result"]["mode"]) == (0, "state")
    assert "pole +" in lines[0]["frame"] or "pole -" in lines[0]["frame"]
    assert len({line["frame"] for line in lines[:-1]}) > 1


def test_an_environment_that_draws_nothing_is_refused_by_its_modes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The sentence names what it has."""
    run_dir, name = trained(tmp_path / "run", env={"id": "Walk-v0", **PROBES}, run=BRIEF)
    code, lines = shown(capfd, str(run_dir.path), "--checkpoint", name)
    assert code == 78
    sentence = "'Walk-v0' draws neither text (ansi) nor frames (rgb_array): its render modes are none"
    assert lines[-1]["error"] == sentence


@pytest.mark.parametrize("colours", [3, 4000])
def test_a_frame_is_a_png_that_others_read(colours: int) -> None:
    """Few colours as places in a palette, which is small; many as they are. It is made smaller, never larger."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed: pip install -e '.[film]'")
    chance = np.random.default_rng(1)
    palette = chance.integers(0, 256, (colours, 3)).astype(np.uint8)
    frame = palette[chance.integers(0, colours, (40, 60))]
    made = pixels_of(frame, Canvas(columns=60, lines=30, cell=(10, 20)))
    assert ((made.width, made.height), is_sound(made)) == ((60, 40), True)
    read = np.asarray(image.open(io.BytesIO(made.png)).convert("RGB"))
    np.testing.assert_array_equal(read, frame)
    small = pixels_of(frame, Canvas(columns=3, lines=30, cell=(10, 20)))
    assert image.open(io.BytesIO(small.png)).size == (small.width, small.height) == (30, 20)


def _read_sixels(said: str) -> tuple[np.ndarray, dict[int, tuple[int, ...]]]:
    """The picture as places in a palette, and that, in percent."""
    width, height = map(int, re.match(r'"1;1;(\d+);(\d+)', said).groups())  # type: ignore[union-attr]
    colours = {int(at): tuple(map(int, rgb.split(";"))) for at, rgb in re.findall(r"#(\d+);2;(\d+;\d+;\d+)", said)}
    body = re.sub(r'^"[\d;]+|#\d+;2;\d+;\d+;\d+', "", said)
    drawn = np.full((height + 6, width), -1)
    for band, layers in enumerate(body.split("-")):
        for layer in layers.split("$"):
            colour, runs = re.match(r"#(\d+)(.*)", layer).groups()  # type: ignore[union-attr]
            x = 0
            for many, char in re.findall(r"(?:!(\d+))?([?-~])", runs):
                for _ in range(int(many or 1)):
                    for bit in range(6):
                        if ord(char) - 63 >> bit & 1:
                            drawn[6 * band + bit, x] = int(colour)
                    x += 1
    return drawn[:height], colours


def test_frames_become_sixels() -> None:
    """Every pixel in its own colour, twice as large where there is room; of too many colours the nearest of 256."""
    chance = np.random.default_rng(1)
    palette = chance.integers(0, 256, (9, 3)).astype(np.uint8)
    frame = palette[chance.integers(0, 9, (10, 15))]
    frame[3:] = palette[2]
    made = pixels_of(frame, Canvas(columns=3, lines=2, cell=(10, 10), pixels="sixel"))
    assert ((made.width, made.height), made.png, is_sound(made)) == ((30, 20), b"", True)
    drawn, colours = _read_sixels(made.sixels)
    read = np.array([[colours[it] for it in row] for row in drawn.tolist()])
    np.testing.assert_allclose(read, frame.repeat(2, axis=0).repeat(2, axis=1) * (100 / 255), atol=1)
    noisy = chance.integers(0, 256, (40, 60, 3)).astype(np.uint8)
    drawn, colours = _read_sixels(pixels_of(noisy, Canvas(columns=6, lines=4, cell=(10, 10), pixels="sixel")).sixels)
    read = np.array([[colours[it] for it in row] for row in drawn.tolist()])
    assert np.abs(read - noisy * (100 / 255)).max() < 34


def test_pixels_become_half_blocks() -> None:
    """Two pixels a cell in their own colours, said only where they change; without colours a shade, ground blank."""
    frame = np.zeros((4, 4, 3), dtype=np.uint8)
    frame[:2, :2] = (255, 0, 0)
    frame[2:] = (0, 0, 255)
    full = half_blocks(frame, Canvas(columns=2, lines=1, colours="full"))
    assert full == "\x1b[38;2;255;0;0;48;2;0;0;255m▀\x1b[38;2;0;0;0m▀"
    assert half_blocks(frame, Canvas(columns=2, lines=1, colours="256")).startswith("\x1b[38;5;196;48;5;21m▀")
    light = np.full((40, 40, 3), 255, dtype=np.uint8)
    light[16:24, 16:24] = 0
    drawn = half_blocks(light, Canvas(columns=10, lines=5)).split("\n")
    assert [line.strip() for line in drawn] == ["", "", "@@", "", ""]
    sizes = half_blocks(np.zeros((210, 160, 3), dtype=np.uint8), Canvas(columns=80, lines=23, colours="full"))
    assert [line.count("▀") for line in sizes.split("\n")] == [35] * 23
