"""What a launch would cost, asked of whoever knows without starting anything: the supervisor if one is there, else the
files of the runs root, else arithmetic alone.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from mission_tui.cli.errors import print_error
from mission_tui.errors import MissionError, NoSupervisorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mission_tui.cli.session import Session
    from mission_tui.ipc.client import Connection
    from mission_tui.ipc.replies import Quoted
    from mission_tui.ipc.requests import LaunchItem

__all__ = ["launch_price"]


def launch_price(session: Session, items: Sequence[LaunchItem]) -> Quoted:
    """The price of every item. What somebody could not answer is said, and the next one is asked.

    Raises `UsageError` where the runs root cannot be written: a launch would be refused for that.
    """
    from mission_tui.ipc.client import Connection

    session.require_writable_root()
    try:
        with session.connect(start=False) as connection:
            return _asked(session, connection, items)
    except NoSupervisorError:
        pass
    except MissionError as error:
        print_error(f"the price is from the files alone: {error}")
    try:
        with Connection.connect_readonly(session.root) as connection:
            return _asked(session, connection, items)
    except MissionError as error:
        if session.root.exists():
            print_error(f"the price is arithmetic alone: {error}")
        return _reckoned(items)


def _asked(session: Session, connection: Connection, items: Sequence[LaunchItem]) -> Quoted:
    from mission_tui.ipc.own_limits import captured_limits
    from mission_tui.ipc.requests import Quote
    from mission_tui.ipc.start import captured_environ

    cwd, environ, limits = str(session.cwd), captured_environ(session.environ), captured_limits()
    return connection.ask(
        lambda id_: Quote(id=id_, items=tuple(items), cwd=cwd, python=sys.executable, environ=environ, limits=limits)
    )


def _reckoned(items: Sequence[LaunchItem]) -> Quoted:
    """There is no runs root yet, or nothing in it can be read."""
    from mission_tui.fleet.capacity.cost import estimated_cost
    from mission_tui.ipc.replies import Quoted
    from mission_tui.paths import GPU_DRIVER

    cores, driver = len(os.sched_getaffinity(0)), GPU_DRIVER.exists()
    return Quoted(re=0, costs=tuple(estimated_cost(item.spec, cores, driver=driver) for item in items), decided=False)
