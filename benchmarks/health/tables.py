"""The score in Markdown: one function a table, numbers as they came out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from benchmarks.health.baselines import BASELINES
from benchmarks.health.cases import Case, Event, Incident
from benchmarks.health.falsification import Falsified
from benchmarks.health.leave_one_out import LeftOut
from benchmarks.health.scoring import Rate, Scored, false_rate, found, healthy_updates, is_true, precision, score

__all__ = [
    "against_baselines",
    "by_rule",
    "events_found",
    "false_incidents",
    "false_ones",
    "falsification",
    "left_out",
    "missed",
    "precision_line",
    "recalls",
    "table",
    "verdicts_on_failed",
]

BOTH = ("warning", "critical")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def false_incidents(sources: dict[str, Sequence[Scored]]) -> str:
    """False incidents per 1,000 healthy updates, by source and severity."""
    rows = []
    for name, scored in sources.items():
        for level in ("critical", "warning"):
            rate = false_rate(scored, (level,))
            updates = sum(healthy_updates(one.case) for one in scored)
            runs = sum(one.case.healthy for one in scored)
            rows.append([name, f"{runs} ({updates:,})", level, str(rate.count), str(rate.runs), _interval(rate)])
    head = ("runs", "healthy runs (healthy updates)", "severity", "false incidents", "in runs", "per 1,000 [95 %]")
    return table(head, rows)


def false_ones(scored: Sequence[Scored]) -> str:
    """Every false incident by name, so that each can be looked at."""
    return table(
        ("run", "false incident", "updates"),
        [
            [one.case.name, f"{it.rule} {it.level}", f"{it.first}-{it.last}"]
            for one in scored
            for it in one.alarms
            if not is_true(one.case, it)
        ],
    )


def recalls(scored: Sequence[Scored]) -> str:
    """What was found of each construction, and how late."""
    return table(
        ("construction", "sick runs", "found", "recall", "median delay", "after the harm", "by"),
        [
            [
                one.kind,
                str(one.positives),
                str(one.hits),
                _share(one.recall),
                _number(one.delay),
                _number(one.delay_to_harm),
                ", ".join(one.rules),
            ]
            for one in found([one for one in scored if one.case.rules])
        ],
    )


def precision_line(scored: Sequence[Scored]) -> str:
    """Precision over all incidents, and the stricter one that asks for a right rule."""
    true, total = precision(scored)
    right, _ = precision(scored, right_rules_only=True)
    if not total:
        return "No incident at all."
    return (
        f"Of {total} warnings and criticals {true} were true: precision **{true / total:.3f}**; "
        f"{right / total:.3f} if a finding in a sick stretch must also come from one of the rules named for it."
    )


def by_rule(scored: Sequence[Scored]) -> str:
    """False incidents of each rule."""
    rules = sorted({incident.rule for one in scored for incident in one.alarms})
    rows = []
    for rule in rules:
        rate = false_rate(scored, BOTH, (rule,))
        said = [(one.case, it) for one in scored for it in one.alarms if it.rule == rule]
        true = sum(is_true(case, it) for case, it in said)
        rows.append([f"`{rule}`", str(len(said)), str(true), str(rate.count), str(rate.runs), _interval(rate)])
    return table(("rule", "incidents", "true", "false", "in runs", "false per 1,000 [95 %]"), rows)


def against_baselines(scored: Sequence[Scored], rules: dict[str, tuple[str, ...]], sick: Callable[[Case], bool]) -> str:
    """The naive limits and ours on the same runs: healthy runs alarmed, false incidents, and sick runs caught."""
    rows = [_compared(name, score([one.case for one in scored], judge), sick) for name, judge in BASELINES.items()]
    for name, ours in rules.items():
        kept = [Scored(one.case, tuple(it for it in one.alarms if it.rule in ours)) for one in scored]
        rows.append(_compared(f"**ours: {name}**", kept, sick))
    return table(("limit", "healthy runs alarmed", "false incidents", "false per 1,000", "sick runs caught"), rows)


def events_found(scored: Sequence[Scored]) -> str:
    """Every dated event of the outside runs, and what was said about it."""
    rows = []
    for one in scored:
        for event in one.case.events:
            said = [it for it in one.incidents if it.first <= event.end + 10 and it.last >= event.onset - 10]
            rows.append([one.case.name, event.kind, f"{event.onset}-{event.end}", _said(said, event)])
    return table(("run", "event", "updates", "found by (updates late)"), rows)


def verdicts_on_failed(scored: Sequence[Scored]) -> str:
    """What was said about outside runs that are not healthy."""
    rows = []
    for one in scored:
        if one.case.source == "outside" and not one.case.healthy:
            said = ", ".join(f"{it.rule} {it.level} at {it.first}" for it in one.alarms) or "nothing"
            rows.append([one.case.name, one.case.label, said])
    return table(("run", "label", "said"), rows)


def missed(scored: Sequence[Scored]) -> str:
    """Sick runs that no right rule found."""
    rows = []
    for one in scored:
        case = one.case
        if case.sick_from is None or not case.rules:
            continue
        if not any(it.rule in case.rules and it.first >= case.sick_from - 10 for it in one.alarms):
            said = ", ".join(f"{it.rule} at {it.first}" for it in one.alarms) or "nothing"
            rows.append([case.name, str(case.sick_from), ", ".join(case.rules), said])
    return table(("run", "sick from", "expected", "said instead"), rows) if rows else "None."


def left_out(constants: Sequence[LeftOut]) -> str:
    """What each constant would be without each environment, and what that would have cost there."""
    return table(
        ("constant", "shipped", "chosen (environments)", "false per 1,000: shipped / left out", "recall: same"),
        [
            [
                f"`{one.constant.rule}.{one.constant.field}`",
                f"{one.shipped:g}",
                ", ".join(f"{value:g} ({count})" for value, count in one.chosen.items()),
                f"{one.shipped_false:.3f} / {one.chosen_false:.3f}",
                f"{_share(one.shipped_recall)} / {_share(one.chosen_recall)}",
            ]
            for one in constants
        ],
    )


def falsification(result: Falsified) -> str:
    """The shuffled labels in words."""
    return (
        f"Precision with the true labels is {result.real:.3f}. With the labels dealt out at random (200 deals) it "
        f"falls to {result.mean:.3f} (95 %: {result.low:.3f} to {result.high:.3f}); the share of sick updates is "
        f"{result.base:.3f}."
    )


def _compared(name: str, scored: Sequence[Scored], sick: Callable[[Case], bool]) -> list[str]:
    healthy = [one for one in scored if one.case.healthy]
    rate = false_rate(healthy, BOTH)
    ill = [one for one in scored if sick(one.case)]
    caught = sum(any(is_true(one.case, it) for it in one.alarms) for one in ill)
    return [name, f"{rate.runs} of {len(healthy)}", str(rate.count), f"{rate.per_1000:.3f}", f"{caught} of {len(ill)}"]


def _said(incidents: Sequence[Incident], event: Event) -> str:
    return ", ".join(f"{it.rule} {it.level} ({it.first - event.onset:+d})" for it in incidents) or "nothing"


def _interval(rate: Rate) -> str:
    return f"{rate.per_1000:.3f} [{rate.low:.3f}, {rate.high:.3f}]"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
