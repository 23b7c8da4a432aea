"""`mission-tui tune PRESET --fleet N`: how many runs of it pay at once, run by run as they join."""

from __future__ import annotations

import secrets
import sys
from typing import TYPE_CHECKING

import msgspec

from mission_tui.cli.tables.numbers import UNKNOWN, count
from mission_tui.cli.tables.table import Table
from mission_tui.cli.terminal_output import styled, write

if TYPE_CHECKING:
    from mission_tui.cli.session import Session
    from mission_tui.fleet.events.marginal_gain import MarginalGain
    from mission_tui.ipc.replies import FleetTuned
    from mission_tui.ipc.requests import LaunchItem

__all__ = ["tune_fleet"]

BAR = 30


def tune_fleet(session: Session, item: LaunchItem, most: int, budget_s: float, *, as_json: bool) -> int:
    """Have up to `most` runs join, and say how many pay."""
    from mission_tui.cli.tables.documents import payoff_facts, write_document
    from mission_tui.fleet.events.marginal_gain import MarginalGain

    tuned = _measured(session, item, most, budget_s)
    payoffs = [msgspec.convert(each, MarginalGain) for each in tuned.payoffs]
    if as_json:
        facts = {"preset": item.spec.preset, **tuned.said, "asked": most, "host": tuned.host}
        write_document({**facts, "payoffs": [payoff_facts(each) for each in payoffs]})
        return 0
    table = Table(
        ("runs", "steps/s in all", "more", "95 %", "what it brought"), frozenset({"runs", "steps/s in all", "more"})
    )
    for number, each in enumerate(payoffs, 1):
        between = UNKNOWN if each.low is None or each.high is None else f"{each.low:+.0%} to {each.high:+.0%}"
        more = UNKNOWN if each.gain is None else f"{each.gain:+.0%}"
        table.add(str(number), count(each.more_per_s), more, between, each.verdict)
    table.write(sys.stdout)
    _write_bars(payoffs)
    write(styled(str(tuned.said["sentence"]), bold=True))
    return 0


def _measured(session: Session, item: LaunchItem, most: int, budget_s: float) -> FleetTuned:
    from mission_tui.cli.tables.progress import TaskBar
    from mission_tui.fleet.events.marginal_gain import MarginalGain, gain_sentence
    from mission_tui.ipc.own_limits import captured_limits
    from mission_tui.ipc.replies import Progress
    from mission_tui.ipc.requests import TuneFleet
    from mission_tui.ipc.start import captured_environ

    group = f"fleet-{item.spec.preset[:40]}-{secrets.token_hex(2)}"
    item = msgspec.structs.replace(item, name=group, group=group)
    environ = captured_environ(session.environ)

    def request(id_: int) -> TuneFleet:
        return TuneFleet(
            id=id_,
            item=item,
            most=most,
            budget_s=budget_s,
            cwd=str(session.cwd),
            python=sys.executable,
            environ=environ,
            limits=captured_limits(),
        )

    with session.connect() as connection, TaskBar("runs", sys.stderr) as bar:
        for reply in connection.stream(request):
            if not isinstance(reply, Progress):
                return reply
            if reply.fact is not None:
                bar.print_line(gain_sentence(msgspec.convert(reply.fact, MarginalGain), f"run {reply.done}"))
            bar.advance(reply.done, reply.total, reply.note)
    raise AssertionError("a stream ends with an answer or an error")


def _write_bars(payoffs: list[MarginalGain]) -> None:
    speeds = [each.more_per_s or 0.0 for each in payoffs]
    block = "█" if (sys.stdout.encoding or "").lower().startswith("utf") else "#"
    write()
    for number, speed in enumerate(speeds, 1):
        bar = block * round(BAR * speed / max(*speeds, 1.0))
        write(f"{number:2} {bar.ljust(BAR)} {count(speed)}")
    write()
