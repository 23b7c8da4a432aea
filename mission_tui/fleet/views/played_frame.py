"""One moment of an episode that is played to be watched: its picture, and what the policy makes of it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.views.episode_picture import Canvas

MOST_HEADS, MOST_CHOICES = 16, 32
"""What is shown of a policy that has more."""

Drawn = Literal["state", "text", "pixels", "nothing"]


class ActionHead(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the policy says of one part of its action, which will be `taken`: a probability for each of its choices, or
    mean and standard deviation of a Gaussian.
    """

    taken: Metric
    probabilities: tuple[float, ...] = ()
    mean: Metric | None = None
    std: Metric | None = None


class PlayedFrame(Struct, frozen=True, kw_only=True):
    """`step` steps into an episode whose return so far is `episode_return`; `over`: how it ended is seen, and the next
    one begins with the next frame. `heads` and `value` are those of the state that is shown; of one that is over,
    those of the last decision. `note` is why there is no picture, or what is to be known about it.
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
