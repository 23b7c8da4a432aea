"""The score in Markdown: one function a table, numbers as they came out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from benchmarks.health.baselines import BASELINES
from benchmarks.health.cases import Case, Event, Incident
from benchmarks.health.falsification import Falsified
from benchmarks.health.halves import CONSTRUCTIONS, TASKS, is_known
from benchmarks.health.leave_one_out import LeftOut
from benchmarks.health.scoring import (
    TOLD,
    Rate,
    Scored,
    as_healthy,
    false_rate,
    found,
    healthy_updates,
    is_true,
    only_states,
    precision,
    score,
    sought,
    total,
)
from benchmarks.health.streams import FAULTS, said_with
from benchmarks.health.streams import KINDS as STREAMS

__all__ = [
    "against_baselines",
    "by_rule",
    "events_found",
    "false_incidents",
    "false_ones",
    "false_otherwise",
    "falsification",
    "goals",
    "halves",
    "kinds",
    "known_line",
    "labels",
    "left_out",
    "missed",
    "precision_line",
    "recalls",
    "table",
    "unclear",
    "verdicts_on_failed",
]

BOTH = ("warning", "critical")
MOST_FALSE = {"warning": 0.3, "critical": 0.05}
LEAST_FOUND, MOST_LATE = 0.9, 10


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def goals(sources: dict[str, tuple[Sequence[Scored], Sequence[Scored]]]) -> str:
    """What was wanted, and what came out of the fresh tasks and of the whole half, and whether that is enough."""
    rows: list[list[str]] = []
    for name, both in sources.items():
        for level, most in MOST_FALSE.items():
            rates = [false_rate(scored, (level,)).per_1000 for scored in both]
            cells = [cell for rate in rates for cell in (f"{rate:.3f}", _met(rate <= most))]
            rows.append([name, f"false {level}s per 1,000 healthy updates", f"at most {most:g}", *cells])
        every = [total(scored) for scored in both]
        recalls = [
            cell
            for it in every
            for cell in (f"{it.recall or 0.0:.2f} ({it.hits} of {it.positives})", _met((it.recall or 0) >= LEAST_FOUND))
        ]
        rows.append([name, "sick runs found", f"at least {LEAST_FOUND:g}", *recalls])
        late = [
            cell for it in every for cell in (_number(it.delay), _met(it.delay is not None and it.delay <= MOST_LATE))
        ]
        rows.append([name, "median delay in updates", f"at most {MOST_LATE}", *late])
    return table(("judged", "what", "goal", "fresh tasks", "", "the whole half", ""), rows)


def false_otherwise(sources: dict[str, Sequence[Scored]]) -> str:
    """The same rates with unclear runs counted as healthy, without what only states, and where nothing was done."""
    rows = []
    for name, scored in sources.items():
        alone = [one for one in scored if one.case.untouched]
        for level in MOST_FALSE:
            rates = (
                false_rate(scored, (level,)),
                false_rate(as_healthy(scored), (level,)),
                false_rate(scored, (level,), stated_too=False),
                false_rate(alone, (level,)),
            )
            rows.append([name, f"{level}s", *(f"{rate.per_1000:.3f}" for rate in rates)])
    head = ("runs", "false per 1,000", "came out", "unclear as healthy", "facts left out", "nothing or benign done")
    return table(head, rows)


def labels(scored: Sequence[Scored]) -> str:
    """How many runs of each task are healthy, sick or unclear."""
    rows = []
    for task in dict.fromkeys(one.case.task for one in scored):
        runs = [one.case for one in scored if one.case.task == task]
        updates = sum(healthy_updates(case) for case in runs)
        sick = sum(case.sick_from is not None for case in runs)
        counts = (sum(case.healthy for case in runs), sick, sum(case.unclear for case in runs), updates)
        rows.append([f"`{task}`", *(f"{count:,}" for count in counts)])
    return table(("task", "healthy runs", "sick runs", "unclear runs", "healthy updates"), rows)


def unclear(scored: Sequence[Scored]) -> str:
    """Every unclear run, and what was said of it that would be false if it were healthy."""
    rows = []
    for one in as_healthy(it for it in scored if it.case.unclear):
        said = [
            f"{it.rule} {it.level} {it.first}-{it.last}" + _stated(one.case, it)
            for it in one.called
            if not is_true(one.case, it)
        ]
        rows.append([one.case.name, str(one.case.onset), ", ".join(said) or "nothing"])
    return table(("unclear run", "done at update", "said of it"), rows) if rows else "None."


def _met(met: bool) -> str:
    return "met" if met else "**missed**"


def known_line(scored: Sequence[Scored]) -> str:
    """How many sick runs are found where rules were tuned on the same trouble elsewhere, and where on none like it."""
    parts = []
    for known, words in ((True, "tuned on, on other tasks"), (False, "never tuned on")):
        every = total([one for one in scored if is_known(one.case.kind) == known])
        parts.append(f"{every.hits} of {every.positives} whose trouble rules were {words}")
    return f"Both ways of judging together, found are {' and '.join(parts)}."


def kinds() -> str:
    """What each rule says of each kind of stream: healthy, and with its own trouble."""
    rows = []
    for rule in sorted(FAULTS):
        found = [(said_with(kind.name), said_with(kind.name, rule)) for kind in STREAMS]
        cells = [f"{_cell(healthy, rule)} → {_cell(sick, rule)}" for healthy, sick in found]
        rows.append([f"`{rule}`", *cells])
    return table(("rule", *(kind.name for kind in STREAMS)), rows)


def halves() -> str:
    """The table that says which half a task and a construction belong to."""
    rows = [["task", name, half, why] for name, (half, why) in TASKS.items()]
    rows += [["construction", name, half, why] for name, (half, why) in CONSTRUCTIONS.items()]
    return table(("what", "name", "half", "why"), rows)


def _cell(found: dict[str, str], rule: str) -> str:
    return found.get(rule, "-")


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
            [one.case.name, f"{it.rule} {it.level}" + _stated(one.case, it), f"{it.first}-{it.last}"]
            for one in scored
            for it in one.alarms
            if not is_true(one.case, it)
        ],
    )


def _stated(case: Case, incident: Incident) -> str:
    return " (states what was done)" if only_states(case, incident) else ""


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
    """Precision over all incidents, and the stricter one that asks for a right rule: of all, of those on their own."""
    true, every = precision(scored)
    right, _ = precision(scored, right_rules_only=True)
    right_alone, alone = precision(scored, right_rules_only=True, on_their_own=True)
    if not every or not alone:
        return "No incident at all."
    return (
        f"Of {every} warnings and criticals {true} were true: precision **{true / every:.3f}**; "
        f"**{right / every:.3f}** if a finding in a sick stretch must also come from one of the rules named for it. "
        f"A person meets {alone} of them: the others are told below the finding that may have caused them. "
        f"Of those {alone} that is **{right_alone / alone:.3f}**."
    )


def by_rule(scored: Sequence[Scored]) -> str:
    """False incidents of each rule; of those that only inform, in which runs they did."""
    rows = []
    for rule in sorted(FAULTS.keys() | {it.rule for one in scored for it in one.alarms}):
        rate = false_rate(scored, BOTH, (rule,))
        said_of = [(one.case, it) for one in scored for it in one.alarms if it.rule == rule]
        true = sum(is_true(case, it) for case, it in said_of)
        informed = ""
        if rule in TOLD:
            told = [one.case for one in scored if any(it.rule == rule for it in one.incidents)]
            made = [one.case for one in scored if rule in one.case.rules]
            informed = f"{len(told)}; {sum(case in told for case in made)} of {len(made)}"
        rows.append(
            [f"`{rule}`", str(len(said_of)), str(true), str(rate.count), str(rate.runs), _interval(rate), informed]
        )
    head = ("rule", "incidents", "true", "false", "in runs", "false per 1,000 [95 %]", "informs")
    return table(head, rows)


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
        if not case.rules or not sought([one]):
            continue
        if not any(it.rule in case.rules and it.first >= (case.sick_from or 0) - 10 for it in one.alarms):
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
