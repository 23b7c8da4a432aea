"""What the health rules say about a run: a short list, one finding in words, and readings beside their limits."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual.strip import Strip

from mission_tui.fleet.events.findings import Finding, Severity, stories, symptoms_of
from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.events.outcome import ALIVE, OVER
from mission_tui.fleet.health.readings import Reading, readings
from mission_tui.fleet.health.settings import settings_of
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import DetailsReply
from mission_tui.present import numbers
from mission_tui.present.run_settings import proof, setting_changes
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import SEVERITY_SHAPES
from mission_tui.tui.drawing.strips import Part, fit, line, literal, wrap
from mission_tui.tui.state.run_status import column_title, finding_span, finding_word, open_findings, severity_shape

_LABEL_CELLS = 9
_PLACES = ("update", "timesteps")
_VALUE, _HELD = 8, 16
_LEAST_LEVEL, _ROOMY_FROM, _RULE_FROM = 9, 78, 98
_LEVELS = ("warning", "critical")
_REMARK = (
    "A value past its limit is not yet a finding: a rule also looks at how long, and at what the return does meanwhile."
)


def finding_lines(
    finding: Finding,
    width: int,
    now: float,
    *,
    over: bool = False,
    details: DetailsReply | None = None,
    symptoms: Sequence[Finding] = (),
) -> list[Strip]:
    """Everything about `finding`; `over`: its run is."""
    inside = width - 2
    words = finding_rows(finding, inside, now, over=over, details=details, symptoms=symptoms)
    rows = [*words, [], *_evidence_rows(finding, inside)]
    return [line([(" ", colours.INK), *parts], width) for parts in rows]


def finding_rows(
    finding: Finding,
    width: int,
    now: float,
    *,
    over: bool,
    details: DetailsReply | None,
    symptoms: Sequence[Finding],
) -> list[list[Part]]:
    """Sentence, time, cause and advice, with `details` each setting from what to what, and what else came of it; what
    is over is quiet.
    """
    word, style = finding_word(finding)
    rows: list[list[Part]] = [
        [(f"{severity_shape(finding)} {text}" if at == 0 else f"  {text}", style)]
        for at, text in enumerate(wrap(finding.sentence, width - 2))
    ]
    lasted = f"{finding_span(finding, now, over=over)}{_length(finding, over=over)}"
    rows.append([(f"  {word}", style), (f"  {lasted}", colours.QUIET)])
    rows += _labelled("cause", finding.cause, width)
    rows += _labelled("advice", finding.proposal, width) if finding.proposal else []
    if finding.state != "cleared" and (proven := proof(finding)):
        rows += _labelled("", proven, width)
    if details is not None and details.spec.run.command is None and not finding.undo:
        for at, said in enumerate(setting_changes(finding.advice_set, details.spec, details.effective)):
            rows += _labelled("" if at else "means", said, width)
    for at, symptom in enumerate(symptoms):
        said = f"{symptom.severity} at {numbers.count(symptom.first_update)}: {symptom.sentence}"
        rows += _labelled("" if at else "since", said, width)
    return rows


def _length(finding: Finding, *, over: bool) -> str:
    updates = finding.last_update - finding.first_update + 1
    if finding.state == "cleared" or updates <= 1:
        return ""
    return ", to its last update" if over else f"; {numbers.count(updates)} updates so far"


def _labelled(label: str, said: str, width: int) -> list[list[Part]]:
    return [
        [(f"  {label if at == 0 else '':<{_LABEL_CELLS - 2}}", colours.QUIET), (text, colours.INK)]
        for at, text in enumerate(wrap(said, width - _LABEL_CELLS))
    ]


def _evidence_rows(finding: Finding, width: int) -> list[list[Part]]:
    """The evidence as a table, newest row last; columns that do not fit are left out from the right.

    The column that the curve shows stands first, for it is the last one to be missed.
    """
    columns: list[str] = []
    for row in finding.evidence:
        columns += [name for name in row if name not in columns]
    columns.sort(key=lambda name: (name not in _PLACES, name != finding.signal))
    rows: list[list[Part]] = [[] for _ in range(len(finding.evidence) + 1)]
    for name in columns:
        cells = [column_title(name), *(_cell(name, row.get(name)) for row in finding.evidence)]
        needed = 2 + max(cell_len(cell) for cell in cells)
        width -= needed
        if width < 0:
            break
        styles = (colours.QUIET, *(colours.BOLD if name == finding.signal else colours.INK for _ in finding.evidence))
        for parts, cell, style in zip(rows, cells, styles, strict=True):
            parts.append((fit(cell, needed, "right"), style))
    return rows if columns else []


def _cell(name: str, metric: Metric | None) -> str:
    if name in _PLACES and isinstance(metric, float | int):
        return numbers.count(int(metric)) if name == "update" else numbers.compact(float(metric))
    return numbers.reading(metric)


def health(view: RunView, details: DetailsReply | None, width: int, now: float) -> list[Strip]:
    """Open findings first, worst first; then the others in one line each; then the values beside their limits."""
    inside = width - 2
    rows: list[list[Part]] = []
    asking = open_findings(view)
    for finding in asking:
        since = symptoms_of(finding, view.findings)
        rows += finding_rows(finding, inside, now, over=view.state in OVER, details=details, symptoms=since)
    if not asking:
        rows.append([(calm(view), colours.GOOD if view.state in ALIVE and view.update else colours.QUIET)])
    for finding in stories(view.findings):
        if finding.state != "open":
            said = f"{finding.sentence} ({finding_span(finding, now, over=view.state in OVER)})"
            rows.append([(fit(f"{finding.state} {said}", inside), colours.QUIET)])
    for failed in view.failed_duties:
        times = f"since {numbers.clock(failed.first_t, now)}, last {numbers.clock(failed.t, now)}"
        lines = wrap(f"{literal(failed.sentence)} ({times})", max(20, inside - 2))
        leads = ("▲ ", *["  "] * len(lines))
        rows += [[(lead, colours.WARN), (text, colours.INK)] for lead, text in zip(leads, lines, strict=False)]
    strips = [line([(" ", colours.INK), *parts], width) for parts in rows]
    return strips if details is None or not view.update else [*strips, *reading_lines(view, details, width)]


def calm(view: RunView) -> str:
    """What is said where no finding is open."""
    if "metrics" not in view.can:
        return "nothing to judge: it runs a command, which has reported nothing"
    if not view.update:
        return "nothing to judge before the first update"
    if any(finding.state in ("acknowledged", "silenced") for finding in view.findings):
        return "nothing new: every finding is acknowledged or silenced"
    return "ok: no rule has anything to say" if view.state in ALIVE else "ended without an open finding"


def readings_of(view: RunView, details: DetailsReply) -> tuple[Reading, ...]:
    """The readings of `view`'s newest update under its own limits."""
    spec = details.spec
    return readings(
        view.metrics,
        settings_of(spec, view.total_timesteps),
        spec.keep.health,
        speeds=view.series.get("steps_per_s", ()),
        outcomes=view.outcomes,
    )


def reading_lines(view: RunView, details: DetailsReply, width: int, note: str = "") -> list[Strip]:
    """A table with a line per reading, and `note` below it; one sentence while there is nothing to read."""
    rows = [_row(reading, view, width) for reading in readings_of(view, details)]
    if not rows:
        return [line([(" no value to compare with a limit yet", colours.QUIET)], width)]
    label, level = _cells(width)
    titles = ("what rules read", "newest", *(("warning if", "critical if") if level > _LEAST_LEVEL else _LEVELS), "for")
    cells = (label, _VALUE, level, level, _HELD)
    head = "   " + "  ".join(
        fit(title, cell, "right" if title == "newest" else "left") for title, cell in zip(titles, cells, strict=True)
    )
    strips = [line([(head, colours.QUIET)], width), *rows, line([], width)]
    for said, style in ((_REMARK, colours.QUIET), (note, colours.GOOD)):
        strips += [line([(f" {text}", style)], width) for text in wrap(said, width - 2)]
    return strips


def flags(read: Sequence[Reading]) -> dict[str, Severity]:
    """By series, the worst level that its newest value has passed; series within their limits are left out."""
    passed: dict[str, Severity] = {}
    for reading in read:
        if reading.level == "critical" or (reading.level == "warning" and reading.tag not in passed):
            passed[reading.tag] = "critical" if reading.level == "critical" else "warning"
    return passed


def limits_on_curve(read: Sequence[Reading], tag: str) -> list[Part]:
    """The levels of `tag`'s first reading in the curve's own units, as one would say them; nothing where none apply."""
    for reading in read:
        if reading.tag == tag:
            sign = "<" if reading.below else ">"
            levels: tuple[tuple[Severity, float | None], ...]
            levels = (("warning", reading.warning), ("critical", reading.critical))
            return [
                (f"   {SEVERITY_SHAPES[severity]} {sign} {numbers.reading(level)}", colours.severity_style(severity))
                for severity, value in levels
                if (level := reading.on_curve(value)) is not None
            ]
    return []


def _cells(width: int) -> tuple[int, int]:
    """Of the label and of a level; beside a curve both are as narrow as their words: the last column is whole."""
    return (20, 11) if width >= _ROOMY_FROM else (18, _LEAST_LEVEL)


def _row(reading: Reading, view: RunView, width: int) -> Strip:
    label, cells = _cells(width)
    shape, style = " ", colours.INK
    if reading.level in ("warning", "critical"):
        severity: Severity = "critical" if reading.level == "critical" else "warning"
        shape, style = SEVERITY_SHAPES[severity], colours.severity_style(severity)
    value = fit(numbers.reading(reading.value), _VALUE, "right")
    parts: list[Part] = [
        (f" {shape} ", style),
        (f"{fit(reading.label, label)}  ", colours.INK),
        (f"{value}  ", style),
        (f"{fit(_level(reading, reading.warning), cells)}  ", colours.QUIET),
        (f"{fit(_level(reading, reading.critical), cells)}  ", colours.QUIET),
        (f"{fit(reading.held, _HELD)}  ", colours.QUIET),
    ]
    if width >= _RULE_FROM:
        parts.append((reading.rule, colours.QUIET))
    if reading.rule in view.silenced:
        parts.append(("  silenced", colours.QUIET))
    return line(parts, width)


def _level(reading: Reading, level: float | None) -> str:
    return numbers.DASH if level is None else f"{'<' if reading.below else '>'} {numbers.reading(level)}"
