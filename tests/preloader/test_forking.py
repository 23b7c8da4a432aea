"""What is forked off a preloader is what would have been started anew, and nothing depends on the preloader."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from hashlib import sha256
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from mission_tui.fleet.process_limits import ProcessLimits
from mission_tui.records.runs.attempt import ExitRecord, LaunchOrder, read_exit, read_identity
from mission_tui.records.runs.layout import RunDir
from mission_tui.run_module import module_words
from mission_tui.supervisor.host import children
from mission_tui.supervisor.host.children import Running, Task, TaskError, run_task
from mission_tui.supervisor.launchers.local import Keepers, Started
from mission_tui.supervisor.launchers.order import thread_variables
from mission_tui.supervisor.launchers.preloaded import Preloaders
from tests.supervisor.foreign import write_launch

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]
REPOSITORY = Path(__file__).parents[2]
BASE = thread_variables(1) | {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "LANG": "C.UTF-8"}
TWO_THREADS = BASE | {"OMP_NUM_THREADS": "2"}
PLAIN = Keepers()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def keepers() -> AsyncIterator[Keepers]:
    """Those that fork; one preloader serves all tests that do not end it."""
    preloaders = Preloaders("tests", "always")
    yield Keepers(preloaders)
    await all_ended(preloaders)


@pytest_asyncio.fixture(loop_scope="module")
async def preloaders() -> AsyncIterator[Preloaders]:
    """Some of a test's own."""
    preloaders = Preloaders("tests", "always")
    yield preloaders
    await all_ended(preloaders)


async def until(happened: Callable[[], bool]) -> None:
    """Let the loop go on until then: it is what waits for children."""
    async with asyncio.timeout(30):
        while not happened():  # noqa: ASYNC110 - processes set no event
            await asyncio.sleep(0.02)


async def all_ended(preloaders: Preloaders) -> None:
    """See them gone, and waited for."""
    pids = preloaders.pids()
    preloaders.end()
    await until(lambda: not any(map(psutil.pid_exists, pids)))


def ordered(folder: Path, attempt: int = 1, module: str = "tests.preloader.facts", **changes: Any) -> LaunchOrder:
    """The written order of an attempt whose trainer is `module`."""
    run = RunDir(folder)
    fields: dict[str, Any] = {
        "run": run.id,
        "attempt": attempt,
        "argv": (*module_words(module), "a word"),
        "cwd": str(folder),
        "env": BASE
        | {"MISSION_TUI_ATTEMPT": str(attempt), "PYTHONUNBUFFERED": "1", "COLOUR": "blå", "LEAVE_WITH": "7"},
        "nonce": "a nonce",
        "python": sys.executable,
        "limits": ProcessLimits(umask=0o027, nice=3, rlimits={"nofile": (256, 512)}),
    }
    order = LaunchOrder(**{**fields, **changes})
    run.attempt(attempt).path.mkdir(parents=True)
    write_launch(run.attempt(attempt).launch, order)
    return order


def digest_of(folder: Path, order: LaunchOrder) -> str:
    """The SHA-256 of the order as it is written there."""
    return sha256(RunDir(folder).attempt(order.attempt).launch.read_bytes()).hexdigest()


async def carried_out(keepers: Keepers, folder: Path, order: LaunchOrder) -> tuple[Started, ExitRecord]:
    """Start it and wait for its end."""
    started = keepers.start(RunDir(folder), order, digest_of(folder, order))
    await until(lambda: not started.keeper.alive())
    ended = read_exit(RunDir(folder).attempt(order.attempt).exit)
    assert ended is not None
    started.keeper.close()
    return started, ended


async def test_a_fork_is_what_a_process_started_anew_is(keepers: Keepers, tmp_path: Path) -> None:
    """Words, variables (the kernel's copy too), folder, descriptors, signals, limits, streams, exit code."""
    orders = [ordered(tmp_path, attempt) for attempt in (1, 2)]
    for order, road in zip(orders, (PLAIN, keepers), strict=True):
        started, ended = await carried_out(road, tmp_path, order)
        assert (started.preloaded, started.cold) == (road is keepers, "")
        assert (ended.code, ended.signal, ended.last_output) == (7, None, "printed at once\n")
    cold, forked = (json.loads((tmp_path / f"facts-{attempt}").read_text()) for attempt in (1, 2))
    for told in (cold, forked):
        # The number of the attempt is all that may differ, and what is drawn.
        told["environ"].pop("MISSION_TUI_ATTEMPT")
        told["kernel's environ"] = [item for item in told["kernel's environ"] if "MISSION_TUI_ATTEMPT" not in item]
        told["descriptors"] = {
            name: link.replace("attempts/2", "attempts/1") for name, link in told["descriptors"].items()
        }
    drawn = cold.pop("random"), forked.pop("random")
    assert forked == cold
    assert all(one != other for one, other in zip(*drawn, strict=True))


async def test_a_forked_trainer_writes_nothing_of_its_own_into_the_log(keepers: Keepers, tmp_path: Path) -> None:
    """It is loaded before the fork, of which Python would warn whoever reads the log of a run."""
    for attempt, road in ((1, PLAIN), (2, keepers)):
        argv = (*module_words("mission_tui.trainer"), "--help")
        await carried_out(road, tmp_path, ordered(tmp_path, attempt, argv=argv))
    cold, forked = (RunDir(tmp_path).attempt(attempt).output.read_text() for attempt in (1, 2))
    assert forked == cold
    assert cold.startswith("usage: mission_tui.trainer")


async def test_forks_draw_numbers_of_their_own(keepers: Keepers, tmp_path: Path) -> None:
    """Two runs without a seed must not be the same run."""
    for attempt in (1, 2):
        await carried_out(keepers, tmp_path, ordered(tmp_path, attempt))
    one, other = (json.loads((tmp_path / f"facts-{attempt}").read_text())["random"] for attempt in (1, 2))
    assert set(one) & set(other) == set()


async def test_secrets_reach_the_trainer_and_no_file(keepers: Keepers, tmp_path: Path) -> None:
    """They are said through a descriptor that only the keeper reads."""
    order = ordered(tmp_path)
    order = LaunchOrder(
        **{
            **{name: getattr(order, name) for name in order.__struct_fields__},
            "env": order.env | {"API_KEY": "s3cret"},
            "withheld": ("API_KEY",),
        }
    )
    write_launch(RunDir(tmp_path).attempt(1).launch, order)
    started, _ = await carried_out(keepers, tmp_path, order)
    assert started.preloaded
    assert json.loads((tmp_path / "facts-1").read_text())["environ"]["API_KEY"] == "s3cret"
    assert "s3cret" not in RunDir(tmp_path).attempt(1).launch.read_text()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"preload": False}, "run.preload = false"),
        ({"argv": (sys.executable, "-c", "print('printed at once')")}, "not the trainer of this program"),
        ({"python": "/usr/bin/python3"}, "not the trainer of this program and this Python"),
    ],
)
async def test_what_cannot_be_forked_is_started_anew_and_says_why(
    keepers: Keepers, tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    """The attempt runs all the same."""
    started, ended = await carried_out(keepers, tmp_path, ordered(tmp_path, **changes))
    assert not started.preloaded
    assert why in started.cold
    assert ended.code in (0, 7)


@pytest.mark.slow
async def test_a_variable_that_libraries_read_early_is_never_given_late(preloaders: Preloaders, tmp_path: Path) -> None:
    """Another number of threads than the preloader's: started anew; one that nothing reads while loading: forked."""
    keepers = Keepers(preloaders)
    first, _ = await carried_out(keepers, tmp_path, ordered(tmp_path, 1))
    assert first.preloaded
    preloaders.mode = ""
    order = ordered(tmp_path, 2)
    order.env["OMP_NUM_THREADS"] = "2"
    write_launch(RunDir(tmp_path).attempt(2).launch, order)
    second, _ = await carried_out(keepers, tmp_path, order)
    assert second.cold == "OMP_NUM_THREADS is not what it was when the preloader loaded its libraries"
    assert json.loads((tmp_path / "facts-2").read_text())["environ"]["OMP_NUM_THREADS"] == "2"
    third = ordered(tmp_path, 3)
    third.env["MUJOCO_GL"] = "egl"
    write_launch(RunDir(tmp_path).attempt(3).launch, third)
    assert (await carried_out(keepers, tmp_path, third))[0].preloaded


@pytest.mark.slow
@pytest.mark.parametrize("harm", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_preloader_that_is_gone_or_hangs_costs_a_cold_start(
    preloaders: Preloaders, tmp_path: Path, harm: signal.Signals
) -> None:
    """The run is started once; what hung cannot wake up and start it again; runs forked before live on."""
    keepers = Keepers(preloaders)
    waiting = ordered(tmp_path, 1, "tests.preloader.waiting")
    lives = keepers.start(RunDir(tmp_path), waiting, digest_of(tmp_path, waiting))
    assert lives.preloaded
    preloaders.mode = ""
    (preloader,) = preloaders.pids()
    os.kill(preloader, harm)
    begun_s = time.monotonic()
    other = tmp_path / "other"
    other.mkdir()
    started, ended = await carried_out(keepers, other, ordered(other))
    assert not started.preloaded
    assert started.cold
    assert ended.code in (0, 7)
    assert time.monotonic() - begun_s < 10
    assert not psutil.pid_exists(preloader) or psutil.Process(preloader).status() == "zombie"
    assert lives.keeper.alive()
    identity = read_identity(RunDir(tmp_path).attempt(1).identity)
    assert identity is not None
    lives.keeper.send(signal.SIGTERM)
    await until(lambda: not lives.keeper.alive())
    ended_too = read_exit(RunDir(tmp_path).attempt(1).exit)
    assert ended_too is not None
    assert (ended_too.asked, ended_too.signal) == ("term", signal.SIGTERM)


@pytest.mark.slow
async def test_a_package_that_was_changed_on_disk_is_never_forked(preloaders: Preloaders, tmp_path: Path) -> None:
    """An upgrade under a waiting preloader: the next run uses what is on disk now."""
    keepers = Keepers(preloaders)
    loads = BASE | {"PYTHONPATH": f"{tmp_path}:{REPOSITORY}"}
    (tmp_path / "sitecustomize.py").write_text("VERSION = 1\n")
    order = ordered(tmp_path, 1)
    order.env.update(loads)
    write_launch(RunDir(tmp_path).attempt(1).launch, order)
    assert (await carried_out(keepers, tmp_path, order))[0].preloaded
    preloaders.mode = ""
    (tmp_path / "sitecustomize.py").write_text("VERSION = 22\n")
    order = ordered(tmp_path, 2)
    order.env.update(loads)
    write_launch(RunDir(tmp_path).attempt(2).launch, order)
    started, _ = await carried_out(keepers, tmp_path, order)
    assert "sitecustomize.py is not what it was when it was loaded" in started.cold


async def test_it_waits_in_one_thread_without_locks_or_files(keepers: Keepers, tmp_path: Path) -> None:
    """And hears no Ctrl-C."""
    preloaders = keepers.preloaders
    assert preloaders is not None
    await carried_out(keepers, tmp_path, ordered(tmp_path))
    (pid,) = preloaders.pids()
    process = psutil.Process(pid)
    assert process.num_threads() == 1
    assert process.open_files() == []
    assert "preloader of tests" in " ".join(process.cmdline())
    assert not any("PADDING" in name for name in process.environ())
    process.send_signal(signal.SIGINT)  # somebody's Ctrl-C is not meant for it
    assert (await carried_out(keepers, tmp_path, ordered(tmp_path, 2)))[0].preloaded
    assert preloaders.pids() == [pid]


async def heard(
    cwd: Path,
    leave_with: str,
    limit_s: float = 20.0,
    said: list[object] | None = None,
    variables: Mapping[str, str] = BASE,
) -> list[object]:
    """What a short process says, as it comes in `said`, and how that ends."""
    task = Task(
        (*module_words("tests.preloader.short"), "a word"),
        str(cwd),
        {**variables, "LEAVE_WITH": leave_with},
        b"a question",
    )
    said = [] if said is None else said
    try:
        async with aclosing(run_task(task, limit_s)) as hearing:
            async for each in hearing:
                said.append(each)
    except TaskError as error:
        said.append(str(error))
    return said


@pytest.mark.parametrize("leave_with", ["0", "3", "signal"])
async def test_a_forked_short_process_says_and_ends_as_one_started_anew(
    keepers: Keepers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leave_with: str
) -> None:
    """Its input, folder, session, complaints and exit code; another fork is asked for meanwhile."""
    assert keepers.preloaders is not None
    anew = await heard(tmp_path, leave_with)
    await carried_out(keepers, tmp_path, ordered(tmp_path))
    forks: list[Running | None] = []
    fork_task = keepers.preloaders.fork_task

    def noted(*given: Any) -> Running | None:
        forks.append(fork_task(*given))
        return forks[-1]

    monkeypatch.setattr(keepers.preloaders, "fork_task", noted)
    monkeypatch.setattr(children, "forking", keepers.preloaders)
    hearing = asyncio.create_task(heard(tmp_path, leave_with))
    await carried_out(keepers, tmp_path, ordered(tmp_path, 2))
    assert await hearing == anew
    assert len(anew) == (2 if leave_with == "0" else 3)
    assert [fork is not None for fork in forks] == [True]


# The last two end the preloader of the others, and the second takes the one that the first has left.


def with_two_threads(folder: Path, attempt: int = 1) -> LaunchOrder:
    """The written order of an attempt for another preloader than that of the others."""
    order = ordered(folder, attempt)
    order.env.update(TWO_THREADS)
    write_launch(RunDir(folder).attempt(attempt).launch, order)
    return order


async def test_a_preloader_that_is_replaced_stays_for_its_short_processes(
    keepers: Keepers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch with other variables must not end the evaluation that another preloader's fork plays."""
    preloaders = keepers.preloaders
    assert preloaders is not None
    await carried_out(keepers, tmp_path, ordered(tmp_path))
    (first,) = preloaders.pids()
    monkeypatch.setattr(children, "forking", preloaders)
    said: list[object] = []
    hearing = asyncio.create_task(heard(tmp_path, "never", 60.0, said))
    await until(lambda: len(said) == 2)
    (short,) = psutil.Process(first).children()
    assert (await carried_out(keepers, tmp_path, with_two_threads(tmp_path, 2)))[0].preloaded
    assert preloaders.pids() != [first]
    assert psutil.pid_exists(first)
    assert not hearing.done()
    short.kill()
    assert "ended" in str((await hearing)[-1])
    await until(lambda: not psutil.pid_exists(first))


async def test_a_short_process_ends_with_its_time_and_with_its_preloader(
    keepers: Keepers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that hangs is ended; of one whose end nobody can tell, nobody takes the half for the whole."""
    preloaders = keepers.preloaders
    assert preloaders is not None
    await carried_out(keepers, tmp_path, with_two_threads(tmp_path))
    monkeypatch.setattr(children, "forking", preloaders)
    *_, last = await heard(tmp_path, "never", 1.0, variables=TWO_THREADS)
    assert str(last).endswith("did not answer within 1 s and was ended")
    said: list[object] = []
    hearing = asyncio.create_task(heard(tmp_path, "never", said=said, variables=TWO_THREADS))
    await until(lambda: len(said) == 2)
    (preloader,) = preloaders.pids()
    os.kill(preloader, signal.SIGKILL)
    last = (await hearing)[-1]
    assert str(last).endswith("ended with exit code 1: a last word")
