"""`python -m mission_tui.supervisor.readonly.replay --runs-dir ROOT --fd N --at T` shows a runs root as it was.

It answers one client over the socket that it inherits, goes to the moments that this client names, and ends with it.
It opens nothing for writing, takes no lock, asks no supervisor and signals nobody.
"""

from __future__ import annotations

import argparse
import gc
import socket
import sys
from pathlib import Path

from msgspec import structs

from mission_tui.errors import UsageError
from mission_tui.ipc import requests
from mission_tui.ipc.local_asyncio import asyncio
from mission_tui.ipc.replies import AttemptView, DetailsReply, LogReply, OperatorReply, SnapshotReply, StripReply
from mission_tui.ipc.server import Session, serve_link
from mission_tui.supervisor.queries.details import details
from mission_tui.supervisor.queries.history import history, log
from mission_tui.supervisor.readonly.meters import PastMeters
from mission_tui.supervisor.readonly.past_fleet import PastFleet
from mission_tui.supervisor.readonly.server import ended_page, readable
from mission_tui.supervisor.runs.catalog import resolve_run


class ReplayServer:
    """Shows one moment at a time; who watches is shown each that is gone to."""

    def __init__(self, root: Path, moment: float) -> None:
        self._root = root
        self._moment = moment
        self._instruments: PastMeters | None = None
        self._runs: PastFleet | None = None
        self._turn = asyncio.Lock()
        self._watching: dict[Session, set[int]] = {}

    async def answer(self, request: requests.OperatorRequest, session: Session) -> None:
        """Say the answer to one request, one after the other. Raises `MissionError` for what is no question here."""
        async with self._turn:
            with readable(self._root):
                runs = await self._opened()
                if isinstance(request, requests.Watch):
                    self._watching.setdefault(session, set()).add(request.id)
                    session.send(SnapshotReply(re=request.id, snapshot=runs.snapshot()))
                    return
                session.send(await self._reply(runs, request))
        if isinstance(request, requests.GoTo):
            for watcher, watches in self._watching.items():
                for re in watches:
                    watcher.send(SnapshotReply(re=re, snapshot=runs.snapshot()))

    def client_left(self, session: Session) -> None:
        """The client hung up."""
        self._watching.pop(session, None)

    async def _opened(self) -> PastFleet:
        """The runs; the first who asks waits until they are read."""
        if self._runs is None:
            instruments = self._instruments = await asyncio.to_thread(PastMeters, self._root)
            runs = await asyncio.to_thread(PastFleet, self._root, instruments.meters_at, instruments.why_none)
            await asyncio.to_thread(runs.seek, self._moment)
            gc.freeze()
            self._runs = runs
        return self._runs

    async def _reply(self, runs: PastFleet, request: requests.OperatorRequest) -> OperatorReply:
        match request:
            case requests.GoTo():
                await asyncio.to_thread(runs.seek, request.t)
                return SnapshotReply(re=request.id, snapshot=runs.snapshot())
            case requests.GetSnapshot():
                return SnapshotReply(re=request.id, snapshot=runs.snapshot())
            case requests.GetDetails():
                return details_at(await details(runs, request), runs.moment)
            case requests.GetHistory():
                return await history(runs, request, runs.rows)
            case requests.GetStrip():
                assert self._instruments is not None
                return StripReply(re=request.id, strip=self._instruments.strip(runs.store, request, runs.moment))
            case requests.GetEnded():
                return ended_page(runs, request)
            case requests.GetLog():
                return await log_at(runs, request)
            case requests.Compare() | requests.GetSides():
                raise UsageError("runs cannot be compared in a replay; H goes back to now, where they can")
            case _:
                raise UsageError("this is a replay: nothing can be changed in it; q leaves it")


async def log_at(runs: PastFleet, request: requests.GetLog) -> LogReply:
    """The log of an attempt that was over by the moment. Raises `UsageError` for another."""
    journal = runs.store.run(resolve_run(runs, request.run)).journal
    attempt = journal.attempt if request.attempt is None else request.attempt
    if attempt > journal.attempt or not journal.attempt:
        raise UsageError(f"{journal.name} had no attempt {max(1, attempt)} yet")
    if attempt == journal.attempt and journal.outcome is None:
        raise UsageError(
            "a replay shows only logs of attempts that had ended, because lines do not say when they were written; "
            "H goes back to now"
        )
    return await log(runs, structs.replace(request, attempt=attempt))


def details_at(reply: DetailsReply, moment: float) -> DetailsReply:
    """What of the details there was at unix time `moment`."""
    return structs.replace(
        reply,
        attempts=tuple(_attempt_at(it, moment) for it in reply.attempts if (it.started_t or 0.0) <= moment),
        checkpoints=tuple(it for it in reply.checkpoints if it.t <= moment),
        evaluations=tuple(it for it in reply.evaluations if float(it.get("t") or 0.0) <= moment),
        deeds=tuple(it for it in reply.deeds if it.t <= moment),
    )


def _attempt_at(attempt: AttemptView, moment: float) -> AttemptView:
    if attempt.ended_t is None or attempt.ended_t <= moment:
        return attempt
    return structs.replace(attempt, ended_t=None, outcome=None, cause=None)


async def _serve(root: Path, link: socket.socket, moment: float) -> None:
    server = ReplayServer(root, moment)
    await serve_link(link, root, server.answer, server.client_left)


def main() -> int:
    """Show until the client is gone."""
    parser = argparse.ArgumentParser(prog="mission_tui.supervisor.readonly.replay")
    parser.add_argument("--runs-dir", type=Path, required=True)
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--at", type=float, required=True)
    given = parser.parse_args()
    asyncio.run(_serve(given.runs_dir, socket.socket(fileno=given.fd), given.at))
    return 0


if __name__ == "__main__":
    sys.exit(main())
