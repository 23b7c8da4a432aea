"""How an attempt ends, by itself or on request, and what the keeper then records."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mission_tui.keeper.files import Output, reserve_space, write_with_retries
from mission_tui.keeper.ladder import TICK_S, oom_kills
from mission_tui.procfs import read_stat
from tests.full_disk import fill, small_disk
from tests.keeper.conftest import KeptRun, alive
from tests.waiting import until

DAEMON = """
def daemon(seconds, environ=None):
    "A helper that sheds parent, session and group; returns its pid."
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if (pid := os.fork()) == 0:
            os.closerange(0, 256)
            os.execve("/bin/sleep", ["sleep", str(seconds)], environ or {})
        os.write(write, str(pid).encode())
        os._exit(0)
    os.wait()
    return int(os.read(read, 20))
"""


@pytest.mark.parametrize("code", [0, 1, 78])
def test_an_exit_code_is_recorded_with_the_last_output(kept: KeptRun, code: int) -> None:
    """Whatever the trainer printed last, broken bytes included, is in the record as text."""
    kept.start(f"""
        os.write(1, b"x" * 10_000 + b"out \\xff\\n")
        os.write(2, b"err\\n")
        ready()
        sys.exit({code})
    """)
    record = kept.ended()
    assert (record.code, record.signal, record.asked, record.escalated) == (code, None, None, False)
    assert (record.swept, record.left, record.start_error, record.oom_killed) == ((), (), None, False)
    assert record.last_output.endswith("xout \ufffd\nerr\n")
    assert len(record.last_output) == 4096
    assert abs(record.ended_t - time.time()) < 60


def test_the_most_memory_that_it_held_is_recorded(kept: KeptRun) -> None:
    """Also when it was given back before the end, and when a signal ended it; the keeper's own is not meant."""
    kept.start("""
        held = bytearray(b"x" * (96 << 20))
        del held
        ready()
        os.kill(os.getpid(), 9)
    """)
    record = kept.ended()
    assert record.peak_rss_bytes is not None
    assert 96 << 20 < record.peak_rss_bytes < 400 << 20


@pytest.fixture
def narrow_group() -> Iterator[Path]:
    """A control group of version 1 with 64 MiB; skips the test where none can be had."""
    folder = Path("/sys/fs/cgroup/memory") / f"mission-tui-test-{os.getpid()}"
    if oom_kills():
        pytest.skip("processes of this control group were killed for memory before")
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(64 << 20))
    except OSError:
        pytest.skip("needs root and version 1 of control groups")
    yield folder
    until(lambda: not (folder / "cgroup.procs").read_text(), 10)
    folder.rmdir()


def test_a_kill_for_lack_of_memory_is_recorded_as_one(kept: KeptRun, narrow_group: Path) -> None:
    """(root) A trainer that takes more than its control group may: not just "killed by signal 9"."""
    keeper = kept.start("""
        ready()
        while not Path("go").exists():
            time.sleep(0.01)
        held = [bytearray(b"x" * (1 << 20)) for _ in range(512)]
    """)
    for pid in (keeper.pid, kept.identity().trainer.pid):
        (narrow_group / "cgroup.procs").write_text(str(pid))
    (kept.run.path / "go").touch()
    record = kept.ended()
    assert (record.signal, record.oom_killed) == (signal.SIGKILL, True)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
def test_a_signal_that_nobody_asked_for_is_recorded(kept: KeptRun, number: signal.Signals) -> None:
    """A crash and a foreign kill are told by their number, with nobody having asked."""
    kept.start()
    os.kill(kept.identity().trainer.pid, number)
    record = kept.ended()
    assert (record.code, record.signal, record.asked, record.escalated) == (None, number, None, False)


def test_term_lets_the_trainer_save_and_reaches_nobody_else(kept: KeptRun) -> None:
    """SIGTERM to the keeper is SIGTERM to the trainer alone: its worker in the same group is still there then."""
    keeper = kept.start("""
        def save(*_):
            Path("worker").write_text(str(os.waitpid(worker, os.WNOHANG)))
            os.kill(worker, signal.SIGKILL)
            sys.exit(0)

        if (worker := os.fork()) == 0:
            wait_for_ever()
        signal.signal(signal.SIGTERM, save)
        ready(worker)
        wait_for_ever()
    """)
    keeper.send_signal(signal.SIGTERM)
    record = kept.ended()
    assert (kept.run.path / "worker").read_text() == "(0, 0)"
    assert (record.code, record.asked, record.escalated, record.swept) == (0, "term", False, ())


def test_a_stopped_trainer_is_continued_to_meet_its_term(kept: KeptRun) -> None:
    """A trainer under SIGSTOP still ends gracefully."""
    keeper = kept.start("""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
        ready()
        wait_for_ever()
    """)
    os.kill(kept.identity().trainer.pid, signal.SIGSTOP)
    keeper.send_signal(signal.SIGTERM)
    assert kept.ended().code == 5


def test_a_frozen_run_is_continued_as_a_whole_to_save(kept: KeptRun) -> None:
    """TERM to the keeper of a stopped trainer with a stopped worker: the trainer can still ask that worker."""
    keeper = kept.start("""
        asked, ask = os.pipe()
        answered, answer = os.pipe()
        if (worker := os.fork()) == 0:
            os.write(answer, os.read(asked, 1))
            wait_for_ever()

        def save(*_):
            os.write(ask, b"?")
            code = 0 if os.read(answered, 1) == b"?" else 1
            os.kill(worker, signal.SIGKILL)
            sys.exit(code)

        signal.signal(signal.SIGTERM, save)
        ready(worker)
        wait_for_ever()
    """)
    for pid in (kept.identity().trainer.pid, *kept.told_pids()):
        os.kill(pid, signal.SIGSTOP)
    keeper.send_signal(signal.SIGTERM)
    record = kept.ended()
    assert (record.code, record.asked, record.escalated) == (0, "term", False)


def test_a_trainer_that_ignores_term_is_killed_after_its_grace(kept: KeptRun) -> None:
    """The ladder goes on by itself, takes the group along, and says that it had to."""
    keeper = kept.start(
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        worker = os.fork()
        if worker == 0:
            wait_for_ever()
        ready(worker)
        wait_for_ever()
        """,
        grace_s=0.3,
    )
    before = time.monotonic()
    keeper.send_signal(signal.SIGTERM)
    record = kept.ended()
    assert time.monotonic() - before >= 0.3
    assert (record.signal, record.asked, record.escalated) == (signal.SIGKILL, "term", True)
    assert not any(alive(pid) for pid in kept.told_pids())


def test_a_save_in_progress_is_not_cut_off(kept: KeptRun) -> None:
    """While an unfinished checkpoint grows, the grace is extended, and the trainer ends by itself."""
    keeper = kept.start(
        """
        def save(*_):
            folder = Path("checkpoints/.tmp-000000200")
            folder.mkdir(parents=True)
            with (folder / "policy").open("wb", buffering=0) as file:
                for _ in range(12):
                    file.write(b"x" * 1000)
                    time.sleep(0.1)
            sys.exit(0)

        signal.signal(signal.SIGTERM, save)
        ready()
        wait_for_ever()
        """,
        grace_s=0.5,
    )
    keeper.send_signal(signal.SIGTERM)
    record = kept.ended()
    assert (record.code, record.escalated) == (0, False)


@pytest.mark.slow
def test_a_save_that_does_not_move_buys_one_look(kept: KeptRun) -> None:
    """What an earlier crash left unfinished does not hold up the ladder for long."""
    keeper = kept.start(
        """
        folder = Path("checkpoints/.tmp-000000200")
        folder.mkdir(parents=True)
        (folder / "policy").write_bytes(b"stale")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        ready()
        wait_for_ever()
        """,
        grace_s=1.0,
    )
    keeper.send_signal(signal.SIGTERM)
    assert kept.ended(timeout_s=8.0).escalated


def test_quit_ends_the_whole_tree_at_once(kept: KeptRun) -> None:
    """A worker in the group, a helper in a session of its own and one that shed everything are all gone."""
    keeper = kept.start(
        DAEMON
        + """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if (worker := os.fork()) == 0:
    wait_for_ever()
if (loner := os.fork()) == 0:
    os.setsid()
    wait_for_ever()
ready(worker, loner, daemon(60))
wait_for_ever()
"""
    )
    keeper.send_signal(signal.SIGQUIT)
    record = kept.ended()
    assert (record.code, record.signal, record.asked, record.escalated) == (None, signal.SIGKILL, "quit", False)
    worker, loner, shed = kept.told_pids()
    assert {loner, shed} <= set(record.swept)
    assert not any(alive(pid) for pid in (worker, loner, shed))


def test_quit_during_the_grace_does_not_wait(kept: KeptRun) -> None:
    """A second, harder request overrides the first."""
    keeper = kept.start("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nready()\nwait_for_ever()", grace_s=60.0)
    keeper.send_signal(signal.SIGTERM)
    keeper.send_signal(signal.SIGQUIT)
    record = kept.ended()
    assert (record.signal, record.asked) == (signal.SIGKILL, "quit")


def test_a_trainer_that_left_its_group_is_still_ended(kept: KeptRun) -> None:
    """A command of the user's may move to another process group; it is then killed by itself."""
    keeper = kept.start("os.setpgid(0, os.getppid())\nready()\nwait_for_ever()")
    keeper.send_signal(signal.SIGQUIT)
    assert kept.ended().signal == signal.SIGKILL


def test_helpers_that_outlive_the_trainer_are_swept(kept: KeptRun) -> None:
    """After an ordinary end nothing of the run is left, and the record names who had to be killed."""
    kept.start(DAEMON + "ready(daemon(60))")
    record = kept.ended()
    assert record.code == 0
    assert record.swept == tuple(kept.told_pids())
    assert not alive(record.swept[0])


def test_helpers_that_clean_up_and_end_are_left_alone(kept: KeptRun) -> None:
    """A resource tracker gets its moment after the trainer; it is not counted as swept."""
    kept.start("""
        if os.fork() == 0:
            time.sleep(0.3)
            Path("cleaned").touch()
            os._exit(0)
        ready()
    """)
    assert kept.ended().swept == ()
    assert (kept.run.path / "cleaned").exists()


def test_hangup_and_interrupt_mean_nothing_to_a_keeper(kept: KeptRun) -> None:
    """What a closing terminal or an impatient Ctrl-C sends reaches neither keeper nor trainer."""
    keeper = kept.start()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        keeper.send_signal(number)
    keeper.send_signal(signal.SIGTERM)
    record = kept.ended()
    assert (record.signal, record.asked) == (signal.SIGTERM, "term")


def test_a_keeper_that_is_stopped_for_a_while_goes_on(kept: KeptRun) -> None:
    """By SIGSTOP and SIGCONT, as Slurm suspends a job: the trainer trains on, and the next order is obeyed."""
    keeper = kept.start("""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
        ready()
        wait_for_ever()
    """)
    keeper.send_signal(signal.SIGSTOP)
    until(lambda: (stat := read_stat(keeper.pid)) is not None and stat.state == "T")
    stopped_s = time.monotonic()
    until(lambda: time.monotonic() > stopped_s + 2 * TICK_S)
    keeper.send_signal(signal.SIGCONT)
    until(lambda: (stat := read_stat(keeper.pid)) is not None and stat.state == "S")
    keeper.send_signal(signal.SIGTERM)
    record = kept.ended()
    assert (record.code, record.asked) == (5, "term")


def test_a_trainer_outlives_its_killed_keeper(kept: KeptRun) -> None:
    """SIGKILL of the keeper leaves the trainer running under its lease, without an exit record."""
    keeper = kept.start("""
        ready()
        while True:
            time.sleep(0.05)
            Path("beat").touch()
    """)
    keeper.kill()
    keeper.wait()
    beat = kept.run.path / "beat"
    beat.unlink(missing_ok=True)
    until(beat.exists, what="the trainer goes on")
    assert not kept.run.attempt(1).exit.exists()
    kept.order(attempt=2)
    kept.keep(2)
    assert "held by another attempt" in str(kept.ended(2, code=75).start_error)


def test_output_has_a_cap(kept: KeptRun) -> None:
    """Of 100 MB the newest 64 KiB stay, under a line that says so; the trainer goes on writing to the same file."""
    keeper = kept.start(
        """
        for _ in range(100):
            os.write(1, b"noise\\n" * 166_667)
        signal.signal(signal.SIGTERM, lambda *_: (print("last words"), sys.exit(0)))
        ready()
        wait_for_ever()
        """,
        output_cap_bytes=1 << 20,
    )
    output = kept.run.attempt(1).output
    until(lambda: output.stat().st_size <= (64 << 10) + 200, what="the output file was cut")
    keeper.send_signal(signal.SIGTERM)
    assert kept.ended().last_output.endswith("noise\nlast words\n")
    first, *rest = output.read_text().splitlines()
    assert first == "[output passed 1048576 bytes: only its last 65536 bytes were kept]"
    assert set(rest[1:-1]) == {"noise"}


def test_what_is_being_written_while_the_output_is_cut_keeps_its_end(tmp_path: Path) -> None:
    """The cut waits for the write under way: the last words of a trainer that says much at once are never lost."""
    output = Output(tmp_path / "output.log", 1 << 20)
    for _ in range(3):
        with ThreadPoolExecutor(1) as trainer:
            said = trainer.submit(os.write, output.descriptor, b"noise\n" * (10 << 20) + b"last words\n")
            until(lambda: os.fstat(output.descriptor).st_size > 2 << 20, what="the write is under way")
            output.trim()
            assert said.result() > 60 << 20
        assert output.tail().endswith(b"\nnoise\nlast words\n")


def test_a_full_disk_at_the_end_is_waited_out(kept: KeptRun) -> None:
    """The exit record is tried again: it appears when there is room within a few seconds."""
    keeper = kept.start()
    resource.prlimit(keeper.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    trainer = kept.identity().trainer.pid
    os.kill(trainer, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{trainer}").exists())
    resource.prlimit(keeper.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert kept.ended().signal == signal.SIGKILL


@pytest.mark.slow
def test_a_disk_that_stays_full_does_not_keep_the_keeper(kept: KeptRun) -> None:
    """Without room for the exit record the keeper still ends, with status 1 and no half-written file."""
    keeper = kept.start()
    resource.prlimit(keeper.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    keeper.send_signal(signal.SIGQUIT)
    assert keeper.wait(10) == 1
    names = {path.name for path in kept.run.attempt(1).path.iterdir()}
    assert names == {"launch.json", "identity.json", "output.log"}


@pytest.mark.slow
def test_a_trainer_without_identity_does_not_run(kept: KeptRun) -> None:
    """If `identity.json` cannot be written, the trainer is ended again: nobody could tell it from a stranger later."""
    folder = kept.order("Path('started').touch()\nwait_for_ever()")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    keeper = kept.keep()
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert keeper.wait(10) == 1
    assert not folder.identity.exists()


def test_the_record_of_an_end_fits_on_a_full_disk(tmp_path: Path) -> None:
    """(root) Room is kept for it beforehand and used; without a full disk nothing of the room stays either."""
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        reserve_space(disk / "exit.json")
        fill(disk)
        assert write_with_retries(disk / "exit.json", {"last_output": "x" * 4096})
        assert json.loads((disk / "exit.json").read_text())["last_output"]
        assert sorted(path.name for path in disk.iterdir()) == ["ballast", "exit.json"]
