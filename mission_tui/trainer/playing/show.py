"""``python -m mission_tui.trainer.playing.show RUN_DIR --checkpoint NAME``: one episode as pictures, JSON lines.

It is played as an evaluation is: by the run's snapshot, with its statistics frozen. Pictures come at a pace that a
person can follow, and nothing is recorded. They are text, or sixels where the terminal knows these: the picture
language of VT340, six rows at a time, colour by colour (https://vt100.net/docs/vt3xx-gp/chapter14.html).
"""

from __future__ import annotations

import argparse
import struct
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import structs
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from mission_tui.envs.state_pictures import can_draw, picture_of_state
from mission_tui.errors import PresetError, raised_by
from mission_tui.fleet.specs.spec import EnvSpec, Spec
from mission_tui.fleet.views.played_frame import Canvas, PixelPicture
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.failures import EnvError
from mission_tui.trainer.playing.evaluate import actor, subject
from mission_tui.trainer.process import Say, answer, cap_threads, lower_priority
from mission_tui.trainer.torch_compiler import use_plain_optimizers
from mission_tui.trainer.vec_env import build_vec_env
from mission_tui.trainer.vec_env.build import EnvMaker
from mission_tui.trainer.vec_env.episodes import outcome_of

_MODES = ("ansi", "rgb_array")
"""What can be drawn in a terminal, the better one first."""
_UPPER = "▀"
_PNG_UP, _PNG_RGB, _PNG_INDEXED = 2, 2, 3
"""The PNG filter of a line that is written as what differs from the one above, and kinds of colours."""
_SHADES = " .:-=+*#%@"
_LUMA = (0.299, 0.587, 0.114)
"""ITU-R BT.601."""

Frame = NDArray[np.uint8]


def main(arguments: list[str] | None = None) -> int:
    """Show; returns the exit code."""
    parser = argparse.ArgumentParser(prog="mission_tui.trainer.playing.show", description="Show an episode.")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--seed", type=int, default=10_000)
    parser.add_argument("--stochastic", action="store_true")
    parser.add_argument("--policy", choices=("trained", "random"), default="trained")
    parser.add_argument("--canvas", default="{}")
    parsed = parser.parse_args(arguments)
    lower_priority(own_session=False)
    cap_threads(1)
    use_plain_optimizers()
    return answer(lambda say: _show(parsed, say))


def _show(parsed: argparse.Namespace, say: Say) -> None:
    canvas = msgspec.json.decode(parsed.canvas, type=Canvas)
    run_dir = RunDir(parsed.run_dir.resolve())
    loaded, trained, rules = subject(run_dir, parsed.checkpoint)
    spec, mode = _drawing(trained, rules)
    vec = build_vec_env(spec, rules).vec
    try:
        act, seen = actor(parsed, spec, vec, loaded)
        seen.seed(parsed.seed)
        observations, starts, steps = seen.reset(), np.ones(1, dtype=bool), 0
        drawn_s = time.monotonic()
        while True:
            say({"frame": _picture(vec, mode, canvas), "step": steps})
            drawn_s = _wait_until(drawn_s + 1.0 / canvas.fps)
            observations, _, starts, infos = seen.step(act(observations, starts))
            steps += 1
            if "episode" in infos[0]:
                break
    finally:
        vec.close()
    last = infos[0]
    result: dict[str, Any] = {"run": run_dir.id, "checkpoint": loaded.manifest.name, "mode": mode}
    result |= {"return": float(last["episode"]["r"]), "steps": int(last["episode"]["l"]), "outcome": outcome_of(last)}
    say({"result": result | {"seed": parsed.seed}})


def _drawing(trained: Spec, rules: Path) -> tuple[Spec, str]:
    """`trained` on one environment in this process that draws, and how. Raises `PresetError` for one that cannot.

    One whose state can be drawn needs no package for its pixels.
    """
    env = structs.replace(trained.env, vec="inline", n_envs=1, n_workers=None)
    modes, has_state = _modes(env, rules)
    mode = next((mode for mode in _MODES if mode in modes), None)
    if has_state and mode != "ansi":
        kwargs = {name: value for name, value in env.kwargs.items() if name != "render_mode"}
        return structs.replace(trained, env=structs.replace(env, kwargs=kwargs)), "state"
    if mode is None:
        raise PresetError(
            f"'{env.id}' draws neither text (ansi) nor frames (rgb_array): its render modes are "
            f"{', '.join(modes) or 'none'}"
        )
    return structs.replace(trained, env=structs.replace(env, kwargs={**env.kwargs, "render_mode": mode})), mode


def _modes(env: EnvSpec, rules: Path) -> tuple[list[str], bool]:
    made = EnvMaker(env, rules)()
    try:
        said, has_state = made.metadata.get("render_modes", ()), can_draw(made.unwrapped)
    finally:
        made.close()
    known = isinstance(said, list | tuple | set | frozenset)
    return [str(mode)[:40] for mode in said] if known else [], has_state


def _picture(vec: VecEnv, mode: str, canvas: Canvas) -> str:
    """What the environment shows now. Raises `EnvError` when it cannot."""
    try:
        if mode == "state":
            return picture_of_state(vec.get_attr("unwrapped")[0], canvas.columns, canvas.lines)
        said = text_or_frame(vec.env_method("render")[0])
    except Exception as error:  # foreign code
        raise EnvError(f"the environment could not draw itself: {raised_by(error)}") from error
    return said if isinstance(said, str) else half_blocks(said, canvas)


def text_or_frame(drawn: Any) -> str | Frame:
    """What an environment drew, the last of several: text or pixels. Raises `ValueError` for anything else."""
    drawn = drawn[-1] if isinstance(drawn, list) else drawn
    if isinstance(drawn, str):
        return drawn
    frame = np.asarray(drawn)
    if frame.ndim != 3 or frame.shape[2] < 3 or frame.dtype != np.uint8:
        raise ValueError(f"it drew a {type(drawn).__name__} where a frame of pixels or a text belongs")
    return frame[:, :, :3]


def _wait_until(due_s: float) -> float:
    """Pictures that took longer than their turn are not caught up with."""
    now_s = time.monotonic()
    time.sleep(max(0.0, due_s - now_s))
    return max(due_s, now_s)


def half_blocks(frame: Frame, canvas: Canvas) -> str:
    """`frame` (height, width, 3) as large as `canvas` allows, in its own proportions: a cell is twice as high as wide.

    Without colours each cell is a shade, and whatever is like most of the frame, light or dark, stays blank.
    """
    height, width = frame.shape[:2]
    scale = min(canvas.columns / width, 2 * canvas.lines / height)
    columns, rows = max(1, round(width * scale)), max(1, round(height * scale / 2))
    if canvas.colours == "none":
        grey = _shrunk(frame, rows, columns) @ np.array(_LUMA)
        grey = 255 - grey if np.median(grey) > 127 else grey
        places = np.minimum(grey / 256 * len(_SHADES), len(_SHADES) - 1).astype(int)
        return "\n".join("".join(_SHADES[at] for at in line).rstrip() for line in places)
    small = _shrunk(frame, 2 * rows, columns).round().astype(int)
    codes = _full if canvas.colours == "full" else _of_256
    return "\n".join(_line(codes(small[2 * row]), codes(small[2 * row + 1])) for row in range(rows))


def pixels_of(frame: Frame, canvas: Canvas) -> PixelPicture:
    """`frame` (height, width, 3) as a PNG, smaller where the canvas has fewer pixels, and never larger.

    As sixels, which no terminal enlarges, it is some times as large where there is room for that.

    Each line is written as what differs from the one above, of which most pictures of environments have little.
    """
    height, width = frame.shape[:2]
    across, down = canvas.cell or (1, 2)
    scale = min(1.0, canvas.columns * across / width, canvas.lines * down / height)
    if scale < 1.0:
        height, width = max(1, round(height * scale)), max(1, round(width * scale))
        frame = _shrunk(frame, height, width).round().astype(np.uint8)
    if canvas.pixels == "sixel":
        return _as_sixels(frame, max(1, min(canvas.columns * across // width, canvas.lines * down // height)))
    rows, colours = _indexed(frame)
    up = np.empty((height, 1 + rows.shape[1]), np.uint8)
    up[:, 0], up[0, 1:], up[1:, 1:] = _PNG_UP, rows[0], rows[1:] - rows[:-1]
    kind = _PNG_INDEXED if colours else _PNG_RGB
    chunks = [_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))]
    chunks += [_chunk(b"PLTE", colours)] if colours else []
    chunks += [_chunk(b"IDAT", zlib.compress(up.tobytes(), 6)), _chunk(b"IEND", b"")]
    return PixelPicture(width=width, height=height, png=b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


def _as_sixels(frame: Frame, times: int) -> PixelPicture:
    places, colours = _indexed(frame)
    palette: NDArray[Any] = np.frombuffer(colours, np.uint8).reshape(-1, 3)
    if not colours:  # as many as there are: the upper three bits of red and green, two of blue
        places = ((frame[..., 0] & 0xE0) | (frame[..., 1] >> 5 << 2) | (frame[..., 2] >> 6)).astype(np.uint8)
        every = np.arange(256)
        steps = np.stack([every >> 5, every >> 2 & 7, every & 3], axis=1)
        palette = steps * 255 // np.array([7, 7, 3])
    places = places.repeat(times, axis=0).repeat(times, axis=1)
    height, width = places.shape
    return PixelPicture(width=width, height=height, sixels=sixels_of(places, palette))


def _indexed(frame: Frame) -> tuple[NDArray[np.uint8], bytes]:
    """Rows of places in a palette, and that; of more than 256 colours that differ, their values and no palette.

    Colours that are alike in the five upper bits of each part are one, as those of smoke over a flat sky.
    """
    height, width = frame.shape[:2]
    shades = (frame >> 3).astype(np.intp)
    keys = ((shades[..., 0] << 10) | (shades[..., 1] << 5) | shades[..., 2]).ravel()
    there = np.flatnonzero(np.bincount(keys, minlength=1 << 15))
    if len(there) > 256:
        return frame.reshape(height, 3 * width), b""
    places, colours = np.zeros(1 << 15, np.uint8), np.zeros((1 << 15, 3), np.uint8)
    places[there], colours[keys] = np.arange(len(there)), frame.reshape(-1, 3)
    return places[keys].reshape(height, width), colours[there].tobytes()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _shrunk(frame: Frame, rows: int, columns: int) -> NDArray[np.float64]:
    """Means over the pixels of each cell; a cell without one of its own shows its nearest."""
    down = _edges(frame.shape[0], rows)
    across = _edges(frame.shape[1], columns)
    summed = np.add.reduceat(np.add.reduceat(frame.astype(np.float64), down, axis=0), across, axis=1)
    heights = np.maximum(np.diff([*down, frame.shape[0]]), 1)
    widths = np.maximum(np.diff([*across, frame.shape[1]]), 1)
    shrunk: NDArray[np.float64] = summed / (heights[:, None, None] * widths[None, :, None])
    return shrunk


def _edges(size: int, cells: int) -> NDArray[np.int64]:
    return np.minimum(np.arange(cells) * size // cells, size - 1)


def _full(pixels: NDArray[np.int64]) -> list[str]:
    return [f"2;{r};{g};{b}" for r, g, b in pixels.tolist()]


def _of_256(pixels: NDArray[np.int64]) -> list[str]:
    """The nearest colour of the 6 x 6 x 6 cube, whose levels are 0, 95, 135, 175, 215 and 255."""
    level = np.where(pixels < 48, 0, np.where(pixels < 115, 1, (pixels - 35) // 40))
    return [f"5;{16 + 36 * r + 6 * g + b}" for r, g, b in level.tolist()]


def _line(upper: list[str], lower: list[str]) -> str:
    """A colour is said only where it changes."""
    said, before = [], ("", "")
    for above, below in zip(upper, lower, strict=True):
        changed = [f"38;{above}"] if above != before[0] else []
        changed += [f"48;{below}"] if below != before[1] else []
        said.append((f"\x1b[{';'.join(changed)}m" if changed else "") + _UPPER)
        before = (above, below)
    return "".join(said)


_BAND = 6
_OFFSET = 63
"""Of the character whose six bits are all unset."""
_SHORTEST_RUN = 4
"""Shorter runs are no shorter as a count."""


def sixels_of(places: NDArray[np.uint8], palette: NDArray[Any]) -> str:
    """What stands between a picture's begin and end; `places` (height, width) are rows of `palette` (colours, 3)."""
    height, width = places.shape
    percent = (palette.astype(int) * 100 + 127) // 255
    said = [f'"1;1;{width};{height}', *(f"#{at};2;{r};{g};{b}" for at, (r, g, b) in enumerate(percent.tolist()))]
    for top in range(0, height, _BAND):
        rows = places[top : top + _BAND]
        weights = (1 << np.arange(len(rows), dtype=np.uint8))[:, None]
        layers = []
        for colour in np.unique(rows).tolist():
            bits = ((rows == colour) * weights).sum(axis=0, dtype=np.uint8)
            layers.append(f"#{colour}{_run_lengths(bits)}")
        said.append("$".join(layers))
        said.append("-")
    return "".join(said[:-1])


def _run_lengths(bits: NDArray[np.uint8]) -> str:
    """Columns of six dots, equal neighbours as a count; blank ones at the end are left out."""
    starts = np.flatnonzero(np.diff(bits, prepend=np.uint8(bits[0] ^ 1)))
    counts = np.diff(starts, append=len(bits))
    runs = [(chr(_OFFSET + bits[at]), count) for at, count in zip(starts.tolist(), counts.tolist(), strict=True)]
    if runs[-1][0] == chr(_OFFSET):
        runs.pop()
    return "".join(char * count if count < _SHORTEST_RUN else f"!{count}{char}" for char, count in runs)


if __name__ == "__main__":
    sys.exit(main())
