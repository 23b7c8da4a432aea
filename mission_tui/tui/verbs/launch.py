"""Starting runs: launch keys, the form (`n`), a new run like another (`N`), and what these have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.specs.preset import live_keys
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Clone, Launch
from mission_tui.tui.screens.questions import ask_line, settings_in
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.launch_draft import DraftedLaunch, plan
from mission_tui.tui.state.launch_preview import machines_of, stays_here
from mission_tui.tui.state.presets import PresetChoice, by_key
from mission_tui.tui.verbs.orders import Verb, where

_HELP = (
    "KEY=VALUE, several with spaces between, or nothing. The new run has the settings, rules and seed of this one and "
    "begins from scratch; R, then branch, begins one with its weights."
)


async def launch_keys(app_context: AppContext, keys: Sequence[str]) -> None:
    """Start the presets of `keys` together, so that one `u` undoes it; one of the working folder opens the form."""
    if not app_context.presets:
        # Pressed on the very first picture: what the keys mean is read after that.
        await app_context.read_presets()
    carried = by_key(app_context.presets)
    items: list[LaunchItem] = []
    asked: list[PresetChoice] = []
    for key in keys:
        preset = carried.get(key)
        if preset is None:
            app_context.toast(f'no preset has the key {key}; write key = "{key}" into its file')
        elif preset.error:
            app_context.toast(preset.error, "error")
        elif preset.from_folder:
            asked.append(preset)
        else:
            items += await plan(app_context.resolve, preset)
    if items:
        await launch(app_context, tuple(items))
    if asked:
        await ask_first(app_context, asked[0])


async def ask_first(app_context: AppContext, preset: PresetChoice) -> None:
    """The form with `preset` of the working folder, which may be a stranger's: it says what that names of its own."""
    from mission_tui.tui.screens.launch_form import LaunchForm

    if wanted := await app_context.ask_user(LaunchForm(app_context, preset.name)):
        await _launch_form(app_context, wanted)


async def _launch_form(app_context: AppContext, wanted: DraftedLaunch) -> None:
    """Launch what the form stood for, which is kept where that is refused."""
    try:
        await launch(app_context, wanted.items, wanted.at)
    except MissionError as error:
        again = "; the form is kept: n brings it back" if app_context.kept_form else ""
        raise MissionError(f"{error}{again}") from error
    app_context.kept_form = None


async def launch(app_context: AppContext, items: tuple[LaunchItem, ...], at: str = "") -> None:
    """Ask for the runs; say their names, and for how long `u` takes them back.

    On a screen of several machines the person is asked where, unless that is `at`. Raises `UsageError` for runs
    that only this machine can start.
    """
    if (machines := machines_of(app_context)) and not at:
        from mission_tui.tui.screens.launch_form import MachinePicker

        at = await app_context.ask_user(MachinePicker(app_context, items, machines)) or ""
        if not at:
            return
    if why := stays_here(items, next((machine for machine in machines if machine.name == at), None)):
        raise UsageError(why)
    origin = app_context.origin
    reply = await app_context.ask(lambda id_: Launch(id=id_, items=items, **origin), at)
    started = ", ".join(view.name for view in reply.runs[:4])
    more = f" and {len(reply.runs) - 4} more" if len(reply.runs) > 4 else ""
    sentence = f"started {started}{more}{where(reply.runs)}"
    app_context.started(tuple(view.id for view in reply.runs), sentence, reply.warnings)


async def new(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Open the form; start what it was submitted with."""
    from mission_tui.tui.screens.launch_form import LaunchForm

    if wanted := await app_context.ask_user(LaunchForm(app_context)):
        await _launch_form(app_context, wanted)


async def clone(app_context: AppContext, runs: tuple[RunView, ...], begun: str = "", why: str = "") -> None:
    """Ask what is to be different, on a line that begins so, and start it; `why` is said before what it is."""
    view, origin = runs[0], app_context.origin

    async def begin(said: str) -> None:
        words = settings_in(said)
        reply = await app_context.ask(lambda id_: Clone(id=id_, run=view.id, assignments=words, **origin))
        assert isinstance(reply, Accepted)  # only an exact clone is asked about first
        first, *warnings = reply.notes
        app_context.started(reply.runs, f"started: {first}", warnings)

    title = f"A new run like {view.name}"
    about = f"{why}. {_HELP}" if why else _HELP
    such = f"{live_keys(view.algo)[0][0]}=1e-4 run.seed=2"
    await ask_line(app_context, title, about, "starts it", such, begin, begun, empty=True)


VERBS: Mapping[str, Verb] = {
    "new": new,
    "clone": clone,
}
