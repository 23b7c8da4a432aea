"""A frame of pixels as text: each character is two pixels, the upper one in its colour on the lower one's ground."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mission_tui.fleet.views.episode_picture import Canvas

__all__ = ["half_blocks"]

_UPPER = "▀"
_SHADES = " .:-=+*#%@"
_LUMA = (0.299, 0.587, 0.114)
"""ITU-R BT.601."""

Frame = NDArray[np.uint8]


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
