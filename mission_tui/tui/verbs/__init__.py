"""What keys do, by subject: each verb is a coroutine that gets the context and the chosen runs."""

from __future__ import annotations

from collections.abc import Mapping

from mission_tui.tui.verbs.cleaning import clean, remove, undo
from mission_tui.tui.verbs.findings import acknowledge, apply, silence
from mission_tui.tui.verbs.labels import adopt, label, note, rename
from mission_tui.tui.verbs.launch import clone, new
from mission_tui.tui.verbs.looking import (
    away,
    bell,
    compare,
    copy,
    evaluate,
    help_,
    larger,
    longer,
    machine,
    refresh,
    shorter,
    smaller,
    usual_sizes,
)
from mission_tui.tui.verbs.navigation import back, coarser, elsewhere, finer, forward, go_to, replay, shell, suspend
from mission_tui.tui.verbs.orders import ORDERS, Verb
from mission_tui.tui.verbs.palette import actions, command, palette
from mission_tui.tui.verbs.resume import resume, resume_with, set_, set_advice

__all__ = ["VERBS"]

VERBS: Mapping[str, Verb] = {
    **ORDERS,
    "acknowledge": acknowledge,
    "actions": actions,
    "adopt": adopt,
    "apply": apply,
    "away": away,
    "back in time": back,
    "bell": bell,
    "clean": clean,
    "clone": clone,
    "command": command,
    "compare": compare,
    "coarser": coarser,
    "copy": copy,
    "elsewhere": elsewhere,
    "evaluate": evaluate,
    "finer": finer,
    "forward in time": forward,
    "go to": go_to,
    "help": help_,
    "larger": larger,
    "label": label,
    "longer": longer,
    "machine": machine,
    "new": new,
    "note": note,
    "palette": palette,
    "refresh": refresh,
    "remove": remove,
    "rename": rename,
    "replay": replay,
    "resume": resume,
    "resume with": resume_with,
    "set": set_,
    "set advice": set_advice,
    "shell": shell,
    "shorter": shorter,
    "silence": silence,
    "smaller": smaller,
    "suspend": suspend,
    "undo": undo,
    "usual sizes": usual_sizes,
}
"""By action name; what `app.do(name)` carries out."""
