"""What a run takes of the machine, as the kernel counts it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from mission_tui.fleet.specs.spec import RunSpec, Spec
from mission_tui.supervisor.host.process_files import ProcessStat, open_files, pss_bytes, read_stat, written_bytes
from mission_tui.supervisor.watching.usage import WrittenBytes, inherited, spent_s
from tests.supervisor.conftest import Lab

BUSY = "import time\nwhile True: pass"


@pytest.mark.slow
def test_a_run_shows_what_its_processes_take(idle_lab: Lab) -> None:
    """A command that keeps a core busy: about a core, its memory and its two processes; nothing once it has ended."""
    idle_lab.start()
    (run,) = idle_lab.launch(spec=Spec(preset="command", run=RunSpec(command=(sys.executable, "-S", "-c", BUSY))))
    usage = idle_lab.wait(run, lambda view: view.usage is not None and view.usage.cpu_percent > 20.0).usage
    assert usage is not None
    assert usage.cpu_percent <= 100.0 * (os.cpu_count() or 1)
    assert usage.processes >= 2  # the keeper and the command
    assert usage.threads >= 2
    assert usage.rss_bytes > 8 << 20
    assert usage.vram_bytes is None
    usage = idle_lab.wait(run, lambda view: view.usage is not None and view.usage.open_files).usage
    assert usage is not None
    assert usage.pss_bytes is not None
    assert 0 < usage.pss_bytes <= usage.rss_bytes + (4 << 20)
    assert usage.open_files is not None
    assert usage.open_files > 4  # of the keeper
    idle_lab.act("kill", run)
    assert idle_lab.ended(run).usage is None


def test_processor_seconds_of_a_process_grow_while_it_computes() -> None:
    """Half a second of counting is seen as such."""
    before, begun = read_stat(os.getpid()), time.process_time()
    while time.process_time() - begun < 0.5:
        pass
    after = read_stat(os.getpid())
    assert before is not None
    assert after is not None
    assert after.cpu_s - before.cpu_s == pytest.approx(0.5, abs=0.1)
    assert after.started == before.started


def test_a_process_may_be_called_anything() -> None:
    """Brackets and blanks in a name do not shift what is read; a process that is gone has nothing."""
    words = "exec 3<>/dev/null; echo -n ') R 1 (' > /proc/self/comm; echo ready; read line"
    with subprocess.Popen(["bash", "-c", words], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as odd:
        assert odd.stdout is not None
        odd.stdout.readline()
        stat = read_stat(odd.pid)
        assert stat is not None
        assert stat.threads == 1
        odd.kill()
    assert read_stat(odd.pid) is None


def test_what_ended_processes_wrote_stays_counted() -> None:
    """A process that is gone, and one that came back under its number, add up; one that is refused keeps its last."""
    written = WrittenBytes()
    assert written.total({(7, 1): None}) is None
    assert written.total({(7, 1): 100, (8, 1): 20}) == 120
    assert written.total({(7, 1): None, (8, 1): 30}) == 130
    assert written.total({(7, 2): 5}) == 135
    assert written.total({}) == 135


def test_bytes_of_a_child_that_was_waited_for_count_once() -> None:
    """The kernel adds them to the counts of its parent, which has them from then on."""
    written = WrittenBytes()
    assert written.total({(7, 1): 10, (8, 2): 100}) == 110
    assert written.total({(7, 1): 130}, inherited={(8, 2)}) == 130
    assert written.total({(7, 1): 140}) == 140


def seen(cpu_s: float, children_s: float = 0.0, parent: int = 1, started: int = 100) -> ProcessStat:
    return ProcessStat(cpu_s, 4096, 1, started, parent, children_s)


def took(before: dict[int, ProcessStat], now: dict[int, ProcessStat]) -> float:
    return spent_s(before, now, inherited(before, now), 2.0)


def test_short_lived_children_take_processor_time_too() -> None:
    """Of those that came and ended between two looks the parent knows, and what was counted once is not again."""
    alone = {7: seen(1.0)}
    assert took(alone, {7: seen(1.25, children_s=1.5)}) == pytest.approx(1.75)
    together = {7: seen(1.0), 8: seen(3.0, parent=7), 9: seen(0.5, parent=8)}
    # Both ended, the second one's parent first: the first process waited for them with half a second more.
    assert inherited(together, {7: seen(1.0, children_s=4.0)}) == {7: [8, 9]}
    assert took(together, {7: seen(1.0, children_s=4.0)}) == pytest.approx(0.5)
    # Nobody waited.
    assert inherited(together, {7: seen(1.1)}) == {}
    assert took(together, {7: seen(1.1)}) == pytest.approx(0.1)
    # What came since counts from its beginning; what was there before and was not looked at does not.
    came = {7: seen(1.0), 8: seen(0.75, parent=7, started=300), 9: seen(90.0, parent=7)}
    assert took(alone, came) == pytest.approx(0.75)


def test_a_parent_has_the_time_of_the_child_that_it_waited_for() -> None:
    """As the kernel says it of this process."""
    before = read_stat(os.getpid())
    subprocess.run([sys.executable, "-S", "-c", "import time\nwhile time.process_time() < 0.2: pass"], check=True)
    after = read_stat(os.getpid())
    assert before is not None
    assert after is not None
    assert after.children_s - before.children_s >= 0.15


def test_a_process_says_its_share_of_memory_its_files_and_what_it_wrote(tmp_path: Path) -> None:
    """Fifty files more are fifty more; its share is no more than what is resident; one that is gone says nothing."""
    before = open_files(os.getpid())
    with ExitStack() as opened:
        for number in range(50):
            opened.enter_context((tmp_path / str(number)).open("wb"))
        assert (open_files(os.getpid()) or 0) - (before or 0) == pytest.approx(50, abs=5)
    stat, share = read_stat(os.getpid()), pss_bytes(os.getpid())
    assert stat is not None
    assert share is not None
    assert 8 << 20 < share <= stat.rss_bytes + (8 << 20)
    assert written_bytes(os.getpid()) is not None
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    assert (open_files(gone.pid), pss_bytes(gone.pid), written_bytes(gone.pid)) == (None, None, None)
