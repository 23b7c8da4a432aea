"""New runs: their directories are made beside everything else that the supervisor does, all of them or none."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from mission_tui.fleet.specs.spec import KeepSpec, LaunchItem, LimitsKeep
from mission_tui.supervisor.launchers.local import LocalLauncher
from mission_tui.supervisor.launchers.order import Caller
from mission_tui.supervisor.lifecycle import first_attempts
from mission_tui.supervisor.lifecycle.first_attempts import begin_runs
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.run_directory import create_run
from tests.supervisor.conftest import stub_spec

NEVER_BEGINS = KeepSpec(limits=LimitsKeep(disk_free=10**18))


@pytest.fixture
def core_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Core]:
    """The supervisor's state in this process, once a loop runs."""
    (tmp_path / "runs" / ".supervisor").mkdir(parents=True)
    monkeypatch.setenv("MISSION_TUI_TRAINER", "/nowhere/trainer")
    monkeypatch.setenv("MISSION_TUI_LEDGER", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    async def unmeasured(_first_gpu_s: float = 0.0) -> None:
        """Meters would start a probe of GPUs."""

    def made() -> Core:
        core = Core(tmp_path / "runs", {"local": LocalLauncher()})
        monkeypatch.setattr(core.machine, "measure", unmeasured)
        return core

    return made


async def launched(core: Core, count: int) -> tuple[str, ...]:
    """New runs that stay queued; their ids."""
    item = LaunchItem(spec=structs.replace(stub_spec(), keep=NEVER_BEGINS))
    caller = Caller(sys.executable, str(core.root), {"PATH": os.environ["PATH"]})
    made, _ = await begin_runs(core, (item,) * count, caller)
    return made


async def test_while_directories_are_made_others_are_answered(
    core_of: Callable[[], Core], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that flushes slowly holds up who launched, nobody else; the names are taken all the while."""
    core, making, answered = core_of(), threading.Event(), threading.Event()

    def slow(*words: Any, **more: Any) -> Any:
        making.set()
        assert answered.wait(10)
        return create_run(*words, **more)

    monkeypatch.setattr(first_attempts, "create_run", slow)
    launching = asyncio.create_task(launched(core, 3))
    while not making.is_set():  # noqa: ASYNC110 - a thread sets it
        await asyncio.sleep(0.01)
    (name, *_others) = list(core.names._held)
    assert core.names.taken_by(name) == "a run that is being started"
    answered.set()
    made = await launching
    assert [(core.root / run_id).is_dir() for run_id in made] == [True] * 3
    assert {core.store.view(run_id).state for run_id in made} == {"queued"}
    assert core.names._held == {}
    for run_id in made:
        core.live[run_id].release()


async def test_a_supervisor_that_leaves_meanwhile_leaves_none_of_them(
    core_of: Callable[[], Core], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody was told of them, so the next supervisor must not begin the first two of three."""
    core, making, left = core_of(), threading.Event(), threading.Event()

    def slow(*words: Any, **more: Any) -> Any:
        created = create_run(*words, **more)
        making.set()
        assert left.wait(10)
        return created

    monkeypatch.setattr(first_attempts, "create_run", slow)
    launching = asyncio.create_task(launched(core, 3))
    while not making.is_set():  # noqa: ASYNC110 - a thread sets it
        await asyncio.sleep(0.01)
    launching.cancel()
    await asyncio.wait([launching])
    left.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert launching.cancelled()
    assert [path.name for path in core.root.iterdir()] == [".supervisor"]
    assert core.names._held == {}
