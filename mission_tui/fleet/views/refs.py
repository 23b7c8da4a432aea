"""From the words a person types to run ids: an id, a unique prefix, a name, a group's name, `@last` or
`@live`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

from msgspec import Struct

from mission_tui.errors import UsageError, nearest

SHOWN_CANDIDATES = 5


class RunRef(Struct, frozen=True):
    """What a reference can match."""

    id: str
    name: str
    live: bool
    group: str = ""
    foreign: bool = False


def resolve(ref: str, runs: Sequence[RunRef]) -> tuple[str, ...]:
    """Ids that `ref` means among `runs` (oldest first). `@live` may be empty, a group may have several; every other ref
    gives exactly one id.

    A foreign run is meant only where no other can be: what somebody else named must not stand in the way of ours.
    An exact id wins over an exact name, that over a group's name, and that over a prefix; of several runs of exactly
    that name the live one is meant, as names are kept apart among live runs. Raises `UsageError` naming the nearest run
    for an unknown ref and the candidates for an ambiguous one.
    """
    ours = [run for run in runs if not run.foreign]
    if len(ours) < len(runs):
        with suppress(UsageError):
            return resolve(ref, ours)
    if ref == "@live":
        return tuple(run.id for run in runs if run.live)
    if not runs:
        raise UsageError(f"no run matches '{ref}': {_elsewhere(ref) or 'this runs root holds no runs yet'}")
    if ref == "@last":
        return (runs[-1].id,)
    exact = [run for run in runs if run.id == ref] or [run for run in runs if run.name == ref]
    if not exact and (members := tuple(run.id for run in runs if ref and run.group == ref)):
        return members
    if len(living := [run for run in exact if run.live]) == 1:
        exact = living
    matches = exact or [run for run in runs if ref and (run.id.startswith(ref) or run.name.startswith(ref))]
    if len(matches) == 1:
        return (matches[0].id,)
    if matches:
        said = f"'{ref}' matches {len(matches)} runs: {_listed(matches)}; give more of the id{_groups(matches)}"
        raise UsageError(said)
    words = {word for run in runs for word in (run.id, run.name, run.group) if word}
    elsewhere = _elsewhere(ref)
    raise UsageError(f"no run matches '{ref}'{f': {elsewhere}' if elsewhere else _hint(ref, words)}")


def _listed(matches: Sequence[RunRef]) -> str:
    shown = ", ".join(run.id for run in matches[-SHOWN_CANDIDATES:])
    return shown if len(matches) <= SHOWN_CANDIDATES else f"..., {shown}"


def _groups(matches: Sequence[RunRef]) -> str:
    """The groups that a person who typed a launch's `--name` may have meant, the newest first."""
    groups = list(dict.fromkeys(run.group for run in reversed(matches) if run.group))[:SHOWN_CANDIDATES]
    return f", or the name of a group for all of it: {', '.join(groups)}" if groups else ""


def _elsewhere(ref: str) -> str:
    """What to say for a name as screens of several machines show it: `gpu1:demo`."""
    host, colon, run = ref.partition(":")
    if not (host and colon and run) or " " in host:
        return ""
    return f"a run of another machine is named after --host: mission-tui --host {host} VERB {run}"


def _hint(ref: str, words: Collection[str]) -> str:
    return nearest(ref, words) or "; `mission-tui status` lists them"
