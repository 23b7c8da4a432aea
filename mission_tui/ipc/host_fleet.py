"""Several machines as one supervisor: their snapshots in one, and each request taken to the machine whose run it names.

A run of another machine is called `gpu1:demo-s1` here, and so are groups: two machines have runs of one name. Times are
put on this machine's clock. A machine that is lost keeps its runs, each with the moment since which nobody heard of
it, and comes back by itself. What names no run is the first machine's, and runs are launched only here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from mission_tui.errors import MissionError, NoSupervisorError, UsageError
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.views.snapshot import FleetSnapshot, OtherHost, RunView, StaleRun
from mission_tui.ipc.async_client import AsyncConnection, Link, answer_of
from mission_tui.ipc.framing import ConnectionLostError
from mission_tui.ipc.hosts import HERE, Bridge, Host, open_bridge
from mission_tui.ipc.replies import Accepted, Progress, SnapshotReply
from mission_tui.ipc.requests import (
    Act,
    Adopt,
    Answer,
    AnsweredBy,
    FromClient,
    GetSnapshot,
    Play,
    Remove,
    Rename,
    Request,
    Restore,
    StopPlay,
    Undo,
)

HELLO_S = 30.0
LEAST_POLL_S = 1.0
POLL_SHARE = 4.0
"""A snapshot that took a second to arrive is followed by four seconds in which other answers have the line."""
FIRST_RETRY_S, LAST_RETRY_S = 0.5, 30.0
SAME_CLOCK_S = 5.0
_TIMES = ("created_t", "phase_t", "heartbeat_t", "started_t", "ended_t", "checkpoint_t")
_SPLIT = (Act, Remove, Restore, Undo, Adopt)
_CALLER = ("cwd", "python", "environ", "limits")

Client = AsyncConnection
Asked = TypeVar("Asked", bound=Request)


class BridgedConnection(AsyncConnection):
    """The supervisor of another machine. Snapshots are asked for one at a time: a line that carries ten kilobytes a
    second must never have a queue of old ones before the answer to a key.
    """

    def __init__(self, host: Host, environ: Mapping[str, str], *, readonly: bool = False) -> None:
        super().__init__(Path("/"), readonly=readonly)
        self._host, self._environ = host, environ
        self._bridge: Bridge | None = None

    async def watch(self) -> AsyncGenerator[FleetSnapshot, None]:
        """Snapshots at most once a second, and in a fifth of the time of the line."""
        while True:
            await self._connected()
            asked_t = time.monotonic()
            snapshot = (await self.ask(lambda id_: GetSnapshot(id=id_))).snapshot
            took_s = time.monotonic() - asked_t
            yield snapshot
            await asyncio.sleep(max(LEAST_POLL_S, POLL_SHARE * took_s))
            if not self.connected:  # said at once: to reach for it again may take ten seconds
                raise ConnectionLostError(f"the line to {self._host.name} broke")

    async def close(self) -> None:
        """Let go of the other machine."""
        await super().close()
        self._hang_up()

    async def _open(self) -> Link:
        self._hang_up()
        bridge = self._bridge = await asyncio.to_thread(
            open_bridge, self._host, self._environ, wake=self._may_wake, readonly=self._readonly
        )
        try:
            return await Link.over(bridge.link, HELLO_S)
        except (OSError, ConnectionLostError) as error:
            why = await asyncio.to_thread(bridge.why)
            self._hang_up()
            raise NoSupervisorError(f"{self._host.name} does not answer: {why or error or 'it is silent'}") from error

    def _hang_up(self) -> None:
        if self._bridge is not None:
            self._bridge.end()
            self._bridge = None


def host_clients(
    root: Path, hosts: Mapping[str, Host | None], environ: Mapping[str, str], *, readonly: bool
) -> HostFleet | AsyncConnection:
    """The client of those machines, of which the one that is None is this one with its runs root `root`.

    The only machine there is is shown as if one sat in front of it.
    """
    clients = {
        name: AsyncConnection(root, readonly=readonly)
        if host is None
        else BridgedConnection(host, environ, readonly=readonly)
        for name, host in hosts.items()
    }
    return next(iter(clients.values())) if len(clients) == 1 and HERE in clients else HostFleet(clients)


class _Seen:
    """What is known of one machine: its newest snapshot, its runs as they are called here, and since when and why it
    does not answer.
    """

    def __init__(self) -> None:
        self.snapshot: FleetSnapshot | None = None
        self.runs: tuple[RunView, ...] = ()
        self.lost_t: float | None = None
        self.why = ""


class HostFleet:
    """A client of several machines, by their names; the first is the one whose meters stand on top."""

    def __init__(self, clients: Mapping[str, Client], clock: Callable[[], float] = time.time) -> None:
        self._clients, self._clock = dict(clients), clock
        self._seen = {name: _Seen() for name in clients}
        self._alone = len(self._clients) == 1
        self._at: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._revision = 0
        self._played: str | None = None

    async def watch(self) -> AsyncGenerator[FleetSnapshot, None]:
        """Snapshots of all as one of them changes. Raises `NoSupervisorError` while none has ever answered."""
        work = [asyncio.create_task(self._follow(name)) for name in self._clients]
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                if (snapshot := self.merged()) is not None:
                    yield snapshot
                elif all(seen.lost_t is not None for seen in self._seen.values()):
                    raise NoSupervisorError("; ".join(seen.why for seen in self._seen.values()))
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def ask(self, make: Callable[[int], AnsweredBy[Answer]]) -> Answer:
        """As a supervisor answers; what names runs of several machines is asked of each."""
        return await answer_of(self.stream(make))

    async def stream(self, make: Callable[[int], AnsweredBy[Answer]]) -> AsyncGenerator[Answer | Progress, None]:
        """As a supervisor answers. Raises `UsageError` for what cannot be asked of other machines."""
        request = cast("Request", make(0))
        if isinstance(request, GetSnapshot):
            yield cast("Answer", self._snapshot_reply())
            return
        places = self._places(request)
        if len(places) > 1:
            yield cast("Answer", await self._ask_each(request, places))
            return
        ((name, runs),) = places.items()
        if isinstance(request, Play):
            self._played = name
        there = self._for(name, request, runs)
        async with aclosing(self._clients[name].stream(lambda id_: cast("Any", replace(there, id=id_)))) as replies:
            async for reply in replies:
                yield cast("Answer | Progress", reply)

    def wake(self) -> None:
        """Supervisors that were stopped on request are started again with the next question."""
        for client in self._clients.values():
            client.wake()

    async def close(self) -> None:
        """Let go of all."""
        await asyncio.gather(*(client.close() for client in self._clients.values()))

    async def _follow(self, name: str) -> None:
        seen, wait_s = self._seen[name], FIRST_RETRY_S
        while True:
            why = f"{name} went away"
            try:
                async with aclosing(self._clients[name].watch()) as snapshots:
                    async for snapshot in snapshots:
                        wait_s = FIRST_RETRY_S
                        self._take(name, snapshot)
            except MissionError as error:
                why = str(error)
            seen.why = why
            if seen.lost_t is None:
                seen.lost_t = lost_t = self._clock()
                seen.runs = tuple(
                    view if view.state in OVER else replace(view, unheard_since=lost_t) for view in seen.runs
                )
            self._changed.set()
            await asyncio.sleep(wait_s)
            wait_s = min(LAST_RETRY_S, 2 * wait_s)

    def _take(self, name: str, snapshot: FleetSnapshot) -> None:
        seen = self._seen[name]
        seen.snapshot, seen.lost_t, seen.why = snapshot, None, ""
        seen.runs = tuple(self._called(name, snapshot))
        for view in snapshot.runs:
            self._at[view.id] = name
        self._changed.set()

    def _snapshot_reply(self) -> SnapshotReply:
        snapshot = self.merged()
        if snapshot is None:
            raise NoSupervisorError("; ".join(filter(None, (seen.why for seen in self._seen.values()))) or "no answer")
        return SnapshotReply(re=0, snapshot=snapshot)

    def merged(self) -> FleetSnapshot | None:
        """What is known of all machines; None while none has answered."""
        answered = {name: seen for name, seen in self._seen.items() if seen.snapshot is not None}
        if not answered:
            return None
        self._revision += 1
        first = next(iter(answered))
        base = answered[first].snapshot
        assert base is not None
        runs = [view for seen in answered.values() for view in seen.runs]
        snapshots = [seen.snapshot for seen in answered.values() if seen.snapshot is not None]
        over = sorted((view for view in runs if view.state in OVER), key=lambda view: -(view.ended_t or 0.0))
        return replace(
            base,
            revision=self._revision,
            t=self._clock(),
            runs=(*(view for view in runs if view.state not in OVER), *over),
            ended_total=sum(one.ended_total for one in snapshots),
            parked_total=sum(one.parked_total for one in snapshots),
            stale=tuple(stale for name, seen in answered.items() for stale in _stale(name, seen.snapshot)),
            unread=sum(one.unread for one in snapshots),
            hosts=tuple(self._other(name) for name, seen in self._seen.items() if name != first or seen.lost_t),
        )

    def _other(self, name: str) -> OtherHost:
        seen = self._seen[name]
        known = seen.snapshot
        return OtherHost(
            name=name,
            lost_t=seen.lost_t,
            why=seen.why,
            meters=None if known is None else known.host,
            gpus=() if known is None else known.gpus,
            live=0 if known is None else sum(view.state not in OVER for view in known.runs),
        )

    def _called(self, name: str, snapshot: FleetSnapshot) -> Iterable[RunView]:
        """The runs of a machine in names and times of this one."""
        ahead_s = snapshot.t - self._clock()
        far = name != HERE and not self._alone
        if not far and abs(ahead_s) <= SAME_CLOCK_S:
            yield from snapshot.runs
            return
        for view in snapshot.runs:
            changed: dict[str, Any] = {}
            if far:
                changed |= {"name": f"{name}:{view.name}", "group": view.group and f"{name}:{view.group}"}
            if abs(ahead_s) > SAME_CLOCK_S:
                changed |= {field: t - ahead_s for field in _TIMES if (t := getattr(view, field)) is not None}
            yield replace(view, **changed)

    def _places(self, request: Request) -> dict[str, tuple[str, ...]]:
        """By machine the runs that `request` names there, as that machine calls them."""
        if isinstance(request, FromClient):
            if HERE not in self._clients:
                names = " or ".join(self._clients)
                raise UsageError(
                    f"nothing is launched from here on another machine: mission-tui --host {names} launch ..."
                )
            return {HERE: ()}
        if isinstance(request, StopPlay) and self._played is not None:
            return {self._played: ()}
        named = getattr(request, "runs", None) or getattr(request, "refs", None)
        refs = tuple(named) if named else (request.run,) if getattr(request, "run", None) else ()  # type: ignore[attr-defined]
        places: dict[str, tuple[str, ...]] = {}
        for ref in refs:
            name, bare = self._place(ref)
            places[name] = (*places.get(name, ()), bare)
        if len(places) > 1 and not isinstance(request, _SPLIT):
            raise UsageError(f"these runs are on {' and '.join(places)}: choose runs of one machine for this")
        return places or {next(iter(self._clients)): ()}

    def _place(self, ref: str) -> tuple[str, str]:
        name, colon, bare = ref.partition(":")
        if colon and name in self._clients:
            return name, bare
        return self._at.get(ref, next(iter(self._clients))), ref

    def _for(self, name: str, request: Asked, runs: tuple[str, ...]) -> Asked:
        """`request` as it is asked of the machine `name`: the runs of others left out, and nothing of this machine."""
        changed: dict[str, Any] = {}
        if runs and hasattr(request, "run"):
            changed["run"] = runs[0]
        elif runs:
            changed["refs" if hasattr(request, "refs") else "runs"] = runs
        if isinstance(request, Adopt):
            digests = dict(zip((self._place(ref)[1] for ref in request.runs), request.digests, strict=True))
            changed["digests"] = tuple(digests[run] for run in runs)
        if isinstance(request, Rename):
            changed["name"] = request.name.removeprefix(f"{name}:")
        if name != HERE:
            # Folder, interpreter and variables of this machine mean nothing there: it is done as the run was launched.
            changed |= {field: None for field in _CALLER if hasattr(request, field)}
        return replace(request, **changed) if changed else request

    async def _ask_each(self, request: Request, places: Mapping[str, tuple[str, ...]]) -> Accepted:
        """What each machine accepted, as one. Raises the first refusal, once all have answered."""

        async def ask(name: str, runs: tuple[str, ...]) -> Any:
            there = self._for(name, request, runs)
            return await self._clients[name].ask(lambda id_: cast("Any", replace(there, id=id_)))

        asked = (ask(name, runs) for name, runs in places.items())
        answers = await asyncio.gather(*asked, return_exceptions=True)
        if refused := next((answer for answer in answers if isinstance(answer, BaseException)), None):
            raise refused
        accepted = cast("list[Accepted]", answers)
        return Accepted(
            re=0,
            runs=tuple(run for answer in accepted for run in answer.runs),
            notes=tuple(note for answer in accepted for note in answer.notes),
            checkpoints=tuple(outcome for answer in accepted for outcome in answer.checkpoints),
            damaged=tuple(name for answer in accepted for name in answer.damaged),
            remedies=tuple(name for answer in accepted for name in answer.remedies),
            warnings=tuple(warning for answer in accepted for warning in answer.warnings),
        )


def _stale(name: str, snapshot: FleetSnapshot | None) -> Iterable[StaleRun]:
    for stale in snapshot.stale if snapshot is not None else ():
        yield stale if name == HERE else replace(stale, name=f"{name}:{stale.name}")
