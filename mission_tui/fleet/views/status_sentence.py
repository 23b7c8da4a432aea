"""Why a run does not train right now, in one sentence: how it ended, or what holds it and what it holds meanwhile."""

from __future__ import annotations

from mission_tui.fleet.events.journal import ENDING, RunFrozen
from mission_tui.fleet.history.classify import CAUSE_CHARACTERS
from mission_tui.fleet.history.journal_state import JournalState
from mission_tui.fleet.text import clean

__all__ = ["status_sentence"]


def status_sentence(journal: JournalState) -> str | None:
    """The sentence; None for a run that trains, or waits for nothing but its turn."""
    if journal.outcome is not None:
        cause = journal.gave_up or journal.outcome.cause
        if journal.foreign:
            cause = f"foreign: {journal.foreign}; {cause}; `adopt` shows what it would run"
        return clean(cause, CAUSE_CHARACTERS)
    return None if journal.frozen is None or journal.asked & ENDING else _frozen(journal.frozen)


def _frozen(event: RunFrozen) -> str:
    who = "frozen" if event.by == "asked" else "stopped from outside by SIGSTOP"
    memory = "its memory" if event.memory_bytes is None else f"{_size(event.memory_bytes)} of memory"
    known = event.vram_bytes is not None
    gpu = f" and {_size(event.vram_bytes or 0)} on the GPU" if known else " and its GPU memory" if event.gpu else ""
    stay = "stay" if event.gpu else "stays"
    going = f"; {', '.join(map(str, event.running))} did not stop" if event.running else ""
    return f"{who}: {memory}{gpu} {stay} held; resume lets it go on{going}"


def _size(size_bytes: int) -> str:
    if size_bytes < 2**20:
        return "less than 1 MiB"
    return f"{size_bytes / 2**30:.1f} GiB" if size_bytes >= 2**30 else f"{size_bytes / 2**20:.0f} MiB"
