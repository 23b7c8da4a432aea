"""Whether a package was changed under a live run since it was launched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mission_tui.cli.doctor_checks.check import Check
from mission_tui.errors import MissionError, NoSupervisorError

if TYPE_CHECKING:
    from mission_tui.cli.session import Session
    from mission_tui.ipc.replies import UpgradesReply

__all__ = ["checks", "judge"]

ADVICE = "it goes on with what it had loaded; what it starts from now on, and every resume, has the new one"


def checks(session: Session) -> list[Check]:
    """A check for each live run under which something changed; nothing is started for it."""
    from mission_tui.ipc.requests import GetUpgrades

    try:
        with session.connect(start=False) as connection:
            return judge(connection.ask(lambda id_: GetUpgrades(id=id_)))
    except NoSupervisorError:
        return []
    except MissionError as error:
        return [Check("upgrades", "note", f"what live runs were launched with cannot be compared: {error}")]


def judge(reply: UpgradesReply) -> list[Check]:
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
