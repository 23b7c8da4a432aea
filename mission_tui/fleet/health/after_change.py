"""`after-change`: trouble that began after somebody changed settings, told as one story that begins with that change.

It watches the updates after a `set` while the run trains, or after a resume with changes, against the run as it was
before: the return, the entropy, the size of the steps. What other rules find in that time are symptoms of it, and the
first remedy is to undo the change. In place while the policy is unharmed; else from the last checkpoint of before, for
a policy that has collapsed does not come back by a setting.

A change of the environment makes returns incomparable; then only the symptoms speak.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from msgspec import Struct

from mission_tui.fleet.events.findings import AFTER_CHANGE, GRAVITY, Severity, Undo
from mission_tui.fleet.health.phrases import learning_rate_of, pressure_sentence, rounded
from mission_tui.fleet.health.returns import trend_warm_up
from mission_tui.fleet.health.rule import Explanation, Row, Rule, RuleContext
from mission_tui.fleet.health.trust_region import SAFE_TIMES, StepScale, far_too_high
from mission_tui.fleet.resume.verdict import Change
from mission_tui.fleet.specs.preset import is_live, live_keys
from mission_tui.fleet.specs.sb3_algorithms import OTHERS
from mission_tui.fleet.specs.spec import Schedule, Spec
from mission_tui.fleet.windows import Window

RATE = "ppo.learning_rate"
_UNRELATED = ("env.vec", "env.n_workers", "env.imports")
"""Settings that change how environments are stepped, and nothing of what is learned."""
_RETURN, _ENTROPY, _KL = "rollout/ep_rew_mean", "policy/entropy_ratio", "train/approx_kl"
_TAGS = (_KL, "train/clip_fraction", _ENTROPY, "train/learning_rate", _RETURN)
_EVIDENCE = 8
_HAD_CHOICE = 0.1
"""A policy with less entropy than that had decided before the change."""
_GONE_FOR = 3
_NAMED = 3
"""Settings that the sentence names; of more it gives the number."""


class Changed(Struct, frozen=True):
    """One setting, from what to what; `undo` is the `--set` word that puts it back, "" where no word can."""

    name: str
    was: str
    now: str
    undo: str


_OF_LEARNING = ("ppo.", "env.", *(f"{name}." for name in OTHERS))


def changed_in(was: Spec, now: Spec) -> tuple[Changed, ...]:
    """What differs between two specs of a run that trains on, of the settings that bear on what is learned."""
    found = []
    for name in live_keys(now.run.algo)[0]:
        table, _, key = name.partition(".")
        old, new = (getattr(getattr(spec, table), key, None) for spec in (was, now))
        if table != "run" and old != new:
            found.append(Changed(name, _shown(old), _shown(new), f"{name}={_word(old)}"))
    return tuple(found)


def changed_by(changes: Iterable[Change]) -> tuple[Changed, ...]:
    """The same of the accepted changes of a resume, but for what a finding's advice asked for."""
    return tuple(
        Changed(it.name, _said(it.was), _said(it.now), _undo(it.name, it.was))
        for it in changes
        if it.name.startswith(_OF_LEARNING) and it.name not in _UNRELATED and it.was != it.now and not it.advised
    )


class _Before(Struct):
    """The run as it was: its mean return with range and noise, the entropy ratio and the learning rate of its last
    update. None is not known.
    """

    mean: float | None = None
    span: float = 0.0
    noise: float = 0.0
    entropy: float | None = None
    rate: float | None = None


class AfterChange(Rule):
    """The judge calls it like a rule, and hands it changes and symptoms too. It outlives changed settings."""

    id = AFTER_CHANGE

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = context.limits.after_change
        self._within = self._limits.within + trend_warm_up(context.settings.budget)
        self._scale = StepScale.shared(context)
        self._changed: tuple[Changed, ...] = ()
        self._resumed = False
        self._broken = False
        self._undone: int | None = None
        self._since: int | None = None
        self._before = _Before()
        self._rows = Window[Row](_EVIDENCE)
        self._symptoms: dict[str, Severity] = {}
        self._harm: Severity | None = None
        self._largest: tuple[float, float] = 0.0, 0.0
        self._told_undo: Undo = ""
        self._best = -math.inf
        self._gone = 0
        self._gone_at: int | None = None
        self._broke_at: int | None = None

    @property
    def first_update(self) -> int:
        """The first update that trained with the change."""
        return (self._since or 0) + 1

    @property
    def severity(self) -> Severity | None:
        """The worse of the harm that is seen and of the symptoms that are open."""
        if not self._symptoms:
            return self._harm
        seen = [*self._symptoms.values(), *((self._harm,) if self._harm else ())]
        return max(seen, key=GRAVITY.__getitem__, default=None)

    @property
    def undo(self) -> Undo:
        """How the change is undone as things stand."""
        return self._remedy()[2]

    def watches(self, update: int) -> bool:
        """Whether what begins at `update` is put down to the change."""
        return self._since is not None and 0 < update - self._since <= self._within

    def resumed(self, changed: tuple[Changed, ...], update: int, mean: float | None, *, broken: bool = False) -> None:
        """The attempt goes on after update `update` with other settings; `mean` was its mean return before, and
        `broken` says that nobody learns with the settings of before.
        """
        if changed:
            self._changed, self._since, self._resumed, self._broken = changed, update, True, broken
            self._before = _Before(mean=mean)

    def set(
        self,
        before: AfterChange,
        changed: tuple[Changed, ...],
        update: int,
        *,
        broken: bool = False,
        lessened: bool = False,
    ) -> None:
        """Other settings take effect after update `update`; `before` watched until now, under the settings of then.

        A change within the time of another is one with it, and one that takes it back leaves only what it did. One from
        settings that are `broken`, as nobody learns with them, begins no story where it has `lessened` that.
        """
        if before.watches(update) or before.severity is not None:
            self._goes_on_from(before)
            self._changed = _joined(before._changed, changed)
            self._undone = None if self._changed else update
            if self._harm is None and not self._changed:
                self._since = None
        elif changed and not lessened:
            returns, last = before.context.returns, before._rows[-1] if before._rows else None
            entropy = last.metrics.get(_ENTROPY) if last else None
            rate = learning_rate_of(last, before.context.settings)
            self._before = _Before(returns.latest, returns.span, returns.noise, entropy, rate)
            self._changed, self._since, self._broken = changed, update, broken

    def _goes_on_from(self, before: AfterChange) -> None:
        self._since, self._before, self._resumed = before._since, before._before, before._resumed
        self._broken = before._broken
        self._harm, self._largest, self._rows = before._harm, before._largest, before._rows
        self._gone, self._gone_at, self._broke_at = before._gone, before._gone_at, before._broke_at
        self._best = before._best

    def symptom(self, rule: str, severity: Severity | None, update: int) -> None:
        """How bad the finding of another rule is that began after the change; None once it is over."""
        if severity is None or severity == "info":
            self._symptoms.pop(rule, None)
            return
        self._symptoms[rule] = severity
        if rule == "nan":
            self._broke_at = update

    def judge(self, row: Row) -> Severity | None:
        """Warning at a quarter of the return's range lost since the change, or no entropy any more; critical at half of
        it, or both. Until half of that has been made up.
        """
        self._rows.append(row)
        self._scale.update(row)
        if self._since is not None:
            self._measure(row)
            if self._harm is not None or self.watches(row.update):
                self._harm = self._harmed(row)
            self.retell = _doubled(row.update - self._since - 1) or self.undo != self._told_undo
        return self.severity

    def explain(self, severity: Severity) -> Explanation:
        """The story: what was changed, what it did, and how to undo it."""
        row, settings = self._rows[-1] if self._rows else None, self.context.settings
        signal = _RETURN if row is not None and self._fall(row) > 0.0 else _KL
        cause = pressure_sentence(settings, learning_rate_of(row, settings))
        advice, words, undo = self._remedy()
        self._told_undo = undo
        return Explanation(
            sentence="; ".join((self._change_words(row), ", ".join(self._effects(row)))).rstrip("; "),
            cause=cause if _presses(self._changed) else "what other rules found since is listed below",
            advice=advice,
            advice_set=words,
            evidence=tuple(each.evidence(*_TAGS) for each in self._rows),
            signal=signal,
            window=self._limits.within,
            undo=undo,
        )

    def _measure(self, row: Row) -> None:
        kl, u = row.metrics.get(_KL), self._scale.u(row)
        if kl is not None and u is not None and math.isfinite(kl) and u > self._largest[0]:
            self._largest = u, kl
        entropy = row.metrics.get(_ENTROPY)
        if entropy is None:
            return
        if self._before.entropy is None:
            self._before.entropy = entropy
        if entropy < self._limits.entropy and self._before.entropy >= _HAD_CHOICE:
            self._gone_at = self._gone_at if self._gone else row.update
            self._gone += 1
        else:
            self._gone = 0

    def _harmed(self, row: Row) -> Severity | None:
        fall, gone = self._fall(row), self._gone >= _GONE_FOR
        slight, whole = self._losses()
        if fall <= 0.0 or slight <= 0.0:
            return "warning" if gone and self._before.mean is None else None
        if fall >= whole or (gone and fall >= slight):
            return "critical"
        if self._harm is not None and fall > slight / 2.0:
            return self._harm
        return "warning" if fall >= slight or (gone and fall > slight / 2.0) else None

    def _losses(self) -> tuple[float, float]:
        """What counts as a loss of the return, and as a whole one."""
        span, noise = max(self._before.span, self.context.returns.span), self._limits.sigmas * self._before.noise
        return max(self._limits.warning * span, noise), max(self._limits.critical * span, noise)

    def _fall(self, row: Row) -> float:
        """By how much the mean return is lower than before the change, or than its best since; 0 where it is not known,
        and where another environment makes it another return.
        """
        mean, now = self._before.mean, row.metrics.get(_RETURN)
        if mean is None or now is None or not math.isfinite(now):
            return 0.0
        other_task = any(it.name.startswith("env.") for it in self._changed)
        if other_task or (self._resumed and not self.context.returns.filled):
            return 0.0
        self._best = max(self._best, mean, now)
        return self._best - now

    def _change_words(self, row: Row | None) -> str:
        """What was changed, and when; that it was taken back."""
        said = [self._in_words(it, row) for it in self._changed[:_NAMED]]
        more = len(self._changed) - len(said)
        what = ", ".join(said) + (f" and {more} more settings" if more > 0 else "")
        at = f"update {self._since or 0:,}"
        if self._undone is not None:
            return f"{at}: you changed settings, and undid that at update {self._undone:,}"
        return f"{at}: you {'resumed with' if self._resumed else 'set'} {what}"

    def _in_words(self, changed: Changed, row: Row | None) -> str:
        if changed.name == RATE:
            was, now = self._before.rate or _number(changed.was), learning_rate_of(row, self.context.settings)
            if was and now and max(was, now) >= 1.5 * min(was, now):
                times = f"x {rounded(now / was)}" if now > was else f"/ {rounded(was / now)}"
                return f"the learning rate {times} ({was:.3g} → {now:.3g})"
        return f"{'the learning rate' if changed.name == RATE else _key(changed.name)} {changed.was} → {changed.now}"

    def _effects(self, row: Row | None) -> list[str]:
        """What came of it, in the order in which it happens: large steps, no choice, another return."""
        said = []
        u, kl = self._largest
        if u > SAFE_TIMES:
            said.append(f"KL {rounded(kl)}")
        if self._gone_at is not None and self._gone:
            said.append(f"entropy 0 by {self._gone_at:,}")
        if self._broke_at is not None:
            said.append(f"NaN at {self._broke_at:,}")
        if row is not None and self._harm is not None and self._fall(row) > self._losses()[0] / 2.0:
            said.append(f"return {self._best:.4g} → {row.metrics[_RETURN]:.4g}")
        return said

    def _remedy(self) -> tuple[str, tuple[str, ...], Undo]:
        words = tuple(it.undo for it in self._changed)
        harmed = self._harm is not None or self._broke_at is not None or self._gone >= _GONE_FOR
        if not self._changed:
            return (
                "your change is undone, and the policy has not recovered: go back to the last good checkpoint",
                (),
                "back",
            )
        if self._broken:
            # What was before is no way back either.
            usual = far_too_high(self.context.settings, self._rows[-1] if self._rows else None)
            return *(usual or ("go back to the last good checkpoint, with a usual learning rate", ())), ""
        if not all(words):
            return "undo your change: resume from the last good checkpoint with the settings of before", (), ""
        live = all(is_live(it.name) for it in self._changed)
        back = ", ".join(f"{_key(it.name)} {it.now} → {it.was}" for it in self._changed)
        if harmed or not live:
            return f"undo your change ({back}), from the last good checkpoint before it", words, "back"
        return f"undo your change ({back}) while it trains: the policy is not harmed yet", words, "set"


def _joined(first: tuple[Changed, ...], then: tuple[Changed, ...]) -> tuple[Changed, ...]:
    """Two changes as one, from what was before the first; a setting that came back to that is left out."""
    known = {it.name: it for it in first}
    for it in then:
        old = known.get(it.name)
        known[it.name] = it if old is None else Changed(it.name, old.was, it.now, old.undo)
    return tuple(it for it in known.values() if it.was != it.now)


def _key(name: str) -> str:
    return name.removeprefix("ppo.")


def _doubled(updates: int) -> bool:
    """Whether a lasting finding is reported again after so many updates: 1, 2, 4, 8, ..."""
    return updates > 0 and updates & (updates - 1) == 0


def _presses(changed: tuple[Changed, ...]) -> bool:
    return any(it.name in (RATE, "ppo.n_epochs", "ppo.batch_size", "ppo.n_steps", "env.n_envs") for it in changed)


def _shown(value: object) -> str:
    if isinstance(value, Schedule):
        return f"{value.start:g} to {value.end:g}, {value.kind}"
    return "not set" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _word(value: object) -> str:
    """`value` as `--set` takes it."""
    if isinstance(value, Schedule):
        return f'{{ start = {value.start!r}, end = {value.end!r}, kind = "{value.kind}" }}'
    return "none" if value is None else repr(value)


_SCHEDULE = re.compile(r"(?P<start>[-+.e\d]+) to (?P<end>[-+.e\d]+), (?P<kind>linear)")
_PLAIN = re.compile(r"[-+.e\d]+|true|false|[A-Za-z][\w.:-]*")


def _undo(name: str, was: str) -> str:
    """The word for what a verdict says that `name` was; "" for what it says in words that no setting has."""
    if was == "not set":
        return f"{name}=none"
    if (schedule := _SCHEDULE.fullmatch(was)) is not None:
        return f'{name}={{ start = {schedule["start"]}, end = {schedule["end"]}, kind = "{schedule["kind"]}" }}'
    return f"{name}={was}" if _PLAIN.fullmatch(was) else ""


def _said(value: str) -> str:
    return value if len(value) <= 40 else f"{value[:39]}…"


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
