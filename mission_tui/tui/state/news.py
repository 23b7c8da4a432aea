"""What the screen announces by itself: new critical findings, processes of dead runs, what happened meanwhile; and how
much of what it tells a person its toasts show at once. Pure.

A finding is announced once, and never if it was there when the screen was opened. What happened while nobody looked is
counted over a fixed stretch of time, and again for a few seconds: a supervisor that was started for this screen first
resumes and judges what it found. Toasts lie over the lower rows of the screen, so they cover few of them: sentences
about several runs that say the same are one, what is too long is cut, and the whole of everything stays in the list of
the key `M`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from mission_tui.fleet.events.findings import Finding, stories
from mission_tui.fleet.events.outcome import ALIVE, OVER, After
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView, stale_sentence
from mission_tui.present import numbers
from mission_tui.tui.drawing.strips import literal, wrap

News = tuple[RunView, Finding]

_NAMED = 3
_NOTE_LETTERS = 200
GRACE_S = 10.0
"""So long a supervisor that was started for this screen resumes and judges what it found."""


class CriticalFindings:
    """Remembers what was announced. `muted` keeps the terminal quiet; toasts still come."""

    def __init__(self, *, muted: bool = False) -> None:
        self.muted = muted
        self._announced: set[tuple[str, str]] | None = None

    def update(self, snapshot: FleetSnapshot) -> tuple[News, ...]:
        """The critical findings that were not in any snapshot before and that nobody has acknowledged or silenced."""
        critical = {
            (view.id, finding.id): (view, finding)
            for view in snapshot.runs
            for finding in stories(view.findings)
            if finding.severity == "critical"
        }
        known, self._announced = self._announced, critical.keys() | (self._announced or set())
        if known is None:
            return ()
        tried = {(view.id, it.plan.number) for view in snapshot.runs for it in view.trials if not it.closed}
        return tuple(
            (view, finding)
            for key, (view, finding) in critical.items()
            if key not in known
            and finding.state == "open"
            # Half of a trial's branches keep the settings that are known to be bad: the rules tell nobody of them.
            and (view.branch_of is None or (view.branch_of.of, view.branch_of.number) not in tried)
        )


def sentences(news: Sequence[News]) -> list[str]:
    """What to say of `news`: run and finding, a few by name and the others by number."""
    said = [f"{view.name}: {finding.sentence}" for view, finding in news[:_NAMED]]
    more = len(news) - _NAMED
    return [*said, f"and {more} more critical findings"] if more > 0 else said


def desktop_note(news: Sequence[News]) -> str:
    """The control sequence (OSC 9) that makes many terminals show a notification, with one line about `news`.

    It begins with our name, because a number in first place would mean something else to some terminals.
    """
    text = literal("mission-tui: " + "; ".join(sentences(news)))[:_NOTE_LETTERS]
    return f"\x1b]9;{text}\x07"


class StaleNews:
    """Remembers how many were announced."""

    def __init__(self) -> None:
        self._announced = 0

    def update(self, snapshot: FleetSnapshot) -> str | None:
        """A sentence with the key that helps, when there is something new to say."""
        count, before = sum(run.processes for run in snapshot.stale), self._announced
        self._announced = count
        if count <= before:
            return None
        sizes = [
            f"{numbers.size(total)}{of}"
            for of, total in (
                ("", sum(run.memory_bytes or 0 for run in snapshot.stale)),
                (" of VRAM", sum(run.vram_bytes or 0 for run in snapshot.stale)),
            )
            if total
        ]
        holding = f", holding {' and '.join(sizes)}" if sizes else ""
        return f"{stale_sentence(snapshot.stale)}{holding}: X shows and removes them"


class RunNews(Struct, frozen=True):
    """One run and what became of it meanwhile: when it ended, when it began by itself, which findings opened."""

    view: RunView
    ended_t: float | None
    restarts: tuple[float, ...]
    reboots: tuple[float, ...]
    other_jobs: tuple[float, ...]
    findings: tuple[Finding, ...]


class Away(Struct, frozen=True):
    """Everything after `since_t` and until one came back at `until_t` (unix s). `more`: there is more than is shown."""

    since_t: float
    until_t: float
    happenings: tuple[RunNews, ...]
    more: bool = False

    @property
    def sentence(self) -> str:
        """`While you were away since 21:40 (8h22): 2 ended (1 failed), 1 restart, 1 finding`."""
        return f"{self.title}: {', '.join(self._parts())}"

    @property
    def title(self) -> str:
        """`While you were away since 21:40 (8h22)`."""
        since = numbers.clock(self.since_t, self.until_t)
        return f"While you were away since {since} ({numbers.duration(self.until_t - self.since_t)})"

    def _parts(self) -> Iterator[str]:
        over = [it.view for it in self.happenings if it.ended_t is not None]
        if over:
            kinds = {
                "failed": sum(view.outcome == "failed" for view in over),
                "lost": sum(view.outcome == "lost" for view in over),
                "parked": sum(view.state == "parked" for view in over),
            }
            told = ", ".join(f"{count} {word}" for word, count in kinds.items() if count)
            yield f"{len(over)}{' or more' if self.more else ''} ended" + (f" ({told})" if told else "")
        if restarts := sum(len(it.restarts) for it in self.happenings):
            yield f"{restarts} restart{_s(restarts)}"
        if reboots := sum(len(it.reboots) for it in self.happenings):
            yield f"{reboots} resumed after a reboot"
        if other_jobs := sum(len(it.other_jobs) for it in self.happenings):
            yield f"{other_jobs} went on in another job"
        if findings := [finding for it in self.happenings for finding in it.findings]:
            still = sum(finding.state == "open" for finding in findings)
            over_by_now = "" if still == len(findings) else f" ({still} open)" if still else " (over)"
            yield f"{len(findings)} finding{_s(len(findings))}{over_by_now}"

    @property
    def worth_a_look(self) -> tuple[RunView, ...]:
        """Runs whose return one wants to know: those something happened to, the last ended first, then the others."""
        return tuple(it.view for it in sorted(self.happenings, key=lambda it: it.ended_t or 0.0, reverse=True))


def while_away(snapshot: FleetSnapshot, since_t: float | None, until_t: float) -> Away | None:
    """What happened in `snapshot` after `since_t` (None: nobody was here before); None when nothing did."""
    if since_t is None:
        return None
    found = [_happening(view, snapshot.t, since_t, until_t) for view in snapshot.runs]
    told = tuple(
        it for it in found if it.ended_t is not None or it.restarts or it.reboots or it.other_jobs or it.findings
    )
    over = [it for it in found if it.view.state in OVER]
    unseen = snapshot.ended_total > len(over) and all(it.ended_t is not None for it in over)
    return Away(since_t, until_t, told, more=unseen) if told else None


def _happening(view: RunView, now: float, since_t: float, until_t: float) -> RunNews:
    def within(t: float | None) -> bool:
        return t is not None and since_t < t <= until_t + GRACE_S

    def began(after: After) -> tuple[float, ...]:
        return tuple(each.t for each in view.again if each.after == after and within(each.t))

    return RunNews(
        view=view,
        ended_t=view.ended_t if view.state in OVER and within(view.ended_t) else None,
        restarts=began("failure"),
        reboots=began("reboot"),
        other_jobs=began("interruption"),
        findings=tuple(
            finding
            for finding in stories(view.findings)
            if finding.severity != "info"
            and finding.state in ("open", "cleared")
            and within(_opened_t(finding, view, now))
        ),
    )


def _opened_t(finding: Finding, view: RunView, now: float) -> float:
    """When a finding opened; where it carries no time, reckoned back from the newest update."""
    if finding.first_t > 0:
        return finding.first_t
    update_length_s = (view.rollout_s or 0.0) + (view.update_s or 0.0)
    newest_t = now if view.state in ALIVE else view.ended_t or now
    return newest_t - max(0, (view.update or 0) - finding.first_update) * update_length_s


def _s(count: int) -> str:
    return "" if count == 1 else "s"


class ReturnNotice:
    """`since_t` (unix s) is the last moment of an earlier look, None for the first one ever."""

    def __init__(self, since_t: float | None) -> None:
        self._since_t = since_t
        self._came_t: float | None = None
        self.away: Away | None = None
        self.best: dict[str, tuple[float, int]] = {}
        self.elsewhere: tuple[str, ...] = ()
        """What ended at other runs roots, a sentence each."""
        self.shown = True

    def update(self, snapshot: FleetSnapshot) -> bool:
        """Take in a snapshot; whether it told something new of the time away."""
        self._came_t = snapshot.t if self._came_t is None else self._came_t
        if snapshot.t > self._came_t + GRACE_S:
            return False
        before, self.away = self.away, while_away(snapshot, self._since_t, self._came_t)
        return self.away != before

    def close(self) -> bool:
        """It was read; false when there was nothing to close."""
        was, self.shown = self.shown and (self.away is not None or bool(self.elsewhere)), False
        return was


Severity = Literal["information", "warning", "error"]

MOST_ROWS = 3
"""So many rows of the screen toasts cover at once."""
KEPT = 200
_REST = "… M has the rest"
_SHARE, _EDGE, _SCROLL_BAR = 0.7, 3, 2
"""Of the rack's width, at most, and the cells of a toast beside its words, as in `app.tcss`. Textual's rack of toasts
keeps room for a scroll bar.
"""
_OF_A_RUN = re.compile(r"(?P<name>\S+): (?P<said>.+)", re.DOTALL)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


class Message(Struct, frozen=True):
    """A sentence that was told at unix time `t`."""

    t: float
    severity: Severity
    sentence: str


def _letters(width: int) -> int:
    """How many cells a row of a toast has for words on a screen of `width` cells."""
    return max(len(_REST), int((width - _SCROLL_BAR) * _SHARE) - _EDGE)


def rows(told: Iterable[str], width: int) -> int:
    """How many rows toasts of `told` cover together on a screen of `width` cells."""
    return sum(len(wrap(it, _letters(width))) for it in told)


def shortened(text: str, most: int, width: int, *, more: bool = False) -> str:
    """`text` if `most` rows (at least 1) hold it and no `more` follows that has no room; else as much of it as they
    hold, with the words where the rest is.
    """
    room = _letters(width)
    wrapped = wrap(text, room)
    if len(wrapped) <= most and not more:
        return text
    *whole, last = wrapped[: max(1, most)] or [""]
    return " ".join((*whole, last[: room - len(_REST)].rstrip(" .,;:") + _REST))


def merged(sentences: Iterable[str]) -> list[str]:
    """`sentences`, where those that begin with a name and are else alike but for numbers are one, of all the names."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for sentence in sentences:
        named = _OF_A_RUN.fullmatch(sentence)
        name, said = (named["name"], named["said"]) if named is not None else ("", sentence)
        alike.setdefault(_NUMBER.sub("0", said) if name else f"\n{sentence}", []).append((name, said))
    return [_as_one(same) for same in alike.values()]


def _as_one(same: list[tuple[str, str]]) -> str:
    (name, said), *others = same
    if not name:
        return said
    if not others:
        return f"{name}: {said}"
    names = [it for it, _ in others]
    if {it for _, it in others} == {said}:
        return f"{', '.join((name, *names[:-1]))} and {names[-1]}: {said}"
    *first, last = names
    return f"{name}: {said} ({' and '.join((', '.join(first), last)) if first else last} alike)"
