"""The tab `watch` of a run, where its policy plays: its picture, what it makes of the moment, and the return curve,
drawn anew with every frame; the widget that shows them, what its keys do, and when there is something to play.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from msgspec import Struct
from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.strip import Strip

from mission_tui.errors import UsageError
from mission_tui.fleet.commands import objection, refusal
from mission_tui.fleet.events.metrics import RETURN, Metric, number
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.views.played_frame import ActionHead, Canvas, Colours, PlayedFrame, Protocol
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import CheckpointView, HistoryReply
from mission_tui.ipc.requests import Act
from mission_tui.present import numbers
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import area
from mission_tui.tui.drawing.strips import Part, coloured, coloured_cells, fit, join, line, literal, part_cells, wrap
from mission_tui.tui.screens.questions import Choice, Picker, ask_line, type_command
from mission_tui.tui.screens.sheets import EvaluationScreen, reel_in, reel_words
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.history import middles
from mission_tui.tui.state.player_feed import PlayerFeed
from mission_tui.tui.state.run_data import RunData
from mission_tui.tui.terminal.pixels import Placed
from mission_tui.tui.widgets.lines import Lines

_BESIDE = 66
"""Columns from which the numbers stand beside the picture and not below it."""
_BELOW = 6
_WIDEST = 100
"""Columns of a picture beyond which it costs more of the line than it shows."""
_CURVE_LEAST = 5
_BAR, _HEADS_LEAST = 12, 2
"""Cells of a share, and rows of choices below which they are put in one line."""


class WatchView(Struct, frozen=True):
    """What there is to draw. `checkpoints` in order of training; `state` is whether it plays, and how fast."""

    frame: PlayedFrame | None
    checkpoint: str | None
    checkpoints: tuple[CheckpointView, ...]
    history: HistoryReply | None
    state: str
    said: str = ""
    alarming: bool = False


def picture_room(width: int, height: int) -> tuple[int, int]:
    """Columns and lines of the picture in a tab of so many; zero lines where there is room for numbers only."""
    if width >= _BESIDE:
        return width - _panel_columns(width) - 2, height
    return width - 1, max(0, height - _BELOW)


def _panel_columns(width: int) -> int:
    return max(30, min(64, width * 2 // 5), width - _WIDEST - 2)


def watch_lines(shown: WatchView, width: int, height: int) -> list[Strip]:
    """All lines of the tab; without a frame yet, what is being waited for or has gone wrong."""
    if shown.frame is None:
        style = colours.ALARM if shown.alarming else colours.QUIET
        return [line([(f" {text}", style)], width) for text in wrap(shown.said, width - 2)]
    columns, lines = picture_room(width, height)
    drawn = picture_strips(shown.frame, columns, lines)
    if width < _BESIDE:
        facts = panel(shown, width - 1, _BELOW)
        return [*drawn, *(join([line([(" ", colours.INK)], 1), strip]) for strip in facts)][:height]
    facts = panel(shown, _panel_columns(width), height)
    facts += [line([], _panel_columns(width))] * (height - len(facts))
    return [
        join([line([(" ", colours.INK)], 1), left, line([(" ", colours.INK)], 1), right])
        for left, right in zip(drawn, facts, strict=True)
    ]


def picture_strips(frame: PlayedFrame, columns: int, lines: int) -> list[Strip]:
    """`lines` strips: the picture in the middle, or why there is none."""
    if frame.pixels is not None:
        return [line([], columns)] * lines
    if not frame.picture:
        rows = [line([(text, colours.QUIET)], columns) for text in wrap(frame.note or "no picture", columns)]
        return (rows + [line([], columns)] * lines)[:lines]
    texts = frame.picture.split("\n")[:lines]
    wide = max(coloured_cells(text) for text in texts)
    indent, above = max(0, (columns - wide) // 2), max(0, (lines - len(texts)) // 2)
    rows = [coloured(text, columns, indent) for text in texts]
    return [*[line([], columns)] * above, *rows, *[line([], columns)] * (lines - above - len(rows))]


def panel(shown: WatchView, width: int, height: int) -> list[Strip]:
    """The numbers, and where there is room the return curve with the place of the checkpoint."""
    frame = shown.frame
    assert frame is not None
    rows: list[list[Part]] = [_progress(frame, width), _verdict(frame), *_slider(shown, width), _newest(shown)]
    rows += [[(shown.state, colours.KEY if "held" in shown.state else colours.QUIET)]]
    if shown.said:
        style = colours.ALARM if shown.alarming else colours.WARN
        rows += [[(text, style)] for text in wrap(shown.said, width)]
    if frame.note and frame.picture:
        rows += [[(text, colours.WARN)] for text in wrap(frame.note, width)]
    rows = [row for row in rows if row]
    room = max(2, height - len(rows) - (_CURVE_LEAST + 2 if height > 14 else 0))
    heads = _heads(frame.heads, width, room - 1)
    if heads and height >= len(rows) + min(2, len(heads)):
        rows += [[], *heads] if height > 12 else heads
    spare = height - len(rows) - 1
    strips = [line(row, width) for row in rows]
    if spare >= _CURVE_LEAST:
        strips += [line([], width), *_curve(shown, width, min(spare, max(_CURVE_LEAST, width // 2)))]
    return strips[:height]


def _progress(frame: PlayedFrame, width: int) -> list[Part]:
    parts: list[Part] = [
        ("return ", colours.QUIET),
        (f"{numbers.reading(frame.episode_return):<8}", colours.BOLD),
        (" step ", colours.QUIET),
        (f"{numbers.count(frame.step):<6}", colours.INK),
    ]
    seed: list[Part] = [(" seed ", colours.QUIET), (str(frame.seed), colours.INK)]
    return [*parts, *seed] if part_cells((*parts, *seed)) <= width else parts


def _verdict(frame: PlayedFrame) -> list[Part]:
    """How it ended, or what the critic expects; nothing where there is no critic (ARS)."""
    if frame.over:
        said = f"over: {frame.outcome}" if frame.outcome else "the episode is over"
        return [(said, colours.KEY)]
    if frame.value is None:
        return []
    return [
        ("value ", colours.QUIET),
        (f"{numbers.reading(frame.value):<8}", colours.INK),
        (" by the critic", colours.QUIET),
    ]


def _slider(shown: WatchView, width: int) -> list[list[Part]]:
    """Whose policy it is, and where it stands among the checkpoints that are kept."""
    frame, names = shown.frame, [row.name for row in shown.checkpoints]
    assert frame is not None
    whose: list[Part] = [("policy at ", colours.QUIET), (f"{numbers.compact(frame.timesteps)} steps", colours.INK)]
    if frame.checkpoint not in names or len(names) < 2:
        return [whose]
    at, many = names.index(frame.checkpoint), len(names)
    cells = max(2, min(40, width - 4))
    place = at * (cells - 1) // (many - 1)
    whose.append((f" ({at + 1} of {many})", colours.QUIET))
    track: list[Part] = [
        ("< ", colours.KEY),
        ("─" * place, colours.LIVE),
        ("●", colours.BOLD),
        ("─" * (cells - 1 - place), colours.TRACK),
        (" >", colours.KEY),
    ]
    return [whose, track]


def _newest(shown: WatchView) -> list[Part]:
    """That there is a newer checkpoint than the one that plays, and the key that takes it."""
    frame = shown.frame
    assert frame is not None
    if shown.checkpoint is not None and shown.checkpoint != frame.checkpoint:
        return [(f"{shown.checkpoint} comes…", colours.QUIET)]
    newer = [row for row in shown.checkpoints if row.timesteps > frame.timesteps]
    if not newer:
        return []
    steps = numbers.compact(newer[-1].timesteps)
    return [(f"{len(newer)} newer: ", colours.WARN), ("End", colours.KEY), (f" takes that at {steps}", colours.WARN)]


def _heads(heads: Sequence[ActionHead], width: int, room: int) -> list[list[Part]]:
    """What the policy says of its next action: a row for each choice of one head, else a row for each head."""
    if not heads or room < 1:
        return []
    valued = len(heads) == 1 and heads[0].values
    if len(heads) == 1 and (heads[0].probabilities or heads[0].values):
        rows = _choices(heads[0], width)
    else:
        # Bars begin below each other, whatever the names of what is taken.
        cells = max(cell_len(_taken(head)) for head in heads)
        rows = [_head(at, head, cells, width) for at, head in enumerate(heads)]
    if len(rows) > room and room < _HEADS_LEAST:
        return [_in_a_line(heads)]
    title: list[Part] = [("the value of each action" if valued else "the policy's next action", colours.QUIET)]
    if len(rows) > room:
        hidden: list[Part] = [(f"and {len(rows) - room + 1} more", colours.QUIET)]
        rows = [*rows[: max(0, room - 1)], hidden]
    return [title, *rows]


def _in_a_line(heads: Sequence[ActionHead]) -> list[Part]:
    """The same where rows have no room: the shares of one head's choices, or what each head takes."""
    alone = len(heads) == 1
    parts: list[Part] = [("next action", colours.QUIET)]
    for at, head in enumerate(heads):
        if head.values:
            parts += [(f"  {_name(head, at)} {numbers.reading(value)}", style) for at, value, style in _valued(head)]
            continue
        if not head.probabilities:
            parts.append((f"  {numbers.reading(head.taken)}", colours.BOLD))
            continue
        taken = int(number(head.taken) or 0)
        for choice, share in enumerate(head.probabilities):
            if alone or choice == taken:
                style = colours.BOLD if choice == taken else colours.QUIET
                name = _name(head, choice) if alone else f"{at}: {_name(head, choice)}"
                parts.append((f"  {name} {numbers.percent(share)}", style))
    return parts


def _valued(head: ActionHead) -> Iterator[tuple[int, Metric, Style]]:
    """Each choice with its value."""
    for choice, value in enumerate(head.values):
        yield choice, value, colours.BOLD if choice == number(head.taken) else colours.QUIET


def _choices(head: ActionHead, width: int) -> list[list[Part]]:
    taken = number(head.taken)
    names = [_name(head, choice) for choice in range(len(head.probabilities or head.values))]
    cells = max(map(cell_len, names))
    if head.values:
        # Only differences between values decide: the least has no bar, the greatest a whole one.
        known = [number(value) or 0.0 for value in head.values]
        finite = [value for value in known if math.isfinite(value)] or [0.0]
        low, span = min(finite), max(finite) - min(finite)
        shares = [(value - low) / span if math.isfinite(value) and 0.0 < span < math.inf else 0.0 for value in known]
        return [
            _share(fit(names[at], cells), shares[at], width, taken=taken == at, said=numbers.reading(value))
            for at, value in enumerate(head.values)
        ]
    return [
        _share(fit(name, cells), share, width, taken=taken == choice)
        for choice, (name, share) in enumerate(zip(names, head.probabilities, strict=True))
    ]


def _name(head: ActionHead, choice: int) -> str:
    """What the environment calls it; else its number."""
    return literal(head.names[choice]) if choice < len(head.names) else f"{choice}"


def _taken(head: ActionHead) -> str:
    """The name of the choice that it takes; empty where it takes a number."""
    return _name(head, int(number(head.taken) or 0)) if head.probabilities else ""


def _head(at: int, head: ActionHead, cells: int, width: int) -> list[Part]:
    if head.probabilities:
        choice = int(number(head.taken) or 0)
        share = head.probabilities[choice] if choice < len(head.probabilities) else 0.0
        return _share(f"{at}: {fit(_taken(head), cells)}", share, width, taken=True)
    spread = "" if head.mean is None else f"{numbers.reading(head.mean)} ± {numbers.reading(head.std)}"
    return [(f"  {at}  ", colours.QUIET), (f"{numbers.reading(head.taken):<9}", colours.BOLD), (spread, colours.INK)]


def _share(name: str, share: float, width: int, *, taken: bool, said: str = "") -> list[Part]:
    cells = max(4, min(_BAR, width - len(name) - 12))
    full = round(share * cells)
    style = colours.BOLD if taken else colours.QUIET
    return [
        ("> " if taken else "  ", colours.KEY),
        (fit(name, max(5, len(name) + 1)), style),
        ("█" * full, colours.LIVE if taken else colours.TRACK),
        ("─" * (cells - full), colours.TRACK),
        (f" {said or numbers.percent(share):>4}", style),
    ]


def _curve(shown: WatchView, width: int, height: int) -> list[Strip]:
    """The return over the whole run; a mark below it shows where the checkpoint was saved."""
    history, frame = shown.history, shown.frame
    assert frame is not None
    values = () if history is None else middles(history, RETURN)
    known = [value for value in values if value is not None]
    if history is None or len(known) < 2:
        return [line([("no return curve yet", colours.QUIET)], width)]
    drawn = _area(values, width - 9, height - 2)
    title = f"return {numbers.reading(known[-1])} over {numbers.compact(history.timesteps[-1])} steps"
    strips = [line([(title, colours.QUIET)], width)]
    for at, text in enumerate(drawn):
        label = max(known) if at == 0 else min(known) if at == len(drawn) - 1 else None
        axis = "" if label is None else numbers.reading_in(label, 7)
        shade = colours.SHADES[at * len(colours.SHADES) // len(drawn)]
        strips.append(line([(f"{axis:>7} ", colours.QUIET), ("│", colours.LINE), (text, shade)], width))
    before = sum(steps <= frame.timesteps for steps in history.timesteps)
    place = max(0, min(width - 10, (before - 1) * (width - 10) // max(1, len(history.timesteps) - 1)))
    strips.append(line([(" " * (9 + place), colours.QUIET), ("▲", colours.KEY)], width))
    return strips


@lru_cache(maxsize=4)
def _area(values: tuple[Metric | None, ...], width: int, height: int) -> tuple[str, ...]:
    return tuple(area(values, width, height))


_LEAST_COLUMNS, _LEAST_LINES = 12, 4
_NUMBERS_ONLY = Canvas(columns=1, lines=1)


class Player(Lines):
    """Draws what it was shown last; `laid_out` is called whenever there may be another room for pictures."""

    def __init__(self, laid_out: Callable[[], None]) -> None:
        super().__init__(id="player")
        self._laid_out = laid_out
        self._shown: WatchView | None = None

    def on_resize(self, _event: events.Resize) -> None:
        """The first one comes once the tab is shown: nothing can be played before."""
        self._laid_out()

    def canvas(self, shades: Colours, cell: tuple[int, int] | None = None, pixels: Protocol = "kitty") -> Canvas | None:
        """The room for pictures; None before there is a layout. Where it is too small for one, a cell."""
        if not self.display or self.size.width == 0:
            return None
        columns, lines = picture_room(self.size.width, self.size.height)
        if columns < _LEAST_COLUMNS or lines < _LEAST_LINES:
            return _NUMBERS_ONLY
        return Canvas(columns=min(columns, 1000), lines=min(lines, 1000), colours=shades, cell=cell, pixels=pixels)

    def placed(self, canvas: Canvas | None) -> Placed | None:
        """Where on the screen the pixels of the newest frame belong, of a canvas that takes some."""
        frame = None if self._shown is None else self._shown.frame
        if frame is None or frame.pixels is None or canvas is None or canvas.cell is None:
            return None
        columns, lines = canvas.fitting(frame.pixels.width, frame.pixels.height)
        x, y = self.region.x + 1 + (canvas.columns - columns) // 2, self.region.y + (canvas.lines - lines) // 2
        return Placed(frame.pixels.png, x, y, columns, lines, frame.pixels.sixels, colours.PALETTE.ground)

    def update(self, shown: WatchView) -> None:
        """Draw `shown`."""
        self._shown = shown
        self.redraw()

    def redraw(self) -> None:
        """Picture and numbers in the present size."""
        width, height = self.size
        if width > 0 and self._shown is not None:
            self.show(watch_lines(self._shown, width, height))

    def text(self) -> list[str]:
        """What is shown, as words."""
        return [strip.text.rstrip() for strip in self._strips]


PlayAct = Literal[
    "hold", "step", "faster", "slower", "next", "seed", "reel", "pixels", "older", "newer", "oldest", "newest"
]
_TOP_SEED = 2**32 - 1


class RunPlayer:
    """One for each screen of a run. `widget` is where it draws, None once the screen is left, before it has closed.

    `canvas` is how large a picture may be now; None while none could be seen.
    """

    def __init__(
        self,
        app_context: AppContext,
        run: str,
        widget: Callable[[], Player | None],
        canvas: Callable[[], Canvas | None],
    ) -> None:
        self._app_context, self._widget = app_context, widget
        self.feed = PlayerFeed(app_context, run, canvas, self._draw)
        self._view: RunView | None = None
        self._data: RunData | None = None
        self._against = ""
        self._asked_of: int | None = None

    def update(self, view: RunView, data: RunData) -> None:
        """Show the newest of the run, and play if it can be played."""
        self._view, self._data = view, data
        self._against = self._objection(view)
        if view.last_checkpoint is None and self._saves(view) and self._asked_of != view.attempt:
            self._asked_of = view.attempt
            self._app_context.carry_out(self._save())
        if self._against:
            self.feed.close()
        elif not self.feed.open:
            self.feed.start()
        self.feed.wake()
        self._draw()

    def close(self) -> None:
        """The tab is left."""
        self.feed.close()
        self.cover()

    def play_again(self, checkpoint: str, seed: int) -> None:
        """Play the episode of `seed` with that checkpoint, as the first where nothing plays yet."""
        if self.feed.open:
            self.feed.take(checkpoint)
            self.feed.reset(seed)
        else:
            self.feed.begin_with(checkpoint, seed)

    def plays_since(self, steps: int) -> bool:
        """Whether an episode is seen that is over or so many steps long, or it is said why none is."""
        frame = self.feed.frame
        return bool(self._against or self.feed.trouble) or (frame is not None and (frame.over or frame.step >= steps))

    def cover(self) -> None:
        """Something lies over the tab: pixels would lie over that."""
        self._app_context.show_picture(None)

    def act(self, what: PlayAct) -> None:
        """Carry out a key of the tab."""
        if self._against:
            if what in ("seed", "reel"):
                self._app_context.refuse(self._against)
            return
        feed = self.feed
        match what:
            case "hold":
                feed.hold()
            case "step":
                feed.step()
            case "faster":
                feed.turn(1)
            case "slower":
                feed.turn(-1)
            case "next" if feed.trouble:
                feed.again()
            case "next":
                feed.next_episode()
            case "seed":
                self._app_context.carry_out(self._type_seed())
            case "pixels":
                self._turn_pixels()
            case "reel":
                self._app_context.carry_out(self._choose_reel())
            case _:
                self._slide(what)

    def _turn_pixels(self) -> None:
        context = self._app_context
        if context.watch_pixels == "off":
            context.watch_pixels = "auto"
            here = context.picture_cell() is not None
            context.toast("in pixels" if here else "in pixels where the terminal and its line allow that: not here")
        else:
            context.watch_pixels = "off"
            context.toast("in characters and half blocks")
        self.feed.wake()
        self._draw()

    def _slide(self, what: PlayAct) -> None:
        names = [row.name for row in self._checkpoints()]
        by = {"older": -1, "newer": 1, "oldest": -len(names), "newest": len(names)}[what]
        if (taken := self.feed.beside(names, by)) is not None:
            self.feed.take(taken)

    async def _type_seed(self) -> None:
        async def begin(said: str) -> None:
            if not said.isascii() or not said.isdigit() or int(said) > _TOP_SEED:
                raise UsageError(f"a seed is a whole number from 0 to {_TOP_SEED}, not '{said}'")
            self.feed.reset(int(said))

        about = "The episode of this seed, as `mission-tui evaluate --episodes 1 --seed` plays it."
        await ask_line(self._app_context, "Seed of the episode", about, "plays it", "10000", begin)

    async def _choose_reel(self) -> None:
        """Play an episode again that an evaluation found, look for such episodes, or film what is seen."""
        view, frame = self._view, self.feed.frame
        if view is None or frame is None:
            self._app_context.refuse("nothing has been played yet: f works from the first picture on")
            return
        choices = [
            Choice(f"play {at} {name}", f"the {name}", f"{reel_words(it)}, of {_whose(judged)}", name[0])
            for at, judged in self._judged(frame.checkpoint)[:1]
            for name, it in reel_in(judged).items()
        ]
        found = "play 30 episodes with this policy to find its best, median and worst"
        choices.append(Choice("evaluate", "evaluate", found, "e"))
        choices.append(
            Choice("film one", "film this episode", f"seed {frame.seed} by {frame.checkpoint}, as a GIF", "f")
        )
        if len(self._checkpoints()) > 1:
            growth = "this episode by every checkpoint, side by side"
            choices.append(Choice("film all", "film the growth", growth, "g"))
        taken = await self._app_context.ask_user(Picker("Reel and films", choices, typed=False))
        what, _, which = (taken or "").partition(" ")
        if what == "play":
            at, _, name = which.partition(" ")
            judged = self._evaluations()[int(at)]
            self.play_again(_whose(judged), reel_in(judged)[name]["seed"])
        elif what == "evaluate":
            evaluation = EvaluationScreen(self._app_context, view, frame.checkpoint)
            if (chosen := await self._app_context.ask_user(evaluation)) is not None:
                self.play_again(chosen.checkpoint, chosen.seed)
        elif what == "film":
            whose = "all" if which == "all" else frame.checkpoint
            line = f"film {view.id} --checkpoints {whose} --seed {frame.seed} --out {view.id}.gif"
            await type_command(self._app_context, line)

    def _evaluations(self) -> tuple[dict[str, Any], ...]:
        details = None if self._data is None else self._data.details
        return () if details is None else details.evaluations

    def _judged(self, checkpoint: str) -> list[tuple[int, dict[str, Any]]]:
        """Evaluations with a reel, and where they stand: those of `checkpoint` first, and the newest of them."""
        known = {row.name for row in self._checkpoints()}
        kept = [pair for pair in enumerate(self._evaluations()) if reel_in(pair[1]) and _whose(pair[1]) in known]
        return sorted(kept, key=lambda pair: (_whose(pair[1]) != checkpoint, -pair[0]))

    def _objection(self, view: RunView) -> str:
        """Why nothing is played, in words; empty when something is."""
        context = self._app_context
        if context.snapshot is not None and context.snapshot.replay is not None:
            return "a replay shows the past and starts nothing, so no policy is played here: H goes to now"
        if context.readonly:
            return "this screen is read-only and starts no process, so no policy is played here"
        if (against := refusal(view.can, "evaluate")) is not None:
            return f"nothing to watch: {against}"
        if view.last_checkpoint is None:
            if view.state in OVER:
                return "no checkpoint to be played: nothing was saved"
            wait = "one was asked for, is saved at the next update, and plays then"
            later = "C saves one at an update, and it plays then"
            return f"no checkpoint yet to be played: {wait if self._saves(view) else later}"
        return ""

    def _saves(self, view: RunView) -> bool:
        """Whether a checkpoint can be asked for, as `C` does, so that there is something to play."""
        context = self._app_context
        if context.readonly or (context.snapshot is not None and context.snapshot.replay is not None):
            return False
        plays = view.state == "running" and view.update is not None and refusal(view.can, "evaluate") is None
        return plays and objection("checkpoint", view) is None

    async def _save(self) -> None:
        if self._view is not None:
            asked = (self._view.id,)
            await self._app_context.ask(lambda id_: Act(id=id_, verb="checkpoint", runs=asked))

    def _checkpoints(self) -> tuple[CheckpointView, ...]:
        details = None if self._data is None else self._data.details
        if details is None:
            return ()
        return tuple(sorted(details.checkpoints, key=lambda row: (row.timesteps, row.name)))

    def _draw(self) -> None:
        feed, widget = self.feed, self._widget()
        if widget is None:
            return
        said, alarming = self._against, False
        if feed.trouble:
            said, alarming = f"{feed.trouble}  (Enter tries again)", True
        elif not said and feed.frame is None:
            said = "starting a process that plays the newest checkpoint; with torch to load this takes some seconds…"
        state = f"{feed.pace.word}  Space holds  f reel"
        if feed.held:
            state = "held: Space goes on, . one step, f reel"
            if feed.unattended:
                state = "held after 30 min without a key: Space"
        history = None if self._data is None else self._data.history.get(RETURN)
        frame = None if self._against else feed.frame
        widget.update(WatchView(frame, feed.checkpoint, self._checkpoints(), history, state, said, alarming))
        self._app_context.show_picture(widget.placed(feed.canvas()))


def _whose(judged: Mapping[str, Any]) -> str:
    """The checkpoint that was evaluated; what the file says may be anything."""
    return str(judged.get("checkpoint"))
