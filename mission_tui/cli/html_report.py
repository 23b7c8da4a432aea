"""A report of runs as one HTML file. What it says: the comparison that `compare` prints, what is drawn and marked, and
of each run its details, what it differs in from its preset, and what was done about its findings.

How it reads: a summary and curves first, then of each run its findings with what was done about them, its settings,
evaluations, journal and provenance, as much of each as `DetailLevel` says: less until the page is small enough for a
file, which is there whole or not, and replaces no other unasked.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from mission_tui import __version__
from mission_tui.cli.html_charts import SIGNS, Mark, chart, line_classes, swatch
from mission_tui.cli.html_markup import (
    GENERATOR,
    Html,
    data_block,
    definitions,
    folded,
    join,
    page,
    part,
    rows_of,
    section,
    table_of,
    tag,
)
from mission_tui.cli.tables.comparison import comparison_tables
from mission_tui.cli.tables.runs import provenance_rows
from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.comparison import Comparison, Drawing, compare, drawing_of, letter
from mission_tui.fleet.comparison_sides import Axis, Side, setting_words
from mission_tui.fleet.events.findings import GRAVITY, Finding, stories, symptoms_of
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.specs.secrecy import masked
from mission_tui.fleet.text import clean
from mission_tui.plain_files import read_given
from mission_tui.present import numbers
from mission_tui.present.comparisons import findings_words
from mission_tui.present.run_settings import OF_A_COMMAND, differing, proof, setting_changes, settings
from mission_tui.records.atomic import write_atomic
from mission_tui.records.runs.comparison_sides import read_sides

if TYPE_CHECKING:
    from mission_tui.fleet.comparison_sides import Result
    from mission_tui.fleet.specs.spec import Spec
    from mission_tui.ipc.replies import AuditEntry, DetailsReply

METRICS = (
    RETURN,
    "eval/mean_reward",
    "rollout/success_rate",
    "rollout/ep_len_mean",
    "train/approx_kl",
    "train/clip_fraction",
    "policy/entropy_ratio",
    "train/explained_variance",
    "train/value_loss",
    "train/learning_rate",
    "steps_per_s",
)
"""What is drawn where nobody chose, as far as the runs have it."""

ALL_POINTS = 24_000
"""Points of all curves of a report together, at most: about a megabyte."""

_FEWEST, _MOST, _MARKED_RUNS, _MARKS, _MOST_DONE = 24, 400, 4, 40, 8

PresetOf = Callable[[str], "Spec"]


@dataclass(frozen=True, slots=True)
class AgainstPreset:
    """Settings that are not those of preset `name` as it is now, of so many `known`; or why that is not known."""

    name: str
    rows: Sequence[tuple[str, str | None, str | None]] = ()
    known: int = 0
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """One run: its letter, all that is known of it, and what its settings differ in from its preset."""

    letter: str
    details: DetailsReply
    against: AgainstPreset | None


@dataclass(frozen=True, slots=True)
class Report:
    """`marks` are by run; empty where there are too many runs to tell theirs apart."""

    found: Comparison
    drawings: Sequence[Drawing]
    runs: Sequence[ReportedRun]
    marks: Sequence[Mark]


def read_report(
    details: Sequence[DetailsReply],
    preset_of: PresetOf,
    say: Callable[[str], None],
    metrics: Sequence[str],
    by: Axis,
    threshold: float | None,
) -> Report:
    """The report of the runs in `details`; `say` hears of damage in their files. `metrics`: none are the usual ones.

    Raises `UsageError` for a metric that none of them has, `MissionError` where no run can be read.
    """
    sides = read_sides([Path(each.view.run_dir) for each in details], say, metrics or METRICS)
    read = {side.view.id for side in next(iter(sides.values()))}
    known = [each for each in details if each.view.id in read]
    return report_of(known, sides, preset_of, chosen=bool(metrics), by=by, threshold=threshold)


def report_of(
    details: Sequence[DetailsReply],
    sides: Mapping[str, Sequence[Side]],
    preset_of: PresetOf,
    *,
    chosen: bool = False,
    by: Axis = "step",
    threshold: float | None = None,
) -> Report:
    """The same of `sides`, by metric; those that nobody has `chosen` are drawn only if there is something to see."""
    first = next(iter(sides))
    found = compare(sides[first], first, by, threshold, least=1)
    drawn = [(metric, its) for metric, its in sides.items() if chosen or metric == first or _moves(its)]
    whole = [_with_changes(each, side) for each, side in zip(details, sides[first], strict=True)]
    runs = [ReportedRun(letter(place), each, _against(each, preset_of)) for place, each in enumerate(whole)]
    return Report(
        found=found,
        drawings=[_drawing(metric, its, found, len(drawn)) for metric, its in drawn],
        runs=runs,
        marks=[mark for run in runs for mark in _marks(run)] if by == "step" and len(runs) <= _MARKED_RUNS else [],
    )


def _with_changes(details: DetailsReply, side: Side) -> DetailsReply:
    """What was set while it trained is read from all rows: a supervisor may have the last of them alone."""
    return structs.replace(details, view=structs.replace(details.view, changes=side.view.changes))


def _moves(sides: Sequence[Side]) -> bool:
    """Whether there is a curve to see: one value in all rows of every run is a setting."""
    return any(len(set(side.trace.values)) > 1 for side in sides)


def _drawing(metric: str, sides: Sequence[Side], found: Comparison, drawings: int) -> Drawing:
    curves = drawings * (len(sides) + len(found.cohorts))
    points = max(_FEWEST, min(_MOST, ALL_POINTS // curves))
    threshold = found.threshold if metric == found.metric else None
    return drawing_of(sides, metric, found.by, threshold, "quartiles", points=points, extremes=True)


def _against(details: DetailsReply, preset_of: PresetOf) -> AgainstPreset | None:
    name = details.view.preset
    if name == OF_A_COMMAND or not name:
        return None
    if "/" in name or name.endswith(".toml"):
        # No preset is called so, and whoever wrote the run's spec would choose which file of ours stands in the page.
        return AgainstPreset(name, trouble=f"'{name}' names a file, and no preset")
    try:
        spec = preset_of(name)
    except MissionError as error:
        return AgainstPreset(name, trouble=str(error))
    rows, known = differing((details.spec, details.effective), (spec, {}), runs=False)
    return AgainstPreset(name, rows, known)


def _marks(run: ReportedRun) -> Iterator[Mark]:
    """Findings that asked for something, settings that were changed, and resumes, where they stand on the axis."""
    marks = [
        Mark(float(place), "finding", finding.sentence, run.letter)
        for finding in stories(run.details.view.findings)
        if finding.severity != "info" and (place := place_of(finding, run.details)) is not None
    ]
    marks += [
        Mark(float(change.timesteps), "set", "; ".join(change.diff), run.letter)
        for change in run.details.view.changes
        if change.timesteps is not None
    ]
    marks += [
        Mark(float(attempt.from_timesteps), "resume", f"attempt {attempt.attempt} begins", run.letter)
        for attempt in run.details.attempts
        if attempt.from_timesteps
    ]
    yield from sorted(marks, key=lambda mark: mark.place)[:_MARKS]


def place_of(finding: Finding, details: DetailsReply) -> int | None:
    """The timesteps at which it began: those of its evidence, else as many an update as the run has on average."""
    for row in finding.evidence:
        update, steps = row.get("update"), row.get("timesteps")
        if update == finding.first_update and isinstance(steps, float | int):
            return int(steps)
    view = details.view
    if not view.update or view.timesteps is None:
        return None
    return round(finding.first_update * view.timesteps / view.update)


def done_about(finding: Finding, entries: Sequence[AuditEntry]) -> list[AuditEntry]:
    """Of what was done to a run, what was done because of `finding`, or by its rule while it lasted; the first few."""
    return list(islice(_done_about(finding, entries), _MOST_DONE))


def _done_about(finding: Finding, entries: Sequence[AuditEntry]) -> Iterator[AuditEntry]:
    by_rule = clean(f"rule {finding.rule}")
    for entry in entries:
        named = finding.id in entry.detail.split() or entry.detail == finding.rule
        lasted = finding.first_t <= entry.t <= finding.last_t + 60.0
        if named or (entry.by == by_rule and lasted):
            yield entry


_HERE = Path(__file__).parent
MOST_BYTES = 2_000_000
FILM_BYTES = 1_000_000
_HEAD_BYTES = 4096
_KINDS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_SHAPES = {"critical": "■", "warning": "▲", "info": "●"}
_WORDS = {"open": "open", "acknowledged": "known", "silenced": "silenced", "cleared": "over"}


@dataclass(frozen=True, slots=True)
class DetailLevel:
    """How much is said of each run: so many findings and entries, with each setting and package or without."""

    findings: int
    entries: int
    lists: bool


ROOMS = (DetailLevel(60, 200, lists=True), DetailLevel(20, 40, lists=False), DetailLevel(3, 0, lists=False))
"""What is said of each run, from much to little: the first is taken with which the page is small enough."""


def summary(report: Report) -> Html:
    """One run in facts, several by their strokes; the results in the first table of `compare`, and what to mind."""
    title, results = next(comparison_tables(report.found))
    notes = report.found.notes
    return section(
        "summary",
        "Summary",
        _facts(report.runs[0], report.found.runs[0].result) if len(report.runs) == 1 else _legend(report),
        table_of(results, title),
        tag("ul", (tag("li", note) for note in notes)) if notes else None,
    )


def differences(report: Report) -> Html | None:
    """The other tables of `compare`: seeds together, which setting is best, and what differs."""
    tables = list(comparison_tables(report.found))[1:]
    if not tables:
        return None
    return section("differences", "Seeds and settings", *(table_of(table, title) for title, table in tables))


def _facts(run: ReportedRun, result: Result) -> Html:
    view = run.details.view
    total = f" of {numbers.count(view.total_timesteps)}" if view.total_timesteps else ""
    rows = [
        ("state", (view.outcome or view.state) + (f": {view.cause}" if view.cause else "")),
        ("task", f"{view.env_id}, {numbers.count(view.n_envs)} environments" if view.env_id else numbers.DASH),
        ("preset", view.preset),
        ("seed", str(view.seed) if view.seed is not None else numbers.DASH),
        ("timesteps", f"{numbers.count(view.timesteps)}{total}"),
        ("findings", findings_words(result)),
        ("from", "; ".join(origin.sentence for origin in view.origins)),
        ("labels", ", ".join(view.labels)),
        ("note", view.note),
    ]
    return definitions(row for row in rows if row[1])


def _legend(report: Report) -> Html:
    """Which stroke is which run: letter, name, and what it has set otherwise."""
    found, rows = report.found, []
    for place, (run, compared) in enumerate(zip(report.runs, found.runs, strict=True)):
        seed = f"seed {compared.seed}" if compared.seed is not None else ""
        words = ", ".join(filter(None, (setting_words(found.settings, place), seed)))
        rows.append(
            tag(
                "li",
                swatch(line_classes(compared.cohort)),
                tag("a", f"{run.letter}  {compared.name}", href=f"#run-{run.letter}"),
                tag("span", masked(words), class_="quiet"),
            )
        )
    return tag("ul", rows, class_="legend", aria_label="runs")


def about_run(run: ReportedRun, room: DetailLevel, *, alone: bool) -> Html:
    """All of one run, under its name unless it is the only one."""
    details = run.details
    heading = 2 if alone else 3
    parts = [
        _findings(details, room, heading),
        _settings(run, room, heading),
        _evaluations(details, heading),
        _journal(details, room, heading),
        _provenance(details, room, heading),
    ]
    if alone:
        return join(*parts)
    view = details.view
    state = view.outcome or view.state
    lead = tag("p", f"{state}, {numbers.count(view.timesteps)} timesteps, {view.id}", class_="quiet")
    title = tag("h2", f"{run.letter}  {view.name}")
    return tag("section", title, lead, parts, id=f"run-{run.letter}", class_="one-run")


def _findings(details: DetailsReply, room: DetailLevel, level: int) -> Html:
    view = details.view
    told = stories(view.findings)
    worst = sorted(told, key=lambda it: (it.state != "open", -GRAVITY[it.severity], it.first_update))
    rows = [_finding(finding, details) for finding in worst[: room.findings]]
    more = len(worst) - len(rows)
    return part(
        level,
        "Findings",
        tag("ol", rows, class_="findings") if rows else tag("p", "No health rule had anything to say."),
        tag("p", f"and {numbers.count(more)} more, less severe", class_="quiet") if more else None,
        tag("ul", (tag("li", failed.sentence) for failed in view.failed_duties)) if view.failed_duties else None,
    )


def _finding(finding: Finding, details: DetailsReply) -> Html:
    """The sentence; when; why; what else came of it; what to do, setting by setting; and what was done about it."""
    changes = []
    if details.spec.run.command is None and not finding.undo:
        changes = list(setting_changes(finding.advice_set, details.spec, details.effective))
    if finding.state != "cleared" and (proven := proof(finding)):
        changes.append(proven)
    symptoms = symptoms_of(finding, details.view.findings)
    then = [f"update {numbers.count(it.first_update)}, {it.severity}: {it.sentence}" for it in symptoms]
    done = [_entry_words(entry) for entry in done_about(finding, details.audit_log)]
    advice = join(tag("p", finding.proposal), tag("ul", (tag("li", change) for change in changes)) if changes else None)
    rows: list[tuple[str, str | Html]] = [
        ("when", _when(finding, details)),
        ("why", finding.cause),
        ("then", tag("ul", (tag("li", words) for words in then)) if then else ""),
        ("remedy", advice if finding.proposal else ""),
        ("done", tag("ul", (tag("li", words) for words in done)) if done else "nothing so far"),
    ]
    badge = tag("span", f"{_SHAPES[finding.severity]} {finding.severity}", class_=f"badge {finding.severity}")
    state = tag("span", _WORDS[finding.state], class_="quiet")
    head = tag("p", badge, " ", tag("strong", finding.sentence), " ", state)
    return tag("li", head, definitions(row for row in rows if row[1]))


def _when(finding: Finding, details: DetailsReply) -> str:
    first, last = numbers.count(finding.first_update), numbers.count(finding.last_update)
    said = f"update {first}" if first == last else f"updates {first} to {last}"
    if (place := place_of(finding, details)) is not None:
        said += f", from {numbers.count(place)} timesteps on"
    return f"{said}, {moment(finding.first_t)}" if finding.first_t > 0 else said


def _settings(run: ReportedRun, room: DetailLevel, level: int) -> Html:
    details, against = run.details, run.against
    head: list[Html] = []
    if against is not None and against.trouble:
        head.append(tag("p", f"Preset {against.name} cannot be read here: {against.trouble}"))
    elif against is not None and not against.rows:
        head.append(tag("p", f"Nothing differs from preset {against.name} as it is now; the seed is left out."))
    elif against is not None:
        caption = f"{len(against.rows)} of {against.known} settings differ from preset {against.name} as it is now"
        rows = [
            [name, masked(here or numbers.DASH), masked(there or numbers.DASH)] for name, here, there in against.rows
        ]
        head.append(rows_of(("setting", "this run", "preset"), rows, caption))
    every = [
        [name, masked(asked or numbers.DASH), masked(ran or numbers.DASH), why]
        for name, asked, ran, why in settings(details.spec, details.effective)
    ]
    if details.view.changes:
        said = (
            f"{'; '.join(change.diff)}"
            + (f" from {numbers.count(change.timesteps)} timesteps on" if change.timesteps is not None else " (waits)")
            for change in details.view.changes
        )
        head.append(join(tag("p", "Set while it trained:"), tag("ul", (tag("li", words) for words in said))))
    table = rows_of(("setting", "asked", "runs with", "why"), every, "every setting")
    return part(level, "Settings", head, folded(f"Every setting ({len(every)})", table) if room.lists else None)


def _evaluations(details: DetailsReply, level: int) -> Html:
    rows = [
        [
            _said(it.get("checkpoint")),
            _actions(it),
            _said(it.get("episodes")),
            numbers.spread_words(_said(it.get("mean")), _said(it.get("std")), it.get("episodes")),
            _said(it.get("median")),
            " to ".join(map(_said, it["ci95"])) if isinstance(it.get("ci95"), list | tuple) else numbers.DASH,
            numbers.percent(won) if isinstance(won := it.get("won"), float | int) else numbers.DASH,
            numbers.share_words(it.get("won_ci95")) or numbers.DASH,
        ]
        for it in reversed(details.evaluations)
    ]
    if not rows:
        return part(level, "Evaluation", tag("p", "Its policy was not evaluated apart from the training."))
    heads = ("checkpoint", "actions", "episodes", "return", "median", "95 % CI of the mean", "won", "95 % CI of won")
    return part(
        level, "Evaluation", rows_of(heads, rows, "episodes that were played with its policy", numeric=range(2, 8))
    )


def _actions(result: Mapping[str, Any]) -> str:
    if result.get("policy") == "random":
        return "random"
    return "sampled" if result.get("deterministic") is False else "most probable"


def _said(value: Any) -> str:
    """What a file says that another process wrote: a number, or whatever stands there."""
    if isinstance(value, bool) or value is None:
        return numbers.DASH
    return numbers.measure(value) if isinstance(value, float | int) else str(value)[:80]


def _journal(details: DetailsReply, room: DetailLevel, level: int) -> Html:
    entries = details.audit_log[len(details.audit_log) - min(room.entries, len(details.audit_log)) :]
    rows = [[moment(entry.t), entry.what, entry.detail, entry.by] for entry in entries]
    table = rows_of(("when", "what", "about", "by"), rows, "what was done to it, oldest first")
    return part(level, "Journal", folded(f"What was done to it ({len(rows)})", table)) if rows else join()


def _provenance(details: DetailsReply, room: DetailLevel, level: int) -> Html:
    rows = [(name, masked(said)) for name, said in provenance_rows(details)]
    short = [row for row in rows if row[0] != "packages" and not row[0].startswith("loaded ")]
    long = [row for row in rows if row not in short]
    facts = [("run", details.view.id), ("attempts", str(max(1, details.view.attempt))), *short]
    return part(
        level,
        "Provenance",
        definitions(facts),
        folded("Packages and loaded modules", definitions(long)) if long and room.lists else None,
    )


def _entry_words(entry: AuditEntry) -> str:
    by = f", by {entry.by}" if entry.by else ""
    return f"{moment(entry.t)}: {entry.what} {entry.detail}".rstrip() + by


def moment(t: float) -> str:
    """A local date and time: a report is read on other days."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(t))


def page_of(report: Report, command: str, room: DetailLevel, film: Html | None = None, now: float | None = None) -> str:
    """The whole page with so much of each run, made at unix time `now`."""
    made = time.time() if now is None else now
    names = [run.details.view.name for run in report.runs]
    title = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    alone = len(report.runs) == 1
    figures = [chart(report.found, drawing, at, report.marks) for at, drawing in enumerate(report.drawings)]
    parts = [
        summary(report),
        section("film", "At play", film) if film is not None else None,
        section("curves", "Curves", _curves([figure for figure, _ in figures], report)),
        differences(report),
        tag(
            "div",
            (about_run(run, room, alone=alone) for run in report.runs),
            id="runs",
            class_="alone" if alone else None,
        ),
    ]
    body = join(
        tag("a", "Skip to the summary", href="#summary", class_="skip"),
        _head(title, report, made),
        tag("main", parts),
        _foot(command, room),
        data_block("chart-data", [facts for _, facts in figures]),
    )
    css, script = (read_given(_HERE / name, MOST_BYTES).decode() for name in ("html_report.css", "html_report.js"))
    return page(f"{title}: report", body, css, script)


def _curves(figures: Sequence[Html], report: Report) -> Html:
    if not figures:
        return tag("p", "No update has ended yet, so there is no curve.")
    signs = "▲ a finding   ◆ a setting changed   ↻ an attempt begins" if report.marks else ""
    hint = tag("p", "Point at a curve, or focus a chart and use the arrow keys, for its values.", class_="quiet hint")
    legend = tag("p", signs, class_="quiet") if signs else None
    said = [
        tag("li", f"{SIGNS[mark.kind]} at {numbers.count(round(mark.place))}: {mark.letter} {mark.words}")
        for mark in sorted(report.marks, key=lambda mark: mark.place)
    ]
    marks = folded(f"What was marked ({len(said)})", tag("ul", said)) if said else None
    return join(hint, legend, tag("div", figures, class_="figures"), marks)


def _head(title: str, report: Report, made: float) -> Html:
    links = [("#summary", "Summary"), ("#curves", "Curves"), ("#runs", "Findings, settings, provenance")]
    views = [run.details.view for run in report.runs]
    groups = {view.group for view in views}
    said = f"{len(views)} runs" if len(views) > 1 else f"run {views[0].id}"
    said += f" of group {groups.pop()}" if len(groups) == 1 and views[0].group else ""
    day = time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(made))
    nav = tag("nav", tag("ul", (tag("li", tag("a", words, href=href)) for href, words in links)), aria_label="parts")
    return tag("header", tag("h1", title), tag("p", f"{said}, as of {day}", class_="quiet"), nav)


def _foot(command: str, room: DetailLevel) -> Html:
    less = None if room == ROOMS[0] else tag("p", "So many runs that lists of settings and packages were left out.")
    return tag("footer", less, tag("p", f"Made by mission-tui {__version__} with ", tag("code", command)))


def check_target(path: Path, replace: bool) -> None:
    """Raise `UsageError` for a file that cannot be written, or that is there and is no report of ours."""
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--html {path}: there is no folder {path.absolute().parent}")
    if path.is_dir():
        raise UsageError(f"--html {path} is a folder: name a file in it, such as {path / 'report.html'}")
    if replace or not path.exists():
        return
    known = b""
    with suppress(OSError):  # what cannot be read, or is longer than any report, is none
        known = read_given(path, MOST_BYTES)[:_HEAD_BYTES]
    if f'name="generator" content="{GENERATOR}"'.encode() not in known:
        raise UsageError(f"--html {path} is there and is no report of mission-tui: --replace replaces it")


def film_of(path: Path) -> Html:
    """The picture or film in the file at `path`, inside the page. Raises `UsageError` for what a page cannot show."""
    try:
        return film_in(read_given(path, FILM_BYTES))
    except OSError as error:
        raise UsageError(f"--film {path}: {error.strerror or error} (at most {FILM_BYTES:,} bytes)") from error
    except ValueError as error:
        raise UsageError(f"--film {path}: {error}") from error


def film_in(data: bytes) -> Html:
    """The picture or film whose file has these bytes. Raises `ValueError` for what a page cannot show."""
    kind = next((kind for head, kind in _KINDS.items() if data.startswith(head)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    source = f"base64,{base64.b64encode(data).decode()}"
    if kind is not None:
        return tag("img", src=f"data:{kind};{source}", alt="film of the policy at play", class_="film")
    if data[4:8] == b"ftyp":
        return tag("video", src=f"data:video/mp4;{source}", controls=True, class_="film", aria_label="film")
    raise ValueError("no GIF, PNG, JPEG, WebP or MP4")


def write_report(path: Path, report: Report, command: str, *films: Html | None) -> int:
    """Write the page with the first of `films` with which it is small enough, and say of how many bytes it is.

    What is said of each run goes before a film. Raises `UsageError` where it cannot be made small enough.
    """
    data = b""
    for room in ROOMS:
        for film in films or (None,):
            data = page_of(report, command, room, film).encode()
            if len(data) <= MOST_BYTES:
                write_atomic(path, data)
                return len(data)
    raise UsageError(
        f"{path} would have {len(data):,} bytes and {MOST_BYTES:,} are the most: name fewer runs or metrics"
    )
