"""The living descendants of a trainer, its env workers and whatever else it started, and what memory is theirs."""

from __future__ import annotations

from pathlib import Path

__all__ = ["children_of", "descendants"]

_MOST = 1024


def descendants(pid: int) -> tuple[int, ...]:
    """Process ids below `pid`, ascending; empty when it is gone. Whoever starts many processes is counted to 1,024."""
    found: set[int] = set()
    unseen = [pid]
    while unseen and len(found) < _MOST:
        for child in children_of(unseen.pop()):
            if child not in found:
                found.add(child)
                unseen.append(child)
    return tuple(sorted(found))


def children_of(pid: int) -> list[int]:
    """Children of `pid`, by every thread: the kernel lists a child under the thread that started it."""
    children: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (thread / "children").read_text(encoding="ascii").split())
    except OSError:
        return children
    return children
