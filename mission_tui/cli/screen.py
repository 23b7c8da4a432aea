"""`mission-tui` without a verb: the screen. It reads no preset files and keeps no state; both come from here.

Two files outlive a screen: what the person chose about its look, as JSON in their state folder, and when they last
looked at this runs root, a number beside the runs, or there too where those may not be written. A screen never fails or
waits long because of either. Names that only a newer version knows stay in the first; the second only moves forward,
even with several screens.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from mission_tui.cli.session import Session
from mission_tui.cli.terminal_output import exit_code_of
from mission_tui.errors import MissionError, UsageError
from mission_tui.paths import SERVED, home_dir, preferences_path, socket_dir

if TYPE_CHECKING:
    from mission_tui.fleet.specs.preset import PresetFile
    from mission_tui.fleet.specs.spec import Spec
    from mission_tui.fleet.views.snapshot import RunView
    from mission_tui.ipc.hosts import Host
    from mission_tui.tui.entry import SessionResult
    from mission_tui.tui.state.fleet_view_state import FleetViewState
    from mission_tui.tui.state.presets import PresetChoice


_MOST_BYTES = 64 * 1024
_PATIENCE_S = 3.0
"""A home folder that hangs must not keep the screen from closing."""


def main() -> int:
    """The call without a verb: the screen, and its exit code. Errors go to stderr."""
    return exit_code_of(lambda: open_screen(Session.begin(None)))


def can_draw(environ: Mapping[str, str]) -> bool:
    """Whether stdin and stdout are a terminal that understands more than plain text."""
    return _on_terminal() and environ.get("TERM", "dumb") not in ("", "dumb")


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def open_screen(session: Session, replay_t: float | None = None, hosts: Mapping[str, Host | None] | None = None) -> int:
    """Show the screen until it is left, and then the runs root that the person chose there, if any.

    With `replay_t` (unix s) it first shows the fleet as it was then; with `hosts` those machines, None being this one.
    Raises `UsageError` without a terminal.
    """
    if not can_draw(session.environ):
        term = session.environ.get("TERM") or "not set"
        mends = f"set TERM, which is {term}, to its kind (xterm-256color fits most); " if _on_terminal() else ""
        raise UsageError(
            f"the screen needs a terminal that it can draw on: {mends}without one see the runs with "
            "`mission-tui status`, and start one with `mission-tui launch PRESET --wait`"
        )
    if hosts is not None:
        return _show_hosts(session, hosts).exit_code
    result = _show(session, "" if replay_t is not None else _greeting(session), replay_t)
    before_replay: FleetViewState | None = None
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
        view_state = result.view_state if stays else None
        if stays and result.replay_t is None:
            # A replay knows no run that came later: the way back leads to what was chosen and marked before it.
            view_state, before_replay = before_replay or view_state, None
        else:
            before_replay = view_state
        result = _show(session, greeting, result.replay_t, view_state and view_state.for_another_screen())
    return result.exit_code


def picture(
    session: Session,
    kind: Literal["svg", "png"],
    size: tuple[int, int],
    runs: tuple[RunView, ...] = (),
    view: str | None = None,
) -> bytes:
    """The screen as a file, without a terminal: the list, or `view` of `runs`. Raises `MissionError`."""
    from mission_tui.tui.entry import picture as drawn

    from_files = session.readonly and not (session.is_ours and session.is_supervised)
    return drawn(session.root, lambda: _choices(session), kind, size, runs, view, from_files=from_files)


def _greeting(session: Session) -> str:
    """The first toast of the screen. Raises `UsageError` for a runs root that cannot be shown like this."""
    if session.received:
        return session.what_was_received
    if session.readonly and not session.is_ours:
        return "read-only: shown from the run files, without a supervisor; nothing can be changed here"
    session.require_writable_root()
    return session.whose_it_is


def _show(
    session: Session, greeting: str, replay_t: float | None = None, view_state: FleetViewState | None = None
) -> SessionResult:
    from mission_tui.cli.plan import save_preset
    from mission_tui.tui.entry import replay, run

    habits = PreferencesFile.of(session.environ)
    if replay_t is not None:
        return replay(session.root, replay_t, lambda: _choices(session), habits.read(), habits.write, view_state)
    seen = LastSeen.of(session.root, session.environ, ours=session.is_ours and not session.received)
    # Who looks by `serve` is not who left it: "while you were away" and the look of the screen stay the owner's.
    is_guest = SERVED in session.environ
    chosen = {name: value for name, value in habits.read().items() if not (is_guest and name == "form")}
    return run(
        session.root,
        lambda: _choices(session),
        lambda name, assignments: _specs(session, name, assignments),
        readonly=session.readonly or session.received,
        last_seen_t=seen.read(),
        remember=(lambda _t: None) if is_guest else partial(_remember, session, seen.write),
        greeting=greeting,
        from_files=session.received or (session.readonly and not (session.is_ours and session.is_supervised)),
        save_preset=lambda saving, replace: save_preset(session, saving, replace=replace),
        habits=chosen,
        keep=(lambda _changes: None) if is_guest else habits.write,
        elsewhere=lambda: _elsewhere(session),
        view_state=view_state,
    )


def _show_hosts(session: Session, hosts: Mapping[str, Host | None]) -> SessionResult:
    """Presets are those of here, where alone runs are launched from this screen."""
    from mission_tui.cli.plan import save_preset
    from mission_tui.tui.entry import run

    habits = PreferencesFile.of(session.environ)
    return run(
        session.root,
        lambda: _choices(session),
        lambda name, assignments: _specs(session, name, assignments),
        readonly=session.readonly,
        save_preset=lambda saving, replace: save_preset(session, saving, replace=replace),
        habits=habits.read(),
        keep=habits.write,
        hosts=hosts,
    )


def _remember(session: Session, seen: Callable[[float], None], t: float) -> None:
    """Note that the person has looked until `t`: for the next screen of this runs root, and for those of others."""
    from mission_tui.records.runs_roots import note_look

    seen(t)
    note_look(session.root, session.environ)


def _elsewhere(session: Session) -> list[str]:
    from mission_tui.records.runs_roots import ended_elsewhere

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
    from mission_tui.cli.plan import shown_path
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
    """One spec per run that preset `name` with the `--set` words stands for; of a search that of its driver."""
    from mission_tui.cli.plan import resolved, typed_search
    from mission_tui.fleet.specs.assignment import expand
    from mission_tui.records.preset_files import launched_by, load_preset

    dirs, health, profiles = session.preset_dirs, session.health(), session.profile_dir
    presets = launched_by(load_preset(name, dirs), dirs)

    def base_of(words: tuple[str, ...]) -> Spec:
        if len(presets) != 1:
            raise UsageError(f"{name} is a set of presets; search for one of them at a time")
        return resolved(presets[0], expand(words)[0], None, dirs, health, profiles)

    if (driver := typed_search(assignments, base_of)) is not None:
        return [driver]
    return [
        resolved(preset, words, None, dirs, health, profiles) for preset in presets for words in expand(assignments)
    ]


class PreferencesFile:
    """The table in the file at `path`; if two screens change the same setting, the last one wins."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> PreferencesFile:
        """The file of this user."""
        return cls(preferences_path(environ))

    def read(self) -> dict[str, object]:
        """The stored table; empty without a readable file."""
        return self._table() or {}

    def write(self, changes: Mapping[str, object]) -> None:
        """Store `changes`; None removes a name. Waits for seconds at most, and failing is silent."""
        work = threading.Thread(target=self._merge, args=(dict(changes),), daemon=True)
        work.start()
        work.join(_PATIENCE_S)

    def _merge(self, changes: dict[str, object]) -> None:
        from mission_tui.plain_files import make_folder
        from mission_tui.records.atomic import write_json

        with suppress(OSError, MissionError):
            make_folder(self.path.parent)
            table = self._table()
            if table is None:
                self.path.replace(self.path.with_name(f"{self.path.name}.unread"))
            kept = (table or {}) | changes
            write_json(self.path, {name: value for name, value in kept.items() if value is not None})

    def _table(self) -> dict[str, object] | None:
        """None for a file that cannot be read as a table."""
        from mission_tui.plain_files import read_given

        try:
            raw = read_given(self.path, _MOST_BYTES)
        except FileNotFoundError:
            return {}
        except OSError:
            return None
        try:
            return msgspec.json.decode(raw, type=dict[str, object])
        except (ValueError, RecursionError):
            return None


class LastSeen:
    """`path` holds unix seconds."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, root: Path, environ: Mapping[str, str], *, ours: bool = True) -> LastSeen:
        """The file of this user: beside the runs only if the runs root is `ours`, even if another could be written."""
        from mission_tui.records.runs.layout import supervisor_dir

        ground = supervisor_dir(root) if supervisor_dir(root).exists() else root
        if ours and (os.access(ground, os.W_OK) or not ground.exists()):
            return cls(supervisor_dir(root) / "last-seen")
        state = environ.get("XDG_STATE_HOME") or str(home_dir(environ) / ".local" / "state")
        return cls(Path(state) / "mission-tui" / f"last-seen-{socket_dir(root).name}")

    def read(self) -> float | None:
        """None the first time, or when the file holds no number."""
        try:
            return float(self.path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def write(self, t: float) -> None:
        """Remember unix time `t`, unless a later one is remembered."""
        from mission_tui.plain_files import make_folder
        from mission_tui.records.atomic import write_atomic

        before = self.read()
        if before is not None and before >= t:
            return
        with suppress(OSError, MissionError):
            make_folder(self.path.parent)
            write_atomic(self.path, f"{t:.3f}\n".encode())
