"""What keys do, by subject: each verb is a coroutine that gets the context and the chosen runs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.state.app_context import AppContext
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
from mission_tui.tui.verbs.orders import checkpoint, freeze, kill, park, pause, stop
from mission_tui.tui.verbs.palette import actions, command, palette
from mission_tui.tui.verbs.resume import resume, resume_with, set_, set_advice

__all__ = ["VERBS", "Verb"]

Verb = Callable[[AppContext, tuple[RunView, ...]], Coroutine[Any, Any, None]]

VERBS: Mapping[str, Verb] = {
    "acknowledge": acknowledge,
    "actions": actions,
    "adopt": adopt,
    "apply": apply,
    "away": away,
    "back in time": back,
    "bell": bell,
    "checkpoint": checkpoint,
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
    "freeze": freeze,
    "go to": go_to,
    "help": help_,
    "kill": kill,
    "larger": larger,
    "label": label,
    "longer": longer,
    "machine": machine,
    "new": new,
    "note": note,
    "palette": palette,
    "park": park,
    "pause": pause,
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
    "stop": stop,
    "suspend": suspend,
    "undo": undo,
    "usual sizes": usual_sizes,
}
"""By action name; what `app.do(name)` carries out."""
