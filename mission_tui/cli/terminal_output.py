"""What the command line writes to a terminal, a pipe or a file: made harmless here, and given its colours after that; a
table of facts is drawn by Rich on a terminal, and is plain aligned columns elsewhere.

Names, paths, findings and notes may be anybody's. No other module of the command line prints, so that none can forget
it; `tests/house` holds that. An error that a person can act on becomes one line on stderr and an exit code; any other
exception stays a traceback. The screen starts without click, so click's own errors are handled in `root`.

Rich is imported only for a terminal: a piped `status` must not pay for it. Cells are literal text, never markup.
"""

from __future__ import annotations

import errno
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TextIO, TypeVar

from mission_tui.errors import EX_FAILED, MissionError, limit_met
from mission_tui.fleet.text import clean, clean_line, clean_lines

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console
    from rich.progress import TextColumn
    from rich.table import Table as RichTable


Row = TypeVar("Row")
Colour = Literal["red", "green", "yellow", "cyan", "bright_black"]

_COLOURS: dict[Colour, str] = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bright_black": "90"}
_BOLD = "1"
_PICTURE_COLOUR = re.compile(r"(\x1b\[[0-9;:]{0,40}m)")
_STEERING = bytes({*range(0x20), 0x7F} - {ord("\n"), ord("\t")})
_CLEAR_LINE, _RESET = "\r\x1b[K", "\x1b[0m"
_ODD_IN_JSON = re.compile(r"[^ -~]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_UNDECODED = re.compile("[\ud800-\udfff]")

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
EX_INTERRUPTED = 130
ROWS_A_LOOK = 256
PATIENCE_S, PACE_S = 1.0, 0.2
"""Until progress is shown, and between two lines of it."""
SENTENCE_CHARACTERS = 1000


class Styled(NamedTuple):
    """Words that a terminal shows in a colour of ours, or bold; anything else gets the words alone."""

    text: str
    colour: Colour | None = None
    bold: bool = False


def write(*parts: str | Styled, stream: TextIO | None = None) -> None:
    """One line of `parts` on `stream` (default: stdout). What breaks lines in them is a blank."""
    out = sys.stdout if stream is None else stream
    coloured = any(not isinstance(part, str) for part in parts) and out.isatty()
    _put(out, "".join(_cleaned(part, coloured=coloured) for part in parts) + "\n")


def write_lines(text: str, stream: TextIO | None = None) -> None:
    """`text` that is several lines, such as a file's; it need not end with a line break."""
    if text:
        _put(sys.stdout if stream is None else stream, clean_lines(text.removesuffix("\n")) + "\n")


def pass_on(raw: bytes) -> None:
    """Bytes of what another command line of ours writes to its stdout, at once, without what steers a terminal."""
    sys.stdout.buffer.write(raw.translate(None, _STEERING))
    sys.stdout.buffer.flush()


def write_over(line: str, stream: TextIO) -> None:
    """`line` in place of the terminal's present one, to be written over in turn; an empty one only clears it."""
    _put(stream, _CLEAR_LINE + clean_line(line))


@contextmanager
def shown_meanwhile(words: str) -> Iterator[None]:
    """While this lasts a terminal on stderr shows `words`, if there are any."""
    shown = bool(words) and sys.stderr.isatty()
    if shown:
        _show_for_now(words)
    try:
        yield
    finally:
        if shown:
            _show_for_now("")


def _show_for_now(words: str) -> None:
    write_over(words, sys.stderr)
    sys.stderr.flush()


class RowsProgress:
    """How far work of many rows is, on a line of stderr that goes again; nothing where that is no terminal, nor of what
    takes a second. `what` says what is done: "judging progress.csv".
    """

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0
        self._due = time.monotonic() + PATIENCE_S if sys.stderr.isatty() else math.inf

    def passing(self, rows: Iterable[Row]) -> Iterator[Row]:
        """`rows`, counted as they are taken."""
        shown = False
        try:
            for row in rows:
                if self._done % ROWS_A_LOOK == 0 and (now := time.monotonic()) >= self._due:
                    done, shown, self._due = self._done, True, now + PACE_S
                    percent = 100 * done // max(1, self._total)
                    _show_for_now(f"{self._what}: {done:,} of {self._total:,} rows, {percent}%")
                self._done += 1
                yield row
        finally:
            if shown:
                _show_for_now("")


def write_picture(picture: str, stream: TextIO, *, below: str = "", home: bool = False) -> None:
    """An environment's drawing, of which a terminal gets the colours too, and a line of ours `below` it.

    With `home` it is drawn from the corner of a screen of its own, over what was there.
    """
    drawn = _drawn if stream.isatty() else clean_line
    rows = [drawn(row) for row in picture.split("\n")] + ([clean_line(below)] if below else [])
    if home:
        _put(stream, "\x1b[H" + "\r\n".join(f"{row}\x1b[K" for row in rows) + "\x1b[J")
    else:
        _put(stream, "\n".join(rows) + "\n")


def enter_screen(stream: TextIO) -> None:
    """A screen of its own, without a cursor."""
    _put(stream, "\x1b[?1049h\x1b[?25l")


def leave_screen(stream: TextIO) -> None:
    """Leave the alternate screen: what was there before shows again."""
    _put(stream, "\x1b[?25h\x1b[?1049l")


def write_json(document: Any) -> None:
    """One document on stdout, as one line; in JSON's own escapes where stdout has not all of its letters."""
    text = encode_document(document)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        text = _NOT_ASCII.sub(_units, text)
    _put(sys.stdout, text + "\n")


def encode_document(document: Any) -> str:
    """`document` as JSON in which everything that a terminal could act on, or that shows as nothing, is escaped."""
    import msgspec

    try:
        raw = msgspec.json.encode(document)
    except UnicodeEncodeError:
        raw = msgspec.json.encode(_decodable(msgspec.to_builtins(document)))
    if raw.isascii() and b"\x7f" not in raw:
        return raw.decode("ascii")
    return _ODD_IN_JSON.sub(_escaped, raw.decode())


class CsvRows:
    """Rows of CSV on stdout, as they come; words are one line of printable characters each."""

    def __init__(self) -> None:
        import csv

        self._rows = csv.writer(sys.stdout, lineterminator="\n")

    def add(self, cells: Iterable[object]) -> None:
        """One more row."""
        self._rows.writerow([clean_line(cell) if isinstance(cell, str) else cell for cell in cells])

    def flush(self) -> None:
        """Pass on what was written so far."""
        sys.stdout.flush()


def confirm(question: str, *, stderr: bool = False) -> bool:
    """Whether a person says yes to `question`; an empty answer is no."""
    import click

    return click.confirm(clean_line(question), default=False, err=stderr)


def console_on(stream: TextIO) -> Console:
    """A Rich console on `stream` that reads no markup; imported only for a terminal."""
    from rich.console import Console

    return Console(file=stream, markup=False, emoji=False, highlight=False)


def draw(what: RichTable | str, console: Console) -> None:
    """A table of clean cells, or a line, above whatever the console shows."""
    from rich.text import Text

    console.print(Text(clean_line(what)) if isinstance(what, str) else what)


def text_column(template: str) -> TextColumn:
    """A column of a Rich progress bar with the fields that `template` names, and no markup in them."""
    from rich.progress import Task, TextColumn
    from rich.text import Text

    class CleanColumn(TextColumn):
        def render(self, task: Task) -> Text:
            return Text(clean_line(self.text_format.format(task=task)))

    return CleanColumn(template, markup=False)


def print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Python's last word on an exception that nobody foresaw, whatever text is in it: for `sys.excepthook`."""
    import traceback

    write_lines("".join(traceback.format_exception(kind, error, trace)), sys.stderr)


def _put(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def _cleaned(part: str | Styled, *, coloured: bool) -> str:
    if isinstance(part, str):
        return clean_line(part)
    text = clean_line(part.text)
    codes = [_BOLD] * part.bold + ([_COLOURS[part.colour]] if part.colour is not None else [])
    return f"\x1b[{';'.join(codes)}m{text}{_RESET}" if coloured and codes else text


def _drawn(row: str) -> str:
    """The row with its colours kept and the text between them cleaned; it ends uncoloured."""
    parts = _PICTURE_COLOUR.split(row)
    text = "".join(part if place % 2 else clean_line(part) for place, part in enumerate(parts))
    return text if len(parts) == 1 or text.endswith(_RESET) else text + _RESET


def _escaped(match: re.Match[str]) -> str:
    """Outside of strings a document is ASCII, so that whatever is met here may be written as JSON's escape."""
    return match[0] if match[0].isprintable() else _units(match)


def _units(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _decodable(value: Any) -> Any:
    """`value` with a mark for each byte of a file name that is no UTF-8, which JSON cannot say."""
    if isinstance(value, str):
        return _UNDECODED.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_decodable(key): _decodable(item) for key, item in value.items()}
    return [_decodable(item) for item in value] if isinstance(value, list | tuple) else value


def print_error(sentence: str) -> None:
    """One line on stderr, without characters that a terminal would act on."""

    write(f"mission-tui: {clean(sentence, SENTENCE_CHARACTERS)}", stream=sys.stderr)


def exit_code_of(verb: Callable[[], int | None]) -> int:
    """What `verb` returns (None is 0); if it raises an error, print that and return its exit code."""
    try:
        return verb() or 0
    except MissionError as error:
        print_error(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return EX_INTERRUPTED
    except (OSError, RuntimeError) as error:
        if limit := limit_met(error):
            print_error(f"{error}: {limit}")
            return EX_FAILED
        # What is written here is a descriptor's; files are named in their errors. A reader that has left is click's.
        if not isinstance(error, OSError) or error.errno not in _FULL or error.filename is not None:
            raise
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - the interpreter tries what is left of it once more
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        print_error(f"the output could not be written: {error.strerror}")
        return EX_FAILED


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Table:
    """Rows under `columns`; a column named in `numbers` is aligned to the right."""

    def __init__(self, columns: Sequence[str], numbers: frozenset[str] = frozenset()) -> None:
        self.columns, self.numbers = columns, numbers
        self.rows: list[tuple[str, ...]] = []

    def add(self, *cells: str) -> None:
        """One more row, a cell per column: a line of printable characters each, whoever wrote them."""
        assert len(cells) == len(self.columns)
        self.rows.append(tuple(map(clean_line, cells)))

    def write(self, stream: TextIO) -> None:
        """Print the table; nothing at all when it has no rows."""
        if not self.rows:
            return
        if stream.isatty():
            draw(self.rich(), console_on(stream))
        else:
            write_lines(self.plain(), stream)

    def plain(self) -> str:
        """The table as lines of aligned text."""
        lines = [tuple(self.columns), *self.rows]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.columns))]
        return "\n".join("  ".join(self._cells(line, widths)).rstrip() for line in lines)

    def _cells(self, line: Sequence[str], widths: Sequence[int]) -> list[str]:
        return [
            cell.rjust(width) if column in self.numbers else cell.ljust(width)
            for column, cell, width in zip(self.columns, line, widths, strict=True)
        ]

    def rich(self) -> RichTable:
        """The same table for a Rich console."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in self.columns:
            table.add_column(column, justify="right" if column in self.numbers else "left")
        for row in self.rows:
            table.add_row(*(Text(cell) for cell in row))
        return table


def inert(text: str) -> str:
    """`text` for a cell of a CSV file: what a spreadsheet would take for a formula has an apostrophe before it."""
    return f"'{text}" if text.startswith(_FORMULA) else text
