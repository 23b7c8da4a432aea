"""The trainer, supervised and left alone in turns: every few updates it hangs up on the supervisor, or calls it again.

Nothing else differs between the turns, which are seconds apart in one process, so that effects show which are far
smaller than what a busy machine does to two processes. Started by a real keeper (`MISSION_TUI_TRAINER`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from mission_tui.ipc.telemetry_messages import PhaseEntered, TelemetryMessage
from mission_tui.trainer.__main__ import train
from mission_tui.trainer.orders import Attempt, Link, Orders
from mission_tui.trainer.process import keep_lease_private, lower_priority
from mission_tui.trainer.record import Record

__all__ = ["TURN", "AlternatingLink", "is_supervised", "main"]

TURN = 6
"""Updates between two changes."""


def is_supervised(update: int) -> bool:
    """Whether the update that follows `update` finished ones is made under the supervisor's eyes."""
    return update // TURN % 2 == 0


class AlternatingLink(Link):
    """A link that is there in every other turn."""

    def __init__(self, attempt: Attempt, environ: Mapping[str, str]) -> None:
        super().__init__(attempt, environ)
        self._attempt, self._environ = attempt, environ

    def send(self, message: TelemetryMessage) -> None:
        """Before a rollout: hang up or call, if it is time to."""
        if isinstance(message, PhaseEntered) and message.phase == "rollout":
            wanted = is_supervised(message.update)
            if not wanted:
                self.close()
                self._telemetry = None
            elif self._telemetry is None:
                super().__init__(self._attempt, self._environ)
        super().send(message)


def main(words: list[str], environ: Mapping[str, str]) -> int:
    """Train the attempt that the words name, as `mission_tui.trainer` does."""
    attempt = Attempt.parse(words)
    keep_lease_private(environ)
    lower_priority(own_session=True)
    link = AlternatingLink(attempt, environ)
    orders = Orders(link.orders)
    orders.obey_signals()
    with Record(attempt.run_dir, attempt.number, link.send) as record:
        code = train(attempt, record, orders, link)
    link.close()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
