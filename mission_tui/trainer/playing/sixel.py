"""Frames of pixels as sixels, the picture language of VT340 and many terminals since: six rows at a time, colour by
colour. https://vt100.net/docs/vt3xx-gp/chapter14.html
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
