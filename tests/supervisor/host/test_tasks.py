"""Short processes: their lines, their errors, and what becomes of them when nobody listens."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mission_tui.supervisor.host.children import Task, TaskError, run_task, tasks_at_work
from tests.waiting import until


@pytest.fixture(autouse=True)
async def nothing_left() -> AsyncIterator[None]:
    """Every process of a test has ended and was reaped before the next test."""
    yield
    await asyncio.to_thread(until, lambda: not tasks_at_work())


def task(program: str, stdin: bytes = b"") -> Task:
    """A process that runs `program`."""
    return Task((sys.executable, "-c", program), "/", dict(os.environ), stdin)


async def test_objects_come_in_order_and_other_output_is_passed_over() -> None:
    """JSON objects are yielded, an environment's print is not; stdin arrives."""
    program = "import sys; print('hello'); print('{\"done\": 1}'); print('{\"got\": \"%s\"}' % sys.stdin.read())"
    assert [said async for said in run_task(task(program, b"word"))] == [{"done": 1}, {"got": "word"}]


async def test_an_error_line_becomes_the_error() -> None:
    """The process's own sentence and exit code are raised, with escapes taken out."""
    program = r"""print('{"error": "no \\u001b[31mluck", "exit_code": 78}')"""
    with pytest.raises(TaskError, match="no luck") as raised:
        [said async for said in run_task(task(program))]
    assert raised.value.exit_code == 78


async def test_a_death_is_told_with_its_last_words() -> None:
    """A traceback's last line and the exit code name the cause."""
    with pytest.raises(TaskError, match="exit code 1: ZeroDivisionError"):
        [said async for said in run_task(task("1/0"))]


async def test_a_chatty_process_takes_no_disk_and_leaves_its_last_words() -> None:
    """Sixteen megabytes on stderr are read as they come; the last line names the cause of its end all the same."""
    noise = "import os\nfor _ in range(256): os.write(2, b'noise' * 13107)\nos.write(2, b'\\n')\n"
    hearing = run_task(task(noise + "print('{\"blocks\": %d}' % os.fstat(2).st_blocks); 1/0"))
    assert await anext(hearing) == {"blocks": 0}
    with pytest.raises(TaskError, match="exit code 1: ZeroDivisionError"):
        await anext(hearing)


async def test_a_program_that_cannot_start_is_an_error() -> None:
    """A missing interpreter is a sentence."""
    with pytest.raises(TaskError, match="could not be started"):
        [said async for said in run_task(Task(("/nowhere/python", "-m", "x"), "/", {}))]


async def test_a_silent_process_is_ended_at_its_limit() -> None:
    """No answer within the limit: killed, and said so."""
    with pytest.raises(TaskError, match=r"did not answer within 0\.3 s"):
        [said async for said in run_task(task("import time; time.sleep(60)"), 0.3)]


async def test_work_is_finished_when_the_listener_leaves(tmp_path: Path) -> None:
    """A client that hangs up after the first progress does not keep the result from being written."""
    out = tmp_path / "result"
    program = (
        "import time, pathlib\n"
        "for done in range(20): print('{\"done\": %d}' % done, flush=True); time.sleep(0.02)\n"
        f"pathlib.Path({str(out)!r}).write_text('done')"
    )
    listening = run_task(task(program))
    assert await anext(listening) == {"done": 0}
    await listening.aclose()
    assert tasks_at_work()
    await asyncio.to_thread(until, lambda: not tasks_at_work())
    assert out.read_text() == "done"


async def test_an_attended_process_ends_with_its_listener() -> None:
    """What is of use only to whoever looks is killed when they leave."""
    program = "import os, time; print('{\"pid\": %d}' % os.getpid(), flush=True); time.sleep(600)"
    listening = run_task(replace(task(program), attended=True))
    pid = (await anext(listening))["pid"]
    await listening.aclose()
    await asyncio.to_thread(until, lambda: not Path(f"/proc/{pid}").exists())
