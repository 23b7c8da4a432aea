"""Numbers as people read them in a terminal line. Unknown is a dash, never 0."""

from __future__ import annotations

__all__ = ["UNKNOWN", "count", "duration", "gibibytes", "inert", "measure", "percent", "size"]

UNKNOWN = "-"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def inert(text: str) -> str:
    """`text` for a cell of a CSV file: what a spreadsheet would take for a formula has an apostrophe before it."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def count(value: float | None) -> str:
    """Whole number with thousands separated: `12,345`."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def measure(value: float | str | None) -> str:
    """Four significant digits; non-finite values by name."""
    if value is None or isinstance(value, str):
        return value or UNKNOWN
    return f"{value:.4g}"


def percent(share: float | None) -> str:
    """A share of 0..1 as whole percent, never rounded up to a false 100 %."""
    return UNKNOWN if share is None else f"{int(share * 100)}%"


def gibibytes(size_bytes: int | None) -> str:
    """Bytes as GiB with one decimal: `7.6G`."""
    return UNKNOWN if size_bytes is None else f"{size_bytes / 2**30:.1f}G"


def size(size_bytes: float | None) -> str:
    """Bytes in the largest unit that gives at least one: `25.0M`, `7.6G`."""
    if size_bytes is None:
        return UNKNOWN
    unit = next((unit for unit in "GMK" if size_bytes >= 1024 ** (1 + "KMG".index(unit))), "")
    return f"{size_bytes / 1024 ** (1 + 'KMG'.index(unit)):.1f}{unit}" if unit else f"{size_bytes:.0f}B"


def duration(seconds: float | None) -> str:
    """Two leading units: `12s`, `3m20`, `5h40`, `2d03`."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}"
