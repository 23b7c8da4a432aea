"""What a screen of several machines sees and does over a real sshd, also when the line drops."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.ipc.host_fleet import HostFleet, host_clients
from mission_tui.ipc.hosts import HERE, known_hosts
from mission_tui.ipc.requests import Act, Compare, GetHistory, Launch, Quote, Undo
from tests.hosts.conftest import config_file
from tests.hosts.sshd import Sshd
from tests.shell import Shell
from tests.tui.fake_client import a_spec
from tests.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]


async def seen(hosts: HostFleet, true: Callable[[FleetSnapshot], object]) -> FleetSnapshot:
    """The first snapshot of which that is true."""
    async with asyncio.timeout(60.0):
        async for snapshot in hosts.watch():
            if true(snapshot):
                return snapshot
    raise AssertionError


def states(snapshot: FleetSnapshot) -> dict[str, str]:
    return {view.name: view.outcome or view.state for view in snapshot.runs}


async def test_runs_of_three_machines_are_one_list(quick: Shell, far: dict[str, Shell], sshd: Sshd) -> None:
    """They are followed, asked and stopped together; a line that drops costs sight, not runs, and comes back."""
    for name, machine in (("near", quick), ("one", far["gpu1"]), ("two", far["gpu2"])):
        machine.launch("tiny", "--name", name)
    config = config_file(quick)
    hosts = host_clients(quick.root, {HERE: None, **known_hosts(config)}, quick.environ, readonly=False)
    assert isinstance(hosts, HostFleet)
    all_run = {"near": "running", "gpu1:one": "running", "gpu2:two": "running"}
    snapshot = await seen(hosts, lambda it: states(it) == all_run and all(view.update for view in it.runs))
    ids = {view.name: view.id for view in snapshot.runs}
    series = ("rollout/ep_rew_mean",)
    history = await hosts.ask(lambda id_: GetHistory(id=id_, run=ids["gpu2:two"], series=series))
    assert history.updates

    sshd.halt()
    sshd.cut()
    lost = await seen(hosts, lambda it: all(host.lost_t for host in it.hosts if host.away))
    assert {view.name: view.unheard_since is None for view in lost.runs} == {
        "near": True,
        "gpu1:one": False,
        "gpu2:two": False,
    }
    sshd.resume()
    again = await seen(hosts, lambda it: not any(host.lost_t for host in it.hosts))
    assert {view.id for view in again.runs} == set(ids.values())

    reply = await hosts.ask(lambda id_: Compare(id=id_, runs=tuple(ids.values())))
    assert {it["name"] for it in reply.comparison["runs"]} == set(ids)

    answer = await hosts.ask(lambda id_: Act(id=id_, verb="stop", runs=tuple(ids.values())))
    assert set(answer.runs) == set(ids.values())
    await seen(hosts, lambda it: states(it) == dict.fromkeys(all_run, "stopped"))
    await hosts.close()
    gone = [process for process in psutil.process_iter(["cmdline"]) if str(quick.cwd) in str(process.info["cmdline"])]
    bridges = [process for process in gone if "bridge" in str(process.info["cmdline"])]
    _, left = psutil.wait_procs(bridges, timeout=10.0)
    assert left == []


async def test_a_launch_from_the_screen_is_one_of_a_shell_there(quick: Shell, far: dict[str, Shell]) -> None:
    """Priced, started and undone over the bridge: with the folder and variables of the far end, nothing of this one."""
    known = known_hosts(config_file(quick))
    hosts = host_clients(quick.root, {HERE: None, "gpu1": known["gpu1"]}, quick.environ, readonly=False)
    assert isinstance(hosts, HostFleet)
    await seen(hosts, lambda it: all(host.meters for host in it.hosts))
    item = LaunchItem(spec=a_spec("demo"), name="away")
    mine: dict[str, Any] = {"cwd": str(quick.cwd), "python": "/no/such/python", "environ": {"OF_HERE": "1"}}
    price = await hosts.at("gpu1").ask(lambda id_: Quote(id=id_, items=(item,), **mine))
    assert (len(price.costs), price.refused) == (1, "")
    made = await hosts.at("gpu1").ask(lambda id_: Launch(id=id_, items=(item,), **mine))
    (view,) = made.runs
    assert (view.name, view.host) == ("gpu1:away", "gpu1")
    folder = far["gpu1"].root / view.id
    (record,) = until(lambda: list(folder.glob("**/launch.json")))
    launched = json.loads(record.read_text())
    assert launched["cwd"] == str(far["gpu1"].cwd)
    assert "SSH_CONNECTION" in json.dumps(launched)
    assert "OF_HERE" not in json.dumps(launched)
    undone = await hosts.ask(lambda id_: Undo(id=id_, runs=(view.id,)))
    assert undone.runs == (view.id,)
    await hosts.close()
