"""`status`, `logs`, `metrics`, `findings`, `evaluate` and `presets` as text."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import pytest

from tests.shell import Shell

LOADED = """
import sys
from mission_tui.cli.root import main
assert main(["--runs-dir", {root!r}, {verb!r}, "--json"]) == 0
print(*sorted({{name.partition(".")[0] for name in sys.modules}}), file=sys.stderr)
"""


@pytest.mark.slow
def test_an_empty_fleet_has_a_machine_and_no_runs(shell: Shell) -> None:
    """Without runs, `status` shows the machine and exits 0."""
    done = shell.typed("status")
    assert done.returncode == 0, done.stderr
    assert str(shell.root) in done.stdout
    assert shell.json("status")["runs"] == []


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["status", "findings", "clean"])
def test_verbs_that_ask_the_supervisor_stay_light(shell: Shell, verb: str) -> None:
    """Asking loads neither torch nor textual, and in a pipe not even rich."""
    shell.typed("status")
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(root=str(shell.root), verb=verb)],
        cwd=shell.cwd,
        env=shell.environ,
        capture_output=True,
        text=True,
    )
    loaded = set(done.stderr.split())
    assert "msgspec" in loaded
    assert not loaded & {"torch", "textual", "rich", "numpy", "gymnasium", "asyncio", "psutil"}


@pytest.mark.slow
def test_presets_show_what_the_file_says_and_what_it_means(shell: Shell) -> None:
    """As written the file's own text, resolved every default filled in, with --set applied."""
    assert (
        shell.typed("presets", "show", "tiny").stdout
        == (shell.cwd / ".config" / "mission-tui" / "presets" / "tiny.toml").read_text()
    )
    resolved = shell.typed("presets", "show", "tiny", "--resolved", "--set", "ppo.gamma=0.9").stdout
    assert "gamma = 0.9\n" in resolved
    assert "max_grad_norm = 0.5\n" in resolved


def test_the_list_of_presets_shows_sets_and_the_keys_that_count(shell: Shell) -> None:
    """A set names what it launches; a key that an own preset took over no longer stands at the shipped one."""
    rows = {line[5:].split()[0]: line for line in shell.typed("presets").stdout.splitlines()[1:]}
    assert "tiny small" in rows["pair"]
    assert (rows["tiny"][0], rows["demo"][0], rows["fast"][0]) == ("1", " ", "2")


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_run_can_be_looked_at_from_all_sides(shell: Shell) -> None:
    """Status, metrics as table and CSV, findings, logs and an evaluation tell of the same run."""
    (run,) = shell.preloaded().launch("tiny", "--set", "run.total_timesteps=2048", "--name", "seen")
    assert shell("wait", run, timeout_s=60).returncode == 0
    row = next(line for line in shell.typed("status").stdout.splitlines() if run in line)
    assert row.split()[1:5] == ["seen", "finished", "100%", "2,048"]
    assert "2,048" in shell.typed("metrics", run).stdout.splitlines()[-1]
    rows = list(csv.DictReader(io.StringIO(shell.typed("metrics", run, "--csv").stdout)))
    assert [int(it["timesteps"]) for it in rows] == list(range(256, 2049, 256))
    assert all(float(it["train/approx_kl"]) >= 0 for it in rows)
    assert shell.typed("findings", run).returncode == 0
    assert shell.typed("logs", run, "-f").returncode == 0
    said = shell("evaluate", run, "--checkpoint", "best", "--episodes", "2", "--seeds", "2", timeout_s=60).stdout
    assert "4 episodes" in said
    assert "mean by seed 10000: " in said
    assert "95 % CI" in said
    drawn = shell("evaluate", run, "--episodes", "3", "--random", timeout_s=60).stdout
    assert "a random policy" in drawn
    assert "deterministic" not in drawn


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_watching_prints_a_document_per_change(quick: Shell) -> None:
    """`status --watch --json` prints one object a line for as long as it is read."""
    (run,) = quick.launch("tiny")
    process = quick.start("status", run, "--watch", "--json")
    lines = process.stdout
    assert lines is not None
    updates = [0]
    while updates[-1] < 3:
        updates.append(json.loads(lines.readline())["runs"][0]["update"] or 0)
    process.terminate()
    process.communicate(timeout=10)
    assert updates == sorted(updates)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_logs_are_followed_filtered_and_harmless(shell: Shell) -> None:
    """`logs --grep` keeps matching lines with their layout; escape sequences of a run reach no terminal."""
    (shell.cwd / "loud.py").write_text(
        "import gymnasium\n"
        "class Loud(gymnasium.Wrapper):\n"
        "    def __init__(self, env):\n"
        "        super().__init__(env)\n"
        "        print('    loud \\x1b[31mred\\x1b[0m   wall', flush=True)\n"
    )
    (run,) = shell.launch("tiny", "--set", 'env.wrappers=["loud:Loud"]', "--set", "run.total_timesteps=256")
    done = shell("logs", run, "-f", "--grep", "loud", timeout_s=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["    loud red   wall"] * 4
    assert shell.typed("logs", run, "--grep", "quiet").stdout == ""
