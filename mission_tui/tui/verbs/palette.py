"""By typing: `:` finds actions, presets and runs, `x` what these runs can do, `;` takes a line of the command line.

Verbs that have no key of their own are in the palette by their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mission_tui.fleet.commands import CATALOGUE, is_applicable, refusal
from mission_tui.fleet.specs.preset import live_keys
from mission_tui.fleet.specs.sb3_algorithms import other_algorithm
from mission_tui.fleet.specs.spec import PpoSpec
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.present.run_state import state_word
from mission_tui.tui.actions import key_label, offered
from mission_tui.tui.screens.questions import Choice, Picker, type_command
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.launch_draft import plan
from mission_tui.tui.verbs.acts import Verb, names
from mission_tui.tui.verbs.launch import ask_first, launch, resume_with, set_

_COLOURS = "MISSION_TUI_THEME=light before mission-tui is for a light terminal, NO_COLOR=1 for one without colours"
_OF_THE_NET = frozenset({"policy", "policy_kwargs", "net_arch", "algo", "use_sde"})
"""What weights are made for: a resume cannot change it."""
_ALSO = {
    "kill": "delete end abort terminate",
    "stop": "end quit finish cancel",
    "remove": "delete trash discard",
    "prune": "delete old trash",
    "clean": "delete leftovers zombies",
    "leave": "quit exit close",
    "resume": "restart continue go on unpause",
    "resume with": "restart change settings",
    "clone": "restart copy duplicate again",
    "set": "settings change learning rate lr hyperparameter",
    "new": "start launch run settings form",
    "undo": "revert",
    "pause": "hold wait",
    "park": "hibernate free memory",
    "rename": "name title",
    "checkpoint": "save",
    "evaluate": "test play score",
    "apply": "fix repair advice",
    "acknowledge": "mute dismiss",
    "silence": "mute ignore",
    "bell": "sound mute alarm",
    "findings": "health problems warnings",
    "details": "config settings hyperparameters",
    "open": "show chart curve plot",
    "compare": "diff difference",
    "replay": "history past time",
    "filter": "search find",
    "shell": "terminal folder directory",
    "away": "missed since last night",
    "watch": "play see policy movie",
    "film": "movie gif mp4 webp video record",
    "export": "zip sb3 download",
    "ppo.learning_rate": "lr rate step size",
    "ppo.ent_coef": "entropy exploration",
    "ppo.n_epochs": "epochs passes",
    "ppo.gamma": "discount horizon",
    "run.total_timesteps": "budget length longer steps",
}
"""What people type who call it something else."""


def _also(name: str) -> str:
    return _ALSO.get(name, "").replace("_", " ") + " " + name.replace("_", " ")


def _settings(view: RunView | None) -> Iterator[Choice]:
    """Those of its algorithm that the chosen run takes while it trains, then those that a resume can change."""
    if view is None or refusal(view.can, "set") is not None:
        return
    live = live_keys(view.algo)[0]
    for key in live:
        yield Choice(f"set {key}", key, "change it while the chosen run trains", also=f"setting {_also(key)}")
    other = other_algorithm(view.algo)
    table, fields = ("ppo", PpoSpec) if other is None else (other.name, other.table)
    for name in fields.__struct_fields__:
        if (key := f"{table}.{name}") not in live and name not in _OF_THE_NET:
            yield Choice(f"resume {key}", key, "resume the chosen run with another one", also=f"setting {_also(key)}")


async def palette(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Carry out, start or open what is taken."""
    choices = [
        Choice(f"do {action.call}", action.label, action.help, key_label(action.keys[0]), _also(action.name))
        for action in offered(app_context.shown.PLACE, readonly=app_context.readonly)
        if action.menu
    ]
    if not app_context.readonly:
        choices += [
            Choice(f"start {preset.name}", f"start {preset.label}", preset.description, preset.key or "")
            for preset in app_context.presets
            if preset.error is None
        ]
        choices += [
            Choice(f"type {row.word}", row.word, row.help, also=_also(row.name))
            for row in CATALOGUE
            if row.word and not row.keys
        ]
        choices += _settings(app_context.shown.chosen())
    choices.append(Choice("tell theme", "colours", _COLOURS, also="theme dark light palette"))
    runs = app_context.snapshot.runs if app_context.snapshot else ()
    choices += [Choice(f"open {view.id}", f"open {view.name}", f"{state_word(view)}  {view.id}") for view in runs]
    taken = await app_context.ask_user(Picker("Commands", choices, typed=True))
    if taken is None:
        return
    kind, _, value = taken.partition(" ")
    if kind == "tell":
        app_context.toast(_COLOURS, seconds=8.0)
    elif kind == "set":
        one = app_context.shown.chosen()
        await set_(app_context, (one,) if one is not None else (), f"{value}=")
    elif kind == "resume" and (one := app_context.shown.chosen()) is not None:
        await resume_with(app_context, (one,), f"{value}=")
    elif kind == "do":
        await app_context.press(value)
    elif kind == "type":
        await type_command(app_context, f"{value} ")
    elif kind == "open" and (view := app_context.view(value)):
        app_context.open_run(view, "learn")
    else:
        for preset in app_context.presets:
            if kind == "start" and preset.name == value:
                if preset.from_folder:
                    await ask_first(app_context, preset)
                else:
                    await launch(app_context, await plan(app_context.resolve, preset))


async def command(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Ask for the line."""
    await type_command(app_context, "")


async def actions(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Offer the actions that need a run; carry out the one that is taken."""
    one, finding = app_context.shown.chosen(), app_context.shown.finding()
    choices: list[Choice] = []
    for action in offered(app_context.shown.PLACE, readonly=app_context.readonly):
        alone = action.needs == "run" and one is not None
        meant = (one,) if one is not None and alone else runs
        if action.menu and action.needs != "none" and any(is_applicable(action.name, view, finding) for view in meant):
            # The cursor moves on while one marks: nobody may take what is for its run alone for all that are marked.
            told = f"{names(meant)} alone: {action.help}" if alone and action.changes and len(runs) > 1 else action.help
            choices.append(Choice(action.call, action.label, told, key_label(action.keys[0])))
    if call := await app_context.ask_user(Picker(names(runs), choices, typed=False)):
        await app_context.press(call)


VERBS: Mapping[str, Verb] = {
    "palette": palette,
    "command": command,
    "actions": actions,
}
