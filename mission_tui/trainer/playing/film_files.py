"""Frames as one animated file, in memory until it is whole: GIF and WebP by Pillow, MP4 by imageio-ffmpeg's ffmpeg.

A file takes 253 colours for all of its frames, so that only what moves has to be stored again; a video takes any.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

from mission_tui.errors import MissionError
from mission_tui.trainer.playing.film_pictures import Pixels

_DRAWING = ("PIL", "matplotlib")
PACKAGES = {".gif": _DRAWING, ".webp": _DRAWING, ".mp4": (*_DRAWING, "imageio_ffmpeg")}
"""What each kind of file needs, by its suffix."""
_FIRST_COLOURS = 128
_LEVELS = (0, 64, 128, 191, 255)


def encoded(frames: Iterator[Pixels], fps: int, suffix: str) -> bytes:
    """The whole file. Raises `MissionError` where the encoder fails."""
    return _ENCODERS[suffix](frames, fps)


def _gif(frames: Iterator[Pixels], fps: int) -> bytes:
    # Frames of 20 ms and less are slowed down by browsers; a hundredth of a second is the unit.
    return _animated(_with_one_palette(frames), "GIF", duration=max(30, round(100 / fps) * 10), disposal=1)


def _webp(frames: Iterator[Pixels], fps: int) -> bytes:
    return _animated(_with_one_palette(frames), "WEBP", duration=round(1000 / fps), quality=80, method=3)


def _animated(frames: Iterator[Any], kind: str, **more: Any) -> bytes:
    file = BytesIO()
    next(frames).save(file, kind, save_all=True, append_images=frames, loop=0, **more)
    return file.getvalue()


def _with_one_palette(frames: Iterator[Pixels]) -> Iterator[Any]:
    """Each frame in the most frequent colours of the first, or else the nearest of an even grid of colours."""
    from PIL import Image

    palette: Any = None
    for frame in frames:
        picture = Image.fromarray(frame)
        if palette is None:
            often: Any = picture.quantize(_FIRST_COLOURS, Image.Quantize.MAXCOVERAGE).getpalette()
            even = [level for red in _LEVELS for green in _LEVELS for blue in _LEVELS for level in (red, green, blue)]
            palette = Image.new("P", (1, 1))
            palette.putpalette([*often[: 3 * _FIRST_COLOURS], *even])
        yield picture.quantize(palette=palette, dither=Image.Dither.NONE)


def _mp4(frames: Iterator[Pixels], fps: int) -> bytes:
    """H.264 in an MP4. The file is one of memory: whatever ends this process leaves nothing of it."""
    from imageio_ffmpeg import get_ffmpeg_exe

    first = next(frames)
    size = f"{first.shape[1]}x{first.shape[0]}"
    film = os.memfd_create("film.mp4")
    given = ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(fps), "-i", "-")
    made = ("-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20", "-threads", "1", "-movflags", "+faststart")
    command = (get_ffmpeg_exe(), "-y", "-loglevel", "error", *given, *made, "-f", "mp4", f"/proc/self/fd/{film}")
    try:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=(film,)
        ) as encoder:
            assert encoder.stdin is not None
            assert encoder.stderr is not None
            with suppress(BrokenPipeError):
                encoder.stdin.write(first.tobytes())
                for frame in frames:
                    encoder.stdin.write(frame.tobytes())
            with suppress(BrokenPipeError):
                encoder.stdin.close()
            said = encoder.stderr.read().decode("utf-8", "replace").strip()
        if encoder.returncode != 0:
            why = said.splitlines()[-1] if said else f"exit code {encoder.returncode}"
            raise MissionError(f"ffmpeg could not make the film: {why}")
        return Path(f"/proc/self/fd/{film}").read_bytes()
    finally:
        os.close(film)


_ENCODERS: dict[str, Callable[[Iterator[Pixels], int], bytes]] = {".gif": _gif, ".webp": _webp, ".mp4": _mp4}
