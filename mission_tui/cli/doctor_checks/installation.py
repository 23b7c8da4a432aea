"""Whether Python and the packages that a training needs are there, by their metadata alone, and changed under no live
run; and whether the screen can be drawn where this call was made.
"""

from __future__ import annotations

import locale
import os
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from mission_tui.cli.doctor_checks.check import Check
from mission_tui.cli.screen import can_draw
from mission_tui.errors import MissionError, NoSupervisorError

if TYPE_CHECKING:
    from mission_tui.cli.session import Session
    from mission_tui.ipc.replies import UpgradesReply


NEEDED = ("torch", "stable-baselines3", "gymnasium", "numpy", "textual", "msgspec", "psutil", "safetensors")
OPTIONAL = {
    "sb3-contrib": "MaskablePPO and RecurrentPPO (pip install 'mission-tui[contrib]')",
    "tensorboard": "TensorBoard event files (pip install 'mission-tui[tensorboard]')",
    "box2d": "LunarLander, BipedalWalker and CarRacing (pip install 'gymnasium[box2d]')",
    "mujoco": "HalfCheetah, Hopper and the other MuJoCo tasks (pip install 'gymnasium[mujoco]')",
    "ale-py": "Atari games (pip install 'gymnasium[atari]')",
}
COLUMNS, ROWS = 80, 24
ADVICE = "it goes on with what it had loaded; what it starts from now on, and every resume, has the new one"


def software_checks() -> list[Check]:
    """Interpreter, needed packages, and what optional packages would bring."""
    python = Check("python", "ok", f"{platform.python_version()} at {sys.executable}")
    return [python, _needed(), *(_optional(name, brings) for name, brings in OPTIONAL.items())]


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _needed() -> Check:
    found = {name: _installed(name) for name in NEEDED}
    missing = [name for name, release in found.items() if release is None]
    if missing:
        return Check(
            "packages", "bad", f"missing: {', '.join(missing)}", "install mission-tui again into this environment"
        )
    return Check("packages", "ok", ", ".join(f"{name} {release}" for name, release in found.items()))


def _optional(name: str, brings: str) -> Check:
    release = _installed(name)
    return Check(name, "note", "not installed", f"for {brings}") if release is None else Check(name, "ok", release)


def terminal_checks(environ: Mapping[str, str]) -> list[Check]:
    """One check: kind, size and encoding of the terminal."""
    if not can_draw(environ):
        advice = "use `mission-tui status`, `launch --wait` and the other verbs, or open the screen in a terminal"
        return [Check("terminal", "note", f"no terminal for the screen (TERM={environ.get('TERM', '')!r})", advice)]
    size = os.get_terminal_size(sys.stdout.fileno())
    encoding = locale.getencoding()
    detail = f"{environ['TERM']}, {size.columns}x{size.lines}, {encoding}"
    if size.columns < COLUMNS or size.lines < ROWS:
        return [Check("terminal", "warn", detail, f"the screen wants {COLUMNS}x{ROWS} or more: enlarge the window")]
    if encoding.lower().replace("-", "") != "utf8":
        return [Check("terminal", "warn", detail, "without UTF-8 the screen falls back to ASCII: set LANG=C.UTF-8")]
    return [Check("terminal", "ok", detail)]


def upgrade_checks(session: Session) -> list[Check]:
    """A check for each live run under which something changed; nothing is started for it."""
    from mission_tui.ipc.requests import GetUpgrades

    try:
        with session.connect(start=False) as connection:
            return judge_upgrades(connection.ask(lambda id_: GetUpgrades(id=id_)))
    except NoSupervisorError:
        return []
    except MissionError as error:
        return [Check("upgrades", "note", f"what live runs were launched with cannot be compared: {error}")]


def judge_upgrades(reply: UpgradesReply) -> list[Check]:
    """One warning for each run that `reply` names, else one word for all that were looked at."""
    if not reply.upgrades:
        has = "run has what it was" if reply.looked == 1 else "runs have what they were"
        return [Check("upgrades", "ok", f"{reply.looked} live {has} launched with")]
    return [
        Check(
            "upgrades",
            "warn",
            f"{one.name}: " + "; ".join(f"{change.name}: {change.was} -> {change.now}" for change in one.changes),
            ADVICE,
        )
        for one in reply.upgrades
    ]
