"""The bases of widgets: a list of ready strips of which only the changed ones are painted again; and two parts of a
screen with a border between them, which keys and the mouse move.

`ScrollLines` shows a window of more: content is built for a width, and kept while scrolled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.containers import Container
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from mission_tui.tui.actions import Move, rows_by
from mission_tui.tui.state.preferences import Shares, Split

_CLOSE = 4
"""Cells between two changes that cost less than moving the cursor over them."""
Build = Callable[[int], list[Strip]]
"""Makes the whole content for a width in cells."""


class Lines(Widget):
    """Draws strips by the line API. Subclasses compute them in `redraw`, which also runs when a line is painted in
    another size than they were computed for, so that the first paint after a layout is the right one.
    """

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own parameter name
        super().__init__(id=id)
        self._strips: list[Strip] = []
        self._size_drawn: Size | None = None
        self._painting = False
        self._kept_lines: dict[int, Strip] = {}

    def show(self, strips: Sequence[Strip]) -> None:
        """Draw `strips` from the top; only the cells that differ from what is drawn are repainted."""
        size = self.size
        before = self._strips if self._size_drawn == size else []
        self._strips, self._size_drawn = list(strips), size
        changed: list[Region] = []
        for y in range(max(len(before), len(self._strips))):
            known = y < len(before) and y < len(self._strips)
            if known and before[y] is self._strips[y]:
                continue
            spans = differences(before[y], self._strips[y]) if known else [(0, size.width)]
            changed += [Region(start, y, end - start, 1) for start, end in spans]
            if not spans:
                # Textual keeps what it made of a strip with that very strip.
                self._strips[y] = before[y]
        if changed and self.is_mounted and not self._painting:
            self.refresh(*changed)

    def redraw(self) -> None:
        """Compute the strips for the present size and show them: none where there is no room, or what was drawn before
        counts as drawn when the widget comes back in that size.
        """

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of `crop`, of which only those are made that changed since they were painted.

        Textual's own way asks for the styles of all ancestors again for every line, and looks at all lines of every
        widget that a change comes near.
        """
        self._fit()
        width, kept = self.size.width, self._kept_lines
        wanted = [y for y in crop.line_range if y not in kept]
        if wanted:
            if self.gutter or self.opacity != 1.0 or self.hover_style._link_id:
                # Textual knows how to draw a border around, and a link under the mouse.
                return super().render_lines(crop)
            ground, background, filters = self.rich_style, self.background_colors[1], self.get_line_filters()
            for y in wanted:
                strip = self._line_on(y, ground, width).adjust_cell_length(width, ground)
                for it in filters:
                    strip = strip.apply_filter(it, background)
                kept[y] = strip
        lines = [kept[y] for y in crop.line_range]
        left, right = crop.column_span
        return lines if (left, right) == (0, width) else [strip.crop(left, right) for strip in lines]

    def render_line(self, y: int) -> Strip:
        """Line `y` of the widget."""
        self._fit()
        return self._line_on(y, self.rich_style, self.size.width)

    def _line_on(self, y: int, ground: Style, width: int) -> Strip:
        return self._strips[y].apply_style(ground) if y < len(self._strips) else Strip.blank(width, ground)

    def _fit(self) -> None:
        # A new size is painted before its event arrives: without this, a frame of nothing, or of the former width.
        if self._size_drawn != self.size:
            self._painting = True
            try:
                self._draw_anew()
            finally:
                self._painting = False

    def _set_dirty(self, *regions: Region) -> None:
        # Whatever has Textual paint a line again comes through here: new strips, another style, another size.
        super()._set_dirty(*regions)
        for y in (y for region in regions for y in region.line_range):
            self._kept_lines.pop(y, None)
        if not regions:
            self._kept_lines.clear()

    def wheel(self, by: int) -> None:
        """The wheel was turned over it: 1 is down, -1 up."""

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """What lies around it is not meant."""
        event.stop()
        self.wheel(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """What lies around it is not meant."""
        event.stop()
        self.wheel(-1)

    def on_resize(self, _event: events.Resize) -> None:
        """Another size is another picture."""
        if self._size_drawn != self.size:
            self._draw_anew()
            self.refresh()

    def _draw_anew(self) -> None:
        self._size_drawn = self.size
        self._strips = []
        self._kept_lines.clear()
        self.redraw()


def differences(before: Strip, after: Strip) -> list[tuple[int, int]]:
    """The cells from which and up to which two strips of one width differ; what lies close together is one span."""
    if before == after:
        return []
    if before.cell_length != after.cell_length or not (_simple(before) and _simple(after)):
        return [(0, max(before.cell_length, after.cell_length))]
    one, other = list(before), list(after)
    first = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
    most = min(len(one), len(other)) - first
    last = next((at for at in range(most) if one[-1 - at] != other[-1 - at]), most)
    start = sum(len(segment.text) for segment in one[:first])
    old, new = _cells(one[first : len(one) - last]), _cells(other[first : len(other) - last])
    spans: list[tuple[int, int]] = []
    for at in (at for at, (was, now) in enumerate(zip(old, new, strict=True), start) if was != now):
        if spans and at - spans[-1][1] <= _CLOSE:
            spans[-1] = spans[-1][0], at + 1
        else:
            spans.append((at, at + 1))
    return spans


def _simple(strip: Strip) -> bool:
    """Whether it has one cell a character: none takes two cells, or none."""
    return strip.cell_length == len(strip.text)


def _cells(segments: Sequence[Segment]) -> list[tuple[str, Style | None]]:
    return [(char, style) for text, style, _ in segments for char in text]


def _nothing(_width: int) -> list[Strip]:
    return []


class ScrollLines(Lines):
    """As high as its content if its style says `height: auto`, else a window into it."""

    def __init__(self, build: Build = _nothing, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own parameter name
        super().__init__(id=id)
        self._build = build
        self._top = 0
        self._total = 0
        self._revealed: tuple[int, ...] = ()

    def set(self, build: Build, *, keep_place: bool = True) -> None:
        """Show what `build` makes; from the top unless `keep_place`."""
        self._build = build
        if not keep_place:
            self._top, self._revealed = 0, ()
        self.redraw()

    def redraw(self) -> None:
        """Build the content and show the window into it."""
        width, height = self.size
        if width <= 0:
            self.show([])
            return
        strips = self._build(width)
        self._total = len(strips)
        self._top = max(0, min(self._top, self._total - height))
        self.show(strips[self._top : self._top + height])

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The content's own height, for `height: auto`."""
        return len(self._build(width))

    def text(self) -> list[str]:
        """The whole content as words, without what only fills lines."""
        return [strip.text.rstrip() for strip in self._build(max(1, self.size.width))]

    @property
    def place(self) -> str:
        """Which lines are shown of how many; empty when all are."""
        if self._total <= self.size.height:
            return ""
        return f"{self._top + 1}-{min(self._total, self._top + self.size.height)}/{self._total}"

    @property
    def at_end(self) -> bool:
        """Whether the last line is in sight."""
        return self._top + self.size.height >= self._total

    def move(self, how: Move) -> None:
        """Scroll as a key asks."""
        self._revealed = ()
        self._top += rows_by(how, max(1, self.size.height - 1), self._total)
        self.redraw()

    def reveal(self, *lines: int) -> None:
        """Scroll as little as brings them into sight, the last named above all; -1 is the last line of the content.

        They are brought into sight again in another size, until one scrolls: a key may arrive before the layout.
        """
        self._revealed = lines
        self._bring()
        self.redraw()

    def _bring(self) -> None:
        for line in self._revealed:
            at = line if line >= 0 else self._total + line
            self._top = min(max(self._top, at - self.size.height + 1), at)

    def _draw_anew(self) -> None:
        self._bring()
        super()._draw_anew()

    def wheel(self, by: int) -> None:
        """The wheel scrolls."""
        self._revealed = ()
        self._top += 3 * by
        self.redraw()


class SplitContainer(Container):
    """Says in `split` what its border lies between now, and lays its parts out by `shares` whenever it is drawn."""

    class Moved(Message):
        """The border is wanted elsewhere."""

    def __init__(self, shares: Shares, *, id: str) -> None:  # noqa: A002 - Textual's own parameter name
        super().__init__(id=id)
        self.shares = shares
        self._dragged = False

    def split(self) -> Split | None:
        """The two parts as they are; None where one of them is not shown."""
        return None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """The border is grabbed where nothing else can be clicked."""
        split = self.split()
        at_border = split is not None and split.grip.contains(event.screen_x, event.screen_y)
        self._dragged = at_border and "@click" not in event.style.meta

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """The border goes where the pointer goes."""
        self._dragged = self._dragged and bool(event.button)
        split = self.split() if self._dragged else None
        if split is not None and self.shares.give(split, split.reaching(event.screen_x, event.screen_y)):
            self.post_message(self.Moved())

    def on_mouse_up(self, _event: events.MouseUp) -> None:
        """The border stays where it was dragged to."""
        self._dragged = False


def give_columns(widget: Widget, columns: int | None) -> None:
    """Make a part exactly so many cells wide; None as its stylesheet has it."""
    width = widget.styles.inline.width
    if columns is None:
        if width is not None:
            widget.styles.width = widget.styles.min_width = widget.styles.max_width = None
    elif width is None or width.value != columns:
        widget.styles.width = widget.styles.min_width = widget.styles.max_width = columns
