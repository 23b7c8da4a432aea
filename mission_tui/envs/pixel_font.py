"""A 3 x 5 pixel font with the few characters that a legend needs, so that frames need no font library."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["text_mask"]

_ROWS = {
    "0": "### #.# #.# #.# ###",
    "1": ".#. ##. .#. .#. ###",
    "2": "### ..# ### #.. ###",
    "3": "### ..# .## ..# ###",
    "4": "#.# #.# ### ..# ..#",
    "5": "### #.. ### ..# ###",
    "6": "### #.. ### #.# ###",
    "7": "### ..# .#. .#. .#.",
    "8": "### #.# ### #.# ###",
    "9": "### #.# ### ..# ###",
    "/": "..# ..# .#. #.. #..",
    "%": "#.# ..# .#. #.. #.#",
    ".": "... ... ... ... .#.",
    " ": "... ... ... ... ...",
    "a": ".#. #.# ### #.# #.#",
    "c": "### #.. #.. #.. ###",
    "e": "### #.. ##. #.. ###",
    "i": "### .#. .#. .#. ###",
    "n": "##. #.# #.# #.# #.#",
    "p": "### #.# ### #.. #..",
    "r": "##. #.# ##. #.# #.#",
    "s": "### #.. ### ..# ###",
    "t": "### .#. .#. .#. .#.",
    "u": "#.# #.# #.# #.# ###",
}
_GLYPHS = {char: np.array([[dot == "#" for dot in row] for row in rows.split()]) for char, rows in _ROWS.items()}


def text_mask(text: str, scale: int) -> NDArray[np.bool_]:
    """Pixels of one line of text, `5 * scale` high; characters without a glyph are left blank."""
    gap = np.zeros((5, 1), dtype=np.bool_)
    columns = [part for char in text for part in (_GLYPHS.get(char, _GLYPHS[" "]), gap)]
    return np.kron(np.hstack(columns), np.ones((scale, scale), dtype=np.bool_))
