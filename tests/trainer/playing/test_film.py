"""Films: the episodes of an evaluation, side by side, whatever the environment draws; no file before it is whole."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mission_tui.errors import PresetError
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.playing import film
from mission_tui.trainer.playing.film import Caption, FrameLayout, Lettering, check_packages
from tests.trainer.harness import PROBES
from tests.trainer.playing.test_evaluate import BRIEF, evaluated, trained

needs_film = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in film.PACKAGES[".mp4"]),
    reason="needs the extra: pip install '.[film]'",
)


def filmed(run_dir: RunDir, out: Path, names: str, capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The last line that the process says."""
    capfd.readouterr()
    film.main([str(run_dir.path), "--checkpoints", names, "--out", str(out), *words])
    said: dict[str, Any] = json.loads(capfd.readouterr().out.splitlines()[-1])
    return said


def test_without_the_extra_its_install_line_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is played; Pillow by the name under which it is installed."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PresetError, match=r"a film needs Pillow and imageio_ffmpeg; .*pip install .*\[film\]"):
        check_packages(["PIL", "imageio_ffmpeg"])


@needs_film
def test_characters_are_drawn_where_they_stand() -> None:
    """Blocks and Braille dots fill their part of a cell; colours are those of the text, and other escapes vanish."""
    letters = Lettering()
    page = letters.page("\x1b[41m \x1b[0m█\x1b]0;title\x07\n⠁▀")
    cells = page.reshape(2, letters.height, -1, letters.width, 3).transpose(0, 2, 1, 3, 4)
    red, full, dot, upper = cells[0, 0], cells[0, 1], cells[1, 0], cells[1, 1]
    assert (red[..., 0].min() > 100, red[..., 1].max() < 50) == (True, True)
    assert full.min() > 200
    assert dot[:2, :2].min() > 200 > 50 > dot[-2:].max()
    assert upper[: letters.height // 2].min() > 200 > 50 > upper[-2:].max()
    assert page.shape[:2] == (2 * letters.height, 2 * letters.width)


@needs_film
@pytest.mark.parametrize("many", [1, 2, 5, 12])
def test_every_frame_is_as_large_as_the_first(many: int) -> None:
    """Pictures of any size fit into a film of one even size, which is wide enough for four side by side."""
    sheet = FrameLayout(Lettering(), "a run with a name that is too long for any film " * 9, many)
    pictures = [np.full((30 + 400 * at, 40, 3), 200, dtype=np.uint8) for at in range(many)]
    first = sheet.compose(pictures, [Caption("above", "below")] * many)
    other = sheet.compose([np.full((900, 900, 3), 90, dtype=np.uint8)] * many, [Caption("above", "x" * 500)] * many)
    assert first.shape == other.shape
    assert (first.shape[0] % 2, first.shape[1] % 2, first.shape[1] < 1000) == (0, 0, True)


@needs_film
@pytest.mark.slow
@pytest.mark.timeout(150)
def test_it_films_the_episodes_that_an_evaluation_plays(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As GIF, WebP and MP4: same seed, same return and length, a frame a step and a moment at the end; a caption for
    each checkpoint. What can not be written, or is no checkpoint, leaves nothing.
    """
    often = {"checkpoint": {"every_steps": 128}}
    run_dir, name = trained(tmp_path / "run", run=BRIEF | {"total_timesteps": 256}, keep=often)
    first, *_, last = sorted(path.name for path in run_dir.checkpoints.iterdir() if path.name.isdigit())
    assert last == name
    played = evaluated(run_dir, name, capfd, "--episodes", "1", "--seed", "7")
    out = tmp_path / "growth.gif"
    result = filmed(run_dir, out, f"{first},{name}", capfd, "--seed", "6", "--episodes", "2", "--fps", "20")["result"]
    assert (result["path"], result["bytes"]) == (str(out), out.stat().st_size)
    takes = result["episodes"]
    assert [(take["checkpoint"], take["seed"]) for take in takes] == [(first, 6), (name, 6), (first, 7), (name, 7)]
    assert (takes[3]["episode_return"], takes[3]["steps"]) == (played["mean"], played["lengths"]["mean"])
    longest = max(take["steps"] for take in takes[:2]), max(take["steps"] for take in takes[2:])
    assert (result["frames"], result["steps_a_frame"]) == (sum(longest) + 2 * 25, 1)
    assert out.read_bytes().startswith(b"GIF89a")
    for kind, place, magic in ((".webp", 8, b"WEBP"), (".mp4", 4, b"ftyp")):
        out = tmp_path / f"growth{kind}"
        assert filmed(run_dir, out, name, capfd, "--seed", "7")["result"]["bytes"] == out.stat().st_size
        assert out.read_bytes()[place:].startswith(magic)
    refused = filmed(run_dir, tmp_path / "no.gif", "000000001", capfd)
    assert "000000001" in refused["error"]
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file") in filmed(run_dir, tmp_path / "file" / "no.gif", name, capfd)["error"]
    assert {path.suffix for path in tmp_path.iterdir()} == {"", ".gif", ".webp", ".mp4"}


@needs_film
@pytest.mark.slow
def test_what_draws_nothing_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """By the modes that it lacks, and no file is made."""
    run_dir, name = trained(tmp_path / "run", env={"id": "Walk-v0", **PROBES}, run=BRIEF)
    said = filmed(run_dir, tmp_path / "no.gif", name, capfd)
    assert "nothing to film: 'Walk-v0' draws neither text (ansi) nor frames (rgb_array)" in said["error"]
    assert not (tmp_path / "no.gif").exists()
