"""Several machines as one supervisor: what is shown of them together, and where each request goes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import pytest
from msgspec import structs

from mission_tui import __version__
from mission_tui.errors import MissionError, NoSupervisorError, UsageError
from mission_tui.fleet.comparison_sides import packed
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.fleet.views.snapshot import FleetSnapshot, HostMeters, RunView, SupervisorInfo
from mission_tui.ipc.async_client import AsyncConnection
from mission_tui.ipc.bridge import HostUnavailableError
from mission_tui.ipc.host_fleet import HostFleet
from mission_tui.ipc.replies import Accepted, CleanReply, Launched, LeftoverRow, SidesReply, Welcome
from mission_tui.ipc.requests import (
    Act,
    Adopt,
    Clean,
    Compare,
    GetDetails,
    GetNamed,
    GetSides,
    GetTrash,
    Launch,
    Rename,
    Request,
    Resume,
    StopPlay,
    Undo,
)
from mission_tui.ipc.sockets import MalformedError
from tests.tui.fake_client import a_spec
from tests.tui.sides import a_side

NOW = 5000.0
_PIDS = itertools.count(1)


def run(name: str, state: str = "running", **more: Any) -> RunView:
    """A run whose id says its name."""
    known: dict[str, Any] = {"preset": "demo", "run_dir": f"/runs/{name}", "created_t": NOW - 60.0} | more
    return RunView(id=f"id-{name}", name=name, state=cast("Any", state), **known)


def seen(*runs: RunView, t: float = NOW, ended: int = 0) -> FleetSnapshot:
    """What a supervisor sees at its own time `t`; each is another one."""
    supervisor, host = SupervisorInfo(next(_PIDS), __version__, 0.0), HostMeters("box", 2)
    return FleetSnapshot(
        revision=1, t=t, runs_root="/runs", supervisor=supervisor, host=host, runs=runs, ended_total=ended
    )


class Machine:
    """A supervisor that says what it is told to say, and remembers what it was asked."""

    def __init__(self, *snapshots: FleetSnapshot | MissionError) -> None:
        self.to_say = list(snapshots)
        self.answers: dict[type[Request], Any] = {}
        self.asked: list[Request] = []
        self.refuses: MissionError | None = None
        self.welcome = Welcome(re=0, protocol=1, version=__version__, pid=1, runs_root="/runs", bridge=__version__)

    async def watch(self) -> AsyncGenerator[FleetSnapshot, None]:
        while self.to_say:
            said = self.to_say.pop(0)
            if isinstance(said, MissionError):
                raise said
            yield said
        await asyncio.Event().wait()

    async def stream(self, make: Callable[[int], Request]) -> AsyncGenerator[Any, None]:
        yield await self.ask(make)

    async def ask(self, make: Callable[[int], Request]) -> Any:
        self.asked.append(make(7))
        if self.refuses is not None:
            raise self.refuses
        return self.answers.get(type(self.asked[-1]), Accepted(re=7, runs=getattr(self.asked[-1], "runs", ())))

    async def close(self) -> None:
        pass


def fleet(**machines: Machine) -> HostFleet:
    """Those machines at the time NOW."""
    return HostFleet(cast("dict[str, AsyncConnection]", machines), clock=lambda: NOW)


async def looked_at(hosts: HostFleet, true: Callable[[FleetSnapshot], object]) -> FleetSnapshot:
    """The first snapshot of which that is true."""
    async with asyncio.timeout(5.0):
        async for snapshot in hosts.watch():
            if true(snapshot):
                return snapshot
    raise AssertionError


async def both() -> tuple[HostFleet, Machine, Machine]:
    """This machine and another, each with a live run `a`, after they were seen."""
    here, gpu1 = Machine(seen(run("a"), ended=2)), Machine(seen(run("b", group="sweep"), run("c", "ended"), ended=1))
    hosts = fleet(here=here, gpu1=gpu1)
    await looked_at(hosts, lambda snapshot: len(snapshot.runs) == 3)
    return hosts, here, gpu1


async def test_runs_of_another_machine_carry_its_name() -> None:
    """So do groups; live ones stand by machine, what has ended below, and counts are those of all."""
    hosts, _, _ = await both()
    snapshot = hosts.merged()
    assert snapshot is not None
    assert [(view.name, view.group) for view in snapshot.runs] == [
        ("a", None),
        ("gpu1:b", "gpu1:sweep"),
        ("gpu1:c", None),
    ]
    assert snapshot.ended_total == 3
    assert [view.host for view in snapshot.runs] == ["here", "gpu1", "gpu1"]
    assert [(host.name, host.live, host.lost_t, host.away) for host in snapshot.hosts] == [
        ("here", 1, None, False),
        ("gpu1", 1, None, True),
    ]


async def test_a_request_goes_to_the_machine_of_its_run() -> None:
    """By id or by the name that stands on the screen, which is not what the run is called there."""
    hosts, here, gpu1 = await both()
    await hosts.ask(lambda id_: GetDetails(id=id_, run="id-b"))
    await hosts.ask(lambda id_: GetDetails(id=id_, run="gpu1:b"))
    await hosts.ask(lambda id_: GetDetails(id=id_, run="id-a"))
    await hosts.ask(lambda id_: Rename(id=id_, run="id-b", name="gpu1:better"))
    assert [request.run for request in gpu1.asked if isinstance(request, GetDetails)] == ["id-b", "b"]
    assert [request.run for request in here.asked if isinstance(request, GetDetails)] == ["id-a"]
    assert isinstance(gpu1.asked[-1], Rename)
    assert gpu1.asked[-1].name == "better"


@pytest.mark.parametrize("order", [("here", "gpu1"), ("gpu1", "here")], ids="-".join)
async def test_a_copy_elsewhere_takes_no_order_from_the_run_here(order: tuple[str, str]) -> None:
    """Both are shown, whichever machine is named first, or spoke last; the one here keeps its id."""
    machines = {name: Machine(seen(run("a")), seen(run("a"))) for name in order}
    hosts = fleet(**machines)
    snapshot = await looked_at(
        hosts, lambda it: len(it.runs) == 2 and not any(each.to_say for each in machines.values())
    )
    assert {(view.id, view.name) for view in snapshot.runs} == {("id-a", "a"), ("gpu1:id-a", "gpu1:a")}
    await hosts.ask(lambda id_: Act(id=id_, verb="stop", runs=("id-a",)))
    assert [request.runs for request in machines["here"].asked if isinstance(request, Act)] == [("id-a",)]
    assert not machines["gpu1"].asked
    await hosts.ask(lambda id_: Act(id=id_, verb="stop", runs=("gpu1:id-a",)))
    assert [request.runs for request in machines["gpu1"].asked if isinstance(request, Act)] == [("id-a",)]


async def test_of_two_other_machines_the_first_to_name_a_run_has_it() -> None:
    """One that says later that it has a run of that id as well takes no order that was meant for the first."""
    silent = NoSupervisorError("gpu1 does not answer yet")
    gpu1, gpu2 = Machine(silent, seen(run("b"), run("a"))), Machine(seen(run("a")))
    hosts = fleet(gpu1=gpu1, gpu2=gpu2)
    snapshot = await looked_at(hosts, lambda it: len(it.runs) == 3)
    assert {(view.id, view.name) for view in snapshot.runs} == {
        ("id-a", "gpu2:a"),
        ("gpu1:id-a", "gpu1:a"),
        ("id-b", "gpu1:b"),
    }
    await hosts.ask(lambda id_: Act(id=id_, verb="stop", runs=("id-a",)))
    assert not gpu1.asked


async def test_no_machine_hides_the_runs_of_this_one() -> None:
    """One that is named before it, and says that it is the same supervisor, is itself what is passed over."""
    one = seen(run("a"))
    hosts = fleet(gpu1=Machine(one), here=Machine(one))
    snapshot = await looked_at(hosts, lambda it: any(host.same_as for host in it.hosts))
    assert {host.name: host.same_as for host in snapshot.hosts} == {"gpu1": "here", "here": ""}
    assert [(view.id, view.name, view.host) for view in snapshot.runs] == [("id-a", "a", "here")]


async def test_what_names_runs_of_two_machines_is_asked_of_both() -> None:
    """Each gets its own; the answers are one. A refusal is told although the other has accepted."""
    hosts, here, gpu1 = await both()
    answer = await hosts.ask(lambda id_: Act(id=id_, verb="stop", runs=("id-b", "id-a")))
    assert set(answer.runs) == {"id-a", "id-b"}
    assert (here.asked[-1], gpu1.asked[-1]) == (
        Act(id=7, verb="stop", runs=("id-a",)),
        Act(id=7, verb="stop", runs=("id-b",)),
    )
    gpu1.refuses = UsageError("b has ended")
    with pytest.raises(UsageError, match="gpu1: b has ended; on here it was done"):
        await hosts.ask(lambda id_: Act(id=id_, verb="stop", runs=("id-b", "id-a")))
    assert len(here.asked) == 2


async def test_what_was_agreed_to_stays_with_its_run() -> None:
    """An adoption carries a digest for each run, in the order of the runs."""
    hosts, here, gpu1 = await both()
    await hosts.ask(lambda id_: Adopt(id=id_, runs=("id-b", "id-a", "id-c"), digests=("of b", "of a", "of c")))
    assert here.asked == [Adopt(id=7, runs=("id-a",), digests=("of a",))]
    assert gpu1.asked == [Adopt(id=7, runs=("id-b", "id-c"), digests=("of b", "of c"))]


async def test_nothing_of_this_machine_goes_to_another() -> None:
    """Folder, interpreter and variables of the client mean nothing there."""
    hosts, here, gpu1 = await both()
    mine = {"cwd": "/home/ada", "python": "/usr/bin/python", "environ": {"TOKEN": "x"}}
    await hosts.ask(lambda id_: Resume(id=id_, run="id-b", **mine))  # type: ignore[arg-type]
    await hosts.ask(lambda id_: Resume(id=id_, run="id-a", **mine))  # type: ignore[arg-type]
    assert gpu1.asked == [Resume(id=7, run="id-b")]
    assert here.asked == [Resume(id=7, run="id-a", **mine)]  # type: ignore[arg-type]


async def test_what_names_no_run_is_the_first_machines() -> None:
    """Unless the caller says of which machine it asks."""
    hosts, here, gpu1 = await both()
    for request in (GetTrash(id=7), StopPlay(id=7)):
        await hosts.ask(lambda _id, request=request: request)  # type: ignore[misc]
    assert (len(here.asked), gpu1.asked) == (2, [])
    await hosts.at("gpu1").ask(lambda id_: GetTrash(id=id_))
    assert gpu1.asked == [GetTrash(id=7)]
    with pytest.raises(UsageError, match="on here and gpu1: choose runs of one machine"):
        await hosts.ask(lambda id_: GetNamed(id=id_, refs=("id-a", "id-b")))


LAUNCH: dict[str, Any] = {"cwd": "/home/ada", "python": "python", "environ": {"TOKEN": "x"}}


async def test_a_launch_elsewhere_is_carried_out_as_by_a_shell_there() -> None:
    """Nothing of this machine goes along; runs are called as on this screen, and can be undone at once."""
    hosts, here, gpu1 = await both()
    item = LaunchItem(spec=a_spec("demo"), after=("gpu1:b", "id-c"), group="gpu1:sweep")
    gpu1.answers[Launch] = Launched(re=7, runs=(run("new", "queued"),), warnings=("it is slow",))
    made = await hosts.at("gpu1").ask(lambda id_: Launch(id=id_, items=(item,), **LAUNCH))
    assert ([view.name for view in made.runs], made.warnings) == (["gpu1:new"], ("gpu1: it is slow",))
    (asked,) = gpu1.asked
    assert isinstance(asked, Launch)
    assert (asked.cwd, asked.python, asked.environ, asked.limits) == ("", "", {}, None)
    assert (asked.items[0].after, asked.items[0].group) == (("b", "id-c"), "sweep")
    await hosts.ask(lambda id_: Undo(id=id_, runs=("id-new",)))
    assert gpu1.asked[-1] == Undo(id=7, runs=("id-new",))
    with pytest.raises(UsageError, match="gpu1:b is on another machine than here"):
        await hosts.at("here").ask(lambda id_: Launch(id=id_, items=(item,), **LAUNCH))
    assert here.asked == []


async def test_an_older_machine_stays_readable_and_starts_nothing_from_here() -> None:
    """Its version stands with it, and the sentence says what works."""
    old = Machine(structs.replace(seen(run("b")), supervisor=SupervisorInfo(1, "0.1.0", 0.0)))
    old.welcome = Welcome(re=0, protocol=1, version="0.1.0", pid=1, runs_root="/runs")
    hosts = fleet(here=Machine(seen()), gpu1=old)
    snapshot = await looked_at(hosts, lambda it: it.runs)
    assert [(host.version, host.launches) for host in snapshot.hosts] == [("", True), ("0.1.0", False)]
    with pytest.raises(UsageError, match=r"gpu1 \(0\.1\.0\) starts nothing .* --host gpu1 launch"):
        await hosts.at("gpu1").ask(lambda id_: Launch(id=id_, items=(), **LAUNCH))
    await hosts.ask(lambda id_: Act(id=id_, verb="stop", runs=("id-b",)))
    assert old.asked == [Act(id=7, verb="stop", runs=("id-b",))]
    old.to_say = [MalformedError("not a message of this protocol")]
    lost = await looked_at(fleet(gpu1=old, gpu2=Machine(seen())), lambda it: it.hosts[0].lost_t)
    assert "its mission-tui is 0.1.0" in lost.hosts[0].why
    assert "mission-tui --host gpu1 status" in lost.hosts[0].why
    old.welcome = Welcome(re=0, protocol=1, version=__version__, pid=1, runs_root="/runs")
    old.to_say = [MalformedError("not a message of this protocol")]
    lost = await looked_at(fleet(gpu1=old, gpu2=Machine(seen())), lambda it: it.hosts[0].lost_t)
    assert f"the code of another mission-tui {__version__}" in lost.hosts[0].why


async def test_one_machine_under_two_names_is_shown_once() -> None:
    """Its runs stand under the first name, and the second says so."""
    one = seen(run("a"))
    hosts = fleet(gpu1=Machine(one), gpu2=Machine(one))
    snapshot = await looked_at(hosts, lambda it: it.hosts[1].same_as)
    assert [host.same_as for host in snapshot.hosts] == ["", "gpu1"]
    assert [view.name for view in snapshot.runs] == ["gpu1:a"]


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (False, "gpu1 does not answer, and was asked nothing: Connection refused"),
        (True, "gpu1 was asked nothing, and says: Connection refused"),
    ],
)
async def test_a_lost_machine_refuses_at_once(refused: bool, said: str) -> None:
    """A key does not wait for a line that is down, and what it asked for is not done later."""
    gpu1 = Machine(seen(run("b")), HostUnavailableError.of("gpu1", "Connection refused", refused=refused))
    hosts = fleet(here=Machine(seen()), gpu1=gpu1)
    await looked_at(hosts, lambda it: it.runs and it.hosts[1].lost_t)
    with pytest.raises(NoSupervisorError) as error:
        await hosts.ask(lambda id_: Act(id=id_, verb="kill", runs=("id-b",)))
    assert (str(error.value), gpu1.asked) == (said, [])


async def test_leftovers_are_those_of_all_machines() -> None:
    """What is to be removed goes to where it lies."""
    hosts, here, gpu1 = await both()
    row = LeftoverRow(key="pid:7", kind="process", verdict="ours", name="b")
    here.answers[Clean] = CleanReply(re=7, stale=(structs.replace(row, name="a"),))
    gpu1.answers[Clean] = CleanReply(re=7, stale=(row,))
    found = await hosts.ask(lambda id_: Clean(id=id_))
    assert [(it.key, it.name) for it in found.stale] == [("here:pid:7", "a"), ("gpu1:pid:7", "gpu1:b")]
    await hosts.ask(lambda id_: Clean(id=id_, remove=("gpu1:pid:7",)))
    assert (here.asked, gpu1.asked[-1]) == ([Clean(id=7)], Clean(id=7, remove=("pid:7",)))


async def test_runs_of_two_machines_are_compared_here() -> None:
    """Each says what there is to compare of its own; the names are those of the screen."""
    hosts, here, gpu1 = await both()
    for machine, name in ((here, "a"), (gpu1, "b")):
        told = packed(a_side(run(name, "ended"), 1, 2.0))
        machine.answers[GetSides] = SidesReply(re=7, sides={RETURN: (told,)})
    reply = await hosts.ask(lambda id_: Compare(id=id_, runs=("id-a", "id-b")))
    assert [it["name"] for it in reply.comparison["runs"]] == ["a", "gpu1:b"]
    assert gpu1.asked == [GetSides(id=7, runs=("id-b",), metrics=(RETURN,))]


async def test_a_machine_that_is_lost_keeps_its_runs_and_comes_back() -> None:
    """Live ones say since when nobody heard of them; what has ended is over whether its machine answers or not."""
    b, c = run("b"), run("c", "ended")
    gpu1 = Machine(seen(b, c), HostUnavailableError.of("gpu1", "Connection refused"), seen(b, c))
    hosts = fleet(here=Machine(seen(run("a"))), gpu1=gpu1)
    lost = await looked_at(hosts, lambda it: any(host.lost_t and host.meters for host in it.hosts))
    assert {view.name: view.unheard_since for view in lost.runs} == {"a": None, "gpu1:b": NOW, "gpu1:c": None}
    assert lost.hosts[1].why == "Connection refused"
    back = await looked_at(hosts, lambda it: it.hosts and it.hosts[1].lost_t is None)
    assert [view.unheard_since for view in back.runs] == [None, None, None]


async def test_a_machine_is_lost_since_its_last_word() -> None:
    """Not since the line was given up, which is seconds later where it hangs."""
    now = NOW
    gpu1 = Machine(seen(run("b")), NoSupervisorError("gpu1 does not answer: Timeout"))
    hosts = HostFleet(cast("dict[str, AsyncConnection]", {"gpu1": gpu1}), clock=lambda: now)
    taken = hosts._take

    def take(name: str, snapshot: FleetSnapshot) -> None:
        nonlocal now
        taken(name, snapshot)
        now += 15.0

    hosts._take = take  # type: ignore[method-assign]
    lost = await looked_at(hosts, lambda it: it.hosts[0].lost_t)
    assert (lost.hosts[0].lost_t, lost.runs[0].unheard_since) == (NOW, NOW)


async def test_where_no_machine_has_answered_the_reasons_are_said() -> None:
    """The screen then shows a banner, as it does without a supervisor."""
    hosts = fleet(gpu1=Machine(NoSupervisorError("gpu1 is down")), gpu2=Machine(NoSupervisorError("gpu2 is down")))
    with pytest.raises(NoSupervisorError, match="gpu1 is down; gpu2 is down"):
        await looked_at(hosts, lambda _: True)


async def test_clocks_of_other_machines_are_put_right() -> None:
    """Three minutes ahead would make a run younger than it is; what differs by seconds is the line's."""
    ahead = seen(run("b", created_t=NOW + 120.0, started_t=NOW + 130.0), t=NOW + 180.0)
    late = seen(run("c", created_t=NOW - 60.0), t=NOW - 1.0)
    hosts = fleet(gpu1=Machine(ahead), gpu2=Machine(late))
    snapshot = await looked_at(hosts, lambda it: len(it.runs) == 2)
    assert snapshot.t == NOW
    b, c = snapshot.runs
    assert (b.created_t, b.started_t, b.ended_t, c.created_t) == (NOW - 60.0, NOW - 50.0, None, NOW - 60.0)
