"""From a run's history to the one frozen view of it that everyone shows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import islice
from typing import Literal, cast

from msgspec import structs
from msgspec.structs import replace

from mission_tui.fleet.events import findings
from mission_tui.fleet.events.journal import ENDING, RestartDue, RunFrozen
from mission_tui.fleet.events.metrics import Metric, evaluated, spoken
from mission_tui.fleet.events.outcome import Failed, outcome_word
from mission_tui.fleet.events.processes import RunFlag
from mission_tui.fleet.events.provenance import Origin
from mission_tui.fleet.history.classify import CAUSE_CHARACTERS
from mission_tui.fleet.history.course import (
    GoalView,
    Moment,
    Scan,
    StepTime,
    ValueAtUpdate,
    enough_for_trend,
    pace_of,
    steps_to,
)
from mission_tui.fleet.history.journal_state import JournalState, TrialState
from mission_tui.fleet.history.run import POINTS, MetricsState, RunHistory, ViewParts, setting_changes
from mission_tui.fleet.specs.algorithm import learning_table, replay_buffer_of
from mission_tui.fleet.specs.sb3_algorithms import other_algorithm
from mission_tui.fleet.specs.spec import LAUNCHERS, MISSION_GYM, Spec, command_words, is_driver
from mission_tui.fleet.text import clean
from mission_tui.fleet.views import snapshot

Word = Literal["finished", "stopped", "killed", "failed", "lost"]

Left = tuple[float | None, float | None, float | None]
SHOWN_FINDINGS = 16
SHOWN_METRICS = 128
SHOWN_CHANGES = 8
SHOWN_TRIALS = 4


def view_of(run: RunHistory) -> snapshot.RunView:
    """The view of `run`. Text from outside is cleaned here or was when it came in."""
    journal, metrics, observed, spec, row = run.journal, run.metrics, run.observed, run.spec, run.metrics.row
    outcome, drawn, trained_by_us = journal.outcome, _drawn(run), _trained_by_us(spec)
    failed = _failed_duties(run)
    paceless = _is_paceless(run, failed)
    left: Left = (None, None, None) if paceless else _left(run, drawn.pace)
    return snapshot.RunView(
        id=run.id,
        name=journal.name,
        preset=journal.preset,
        run_dir=run.run_dir,
        state=run.state,
        created_t=journal.created_t,
        pausing=run.state in ("starting", "running") and "pause" in journal.asked,
        parking=run.state == "stopping" and journal.asked & ENDING == {"park"},
        group=journal.group,
        description=_description(spec),
        outcome=cast("Word", outcome_word(outcome)) if outcome else None,
        kind=outcome.kind if isinstance(outcome, Failed) else None,
        cause="; ".join(filter(None, (_status_sentence(journal), clean(observed.waits)))) or None,
        flags=_flags(journal, observed.flags, failed),
        attempt=journal.attempt,
        phase=observed.phase,
        phase_t=observed.phase_t,
        connected=observed.connected,
        heartbeat_t=observed.heartbeat_t,
        launcher=spec.run.launcher if spec else LAUNCHERS[0],
        node=clean(observed.node) or None,
        started_t=journal.started_t,
        ended_t=journal.ended_t,
        update=row.update if row else None,
        timesteps=row.timesteps if row and not (outcome is None and _is_begun_again(run)) else None,
        total_timesteps=_total_timesteps(run),
        duration_s=spec.run.duration_s if spec and not journal.until_timesteps else None,
        trained_s=metrics.seconds,
        # A script that reports several times within a tick of the clock has a pace that is not known.
        steps_per_s=(row.steps_per_s or None) if row and not paceless else None,
        eta_s=left[1],
        rollout_s=row.rollout_s if row else None,
        update_s=row.update_s if row else None,
        seed=spec.run.seed if spec else None,
        env_id=clean(trained_by_us.env.id) if trained_by_us else "",
        algo=_algo(trained_by_us),
        n_envs=trained_by_us.env.n_envs if trained_by_us else 0,
        n_steps=_n_steps(trained_by_us) if trained_by_us else 0,
        last_checkpoint=metrics.checkpoint or (outcome.checkpoint if outcome else None),
        metrics=drawn.metrics,
        outcomes=drawn.outcomes,
        series=drawn.series,
        findings=_findings(run),
        silenced=tuple(sorted(journal.silenced)),
        origins=_origins(journal, metrics.moved if metrics.attempt == journal.attempt else ()),
        size_bytes=run.size_bytes,
        changes=setting_changes(run)[-SHOWN_CHANGES:],
        labels=tuple(sorted(journal.labels)),
        note=journal.note,
        pids=observed.pids,
        usage=observed.usage,
        workers=observed.workers,
        held=_held(journal.frozen),
        can=snapshot.abilities_of(spec, reports=row is not None),
        restart=_restart(journal.restart),
        again=tuple(snapshot.AutoRestart(t, after) for t, after in journal.auto_restarts),
        rebooted=journal.rebooted,
        placed=journal.placed,
        payoff=journal.gains[-1] if journal.gains else None,
        failed_duties=failed,
        checkpoint_t=metrics.saved_t,
        trials=tuple(map(_trial, list(journal.trials.values())[-SHOWN_TRIALS:])),
        branch_of=journal.branch_of,
        eta_low_s=left[0],
        eta_high_s=left[2],
        best=drawn.best,
        goal=_goal(run, drawn, left, paceless=paceless),
        course=drawn.course,
        moments=tuple(_moments(run)),
        task=_task(trained_by_us),
        setting=run.setting,
    )


def _trial(trial: TrialState) -> snapshot.TrialView:
    closed, plan, verdict = trial.closed, trial.plan, trial.verdict
    plan = structs.replace(
        plan,
        assignments=tuple(map(clean, plan.assignments)),
        checkpoint=clean(plan.checkpoint),
        group=clean(plan.group),
        finding=clean(plan.finding),
    )
    if verdict is not None:
        pairs = tuple(structs.replace(pair, why=clean(pair.why, CAUSE_CHARACTERS)) for pair in verdict.pairs)
        why, best = clean(verdict.why, CAUSE_CHARACTERS), clean(verdict.best)
        verdict = structs.replace(verdict, pairs=pairs, why=why, best=best)
    by = "" if closed is None else clean(closed.by)
    return snapshot.TrialView(
        t=trial.t, plan=plan, verdict=verdict, closed="" if closed is None else closed.how, taken_by=by
    )


def _origins(journal: JournalState, moved: tuple[str, ...]) -> tuple[Origin, ...]:
    """With what of the machine is another one since.

    The first attempt of a branch of a trial goes on from what the branch comes from: that is said once. A run that has
    taken the name of the one it comes from would seem to come from itself.
    """
    twice = journal.branch_of is not None and journal.attempt == 1
    resumed = None if twice else journal.resumed
    if resumed is not None and moved:
        resumed = structs.replace(resumed, diff=(*resumed.diff, *moved))
    branched = journal.branched
    if branched is not None and branched.run and branched.name == journal.name:
        branched = structs.replace(branched, name=branched.run)
    return tuple(it for it in (branched, resumed) if it is not None)


def _flags(
    journal: JournalState, seen: frozenset[RunFlag], failed: tuple[findings.FailedDuty, ...]
) -> tuple[RunFlag, ...]:
    flags = journal.flags | seen
    if journal.foreign:
        flags |= {"foreign"}
    if failed:
        flags |= {"failed-duty"}
    return tuple(sorted(flags))


def _failed_duties(run: RunHistory) -> tuple[findings.FailedDuty, ...]:
    """What failed and was not made good: by a checkpoint that was saved, or an evaluation that was played, later.

    Rows come first: while they wait, every number of the run stands still, and many places have room for one duty.
    """
    if not run.journal.duties:
        return ()
    saved_t = run.metrics.saved_t
    done_t = {findings.CHECKPOINT: saved_t, findings.RETENTION: saved_t, findings.EVALUATION: run.metrics.evaluated_t}
    failed = sorted(run.journal.duties.items(), key=lambda item: (item[0] != findings.METRICS, item[0]))
    return tuple(each for name, each in failed if (made_good := done_t.get(name)) is None or each.t >= made_good)


def _trained_by_us(spec: Spec | None) -> Spec | None:
    return spec if spec is not None and spec.run.command is None else None


def _drawn(run: RunHistory) -> ViewParts:
    """Rows come every few seconds and views four times a second; most of what a view costs follows from the rows."""
    metrics, goal = run.metrics, run.goal
    if metrics.view_parts is None or metrics.view_parts[:2] != (metrics.seq, goal):
        series = {
            name: tuple(_brief(value) for value in metrics.columns.tail(name, POINTS)) for name in snapshot.SERIES
        }
        parts = ViewParts(_metrics(metrics), _outcomes(metrics), series, pace_of(metrics.columns.paces(POINTS)))
        if (metrics.complete and not metrics.lacking) or (metrics.scan is not None and metrics.scan.whole):
            scan = metrics.scanned(goal)
            aim, span = _aim(scan, run)
            parts = replace(parts, course=scan.course, best=scan.best, goal=aim, steps_to_goal=span)
        metrics.view_parts = metrics.seq, goal, parts
    return metrics.view_parts[2]


def _aim(scan: Scan, run: RunHistory) -> tuple[GoalView | None, tuple[float, float] | None]:
    """How the run stands to its goal by its rows, and in how many steps at least and at most it is there."""
    goal = scan.goal
    if goal is None:
        return None, None
    view = GoalView(
        of=goal.of,
        value=goal.value,
        source=_source(run),
        newest=scan.newest,
        best=scan.goal_best,
        reached=scan.reached,
    )
    steps, values = scan.trend
    if view.reached is not None or not enough_for_trend(values):
        return view, None
    span = steps_to(goal.value, steps, values)
    return structs.replace(view, trend="none" if span is None else "nearer"), span


def _source(run: RunHistory) -> Literal["run.goal", "environment"]:
    return "environment" if run.spec is None or run.spec.run.goal is None else "run.goal"


def _goal(run: RunHistory, drawn: ViewParts, left: Left, *, paceless: bool) -> GoalView | None:
    """How the run stands to its goal now; when it is there is said of a run that trains, and has the budget for it."""
    view, goal, journaled = drawn.goal, run.goal, run.journal.goal
    if view is None:
        if goal is None:
            return None
        place = None
        if journaled is not None and journaled.goal == goal.words:
            place = ValueAtUpdate(journaled.value, journaled.update, journaled.timesteps)
        return GoalView(of=goal.of, value=goal.value, source=_source(run), reached=place)
    if run.state != "running" or paceless:
        return structs.replace(view, trend="")
    if drawn.steps_to_goal is None or drawn.pace is None:
        return view
    low, high = drawn.pace.span(drawn.steps_to_goal[0])[0], drawn.pace.span(drawn.steps_to_goal[1])[1]
    if left[2] is not None and low > left[2]:
        return structs.replace(view, trend="beyond")
    return structs.replace(view, low_s=round(low, 1), high_s=round(high, 1))


def _moments(run: RunHistory) -> Iterator[Moment]:
    """Those that lie between rows that are known."""
    for t, word in run.journal.moments:
        if (place := run.metrics.place_at(t)) is not None:
            yield Moment(*place, word)


def _task(spec: Spec | None) -> str:
    """Environment and what it is made with: runs of the same can be held against each other."""
    if spec is None:
        return ""
    env = spec.env
    own = (env.config or ("standard" if env.id == MISSION_GYM else ""), *(f"{k}={v}" for k, v in env.kwargs.items()))
    return clean(" ".join(filter(None, (env.id, *own))))


def _description(spec: Spec | None) -> str:
    """What the preset says of itself; of a command that says nothing, the command."""
    if spec is None:
        return ""
    return clean(spec.description or shlex.join(command_words(spec.run)))


def _restart(due: RestartDue | None) -> snapshot.Restart | None:
    return None if due is None else snapshot.Restart(due.due_t, due.number, due.most, due.after)


def _held(frozen: RunFrozen | None) -> snapshot.HeldResources | None:
    return (
        None
        if frozen is None or frozen.why
        else snapshot.HeldResources(frozen.memory_bytes, frozen.gpu, frozen.vram_bytes)
    )


def _algo(spec: Spec | None) -> str | None:
    """What `run.algo` names; None for PPO, which is not said."""
    other = None if spec is None else other_algorithm(spec.run.algo)
    return None if other is None else other.name


def _n_steps(spec: Spec) -> int:
    """Steps of each environment in an update."""
    return int(getattr(learning_table(spec)[1], "n_steps", 0)) if replay_buffer_of(spec) is None else 0


def _total_timesteps(run: RunHistory) -> int | None:
    """The budget in steps: the end that a trial gave its branch, else what was asked for, else what a command said."""
    asked = run.journal.total_timesteps or (run.spec.run.total_timesteps if run.spec else None)
    whole = asked or run.metrics.total_timesteps
    until = run.journal.until_timesteps
    return whole if not until or (whole is not None and whole < until) else until


def _is_begun_again(run: RunHistory) -> bool:
    """Whether it is a command of which the newest attempt has said nothing yet: where that begins is not known."""
    spec, metrics = run.spec, run.metrics
    return spec is not None and spec.run.command is not None and metrics.attempt != run.journal.attempt


def _is_paceless(run: RunHistory, failed: tuple[findings.FailedDuty, ...]) -> bool:
    """Whether its rows say nothing of its end: what a search counts ends several at a time, minutes apart; and while
    rows wait for a full disk, the newest that is known says nothing of now.
    """
    rows_wait = run.journal.outcome is None and any(each.duty == findings.METRICS for each in failed)
    return is_driver(run.journal.preset) or rows_wait


def _left(run: RunHistory, pace: StepTime | None) -> Left:
    """The least, likely and most seconds from the last update to the end of the budget; None where nobody knows."""
    spec, metrics = run.spec, run.metrics
    if spec is None or run.state != "running" or metrics.row is None:
        return None, None, None
    if _is_begun_again(run):
        return None, None, None
    if spec.run.duration_s is not None and not run.journal.until_timesteps:
        left = round(max(0.0, spec.run.duration_s - metrics.seconds), 1)
        return left, left, left
    total = _total_timesteps(run)
    if total is None or pace is None:
        return None, None, None
    steps = max(0, total - metrics.row.timesteps)
    low, high = pace.span(steps)
    return round(low, 1), round(steps * pace.seconds, 1), round(high, 1)


def _metrics(metrics: MetricsState) -> dict[str, Metric]:
    """Of the newest update, and of the newest evaluation, which ends some updates after the one that it played."""
    if metrics.row is None:
        return {}
    played = {} if metrics.evaluation is None else evaluated(metrics.evaluation)
    return {clean(name, 80): value for name, value in list((played | metrics.row.metrics).items())[:SHOWN_METRICS]}


def _outcomes(metrics: MetricsState) -> dict[str, int]:
    """Episode outcomes summed over the rows that a snapshot shows."""
    total: dict[str, int] = {}
    for _, outcomes in metrics.outcomes:
        for name, count in outcomes.items():
            word = clean(name, 40)
            total[word] = total.get(word, 0) + count
    return total


def _findings(run: RunHistory) -> tuple[findings.Finding, ...]:
    """The first of them in their order. An open one lasts until now; one that was acknowledged and has become worse
    since is open again.
    """
    shown = [_as_of_now(finding, run) for finding in run.journal.findings.values()]
    return tuple(islice(findings.in_order(shown), SHOWN_FINDINGS))


def _as_of_now(finding: findings.Finding, run: RunHistory) -> findings.Finding:
    if finding.state != "open":
        return finding
    row = run.metrics.row
    last = max(finding.last_update, row.update) if row is not None else finding.last_update
    return structs.replace(finding, last_update=last, state=run.journal.finding_state(finding))


def _brief(value: float | None) -> Metric | None:
    """Five digits are more than a sparkline can show, and half the bytes."""
    return None if value is None else spoken(float(f"{value:.5g}"))


def _status_sentence(journal: JournalState) -> str | None:
    """The sentence; None for a run that trains, or waits for nothing but its turn: how it ended before it was resumed
    says nothing of that.
    """
    if journal.restart is not None and journal.restart.after == "request":
        return None
    if journal.outcome is not None:
        cause = journal.gave_up or journal.outcome.cause
        if journal.foreign:
            cause = f"foreign: {journal.foreign}; {cause}; `adopt` shows what it would run"
        return clean(cause, CAUSE_CHARACTERS)
    if journal.frozen is None:
        return None
    if journal.frozen.why:  # and only once it goes on it can be ended
        return clean(journal.frozen.why, CAUSE_CHARACTERS)
    return None if journal.asked & ENDING else _frozen(journal.frozen)


def _frozen(event: RunFrozen) -> str:
    who = "frozen" if event.by == "asked" else "stopped from outside by SIGSTOP"
    memory = "its memory" if event.memory_bytes is None else f"{_size(event.memory_bytes)} of memory"
    known = event.vram_bytes is not None
    gpu = f" and {_size(event.vram_bytes or 0)} on the GPU" if known else " and its GPU memory" if event.gpu else ""
    stay = "stay" if event.gpu else "stays"
    going = f"; {', '.join(map(str, event.running))} did not stop" if event.running else ""
    return f"{who}: {memory}{gpu} {stay} held; resume lets it go on{going}"


def _size(size_bytes: int) -> str:
    if size_bytes < 2**20:
        return "less than 1 MiB"
    return f"{size_bytes / 2**30:.1f} GiB" if size_bytes >= 2**30 else f"{size_bytes / 2**20:.0f} MiB"
