"""What keys do that act on runs, one file per verb: each is a coroutine that gets the context and the chosen runs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.verbs.acknowledge import acknowledge
from mission_tui.tui.verbs.actions import actions
from mission_tui.tui.verbs.adopt import adopt
from mission_tui.tui.verbs.apply import apply
from mission_tui.tui.verbs.away import away
from mission_tui.tui.verbs.bell import bell
from mission_tui.tui.verbs.checkpoint import checkpoint
from mission_tui.tui.verbs.clean import clean
from mission_tui.tui.verbs.clone import clone
from mission_tui.tui.verbs.command import command
from mission_tui.tui.verbs.compare import compare
from mission_tui.tui.verbs.copy import copy
from mission_tui.tui.verbs.elsewhere import elsewhere
from mission_tui.tui.verbs.evaluate import evaluate
from mission_tui.tui.verbs.freeze import freeze
from mission_tui.tui.verbs.help import help_
from mission_tui.tui.verbs.kill import kill
from mission_tui.tui.verbs.label import label
from mission_tui.tui.verbs.machine import machine
from mission_tui.tui.verbs.new import new
from mission_tui.tui.verbs.note import note
from mission_tui.tui.verbs.palette import palette
from mission_tui.tui.verbs.park import park
from mission_tui.tui.verbs.pause import pause
from mission_tui.tui.verbs.refresh import refresh
from mission_tui.tui.verbs.rename import rename
from mission_tui.tui.verbs.replay import back, coarser, finer, forward, go_to, replay
from mission_tui.tui.verbs.resume import resume, resume_with
from mission_tui.tui.verbs.rm import remove
from mission_tui.tui.verbs.set import set_, set_advice
from mission_tui.tui.verbs.shell import shell
from mission_tui.tui.verbs.silence import silence
from mission_tui.tui.verbs.split import larger, smaller, usual_sizes
from mission_tui.tui.verbs.stop import stop
from mission_tui.tui.verbs.suspend import suspend
from mission_tui.tui.verbs.undo import undo
from mission_tui.tui.verbs.zoom import longer, shorter

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
