"""Another attempt of a run: what it would be, the verdict on what would change, and its start once that is accepted."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import structs

from mission_tui.errors import MissionError, PresetError, UsageError
from mission_tui.fleet.outcome import Finished
from mission_tui.fleet.preset import draft_change
from mission_tui.fleet.resume import ResumeFacts, as_chosen, judge_resume
from mission_tui.fleet.spec import Spec
from mission_tui.fleet.terms import AS_IT_WAS, Terms
from mission_tui.fleet.verdict import Change, ResumeVerdict
from mission_tui.ipc.replies import VerdictReply
from mission_tui.ipc.requests import Apply, Resume
from mission_tui.records.attempt import write_launch
from mission_tui.records.checkpoint import Manifest
from mission_tui.records.layout import RunDir
from mission_tui.records.spec_file import read_spec, write_spec
from mission_tui.records.storage import storing
from mission_tui.records.terms_file import write_terms
from mission_tui.supervisor.attempts import begin, hold_live
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.launchers.local import Caller, attempt_order
from mission_tui.supervisor.live_load import check_machine
from mission_tui.supervisor.preflight import Spaces, preflight
from mission_tui.supervisor.run import LiveRun
from mission_tui.supervisor.run_directory import rule_files, write_snapshot
from mission_tui.supervisor.subject import caller_of

__all__ = ["Plan", "check_place", "plan_attempt", "start_attempt", "verdict_first"]

_CLIPPED_ROWS = 20
_STOPPED_LEARNING = frozenset({"policy-frozen", "entropy-collapse"})


@dataclass(frozen=True, slots=True)
class Plan:
    """What another attempt would be: of which spec, on what terms."""

    was: Spec
    now: Spec
    checkpoint: Manifest
    verdict: ResumeVerdict
    caller: Caller
    terms: Terms = AS_IT_WAS

    @property
    def notes(self) -> tuple[str, ...]:
        """What changes, and what that does, a sentence each."""
        said = tuple(f"{change.name}: {change.was} -> {change.now}: {change.why}" for change in self.verdict.changes)
        return said if self.terms.sentence == "" else (*said, self.terms.sentence)


def check_place(core: Core, run_id: str, plan: Plan, ending: LiveRun | None = None) -> tuple[str, ...]:
    """What the machine lacks for `plan` once `ending` is gone. Raises `PresetError` for what keeps it from starting."""
    try:
        return check_machine(core, (plan.now,), ending)
    except PresetError as error:
        raise PresetError(f"{core.store.view(run_id).name} cannot go on now: {error}") from error


async def plan_attempt(
    core: Core, run_id: str, request: Resume | Apply, checkpoint: Manifest, assignments: tuple[str, ...]
) -> Plan:
    """What an attempt from the verified `checkpoint` with `assignments` would be. Raises `MissionError`.

    It is judged against the spec that the checkpoint was made under: its moments and statistics belong to that one.
    """
    run, known = core.run_dir(run_id), core.store.run(run_id)
    newest = known.spec if known.spec is not None else read_spec(run.spec)
    was = _made_under(run, checkpoint, newest)
    now = draft_change(newest, assignments) if assignments else newest
    caller = _caller(run, known.told.attempt, request)
    spaces_was, spaces_now = await _spaces(was, now, caller)
    outcome = known.told.outcome
    facts = ResumeFacts(
        timesteps=checkpoint.timesteps,
        finished=isinstance(outcome, Finished) and outcome.checkpoint == checkpoint.name,
        obs_space_was=spaces_was.obs if spaces_was else None,
        obs_space_now=spaces_now.obs if spaces_now else None,
        act_space_was=spaces_was.act if spaces_was else None,
        act_space_now=spaces_now.act if spaces_now else None,
        grad_clipped_share=_clipped_share(core, run_id),
        collapsed=_collapsed(core, run_id, checkpoint),
    )
    verdict, terms = judge_resume(was, now, facts), AS_IT_WAS
    if isinstance(request, Resume) and (request.remedies or request.overrides):
        wanted = as_chosen(was, now, facts, request.remedies, request.overrides)
        now, terms = wanted.spec, wanted.terms
        verdict = judge_resume(was, now, facts, terms)
    return Plan(was, now, checkpoint, verdict, caller, terms)


def _made_under(run: RunDir, checkpoint: Manifest, newest: Spec) -> Spec:
    """The spec of the attempt that saved `checkpoint`; the newest where that cannot be read any more."""
    own = run.attempt(checkpoint.attempt).spec
    try:
        return read_spec(own if own.is_file() else run.spec)
    except MissionError:
        return newest


def verdict_first(request: Resume | Apply, run_id: str, plan: Plan) -> VerdictReply | None:
    """The verdict, when it was all that was asked for, when it refuses, or when it warns and was not accepted."""
    grade = plan.verdict.grade
    if request.check_only or grade == "refuse" or (grade == "warn" and not request.accept):
        return VerdictReply(
            re=request.id,
            run=run_id,
            verdict=plan.verdict,
            accept_needed=grade == "warn",
            checkpoint=plan.checkpoint.name,
        )
    return None


def start_attempt(core: Core, run_id: str, plan: Plan) -> None:
    """Write the next attempt's files and hand it to a keeper. Raises `MissionError` with nothing started."""
    core.check_room()
    run = core.run_dir(run_id)
    if run_id in core.live or not core.launcher.is_free(run):
        raise UsageError(f"cannot resume {run_id}: a process of it is still alive")
    number = max([core.store.run(run_id).told.attempt, *run.attempts()]) + 1
    rules = rule_files(plan.now.env, plan.caller.cwd) if plan.now.env.config != plan.was.env.config else []
    order = attempt_order(core.root, run, number, plan.now, plan.caller, plan.checkpoint.name)
    folder = run.attempt(number)
    with storing(folder.path, "make"):
        folder.path.mkdir(parents=True)
    if plan.now != read_spec(run.spec):
        write_spec(folder.spec, plan.now)
    write_terms(folder.terms, plan.terms)
    write_launch(folder.launch, order)
    if rules:
        with storing(run.snapshot, "keep"):
            run.snapshot.rename(run.attempt(number - 1).path / run.snapshot.name)
        write_snapshot(run, rules)
    core.store.replace_spec(run_id, plan.now)
    live = hold_live(core, run, plan.now)
    begin(core, live, order, checkpoint=plan.checkpoint.name, changes=_journaled(plan), terms=plan.terms)


def _journaled(plan: Plan) -> tuple[Change, ...]:
    """What was accepted, without the offers that were not taken."""
    return tuple(structs.replace(change, remedies=()) for change in plan.verdict.changes)


def _caller(run: RunDir, attempt: int, request: Resume | Apply) -> Caller:
    """Whoever asks, where they say who they are; else whoever launched the attempt before."""
    if request.python is not None and request.cwd is not None and request.environ is not None:
        return Caller(request.python, request.cwd, request.environ)
    return caller_of(run, attempt)


async def _spaces(was: Spec, now: Spec, caller: Caller) -> tuple[Spaces | None, Spaces | None]:
    """The spaces of both environments, asked only when something about the environment itself changes."""
    task_was, task_now = (_task(spec) for spec in (was, now))
    if task_was == task_now:
        return None, None
    return await preflight(was, caller), await preflight(now, caller)


def _task(spec: Spec) -> tuple[object, ...]:
    env = spec.env
    return env.id, env.kwargs, env.config, env.wrappers, env.imports


def _clipped_share(core: Core, run_id: str) -> float | None:
    """Mean share (0..1) of clipped gradients over the last updates, where the trainer reports it."""
    columns = core.store.run(run_id).trained.columns
    shares = [share for share in columns.tail("train/grad_clipped_share", _CLIPPED_ROWS) if share is not None]
    return sum(shares) / len(shares) if shares else None


def _collapsed(core: Core, run_id: str, checkpoint: Manifest) -> str | None:
    """The sentence of the critical finding that was open at `checkpoint` and says that nothing is learned any more."""
    for finding in core.store.run(run_id).told.findings.values():
        grave = finding.rule in _STOPPED_LEARNING and finding.severity == "critical"
        here = finding.attempt == checkpoint.attempt
        if grave and here and finding.first_update <= checkpoint.update <= finding.last_update:
            return finding.sentence
    return None
