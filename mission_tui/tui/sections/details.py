"""The tabs of a run that the supervisor is asked for. Its settings as asked and as they really are, with reasons, and
how they differ from a preset or another run; what it can go on from and how it was judged; its journal: what was done
to it, when, by whom and with what; how its episodes ended: the share of each outcome stacked over its updates, and in
figures; and how its time is split, and what its processes and env workers use. Foreign text is shown as it is.

Bars are lengths, so that a slow worker is seen without colours; the shape before a late one says so as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.cells import cell_len
from rich.style import Style
from rich.table import Table
from textual.strip import Strip

from mission_tui.fleet.events.outcome import ALIVE, OVER
from mission_tui.fleet.events.processes import SLOW_TIMES, EnvWorkers, worker_sentences
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.views.snapshot import ABILITIES, RunView
from mission_tui.ipc.replies import AttemptView, AuditEntry, CheckpointView, DetailsReply, HistoryReply
from mission_tui.present import numbers
from mission_tui.present.run_settings import OF_A_COMMAND, differing, settings
from mission_tui.present.run_state import state_word
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import spark
from mission_tui.tui.drawing.strips import Part, fit, line, literal, rendered, words, wrap
from mission_tui.tui.state import run_status
from mission_tui.tui.state.history import PHASE_SERIES, MetricSummary

_HINT = "v only what differs from its preset, then from another run"
_HINT_OF_A_COMMAND = "v only what differs from another run"
_NAMES, _LEAST_VALUE = 28, 10
_REASON = 44
"""Columns from which on reasons stand beside the values and not below them."""


def config(details: DetailsReply, width: int) -> list[Strip]:
    """A line of setting, asked and effective value each, the reason below it or beside it; what differs is bright."""
    rows = list(settings(details.spec, details.effective))
    names = min(28, max((cell_len(name) for name, *_ in rows), default=0))
    values = max(8, min(24, (width - names - 6) // 2))
    indent = 1 + names + 2 * values + 6
    indent = indent if width >= indent + _REASON else 0
    strips = [line([(f" {text}", colours.INK)], width) for text in wrap(_placed(details), width - 2)]
    titles = ("setting", "asked", "runs with", *(("why",) if indent else ()))
    strips += [_row(titles, (colours.QUIET,) * len(titles), names, values, width)]
    for name, asked, effective, reason in rows:
        differs = asked is not None and effective is not None and asked != effective
        styles = (colours.INK, colours.QUIET, colours.KEY if differs else colours.INK)
        words = (name, asked or numbers.DASH, effective or numbers.DASH)
        beside = wrap(reason, width - indent - 1) if indent else []
        strips.append(_row((*words, *beside[:1]), (*styles, colours.QUIET), names, values, width))
        below = beside[1:] if indent else wrap(reason, width - 5)
        strips += [line([(" " * (indent or 4) + text, colours.QUIET)], width) for text in below]
    return strips


def _placed(details: DetailsReply) -> str:
    """The node of an engine that the attempt is on, or the GPU that was chosen for it, and why; empty without both."""
    view = details.view
    if view.node is not None:
        return f"on node {view.node}, carried out by {view.launcher}"
    return "" if view.placed is None else f"on GPU{view.placed.number}: {view.placed.why}"


def _row(words: Sequence[str], styles: Sequence[Style], names: int, values: int, width: int) -> Strip:
    cells = (names, values, values, max(0, width - names - 2 * values - 7))
    parts = ((f"{fit(word, cell)}  ", style) for word, cell, style in zip(words, cells, styles, strict=False))
    return line([(" ", colours.INK), *parts], width)


@dataclass(frozen=True, slots=True)
class Other:
    """`name` says in words what it is, `run` whether it is one: of a preset nothing runs, and `effective` is empty."""

    name: str
    spec: Spec | None
    effective: Mapping[str, Any] = field(default_factory=dict)
    run: bool = False
    trouble: str = ""
    """Why there is nothing to hold against it; empty where there is a spec."""


def held_against(details: DetailsReply, other: Other | None, width: int) -> list[Strip]:
    """Every setting, or what differs from `other`; each with what the next key shows."""
    if other is not None:
        return difference(details, other, width)
    hint = _HINT_OF_A_COMMAND if details.view.preset == OF_A_COMMAND else _HINT
    return [line([(f" {hint}", colours.QUIET)], width), *config(details, width)]


def difference(details: DetailsReply, other: Other, width: int) -> list[Strip]:
    """A line per setting that differs, with both values whole: a long one goes on below itself."""
    hint = "v every setting again" if other.run else "v against another run, then every setting again"
    if other.spec is None:
        said = [(f"{other.name}: {other.trouble}", colours.ALARM), (hint, colours.QUIET)]
        return [line([(f" {text}", style)], width) for words, style in said for text in wrap(words, width - 2)]
    rows, known = differing((details.spec, details.effective), (other.spec, other.effective), other.run)
    head = f"{len(rows)} of {known} settings differ from {other.name}" if rows else ""
    head = head or f"nothing differs from {other.name}; the seed is left out"
    strips = [line([(f" {text}", colours.BOLD)], width) for text in wrap(head, width - 2)]
    if rows:
        strips += _table(rows, width)
    return [*strips, line([(f" {hint}", colours.QUIET)], width)]


def _table(rows: list[tuple[str, str | None, str | None]], width: int) -> list[Strip]:
    names = min(_NAMES, max(cell_len(name) for name, *_ in rows))
    values = max(_LEAST_VALUE, (width - names - 7) // 2)
    titles = f" {fit('setting', names)}  {fit('this run', values)}  {fit('there', values)}"
    strips = [line([(titles, colours.QUIET)], width)]
    for name, here, there in rows:
        here_lines, there_lines = wrap(here or numbers.DASH, values), wrap(there or numbers.DASH, values)
        for at in range(max(len(here_lines), len(there_lines))):
            parts = (it[at] if at < len(it) else "" for it in ([name], here_lines, there_lines))
            title, mine, its = (fit(text, cells) for text, cells in zip(parts, (names, values, values), strict=True))
            strips.append(line([(f" {title}  ", colours.INK), (f"{mine}  ", colours.KEY), (its, colours.INK)], width))
    return strips


_GAP, _FOLDED = 2, 20
"""Between columns, and of the last one where it is folded."""
_WHEN, _WHAT, _WHO = 13, 13, 24
_ENDED = "ended"


def checkpoints(details: DetailsReply, width: int, now: float) -> list[Strip]:
    """The bytes on disk, and three tables, the newest first in each; an empty one is a sentence."""
    strips = [_sizes(details, width)] if details.view.size_bytes is not None else []
    view = details.view
    saved = [_checkpoint(row, now) for row in sorted(details.checkpoints, key=lambda row: row.t, reverse=True)]
    strips += _titled("checkpoints", width, saved, _no_checkpoint(view), gives_way=(5, 4, 1))
    attempts = [_attempt(row, now) for row in reversed(details.attempts)]
    strips += _titled("attempts", width, attempts, "no attempt yet: it has not begun", gives_way=(3, 2))
    judged = [_evaluation(row, now) for row in reversed(details.evaluations)]
    drawn = any(row.get("deterministic") is False for row in details.evaluations)
    policy = "policy as it trains" if drawn else "deterministic policy"
    title = f"evaluations: {policy}, return ± deviation, 95 % CI of the mean"
    strips += _titled(title, width, judged, _no_evaluation(view), gives_way=(5, 3))
    return strips


def _sizes(details: DetailsReply, width: int) -> Strip:
    """What the run takes on disk, and what of that could be pruned."""
    saved = sum(row.size_bytes for row in details.checkpoints)
    sentence = f" {numbers.size(details.view.size_bytes)} on disk, {numbers.size(saved)} of it in checkpoints"
    return line([(sentence, colours.QUIET)], width)


def _no_checkpoint(view: RunView) -> str:
    """Why there is none, and the key that makes one."""
    if "checkpoint" not in view.can:
        return "no checkpoint: its command saves by itself"
    if view.state in OVER:
        return "no checkpoint: nothing was saved; N starts a run like it"
    return "no checkpoint yet; C saves one at the next update"


def _no_evaluation(view: RunView) -> str:
    if "evaluate" not in view.can:
        return "no evaluation: a command leaves no policy to play"
    if view.last_checkpoint is None:
        return "no evaluation: that needs a checkpoint"
    return "no evaluation yet; e plays 100 episodes with the newest checkpoint"


def _titled(
    title: str, width: int, rows: list[list[tuple[str, Style]]], without: str, gives_way: tuple[int, ...]
) -> list[Strip]:
    """A table under `title`, or the sentence that says why there is none.

    What has no room goes by whole columns in the order of `gives_way`; then the last one is folded.
    """
    if not rows:
        return [line([(f" {text}", colours.QUIET)], width) for text in wrap(without, width - 2)]
    cells = {at: max(words(row[at]).cell_len for row in rows) for at in range(len(rows[0]))}
    cells[len(cells) - 1] = min(cells[len(cells) - 1], _FOLDED)
    for at in gives_way:
        if sum(cells.values()) + _GAP * len(cells) > width:
            del cells[at]
    table = Table.grid(padding=(0, _GAP, 0, 0))
    for at in cells:
        table.add_column(no_wrap=at < len(rows[0]) - 1, overflow="ellipsis")
    for row in rows:
        table.add_row(*(words(row[at]) for at in cells))
    return [*(line([(f" {text}", colours.QUIET)], width) for text in wrap(title, width - 2)), *rendered(table, width)]


def _checkpoint(row: CheckpointView, now: float) -> list[tuple[str, Style]]:
    verified = {
        True: ("✓ verified", colours.GOOD),
        False: ("✗ damaged", colours.ALARM),
        None: ("not verified", colours.QUIET),
    }
    return [
        (f"  {row.name}", colours.INK),
        (f"{numbers.compact(row.timesteps)} steps", colours.INK),
        (f"update {numbers.count(row.update)}", colours.QUIET),
        (numbers.ago(row.t, now), colours.QUIET),
        (numbers.size(row.size_bytes), colours.QUIET),
        (row.reason, colours.QUIET),
        verified[row.verified],
    ]


def _attempt(row: AttemptView, now: float) -> list[tuple[str, Style]]:
    lasted = None if row.started_t is None else (row.ended_t or now) - row.started_t
    origin = f"from {row.from_checkpoint}" if row.from_checkpoint else "from scratch"
    changes = "; ".join(f"{change.name} {change.was} → {change.now}" for change in row.changes)
    return [
        (f"  {row.attempt}", colours.INK),
        (origin, colours.INK),
        (numbers.ago(row.started_t, now), colours.QUIET),
        (f"lasted {numbers.duration(lasted)}", colours.QUIET),
        (row.outcome or "going on", colours.outcome_style(row.outcome) if row.outcome else colours.LIVE),
        ("; ".join(part for part in (row.cause or "", changes) if part), colours.QUIET),
    ]


def _evaluation(row: dict[str, Any], now: float) -> list[tuple[str, Style]]:
    interval = row.get("ci95")
    ends = [_number(end) for end in interval] if isinstance(interval, list | tuple) else []
    won, due = row.get("won"), row.get("put_off_from")
    put_off = f" (was due at {due:,})" if isinstance(due, int) and not isinstance(due, bool) else ""
    return [
        (f"  {row.get('checkpoint', numbers.DASH)}", colours.INK),
        (numbers.spread_words(_number(row.get("mean")), _number(row.get("std")), row.get("episodes")), colours.INK),
        (" to ".join(ends) if ends else "no interval", colours.QUIET),
        (f"{row.get('episodes', numbers.DASH)} episodes{put_off}", colours.QUIET),
        (f"won {numbers.percent(won)}" if isinstance(won, float | int) else "", colours.GOOD),
        (numbers.ago(row["t"], now) if isinstance(row.get("t"), float | int) else "", colours.QUIET),
    ]


def _number(value: object) -> str:
    """The file was written by another process, so anything may stand there."""
    return numbers.reading(value) if isinstance(value, float | int) else literal(str(value or numbers.DASH))


def journal(details: DetailsReply, width: int, now: float) -> list[Strip]:
    """A line for each entry under titles; the detail is wrapped below itself, or on a narrow screen below the entry."""
    if not details.audit_log:
        return [line([(" nothing was done to it yet", colours.QUIET)], width)]
    head = f" {fit('when', _WHEN)}{fit('what', _WHAT)}{fit('by', _WHO)}"
    strips = [line([(head, colours.QUIET)], width)]
    for entry in reversed(details.audit_log):
        strips += _entry(entry, width, now)
    return strips


def _entry(entry: AuditEntry, width: int, now: float) -> list[Strip]:
    indent = 1 + _WHEN + _WHAT + _WHO
    own_lines = width - indent < 20
    indent = 1 + _WHEN if own_lines else indent
    said = wrap(entry.detail, max(10, width - indent - 1))
    head: list[Part] = [
        (f" {fit(numbers.clock(entry.t, now), _WHEN)}", colours.QUIET),
        (fit(entry.what, _WHAT), colours.QUIET if entry.what == _ENDED else colours.BOLD),
        (fit(entry.by or numbers.DASH if entry.what != _ENDED else "", _WHO - 1) + " ", colours.QUIET),
    ]
    if not own_lines and said:
        head.append((said.pop(0), colours.INK))
    below = [line([(" " * indent + text, colours.INK)], width) for text in said]
    return [line(head, width), *below]


_LABEL = 6
"""Cells left of the columns."""
_LEAST, _MOST = 5, 24
_NAME = 20
_FILLS: tuple[tuple[str, Style], ...] = (
    ("█", colours.LIVE),
    ("░", colours.UPDATE),
    ("━", colours.PAUSED),
    ("│", colours.GOOD),
    ("×", colours.WARN),
    ("╌", colours.QUIET),
)
"""Each outcome has its own, also in plain letters, so that the stack is read without colours; what is beyond these
shares the last one.
"""
_UNNAMED = "not named"


def episodes(view: RunView, history: HistoryReply | None, trouble: str, width: int, height: int) -> list[Strip]:
    """At most `height` lines where that is enough for the figures: the stack takes the rows that they leave."""
    if history is None:
        return [line([(f" {trouble or 'asking…'}", colours.QUIET)], width)]
    ended = sum(history.episodes)
    if not ended:
        return [line([(f" {text}", colours.QUIET)], width) for text in wrap(_none_ended(view), width - 2)]
    counts = _with_unnamed(history)
    if list(counts) == [_UNNAMED]:
        said = f"{numbers.count(ended)} episodes ended, without outcomes: the environment may set info['outcome']"
        return [line([(f" {text}", colours.QUIET)], width) for text in wrap(said, width - 2)]
    figures = _figures(view, counts, ended, width)
    rows = max(_LEAST, min(_MOST, height - len(figures) - 2))
    drawn = stacked(counts, history.episodes, width - _LABEL - 1, rows)
    strips = [line([(_axis(at, rows), colours.QUIET), *parts], width) for at, parts in enumerate(drawn)]
    return [*strips, _ruler(history, width), line([], width), *figures]


def _none_ended(view: RunView) -> str:
    if view.can != ABILITIES:
        return "its command has reported no episodes; l shows what it prints"
    if view.state in OVER:
        return "no episode ended; l shows what it printed"
    return "no episode has ended yet; l shows what it prints"


def _with_unnamed(history: HistoryReply) -> Mapping[str, Sequence[int]]:
    """The outcomes, and what ended without one."""
    named = [sum(column) for column in zip(*history.outcomes.values(), strict=True)] or [0] * len(history.episodes)
    rest = [max(0, ended - known) for ended, known in zip(history.episodes, named, strict=True)]
    return {**history.outcomes, **({_UNNAMED: rest} if any(rest) else {})}


def stacked(counts: Mapping[str, Sequence[int]], ended: Sequence[int], width: int, rows: int) -> list[list[Part]]:
    """`rows` lines of `width` cells, top first: in each column the outcomes' shares, the first at the bottom.

    Where no episode ended the column is blank; fewer buckets than columns are drawn broader.
    """
    fills = [_fill(at) for at in range(len(counts))]
    columns: list[list[int | None]] = []
    for at in range(width):
        bucket = at * len(ended) // width
        column = [of[bucket] for of in counts.values()]
        columns.append(_column(column, rows))
    lines: list[list[Part]] = []
    for row in range(rows - 1, -1, -1):
        parts: list[Part] = []
        for column_ in columns:
            which = column_[row]
            glyph, style = (" ", colours.QUIET) if which is None else fills[which]
            if parts and parts[-1][1] == style:
                parts[-1] = (parts[-1][0] + glyph, style)
            else:
                parts.append((glyph, style))
        lines.append(parts)
    return lines


def _column(counts: Sequence[int], rows: int) -> list[int | None]:
    """Which outcome is in each row from the bottom; None everywhere without an episode."""
    total = sum(counts)
    if not total:
        return [None] * rows
    edges, so_far = [], 0
    for count in counts:
        so_far += count
        edges.append(round(rows * so_far / total))
    return [next(at for at, edge in enumerate(edges) if row < edge) for row in range(rows)]


def _fill(at: int) -> tuple[str, Style]:
    return _FILLS[min(at, len(_FILLS) - 1)]


def _axis(at: int, rows: int) -> str:
    label = {0: "100%", rows // 2: "50%", rows - 1: "0%"}.get(at, "")
    return f"{label:>{_LABEL - 1}} "


def _ruler(history: HistoryReply, width: int) -> Strip:
    """The updates that the stack goes over."""
    first = max(1, history.updates[0] - _bucket(history) + 1)
    left, right = f"update {numbers.count(first)}", numbers.count(history.updates[-1])
    room = width - _LABEL - 1 - len(left) - len(right)
    return line([(f"{'':{_LABEL}}{left}{' ' * max(1, room)}{right}", colours.QUIET)], width)


def _bucket(history: HistoryReply) -> int:
    """Updates of the first bucket, taken from the second."""
    return history.updates[1] - history.updates[0] if len(history.updates) > 1 else 1


def _figures(view: RunView, counts: Mapping[str, Sequence[int]], ended: int, width: int) -> list[Strip]:
    """A line per outcome, topmost of the stack first: its fill, its share of late, and of all."""
    of_late = sum(view.outcomes.values())
    head = f" {'':2}{fit('outcome', _NAME)}{'recent':>8}{'whole run':>11}{'episodes':>12}"
    rows = [line([(head, colours.QUIET)], width)]
    for at, (name, column) in reversed(list(enumerate(counts.items()))):
        glyph, style = _fill(at)
        late = numbers.percent(view.outcomes.get(name, 0) / of_late) if of_late and name != _UNNAMED else numbers.DASH
        total = sum(column)
        said = f"{late:>8}{numbers.percent(total / ended):>11}{numbers.count(total):>12}"
        rows.append(line([(f" {glyph} ", style), (fit(name, _NAME), colours.INK), (said, colours.INK)], width))
    return rows


NOTHING: Mapping[str, Any] = {}
_BAR = 40
_USE_LABEL = 10
_PHASES = ("rollout", "update")
"""The phases that every update has, in the order of `PHASE_SERIES`."""
_VALUE = 9
_CELL_LEAST, _NUMBERS = 36, 24


def usage_lines(
    view: RunView,
    width: int,
    summaries: Mapping[str, MetricSummary] = NOTHING,
    now: float = 0.0,
    effective: Mapping[str, Any] = NOTHING,
) -> list[Strip]:
    """A line for each fact that is known; of a run that is over, how its last update was split.

    `summaries` are asked for where there is room for what its phases took over the whole run. `effective` are the
    values that it runs with, by table.
    """
    inside = width - 2
    phases = phase_rows(view, summaries, inside, now) if summaries else ()
    rows = [*_split(view, inside), *phases, *_device(effective, inside), *_use(view), *_processes(view, inside)]
    if view.state not in ALIVE:
        rows.append([(f"not on the machine: {state_word(view)}", colours.QUIET)])
    return [line([(" ", colours.INK), *parts], width) for parts in rows]


def _label(text: str) -> Part:
    return f"{text:<{_USE_LABEL}}", colours.QUIET


def _split(view: RunView, width: int) -> Iterator[list[Part]]:
    """The newest update's time as a bar, in the shapes that panes have for the two phases."""
    share = run_status.update_share(view)
    if share is None:
        return
    cells = max(8, min(_BAR, width - 44))
    updates = min(cells - 1, max(1, round(share * cells))) if 0 < share < 1 else round(share * cells)
    rollout, update = numbers.split_second(view.rollout_s), numbers.split_second(view.update_s)
    yield [
        _label("time"),
        (f"rollout {rollout} ", colours.INK),
        ("▓" * (cells - updates), colours.LIVE),
        ("░" * updates, colours.UPDATE),
        (f" {update} update, {100 * share:.0f}%", colours.INK),
    ]


def _device(effective: Mapping[str, Any], width: int) -> Iterator[list[Part]]:
    """Where it computes and why: what it takes of a GPU does not say that."""
    if device := str(effective.get("run", {}).get("device", "")):
        why = str(effective.get("reasons", {}).get("run.device", "")).partition(" (")[0]
        said = fit(literal(f"{device}  {why}".rstrip()), width - _USE_LABEL)
        yield [_label("device"), (said[: len(device)], colours.INK), (said[len(device) :], colours.QUIET)]


def _use(view: RunView) -> Iterator[list[Part]]:
    usage = view.usage
    if usage is not None and view.state in ALIVE:
        cores = f"{usage.cpu_percent / 100:.1f} cores"
        yield [_label("CPU"), (f"{usage.cpu_percent:.0f}%", colours.INK), (f"  as much as {cores}", colours.QUIET)]
        shared = "" if usage.processes == 1 else "  memory that its processes share is counted for each"
        yield [_label("RAM"), (numbers.size(usage.rss_bytes), colours.INK), (shared, colours.QUIET)]
        yield [_label("VRAM"), (numbers.size(usage.vram_bytes), colours.INK)]
        if usage.pss_bytes is not None:
            yield [
                _label("PSS"),
                (numbers.size(usage.pss_bytes), colours.INK),
                ("  shared memory counted once", colours.QUIET),
            ]
        if usage.gpu_percent is not None:
            yield [
                _label("GPU"),
                (f"{usage.gpu_percent:.0f}%", colours.INK),
                ("  of the time a kernel of it ran, by the driver's word", colours.QUIET),
            ]
        if usage.written_bytes is not None:
            yield [_label("written"), (numbers.size(usage.written_bytes), colours.INK), ("  to disks", colours.QUIET)]
        if usage.open_files is not None:
            yield [_label("files"), (f"{usage.open_files} open", colours.INK)]
        yield [_label("threads"), (f"{usage.threads} in {usage.processes} processes", colours.INK)]
    if view.held is not None:
        vram = f" and {numbers.size(view.held.vram_bytes)} of GPU memory" if view.held.vram_bytes else ""
        vram = vram or (" and a GPU" if view.held.gpu else "")
        yield [_label("held"), (f"{numbers.size(view.held.memory_bytes)}{vram} while it is frozen", colours.PAUSED)]


def _processes(view: RunView, width: int) -> Iterator[list[Part]]:
    pids = view.pids
    named = [f"{role} {pid}" for role, pid in (("keeper", pids.keeper), ("trainer", pids.trainer)) if pid is not None]
    if named:
        yield [_label("processes"), (", ".join(named), colours.INK)]
    for sentence in worker_sentences(view.workers) if view.workers is not None else ():
        for at, text in enumerate(wrap(sentence, width - 2)):
            yield [("  " if at else "▲ ", colours.WARN), (text, colours.INK)]
    if view.workers is not None and view.workers.steps_s:
        yield from worker_rows(view.workers, width)
    elif pids.workers:
        said = f"{len(pids.workers)}: {' '.join(map(str, pids.workers))}"
        for at, text in enumerate(wrap(said, width - _USE_LABEL)):
            yield [_label("" if at else "workers"), (text, colours.INK)]
    elif pids.trainer is not None and view.n_envs:
        yield [_label("workers"), ("none: its environments are stepped in the trainer", colours.QUIET)]


def phase_rows(view: RunView, summaries: Mapping[str, MetricSummary], width: int, now: float) -> Iterator[list[Part]]:
    """In which phase it is, since when; then a line for rollouts and one for updates, over the whole run."""
    if view.state in ALIVE and view.phase is not None and view.phase_t is not None:
        since = numbers.duration(max(0.0, now - view.phase_t))
        yield [
            (f"{'phase':<{_USE_LABEL}}", colours.QUIET),
            (view.phase, colours.INK),
            (f" for {since}", colours.QUIET),
        ]
    newest = (view.rollout_s, view.update_s)
    if not any(tag in summaries for tag in PHASE_SERIES):
        return
    titles = "".join(f"{title:>{_VALUE}}" for title in ("newest", "least", "most"))
    yield [(f"{'':{_USE_LABEL}}{titles}  whole run", colours.QUIET)]
    for name, tag, seconds in zip(_PHASES, PHASE_SERIES, newest, strict=True):
        summary = summaries.get(tag, MetricSummary()).reaching(seconds)
        values = "".join(f"{numbers.split_second(it):>{_VALUE}}" for it in (seconds, summary.least, summary.most))
        cells = max(0, min(48, width - _USE_LABEL - 3 * _VALUE - 2))
        yield [
            (f"{name:<{_USE_LABEL}}", colours.QUIET),
            (f"{values}  ", colours.INK),
            (spark(summary.points, cells).lstrip(), colours.LIVE if name == "rollout" else colours.UPDATE),
        ]


def worker_rows(workers: EnvWorkers, width: int) -> Iterator[list[Part]]:
    """As many side by side as fit: index, pid, milliseconds a step, and a bar as long as that is of the slowest's."""
    if not workers.steps_s:
        return
    side_by_side = max(1, width // _CELL_LEAST)
    cell = width // side_by_side
    yield [("workers: index, pid, time of a step of all its environments", colours.QUIET)]
    each = [_worker(workers, index, cell) for index in range(len(workers.steps_s))]
    rows = -(-len(each) // side_by_side)
    for row in range(rows):
        yield [part for parts in each[row::rows] for part in parts]
    if workers.count > len(each):
        yield [(f"and {workers.count - len(each)} more", colours.QUIET)]


def _worker(workers: EnvWorkers, index: int, width: int) -> list[Part]:
    step_s, most_s = workers.steps_s[index], max(workers.steps_s)
    late = next((it for it in workers.late if it.index == index), None)
    slowest = workers.slowest
    slow = slowest is not None and step_s > SLOW_TIMES * slowest.usual_s > 0
    style = colours.ALARM if late else colours.WARN if slow else colours.LIVE
    pid = str(workers.pids[index]) if index < len(workers.pids) else numbers.DASH
    took = f"late {numbers.duration(late.seconds)}" if late else numbers.step_time(step_s)
    room = max(1, width - _NUMBERS - 2)
    bar = "▓" * max(1, round(room * step_s / most_s)) if most_s > 0 else ""
    return [
        ("▲ " if late or slow else "  ", style),
        (f"{index:>3} {pid:>7} {fit(took, 10, 'right')} ", colours.INK),
        (fit(bar, room + 1), style),
    ]
