"""Files of `NAME=VALUE` lines whose values are secrets: read when an attempt starts, never copied and never quoted."""

from __future__ import annotations

import re
from pathlib import Path

from mission_tui.errors import PresetError
from mission_tui.plain_files import read_given

__all__ = ["read_env_file"]

MOST_BYTES = 1 << 20
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.ASCII)
_QUOTES = ("'", '"')


def read_env_file(path: Path) -> dict[str, str]:
    """The variables in `path`: `NAME=VALUE` or `export NAME=VALUE`, plain or in quotes; `#` begins a comment line.

    Nothing is expanded. Raises `PresetError` with file and line, and without what stands there.
    """
    try:
        text = read_given(path, MOST_BYTES).decode()
    except OSError as error:
        raise PresetError(f"run.env_file: cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise PresetError(f"run.env_file: {path} is not UTF-8 text") from None
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None or "\0" in line or match[1].startswith("MISSION_TUI_"):
            raise PresetError(f"run.env_file: line {number} of {path} is not NAME=VALUE, such as WANDB_API_KEY=...")
        found[match[1]] = _unquoted(match[2])
    return found


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] in _QUOTES and value[-1] == value[0]
    return value[1:-1] if quoted else value
