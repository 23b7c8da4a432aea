"""What each key of the screen does: the commands of `fleet.commands`, and what only a screen has (looking, moving).

Key bindings, footer, help, palette and the `x` menu are all read from it. Hints and menus leave out what means nothing
for a run as it stands, and their keys say why not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from mission_tui.fleet.commands import CATALOGUE, COMMANDS, Needs

Place = Literal["fleet", "run", "machine"]
Group = Literal["start", "act", "look", "watch", "move", "screen"]

_ALL: tuple[Place, ...] = ("fleet", "run", "machine")
_RUNS: tuple[Place, ...] = ("fleet", "run")
_LISTS: tuple[Place, ...] = ("fleet", "machine")
_FLEET: tuple[Place, ...] = ("fleet",)
_RUN: tuple[Place, ...] = ("run",)
Move = Literal["up", "down", "first", "last", "page_up", "page_down", "left", "right"]


class Action(Struct, frozen=True):
    """`call` is the Textual action; `needs` says which runs it applies to; `changes` hides it from a read-only screen.

    `menu` puts it into the `x` menu and the palette; `hint` into the footer, where a smaller number stays longer. What
    is typed after one with `sheet` is not for the present screen.
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
    sheet: bool = False


def _command(name: str, group: Group = "act", call: str | None = None) -> Action:
    """The row of a command, as the catalogue has it."""
    row = COMMANDS[name]
    return Action(
        group,
        name,
        row.keys,
        row.label or name,
        row.help,
        f"app.do({name!r})" if call is None else call,
        needs=row.needs,
        changes=row.changes,
        destructive=row.destructive,
        menu=call != "",
        hint=row.hint,
        sheet=row.sheet,
    )


_STARTS = ("launch", "new", "undo")
"""What begins something. A key of `launch` carries its preset, and so has no call of its own."""


def _chart(key: str, name: str, label: str, help: str, what: str) -> Action:  # noqa: A002
    return Action("look", name, (key,), label, help, f"screen.chart({what!r})", _RUN)


def _play(key: str, name: str, help: str, what: str) -> Action:  # noqa: A002
    return Action("watch", name, (key,), name, help, f"screen.play({what!r})", _RUN, menu=False)


def _move(name: str, keys: tuple[str, ...], help: str, call: str, places: tuple[Place, ...] = _ALL) -> Action:  # noqa: A002
    return Action("move", name, keys, name, help, call, places, menu=False)


# fmt: off
ACTIONS: tuple[Action, ...] = (
    *(_command(name, "start", "" if name == "launch" else None) for name in _STARTS),
    *(_command(row.name) for row in CATALOGUE if row.keys and row.changes and row.name not in _STARTS),
    Action("act", "actions", ("x",), "more", "everything that can be done with these runs", "app.do('actions')",
           needs="marked", menu=False, hint=0, sheet=True),
    Action("look", "open", ("enter",), "open", "open the chosen run", "screen.open('learn')", _LISTS,
           needs="run", hint=7),
    _command("findings", "look", "screen.open('health')"),
    _command("log", "look", "screen.open('log')"),
    Action("look", "details", ("d",), "details", "the settings that the run uses",
           "screen.open('config')", needs="run"),
    Action("look", "episodes", ("o",), "outcomes", "how its episodes ended, over the whole run",
           "screen.open('episodes')", needs="run"),
    Action("look", "journal", ("J",), "journal", "what was done to the run, when and by whom", "screen.open('journal')",
           needs="run"),
    _command("watch", "look", "screen.open('watch')"),
    _play("space", "hold", "hold the player, or go on", "hold"),
    _play(".", "one step", "hold, and play one step further", "step"),
    _play("+", "play faster", "play faster", "faster"),
    _play("-", "play slower", "play slower", "slower"),
    _play("enter", "next episode", "the next episode; after a failure: try again", "next"),
    _play("g", "seed", "play the episode of a seed that is typed", "seed"),
    _play("f", "reel", "its best, median and worst episode again, and films of what is seen", "reel"),
    _play("v", "pixels", "pixels where the terminal shows them, or half blocks", "pixels"),
    _play("<", "older policy", "the checkpoint before, in the same episode; Home is the oldest", "older"),
    _play(">", "newer policy", "the checkpoint after it; End is the newest", "newer"),
    _command("compare", "look"),
    Action("look", "filter", ("/",), "filter",
           "show only what a regular expression finds, or in a list `lr>=1e-3 seed=2`",
           "screen.filter", _RUNS, hint=10),
    _chart("space", "keep metric", "keep", "keep the metric on the chart, or drop it: several at once",
           "keep"),
    _chart("t", "x axis", "axis", "the chart over timesteps, updates, run time or the clock", "over"),
    _chart("Y", "y scale", "scale", "linear, logarithmic or symmetric-logarithmic axis of the values", "scale"),
    _chart("}", "smoother", "smoother", "more smoothing of the curves: a moving average, the raw values behind it",
           "smoother"),
    _chart("{", "rougher", "rougher", "less smoothing of the curves", "rougher"),
    _chart("tab", "crosshair", "crosshair", "the exact values at one place: ← → move it, PgUp PgDn far, Esc ends it",
           "crosshair"),
    Action("look", "chart picture", ("ctrl+s",), "picture", "the charts that are shown as an SVG file, and as PNG",
           "app.do('chart picture')", _RUN, needs="run"),
    Action("look", "ghost", ("G",), "ghost",
           "beside the curve as dots: the marked, best, then previous ended run of the same task, then none",
           "screen.ghost", _RUNS, needs="run"),
    Action("look", "mark", ("space",), "mark", "mark several; actions apply to all marked", "screen.look('mark')",
           _FLEET, needs="run"),
    Action("look", "fold", ("f",), "fold", "runs that differ only in their seed as one row, or each",
           "screen.fold", _FLEET),
    Action("look", "found before", ("<",), "found before",
           "in a log: the match above; without a search the error above", "screen.body('before')", _RUN),
    Action("look", "found after", (">",), "found after", "in a log: the match or error below",
           "screen.body('after')", _RUN),
    Action("look", "sort left", ("<",), "sort left", "sort by the column to the left", "screen.look('sort left')",
           _LISTS),
    Action("look", "sort right", (">",), "sort right", "sort by the column to the right", "screen.look('sort right')",
           _LISTS),
    Action("look", "view", ("v",), "view",
           "config: only what differs from the preset, then from another run; log: fold or cut long lines",
           "screen.body('turn')", _RUN),
    Action("look", "views", ("v",), "panes", "live runs as panes or as a table", "screen.look('views')", _FLEET,
           hint=11),
    Action("look", "copy shown", ("O",), "copy lines",
           "copy what is shown; of a searched log all matching lines", "screen.body('copy')", _RUN),
    Action("look", "maximise", ("z",), "zoom", "the focused part alone, or everything", "screen.look('maximise')"),
    Action("look", "larger", ("=",), "larger", "more room for the detail, chart, finding or strip; the mouse drags too",
           "app.do('larger')"),
    Action("look", "smaller", ("_",), "smaller", "less room for it", "app.do('smaller')"),
    Action("look", "usual sizes", ("Z",), "usual sizes", "every part in its usual size", "app.do('usual sizes')"),
    Action("look", "machine", ("m",), "machine", "load of GPUs, cores and each run, with the strip; again: back",
           "app.do('machine')", hint=11, sheet=True),
    Action("look", "longer", ("{",), "longer strip", "the strip goes further back, up to a day", "app.do('longer')",
           _LISTS),
    Action("look", "shorter", ("}",), "shorter strip", "the strip goes less far back, down to 15 s, and shows more",
           "app.do('shorter')", _LISTS),
    Action("look", "away", ("M",), "away", "what happened while you were away, run by run; all messages of this screen",
           "app.do('away')", sheet=True),
    _command("replay", "look"),
    Action("look", "back in time", ("comma",), "back", "in a replay: one step back", "app.do('back in time')",
           menu=False),
    Action("look", "forward in time", (".",), "on", "in a replay: one step forward", "app.do('forward in time')",
           menu=False),
    Action("look", "finer", ("(",), "finer", "in a replay: smaller steps", "app.do('finer')", menu=False),
    Action("look", "coarser", (")",), "coarser", "in a replay: larger steps", "app.do('coarser')", menu=False),
    Action("look", "go to", ("g",), "go to", "in a replay: type a time", "app.do('go to')", menu=False, sheet=True),
    Action("look", "shell", ("!",), "shell", "open a shell in the run's folder; exit returns", "app.do('shell')",
           needs="run", changes=True, sheet=True),
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
    Action("screen", "help", ("?", "f1"), "help", "this list", "app.do('help')", hint=12, sheet=True),
    Action("screen", "palette", (":", "ctrl+p"), "commands", "find an action, preset or run by typing",
           "app.do('palette')", menu=False, sheet=True),
    Action("screen", "command", (";",), "command line", "any verb of mission-tui with its options; shows its output",
           "app.do('command')", changes=True, sheet=True),
    Action("screen", "faster", ("+",), "faster", "redraw more often, up to four times a second", "app.pace(1)"),
    Action("screen", "slower", ("-",), "slower", "redraw less often", "app.pace(-1)"),
    Action("screen", "bell", ("b",), "bell", "ring for a new critical finding, or stay quiet", "app.do('bell')"),
    Action("screen", "refresh", ("f5",), "refresh", "reload presets and state; warn of packages upgraded under runs",
           "app.do('refresh')"),
    Action("screen", "redraw", ("ctrl+l",), "redraw", "paint the whole screen again", "app.redraw"),
    _command("screenshot", "screen"),
    Action("screen", "elsewhere", ("W",), "elsewhere", "go to another live runs root of yours", "app.do('elsewhere')",
           sheet=True),
    Action("screen", "suspend", ("ctrl+z",), "suspend", "back to the shell; fg returns", "app.do('suspend')",
           sheet=True),
    Action("screen", "leave", ("q",), "leave", "leave the screen; all runs go on", "app.leave"),
)
# fmt: on

BY_NAME: Mapping[str, Action] = {action.name: action for action in ACTIONS}

COMPARED: tuple[Action, ...] = (
    Action(
        "look",
        "compare axis",
        ("t",),
        "steps or time",
        "the curves over timesteps or over seconds of training",
        "screen.turn",
        hint=1,
    ),
    Action("look", "compare again", ("f5",), "again", "the same runs as they are now", "screen.again", hint=3),
    BY_NAME["chart picture"],
    *(BY_NAME[name] for name in ("up", "down", "first", "last", "page up", "page down")),
    Action("move", "leave compare", ("escape", "q", "c"), "back", "back to the runs", "screen.back", hint=6),
    *(BY_NAME[name] for name in ("help", "redraw", "screenshot")),
)
"""What keys do on the comparison, which is about several runs and acts on none."""
IN_SHEETS: tuple[Action, ...] = tuple(BY_NAME[name] for name in ("redraw", "screenshot"))
"""What keys do in every sheet besides its own."""

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


def rows_by(how: Move, page: int, whole: int) -> int:
    """By how many rows a key moves, where a page has `page` rows and everything `whole`; 0 for sideways."""
    steps = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "first": -whole, "last": whole}
    return steps.get(how, 0)


def launches(key: str, place: Place | Literal["compare"]) -> bool:
    """Whether a launch key starts its preset there: `P` starts a set of long runs, and does that from lists alone."""
    return key != "P" or place in _LISTS


def offered(place: Place | Literal["compare"], *, readonly: bool) -> Iterator[Action]:
    """The actions of a place, in the table's order."""
    if place == "compare":
        return iter(COMPARED)
    return (action for action in ACTIONS if place in action.places and not (readonly and action.changes))
