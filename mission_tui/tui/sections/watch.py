"""A policy at play as the tab `watch` shows it: its picture, what it makes of the moment, and the return curve."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct
from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from mission_tui.fleet.events.metrics import RETURN, Metric, number
from mission_tui.fleet.views.played_frame import ActionHead, PlayedFrame
from mission_tui.ipc.replies import CheckpointView, HistoryReply
from mission_tui.present import numbers
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import area
from mission_tui.tui.drawing.strips import Part, coloured, coloured_cells, fit, join, line, literal, part_cells, wrap

_BESIDE = 66
"""Columns from which the numbers stand beside the picture and not below it."""
_BELOW = 6
_WIDEST = 100
"""Columns of a picture beyond which it costs more of the line than it shows."""
_CURVE_LEAST = 5
_BAR, _HEADS_LEAST = 12, 2
"""Cells of a share, and rows of choices below which they are put in one line."""


class WatchView(Struct, frozen=True):
    """What there is to draw. `checkpoints` in order of training; `keys` say what can be pressed; `state` is whether it
    plays, and how fast.
    """

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
        return width - _panel(width) - 2, height
    return width - 1, max(0, height - _BELOW)


def _panel(width: int) -> int:
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
    facts = panel(shown, _panel(width), height)
    facts += [line([], _panel(width))] * (height - len(facts))
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
    values = () if history is None else _middles(history)
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


def _middles(history: HistoryReply) -> tuple[Metric | None, ...]:
    pairs = zip(history.low.get(RETURN, ()), history.high.get(RETURN, ()), strict=False)
    middles: list[Metric | None] = []
    for low, high in pairs:
        ends = number(low), number(high)
        middles.append(None if ends[0] is None or ends[1] is None else (ends[0] + ends[1]) / 2)
    return tuple(middles)


@lru_cache(maxsize=4)
def _area(values: tuple[Metric | None, ...], width: int, height: int) -> tuple[str, ...]:
    return tuple(area(values, width, height))
