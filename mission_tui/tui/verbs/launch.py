"""Starting runs: launch keys, the form (`n`), a new run like another (`N`). And going on with them: `r` resumes, `R`
with other settings; `S` sets some while it trains, `A` those that the chosen finding advises; `a` resumes as it
advises; `V` tries some on branches. What each change does is shown first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from mission_tui.errors import MissionError, NoSupervisorError, ProtocolError, UsageError
from mission_tui.fleet.commands import is_applicable, objection, refusal
from mission_tui.fleet.events.findings import NOT_OF_THE_POLICY, Finding
from mission_tui.fleet.events.outcome import ALIVE, OVER
from mission_tui.fleet.specs.assignment import Completion, complete
from mission_tui.fleet.specs.preset import is_live, live_keys
from mission_tui.fleet.specs.sb3_algorithms import other_algorithm
from mission_tui.fleet.specs.spec import LaunchItem, Spec, schedule_words
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Accepted, VerdictReply
from mission_tui.ipc.requests import UNDO_S, Apply, Clone, GetDetails, Launch, Resume, Set, Try
from mission_tui.present import numbers
from mission_tui.present.run_state import state_word
from mission_tui.tui.screens.questions import Offers, ask_line, options_in, settings_in
from mission_tui.tui.screens.verdict import Choice, Proposal, TrialAnswer, TrialScreen, VerdictScreen
from mission_tui.tui.state.app_context import AppContext, UndoableAction
from mission_tui.tui.state.launch_draft import DraftedLaunch, plan
from mission_tui.tui.state.launch_preview import machines_of, stays_here
from mission_tui.tui.state.presets import PresetChoice, by_key
from mission_tui.tui.state.run_status import open_findings
from mission_tui.tui.verbs.acts import Verb, fitting, names, no_finding, where

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
    # A branch has findings of its own, but it is its run that is tried.
    finding = app_context.shown.finding() if view is runs[0] else next(iter(open_findings(view)), None)
    if finding is not None and finding.state == "cleared":
        finding = None

    async def begin(said: str) -> None:
        await _begin_trial(app_context, view, finding, said)

    advised = "" if finding is None else " ".join(finding.advice_set)
    title = f"Try settings on branches of {view.name}"
    example = "ppo.n_epochs=4" if other_algorithm(view.algo) is None else f"{view.algo}.learning_rate=1e-4"
    await ask_line(app_context, title, _TRY_HELP, "tries them", example, begin, advised)


def _tried(app_context: AppContext, view: RunView) -> RunView:
    """Where a branch is chosen, the run that its trial is of."""
    mark = view.branch_of
    source = None if mark is None or view.trials else app_context.view(mark.of)
    if source is None or mark is None or not source.trials:
        return view
    return source if source.trials[-1].plan.number == mark.number and not source.trials[-1].closed else view


async def _look_at_trial(app_context: AppContext, view: RunView) -> TrialAnswer | None:
    answer = await app_context.ask_user(TrialScreen(app_context, view))
    if answer is None or answer == "again":
        return answer
    reply = await app_context.ask(lambda id_: Try(id=id_, run=view.id, do=answer))
    if answer == "discard":
        app_context.undo_stack.append(UndoableAction("removed", reply.runs, app_context.clock()))
        app_context.toast(f"{reply.notes[0]}: u brings them back for {UNDO_S:.0f} s", seconds=UNDO_S)
    else:
        app_context.undo_stack.append(UndoableAction("taken", (view.id,), app_context.clock()))
        app_context.toast(f"{reply.notes[0]}; u takes it back for {UNDO_S:.0f} s", seconds=UNDO_S)
    app_context.warn(reply.notes[1:])
    app_context.redraw()
    return answer


async def _begin_trial(app_context: AppContext, view: RunView, finding: Finding | None, said: str) -> None:
    """Begin the trial that was typed. The finding that is shown says where it branches off, whatever is tried."""
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


def _options(said: str) -> tuple[tuple[str, ...], str | None, int | None]:
    """Settings, budget and seeds as they were typed. Raises `UsageError`."""
    words, given = options_in(said, "--budget", "--seeds")
    if given["--seeds"] and not given["--seeds"].isdecimal():
        raise UsageError(f"--seeds {given['--seeds'][:20]!r} is no number")
    return words, given["--budget"] or None, int(given["--seeds"]) if given["--seeds"] else None


_HELP_TO_RESUME = "KEY=VALUE, several with spaces between. Nothing starts yet: what each change does is shown first."
_HELP_TO_GO_BACK = "--checkpoint=NAME goes on from an older checkpoint, and Tab names them."
_HELP_TO_RESUME_UNSAVED = (
    "KEY=VALUE, several with spaces between. It has no checkpoint: one is saved at its next update, then what each "
    "change does is shown."
)
CHECKPOINT = "--checkpoint"
_SINCE_NOW = "From the next update on, marked on the curves; health rules start afresh. A resume keeps it."
_HELP_TO_SET_QUEUED = "KEY=VALUE, several with spaces between. What they change is shown first."
_HELP_TO_SET = "KEY=VALUE, several with spaces between: {}. What they do is shown first."


async def resume(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Resume those of `runs` that can go on, one after the other; each verdict is its own question. Where none can,
    each is told why.
    """
    fit = tuple(it for it in runs if is_applicable("resume", it)) or runs
    if left := tuple(it for it in runs if it not in fit):
        states = ", ".join(dict.fromkeys(map(state_word, left)))
        app_context.toast(f"not resumed: {names(left)} ({states})")
    for view in fit:
        try:
            reply: Accepted | VerdictReply | None = await _ask_to_resume(app_context, view.id)
            if agreed := isinstance(reply, VerdictReply):
                reply = await _agreed(app_context, view, reply, partial(_ask_to_resume, app_context, view.id))
        except (NoSupervisorError, ProtocolError):
            raise
        except MissionError as error:
            # One that cannot go on is no reason for the others to wait.
            app_context.toast(str(error), "error")
        else:
            if isinstance(reply, Accepted):
                app_context.done()
                _tell(app_context, view, reply, reply.warnings if agreed else reply.notes)


async def resume_with(app_context: AppContext, runs: tuple[RunView, ...], begun: str = "") -> None:
    """Resume the first of `runs` with settings that are typed now, on a line that begins so."""
    view = runs[0]
    if why := objection("resume with", view):
        app_context.toast(f"cannot resume {view.name} with other settings: {why}", "warning")
        return
    unsaved = view.last_checkpoint is None and "checkpoint" in view.can
    if unsaved and view.state != "running":
        how = "N starts a run like it"
        app_context.toast(f"cannot resume {view.name}: it has no checkpoint to go on from; {how}", "warning")
        return

    async def judge(said: str) -> None:
        words, given = options_in(said, CHECKPOINT)
        if CHECKPOINT in said and not given[CHECKPOINT]:
            raise UsageError(f"{CHECKPOINT} needs a name; Tab behind {CHECKPOINT}= names them")
        ask = partial(_ask_to_resume, app_context, view.id, words=words, checkpoint=given[CHECKPOINT] or None)
        reply = await ask(check_only=True)
        asked = (*words, *(f"{name}={value}" for name, value in given.items() if value))
        agreed = reply if isinstance(reply, Accepted) else await _agreed(app_context, view, reply, ask, asked)
        if agreed is not None:
            _tell(app_context, view, agreed, agreed.warnings)

    title = f"Resume {view.name} with other settings"
    if view.state in ALIVE:
        title = f"Stop {view.name} and resume it with other settings"
    help_ = _HELP_TO_RESUME_UNSAVED if unsaved else _HELP_TO_RESUME
    if goes_back := view.state in OVER and view.last_checkpoint is not None:
        help_ = f"{help_} {_HELP_TO_GO_BACK}"
    offers = partial(_offers, app_context, view, checkpoints=goes_back)
    awaited = "waits until its next update is saved" if unsaved else ""
    await ask_line(
        app_context, title, help_, "shows what they do", "env.n_envs=64", judge, begun, offers=offers, awaited=awaited
    )


def _tell(app_context: AppContext, view: RunView, reply: Accepted, news: tuple[str, ...]) -> None:
    """Say that it was accepted, and of `news` each; what somebody has just agreed to is none."""
    if reply.runs != (view.id,):
        first, *_ = reply.notes
        app_context.started(reply.runs, first, reply.warnings)
        return
    app_context.toast(f"resume accepted for {view.name}")
    app_context.warn(news)


async def _agreed(
    app_context: AppContext,
    view: RunView,
    verdict: VerdictReply,
    ask: Callable[..., Awaitable[Accepted | VerdictReply]],
    words: tuple[str, ...] = (),
) -> Accepted | None:
    """Show what would be until the person agrees to it; each remedy they choose is judged, by `ask`, before it is
    shown.
    """
    choice = Choice()
    while True:
        stops = view.state in ALIVE
        shown = VerdictScreen(view.name, verdict, choice=choice, words=words, stops=stops)
        picked = await app_context.ask_user(shown)
        if picked is None:
            return None
        choice = picked
        reply = await ask(choice, accept=choice.agreed, check_only=not choice.agreed)
        if isinstance(reply, Accepted):
            return reply
        verdict = reply


async def _ask_to_resume(
    app_context: AppContext,
    run: str,
    choice: Choice | None = None,
    words: tuple[str, ...] = (),
    *,
    checkpoint: str | None = None,
    accept: bool = False,
    check_only: bool = False,
) -> Accepted | VerdictReply:
    origin, choice = app_context.origin, choice or Choice()
    return await app_context.ask(
        lambda id_: Resume(
            id=id_,
            run=run,
            assignments=words,
            checkpoint=checkpoint,
            remedies=choice.remedies,
            overrides=choice.overrides,
            branch=choice.branch,
            accept=accept,
            check_only=check_only,
            **origin,
        )
    )


async def set_(app_context: AppContext, runs: tuple[RunView, ...], begun: str = "") -> None:
    """Ask which, on a line that begins so, show what they do, and set them once that is agreed to."""
    for view in _settable(app_context, runs):
        title = f"Change settings of {view.name} {_when(view)}"

        async def judge(said: str, view: RunView = view) -> None:
            await _set(app_context, view, settings_in(said))

        live = view.state != "queued"
        keys = live_keys(view.algo)[0]
        help_ = _HELP_TO_SET.format(", ".join(keys)) if live else _HELP_TO_SET_QUEUED
        offers = partial(_offers, app_context, view, keys if live else ())
        await ask_line(app_context, title, help_, "shows what they do", f"{keys[0]}=1e-4", judge, begun, offers=offers)


async def set_advice(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Show what the chosen finding's advice does, and set it; nothing that was learned is taken back."""
    finding = app_context.shown.finding()
    for view in _settable(app_context, runs):
        if finding is None:
            no_finding(app_context, "set", view)
        elif not finding.advice_set:
            app_context.toast(f"{finding.rule} advises no setting: {finding.advice}")
        else:
            await _set(app_context, view, finding.advice_set)


async def _offers(
    app_context: AppContext, view: RunView, keys: Sequence[str] = (), *, checkpoints: bool = False
) -> Offers:
    """What completes a setting of the run, with its values as they are now; of `keys` alone, where some are given. With
    `checkpoints`, which it could go on from, the newest first.
    """
    details = await app_context.ask(lambda id_: GetDetails(id=id_, run=view.id))
    spec = details.spec
    now = {key: _now(spec, key) for key in keys}
    named = {
        f"{CHECKPOINT}={it.name}": f"{numbers.compact(it.timesteps)} steps, update {numbers.count(it.update)}"
        for it in sorted(details.checkpoints, key=lambda it: it.t, reverse=True)
    }

    def offers(word: str) -> tuple[Completion, ...]:
        if checkpoints and word.startswith("--"):
            return tuple(Completion(text, 0, said) for text, said in named.items() if text.startswith(word))
        if not keys or "=" in word:
            return complete(word, spec)
        fitting = {offer.text.removesuffix("=") for offer in complete(word, spec)}
        return tuple(Completion(f"{key}=", 0, said) for key, said in now.items() if not word or key in fitting)

    return offers


def _now(spec: Spec, key: str) -> str:
    table, _, name = key.partition(".")
    value = getattr(getattr(spec, table), name)
    words = schedule_words(value) or (f"{value:,}" if isinstance(value, int) else value)
    return "not set now" if value is None else f"now {words}"


def _settable(app_context: AppContext, runs: tuple[RunView, ...]) -> tuple[RunView, ...]:
    """The first of `runs`, if it can take settings now; else says why not, before anything is typed."""
    fit = fitting(app_context, "set", runs[:1])
    for view in fit:
        if view.state != "queued" and (why := refusal(view.can, "apply")):
            app_context.toast(f"cannot set anything of {view.name}: {why}", "warning")
            return ()
    return fit


def _when(view: RunView) -> str:
    return "before it begins" if view.state == "queued" else "while it trains"


async def _set(app_context: AppContext, view: RunView, words: tuple[str, ...]) -> None:
    lasting, since = _SINCE_NOW, "from its next update on"
    if view.state == "queued":
        lasting, since = "It keeps its place in the queue, and begins with them.", "when it begins"
    proposal = Proposal(f"Change {view.name} {_when(view)}?", (f"asked: {' '.join(words)}", lasting), "set it")

    def ask(agreed: VerdictReply | None) -> Awaitable[Accepted | VerdictReply]:
        accept = agreed is not None
        return app_context.ask(
            lambda id_: Set(id=id_, run=view.id, assignments=words, accept=accept, check_only=not accept)
        )

    same = f"{view.name} has these settings already"
    if await _confirmed(app_context, view, ask, lambda _: proposal, "cannot train like this", same):
        app_context.toast(f"{view.name} trains with {' '.join(words)} {since}")


async def apply(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Show what the chosen finding's advice does, and follow it once that is agreed to."""
    view, finding, origin = runs[0], app_context.shown.finding(), app_context.origin
    if finding is None:
        no_finding(app_context, "apply", view)
        return

    def ask(agreed: VerdictReply | None) -> Awaitable[Accepted | VerdictReply]:
        checkpoint, accept = agreed.checkpoint or None if agreed is not None else None, agreed is not None
        return app_context.ask(
            lambda id_: Apply(
                id=id_, run=view.id, finding=finding.id, checkpoint=checkpoint, accept=accept, check_only=not accept,
                **origin,
            )
        )  # fmt: skip

    def propose(reply: VerdictReply) -> Proposal:
        return _advice(view, _to_follow(view, finding), reply.checkpoint)

    try:
        done = await _confirmed(app_context, view, ask, propose, "can no longer follow this advice")
    except (NoSupervisorError, ProtocolError):
        raise
    except MissionError:
        followed = _to_follow(view, finding)
        if not followed.advice_set or not await _lacks_an_earlier_checkpoint(app_context, view, followed):
            raise
        words = " ".join(followed.advice_set)
        if view.state == "running" and not _from_before(followed):
            # Nothing that it learned needs to be left behind: it saves a checkpoint, and goes on from that.
            await resume_with(app_context, (view,), f"{words} ")
            return
        # There is nothing to go back to, but the change can be tried from the beginning.
        why = f"{view.name} has no checkpoint{_from_before(followed)}"
        await clone(app_context, (view,), f"{words} ", f"{why}, and goes on itself" if view.state in ALIVE else why)
        return
    if done is not None:
        app_context.toast(f"the advice of {finding.rule} is applied to {view.name}")
        app_context.warn(done.warnings)


async def _confirmed(
    app_context: AppContext,
    view: RunView,
    ask: Callable[[VerdictReply | None], Awaitable[Accepted | VerdictReply]],
    propose: Callable[[VerdictReply], Proposal],
    refused: str,
    same: str = "",
) -> Accepted | None:
    """Show the verdict of `ask`, and once the person agrees `ask` again with it; None where nothing was done.

    `same`, if given, is said instead of a verdict without changes.
    """
    reply = await ask(None)
    if isinstance(reply, VerdictReply):
        if same and not reply.verdict.changes:
            app_context.toast(same)
            return None
        if not await app_context.ask_user(VerdictScreen(view.name, reply, propose(reply))):
            return None
        reply = await ask(reply)
    if isinstance(reply, VerdictReply):
        app_context.toast(f"{view.name} has changed meanwhile and {refused}; look again", "warning")
        return None
    return reply


def _advice(view: RunView, finding: Finding, checkpoint: str) -> Proposal:
    origin = checkpoint or "the last good checkpoint"
    if before := _from_before(finding):
        origin = f"{origin},{before}"
    advice = f"advice: {finding.proposal}"
    if finding.undo == "set" and not checkpoint:
        return Proposal(f"Undo your change of {view.name}?", (advice, _SINCE_NOW), "undo it")
    later = "What it learned after that is left behind."
    if view.state in ALIVE:
        fate = f"{view.name} is training now: it is stopped, and then goes on from {origin}. {later}"
        asked = f"Undo your change of {view.name}?" if finding.undo else f"Stop {view.name} and go on as advised?"
        return Proposal(asked, (advice, fate, *_gentler(finding)), "stop it and apply")
    fate = f"{view.name} goes on as another attempt from {origin}. {later}"
    return Proposal(f"Go on with {view.name} as advised?", (advice, fate), "apply")


def _from_before(finding: Finding) -> str:
    """How old a checkpoint must be that the finding's advice can go back to; empty where the newest will do."""
    return "" if finding.rule in NOT_OF_THE_POLICY else f" from before update {numbers.count(finding.suspect_from)}"


async def _lacks_an_earlier_checkpoint(app_context: AppContext, view: RunView, finding: Finding) -> bool:
    details = await app_context.ask(lambda id_: GetDetails(id=id_, run=view.id))
    return all(it.update >= finding.suspect_from for it in details.checkpoints)


def _to_follow(view: RunView, finding: Finding) -> Finding:
    """The finding, or the change that brought it about, which is what following its advice undoes."""
    cause = next((it for it in view.findings if it.id == finding.part_of), None)
    return cause if cause is not None and cause.undo else finding


def _gentler(finding: Finding) -> tuple[str, ...]:
    """The key that does less, where the advice is settings that a run takes over while it trains."""
    keys = [word.partition("=")[0] for word in finding.advice_set]
    if finding.undo:
        return ()
    return ("To set it from here on, without going back: Esc, then A.",) if keys and all(map(is_live, keys)) else ()


VERBS: Mapping[str, Verb] = {
    "new": new,
    "clone": clone,
    "resume": resume,
    "resume with": resume_with,
    "set": set_,
    "set advice": set_advice,
    "apply": apply,
    "try": _try_,
}
