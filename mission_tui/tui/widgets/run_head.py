"""A few lines about one run: where it stands, and what it is or how it ended."""

from __future__ import annotations

from rich.cells import cell_len

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.present import numbers
from mission_tui.present.run_state import share_done, state_word, time_left
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.sparkline import bar
from mission_tui.tui.drawing.strips import Part, fit, fit_name, line, literal, wrap
from mission_tui.tui.state import run_status
from mission_tui.tui.widgets.lines import Lines

_MOST = 4
_MOST_FROM = 2


class RunHead(Lines):
    """The headline of the run screen."""

    def __init__(self) -> None:
        super().__init__(id="run-head")
        self._view: RunView | None = None
        self._now = 0.0

    def update(self, view: RunView, now: float) -> None:
        """Show how `view` stands at `now` (unix s)."""
        self._view, self._now = view, now
        self.redraw()

    def redraw(self) -> None:
        """State and progress above, facts or the cause below."""
        if self._view is None:
            return
        width, view = self.size.width, self._view
        said, style = [fit(_facts(view, self._now, width - 2), width - 2)], colours.QUIET
        if view.cause:
            said = wrap(run_status.headline(view, self._now), max(10, width - 2))[:_MOST]
            style = run_status.state_style(view)
        origins = [text for origin in view.origins for text in wrap(origin.sentence, max(10, width - 2))[:_MOST_FROM]]
        more = _remarks(view, width - 2)
        self.styles.height = 1 + len(said) + len(origins) + len(more)
        head = line(_status(view, self._now, width), width)
        below = [(text, style) for text in said] + [(text, colours.QUIET) for text in origins] + more
        self.show([head, *(line([(f" {text}", style)], width) for text, style in below)])


def _status(view: RunView, now: float, width: int) -> list[Part]:
    health, health_style = run_status.badge(view)
    share = share_done(view)
    amount = f"{numbers.compact(view.timesteps)}/{numbers.compact(view.total_timesteps)}"
    pace = "" if view.pace is None else f"  {numbers.rate(view.pace)} st/s  {time_left(view)} left"
    tail = f" {numbers.percent(share)}  {amount}{pace}  "
    state = f" {run_status.shape(view)} {state_word(view)} "
    name = fit_name(view.name, min(30, cell_len(literal(view.name))))
    room = width - cell_len(name) - len(state) - len(tail) - cell_len(literal(health)) - 3
    done, rest = bar(share, min(40, room))
    return [
        (f" {name}", colours.BOLD),
        (state, run_status.state_style(view)),
        (done, colours.LIVE),
        (rest, colours.TRACK),
        (tail, colours.INK),
        (health, health_style),
    ]


def _remarks(view: RunView, width: int) -> list[Part]:
    """What was set last while it trained, and what people wrote of the run."""
    told = wrap(view.changes[-1].sentence, max(10, width))[:_MOST_FROM] if view.changes else []
    lines: list[Part] = [(text, colours.INK) for text in told]
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
