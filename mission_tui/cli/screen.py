"""`mission-tui` without a verb: the screen. It reads no preset files and keeps no state; both come from here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mission_tui.cli.errors import exit_code_of
from mission_tui.cli.session import Session
from mission_tui.errors import UsageError

if TYPE_CHECKING:
    from mission_tui.fleet.specs.preset_file import PresetFile
    from mission_tui.fleet.specs.spec import Spec
    from mission_tui.tui.entry import SessionResult
    from mission_tui.tui.state.presets import PresetChoice


def main() -> int:
    """The call without a verb: the screen, and its exit code. Errors go to stderr."""
    return exit_code_of(lambda: open_screen(Session.begin(None)))


def can_draw(environ: Mapping[str, str]) -> bool:
    """Whether stdin and stdout are a terminal that understands more than plain text."""
    return sys.stdin.isatty() and sys.stdout.isatty() and environ.get("TERM", "dumb") not in ("", "dumb")


def open_screen(session: Session, replay_t: float | None = None) -> int:
    """Show the screen until it is left, and then the runs root that the person chose there, if any.

    With `replay_t` (unix s) it first shows the fleet as it was then. Raises `UsageError` without a terminal.
    """
    if not can_draw(session.environ):
        raise UsageError(
            "the screen needs a terminal: without one see the runs with `mission-tui status`, "
            "and start one with `mission-tui launch PRESET --wait`"
        )
    result = _show(session, "" if replay_t is not None else _greeting(session), replay_t)
    while result.next_root is not None:
        elsewhere = session._replace(root=Path(result.next_root), received=False)
        stays = elsewhere.root == session.root
        try:
            greeting = _greeting(elsewhere) or (
                "" if stays else f"presets and working folder are still those of {session.cwd}"
            )
            session = elsewhere
        except UsageError as error:
            greeting = str(error)
        result = _show(session, greeting, result.replay_t)
    return result.exit_code


def picture(session: Session, kind: Literal["svg", "png"], size: tuple[int, int], run: str | None) -> bytes:
    """The screen as a file, without a terminal: of all runs, or of the one that `run` means. Raises `MissionError`."""
    from mission_tui.cli.follow_runs import view_of
    from mission_tui.tui.entry import picture as drawn

    with session.connect() as connection:
        view = None if run is None else view_of(connection, run)
    from_files = session.readonly and not (session.is_ours and session.is_supervised)
    return drawn(session.root, lambda: _choices(session), kind, size, view, from_files=from_files)


def _greeting(session: Session) -> str:
    """The first toast of the screen. Raises `UsageError` for a runs root that cannot be shown like this."""
    if session.received:
        return session.what_was_received
    if session.readonly and not session.is_ours:
        return "read-only: shown from the run files, without a supervisor; nothing can be changed here"
    session.require_writable_root()
    return ""


def _show(session: Session, greeting: str, replay_t: float | None = None) -> SessionResult:
    from mission_tui.cli.preset_saving import save_preset
    from mission_tui.cli.screen_files import LastSeen, PreferencesFile
    from mission_tui.tui.entry import replay, run

    habits = PreferencesFile.of(session.environ)
    if replay_t is not None:
        return replay(session.root, replay_t, lambda: _choices(session), habits.read(), habits.write)
    seen = LastSeen.of(session.root, session.environ, ours=session.is_ours and not session.received)
    return run(
        session.root,
        lambda: _choices(session),
        lambda name, assignments: _specs(session, name, assignments),
        readonly=session.readonly or session.received,
        last_seen_t=seen.read(),
        remember=partial(_remember, session, seen.write),
        greeting=greeting,
        from_files=session.received or (session.readonly and not (session.is_ours and session.is_supervised)),
        save_preset=lambda saving, replace: save_preset(session, saving, replace=replace),
        habits=habits.read(),
        keep=habits.write,
        elsewhere=lambda: _elsewhere(session),
    )


def _remember(session: Session, seen: Callable[[float], None], t: float) -> None:
    """For the next screen of this runs root, and for those of others."""
    from mission_tui.records.used_roots import note_look

    seen(t)
    note_look(session.root, session.environ)


def _elsewhere(session: Session) -> list[str]:
    from mission_tui.records.used_roots import ended_elsewhere

    return [ended.sentence for ended in ended_elsewhere(session.root, session.environ)]


def _choices(session: Session) -> tuple[PresetChoice, ...]:
    """Every preset, those on keys first; of two on one key the nearer folder's, the working folder's last of all.

    Broken ones say what is wrong.
    """
    from mission_tui.records.preset_files import find_presets
    from mission_tui.tui.state.presets import PresetChoice

    presets, broken = find_presets(session.preset_dirs)
    keyed = sorted(presets.items(), key=lambda it: (it[1].key is None, it[1].key or "", it[1].origin == "here"))
    usable = [_choice(name, preset, presets) for name, preset in keyed]
    return (*usable, *(PresetChoice(name, error=str(error)) for name, error in broken.items()))


def _choice(name: str, preset: PresetFile, presets: Mapping[str, PresetFile]) -> PresetChoice:
    """`ref` names the origin, so that a file that comes into the working folder later changes nothing."""
    from mission_tui.cli.preset_origins import shown_path
    from mission_tui.tui.state.presets import PresetChoice

    return PresetChoice(
        name,
        preset.description,
        preset.key,
        tuple(_member(preset, member, presets) for member in preset.launch),
        from_folder=shown_path(preset.path) if preset.origin == "here" else "",
        ref=f"{preset.origin}:{preset.name}",
    )


def _member(preset: PresetFile, name: str, presets: Mapping[str, PresetFile]) -> str:
    """The reference of a member of a set: never a bare name, which the working folder could take over."""
    names = (name,) if preset.origin == "here" else (name, f"yours:{name}", f"shipped:{name}")
    found = (presets[it] for it in names if it in presets)
    meant = next((it for it in found if preset.origin == "here" or it.origin != "here"), None)
    return f"shipped:{name}" if meant is None else f"{meant.origin}:{meant.name}"


def _specs(session: Session, name: str, assignments: Sequence[str]) -> list[Spec]:
    """One spec per run that preset `name` with the `--set` words stands for."""
    from mission_tui.cli.plan import resolved
    from mission_tui.fleet.specs.assignment import expand
    from mission_tui.records.preset_files import launched_by, load_preset

    dirs, health, profiles = session.preset_dirs, session.health(), session.profile_dir
    return [
        resolved(preset, words, None, dirs, health, profiles)
        for preset in launched_by(load_preset(name, dirs), dirs)
        for words in expand(assignments)
    ]
