"""`r`: let a paused or frozen run go on, or give an ended one another attempt after showing what would change.

`R` asks for other settings first, and shows what they do whatever it is.
"""

from __future__ import annotations

from functools import partial

from mission_tui.errors import MissionError, NoSupervisorError, ProtocolError
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Accepted, VerdictReply
from mission_tui.ipc.requests import UNDO_S, Resume
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.screens.line_input import LineInputScreen, settings_in
from mission_tui.tui.screens.verdict import Choice, VerdictScreen
from mission_tui.tui.verbs.acting import typed

__all__ = ["resume", "resume_with"]

_HELP = "KEY=VALUE, several with spaces between. Nothing starts yet: what each change does is shown first."


async def resume(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Resume `runs` one after the other; each verdict is its own question."""
    for view in runs:
        try:
            reply: Accepted | VerdictReply | None = await _ask(app_context, view.id)
            if isinstance(reply, VerdictReply):
                reply = await _agreed(app_context, view, reply)
        except (NoSupervisorError, ProtocolError):
            raise
        except MissionError as error:
            # One that cannot go on is no reason for the others to wait.
            app_context.toast(str(error), "error")
        else:
            if isinstance(reply, Accepted):
                _tell(app_context, view, reply)


async def resume_with(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Resume the first of `runs` with settings that are typed now."""
    view = runs[0]
    if view.last_checkpoint is None and "checkpoint" in view.can:
        app_context.toast(
            f"cannot resume {view.name}: it has no checkpoint to go on from; N starts a run like it", "warning"
        )
        return

    async def judge(said: str) -> None:
        words = settings_in(said)
        app_context.expect_sheet()
        reply = await _ask(app_context, view.id, words=words, check_only=True)
        agreed = reply if isinstance(reply, Accepted) else await _agreed(app_context, view, reply, words)
        if agreed is not None:
            _tell(app_context, view, agreed)

    title = f"Resume {view.name} with other settings"
    await typed(app_context, partial(LineInputScreen, title, _HELP, "shows what they do", "env.n_envs=64"), judge)


def _tell(app_context: AppContext, view: RunView, reply: Accepted) -> None:
    if reply.runs != (view.id,):
        app_context.launched(reply.runs)
        app_context.toast(f"{'; '.join(reply.notes)}; u undoes for {UNDO_S:.0f} s", seconds=UNDO_S)
        app_context.redraw()
        return
    app_context.toast(f"resume accepted for {view.name}")
    for note in reply.notes:
        app_context.toast(note, "warning")


async def _agreed(
    app_context: AppContext, view: RunView, verdict: VerdictReply, words: tuple[str, ...] = ()
) -> Accepted | None:
    """Show what would be until the person agrees to it; each remedy they choose is judged before it is shown."""
    choice = Choice()
    while True:
        picked = await app_context.ask_user(VerdictScreen(view.name, verdict, choice=choice, words=words))
        if picked is None:
            return None
        choice = picked
        if not choice.agreed:
            app_context.expect_sheet()
        reply = await _ask(app_context, view.id, choice, words, accept=choice.agreed, check_only=not choice.agreed)
        if isinstance(reply, Accepted):
            return reply
        verdict = reply


async def _ask(
    app_context: AppContext,
    run: str,
    choice: Choice | None = None,
    words: tuple[str, ...] = (),
    *,
    accept: bool = False,
    check_only: bool = False,
) -> Accepted | VerdictReply:
    origin, choice = app_context.origin, choice or Choice()
    return await app_context.ask(
        lambda id_: Resume(
            id=id_,
            run=run,
            assignments=words,
            remedies=choice.remedies,
            overrides=choice.overrides,
            branch=choice.branch,
            accept=accept,
            check_only=check_only,
            cwd=origin.cwd,
            python=origin.python,
            environ=origin.environ,
            limits=origin.limits,
        )
    )
