"""The judge of one run: every rule on every update, one incident per stretch of trouble.

Judging is a function of the records and declared breaks alone: the same ones give the same incidents with the same ids,
whenever and however often they are judged. Breaks count by their time, whenever before a later row they are told; those
that are told after the clock was set back wait for the first row that ended after it. A new attempt is a break itself,
and so are settings changed while it trains: windows start anew, what was open is over. Only a silence, a number that is
not finite, work that is not saved and harm that an earlier change did outlive changed settings.

What begins after a change of settings is a symptom of that change, and what begins, or becomes more than information,
while another finding is open that may have caused it is one of that finding: `Finding.part_of` names it.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from functools import partial
from operator import itemgetter

from msgspec import Struct, field, structs
from msgspec.structs import replace

from mission_tui.errors import MissionError
from mission_tui.fleet.events.findings import Finding, Severity
from mission_tui.fleet.events.journal import Break
from mission_tui.fleet.events.metrics import (
    CheckpointSaved,
    DutyFailed,
    EvaluationDone,
    MetricRecord,
    SettingsChanged,
    TrainingEnded,
    TrainingStarted,
    UpdateDone,
)
from mission_tui.fleet.health.after_change import AfterChange, Changed, changed_by, changed_in
from mission_tui.fleet.health.checkpoint_age import CheckpointAge
from mission_tui.fleet.health.hang import Hang
from mission_tui.fleet.health.not_finite import NotFinite
from mission_tui.fleet.health.phrases import for_strangers, in_own_table, without_tables
from mission_tui.fleet.health.returns import Returns, trend_warm_up
from mission_tui.fleet.health.rule import Explanation, Row, Rule, RuleContext, returns_of, row_of
from mission_tui.fleet.health.rules import RULES
from mission_tui.fleet.health.settings import (
    OF_ANY,
    TELLING,
    Algorithm,
    Settings,
    is_of_no_known_algorithm,
    other_called,
    recognize_algorithm,
    settings_of,
)
from mission_tui.fleet.health.usual_settings import LossParts, usual_first
from mission_tui.fleet.resume.verdict import Change
from mission_tui.fleet.specs.preset import with_words
from mission_tui.fleet.specs.sb3_algorithms import other_algorithm
from mission_tui.fleet.specs.sizes import pressure_caution, update_pressure
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.specs.thresholds import Limits

OUTLIVE_SETTINGS = (Hang.id, NotFinite.id, CheckpointAge.id)
"""Rules that also speak without a row, of what other settings do not end: closed by them, it would open again."""

STAGES: Mapping[str, int] = {
    "resume-probe": 0,
    "ratio": 0,
    "kl-persistent": 1,
    "kl-spike": 1,
    "kl-creep": 1,
    "clip-fraction": 1,
    "grad-norm": 2,  # gradients are cut before each step, so that their size makes none too large
    "policy-std": 2,
    "entropy-collapse": 2,
    "actions-at-bound": 2,
    "policy-frozen": 2,
    "explained-variance": 2,
    "value-loss": 2,
    "ent-coef": 2,
    "drawdown": 3,
    "reward-oscillation": 3,
    "stall": 3,
    "outcomes": 3,
    "plateau": 3,
    "nan": 3,
}
"""How far along what a rule sees is on the way from the numbers over the step and the policy to the return. What is
seen earlier may cause what is as far or farther along, never the reverse. Rules that judge the process are not here.
"""

SEEN_IN: Mapping[str, tuple[str, ...]] = {"reward-oscillation": ("drawdown",)}
"""Rules that may speak first of what another tells in full: each swing of a return falls, too."""

_STEP = 1
"""The stage of the rules that see how far an update moved the policy."""

_FROZEN_KL, _NEAR_BEST = 1e-5, 0.9

OF_EVERY_ROW = (Hang.id, NotFinite.id)
ROUNDS = 500
"""Rows that another algorithm's training is judged by; windows of rules are made for as many."""

KEPT = 256
"""Incidents that are remembered; of more, the oldest that are over are forgotten (they are in the journal)."""


class _SetBack(Struct):
    """The clock went back from unix time `before` to `after`; `breaks` were declared since."""

    before: float
    after: float
    breaks: list[tuple[float, Break]] = field(default_factory=list)


class HealthJudge:
    """Judges a run's updates in order. Never raises, whatever a trainer may have said."""

    def __init__(
        self, settings: Settings, limits: Limits, spec: Spec | None = None, other: Algorithm | None = None
    ) -> None:
        """`spec` is what `settings` are of, from which changed ones are worked out; None where there is no spec.

        `other` is the algorithm where the rows need not tell it, and it is not PPO."""
        self._spec = spec
        self._settings = settings
        self._limits = limits
        self._attempt = 0
        self._from = 0
        self._update = -1
        self._t = 0.0
        self._row: Row | None = None
        self._breaks: list[tuple[float, Break]] = []
        self._set_back: deque[_SetBack] = deque()
        self._seen_t = 0.0
        self._incidents: dict[str, Finding] = {}
        self._open: dict[str, str] = {}
        self._asked: tuple[Change, ...] = ()
        self._dead = False
        self._told = self._known = settings.ours or other is not None
        self._other = other
        self._begin()

    @property
    def has_rules(self) -> bool:
        """Whether any rule is on, without which nothing that is fed comes to anything."""
        return bool(self._rules)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every remembered incident, oldest first; an open one lasts until the update judged last, and of one that is
        over the evidence went with the word that it is.
        """
        return tuple(
            _lasting(finding, self._update, self._t) if finding.state == "open" else finding
            for finding in self._incidents.values()
        )

    def feed(self, record: MetricRecord) -> list[Finding]:
        """Take in the next line of `metrics.jsonl`; the incidents that opened, changed severity or cleared with it."""
        match record:
            case UpdateDone():
                return self.update(record)
            case TrainingStarted():
                return self.started(record)
            case TrainingEnded():
                return self.ended(record)
            case SettingsChanged():
                return self.changed(record)
            case CheckpointSaved():
                return self.saved(record)
            case DutyFailed():
                return self.failed(record)
            case EvaluationDone():
                self._break(record.t, "evaluation")
        return []

    def resumed_with(self, changes: tuple[Change, ...]) -> None:
        """The attempt that is judged is a resume with these changes; told before its first record."""
        self._asked = changes

    def started(self, record: TrainingStarted) -> list[Finding]:
        """An attempt begins: what the trainer says of its environment counts from here on."""
        changed = self._enter(record.attempt)
        if record.attempt == self._attempt and self._update < 0:
            self._settings, self._from = self._settings.with_env(record), record.from_update
            self._begin()
            self._hang.began(_moment(record.t))
            self._seen_t = _moment(record.t)
            mean = record.resumed.mean_before if record.resumed is not None else None
            known = float(mean) if isinstance(mean, int | float) and math.isfinite(mean) else None
            changes = changed_by(self._asked)
            was = self._was(changes)
            # Away from settings that break a policy: what comes after that is no harm of going away.
            if was is None or self._spec is None or not _lessens(was, self._spec):
                self._after_change.resumed(changes, record.from_update, known, broken=_breaks(was))
        return changed

    def broken(self, t: float, cause: Break) -> None:
        """A declared break at unix time `t`; it counts for every row that ended later, and is told before it.

        What is told after the clock was set back counts from the first row after that.
        """
        if not math.isfinite(t):
            return
        if cause == "back":
            self._set_back.append(_SetBack(t, t))
        elif cause == "backed":
            self._set_back[-1].after = t
        elif self._set_back:
            insort(self._set_back[-1].breaks, (t, cause), key=itemgetter(0))
        else:
            self._break(t, cause)

    def _break(self, t: float, cause: Break) -> None:
        if math.isfinite(t):
            insort(self._breaks, (t, cause), key=itemgetter(0))
            self._hang.paused(t, cause)

    def _reach(self, t: float) -> list[Finding]:
        """The next record is of unix time `t`: go on behind each time that the clock was set back before it.

        It was where the record is older than the one before it, or newer than the clock ever was until then, or comes
        although the run was held then. A silence that was too long before it is one of the clock's time then.
        """
        changed: list[Finding] = []
        while self._set_back:
            step = self._set_back[0]
            if not (t < self._seen_t or t > step.before or (t >= step.after and self._hang.held_at(t))):
                break
            changed += self._silent(self._hang, step.before)
            self._apply_breaks(math.inf)
            self._set_back.popleft()
            self._hang.set_back(step.before - step.after)
            self._seen_t -= step.before - step.after
            for at, cause in step.breaks:
                self._break(at, cause)
        self._seen_t = t
        return changed

    def update(self, record: UpdateDone) -> list[Finding]:
        """Judge one more update; the incidents that opened, changed severity or cleared with it.

        A record that was judged already changes nothing.
        """
        row = row_of(record)
        changed = self._enter(row.attempt)
        if row.attempt < self._attempt or row.update <= self._update:
            return changed
        changed += self._reach(row.t)
        changed += self._silent(self._hang, row.t)
        self._apply_breaks(row.t)
        self._update, self._t, self._row = row.update, row.t, row
        if not self._told:
            self._tell(row)
        # Until a row has a tag of Stable-Baselines3, what is known of its algorithms fits only where it fits any.
        silent = () if self._known else tuple(rule for rule in self._rules if rule.id not in OF_ANY)
        self._returns.sampled, self._returns.lengths = returns_of(record), record.episodes.l
        rules, judged = self._rules, row if self._other is None else self._round.take(row)
        if judged is None:
            rules = tuple(rule for rule in rules if rule.id in OF_EVERY_ROW)
        else:
            row, returns = judged, self._returns
            mean = row.metrics.get("rollout/ep_rew_mean")
            if self._other is None:
                returns.newest.update(row.update, mean, returns.sampled, returns.lengths)
            returns.update(mean, row.episodes, self._ended_since(row), row.update)
            self._losses.update(row)
            self._dead = self._is_dead(row)
        for rule in rules:
            severity = rule.judge(row)
            if (severity is not None and rule not in silent) or (self._open and rule.id in self._open):
                changed += self._follow(rule, severity, row.update, row.t)
        row.pack()
        story = self._after_change
        if story in rules and (story.severity is not None or story.id in self._open):
            # What other rules found in this update is part of how bad it is.
            changed += self._follow(story, story.severity, row.update, row.t)
        if not changed:
            return changed
        # What was told twice of one incident, as symptoms came in, is told as it is in the end.
        return list({(finding.id, finding.state): finding for finding in changed}.values())

    def changed(self, record: SettingsChanged) -> list[Finding]:
        """Other settings from here on: windows start anew, and what was concluded from them is over.

        A silence, a number that is not finite and work that is not saved last on, so that judging later gives the same.
        """
        changed = self._enter(record.attempt)
        if record.attempt < self._attempt:
            return changed
        changed += self._reach(_moment(record.t))
        changed += self._silent(self._hang, _moment(record.t))
        outlive = (*OUTLIVE_SETTINGS, AfterChange.id)
        changed += [self._clear(rule) for rule in list(self._open) if rule not in outlive]
        known, was = self._settings, self._spec
        if self._spec is not None:
            with suppress(MissionError):
                self._spec = with_words(self._spec, (record.assignments,))
            known = settings_of(self._spec)
        self._settings = replace(
            known,
            reward_threshold=self._settings.reward_threshold,
            max_episode_steps=self._settings.max_episode_steps,
            in_use=self._settings.in_use,
            resumed=None,
        )
        hang, age, story = self._hang, self._checkpoint_age, self._after_change
        hang.changed()
        self._begin(hang)
        self._checkpoint_age.goes_on_from(age)
        if was is not None and self._spec is not None:
            lessened = _lessens(was, self._spec)
            changes = changed_in(was, self._spec)
            self._after_change.set(story, changes, record.update, broken=_breaks(was), lessened=lessened)
        if AfterChange.id in self._open:
            story, t = self._after_change, max(self._t, _moment(record.t))
            changed += self._follow(story, story.severity, self._update, t, anew=True)
        return changed

    def saved(self, record: CheckpointSaved) -> list[Finding]:
        """A verified checkpoint: what could not be saved before is over."""
        changed = self._enter(record.attempt)
        if record.attempt == self._attempt:
            self._checkpoint_age.saved()
            if CheckpointAge.id in self._open:
                changed.append(self._clear(CheckpointAge.id))
        return changed

    def failed(self, record: DutyFailed) -> list[Finding]:
        """The trainer could not do something: a checkpoint that it could not save is an incident without a row."""
        changed = self._enter(record.attempt)
        rule = self._checkpoint_age
        if record.attempt == self._attempt and rule in self._rules and rule.failed(record):
            t = max(self._t, _moment(record.t))
            changed += self._follow(rule, rule.severity, max(self._from, self._update), t)
        return changed

    def silence(self, now: float) -> list[Finding]:
        """No row has come until unix time `now`, while the trainer lives; a hang may open."""
        hang, found = self._hang, list[Finding]()
        if self._set_back:
            # Of a copy: rows from before the clock was set back may still come.
            hang = copy(hang)
            for step in self._set_back:
                found += self._silent(hang, step.before)
                hang.set_back(step.before - step.after)
                for t, cause in step.breaks:
                    hang.paused(t, cause)
        return found + self._silent(hang, now)

    def _silent(self, hang: Hang, now: float) -> list[Finding]:
        if hang.id in self._open or self._limits.hang.act == "off":
            return []
        severity = hang.silent(now)
        if severity is None or (since := hang.since) is None:
            return []
        return self._opened(hang, severity, max(self._from, self._update), since)

    def ended(self, record: TrainingEnded) -> list[Finding]:
        """The attempt is over; if it died of a number that is not finite, that is an incident even without a row."""
        changed = self._enter(record.attempt)
        if record.attempt < self._attempt:
            return changed
        changed += self._reach(_moment(record.t))
        changed += self._silent(self._hang, record.t)
        if self._hang.id in self._open and self._hang.silent(record.t) is None:
            changed.append(self._clear(self._hang.id))  # the last row was late, and the end came in time
        self._hang.over()
        if record.failure == "nan" and acts(self._limits, "nan") != "off" and self._not_finite.id not in self._open:
            self._not_finite.check_record(record)
            changed += self._opened(self._not_finite, "critical", record.update, max(self._t, _moment(record.t)))
        return changed

    def close(self) -> list[Finding]:
        """Another attempt begins: what is open is over, as of the update judged last."""
        return [self._clear(rule) for rule in list(self._open)]

    def _enter(self, attempt: int) -> list[Finding]:
        """A later attempt than before: what is open is over, windows start anew."""
        if attempt <= self._attempt:
            return []
        changed = self.close()
        self._attempt, self._from, self._update, self._t, self._row = attempt, 0, -1, 0.0, None
        self._begin()
        return changed

    def _begin(self, hang: Hang | None = None) -> None:
        settings, limits = self._settings, self._limits
        self._steps: int | None = None
        self._returns = Returns(trend_warm_up(settings.budget), settings.stats_window)
        self._losses = LossParts(settings)
        asked = () if settings.resumed is None else changed_by(self._asked)
        changes = tuple(f"{it.name}: {it.was} -> {it.now}" for it in asked)
        context = RuleContext(settings, limits, self._returns, self._losses, changes)
        self._not_finite = NotFinite(context)
        if hang is None:
            hang = Hang(context)
            for t, cause in self._breaks:
                hang.paused(t, cause)
        self._hang = hang
        self._checkpoint_age = CheckpointAge(context)
        self._after_change = AfterChange(context)
        own = (self._after_change, self._not_finite, self._hang, self._checkpoint_age)
        judging = (*own, *(context.shared(rule, partial(rule, context)) for rule in RULES))
        self._rules: tuple[Rule, ...] = tuple(rule for rule in judging if acts(limits, rule.id) != "off")
        self._round = _Round((settings.total_timesteps or 0) / ROUNDS)
        self._keep_fitting()

    def _tell(self, row: Row) -> None:
        """Whose row it is, as far as its tags tell."""
        self._known = self._known or not is_of_no_known_algorithm(row.metrics)
        told = recognize_algorithm(TELLING.intersection(row.metrics))
        if told is not None:
            self._told, self._other = True, told.algorithm
            self._keep_fitting()

    def _keep_fitting(self) -> None:
        if self._other is not None:
            fitting = (*self._other.rules, AfterChange.id)
            self._rules = tuple(rule for rule in self._rules if rule.id in fitting)

    def _is_dead(self, row: Row) -> bool:
        """Whether the policy stands still, far from its best."""
        if not row.metrics.get("train/approx_kl", math.nan) < _FROZEN_KL:
            return False
        share = self._returns.share_of_best
        return row.metrics.get("train/clip_fraction") == 0.0 and share is not None and share < _NEAR_BEST

    def _ended_since(self, row: Row) -> float:
        """About how many episodes ended since the row before, for logs that do not count them."""
        before, self._steps = self._steps, row.timesteps
        length = row.metrics.get("rollout/ep_len_mean", math.nan)
        return (row.timesteps - before) / length if before is not None and 0.0 < length < math.inf else 0.0

    def _apply_breaks(self, t: float) -> None:
        while self._breaks and self._breaks[0][0] < t:
            _, cause = self._breaks.pop(0)
            if cause in ("step", "stepped"):
                continue  # nothing happened but that the clock was set: rows are as comparable as before
            for rule in self._rules:
                rule.broken(cause)

    def _follow(
        self, rule: Rule, severity: Severity | None, update: int, t: float, *, anew: bool = False
    ) -> list[Finding]:
        """What becomes of `rule`'s incident; `anew`: it is reported again even if it is no worse."""
        known = self._incidents.get(self._open.get(rule.id, ""))
        if severity is None and known is not None and self._lasts(known):
            severity = known.severity
        if severity is None:
            return [self._clear(rule.id)] if known else []
        if known is None:
            return self._opened(rule, severity, update, t)
        if severity == known.severity and not (anew or rule.retell):
            return []
        # Rules that see how far updates went say the same of one step: what began on its own stays so among these.
        if known.severity == "info" and not known.part_of and STAGES.get(rule.id, _STEP) > _STEP:
            known = structs.replace(known, part_of=self._cause_of(rule.id, known.id))
        words = self._explain(rule, severity, known.part_of)
        if severity == known.severity and (words.sentence, words.undo) == (known.sentence, known.undo):
            return []
        story, at_once = self._after_change, []
        if known.part_of.startswith(f"{story.id}-"):
            story.symptom(rule.id, severity, update)
            at_once = self._follow(story, story.severity, update, t)
        return [*at_once, self._keep(_worded(known, words, severity, update, t))]

    def _was(self, changes: tuple[Changed, ...]) -> Spec | None:
        """The spec without `changes`; None where that is not known."""
        if self._spec is None:
            return None
        with suppress(MissionError):
            return with_words(self._spec, (tuple(it.undo for it in changes if it.undo),))
        return None

    def _lasts(self, known: Finding) -> bool:
        """Whether an incident whose rule is calm goes on: what came of it is open, or the policy that was moved too far
        has not moved since, far from its best.
        """
        if known.severity == "info" or known.rule == AfterChange.id:
            return False
        if self._dead and STAGES.get(known.rule) == _STEP:
            return True
        others = (self._incidents.get(id_) for id_ in self._open.values())
        return any(it is not None and it.part_of == known.id and it.severity != "info" for it in others)

    def _opened(self, rule: Rule, severity: Severity, update: int, t: float) -> list[Finding]:
        story, changed, part_of = self._after_change, list[Finding](), ""
        if rule is story:
            update = story.first_update
        elif rule.id in STAGES and story in self._rules and (story.watches(update) or story.id in self._open):
            # Whatever comes to a policy while the harm of the change lasts, however late, is a part of that.
            story.symptom(rule.id, severity, update)
            changed += self._follow(story, story.severity, update, t)
            part_of = self._open.get(story.id, "")
        elif rule.id in STAGES:
            part_of = self._cause_of(rule.id)
        finding = Finding(
            id=f"{rule.id}-{self._attempt}-{update}",
            rule=rule.id,
            severity=severity,
            first_update=update,
            last_update=update,
            sentence="",
            cause="",
            advice="",
            first_t=t,
            part_of=part_of,
        )
        self._open[rule.id] = finding.id
        words = self._explain(rule, severity, part_of)
        changed.append(self._keep(_worded(finding, words, severity, max(update, self._update), t)))
        if rule is story:
            return [*changed, *self._taken_in(finding)]
        return [*changed, *self._told_in_full(finding)]

    def _told_in_full(self, finding: Finding) -> list[Finding]:
        """Open findings of which `finding` says more, as symptoms of it from now on, where neither has a cause."""
        others = (self._incidents[self._open[it]] for it in SEEN_IN.get(finding.rule, ()) if it in self._open)
        last = {"last_update": self._update, "last_t": self._t}
        alone = [it for it in others if not (it.part_of or finding.part_of)]
        return [self._keep(structs.replace(it, part_of=finding.id, **last)) for it in alone]

    def _taken_in(self, story: Finding) -> list[Finding]:
        """The open findings that began since the change, as symptoms of it from now on."""
        taken = []
        for id_ in self._open.values():
            known = self._incidents[id_]
            if known.rule in STAGES and not known.part_of and known.first_update >= story.first_update:
                self._after_change.symptom(known.rule, known.severity, known.first_update)
                last = {"last_update": self._update, "last_t": self._t}
                taken.append(self._keep(structs.replace(known, part_of=story.id, **last)))
        return taken

    def _cause_of(self, rule_id: str, own: str = "") -> str:
        """The id of the earliest open finding that may have caused one of `rule_id`; "" where there is none.

        None is caused by its own symptoms, whose id is `own`, nor by what it tells in full.
        """
        told = {own, *(self._open.get(it, "") for it in SEEN_IN.get(rule_id, ()))} - {""}
        others = [self._incidents[id_] for rule, id_ in self._open.items() if rule in STAGES and rule != rule_id]
        causes = [it for it in others if it.severity != "info" and STAGES[it.rule] <= STAGES[rule_id]]
        causes = [it for it in causes if not told.intersection((it.id, it.part_of))]
        first = min(causes, key=lambda it: (it.first_update, STAGES[it.rule]), default=None)
        return "" if first is None else first.part_of or first.id

    def _explain(self, rule: Rule, severity: Severity, part_of: str) -> Explanation:
        """The rule's words, or of settings that come first; of a training that is not ours, none that only ours could
        follow. What came of a change is mended by undoing that.
        """
        words = rule.explain(severity)
        if severity != "info":
            words = usual_first(rule.id, words, self._settings, self._losses, self._row)
        if not self._settings.ours:
            advice = for_strangers(without_tables(words.advice), words.advice_set, self._settings)
            sentence, why = without_tables(words.sentence), without_tables(words.cause)
            return replace(words, sentence=sentence, cause=why, advice=advice, advice_set=())
        cause = self._incidents.get(part_of)
        if cause is not None and cause.undo:
            return replace(words, advice=cause.advice, advice_set=cause.advice_set, undo=cause.undo)
        return in_own_table(words, self._settings)

    def _clear(self, rule_id: str) -> Finding:
        known = self._incidents[self._open.pop(rule_id)]
        if known.part_of:
            self._after_change.symptom(rule_id, None, self._update)
        over = cleared(known, self._update, self._t)
        self._keep(structs.replace(over, evidence=()))
        return over

    def _keep(self, finding: Finding) -> Finding:
        self._incidents[finding.id] = finding
        if len(self._incidents) > KEPT:
            over = next((id_ for id_ in self._incidents if id_ not in self._open.values()), None)
            if over is not None and over != finding.id:
                del self._incidents[over]
        return finding


def _breaks(spec: Spec | None) -> bool:
    """Whether the updates of `spec` are too large to learn with, so that going back to it is no remedy."""
    return spec is not None and bool(pressure_caution(spec))


def _lessens(was: Spec, now: Spec) -> bool:
    """Whether the updates of `was` are too large to learn with, and those of `now` are smaller."""
    return _breaks(was) and update_pressure(now) < update_pressure(was)


class _Round:
    """The rows of another algorithm put together until they are `steps` long: what rules that count rows see as one."""

    def __init__(self, steps: float) -> None:
        self._steps = steps
        self._begun: int | None = None
        self._before: int | None = None
        self._episodes = self._timed = 0
        self._rollout_s = self._update_s = 0.0

    def take(self, row: Row) -> Row | None:
        """The round that `row` ends: its numbers, with all episodes and seconds since the last one; else None.

        Where phases were not timed, the speed of each row says its seconds. Rows before the first gradient step have
        none: they are far faster than those after it.
        """
        before = self._before if self._before is not None else row.timesteps
        self._before = row.timesteps
        self._episodes += row.episodes
        if any(tag.startswith("train/") for tag in row.metrics):
            timed = row.rollout_s + row.update_s > 0.0
            seconds = (row.timesteps - before) / row.steps_per_s if row.steps_per_s > 0.0 else 0.0
            self._rollout_s += row.rollout_s if timed else max(0.0, seconds)
            self._update_s += row.update_s
            self._timed += row.timesteps - before
        begun = self._begun if self._begun is not None else row.timesteps - self._steps
        if row.timesteps - begun < self._steps:
            return None
        seconds = self._rollout_s + self._update_s
        whole = replace(
            row,
            episodes=self._episodes,
            rollout_s=self._rollout_s,
            update_s=self._update_s,
            steps_per_s=self._timed / seconds if seconds > 0.0 else 0.0,
        )
        self._begun, self._episodes, self._timed = row.timesteps, 0, 0
        self._rollout_s = self._update_s = 0.0
        return whole


def judge_of(spec: Spec) -> HealthJudge:
    """A judge of runs that train as `spec` says, by the spec's own limits."""
    other = other_algorithm(spec.run.algo)
    return HealthJudge(
        settings_of(spec),
        spec.keep.health,
        spec,
        None if other is None else other_called(other.called),
    )


def acts(limits: Limits, rule_id: str) -> str:
    """How far rule `rule_id` may act; one that this version does not know, not at all."""
    act: str = getattr(getattr(limits, rule_id.replace("-", "_"), None), "act", "off")
    return act


def unfit(other: Algorithm) -> tuple[str, ...]:
    """The rules that say nothing of a training by `other`: what they read means something else there, or is missing."""
    return tuple(sorted(rule.id for rule in RULES if rule.id not in other.rules))


def is_news(finding: Finding, known: Finding | None) -> bool:
    """Whether `finding` goes beyond what is known of its incident; judging a run anew repeats what is known.

    Within one update an incident may be over, begin again and become worse: then its time says what is newer.
    """
    if known is None:
        return True
    # Findings of old journals have no time; by theirs everything would be newer.
    since, then = (finding.last_t, known.last_t) if known.last_t else (0.0, 0.0)
    return (finding.last_update, since, finding.state == "cleared") > (
        known.last_update,
        then,
        known.state == "cleared",
    )


def cleared(finding: Finding, update: int, t: float) -> Finding:
    """`finding` as one that is over, as of `update`, which ended at unix time `t`."""
    return structs.replace(_lasting(finding, update, t), state="cleared")


def _lasting(finding: Finding, update: int, t: float) -> Finding:
    return structs.replace(finding, last_update=max(finding.last_update, update), last_t=max(finding.last_t, t))


def _worded(finding: Finding, words: Explanation, severity: Severity, update: int, t: float) -> Finding:
    return structs.replace(
        finding,
        severity=severity,
        last_update=update,
        last_t=t,
        sentence=words.sentence,
        cause=words.cause,
        advice=words.advice,
        advice_set=words.advice_set,
        undo=words.undo,
        evidence=words.evidence,
        signal=words.signal,
        threshold=words.threshold,
        window=words.window,
    )


def _moment(t: float) -> float:
    return t if math.isfinite(t) else 0.0
