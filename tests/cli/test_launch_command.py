"""`launch -- CMD`: what stands after the dashes is the command's alone, and its exit code is the run's outcome."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import mission_tui
from mission_tui.cli.verbs.launch import hooked
from mission_tui.errors import UsageError
from tests.shell import Shell

pytestmark = pytest.mark.timeout(60)


@pytest.mark.slow
def test_waiting_for_a_command_ends_as_it_ends(quick: Shell) -> None:
    """0 for one that exits 0, 1 for one that does not; nothing that was not reported is shown as a number."""
    assert quick.typed("launch", "--name", "good", "--wait", "--", "sh", "-c", "exit 0").returncode == 0
    done = quick.typed("launch", "--name", "bad", "--wait", "--json", "--", "sh", "-c", "echo why; exit 3")
    assert done.returncode == 1
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["name"], run["outcome"], run["kind"], run["cause"]) == ("bad", "failed", "exit", "exit code 3: why")
    assert (run["update"], run["timesteps"], run["steps_per_s"], run["can"]) == (None, None, None, [])


def test_options_after_the_dashes_are_the_commands_own(quick: Shell) -> None:
    """`--json`, `-n` and a second `--` reach the command as they are."""
    script = "import sys; print(sys.argv[1:])"
    words = ["-n", "5", "--json", "--", "--set", "a=b"]
    done = quick.typed("launch", "--name", "own", "--wait", "--", sys.executable, "-c", script, *words)
    assert done.returncode == 0, done.stderr
    assert quick.typed("logs", "own").stdout.strip() == str(words)


@pytest.mark.slow
def test_copies_and_values_make_several_runs_of_a_command(quick: Shell) -> None:
    """As they do of a preset; each is told its own seed."""
    script = 'echo "$MISSION_TUI_SEED $LEVEL"'
    words = ("--seeds", "2", "--set", "run.env.LEVEL='7'")
    done = quick.typed("launch", "--name", "both", *words, "--wait", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert [quick.typed("logs", f"both-{n}").stdout for n in (1, 2)] == ["1 7\n", "2 7\n"]


HOOK = str(Path(mission_tui.__file__).with_name("hook.py"))


@pytest.mark.parametrize(
    ("words", "script_at"),
    [
        (("python", "train.py", "--lr", "1"), 1),
        (("/usr/bin/python3.11", "-u", "-W", "error", "train.py"), 4),
        (("uv", "run", "python", "-m", "train"), 3),
    ],
)
def test_the_hook_comes_before_the_script(words: tuple[str, ...], script_at: int) -> None:
    """By the path of its one file, which any Python can run, and behind the options of that Python."""
    assert hooked(words) == (*words[:script_at], HOOK, *words[script_at:])


@pytest.mark.parametrize("words", [None, ("./train",), ("python",), ("python", "-c", "1"), ("python", "-m")])
def test_a_hook_needs_a_script(words: tuple[str, ...] | None) -> None:
    """What no script is named in is refused, with an example of what is meant."""
    with pytest.raises(UsageError, match="--hook"):
        hooked(words)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--", "no-such-program"), 78, "there is no program 'no-such-program' on the PATH"),
        (("tiny", "--", "true"), 2, "'tiny' is a preset and -- begins a command"),
        (("--",), 2, "there is no command after --"),
        (("--set", "run.cwd=/nowhere", "--", "true"), 78, "run.cwd = '/nowhere' is not a folder"),
        (("--set", "ppo.n_steps=8", "--", "true"), 78, "ppo.n_steps has no effect with run.command"),
    ],
)
def test_a_command_that_cannot_be_run_leaves_nothing(
    quick: Shell, words: tuple[str, ...], code: int, said: str
) -> None:
    """One line on stderr, and no run directory."""
    done = quick.typed("launch", *words)
    assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), done.stderr
    assert said in done.stderr
    assert not quick.root.exists() or not list(quick.root.glob("2*"))


@pytest.mark.slow
def test_an_interpreter_that_cannot_train_is_named(quick: Shell) -> None:
    """A venv without mission-tui runs commands; for a preset the sentence says what it lacks."""
    venv = quick.cwd / "venv"
    (venv / "bin").mkdir(parents=True)
    python = venv / "bin" / "python"
    python.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec {sys.base_prefix}/bin/python3 -I -S "$@"\n')
    python.chmod(0o755)
    done = quick.typed("launch", "tiny", "--set", "run.python=venv/bin/python")
    assert done.returncode == 78
    assert "cannot train: it has no torch; pip install 'torch>=" in done.stderr
    done = quick.typed("launch", "--set", "run.python=venv/bin/python", "--wait", "--", "python", "-c", "print('own')")
    assert done.returncode == 0, done.stderr
    assert quick.typed("logs", "@last").stdout == "own\n"
