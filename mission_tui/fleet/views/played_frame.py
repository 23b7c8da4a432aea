"""An episode that is played to be watched: how large and in which colours it may be drawn in a terminal, a foreign
picture made harmless, and one moment of it with what the policy makes of that.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct

from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.text import clean

FILM_SUFFIXES = (".gif", ".mp4", ".webp")
"""What kinds of film there are, by the end of their file's name."""
MOST_FILMED = 12
"""Checkpoints side by side in one film."""
Colours = Literal["none", "256", "full"]
_COLOUR = re.compile(r"(\x1b\[[0-9;:]{0,40}m)")
_INDENT = re.compile(r"[ \u00a0]+")
_RESET = "\x1b[0m"
_BLANK = "\u2800"
"""A blank that is no white space, so that cleaning leaves rows of blanks as they are."""

MOST_HEADS, MOST_CHOICES, MOST_NAME = 16, 32, 12
"""What is shown of a policy that has more, and characters of an action's name."""

Protocol = Literal["kitty", "sixel"]
"""How a terminal takes pictures of pixels."""
Drawn = Literal["state", "text", "pixels", "nothing"]


Across = Annotated[int, Meta(ge=1, le=100)]


class Canvas(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What pictures have to fit: cells of a terminal, its colours, and how many of them a person wants in a second.

    `cell` is how many pixels a cell has, across and down, in a terminal that shows pictures of pixels; else None.
    `pixels` is how it takes them.
    """

    columns: Annotated[int, Meta(ge=1, le=1000)] = 80
    lines: Annotated[int, Meta(ge=1, le=1000)] = 23
    colours: Colours = "none"
    fps: Annotated[float, Meta(gt=0.0, le=1000.0)] = 8.0
    cell: tuple[Across, Across] | None = None
    pixels: Protocol = "kitty"

    def fitting(self, width: int, height: int) -> tuple[int, int]:
        """The columns and lines of a picture of so many pixels, as large as there is room, in its own proportions."""
        across, down = self.cell or (1, 2)
        if self.pixels == "sixel":  # drawn as they are, whatever the cells
            return -(-width // across), -(-height // down)
        scale = min(self.columns * across / width, self.lines * down / height)
        return max(1, round(width * scale / across)), max(1, round(height * scale / down))


class PixelPicture(Struct, frozen=True, kw_only=True):
    """A frame as a PNG file, or for a canvas that takes those as sixels."""

    width: int
    height: int
    png: bytes = b""
    sixels: str = ""


MOST_PNG_BYTES = 60_000
_MOST_PIXELS = 4096
_SIXELS = re.compile(r'[-0-9;"#$!?-~]*')
"""No control character: nothing in it ends the picture and begins something else."""
_PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


def is_sound(found: PixelPicture) -> bool:
    """Whether it is a PNG of the size that it says, and of one that a terminal can be given. What draws it checks its
    data.
    """
    sides = (found.width, found.height)
    if max(len(found.png), len(found.sixels)) > MOST_PNG_BYTES or not all(0 < side <= _MOST_PIXELS for side in sides):
        return False
    if found.sixels:
        return _SIXELS.fullmatch(found.sixels) is not None and not found.png
    return found.png.startswith(_PNG + b"".join(side.to_bytes(4, "big") for side in sides))


def picture(text: str, canvas: Canvas) -> str:
    """`text` with nothing in it but characters, line breaks and, where the canvas has them, colours; cut to its lines.

    Every line ends uncoloured. The colours of an environment's own drawing are those of the terminal.
    """
    rows = (_row(line, colours=canvas.colours != "none") for line in text.split("\n", canvas.lines)[: canvas.lines])
    return "\n".join(rows).rstrip("\n")


def _row(line: str, *, colours: bool) -> str:
    parts = _COLOUR.split(line)
    texts = [clean(_INDENT.sub(_kept, part), 2000).replace(_BLANK, " ") for part in parts[::2]]
    if not colours or len(parts) == 1:
        return "".join(texts)
    coloured = "".join(f"{text}{colour}" for text, colour in zip(texts, [*parts[1::2], ""], strict=True))
    return coloured + _RESET


def _kept(blanks: re.Match[str]) -> str:
    return _BLANK * len(blanks[0])


class ActionHead(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the policy says of one part of its action, which will be `taken`: a probability for each of its choices, or
    the value of each (DQN and its kin), or mean and standard deviation of a Gaussian; of a policy that only acts,
    nothing more. `names` are the environment's for the choices, if it has any.
    """

    taken: Metric
    probabilities: tuple[float, ...] = ()
    values: tuple[Metric, ...] = ()
    names: tuple[str, ...] = ()
    mean: Metric | None = None
    std: Metric | None = None


class PlayedFrame(Struct, frozen=True, kw_only=True):
    """`step` steps into an episode whose return so far is `episode_return`; `over`: how it ended is seen, and the next
    one begins with the next frame. `heads` and `value` are those of the state that is shown; of one that is over,
    those of the last decision. `pixels` stand in place of a picture's text, for a canvas that takes them. `note` is
    why there is no picture, or what is to be known about it.
    """

    picture: str
    drawn: Drawn
    checkpoint: str
    timesteps: int
    seed: int
    step: int
    episode_return: Metric
    over: bool = False
    outcome: str | None = None
    heads: tuple[ActionHead, ...] = ()
    value: Metric | None = None
    note: str = ""
    pixels: PixelPicture | None = None


class PlayOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a player is asked for: to go `steps` further, or less far to the end of the episode, and to draw that.

    `restart` begins another episode, with `seed` or else the next one; 0 steps draw the same moment again. `checkpoint`
    is whose policy plays; None leaves that as it is.
    """

    canvas: Canvas
    checkpoint: str | None = None
    steps: Annotated[int, Meta(ge=0, le=1000)] = 1
    restart: bool = False
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1)] | None = None
