"""The parts of a report: the summary, and of each run its findings with what was done about them, its settings,
evaluations, journal and provenance.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mission_tui.cli.html.charts import line_classes, swatch
from mission_tui.cli.html.contents import Report, ReportedRun, done_about, place_of
from mission_tui.cli.html.markup import Html, join, tag
from mission_tui.cli.tables.comparison import comparison_tables
from mission_tui.cli.tables.runs import provenance_rows
from mission_tui.fleet.compare import setting_words
from mission_tui.fleet.events.findings import GRAVITY, Finding, stories, symptoms_of
from mission_tui.present import numbers
from mission_tui.present.run_settings import proof, setting_changes, settings
from mission_tui.present.run_state import asks_for_action

if TYPE_CHECKING:
    from mission_tui.cli.tables.table import Table
    from mission_tui.ipc.replies import AuditEntry, DetailsReply

_SHAPES = {"critical": "■", "warning": "▲", "info": "●"}
_WORDS = {"open": "open", "acknowledged": "known", "silenced": "silenced", "cleared": "over"}


@dataclass(frozen=True, slots=True)
class Room:
    """How much is said of each run: so many findings and deeds, with each setting and package or without."""

    findings: int
    deeds: int
    lists: bool


def summary(report: Report) -> Html:
    """One run in facts, several by their strokes; the results in the first table of `compare`, and what to mind."""
    title, results = next(comparison_tables(report.found))
    notes = report.found.notes
    return section(
        "summary",
        "Summary",
        _facts(report.runs[0]) if len(report.runs) == 1 else _legend(report),
        table_of(results, title),
        tag("ul", (tag("li", note) for note in notes)) if notes else None,
    )


def differences(report: Report) -> Html | None:
    """The other tables of `compare`: seeds together, which setting is best, and what differs."""
    tables = list(comparison_tables(report.found))[1:]
    if not tables:
        return None
    return section("differences", "Seeds and settings", *(table_of(table, title) for title, table in tables))


def _facts(run: ReportedRun) -> Html:
    view = run.details.view
    total = f" of {numbers.count(view.total_timesteps)}" if view.total_timesteps else ""
    asking = asks_for_action(view)
    rows = [
        ("state", (view.outcome or view.state) + (f": {view.cause}" if view.cause else "")),
        ("task", f"{view.env_id}, {numbers.count(view.n_envs)} environments" if view.env_id else numbers.DASH),
        ("preset", view.preset),
        ("seed", str(view.seed) if view.seed is not None else numbers.DASH),
        ("timesteps", f"{numbers.count(view.timesteps)}{total}"),
        ("findings", f"{len(asking)} open of {len(stories(view.findings))}" if view.findings else "none"),
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
                tag("span", words, class_="quiet"),
            )
        )
    return tag("ul", rows, class_="legend", aria_label="runs")


def about_run(run: ReportedRun, room: Room, *, alone: bool) -> Html:
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


def _findings(details: DetailsReply, room: Room, level: int) -> Html:
    view = details.view
    told = stories(view.findings)
    worst = sorted(told, key=lambda it: (it.state != "open", -GRAVITY[it.severity], it.first_update))
    rows = [_finding(finding, details) for finding in worst[: room.findings]]
    more = len(worst) - len(rows)
    return part(
        level,
        "Findings",
        tag("ol", rows, class_="findings") if rows else tag("p", "No health rule had anything to say."),
        tag("p", f"and {numbers.count(more)} more, less grave", class_="quiet") if more else None,
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
    done = [_deed_words(deed) for deed in done_about(finding, details.deeds)]
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


def _settings(run: ReportedRun, room: Room, level: int) -> Html:
    details, against = run.details, run.against
    head: list[Html] = []
    if against is not None and against.trouble:
        head.append(tag("p", f"Preset {against.name} cannot be read here: {against.trouble}"))
    elif against is not None and not against.rows:
        head.append(tag("p", f"Nothing differs from preset {against.name} as it is now; the seed is left out."))
    elif against is not None:
        caption = f"{len(against.rows)} of {against.known} settings differ from preset {against.name} as it is now"
        rows = [[name, here or numbers.DASH, there or numbers.DASH] for name, here, there in against.rows]
        head.append(rows_of(("setting", "this run", "preset"), rows, caption))
    every = [
        [name, asked or numbers.DASH, ran or numbers.DASH, why]
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
            f"{_said(it.get('mean'))} ± {_said(it.get('std'))}",
            _said(it.get("median")),
            " to ".join(map(_said, it["ci95"])) if isinstance(it.get("ci95"), list | tuple) else numbers.DASH,
            numbers.percent(won) if isinstance(won := it.get("won"), float | int) else numbers.DASH,
        ]
        for it in reversed(details.evaluations)
    ]
    if not rows:
        return part(level, "Evaluation", tag("p", "Its policy was not evaluated apart from the training."))
    heads = ("checkpoint", "actions", "episodes", "return", "median", "95 % CI of the mean", "won")
    return part(
        level, "Evaluation", rows_of(heads, rows, "episodes that were played with its policy", numeric=range(2, 7))
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


def _journal(details: DetailsReply, room: Room, level: int) -> Html:
    deeds = details.deeds[len(details.deeds) - min(room.deeds, len(details.deeds)) :]
    rows = [[moment(deed.t), deed.what, deed.detail, deed.by] for deed in deeds]
    table = rows_of(("when", "what", "about", "by"), rows, "what was done to it, oldest first")
    return part(level, "Journal", folded(f"What was done to it ({len(rows)})", table)) if rows else join()


def _provenance(details: DetailsReply, room: Room, level: int) -> Html:
    rows = list(provenance_rows(details))
    short = [row for row in rows if row[0] != "packages" and not row[0].startswith("loaded ")]
    long = [row for row in rows if row not in short]
    facts = [("run", details.view.id), ("attempts", str(max(1, details.view.attempt))), *short]
    return part(
        level,
        "Provenance",
        definitions(facts),
        folded("Packages and loaded modules", definitions(long)) if long and room.lists else None,
    )


def _deed_words(deed: AuditEntry) -> str:
    by = f", by {deed.by}" if deed.by else ""
    return f"{moment(deed.t)}: {deed.what} {deed.detail}".rstrip() + by


def moment(t: float) -> str:
    """A local date and time: a report is read on other days."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(t))


def section(id_: str, title: str, *children: Html | None) -> Html:
    """A part of the page that the head links to."""
    return tag("section", tag("h2", title), children, id=id_)


def part(level: int, title: str, *children: Html | Sequence[Html] | None) -> Html:
    """A part of what is said of one run."""
    return tag("section", tag(f"h{level}", title), children, class_="part")


def folded(title: str, inside: Html) -> Html:
    """What few want to read; on paper it is open."""
    return tag("details", tag("summary", title), inside)


def definitions(rows: Iterator[tuple[str, str | Html]] | Sequence[tuple[str, str | Html]]) -> Html:
    """Names and what they are."""
    return tag("dl", (tag("div", tag("dt", name), tag("dd", said)) for name, said in rows))


def table_of(table: Table, caption: str) -> Html:
    """A table of the command line with the same cells."""
    numeric = [at for at, column in enumerate(table.columns) if column in table.numbers]
    return rows_of(table.columns, table.rows, caption, numeric)


def rows_of(
    heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str, numeric: Sequence[int] | range = ()
) -> Html:
    """A table that scrolls by itself where it is wider than the page."""

    def cell(name: str, at: int, text: str, **more: str) -> Html:
        return tag(name, text, class_="number" if at in numeric else None, **more)

    head = tag("tr", (cell("th", at, text, scope="col") for at, text in enumerate(heads)))
    body = (
        tag("tr", (cell("th", 0, row[0], scope="row"), *(cell("td", at, text) for at, text in enumerate(row[1:], 1))))
        for row in rows
    )
    table = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", body))
    return tag("div", table, class_="wide", tabindex="0", role="region", aria_label=caption)
