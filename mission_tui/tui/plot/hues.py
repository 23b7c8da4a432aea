"""A colour for each curve of one picture, and the fainter one of what lies behind it."""

from __future__ import annotations

from rich.style import Style

from mission_tui.tui.drawing import colours

__all__ = ["MOST", "faint", "hue", "letter"]

_P = colours.PALETTE
_HUES = (_P.live, _P.warn, _P.good, _P.paused, _P.key, _P.bold)
MOST = len(_HUES)
"""More curves than this cannot be told apart."""
_FAINT = 0.45


def letter(slot: int) -> str:
    """What the curve in `slot` is called: it says which one it is without colours."""
    return chr(ord("A") + slot)


def hue(slot: int) -> Style:
    """The colour of the curve in `slot`."""
    return Style(color=_HUES[slot % MOST])


def faint(slot: int) -> Style:
    """The same colour, nearly sunk in the ground."""
    over, under = _parts(_HUES[slot % MOST]), _parts(_P.ground)
    mixed = (round(_FAINT * one + (1 - _FAINT) * other) for one, other in zip(over, under, strict=True))
    return Style(color="#" + "".join(f"{part:02x}" for part in mixed))


def _parts(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))
