"""A runs root whose supervisor is a core in the process of the test, and whose machine is simulated.

Requests take the road of real ones from the dispatcher on: the same verbs, journals, files and clock decide. Only
keepers and trainers (`tests/faults/simulated.py`) and the passing of time are not there, so hours of waiting cost
nothing, and nothing depends on how busy the machine is. What only processes can show (signals, freezing, leases,
memory, sockets) is shown with `Lab`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from unittest import mock

from mission_tui.errors import MissionError
from mission_tui.ipc.client import decode_reply
from mission_tui.ipc.replies import OperatorReply
from mission_tui.ipc.requests import OperatorRequest, Request
from mission_tui.ipc.sockets import encode
from mission_tui.records.runs.layout import supervisor_dir
from mission_tui.supervisor.clock import Clock, TimeLimits
from mission_tui.supervisor.ending import leftovers
from mission_tui.supervisor.host import children
from mission_tui.supervisor.launchers.local import LocalLauncher
from mission_tui.supervisor.lifecycle import outcome
from mission_tui.supervisor.lifecycle.adoption import load_waiting, taking_in
from mission_tui.supervisor.request_dispatcher import RequestDispatcher
from mission_tui.supervisor.runs import live_metrics
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.run_directory import half_made, sweep_up
from mission_tui.supervisor.runs.run_on_disk import finish
from mission_tui.supervisor.telemetry_handler import TelemetryHandler
from mission_tui.supervisor.watching import finding_actions, usage
from tests.faults.campaign.part import memory_folder
from tests.faults.simulated import NoGpu, NoProvenance, World
from tests.faults.virtual_time import virtual_loop
from tests.supervisor.conftest import RunsRoot

__all__ = ["SimulatedLab", "simulated_lab"]

T = TypeVar("T")
POLL_S, LONGEST_POLL_S = 0.1, 1.0


class Calm(random.Random):
    """No luck: everything takes as long as it usually does, and every trainer is heard at once."""

    def random(self) -> float:
        return 0.0


class CalmWorld(World):
    """Of two moments one is always later, as by a real clock; whoever sleeps lets time pass."""

    def __init__(self) -> None:
        super().__init__(Calm())
        self._asked = 0

    def clock(self) -> float:
        self._asked += 1
        return super().clock() + 1e-6 * self._asked

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Client:
    """The dispatcher's side of one connection."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.replies: list[OperatorReply] = []

    def send(self, reply: OperatorReply) -> None:
        self.replies.append(decode_reply(encode(reply)))


class SimulatedLab(RunsRoot):
    """What a client sees of one supervisor after the other, and ways to end what they look after."""

    def __init__(self, root: Path, world: World) -> None:
        super().__init__(root)
        self.environ["MISSION_TUI_LEDGER"] = "off"
        self.world = world
        self._life: ExitStack | None = None
        self._loop: asyncio.SelectorEventLoop
        self.core: Core
        self.listeners: list[Any] = []

    def start(self, **environ: str) -> None:
        """Start a supervisor with these variables; it has read its fleet when this returns."""
        assert self._life is None, "there is one already"
        life = ExitStack()
        life.enter_context(mock.patch.dict(os.environ, self.environ | environ))
        self._loop = life.enter_context(virtual_loop(self.world))
        life.callback(self._end_tasks)
        self._loop.run_until_complete(self._begin())
        self._life = life

    async def _begin(self) -> None:
        core = self.core = Core(self.root, {"local": LocalLauncher(self.world)})
        core.machine.gpu = NoGpu()  # type: ignore[assignment]
        core.provenance = NoProvenance()  # type: ignore[assignment]
        core.seals.seal_root(self.root)
        core.fleet.started()
        sweep_up(half_made(self.root))
        finish(taking_in(core))
        for run_id in list(core.waiting):
            load_waiting(core, run_id)
        self.world.ears = TelemetryHandler(core)
        self._dispatcher = RequestDispatcher(core)
        limits = TimeLimits(idle_s=float("inf"))
        clock = Clock(core, self._dispatcher, self.listeners, lambda: True, limits)
        self._clock = asyncio.create_task(clock.run())

    def kill_supervisor(self) -> None:
        """As SIGKILL leaves it: nothing is awaited, files are closed by whoever held them."""
        assert self._life is not None
        life, self._life = self._life, None
        life.close()

    def _end_tasks(self) -> None:
        self.world.drop_links()
        if self._clock.done():
            self._clock.result()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self.core.fleet._log.close()
        for run in self.core.live.values():
            run.release()

    def ask(self, make: Callable[[int], Request]) -> OperatorReply:
        return self._run(self._answer(make))

    def ask_at_once(self, *makes: Callable[[int], Request]) -> list[OperatorReply | MissionError]:
        """The answers to requests that arrive in the same moment; a refusal in the place of an answer."""

        async def answered(make: Callable[[int], Request]) -> OperatorReply | MissionError:
            try:
                return await self._answer(make)
            except MissionError as refused:
                return refused

        async def all_of_them() -> list[OperatorReply | MissionError]:
            return list(await asyncio.gather(*map(answered, makes)))

        return self._run(all_of_them())

    async def _answer(self, make: Callable[[int], Request]) -> OperatorReply:
        client: Any = Client()
        request: OperatorRequest = make(1)  # type: ignore[assignment]
        try:
            await self._dispatcher.answer(request, client)
        finally:
            self._dispatcher.client_left(client)
        reply: OperatorReply = client.replies[-1]
        return reply

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._life is not None, "no supervisor is there to be asked"
        return self._loop.run_until_complete(work)

    def until(self, predicate: Callable[[], T], timeout_s: float = 30.0, what: str = "") -> T:
        """In the world's time, ten times of that of `Lab`: an update takes a second there."""
        deadline, pause_s = self.world.now + 10 * timeout_s, POLL_S
        while not (value := predicate()):
            assert self.world.now < deadline, f"not within {10 * timeout_s} s: {what or predicate}"
            self.sleep(pause_s)
            pause_s = min(1.1 * pause_s, LONGEST_POLL_S)
        return value

    def sleep(self, seconds: float) -> None:
        """Let time pass, for a supervisor too if there is one."""
        if self._life is not None:
            self._run(asyncio.sleep(seconds))
        else:
            until = self.world.now + seconds
            while self.world.pass_until(until):
                pass

    def kill(self, pid: int | None, number: signal.Signals = signal.SIGKILL) -> None:
        """A signal to a keeper or trainer."""
        bodies = (body for it in self.world.trainings for body in (it.keeper, it.body))
        next(body for body in bodies if body.pid == pid).hear(number)

    @property
    def leaves(self) -> bool:
        """Whether the supervisor has decided to end."""
        return self.core.leaving.done()

    def environment(self, run: str) -> dict[str, str]:
        """The variables that the run's newest trainer was started with; none where there was none."""
        started = [it.order.env for it in self.world.trainings if it.run.id == run]
        return dict(started[-1]) if started else {}

    def power_cut(self) -> None:
        """Everything of this machine is gone at once."""
        self.kill_supervisor()
        for it in self.world.trainings:
            it.body.end()
            it.keeper.end()

    def close(self) -> None:
        """Nothing of it is left, and nothing went wrong where nobody waited for it."""
        if self._life is not None:
            self.kill_supervisor()
        self.world.bury()
        assert self.world.wrong == []


def _no_process(*_: object, **__: object) -> NoReturn:
    raise OSError(errno.EPERM, "no process is started on a simulated machine")


@contextmanager
def simulated_lab() -> Iterator[SimulatedLab]:
    """A runs root in memory, without a supervisor yet."""
    with ExitStack() as machine:
        root = machine.enter_context(memory_folder()) / "runs"
        supervisor_dir(root).mkdir(parents=True)
        world = CalmWorld()
        times = {"time.monotonic": world.monotonic, "time.time": world.clock, "time.sleep": world.sleep}
        for name, value in times.items():
            machine.enter_context(mock.patch(name, value))
        for module in (outcome, leftovers):
            machine.enter_context(mock.patch.object(module, "find_leftovers", return_value=[]))
        for module in (children, finding_actions, live_metrics):
            machine.enter_context(mock.patch.object(module, "start_child", _no_process))
        for name in ("process_ids", "live_roots", "write_live_count"):
            machine.enter_context(mock.patch.object(usage, name, return_value=()))
        lab = SimulatedLab(root, world)
        machine.callback(lab.close)
        yield lab
