"""`W`: go to another runs root of this user that has a supervisor; this one and its runs go on."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.desk import Desk
from mission_tui.tui.listing.elsewhere import homely
from mission_tui.tui.screens.picker import Choice, Picker

__all__ = ["elsewhere"]

_LABEL = 28


async def elsewhere(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Go there at once if there is one, else let the person choose."""
    roots = desk.snapshot.elsewhere if desk.snapshot else ()
    if not roots:
        desk.tell("no other runs root of yours is live; mission-tui --runs-dir DIR opens one")
        return
    choices = []
    for other in sorted(roots, key=lambda other: -(other.live or 0)):
        path = homely(other.root, desk.home)
        choices.append(Choice(other.root, _short(path), f"{other.remark.strip()}  {path}".strip()))
    if len(choices) == 1:
        desk.leave_for(choices[0].value)
    elif (taken := await desk.consult(Picker("Go to", choices, typed=True))) is not None:
        desk.leave_for(taken)


def _short(root: str) -> str:
    """The end of a path says most."""
    return root if len(root) <= _LABEL else f"…{root[1 - _LABEL :]}"
