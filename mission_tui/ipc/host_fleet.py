"""Several machines as one supervisor: their snapshots in one, and each request taken to the machine whose run it names.

A run of another machine is called `gpu1:demo-s1` here, and so are groups: two machines have runs of one name. Times are
put on this machine's clock. A machine that is lost keeps its runs, each with the moment when it was last heard of,
refuses at once what is asked of it, and comes back by itself. What names no run is asked of the machine that the caller
says (`HostFleet.at`), else of the first.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from mission_tui import __version__
from mission_tui.errors import MissionError, NoSupervisorError, UsageError
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.events.outcome import ALIVE, OVER
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.fleet.views.snapshot import FleetSnapshot, MachineView, RunView, StaleRun
from mission_tui.ipc import requests
from mission_tui.ipc.async_client import AsyncConnection, answer_of
from mission_tui.ipc.bridge import BridgedConnection, HostError
from mission_tui.ipc.hosts import HERE, Host
from mission_tui.ipc.replies import (
    Accepted,
    CleanReply,
    ComparisonReply,
    Launched,
    Progress,
    SidesReply,
    SnapshotReply,
    UpgradesReply,
)
from mission_tui.ipc.sockets import ConnectionLostError, MalformedError

if TYPE_CHECKING:
    from mission_tui.fleet.comparison_sides import Side

FIRST_RETRY_S, LAST_RETRY_S = 0.5, 30.0
SAME_CLOCK_S = 5.0
_TIMES = ("created_t", "phase_t", "heartbeat_t", "started_t", "ended_t", "checkpoint_t")
_SPLIT = (requests.Act, requests.Remove, requests.Restore, requests.Undo, requests.Adopt)
_CALLER = ("cwd", "python", "environ", "limits")
_NOBODY: Mapping[str, Any] = {"cwd": "", "python": "", "environ": {}, "limits": None}
"""The bridge puts in what these are there."""

Client = AsyncConnection
Asked = TypeVar("Asked", bound=requests.Request)


def host_clients(
    root: Path, hosts: Mapping[str, Host | None], environ: Mapping[str, str], *, readonly: bool
) -> HostFleet | AsyncConnection:
    """The client of those machines, of which the one that is None is this one with its runs root `root`.

    The only machine there is is shown as if one sat in front of it.
    """
    clients = clients_of(root, hosts, environ, readonly=readonly)
    return next(iter(clients.values())) if len(clients) == 1 and HERE in clients else HostFleet(clients)


def clients_of(
    root: Path, hosts: Mapping[str, Host | None], environ: Mapping[str, str], *, readonly: bool
) -> dict[str, AsyncConnection]:
    """A client for each of those machines, as in `host_clients`."""
    return {
        name: AsyncConnection(root, readonly=readonly)
        if host is None
        else BridgedConnection(host, environ, readonly=readonly)
        for name, host in hosts.items()
    }


class _KnownMachine:
    """What is known of one machine: its newest snapshot, its runs as they are called here, and since when and why it
    does not answer.
    """

    def __init__(self) -> None:
        self.snapshot: FleetSnapshot | None = None
        self.runs: tuple[RunView, ...] = ()
        self.heard_t: float | None = None
        self.lost_t: float | None = None
        self.error: MissionError | None = None


class HostFleet:
    """A client of several machines, by their names."""

    def __init__(self, clients: Mapping[str, Client], clock: Callable[[], float] = time.time) -> None:
        self._clients, self._clock = dict(clients), clock
        self._seen = {name: _KnownMachine() for name in clients}
        self._first = next(iter(self._clients))
        self._at: dict[str, str] = {}
        self._again = asyncio.Event()
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
                    raise NoSupervisorError(self._errors())
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def ask(self, make: Callable[[int], requests.AnsweredBy[requests.Answer]]) -> requests.Answer:
        """As a supervisor answers; what names runs of several machines is asked of each."""
        return await answer_of(self.stream(make))

    async def stream(
        self, make: Callable[[int], requests.AnsweredBy[requests.Answer]], at: str = ""
    ) -> AsyncGenerator[requests.Answer | Progress, None]:
        """As a supervisor answers; what names no run is asked of the machine `at`, or else of the first.

        Raises `UsageError` for what cannot be asked of several machines, `NoSupervisorError` at once for a lost one.
        """
        request = cast("requests.Request", make(0))
        if isinstance(request, requests.GetSnapshot):
            yield cast("requests.Answer", self._snapshot_reply())
            return
        if isinstance(request, requests.Clean | requests.GetUpgrades):
            yield cast("requests.Answer", await self._ask_everywhere(request))
            return
        places = self._places(request, at)
        if len(places) > 1:
            if isinstance(request, requests.Compare):
                yield cast("requests.Answer", await self._compare(request))
            else:
                yield cast("requests.Answer", await self._ask_each(request, places))
            return
        ((name, runs),) = places.items()
        if isinstance(request, requests.Play):
            self._played = name
        there = self._for(name, request, runs)
        self._require(name, request)
        try:
            replies = self._clients[name].stream(lambda id_: cast("Any", replace(there, id=id_)))
            async with aclosing(replies) as answers:
                async for reply in answers:
                    yield cast("requests.Answer | Progress", self._as_here(name, reply))
        except MissionError as error:
            raise self._of(name, error) from error

    def at(self, machine: str) -> _OneMachine:
        """The same, with what names no run asked of `machine`."""
        return _OneMachine(self, machine)

    def wake(self) -> None:
        """Supervisors that were stopped on request are started again with the next question, and machines that are
        lost are reached for at once.
        """
        for client in self._clients.values():
            client.wake()
        self._again.set()

    async def close(self) -> None:
        """Close the connections to all machines."""
        await asyncio.gather(*(client.close() for client in self._clients.values()))

    async def _follow(self, name: str) -> None:
        seen, wait_s = self._seen[name], FIRST_RETRY_S
        while True:
            lost: MissionError = ConnectionLostError(f"{name} went away")
            try:
                async with aclosing(self._clients[name].watch()) as snapshots:
                    async for snapshot in snapshots:
                        wait_s = FIRST_RETRY_S
                        self._take(name, snapshot)
            except MissionError as error:
                lost = self._explained(name, error)
            seen.error = lost
            if seen.lost_t is None:
                # A line that hangs is given up a while after the last word.
                seen.lost_t = lost_t = seen.heard_t or self._clock()
                seen.runs = tuple(
                    view if view.state in OVER else replace(view, unheard_since=lost_t) for view in seen.runs
                )
            self._changed.set()
            with suppress(TimeoutError):
                self._again.clear()
                await asyncio.wait_for(self._again.wait(), wait_s)
            wait_s = min(LAST_RETRY_S, 2 * wait_s)

    def _explained(self, name: str, error: MissionError) -> MissionError:
        """Why a machine does not answer; where it speaks another language, that versions differ."""
        welcome = self._clients[name].welcome
        if isinstance(error, MalformedError) and welcome is not None:
            if welcome.version == __version__:
                return MalformedError(
                    f"it runs the code of another mission-tui {__version__} than this one, which does not understand "
                    f"what it says: `mission-tui --host {name} status` works"
                )
            return MalformedError(
                f"its mission-tui is {welcome.version}, and this {__version__} does not understand what it says: "
                f"`mission-tui --host {name} status` works"
            )
        return error

    def _take(self, name: str, snapshot: FleetSnapshot) -> None:
        seen = self._seen[name]
        seen.snapshot, seen.heard_t, seen.lost_t, seen.error = snapshot, self._clock(), None, None
        seen.runs = tuple(self._called(name, snapshot))
        for view in () if self._same_as(name) else snapshot.runs:
            self._claim(view.id, name)
        self._changed.set()

    def _claim(self, run: str, name: str) -> None:
        """Whoever says first that it has the run of this id is asked about it from then on, but for this machine, which
        comes before all: a copy elsewhere, or a machine that lies, takes no order that another run was meant by.
        """
        holder = self._at.setdefault(run, name)
        if holder != name and (name == HERE or self._same_as(holder) == name):
            self._at[run] = name

    def _distinct(self, name: str, view: RunView) -> RunView:
        """A run of the machine `name`, by an id that no run of another machine has here."""
        return view if self._at.get(view.id, name) == name else replace(view, id=f"{name}:{view.id}")

    def _snapshot_reply(self) -> SnapshotReply:
        snapshot = self.merged()
        if snapshot is None:
            raise NoSupervisorError(self._errors() or "no answer")
        return SnapshotReply(re=0, snapshot=snapshot)

    def _errors(self) -> str:
        return "; ".join(str(seen.error) for seen in self._seen.values() if seen.error is not None)

    def merged(self) -> FleetSnapshot | None:
        """What is known of all machines; None while none has answered."""
        answered = {
            name: seen for name, seen in self._seen.items() if seen.snapshot is not None and not self._same_as(name)
        }
        if not answered:
            return None
        self._revision += 1
        first = next(iter(answered))
        base = answered[first].snapshot
        assert base is not None
        runs = [self._distinct(name, view) for name, seen in answered.items() for view in seen.runs]
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
            elsewhere=(),
            hosts=tuple(map(self._machine, self._seen)),
        )

    def _same_as(self, name: str) -> str:
        """The machine before it that is this very supervisor: two names may lead to one. This machine is before all."""
        mine = _supervisor(self._seen[name].snapshot)
        before = itertools.takewhile(lambda other: other != name, sorted(self._seen, key=HERE.__ne__))
        return next((it for it in before if mine and _supervisor(self._seen[it].snapshot) == mine), "")

    def _machine(self, name: str) -> MachineView:
        seen, welcome = self._seen[name], self._clients[name].welcome
        known = seen.snapshot
        version = "" if known is None else known.supervisor.version
        return MachineView(
            name=name,
            lost_t=seen.lost_t,
            why=_why(seen.error),
            refused=isinstance(seen.error, HostError) and seen.error.refused,
            meters=None if known is None else known.host,
            gpus=() if known is None else known.gpus,
            live=0 if known is None else sum(view.state in ALIVE for view in known.runs),
            queued=0 if known is None else sum(view.state == "queued" for view in known.runs),
            runs_root="" if known is None else known.runs_root,
            version="" if version == __version__ else version,
            same_as=self._same_as(name),
            away=name != HERE,
            launches=name == HERE or bool(welcome is not None and welcome.bridge),
        )

    def _called(self, name: str, snapshot: FleetSnapshot) -> Iterable[RunView]:
        """The runs of a machine in names and times of this one."""
        ahead_s = snapshot.t - self._clock()
        for view in snapshot.runs:
            times: dict[str, Any] = {}
            if abs(ahead_s) > SAME_CLOCK_S:
                times = {field: t - ahead_s for field in _TIMES if (t := getattr(view, field)) is not None}
            yield replace(_named(name, view), **times)

    def _as_here(self, name: str, reply: object) -> object:
        """An answer with its runs in the names of this screen, and its sentences with the machine before them."""
        if isinstance(reply, Launched):
            for view in reply.runs:
                self._claim(view.id, name)
            return replace(
                reply,
                runs=tuple(self._distinct(name, _named(name, view)) for view in reply.runs),
                warnings=tuple(_said(name, warning) for warning in reply.warnings),
            )
        return reply

    def _of(self, name: str, error: MissionError) -> MissionError:
        """`error` as one of the machine `name`."""
        if name == HERE or name in str(error):
            return error
        told = type(error)(f"{name}: {error}")
        told.exit_code = error.exit_code
        return told

    def _require(self, name: str, request: requests.Request) -> None:
        """Raise where asking is no use: a key never waits for a machine that has not answered yet."""
        seen = self._seen[name]
        if name != HERE and seen.lost_t is not None:
            why = _why(seen.error)
            if isinstance(seen.error, HostError) and seen.error.refused:
                raise NoSupervisorError(f"{name} was asked nothing, and says: {why}")
            raise NoSupervisorError(f"{name} does not answer, and was asked nothing: {why}")
        welcome = self._clients[name].welcome
        if name != HERE and isinstance(request, requests.FromClient) and welcome is not None and not welcome.bridge:
            raise UsageError(
                f"the mission-tui of {name} ({welcome.version}) starts nothing for this screen: "
                f"`mission-tui --host {name} launch` does"
            )

    def _places(self, request: requests.Request, at: str = "") -> dict[str, tuple[str, ...]]:
        """By machine the runs that `request` names there, as that machine calls them."""
        if isinstance(request, requests.StopPlay) and self._played is not None:
            return {self._played: ()}
        named = getattr(request, "runs", None) or getattr(request, "refs", None)
        refs = tuple(named) if named else (request.run,) if getattr(request, "run", None) else ()  # type: ignore[attr-defined]
        places: dict[str, tuple[str, ...]] = {}
        for ref in refs:
            name, bare = self._place(ref)
            places[name] = (*places.get(name, ()), bare)
        if len(places) > 1 and not isinstance(request, (*_SPLIT, requests.Compare, requests.GetSides)):
            raise UsageError(f"these runs are on {' and '.join(places)}: choose runs of one machine for this")
        return places or {at or self._first: ()}

    def _place(self, ref: str) -> tuple[str, str]:
        name, colon, bare = ref.partition(":")
        if colon and name in self._clients:
            return name, bare
        return self._at.get(ref, self._first), ref

    def _for(self, name: str, request: Asked, runs: tuple[str, ...]) -> Asked:
        """`request` as it is asked of the machine `name`: the runs of others left out, and nothing of this machine."""
        changed: dict[str, Any] = {}
        if runs and hasattr(request, "run"):
            changed["run"] = runs[0]
        elif runs:
            changed["refs" if hasattr(request, "refs") else "runs"] = runs
        if isinstance(request, requests.Adopt):
            digests = dict(zip((self._place(ref)[1] for ref in request.runs), request.digests, strict=True))
            changed["digests"] = tuple(digests[run] for run in runs)
        if isinstance(request, requests.Rename):
            changed["name"] = request.name.removeprefix(f"{name}:")
        if isinstance(request, requests.Launch | requests.Quote):
            changed["items"] = tuple(self._there(name, item) for item in request.items)
        if name != HERE:
            # Folder, interpreter and variables of this machine mean nothing there: it is done as the run was launched,
            # or as by a shell on that machine.
            none = _NOBODY if isinstance(request, requests.FromClient) else dict.fromkeys(_CALLER)
            changed |= {field: none[field] for field in _CALLER if hasattr(request, field)}
        return replace(request, **changed) if changed else request

    def _there(self, name: str, item: LaunchItem) -> LaunchItem:
        """What is to be launched, with runs and group as they are called there. Raises `UsageError` for others'."""
        after = [self._place(ref) if ":" in ref or ref in self._at else (name, ref) for ref in item.after]
        if elsewhere := [ref for ref, (at, _) in zip(item.after, after, strict=True) if at != name]:
            raise UsageError(f"after: {elsewhere[0]} is on another machine than {name}: name runs of {name}")
        group = item.group.removeprefix(f"{name}:") if item.group else item.group
        return replace(item, after=tuple(bare for _, bare in after), group=group)

    async def _ask_each(self, request: requests.Request, places: Mapping[str, tuple[str, ...]]) -> Accepted:
        """What each machine accepted, as one. Raises the first refusal, once all have answered."""
        answers = await self._gathered(request, places)
        refused = {name: answer for name, answer in answers.items() if isinstance(answer, MissionError)}
        if refused:
            name, first = next(iter(refused.items()))
            done = [name for name in answers if name not in refused]
            told = self._of(name, first)
            raise type(told)(f"{told}; on {' and '.join(done)} it was done") if done else told
        accepted = cast("list[Accepted]", list(answers.values()))
        return Accepted(
            re=0,
            runs=tuple(run for answer in accepted for run in answer.runs),
            notes=tuple(note for answer in accepted for note in answer.notes),
            checkpoints=tuple(outcome for answer in accepted for outcome in answer.checkpoints),
            damaged=tuple(name for answer in accepted for name in answer.damaged),
            remedies=tuple(name for answer in accepted for name in answer.remedies),
            warnings=tuple(warning for answer in accepted for warning in answer.warnings),
        )

    async def _gathered(self, request: requests.Request, places: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
        """What each machine answers, by its name: its answer, or the `MissionError` that it stands for."""

        async def ask(name: str, runs: tuple[str, ...]) -> Any:
            there = self._for(name, request, runs)
            self._require(name, request)
            return await self._clients[name].ask(lambda id_: cast("Any", replace(there, id=id_)))

        answers = await asyncio.gather(*(ask(*place) for place in places.items()), return_exceptions=True)
        if broken := next(
            (it for it in answers if isinstance(it, BaseException) and not isinstance(it, MissionError)), None
        ):
            raise broken
        return dict(zip(places, answers, strict=True))

    async def _ask_everywhere(self, request: requests.Clean | requests.GetUpgrades) -> CleanReply | UpgradesReply:
        """What concerns whole machines, of all that answer; keys of leftovers say where they are."""
        keys: dict[str, tuple[str, ...]] = {}
        for key in request.remove if isinstance(request, requests.Clean) else ():
            name, _, bare = key.partition(":")
            keys[name] = (*keys.get(name, ()), bare)
        found: list[Any] = []
        for name in [name for name, seen in self._seen.items() if seen.lost_t is None and (not keys or name in keys)]:
            there = replace(request, remove=keys.get(name, ())) if isinstance(request, requests.Clean) else request
            answer = (await self._gathered(there, {name: ()}))[name]
            if isinstance(answer, MissionError):
                raise self._of(name, answer)
            found.append((name, answer))
        if isinstance(request, requests.Clean):
            rows = [(name, row) for name, answer in found for row in answer.stale]
            return CleanReply(
                re=0, stale=tuple(_of_host(name, replace(row, key=f"{name}:{row.key}")) for name, row in rows)
            )
        upgrades = tuple(_of_host(name, one) for name, answer in found for one in answer.upgrades)
        return UpgradesReply(re=0, upgrades=upgrades, looked=sum(answer.looked for _, answer in found))

    async def _compare(self, request: requests.Compare) -> ComparisonReply:
        """Runs of several machines: each says what there is to compare of its own, and they are compared here."""
        from mission_tui.fleet.comparison import compared

        sides = (await self.sides(request.runs, (RETURN,)))[RETURN]
        return ComparisonReply(re=0, comparison=await asyncio.to_thread(compared, sides, request.by, request.threshold))

    async def sides(self, refs: Sequence[str], metrics: tuple[str, ...]) -> dict[str, list[Side]]:
        """By metric what there is to compare of the runs that `refs` mean, in their order. Raises as `stream`."""
        from mission_tui.fleet.comparison_sides import unpacked

        asked = requests.GetSides(id=0, runs=tuple(refs), metrics=metrics)
        places = self._places(asked)
        found: dict[str, list[Side]] = {metric: [] for metric in metrics}
        for name, answer in (await self._gathered(asked, places)).items():
            if isinstance(answer, MissionError):
                raise self._of(name, answer)
            assert isinstance(answer, SidesReply)
            for metric, packed in answer.sides.items():
                told = [unpacked(facts) for facts in packed]
                found[metric] += [replace(side, view=self._distinct(name, _named(name, side.view))) for side in told]
        order = {ref: at for at, ref in enumerate(refs)}
        for sides in found.values():
            sides.sort(key=lambda side: min(order.get(side.view.id, len(order)), order.get(side.view.name, len(order))))
        return found


def _why(error: MissionError | None) -> str:
    """The reason alone, where the error has it: the name of the machine stands before it wherever it is shown."""
    return "" if error is None else error.why if isinstance(error, HostError) else str(error)


class _OneMachine:
    """A machine of several, as a client."""

    def __init__(self, hosts: HostFleet, machine: str) -> None:
        self._hosts, self._machine = hosts, machine

    async def ask(self, make: Callable[[int], requests.AnsweredBy[requests.Answer]]) -> requests.Answer:
        """Its answer."""
        return await answer_of(self.stream(make))

    def stream(
        self, make: Callable[[int], requests.AnsweredBy[requests.Answer]]
    ) -> AsyncGenerator[requests.Answer | Progress, None]:
        """Its progress, and at the end its answer."""
        return self._hosts.stream(make, self._machine)


def _named(name: str, view: RunView) -> RunView:
    """A run of the machine `name` as it is called on a screen of several."""
    if name == HERE:
        return replace(view, host=name)
    return replace(view, host=name, name=f"{name}:{view.name}", group=view.group and f"{name}:{view.group}")


def _supervisor(snapshot: FleetSnapshot | None) -> tuple[object, ...]:
    """By what a supervisor is known among those of all machines; empty where it is not."""
    if snapshot is None or snapshot.supervisor.pid is None:
        return ()
    return snapshot.host.name, snapshot.runs_root, snapshot.supervisor.pid, snapshot.supervisor.started_t


def _said(name: str, sentence: str) -> str:
    return sentence if name == HERE else f"{name}: {sentence}"


Row = TypeVar("Row", bound=Struct)


def _of_host(name: str, row: Row) -> Row:
    """A row of an answer about a whole machine; its run is called as on this screen."""
    if name == HERE or not getattr(row, "name", None):
        return row
    return replace(row, name=f"{name}:{row.name}")  # type: ignore[attr-defined]


def _stale(name: str, snapshot: FleetSnapshot | None) -> Iterable[StaleRun]:
    for stale in snapshot.stale if snapshot is not None else ():
        yield stale if name == HERE else replace(stale, name=f"{name}:{stale.name}")
