"""A runs root with a real supervisor, real keepers and the stub trainer; nothing of it is left when a test ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import psutil
import pytest
from msgspec import structs

from mission_tui.fleet.specs.spec import EnvSpec, LaunchItem, PpoSpec, RunSpec, Spec
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView
from mission_tui.ipc.client import Connection
from mission_tui.ipc.replies import Accepted, Launched, OperatorReply, SnapshotReply
from mission_tui.ipc.requests import Act, GetSnapshot, Launch, Request
from mission_tui.paths import socket_dir
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.seal import Seals
from tests.nvml import library, machine  # noqa: F401 - fixtures
from tests.rebooting import power_cut
from tests.supervisor.gpu_watching import watch  # noqa: F401 - a fixture
from tests.waiting import until

if TYPE_CHECKING:
    from tests.supervisor.simulated_lab import SimulatedLab

REPOSITORY = Path(__file__).resolve().parents[2]
STUB = Path(__file__).with_name("stub_trainer.py")
TRAINER = "tests.supervisor.stub_trainer" if os.environ.get("MISSION_TUI_PRELOAD", "0") == "always" else str(STUB)
"""Only a module can be what a fork of the preloader becomes."""
FOREVER = 10**12
GONE_S = 30.0
"""What was killed is gone at once, but not where six test workers want two cores."""
T = TypeVar("T")


DIGEST = "0" * 64
"""Of the document of an order that no keeper reads."""


def stub_spec(total_timesteps: int = FOREVER) -> Spec:
    """A spec that needs no preflight: 64 transitions an update."""
    return Spec(
        preset="stub",
        env=EnvSpec(id="CartPole-v1", n_envs=4, vec="inline"),
        ppo=PpoSpec(n_steps=16, batch_size=64, n_epochs=2),
        run=RunSpec(total_timesteps=total_timesteps),
    )


def large_spec() -> Spec:
    """One that asks for six tenths of the memory that is free now, and as a stub takes none of it."""
    transitions = psutil.virtual_memory().available * 6 // 10 // 448  # bytes of two copies of one
    spec = stub_spec()
    env = structs.replace(spec.env, n_envs=1)
    return structs.replace(spec, env=env, ppo=structs.replace(spec.ppo, n_steps=transitions, batch_size=64))


class RunsRoot:
    """One runs root, and what a client asks of its supervisor; whether that is a process is said by who derives."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("MISSION_TUI")}
        self.environ |= {
            "PYTHONPATH": str(REPOSITORY),
            "MISSION_TUI_TRAINER": TRAINER,
            "MISSION_TUI_PRELOAD": os.environ.get("MISSION_TUI_PRELOAD", "0"),
            "MISSION_TUI_ROAD": os.environ.get("MISSION_TUI_ROAD", ""),
            "MISSION_TUI_RUNS": str(root),
            "MISSION_TUI_LEDGER": str(root.parent),
            "XDG_STATE_HOME": str(root.parent / "state"),
        }

    def ask(self, make: Callable[[int], Request]) -> OperatorReply:
        """The answer to one request over a connection of its own."""
        raise NotImplementedError

    def start(self, **environ: str) -> object:
        """Start a supervisor with these variables."""
        raise NotImplementedError

    def kill_supervisor(self) -> None:
        """SIGKILL it."""
        raise NotImplementedError

    def kill(self, pid: int | None, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to a keeper or trainer, which must exist."""
        raise NotImplementedError

    def power_cut(self) -> None:
        """SIGKILL to everybody of this runs root."""
        raise NotImplementedError

    def launch(self, count: int = 1, *, spec: Spec | None = None, name: str | None = None, **stub: str) -> list[str]:
        """Launch runs of the stub; their ids."""
        item = LaunchItem(spec=spec or stub_spec(), name=name)
        environ = {"PATH": self.environ["PATH"], "PYTHONPATH": str(REPOSITORY)} | stub
        reply = self.ask(
            lambda id_: Launch(
                id=id_, items=(item,) * count, cwd=str(self.root), python=sys.executable, environ=environ
            )
        )
        assert isinstance(reply, Launched)
        return [view.id for view in reply.runs]

    def act(self, verb: str, *runs: str) -> Accepted:
        """stop, kill, pause or checkpoint."""
        reply = self.ask(lambda id_: Act(id=id_, verb=verb, runs=runs))  # type: ignore[arg-type]
        assert isinstance(reply, Accepted)
        return reply

    def snapshot(self) -> FleetSnapshot:
        reply = self.ask(lambda id_: GetSnapshot(id=id_))
        assert isinstance(reply, SnapshotReply)
        return reply.snapshot

    def view(self, run: str) -> RunView:
        """The run as the snapshot shows it."""
        return next(view for view in self.snapshot().runs if view.id == run)

    def until(self, predicate: Callable[[], T], timeout_s: float = 30.0, what: str = "") -> T:
        """The first truthy value of `predicate` within `timeout_s`; fails the test otherwise."""
        return until(predicate, timeout_s, what)

    def wait(self, run: str, condition: Callable[[RunView], object], timeout_s: float = 30.0) -> RunView:
        """The first view of the run that meets the condition."""
        return self.until(lambda: next((v for v in (self.view(run),) if condition(v)), None), timeout_s, run)  # type: ignore[return-value]

    def running(self, run: str, update: int = 1) -> RunView:
        """Wait until the run is connected and has done `update` updates."""
        return self.wait(run, lambda v: v.state == "running" and v.connected and (v.update or 0) >= update)

    def ended(self, run: str, timeout_s: float = 30.0) -> RunView:
        return self.wait(run, lambda view: view.state == "ended", timeout_s)

    def dir(self, run: str) -> RunDir:
        return RunDir(self.root / run)

    @property
    def seals(self) -> Seals:
        """What this runs root's supervisor seals orders with."""
        return Seals.of(self.environ)


class Lab(RunsRoot):
    """With real processes, and ways to act on them."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.supervisor: subprocess.Popen[bytes] | None = None
        self.under: tuple[str, ...] = ()

    def start(self, **environ: str) -> subprocess.Popen[bytes]:
        """Start a supervisor and wait until it answers."""
        self.supervisor = self.spawn(**environ)
        until(self.answers, 30, "the supervisor answers")
        return self.supervisor

    def spawn(self, **environ: str) -> subprocess.Popen[bytes]:
        """Start a supervisor process."""
        state = self.root / ".supervisor"
        state.mkdir(parents=True, exist_ok=True)
        with (state / "supervisor.log").open("ab") as log:
            return subprocess.Popen(
                [*self.under, sys.executable, "-m", "mission_tui.supervisor", "--runs-dir", str(self.root)],
                cwd="/",
                env=self.environ | environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill_supervisor(self) -> None:
        assert self.supervisor is not None
        self.supervisor.kill()
        self.supervisor.wait(GONE_S)

    def kill(self, pid: int | None, number: signal.Signals = signal.SIGKILL) -> None:
        assert pid is not None
        os.kill(pid, number)

    def answers(self) -> bool:
        """Whether a supervisor says welcome."""
        with suppress(Exception), Connection.connect(self.root, start=False):
            return True
        return False

    def ask(self, make: Callable[[int], Request]) -> OperatorReply:
        with Connection.connect(self.root, start=False) as connection:
            reply: OperatorReply = connection.ask(make)  # type: ignore[arg-type]
        return reply

    def processes(self) -> list[psutil.Process]:
        """Every living process whose words or environment name this runs root."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, psutil.Error):
                words = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
                if os.fsencode(self.root) in words:
                    found.append(psutil.Process(int(folder.name)))
        return living(found)

    def power_cut(self) -> None:
        power_cut(self.processes())
        assert self.supervisor is not None
        self.supervisor.wait(GONE_S)

    def family(self, run: str) -> list[psutil.Process]:
        """Keeper, trainer and workers of the run's live attempt."""
        keeper = self.view(run).pids.keeper
        assert keeper is not None
        process = psutil.Process(keeper)
        return [process, *process.children(recursive=True)]


def living(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Those that are neither gone nor zombies."""
    return [p for p in processes if _lives(p)]


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it went between the two questions
        return False


def end(processes: Sequence[psutil.Process]) -> None:
    """SIGKILL them all and wait until none lives."""
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
    until(lambda: not living(processes), GONE_S)


@contextmanager
def opened_lab(root: Path) -> Iterator[Lab]:
    """A runs root without a supervisor yet; nothing of it lives afterwards."""
    lab = Lab(root)
    lab.root.mkdir(exist_ok=True)
    try:
        yield lab
    finally:
        while processes := lab.processes():
            end(processes)
        if lab.supervisor is not None:
            lab.supervisor.wait(GONE_S)
        sockets = socket_dir(lab.root)
        for path in sockets.glob("*"):
            path.unlink(missing_ok=True)
        if sockets.is_dir():
            sockets.rmdir()


@pytest.fixture
def idle_lab(tmp_path: Path) -> Iterator[Lab]:
    """A runs root without a supervisor yet."""
    with opened_lab(tmp_path / "runs") as lab:
        yield lab


@pytest.fixture
def lab(idle_lab: Lab) -> Lab:
    """A runs root with a supervisor."""
    idle_lab.start()
    return idle_lab


@pytest.fixture(scope="module")
def lab_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """What the tests of a module that take `shared_lab` have in common."""
    with opened_lab(tmp_path_factory.mktemp("shared") / "runs") as lab:
        lab.start()
        yield lab


@pytest.fixture
def shared_lab(lab_of_module: Lab) -> Iterator[Lab]:
    """A runs root with a supervisor that serves all tests of a module: starting one takes longer than most of them."""
    yield lab_of_module
    if left := [view.id for view in lab_of_module.snapshot().runs if view.state != "ended"]:
        lab_of_module.act("kill", *left)
        for run in left:
            lab_of_module.ended(run)


@pytest.fixture
def idle_sim() -> Iterator[SimulatedLab]:
    """A runs root without a supervisor yet, on a simulated machine."""
    from tests.supervisor.simulated_lab import simulated_lab

    with simulated_lab() as lab:
        yield lab


@pytest.fixture
def sim(idle_sim: SimulatedLab) -> SimulatedLab:
    """A runs root with a supervisor, on a simulated machine: no process, and no time but what the test waits."""
    idle_sim.start()
    return idle_sim
