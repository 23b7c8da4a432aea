"""Starting runs: launch keys, the form (`n`), a new run like another (`N`), and what these have in common; and `V`:
other settings on branches of a run, what they say, and what becomes of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.commands import refusal
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.specs.preset import live_keys
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import UNDO_S, Clone, Launch, Try
from mission_tui.tui.screens.questions import ask_line, settings_in, words_of
from mission_tui.tui.screens.verdict import Deed, TrialScreen
from mission_tui.tui.state.app_context import AppContext, UndoableAction
from mission_tui.tui.state.launch_draft import Wanted, plan
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


async def _launch_form(app_context: AppContext, wanted: Wanted) -> None:
    """Launch what the form stood for, which is kept where that is refused."""
    try:
        await launch(app_context, wanted.items, wanted.at)
    except MissionError as error:
        again = "; the form is kept: n brings it back" if app_context.kept_form else ""
        raise MissionError(f"{error}{again}") from error
    app_context.kept_form = None


async def launch(app_context: AppContext, items: tuple[LaunchItem, ...], at: str = "") -> None:
    """Ask for the runs; say their names, and for how long `u` takes them back.

    On a screen of several machines the person is asked where, unless that is `at`.
    """
    if (machines := machines_of(app_context)) and not at:
        from mission_tui.tui.screens.form_sheets import MachinePicker

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


_TRY_HELP = (
    "KEY=VALUE, several with spaces between; also --budget 30u (or 10m) and --seeds 5. From the last good checkpoint "
    "two branches for each seed train for a short time, one with these settings and one without. Then one sentence."
)


async def _try_(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Show the trial that is under way or has a verdict; else ask what is to be tried, and begin."""
    view = _tried(app_context, runs[0])
    shown = bool(view.trials) and view.trials[-1].closed in ("", "taking", "returning")
    if shown and await _look_at_trial(app_context, view) != "again":
        return
    if why := refusal(view.can, "branch"):
        app_context.toast(f"cannot try anything on {view.name}: {why}", "warning")
        return
    finding = app_context.shown.finding()
    if finding is not None and finding.state == "cleared":
        finding = None

    async def begin(said: str) -> None:
        await _begin_trial(app_context, view, finding, said)

    advised = "" if finding is None else " ".join(finding.advice_set)
    title = f"Try settings on branches of {view.name}"
    await ask_line(app_context, title, _TRY_HELP, "tries them", "ppo.n_epochs=4", begin, advised)


def _tried(app_context: AppContext, view: RunView) -> RunView:
    """The run that is tried, where a branch of its trial is chosen."""
    mark = view.branch_of
    source = None if mark is None or view.trials else app_context.view(mark.of)
    if source is None or mark is None or not source.trials:
        return view
    return source if source.trials[-1].plan.number == mark.number and not source.trials[-1].closed else view


async def _look_at_trial(app_context: AppContext, view: RunView) -> Deed | None:
    deed = await app_context.ask_user(TrialScreen(app_context, view))
    if deed is None or deed == "again":
        return deed
    reply = await app_context.ask(lambda id_: Try(id=id_, run=view.id, do=deed))
    if deed == "discard":
        app_context.undo_stack.append(UndoableAction("removed", reply.runs, app_context.clock()))
        app_context.toast(f"{reply.notes[0]}: u brings them back for {UNDO_S:.0f} s", seconds=UNDO_S)
    else:
        app_context.undo_stack.append(UndoableAction("taken", (view.id,), app_context.clock()))
        app_context.toast(f"{reply.notes[0]}; u takes it back for {UNDO_S:.0f} s", seconds=UNDO_S)
    app_context.warn(reply.notes[1:])
    app_context.redraw()
    return deed


async def _begin_trial(app_context: AppContext, view: RunView, finding: Finding | None, said: str) -> None:
    """What was typed, begun. A finding that is looked at says from where, whatever is tried."""
    words, budget, seeds = _options(said)
    about = "" if finding is None else finding.id
    if finding is not None and words == finding.advice_set:
        words = ()
    reply = await app_context.ask(
        lambda id_: Try(id=id_, run=view.id, finding=about, assignments=words, seeds=seeds, budget=budget)
    )
    app_context.undo_stack.append(UndoableAction("launched", reply.runs, app_context.clock()))
    app_context.toast(f"{reply.notes[0]}; V shows how it stands, u undoes for {UNDO_S:.0f} s", seconds=UNDO_S)
    app_context.warn(reply.warnings)
    app_context.redraw()


def _options(said: str) -> tuple[tuple[str, ...], str | None, int]:
    """Settings, budget and seeds as they were typed. Raises `UsageError`."""
    given, rest, typed_words = {"--budget": "", "--seeds": "3"}, [], iter(words_of(said))
    for word in typed_words:
        name, equals, value = word.partition("=")
        if name in given:
            given[name] = value if equals else next(typed_words, "")
        else:
            rest.append(word)
    if not given["--seeds"].isdecimal():
        raise UsageError(f"--seeds {given['--seeds'][:20]!r} is no number")
    return settings_in(" ".join(rest)), given["--budget"] or None, int(given["--seeds"])


VERBS: Mapping[str, Verb] = {
    "new": new,
    "clone": clone,
    "try": _try_,
}
