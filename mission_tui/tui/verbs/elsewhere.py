"""`W`: go to another runs root of this user that has a supervisor; this one and its runs go on."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.listing.other_roots import home_relative
from mission_tui.tui.screens.picker import Choice, Picker

__all__ = ["elsewhere"]

_LABEL = 28


async def elsewhere(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Go there at once if there is one, else let the person choose."""
    roots = app_context.snapshot.elsewhere if app_context.snapshot else ()
    if not roots:
        app_context.toast("no other runs root of yours is live; mission-tui --runs-dir DIR opens one")
        return
    choices = []
    for other in sorted(roots, key=lambda other: -(other.live or 0)):
        path = home_relative(other.root, app_context.home)
        choices.append(Choice(other.root, _short(path), f"{other.remark.strip()}  {path}".strip()))
    if len(choices) == 1:
        app_context.switch_root(choices[0].value)
    elif (taken := await app_context.ask_user(Picker("Go to", choices, typed=True))) is not None:
        app_context.switch_root(taken)


def _short(root: str) -> str:
    """The end of a path says most."""
    return root if len(root) <= _LABEL else f"…{root[1 - _LABEL :]}"
