"""Files that a person wrote: TOML, capped in size, refused with file and line, never half understood; and lines of
`NAME=VALUE` whose values are secrets, read when an attempt starts, never copied and never quoted.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mission_tui.errors import MissionError, PresetError
from mission_tui.fleet.text import clean
from mission_tui.plain_files import read_given

LARGEST_BYTES = 1 << 20
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
DEEPEST_KEY = 64
_PARTS = r"'[^']*'|[\w-]+|[ \t]+"
_TOKEN = re.compile(rf"""(?P<part>"(?:[^"\\]|\\.)*"|{_PARTS})|(?P<open>".*)|.""")
_AFTER_OPEN = re.compile(rf"(?P<part>{_PARTS})|.")
"""Of what follows a quote that nothing closes: any further one is escaped, and looking for its end from each of them
would take hours. Such a quote may itself be the end of a text of several lines.
"""
_LINE = re.compile(r"\(at line (\d+), column (\d+)\)")
MOST_ENV_BYTES = 1 << 20
_NAME_VALUE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.ASCII)
_QUOTES = ("'", '"')


def read_toml(path: Path, error: type[MissionError] = PresetError) -> dict[str, Any]:
    """The tables in the file at `path`. Raises `error` with one line that names the file and, if known, the line."""
    return parse_toml(_read(path, error), path, error)


def parse_toml(data: bytes, path: Path, error: type[MissionError]) -> dict[str, Any]:
    """The tables in what was read from `path`. Raises as `read_toml` does."""
    if data.startswith(_BYTE_ORDER_MARKS):
        raise error(f"{path}: line 1: starts with a byte-order mark; save it as UTF-8 without one")
    try:
        text = data.decode()
    except UnicodeDecodeError as undecodable:
        line = data.count(b"\n", 0, undecodable.start) + 1
        raise error(f"{path}: line {line}: is not UTF-8 text, so this is no TOML file") from None
    if (deep := _line_of_deep_key(text)) is not None:
        raise error(f"{path}: line {deep}: a key has more than {DEEPEST_KEY} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise error(f"{path}: not valid TOML: values are nested too deeply") from None
    except ValueError as invalid:
        raise error(_sentence(path, text, str(invalid))) from None


def _line_of_deep_key(text: str) -> int | None:
    """The first line with a key of very many parts, for which the parser would take hours; None without.

    A key never goes on on the next line.
    """
    if text.count(".") < DEEPEST_KEY:
        return None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") < DEEPEST_KEY:
            continue
        parts = 0
        for token in _tokens(line):
            parts = parts + 1 if token[0] == "." else parts if token.lastgroup == "part" else 0
            if parts >= DEEPEST_KEY:
                return number
    return None


def _tokens(line: str) -> Iterator[re.Match[str]]:
    for token in _TOKEN.finditer(line):
        if token.lastgroup == "open":
            yield from _AFTER_OPEN.finditer(token[0])
        else:
            yield token


def _read(path: Path, error: type[MissionError]) -> bytes:
    try:
        return read_given(path, LARGEST_BYTES)
    except (OSError, ValueError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else failure
        raise error(f"{clean(str(path))}: cannot be read: {reason}") from None


def _sentence(path: Path, text: str, reason: str) -> str:
    match = _LINE.search(reason)
    line = match[1] if match else str(text.count("\n") + 1)
    column = f" (column {match[2]})" if match else " (end of the file)" if "end of document" in reason else ""
    what = clean(reason.split(" (at ")[0])
    return f"{path}: line {line}: not valid TOML: {what}{column}"


def read_env_file(path: Path) -> dict[str, str]:
    """The variables in `path`: `NAME=VALUE` or `export NAME=VALUE`, plain or in quotes; `#` begins a comment line.

    Nothing is expanded. Raises `PresetError` with file and line, and without what stands there.
    """
    try:
        text = read_given(path, MOST_ENV_BYTES).decode()
    except OSError as error:
        raise PresetError(f"run.env_file: cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise PresetError(f"run.env_file: {path} is not UTF-8 text") from None
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _NAME_VALUE.fullmatch(line.strip())
        if match is None or "\0" in line or match[1].startswith("MISSION_TUI_"):
            raise PresetError(f"run.env_file: line {number} of {path} is not NAME=VALUE, such as WANDB_API_KEY=...")
        found[match[1]] = _unquoted(match[2])
    return found


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] in _QUOTES and value[-1] == value[0]
    return value[1:-1] if quoted else value
