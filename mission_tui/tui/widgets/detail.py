"""One run in a few lines: the headline of its screen, with where it stands and what it is or how it ended; and the
chosen run below the list, with the rule that names it and its tabs, and the short form of the shown one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from mission_tui.fleet.views.seed_group import SeedGroup
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.present import numbers
from mission_tui.present.run_state import flag_sentences, share_done, state_word, time_left
from mission_tui.tui.actions import Move, rows_by
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import bar
from mission_tui.tui.drawing.strips import Part, fit, fit_name, line, literal, part_cells, wrap
from mission_tui.tui.sections.tabs import section
from mission_tui.tui.state import run_status
from mission_tui.tui.state.fleet_view_state import TABS
from mission_tui.tui.state.run_data import RunData
from mission_tui.tui.state.run_status import alarms
from mission_tui.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from mission_tui.fleet.comparison import Comparison


_SHOWN = Style(color=colours.PALETTE.bold, bold=True, underline=True)


class Detail(Lines):
    """A window into a section; a log shows its end, everything else its beginning."""

    def __init__(self) -> None:
        super().__init__(id="detail")
        self._view: RunView | None = None
        self._data: RunData | None = None
        self._tab = "learn"
        self._now = 0.0
        self._focused = False
        self._group: SeedGroup | None = None
        self._sweep: Comparison | None = None
        self._offset = 0

    def update(
        self,
        view: RunView | None,
        data: RunData | None,
        tab: str,
        now: float,
        *,
        focused: bool,
        group: SeedGroup | None = None,
        sweep: Comparison | None = None,
    ) -> None:
        """Show `tab` of `view`; another run or tab begins unscrolled. A `group` that it stands for, or a `sweep`
        that it is of, comes first.
        """
        if self._view is None or view is None or view.id != self._view.id or tab != self._tab:
            self._offset = 0
        self._view, self._data, self._tab, self._now, self._focused = view, data, tab, now, focused
        self._group, self._sweep = group, sweep
        self.redraw()

    def redraw(self) -> None:
        """The tab line and the part of the section that fits."""
        width, height = self.size
        if self._view is None or height < 1:
            self.show([])
            return
        about = [] if self._group is None else [_group_line(self._group, self._view, width)]
        if self._sweep is not None and self._tab == "learn":
            about += _settings(self._sweep, width, height // 2)
        rows = height - 1 - len(about)
        strips = section(self._tab, self._view, self._data, width, rows, self._now)
        hidden = max(0, len(strips) - rows)
        self._offset = max(0, min(self._offset, hidden))
        top = hidden - self._offset if self._tab == "log" else self._offset
        note = f"{top + 1}-{top + rows}/{len(strips)}" if hidden else ""
        head = tab_line(self._view, self._tab, width, focused=self._focused, note=note)
        self.show([head, *about, *strips[top : top + rows]])

    def move(self, how: Move) -> None:
        """Scroll as a key asks; in a log the offset counts from the end."""
        self._scroll(rows_by(how, max(1, self.size.height - 2), 1 << 20))

    def wheel(self, by: int) -> None:
        """The wheel scrolls."""
        self._scroll(3 * by)

    def _scroll(self, by: int) -> None:
        self._offset = max(0, self._offset + (-by if self._tab == "log" else by))
        self.redraw()


def _group_line(group: SeedGroup, shown: RunView, width: int) -> Strip:
    """The group in one line, and which of its runs is shown below."""
    said = f" {group.name} x{len(group.members)}  return: "
    words = numbers.group_words(group.returns, len(group.members), len(group.live))
    which = f";  below: {shown.name}, the worst of them" if shown.findings else f";  below: {shown.name}"
    if cell_len(literal(said)) + cell_len(words) > width:
        said = " "  # the row above has the name
    parts: list[Part] = [(said, colours.QUIET), (words, colours.BOLD)]
    room = width - cell_len(literal(said)) - cell_len(words)
    return line([*parts, (which if cell_len(literal(which)) <= room else "", colours.QUIET)], width)


def _settings(sweep: Comparison, width: int, most: int) -> list[Strip]:
    """The table of a sweep, best first, in at most so many lines; the best ones without a title where it is longer."""
    from mission_tui.tui.sections.ranking import ranking  # loads statistics, and most runs are of no sweep

    lines = ranking(sweep, width)
    return lines if len(lines) <= most else lines[1:][:most] if most > 1 else []


def _in_sight(titles: dict[str, str], tab: str, width: int) -> dict[str, str]:
    """The tabs around the shown one that have room, none of them cut, and at either end a sign that there are more."""
    names = list(titles)
    first, last = 0, len(names)
    at = names.index(tab) if tab in titles else 0

    def cells() -> int:
        signs = (2 if first else 0) + (2 if last < len(names) else 0)
        return sum(cell_len(titles[name]) + 1 for name in names[first:last]) + signs

    while last - first > 1 and cells() > width:
        first, last = (first + 1, last) if at - first > last - 1 - at else (first, last - 1)
    shown = {name: titles[name] for name in names[first:last]}
    if first:
        shown[names[first]] = f"‹ {shown[names[first]]}"
    if last < len(names):
        shown[names[last - 1]] = f"{shown[names[last - 1]]} ›"
    return shown


def tab_line(
    view: RunView,
    tab: str,
    width: int,
    *,
    focused: bool,
    note: str = "",
    named: bool = True,
    names: Sequence[str] = TABS,
) -> Strip:
    """One strip; the run's name gives way before the tabs do, and before them the blanks between them."""
    rule = colours.KEY if focused else colours.LINE
    asking = len(alarms(view))
    titles = _in_sight(
        {name: f"{name} {asking}" if name == "health" and asking else name for name in names}, tab, width
    )
    wide = sum(map(cell_len, titles.values())) + 3 * len(titles) + 1 + (cell_len(note) + 3 if note else 0)
    gap = " " if wide <= width else ""
    tabs: list[Part] = []
    for name, title in titles.items():
        style = (_SHOWN if name == tab else colours.QUIET) + Style(meta={"@click": f"screen.tab({name!r})"})
        tabs += [(gap, rule), (title, style), (gap, rule), ("│", rule)]
    tabs.pop()
    room = width - part_cells(tabs) - 6
    name = fit_name(view.name, min(room, cell_len(literal(view.name)))) if named and room > 3 else ""
    lead: list[Part] = [("─ ", rule), (name, colours.BOLD), (" ─", rule)] if name else [("──" if gap else "─", rule)]
    used = part_cells(lead + tabs)
    while note and used + 1 + cell_len(note) > width:
        note = note.rpartition("  ")[0]
    tail = f" {note} ─" if note else ""
    fill = "─" * max(0, width - used - cell_len(tail))
    return line([*lead, *tabs, (fill, rule), (tail, colours.QUIET)], width)


_MOST = 4
_MOST_FROM = 2
_LEAST_NAME = 8


class RunHead(Lines):
    """The headline of the run screen."""

    def __init__(self) -> None:
        super().__init__(id="run-head")
        self._view: RunView | None = None
        self._now = 0.0
        self._banner: str | None = None

    def update(self, view: RunView, now: float, banner: str | None = None) -> None:
        """Show how `view` stands at `now` (unix s), and `banner` where what is known of it comes no more."""
        self._view, self._now, self._banner = view, now, banner
        self.redraw()

    def redraw(self) -> None:
        """State and progress above, facts or the cause below."""
        if self._view is None:
            return
        width, view = self.size.width, self._view
        said, style = [fit(_facts(view, self._now, width - 2), width - 2)], colours.QUIET
        if view.cause:
            said = run_status.headline_lines(view, self._now, max(10, width - 2), _MOST)
            style = run_status.state_style(view)
        origins = [text for origin in view.origins for text in wrap(origin.sentence, max(10, width - 2), _MOST_FROM)]
        lost = wrap(f"▲ {self._banner}", max(10, width - 2), _MOST) if self._banner else []
        more = [*((text, colours.WARN) for text in lost), *_remarks(view, width - 2)]
        self.styles.height = 1 + len(said) + len(origins) + len(more)
        head = line(_status(view, self._now, width), width)
        below = [(text, style) for text in said] + [(text, colours.QUIET) for text in origins] + more
        self.show([head, *(line([(f" {text}", style)], width) for text, style in below)])


def _status(view: RunView, now: float, width: int) -> list[Part]:
    health, health_style = run_status.badge(view)
    if view.cause and view.state in ("queued", "starting"):
        health = ""  # It says what the run waits for, which stands whole below; its name would have no room.
    share = share_done(view)
    amount = run_status.steps_words(view)
    pace = "" if view.pace is None else f"  {numbers.rate(view.pace)} st/s  {time_left(view)} left"
    state, whole = f" {run_status.shape(view)} {state_word(view)} ", min(30, cell_len(literal(view.name)))
    done, spare, tail = numbers.percent(share), 0, ""
    tails = (f" {done}  {amount}{pace}  ", f" {done}  {amount}  ") if amount else ()
    for tail in (*tails, f" {done}  "):
        spare = width - 2 - len(state) - len(tail) - cell_len(literal(health))
        if spare >= min(whole, _LEAST_NAME):
            break
    # Health is the last to go: it is why one looks.
    name = fit_name(view.name, max(1, min(whole, spare)))
    room = spare - cell_len(name) - 1
    filled, rest = bar(share, min(40, room))
    return [
        (f" {name}", colours.BOLD),
        (state, run_status.state_style(view)),
        (filled, colours.LIVE),
        (rest, colours.TRACK),
        (tail, colours.INK),
        (health, health_style),
    ]


def _remarks(view: RunView, width: int) -> list[Part]:
    """What its flags mean, what was set last while it trained, and what people wrote of the run."""
    flagged = (f"▲ {sentence}" for sentence in flag_sentences(view))
    lines: list[Part] = [(text, colours.WARN) for said in flagged for text in wrap(said, max(10, width))]
    told = wrap(view.changes[-1].sentence, max(10, width), _MOST_FROM) if view.changes else []
    lines += [(text, colours.INK) for text in told]
    labels = " ".join(f"+{label}" for label in view.labels)
    words = "  ".join(part for part in (labels, f"“{view.note}”" if view.note else "") if part)
    return [*lines, (fit(words, width), colours.INK)] if words else lines


def _shape(view: RunView) -> list[str]:
    """Environments and steps of an update; the algorithm where it is another than PPO."""
    if view.algo is None:
        return [f"{view.n_envs} x {view.n_steps}"]
    steps = f" x {view.n_steps}" if view.n_steps else f" env{'' if view.n_envs == 1 else 's'}"
    return [view.algo, f"{view.n_envs}{steps}"]


def _facts(view: RunView, now: float, width: int) -> str:
    up = None if view.started_t is None else now - view.started_t
    facts = [view.preset]
    if view.env_id:
        facts += [view.env_id, *_shape(view)]
    elif view.description:
        facts.append(view.description)
    if view.seed is not None:
        facts.append(f"seed {view.seed}")
    if view.attempt > 1:
        facts.append(f"attempt {view.attempt}")
    if up is not None:
        facts.append(f"up {numbers.duration(up)}")
    if view.usage is not None:
        facts.append(f"CPU {view.usage.cpu_percent:.0f}%  RAM {numbers.size(view.usage.rss_bytes)}")
    on_disk = "" if view.size_bytes is None else f"{numbers.size(view.size_bytes)} on disk"
    for fact in (f"checkpoint {view.last_checkpoint}" if view.last_checkpoint else "", on_disk, view.id):
        if fact and sum(cell_len(literal(known)) + 2 for known in (*facts, fact)) <= width + 2:
            facts.append(fact)
    return "  ".join(facts)
