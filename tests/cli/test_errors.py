"""How the command line ends when something is wrong with it or around it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mission_tui.cli.terminal_output import exit_code_of
from mission_tui.errors import CheckpointError, NoSupervisorError, PresetError, limit_met, limit_named, raised_by
from tests.shell import Shell


@pytest.mark.parametrize(
    ("error", "code"), [(PresetError("a\nb"), 78), (NoSupervisorError("a b"), 69), (CheckpointError("a  b"), 1)]
)
def test_an_error_is_one_line_and_its_own_exit_code(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever an error says is printed on one line of stderr."""

    def fail() -> int:
        raise error

    assert exit_code_of(fail) == code
    assert capsys.readouterr() == ("", "mission-tui: a b\n")


def test_a_defect_stays_a_traceback() -> None:
    """An exception that nobody foresaw is not dressed up as a user's mistake."""

    def fail() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        exit_code_of(fail)


def test_a_reader_that_leaves_is_no_error(shell: Shell) -> None:
    """`mission-tui ... | head` ends quietly."""
    read, write = os.pipe()
    os.close(read)
    process = shell.start("presets", "show", "tiny", stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=20)
    assert err == ""


@pytest.mark.parametrize("words", [("presets",), ("--help",), ("presets", "--json")])
def test_a_full_disk_is_one_line(shell: Shell, words: tuple[str, ...]) -> None:
    """`mission-tui ... > file` where there is no room says so, and is no success."""
    with Path("/dev/full").open("w") as full:
        process = shell.start(*words, stdout=full)
        _, err = process.communicate(timeout=20)
    assert err == "mission-tui: the output could not be written: No space left on device\n"
    assert process.returncode == 1


def test_closed_streams_are_no_error(shell: Shell) -> None:
    """`mission-tui ... >&-` does what it does, for nobody to read."""
    closed = ["sh", "-c", '"$0" -m mission_tui presets <&- >&-', sys.executable]
    done = subprocess.run(closed, cwd=shell.cwd, env=shell.environ, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_group_without_a_verb_shows_its_help(shell: Shell) -> None:
    """`mission-tui supervisor` lists what it can do, as a usage error."""
    done = shell.typed("supervisor")
    assert done.returncode == 2
    assert "with-runs" in done.stderr or "stop" in done.stderr
    assert done.stdout == ""


def test_usage_errors_point_to_the_help_of_their_verb(shell: Shell) -> None:
    """An unknown option names the command whose help lists the known ones."""
    assert "see mission-tui status --help" in shell.typed("status", "--nosuch").stderr


def test_the_version_is_that_of_the_package(shell: Shell) -> None:
    """`--version` prints name and version."""
    from mission_tui import __version__

    assert shell("--version").stdout == f"mission-tui {__version__}\n"


def test_the_installed_command_and_the_module_are_the_same() -> None:
    """`main` of `__main__`, which the installed script calls, ends the process with the exit code."""
    code = "import sys; from mission_tui.__main__ import main; sys.argv = ['mission-tui', 'nosuch']; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_a_system_that_is_not_linux_is_refused_in_a_sentence(platform: str) -> None:
    """Before anything of ours is loaded, with what to do instead."""
    code = f"import sys; sys.platform = {platform!r}; from mission_tui.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (69, "")
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"mission-tui runs on Linux, and this is {platform}: ")


def test_on_macos_a_script_reports_to_nobody_and_reading_is_refused_in_a_sentence() -> None:
    """`mission_tui.report` is in scripts that run everywhere; a notebook is told where the runs can be read."""
    code = """
import fcntl, os, sys
sys.platform = "darwin"
for name in ("O_PATH", "O_TMPFILE", "pidfd_open", "memfd_create", "sched_getaffinity", "posix_fallocate"):
    delattr(os, name)
sys.modules["fcntl"] = None
from mission_tui import report
report.update(timesteps=1, approx_kl=0.1)
assert not report.should_stop()
import mission_tui.read
"""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MISSION_TUI")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ)
    said = done.stderr.splitlines()[-1]
    assert said.startswith("ImportError: mission_tui.read opens files as only Linux can, and this is darwin: ")


def test_what_is_raised_without_a_word_is_named_without_a_colon() -> None:
    """As `render` of Gymnasium's base class raises it."""
    with pytest.raises(NotImplementedError) as caught:
        raise NotImplementedError
    assert re.fullmatch(r"NotImplementedError \(test_errors\.py:\d+\)", raised_by(caught.value))
    assert raised_by(ValueError("boom")) == "ValueError: boom"


def test_a_limit_that_was_met_is_named_where_the_error_names_none(capsys: pytest.CaptureFixture[str]) -> None:
    """Processes and threads, also in the words of a shell, and open files; a socket without news is no limit."""
    thread, files, busy = (
        RuntimeError("can't start new thread"),
        OSError(24, "Too many open files"),
        BlockingIOError(11),
    )

    def fail() -> int:
        raise thread

    assert exit_code_of(fail) == 1
    assert "`ulimit -u`, `ulimit -v`, or pids.max" in capsys.readouterr().err
    assert "ulimit -u" in raised_by(thread)
    assert "ulimit -n" in limit_met(files)
    assert (limit_met(busy), "ulimit -u" in limit_met(busy, starting=True)) == ("", True)
    assert limit_met(RuntimeError("boom")) == ""
    said = ("bash: fork: retry: Resource temporarily unavailable", "OSError: [Errno 24] Too many open files", "fork it")
    assert [limit_named(line).partition("`")[2][:9] for line in said] == ["ulimit -u", "ulimit -n", ""]


def test_a_process_that_may_not_be_started_is_told_by_where_it_was() -> None:
    """As `subprocess` raises it at the limit of processes; the same from a line of anybody else is no limit."""
    said = []
    for name in ("/usr/lib/python3.11/subprocess.py", "/home/ada/reader.py"):
        try:
            exec(compile("raise BlockingIOError(11, 'Resource temporarily unavailable')", name, "exec"))
        except BlockingIOError as error:
            said.append("ulimit -u" in raised_by(error))
    assert said == [True, False]
