"""What was done to a run: when, what, by whom, and with what, newest first. Foreign text is shown as it is."""

from __future__ import annotations

from textual.strip import Strip

from mission_tui.ipc.replies import AuditEntry, DetailsReply
from mission_tui.tui.drawing import colours, numbers
from mission_tui.tui.drawing.strips import Part, fit, line, wrap

__all__ = ["journal"]

_WHEN, _WHAT, _WHO = 13, 13, 24
_ENDED = "ended"


def journal(details: DetailsReply, width: int, now: float) -> list[Strip]:
    """A line for each deed under titles; the detail is wrapped below itself, or below the deed where that is narrow."""
    if not details.deeds:
        return [line([(" nothing was done to it yet", colours.QUIET)], width)]
    head = f" {fit('when', _WHEN)}{fit('what', _WHAT)}{fit('by', _WHO)}"
    strips = [line([(head, colours.QUIET)], width)]
    for deed in reversed(details.deeds):
        strips += _deed(deed, width, now)
    return strips


def _deed(deed: AuditEntry, width: int, now: float) -> list[Strip]:
    indent = 1 + _WHEN + _WHAT + _WHO
    own_lines = width - indent < 20
    indent = 1 + _WHEN if own_lines else indent
    said = wrap(deed.detail, max(10, width - indent - 1))
    head: list[Part] = [
        (f" {fit(numbers.clock(deed.t, now), _WHEN)}", colours.QUIET),
        (fit(deed.what, _WHAT), colours.QUIET if deed.what == _ENDED else colours.BOLD),
        (fit(deed.by or numbers.DASH if deed.what != _ENDED else "", _WHO - 1) + " ", colours.QUIET),
    ]
    if not own_lines and said:
        head.append((said.pop(0), colours.INK))
    below = [line([(" " * indent + text, colours.INK)], width) for text in said]
    return [line(head, width), *below]
