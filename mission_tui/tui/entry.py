"""The entry to this room: checks the terminal, prepares the environment for Textual, and runs the screen.

Nothing here imports Textual at the top, because Textual reads its settings once, when it is imported.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from mission_tui.errors import UsageError
from mission_tui.tui.state.presets import LoadPresets, Resolve, SavePreset, save_nothing
from mission_tui.tui.textual_fixes.loading import load_textual

if TYPE_CHECKING:
    from mission_tui.fleet.views.snapshot import RunView
    from mission_tui.ipc.hosts import Host
    from mission_tui.tui.client import FleetClient
    from mission_tui.tui.state.fleet_view_state import FleetViewState

_FPS, _FPS_OVER_SSH = "240", "60"
"""What a key changes waits for up to two frames when a picture was drawn just before (Textual 8.2.8 leaves one out
after a pause), and pictures that nobody asked for come four times a second whatever is said here.
"""
_NONE_YET: Mapping[str, object] = {}


class SessionResult(Struct, frozen=True):
    """How the screen was left. `last_seen_t` (unix s) is up to when the fleet was seen.

    `next_root` is the runs root that the person wants to see now, as it was at `replay_t` (unix s) if that is given;
    None when they are done. `view_state` is what was chosen and marked on the list.
    """

    exit_code: int
    last_seen_t: float | None
    live: int
    next_root: str | None = None
    replay_t: float | None = None
    view_state: FleetViewState | None = None


def replay(
    root: Path,
    moment: float,
    presets: LoadPresets,
    habits: Mapping[str, object] = _NONE_YET,
    keep: Callable[[Mapping[str, object]], None] = lambda _changes: None,
    view_state: FleetViewState | None = None,
) -> SessionResult:
    """Show the runs root as it was at unix time `moment`, from its files, until the person leaves. Raises as `run`."""
    return run(
        root,
        presets,
        lambda _name, _words: [],
        readonly=True,
        replay_t=moment,
        habits=habits,
        keep=keep,
        view_state=view_state,
    )


def run(
    root: Path,
    presets: LoadPresets,
    resolve: Resolve,
    readonly: bool = False,
    last_seen_t: float | None = None,
    remember: Callable[[float], None] = lambda _t: None,
    greeting: str = "",
    from_files: bool = False,
    replay_t: float | None = None,
    save_preset: SavePreset = save_nothing,
    habits: Mapping[str, object] = _NONE_YET,
    keep: Callable[[Mapping[str, object]], None] = lambda _changes: None,
    elsewhere: Callable[[], Sequence[str]] = tuple,
    hosts: Mapping[str, Host | None] | None = None,
    view_state: FleetViewState | None = None,
) -> SessionResult:
    """Show the screen of the runs root, with `greeting` on it, until the person leaves; then say how many runs go on.

    With `from_files` its files are read, and no supervisor is asked or started; with `replay_t` as they were then. With
    `hosts` it is the screen of those machines; the one that is None is this runs root.

    `remember` is called now and then, and at the end, with the time (unix s) up to which the fleet was seen; `keep`
    with changed settings of the look by name, None for a default. Both may block. `habits` is the stored table of such
    settings; values in it that make no sense are ignored. `elsewhere` is called once, after the first picture, and says
    in sentences what ended at other runs roots. `view_state` is what an earlier screen of it was left at.

    Raises `UsageError` when there is no terminal that could show it.
    """
    _require_terminal(os.environ)
    from mission_tui.ipc.client_environment import origin_of

    # Before Textual is imported, which takes `NO_COLOR` out of the environment.
    origin = origin_of(Path.cwd(), os.environ)
    _prepare(os.environ)
    # Nothing that is loaded is garbage, and looking for some takes a twelfth of the time to the first picture.
    gc.disable()
    try:
        load_textual()
        from mission_tui.ipc.async_client import AsyncConnection
        from mission_tui.tui.session import show

        client: FleetClient = AsyncConnection(root, from_files=from_files, replay_t=replay_t, readonly=readonly)
        if hosts is not None:
            from mission_tui.ipc.host_fleet import host_clients

            client = host_clients(root, hosts, os.environ, readonly=readonly)
        result = show(
            client,
            presets,
            resolve,
            origin,
            readonly=readonly,
            last_seen_t=last_seen_t,
            remember=remember,
            greeting=greeting,
            view_state=view_state,
            save_preset=save_preset,
            habits=habits,
            keep=keep,
            elsewhere=elsewhere,
        )
    finally:
        gc.enable()
    if replay_t is not None:
        return result
    if result.last_seen_t is not None:
        remember(result.last_seen_t)
    if result.live and result.next_root is None and sys.stdout.isatty():
        sys.stdout.write(_exit_message(result.live) + "\n")
    return result


def picture(
    root: Path,
    presets: LoadPresets,
    kind: Literal["svg", "png"],
    size: tuple[int, int],
    runs: tuple[RunView, ...] = (),
    view: str | None = None,
    from_files: bool = False,
) -> bytes:
    """The screen of the runs root as it would be in a terminal of `size` columns and rows, without one: the list, or
    `view`, which is a tab of the one run, `compare` of several, or `machine` of none. No key is pressed there.

    Raises `UsageError` for a PNG where there is nothing to draw it with.
    """
    from mission_tui.ipc.client_environment import origin_of

    origin = origin_of(Path.cwd(), os.environ)
    _prepare(os.environ)
    load_textual()
    from mission_tui.ipc.async_client import AsyncConnection
    from mission_tui.tui.session import draw_once

    # What plays is a process that a screen which only looks does not start.
    readonly = view != "watch"
    client = AsyncConnection(root, from_files=from_files, readonly=readonly)
    return draw_once(client, presets, origin, kind, size, runs, view, readonly=readonly)


def _exit_message(live: int) -> str:
    if live == 1:
        return "1 run goes on; mission-tui shows it again"
    return f"{live} runs go on; mission-tui shows them again"


def _require_terminal(environ: Mapping[str, str]) -> None:
    if environ.get("TERM", "") in ("", "dumb"):
        raise UsageError("this terminal cannot show a full screen (TERM is unset or dumb): use `mission-tui status`")
    theme = environ.get("MISSION_TUI_THEME", "dark")
    if theme not in ("dark", "light"):
        raise UsageError(f"MISSION_TUI_THEME={theme!r} is not a theme: set it to dark or light, or unset it")
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "the screen needs a terminal on stdin, stdout and stderr: use `mission-tui status` or `status --json`"
        )


def _prepare(environ: os._Environ[str]) -> None:
    """Keys wait little for a picture; fewer frames and no animations over SSH; what the person set stays.

    Exported `COLUMNS` and `LINES` would freeze the size at what the terminal once had.
    """
    environ.pop("COLUMNS", None)
    environ.pop("LINES", None)
    remote = "SSH_CONNECTION" in environ
    environ.setdefault("TEXTUAL_FPS", _FPS_OVER_SSH if remote else _FPS)
    if remote:
        environ.setdefault("TEXTUAL_ANIMATIONS", "none")
