"""What is wrong with a run: findings of the health rules, and duties that failed.

A finding has evidence, a cause in the run's own settings, and one advice. A failed duty is what should have been done
for a run, or for all of them, and was not: journaled when it is seen, counted while it repeats, shown until a
checkpoint, its retention, an evaluation, TensorBoard's events or a messenger is done again, else for the rest of the
attempt. What a failed checkpoint means for the training is judged by the rule `checkpoint-age`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct, field, structs

from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.ranges import Count, UnixTime
from mission_tui.fleet.text import clean

Severity = Literal["info", "warning", "critical"]
FindingState = Literal["open", "acknowledged", "silenced", "cleared"]
Undo = Literal["", "set", "back"]
"""What following a finding's advice undoes: nothing; a change of settings, while the run trains on; or that, and all
that was learned since.
"""

GRAVITY: dict[Severity, int] = {"info": 0, "warning": 1, "critical": 2}
CHECKPOINT = "checkpoint"
"""The duty that the next checkpoint that is saved makes good."""

EVALUATION = "evaluation"
"""The duty that the next evaluation that is played makes good."""

METRICS = "metrics.jsonl"
"""The duty that the next row makes good that the disk takes."""

RETENTION = "retention"
"""The duty that the next checkpoint that is saved tries again, and fails at after it where it does."""

WHY_CHARACTERS = 300


POLICY_FROZEN = "policy-frozen"
"""The rule whose window is a standstill: all of it is of the policy that is warned of."""

KL_SPIKE = "kl-spike"
"""The rule that waits for what the return makes of an update: that one is the first of its evidence."""

OUT_OF_MEMORY = "out-of-memory"
"""The rule that says how an attempt ended: its finding is over with the next attempt."""


class Finding(Struct, frozen=True, omit_defaults=True):
    """One incident of one rule. `advice` is a sentence; `advice_set` the exact `--set` assignments it proposes.

    `first_t` and `last_t` are unix seconds, 0 where no time is known. `signal` is the tag whose curve shows the
    incident, `threshold` the level on it that was passed, `window` the updates that were looked at: for drawing it.
    `part_of` is the id of the finding that it is a symptom of. `undo`: its advice takes back what a person changed.
    """

    id: str
    rule: str
    severity: Severity
    first_update: Count
    last_update: Count
    sentence: str
    cause: str
    advice: str
    advice_set: tuple[str, ...] = ()
    state: FindingState = "open"
    first_t: UnixTime = 0.0
    last_t: UnixTime = 0.0
    signal: str = ""
    threshold: float | None = None
    window: Count = 1
    evidence: tuple[dict[str, Metric], ...] = field(default_factory=tuple)
    part_of: str = ""
    undo: Undo = ""

    @property
    def attempt(self) -> int:
        """The attempt that it belongs to, as its id says; 0 for an id of another form."""
        number = self.id.rsplit("-", 2)[-2:][0]
        return int(number) if number.isdecimal() and len(number) < 10 else 0

    @property
    def suspect_from(self) -> int:
        """The first update whose checkpoint holds the trouble already, so that it is no way back; for a rule that
        judges process or machine none does, so it is the one after the finding.
        """
        if self.rule in NOT_OF_THE_POLICY:
            return self.last_update + 1
        spike = self.evidence[0].get("update") if self.rule == KL_SPIKE and self.evidence else None
        if isinstance(spike, float):
            return min(self.first_update, int(spike))
        return self.first_update - (self.window - 1 if self.rule == POLICY_FROZEN else 0)

    @property
    def applicable(self) -> bool:
        """Whether a resume can follow its advice: information without assignments asks for nothing."""
        return bool(self.advice_set) or self.severity != "info"

    @property
    def proposal(self) -> str:
        """The advice with the exact assignments it proposes, as one would type them; what it undoes it names itself."""
        if self.undo:
            return self.advice
        return " ".join((self.advice, *(f"--set {assignment}" for assignment in self.advice_set)))


AFTER_CHANGE = "after-change"
OF_THE_POLICY = (AFTER_CHANGE, "entropy-collapse", POLICY_FROZEN)
"""Rules whose warning says already that the policy is harmed, or about to be."""
NOT_OF_THE_POLICY = ("hang", "throughput", "checkpoint-age", "thread-contention", "gpu-idle", OUT_OF_MEMORY)
"""Rules that judge the process and the machine: no checkpoint is worse for what they see."""


def harmed_from(finding: Finding, findings: Iterable[Finding]) -> int:
    """The first update of the finding's attempt whose checkpoint is no way back: that of its own trouble, or of another
    open finding that says that the policy was harmed before.
    """
    others = (it.suspect_from for it in findings if it.attempt == finding.attempt and harms_policy(it))
    return min((finding.suspect_from, *others))


def harms_policy(finding: Finding) -> bool:
    """Whether it is open and says that the policy is harmed, so that no checkpoint since it began is a way back."""
    severe = finding.rule in OF_THE_POLICY if finding.severity == "warning" else finding.severity == "critical"
    return finding.state == "open" and severe and finding.rule not in NOT_OF_THE_POLICY


def symptoms_of(cause: Finding, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those of `findings` that stand below `cause` instead of on their own: what it brought about, while it is no less
    known and no less over than they are.
    """
    return tuple(it for it in findings if it.part_of == cause.id and _covers(cause, it))


def stories(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """`findings` without the symptoms of others among them, each as severe as the most severe of its own symptoms."""
    by_id, parts = {finding.id: finding for finding in findings}, _parts(findings)
    causes = (it for it in findings if (cause := by_id.get(it.part_of)) is None or not _covers(cause, it))
    return tuple(_as_severe_as_its_symptoms(it, parts) if it.id in parts else it for it in causes)


STANDINGS: Mapping[FindingState, int] = {"open": 0, "acknowledged": 1, "silenced": 2, "cleared": 3}


def in_order(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Open findings first, worst first, then marked ones, then those that are over, newest first; its symptoms come
    right after each.
    """
    parts = _parts(findings)
    told = sorted(stories(findings), key=lambda it: (STANDINGS[it.state], -GRAVITY[it.severity], -it.first_update))
    for cause in told:
        yield cause
        yield from _symptoms_in_order(cause, parts)


def _symptoms_in_order(cause: Finding, parts: Mapping[str, list[Finding]]) -> Iterator[Finding]:
    """What `cause` brought about, oldest first, each with its own symptoms, which were found before its cause was.

    However deep: a stranger's file may have any number of them, each below the one before.
    """
    waiting = [cause]
    while waiting:
        told = waiting.pop()
        if told is not cause:
            yield told
        found = symptoms_of(told, parts.get(told.id, ()))
        waiting += sorted(found, key=lambda it: it.first_update, reverse=True)


def _parts(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """Those of `findings` that are a part of another, by the id of that: a run may have thousands after some days."""
    parts: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.part_of:
            parts.setdefault(finding.part_of, []).append(finding)
    return parts


_WHILE_IT_LIVES = frozenset({"throughput", "hang", "checkpoint-age"})
"""Rules about a process at work: of a run that is over they say nothing that could still be mended."""


def asking(findings: Sequence[Finding], *, over: bool) -> tuple[Finding, ...]:
    """Those of `findings` that somebody should look at, as everybody counts them: open ones, information and symptoms
    of others left out, and of a run that is `over` not those about its process.
    """
    return tuple(
        finding
        for finding in stories(findings)
        if finding.state == "open" and finding.severity != "info" and not (over and finding.rule in _WHILE_IT_LIVES)
    )


def _as_severe_as_its_symptoms(cause: Finding, parts: Mapping[str, list[Finding]]) -> Finding:
    alike = [it.severity for it in _symptoms_in_order(cause, parts) if it.state == cause.state]
    worst = max((cause.severity, *alike), key=GRAVITY.__getitem__)
    return cause if worst == cause.severity else structs.replace(cause, severity=worst)


def _covers(cause: Finding, symptom: Finding) -> bool:
    if cause.state == "open" or symptom.state == "cleared":
        return True
    return cause.state != "cleared" and GRAVITY[symptom.severity] <= GRAVITY[cause.severity]


class FailedDuty(Struct, frozen=True, omit_defaults=True):
    """`duty` failed `times` times since unix time `first_t`, last at `t` because of `why`."""

    duty: str
    why: str
    t: float
    first_t: float = 0.0
    times: int = 1

    @property
    def sentence(self) -> str:
        """For people."""
        return f"{self.duty} failed{f' {self.times:,} times' if self.times > 1 else ''}: {self.why}"


def failed_again(known: FailedDuty | None, duty: str, why: str, t: float) -> FailedDuty:
    """`duty` failed at unix time `t`; `known` is what was known of it."""
    why, duty = clean(why, WHY_CHARACTERS), clean(duty, 40)
    return FailedDuty(duty, why, t, known.first_t if known else t, known.times + 1 if known else 1)
