"""The one table of what a key does. Bindings, footer, help, palette and the `x` menu are all read from it.

Which actions mean something for a run as it stands is said here too: hints and menus leave out the others, and their
keys say why not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.outcome import ALIVE, OVER, RunState
from mission_tui.fleet.views.abilities import refusal
from mission_tui.fleet.views.snapshot import RunView

__all__ = ["ACTIONS", "LAUNCH_KEYS", "STATES", "Action", "Move", "Place", "is_applicable", "key_label", "offered"]

LAUNCH_KEYS = (*"1234567890", "P")
"""The keys a preset may carry."""

Place = Literal["fleet", "run", "machine"]
Needs = Literal["none", "run", "marked"]
Group = Literal["start", "act", "look", "move", "screen"]

_ALL: tuple[Place, ...] = ("fleet", "run", "machine")
_RUNS: tuple[Place, ...] = ("fleet", "run")
_LISTS: tuple[Place, ...] = ("fleet", "machine")
_FLEET: tuple[Place, ...] = ("fleet",)
_RUN: tuple[Place, ...] = ("run",)
_TRAINS: frozenset[RunState] = frozenset({"running", "paused", "frozen"})
_WAITS: frozenset[RunState] = frozenset({"queued"})
_HELD: frozenset[RunState] = frozenset({"paused", "frozen"})
_HALTED: frozenset[RunState] = frozenset({"stopping"})

STATES: Mapping[str, frozenset[RunState]] = {
    "pause": frozenset({"running", "starting"}),
    "freeze": frozenset({"running", "starting", "paused"}),
    "checkpoint": frozenset({"running", "paused"}),
    "park": ALIVE - _HALTED | _WAITS,
    "stop": ALIVE - _HALTED | _WAITS,
    "kill": ALIVE | _WAITS,
    "remove": OVER,
    "set": _TRAINS,
    "set advice": _TRAINS,
    "resume with": OVER,
}
"""By the action's name; what is not here means something in every state."""

_FOR_OURS = frozenset(
    {
        *("pause", "freeze", "park", "resume", "resume with", "set", "set advice", "clone", "stop", "kill"),
        *("checkpoint", "evaluate", "apply", "acknowledge", "silence", "rename", "note", "label"),
    }
)
"""What is refused for a foreign run."""

_ON_FINDINGS = frozenset({"apply", "acknowledge", "silence", "set advice"})
Move = Literal["up", "down", "first", "last", "page_up", "page_down", "left", "right"]


class Action(Struct, frozen=True):
    """`call` is the Textual action; `needs` says which runs it applies to; `changes` hides it from a read-only screen.

    `menu` puts it into the `x` menu and the palette; `hint` into the footer, where a smaller number stays longer.
    """

    group: Group
    name: str
    keys: tuple[str, ...]
    label: str
    help: str
    call: str
    places: tuple[Place, ...] = _ALL
    needs: Needs = "none"
    changes: bool = False
    destructive: bool = False
    menu: bool = True
    hint: int | None = None

    @property
    def sheet(self) -> bool:
        """Whether it may put another screen over the present one, for which keys that follow are then meant."""
        return self.name in _SHEETS


_SHEETS = frozenset(
    [
        "actions",
        "adopt",
        "apply",
        "away",
        "clean",
        "clone",
        "compare",
        "elsewhere",
        "evaluate",
        "help",
        "kill",
        "label",
        "machine",
        "new",
        "note",
        "palette",
        "rename",
        "resume",
        "set",
    ]
) | {"go to", "resume with", "set advice"}


def _verb(key: str, name: str, help: str, *, needs: Needs = "marked", hint: int | None = None) -> Action:  # noqa: A002
    call = f"app.do({name!r})"
    destructive = name in ("kill", "clean")
    return Action("act", name, (key,), name, help, call, needs=needs, changes=True, destructive=destructive, hint=hint)


def _chart(key: str, name: str, label: str, help: str, what: str) -> Action:  # noqa: A002
    return Action("look", name, (key,), label, help, f"screen.chart({what!r})", _RUN)


def _move(name: str, keys: tuple[str, ...], help: str, call: str, places: tuple[Place, ...] = _ALL) -> Action:  # noqa: A002
    return Action("move", name, keys, name, help, call, places, menu=False)


# fmt: off
ACTIONS: tuple[Action, ...] = (
    Action("start", "launch", LAUNCH_KEYS, "start", "start the preset that carries this key, at once", "",
           changes=True, menu=False),
    Action("start", "new", ("n",), "new", "a new run with changes, checked while you type", "app.do('new')",
           changes=True, hint=2),
    Action("start", "undo", ("u",), "undo", "for ten seconds: take back a start or a removal", "app.do('undo')",
           changes=True),
    _verb("p", "pause", "hold at the next update; the process stays", hint=3),
    _verb("F", "freeze", "stop every process where it stands; memory stays held"),
    _verb("B", "park", "save and end its processes: memory is free, r goes on"),
    _verb("r", "resume", "go on: a paused or frozen run, or one that was parked or ended, from its checkpoint", hint=6),
    _verb("R", "resume with", "an ended run with other settings; what they do is seen before", needs="run"),
    _verb("S", "set", "other settings while it trains, from the next update; seen before", needs="run"),
    _verb("N", "clone", "a new run like this one, with changes", needs="run"),
    _verb("s", "stop", "save a checkpoint, then end; a command gets SIGTERM", hint=4),
    _verb("K", "kill", "end at once, unsaved; asks first", hint=5),
    _verb("C", "checkpoint", "save a checkpoint at the next update"),
    _verb("e", "evaluate", "play 100 episodes with the newest checkpoint", needs="run", hint=8),
    Action("act", "apply", ("a",), "apply", "do what the finding advises: resume with the change, seen before",
           "app.do('apply')", needs="run", changes=True, hint=2),
    Action("act", "acknowledge", ("i",), "ack", "the finding is known: no badge until it gets worse; again: undo",
           "app.do('acknowledge')", needs="run", changes=True, hint=8),
    Action("act", "silence", ("I",), "silence", "silence the finding's rule for this run; again: let it speak",
           "app.do('silence')", needs="run", changes=True, hint=10),
    _verb("A", "set advice", "what the finding advises, set while it trains: nothing is taken back", needs="run"),
    _verb("E", "rename", "call it something else", needs="run"),
    _verb("T", "note", "write something about it into its journal", needs="run"),
    _verb("L", "label", "put labels on it, or take them off", needs="run"),
    _verb("D", "adopt", "a foreign run: see what it would run, and take it for yours"),
    _verb("delete", "remove", "move an ended run to the trash, for a day; u takes it back"),
    _verb("X", "clean", "see what dead runs left behind, and remove it", needs="none"),
    Action("act", "actions", ("x",), "more", "everything that can be done with these runs", "app.do('actions')",
           needs="marked", menu=False, hint=1),
    Action("look", "open", ("enter",), "open", "open the chosen run", "screen.open('learn')", _LISTS,
           needs="run", hint=7),
    Action("look", "findings", ("h",), "findings", "what is wrong, why, what to do, and each value with its limits",
           "screen.open('health')", needs="run", hint=11),
    Action("look", "log", ("l",), "log", "what the run printed", "screen.open('log')", needs="run", hint=9),
    Action("look", "details", ("d",), "details", "the settings that really run", "screen.open('config')", needs="run"),
    Action("look", "episodes", ("o",), "outcomes", "how its episodes ended, over the whole run",
           "screen.open('episodes')", needs="run"),
    Action("look", "journal", ("J",), "journal", "what was done to the run, when and by whom", "screen.open('journal')",
           needs="run"),
    Action("look", "compare", ("c",), "compare", "marked runs beside each other; one alone with the run before it",
           "app.do('compare')", needs="marked"),
    Action("look", "filter", ("/",), "filter", "only what a regular expression finds", "screen.filter",
           _RUNS, hint=10),
    _chart("space", "keep metric", "keep", "the metric stays on the chart with its letter, or goes: several at once",
           "keep"),
    _chart("t", "x axis", "axis", "the chart over timesteps, updates, run time or the clock", "over"),
    _chart("Y", "log scale", "log", "the chart's values by orders of magnitude (logarithmic), or not", "log"),
    _chart("}", "smoother", "smoother", "more smoothing of the curves: a moving average, the raw values behind it",
           "smoother"),
    _chart("{", "rougher", "rougher", "less smoothing of the curves", "rougher"),
    _chart("tab", "crosshair", "crosshair", "the exact values at one place: ← → move it, PgUp PgDn far, Esc ends it",
           "crosshair"),
    Action("look", "mark", ("space",), "mark", "mark several; actions apply to all marked", "screen.look('mark')",
           _FLEET, needs="run"),
    Action("look", "fold", ("f",), "fold", "runs that differ by their seed alone as one row, or each",
           "screen.fold", _FLEET),
    Action("look", "found before", ("<",), "found before",
           "in a log: to the found line above; without a search, to the error above", "screen.body('before')", _RUN),
    Action("look", "found after", (">",), "found after", "in a log: to the found line or error below",
           "screen.body('after')", _RUN),
    Action("look", "sort left", ("<",), "sort left", "sort by the column to the left", "screen.look('sort left')",
           _LISTS),
    Action("look", "sort right", (">",), "sort right", "sort by the column to the right", "screen.look('sort right')",
           _LISTS),
    Action("look", "view", ("v",), "view",
           "of the config what differs from its preset now, then from another run; of a log long lines folded, or cut",
           "screen.body('turn')", _RUN),
    Action("look", "views", ("v",), "panes", "live runs as panes or as a table", "screen.look('views')", _FLEET,
           hint=11),
    Action("look", "copy shown", ("O",), "copy lines",
           "what is shown to the clipboard; of a searched log, all lines found", "screen.body('copy')", _RUN),
    Action("look", "maximise", ("z",), "zoom", "the focused part alone, or everything", "screen.look('maximise')"),
    Action("look", "larger", ("=",), "larger", "more room for the detail, chart, finding or strip; the mouse drags too",
           "app.do('larger')"),
    Action("look", "smaller", ("_",), "smaller", "less room for it", "app.do('smaller')"),
    Action("look", "usual sizes", ("Z",), "usual sizes", "every part as large as it comes", "app.do('usual sizes')"),
    Action("look", "machine", ("m",), "machine", "what GPUs, cores and each run are at, with the strip; again: back",
           "app.do('machine')", hint=11),
    Action("look", "longer", ("{",), "longer strip", "the strip goes further back, up to a day", "app.do('longer')",
           _LISTS),
    Action("look", "shorter", ("}",), "shorter strip", "the strip goes less far back, down to 15 s, and shows more",
           "app.do('shorter')", _LISTS),
    Action("look", "away", ("w",), "away", "what happened while you were away, run by run", "app.do('away')"),
    Action("look", "replay", ("H",), "replay", "the fleet as it was ten minutes ago; in a replay: back to now",
           "app.do('replay')"),
    Action("look", "back in time", ("comma",), "back", "in a replay: one step back", "app.do('back in time')",
           menu=False),
    Action("look", "forward in time", (".",), "on", "in a replay: one step forward", "app.do('forward in time')",
           menu=False),
    Action("look", "finer", ("(",), "finer", "in a replay: smaller steps", "app.do('finer')", menu=False),
    Action("look", "coarser", (")",), "coarser", "in a replay: larger steps", "app.do('coarser')", menu=False),
    Action("look", "go to", ("g",), "go to", "in a replay: type a time", "app.do('go to')", menu=False),
    Action("look", "shell", ("!",), "shell", "a shell in the run's folder; exit comes back", "app.do('shell')",
           needs="run", changes=True),
    Action("look", "copy", ("y",), "copy id", "the run's id to the clipboard", "app.do('copy')", needs="marked"),
    _move("up", ("up", "k"), "one up", "screen.move('up')"),
    _move("down", ("down", "j"), "one down", "screen.move('down')"),
    _move("first", ("home",), "to the first", "screen.move('first')"),
    _move("last", ("end",), "to the last; a log is then followed", "screen.move('last')"),
    _move("page up", ("pageup",), "a page up", "screen.move('page_up')"),
    _move("page down", ("pagedown",), "a page down", "screen.move('page_down')"),
    _move("left", ("left",), "pane or tab to the left", "screen.move('left')", _RUNS),
    _move("right", ("right",), "pane or tab to the right", "screen.move('right')", _RUNS),
    _move("previous tab", ("[",), "tab to the left", "screen.look('previous tab')", _RUNS),
    _move("next tab", ("]",), "tab to the right", "screen.look('next tab')", _RUNS),
    _move("next pane", ("tab",), "between the list and the detail", "screen.look('next pane')", _FLEET),
    _move("back", ("escape",), "one layer back; never leaves", "screen.back"),
    Action("screen", "help", ("?", "f1"), "help", "this list", "app.do('help')", hint=12),
    Action("screen", "palette", (":", "ctrl+p"), "commands", "find an action, preset or run by typing",
           "app.do('palette')", menu=False),
    Action("screen", "command", (";",), "command line", "any verb of mission-tui with its options; shows what it says",
           "app.do('command')", changes=True),
    Action("screen", "faster", ("+",), "faster", "redraw more often, up to four times a second", "app.pace(1)"),
    Action("screen", "slower", ("-",), "slower", "redraw less often", "app.pace(-1)"),
    Action("screen", "bell", ("b",), "bell", "ring for a new critical finding, or stay quiet", "app.do('bell')"),
    Action("screen", "refresh", ("f5",), "refresh", "presets and newest state; names packages upgraded under live runs",
           "app.do('refresh')"),
    Action("screen", "redraw", ("ctrl+l",), "redraw", "paint the whole screen again", "app.redraw"),
    Action("screen", "elsewhere", ("W",), "elsewhere", "go to another live runs root of yours", "app.do('elsewhere')"),
    Action("screen", "suspend", ("ctrl+z",), "suspend", "back to the shell; fg returns", "app.do('suspend')"),
    Action("screen", "leave", ("q",), "leave", "leave the screen; all runs go on", "app.leave"),
)
# fmt: on

_LABELS = {
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "escape": "Esc",
    "enter": "Enter",
    "space": "Space",
    "tab": "Tab",
    "home": "Home",
    "end": "End",
    "delete": "Del",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "comma": ",",
}


def key_label(key: str) -> str:
    """A key as people write it: `Ctrl-P`, `Esc`, `K`."""
    if key.startswith("ctrl+"):
        return f"Ctrl-{key.removeprefix('ctrl+').upper()}"
    if len(key) in (2, 3) and key[0] == "f" and key[1:].isdigit():
        return key.upper()
    return _LABELS.get(key, key)


def offered(place: Place, *, readonly: bool) -> Iterator[Action]:
    """The actions of a place, in the table's order."""
    return (action for action in ACTIONS if place in action.places and not (readonly and action.changes))


def is_applicable(action: str, view: RunView, finding: Finding | None = None) -> bool:
    """Whether `action` would do something to `view`; `finding` is the one that keys for findings would apply to."""
    if action == "adopt":
        return "foreign" in view.flags
    if "foreign" in view.flags and action in _FOR_OURS:
        return False
    if refusal(view.can, action) is not None or view.state not in STATES.get(action, (view.state,)):
        return False
    if action in _ON_FINDINGS:
        return _on_finding(action, finding)
    if action == "pause":
        return not view.pausing
    if action == "evaluate":
        return view.last_checkpoint is not None
    if action == "resume":
        waits = view.state in _HELD | OVER or view.pausing or view.restart is not None
        return waits and (view.state not in OVER or _has_begun_somewhere(view))
    return action != "resume with" or _has_begun_somewhere(view)


def _on_finding(action: str, finding: Finding | None) -> bool:
    if finding is None or finding.state == "cleared":
        return False
    if action == "apply":
        return finding.applicable
    return action != "set advice" or bool(finding.advice_set)


def _has_begun_somewhere(view: RunView) -> bool:
    """What is over goes on from a checkpoint; only a command may begin again without one."""
    return view.last_checkpoint is not None or "checkpoint" not in view.can
