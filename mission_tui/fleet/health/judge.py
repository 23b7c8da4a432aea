"""The judge of one run: every rule on every update, one incident per stretch of trouble.

Judging is a function of the records alone: the same records give the same incidents with the same ids, whenever and
however often they are judged. A new attempt is a declared break: windows start anew and what was open is over.
"""

from __future__ import annotations

from msgspec import structs

from mission_tui.fleet.findings import Finding, Severity
from mission_tui.fleet.health.finite import NotFinite
from mission_tui.fleet.health.kl import KlPersistent
from mission_tui.fleet.health.rule import Explanation, Row, Rule, row_of
from mission_tui.fleet.metrics import TrainingEnded, UpdateDone
from mission_tui.fleet.sizes import BatchPlan
from mission_tui.fleet.spec import Spec

__all__ = ["Judge", "is_news"]


class Judge:
    """Judges a run's updates in order. Never raises, whatever a trainer may have said."""

    def __init__(self, spec: Spec, plan: BatchPlan) -> None:
        self._spec = spec
        self._plan = plan
        self._attempt = 0
        self._update = -1
        self._incidents: dict[str, Finding] = {}
        self._open: dict[str, str] = {}
        self._begin()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every incident so far, oldest first; an open one lasts until the update judged last."""
        return tuple(
            structs.replace(finding, last_update=self._update) if finding.state == "open" else finding
            for finding in self._incidents.values()
        )

    def update(self, record: UpdateDone) -> list[Finding]:
        """Judge one more update; the incidents that opened, changed severity or cleared with it.

        A record that was judged already changes nothing.
        """
        row = row_of(record)
        changed = self._enter(row.attempt)
        if row.attempt < self._attempt or row.update <= self._update:
            return changed
        self._update = row.update
        for rule in self._rules:
            finding = self._follow(rule, row)
            if finding is not None:
                changed.append(finding)
        return changed

    def ended(self, record: TrainingEnded) -> list[Finding]:
        """The attempt is over; if it died of a number that is not finite, that is an incident even without a row."""
        changed = self._enter(record.attempt)
        if record.failure == "nan" and self._not_finite.id not in self._open:
            self._not_finite.tell(record)
            row = Row(record.attempt, record.update, record.timesteps, {})
            changed.append(self._opened(self._not_finite, row, "critical"))
        return changed

    def _enter(self, attempt: int) -> list[Finding]:
        """A later attempt than before: what is open is over, windows start anew."""
        if attempt <= self._attempt:
            return []
        changed = [self._clear(rule) for rule in list(self._open)]
        self._attempt, self._update = attempt, -1
        self._begin()
        return changed

    def _begin(self) -> None:
        self._not_finite = NotFinite(self._spec, self._plan)
        self._rules: tuple[Rule, ...] = (self._not_finite, KlPersistent(self._spec, self._plan))

    def _follow(self, rule: Rule, row: Row) -> Finding | None:
        severity = rule.judge(row)
        known = self._incidents.get(self._open.get(rule.id, ""))
        if severity is None:
            return self._clear(rule.id) if known else None
        if known is None:
            return self._opened(rule, row, severity)
        if severity == known.severity:
            return None
        return self._keep(_worded(known, rule.explain(severity), severity, row.update))

    def _opened(self, rule: Rule, row: Row, severity: Severity) -> Finding:
        finding = Finding(
            id=f"{rule.id}-{row.attempt}-{row.update}",
            rule=rule.id,
            severity=severity,
            first_update=row.update,
            last_update=row.update,
            sentence="",
            cause="",
            advice="",
        )
        self._open[rule.id] = finding.id
        return self._keep(_worded(finding, rule.explain(severity), severity, row.update))

    def _clear(self, rule_id: str) -> Finding:
        known = self._incidents[self._open.pop(rule_id)]
        return self._keep(structs.replace(known, state="cleared", last_update=self._update))

    def _keep(self, finding: Finding) -> Finding:
        self._incidents[finding.id] = finding
        return finding


def is_news(finding: Finding, known: Finding | None) -> bool:
    """Whether `finding` goes beyond what is known of its incident; judging a run anew repeats what is known."""
    if known is None:
        return True
    return (finding.last_update, finding.state == "cleared") > (known.last_update, known.state == "cleared")


def _worded(finding: Finding, words: Explanation, severity: Severity, update: int) -> Finding:
    return structs.replace(
        finding,
        severity=severity,
        last_update=update,
        sentence=words.sentence,
        cause=words.cause,
        advice=words.advice,
        advice_set=words.advice_set,
        evidence=words.evidence,
    )
