"""The action ladder: what a finding may cause, never more than `keep.health.<rule>.act` of the run allows.

Each action is journaled with its finding, so that the next supervisor does not repeat it. What cannot be done yet,
because the trainer is not connected, stays due. The trainer is also told which checkpoints its retention must leave:
those that open findings would go back to, because a finding often opens long before a person looks.

The first rung is telling people: the `on_event` command and apprise, when a finding opens or becomes worse, and also
when rows of a run cannot be written to the disk, and when an attempt ends. A messenger runs as the user, with the
folder and environment that the run was launched with; it never blocks the loop, has 30 s, and a few at once per run.
One that fails is journaled with its finding and the reason, counted and shown; of what it said only the last line is
kept, without addresses and secrets.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import IO, Literal

import msgspec
from msgspec import Struct, structs

from mission_tui.errors import MissionError, install_words
from mission_tui.fleet.commands import refusal
from mission_tui.fleet.events.findings import GRAVITY, FailedDuty, Finding
from mission_tui.fleet.events.journal import Asked, HealthActed, Verb
from mission_tui.fleet.health import acts
from mission_tui.fleet.health.after_change import AfterChange
from mission_tui.fleet.history.journal_state import JournalState
from mission_tui.fleet.specs.thresholds import HealthKeep
from mission_tui.fleet.text import clean
from mission_tui.fleet.views.snapshot import Restart, RunView, abilities_of
from mission_tui.ipc.telemetry_messages import Order
from mission_tui.records.atomic import StorageError
from mission_tui.records.runs.checkpoint import Manifest, list_checkpoints
from mission_tui.supervisor.ending.ladder import stop_gracefully
from mission_tui.supervisor.host.children import Child, start_child
from mission_tui.supervisor.launchers.order import Caller
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.registry import Runs

FindingAction = Literal["notified", "checkpoint", "pause", "stop"]

# A stop saves by itself, and a pause on the way to it would only delay it.
_LADDER: Mapping[str, tuple[FindingAction, ...]] = {
    "off": (),
    "notify": ("notified",),
    "checkpoint": ("notified", "checkpoint"),
    "pause": ("notified", "checkpoint", "pause"),
    "stop": ("notified", "stop"),
}

LIMIT_S = 30.0
AT_ONCE = 4
BODY_CHARACTERS = 1000
SCHEMA = 1
NO_APPRISE = f"apprise is not installed where the supervisor runs; {install_words('notify')}"
# The package has a console script, but no module that can be run by name.
_APPRISE = (sys.executable, "-P", "-c", "import sys; from apprise.cli import main; sys.exit(main())")
_COMPLAINT_BYTES = 4096
_SAID_CHARACTERS = 200
_SECRET_CHARACTERS = 8
_ADDRESS = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*)://\S+")
_SECRET = re.compile(
    r"(?i)(?<![\w-])((?:[\w-]*(?:token|secret|passw\w*|api[_-]?key|authorization)))(\s*[=:]\s*)\S+(?:\s+\S+)?"
)
_KINDS = {"critical": "failure", "warning": "warning", "finished": "success", "failed": "failure", "lost": "failure"}


EventWord = Literal["finding", "failed-duty", "ended"]


def react(core: Core, run: LiveRun, finding: Finding) -> None:
    """Do what `finding` may cause and has not caused yet. One that is marked, cleared or over causes nothing."""
    for action in _allowed(run, finding):
        journal = core.store.run(run.id).journal
        if action == "notified" and _told_by_its_cause(journal, finding):
            continue
        if finding.id in journal.due and (finding.id, finding.severity, action) not in journal.acted:
            _ACTIONS[action](core, run, finding)


def react_to_due(core: Core, run: LiveRun) -> None:
    """Do what is still due: the supervisor is new, or the trainer has come back."""
    journal = core.store.run(run.id).journal
    for finding_id in sorted(journal.due):
        react(core, run, journal.findings[finding_id])


def _allowed(run: LiveRun, finding: Finding) -> tuple[FindingAction, ...]:
    if run.spec is None or finding.severity == "info":
        return ()
    can = abilities_of(run.spec, reports=True)
    ladder = tuple(
        action for action in _LADDER[acts(run.spec.keep.health, finding.rule)] if refusal(can, action) is None
    )
    if finding.part_of.startswith(f"{AfterChange.id}-"):
        # The finding of the change is notified, with the same severity; once is enough.
        ladder = tuple(action for action in ladder if action != "notified")
        return ladder if finding.severity == "critical" else ()
    return ladder if finding.severity == "critical" else ladder[:1]


def _told_by_its_cause(journal: JournalState, finding: Finding) -> bool:
    """Whether somebody was notified already of what may have caused it, as something at least as severe."""
    as_severe = (it for it in GRAVITY if GRAVITY[it] >= GRAVITY[finding.severity])
    return any((finding.part_of, severity, "notified") in journal.acted for severity in as_severe)


def _checkpoint(runs: Runs, run: LiveRun, finding: Finding) -> None:
    if _takes_orders(runs, run) and run.link is not None:
        _journal(runs, run, finding, "checkpoint", "checkpoint")
        run.send(Order("checkpoint", reason="finding"))


def _pause(runs: Runs, run: LiveRun, finding: Finding) -> None:
    if _takes_orders(runs, run) and not run.wants_pause and runs.store.run(run.id).state != "paused":
        _journal(runs, run, finding, "pause", "pause")
        run.pause()


def _stop(core: Core, run: LiveRun, finding: Finding) -> None:
    if _takes_orders(core, run):
        _journal(core, run, finding, "stop", "stop")
        stop_gracefully(core, run)


def _takes_orders(runs: Runs, run: LiveRun) -> bool:
    """Whether there is a process to ask, which is neither at its end nor asked to end already."""
    return run.lives() and run.end is None and runs.store.run(run.id).state != "stopping"


def _journal(runs: Runs, run: LiveRun, finding: Finding, verb: Verb, action: FindingAction) -> None:
    """First what is asked, by which a restarted supervisor goes on, then that it was this finding that asked."""
    runs.record_observed(run, lambda seq, t: Asked(seq, t, verb, run.attempt))
    runs.record_observed(run, partial(HealthActed, finding=finding.id, act=action))


def keep_last_good(runs: Runs, run: LiveRun) -> None:
    """Tell the trainer, if what it must keep has changed; without a link the order is sent when it comes back."""
    findings = runs.store.run(run.id).journal.findings.values()
    open_ones = [it for it in findings if it.state == "open" and it.severity != "info" and it.attempt == run.attempt]
    try:
        manifests = list_checkpoints(run.dir.checkpoints) if open_ones else []
    except StorageError:
        # What was asked to be kept before stays; the next finding that changes looks again.
        return
    own = [it for it in manifests if it.attempt == run.attempt]
    names = {name for finding in open_ones if (name := _before(finding, own)) is not None}
    run.keep_checkpoints(tuple(sorted(names | ({run.offered} if run.offered else set()))))


def _before(finding: Finding, manifests: list[Manifest]) -> str | None:
    """The newest checkpoint of this attempt from before the finding; the one it started from stays anyway."""
    return next((it.name for it in reversed(manifests) if it.update < finding.suspect_from), None)


class RunFacts(Struct, frozen=True):
    """The run as a messenger hears of it."""

    id: str
    name: str
    preset: str
    run_dir: str
    state: str
    outcome: str | None
    kind: str | None
    cause: str | None
    attempt: int
    update: int | None
    timesteps: int | None
    total_timesteps: int | None
    last_checkpoint: str | None
    restart: Restart | None


class Event(Struct, frozen=True):
    """What `on_event` gets on its standard input, as `docs/run-directory.md` shows it: every field, known or not."""

    schema: int
    event: EventWord
    t: float
    host: str
    run: RunFacts
    finding: dict[str, object] | None
    failed_duty: dict[str, object] | None


class _Messenger(Struct, frozen=True):
    name: Literal["on_event", "apprise"]
    event: EventWord
    argv: tuple[str, ...]
    stdin: bytes = b""


def notify_finding(core: Core, run: LiveRun, finding: Finding) -> None:
    """Notify those whom the run's spec names of a finding; journaled first, so that no one is notified twice."""
    messengers = list(_messengers(core, run, finding))
    if messengers:
        names = " and ".join(messenger.name for messenger in messengers)
        core.record_observed(run, partial(HealthActed, finding=finding.id, act="notified", detail=names))
        _send(core, run, finding.id, messengers)


def notify_failure(core: Core, run: LiveRun, failed: FailedDuty) -> None:
    """Tell whom the run's spec names that something was not done for the run; `failed` is journaled already."""
    _send(core, run, "", list(_messengers(core, run, failed)))


def notify_end(core: Core, run: LiveRun) -> None:
    """Notify those whom the run's spec names that its attempt has ended."""
    _send(core, run, "", list(_messengers(core, run, None)))


def _messengers(runs: Runs, run: LiveRun, about: Finding | FailedDuty | None) -> Iterator[_Messenger]:
    """The notification commands of the run's spec, for a finding, a failed duty, or the end of the attempt (None)."""
    keep = run.spec.keep.health if run.spec is not None else HealthKeep()
    if not (keep.on_event or keep.apprise):
        return  # a view takes as long as judging a row, and most runs notify nobody
    view = runs.store.view(run.id)
    what: EventWord = "ended"
    finding = failed = None
    if isinstance(about, Finding):
        what, finding = "finding", structs.asdict(about)
    elif about is not None:
        what, failed = "failed-duty", structs.asdict(about)
    if keep.on_event:
        event = Event(SCHEMA, what, time.time(), socket.gethostname(), _facts(view), finding, failed)
        yield _Messenger("on_event", what, ("/bin/sh", "-c", keep.on_event), msgspec.json.encode(event))
    if keep.apprise:
        yield _Messenger("apprise", what, (*_APPRISE, *_letter(view, about)))


def _facts(view: RunView) -> RunFacts:
    return RunFacts(**{name: getattr(view, name) for name in RunFacts.__struct_fields__})


def _letter(view: RunView, about: Finding | FailedDuty | None) -> tuple[str, ...]:
    """Title, text and kind, as apprise's command line takes them. Whoever reads them may have runs on several hosts."""
    what: str
    parts: tuple[str, ...]
    match about:
        case Finding():
            what, said = about.severity, f"{about.rule} {about.severity}"
            parts = about.sentence, about.cause, about.proposal
        case FailedDuty():
            what, said, parts = "warning", f"{about.duty} failed", (about.sentence,)
        case None:
            what = said = view.outcome or "ended"
            parts = view.cause or "", _what_follows(view, time.time())
    title = f"{view.name} on {socket.gethostname()}: {said}"
    body = "\n".join(clean(part, BODY_CHARACTERS) for part in parts if part)
    kind = f"--notification-type={_KINDS.get(what, 'info')}"
    return f"--title={title}", f"--body={body or title}", kind, "--input-format=text"


def _what_follows(view: RunView, now: float) -> str:
    """What becomes of the run that has ended; empty where nothing does and nothing is to be done."""
    if view.restart is not None:
        left_s = round(view.restart.due_t - now)
        when = f"in {left_s} s" if left_s > 0 else "now"
        return f"It restarts {when} ({view.restart.number} of {view.restart.most} in a row)."
    if view.outcome == "finished":
        return ""
    if view.last_checkpoint is None:
        return "It does not restart by itself."
    words = f"`mission-tui resume {view.name}` goes on from checkpoint {view.last_checkpoint}"
    return f"It does not restart by itself; {words}."


def _send(core: Core, run: LiveRun, finding_id: str, messengers: list[_Messenger]) -> None:
    for messenger in messengers:
        failed = partial(_fail, core, run.id, finding_id, messenger.name)
        try:
            if messenger.name == "apprise" and importlib.util.find_spec("apprise") is None:
                failed(NO_APPRISE)
            elif run.messengers >= AT_ONCE:
                failed(f"{messenger.name} was not run: {run.messengers} messengers of this run are still at work")
            else:
                done = partial(core.done_for, run.id, messenger.name)
                _start(run, messenger, core.variables.caller_of(run.dir, run.attempt), failed, done)
        except (MissionError, OSError, ValueError) as error:  # ValueError: a NUL in the command
            failed(f"{messenger.name} was not run: {error}")


def _start(
    run: LiveRun, messenger: _Messenger, caller: Caller, failed: Callable[[str], None], done: Callable[[], None]
) -> None:
    """Start the messenger in a session of its own. Raises `OSError` or `ValueError`."""
    loop = asyncio.get_running_loop()

    def ended(code: int) -> None:
        run.messenger_ended()
        timer.cancel()
        said = _last_words(complaints, environ)
        complaints.close()
        if code == -signal.SIGKILL and loop.time() >= timer.when():
            failed(f"{messenger.name} was killed after {LIMIT_S:g} s{said}")
        elif code != 0:
            failed(f"{messenger.name} ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}{said}")
        else:
            done()

    environ = dict(caller.environ) | {"MISSION_TUI_RUN": run.id, "MISSION_TUI_EVENT": messenger.event}
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 - read once the process has ended
    try:
        with tempfile.TemporaryFile() as given:
            given.write(messenger.stdin)
            given.seek(0)
            child = start_child(
                messenger.argv,
                ended,
                cwd=caller.cwd,
                env=environ,
                stdin=given.fileno(),
                stderr=complaints.fileno(),
                detached=True,
            )
    except BaseException:
        complaints.close()
        raise
    run.messenger_started()
    timer = loop.call_later(LIMIT_S, _kill, child)


def _last_words(complaints: IO[bytes], environ: Mapping[str, str]) -> str:
    """The last line that the messenger wrote on stderr, without what may be secret; empty where there is none."""
    with suppress(OSError):
        size = complaints.seek(0, os.SEEK_END)
        complaints.seek(max(0, size - _COMPLAINT_BYTES))
        lines = [line for line in complaints.read().decode("utf-8", "replace").splitlines() if line.strip()]
        if lines:
            return f": {_without_secrets(clean(lines[-1], _COMPLAINT_BYTES), environ)}"[:_SAID_CHARACTERS]
    return ""


def _without_secrets(text: str, environ: Mapping[str, str]) -> str:
    """`text` without addresses, which may hold tokens, and without the values of variables that are no paths."""
    for value in sorted({value for value in environ.values() if len(value) >= _SECRET_CHARACTERS}, key=len)[::-1]:
        if "/" not in value:
            text = text.replace(value, "***")
    text = _ADDRESS.sub(r"\1://***", text)
    return _SECRET.sub(r"\1\2***", text)


def _kill(child: Child) -> None:
    """The messenger has not been reaped, so its number is still that of its own group."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _fail(runs: Runs, run_id: str, finding_id: str, name: str, sentence: str) -> None:
    """Journal a failure; a run that was removed meanwhile has no journal."""
    if run_id in runs.store:
        runs.record_observed_of(
            run_id, lambda seq, t: HealthActed(seq, t, finding_id, "notified", sentence, failed=name)
        )


_ACTIONS: Mapping[FindingAction, Callable[[Core, LiveRun, Finding], None]] = {
    "notified": notify_finding,
    "checkpoint": _checkpoint,
    "pause": _pause,
    "stop": _stop,
}
