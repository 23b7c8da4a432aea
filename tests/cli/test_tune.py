"""`tune`: what it finds and leaves, that it goes on where it was killed, and what it refuses."""

from __future__ import annotations

import json
import os
import signal
import tomllib
from pathlib import Path

import pytest

from tests.shell import Shell
from tests.waiting import until

pytestmark = pytest.mark.timeout(180)

SHORT = ("--probe", "1s", "--rounds", "2", "--repeat", "2")


def run_folders(shell: Shell) -> list[Path]:
    """Directories of runs, made and not removed."""
    return [path.parent for path in shell.root.glob("*/spec.toml")]


def probes(shell: Shell) -> list[dict[str, object]]:
    """The whole lines of the journal, the first one aside."""
    found = list(shell.root.glob("tuning/*/journal.jsonl"))
    lines = [json.loads(line) for path in found for line in path.read_bytes().split(b"\n")[:-1]]
    return [line for line in lines if line["kind"] == "probe"]


def profiles(shell: Shell) -> list[Path]:
    """Every host profile, half ones too."""
    return list((shell.cwd / ".config" / "mission-tui" / "profiles").glob("*"))


@pytest.mark.slow
def test_a_killed_tune_leaves_nothing_running_and_goes_on(quick: Shell) -> None:
    """SIGKILL of the client ends the probe and writes no profile; one of the supervisor leaves a probe that the next
    `--continue` removes; that keeps what was probed, and ends.
    """
    process = quick.start("tune", "tiny", *SHORT, "--knob", "compile")
    until(lambda: len(probes(quick)) >= 1 and run_folders(quick), 60, "one probe is done and another begun")
    process.kill()
    process.communicate()
    until(lambda: not run_folders(quick), 30, "the probe under way is removed")
    until(lambda: not [it for it in quick.processes() if "stub_trainer" in " ".join(it.cmdline())], 10)
    assert profiles(quick) == []
    process = quick.start("tune", "tiny", "--continue")
    until(lambda: run_folders(quick), 30, "another probe has begun")
    os.kill(quick.json("status")["supervisor"]["pid"], signal.SIGKILL)
    process.communicate()
    assert process.returncode == 69
    before = probes(quick)
    found = quick.json("tune", "tiny", "--continue", timeout_s=120)
    assert probes(quick)[: len(before)] == before
    assert found["probes"] == len(probes(quick))
    assert [row["label"] for row in found["rows"]] == ["as it is", "compiled"]
    assert all(len(row["rates"]) == 2 for row in found["rows"])
    assert run_folders(quick) == []
    assert quick.json("status")["runs"] == []
    (file,) = profiles(quick)
    assert str(file) == found["file"]
    written = tomllib.loads(file.read_text())
    assert (written["preset"], written["sentence"]) == ("tiny", found["sentence"])
    assert written.get("set", {}) == found["settings"]


@pytest.mark.slow
def test_what_compiles_for_ever_is_given_up_and_reported(quick: Shell) -> None:
    """Source 002's `compile` that reached no epoch: dropped with its reason, and what stands is kept."""
    quick.environ["STUB_COMPILE_S"] = "3600"
    done = quick("tune", "tiny", *SHORT, "--knob", "compile", "--start", "6s", timeout_s=120)
    assert done.returncode == 0, done.stderr
    assert "compile compiled: dropped: did not finish its first update within" in done.stdout
    assert "nothing was better than the preset's own settings" in done.stdout
    assert run_folders(quick) == []


@pytest.mark.slow
def test_a_preset_that_does_not_train_ends_it(quick: Shell) -> None:
    """Exit 1 with the cause; no profile and no run is left."""
    quick.environ["STUB_DIES_AT"] = "1"
    done = quick("tune", "tiny", *SHORT)
    assert done.returncode == 1
    assert "tiny cannot be probed as it is: failed: " in done.stderr
    assert profiles(quick) == run_folders(quick) == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("pair",), "makes 2 runs, but tune takes one"),
        (("tiny", "small"), "tune takes one preset, not 2"),
        (("tiny", "--probe", "soon"), "--probe 'soon' is not a length of time"),
        (("tiny", "--set", "env.n_workers=3"), "cannot be shared evenly"),
        (("tiny", "--knob", "luck"), "luck"),
        (("tiny", "--continue", "--probe", "3s"), "leave out --probe, or --continue"),
        (("tiny", "--fleet", "2", "--continue"), "--fleet stores nothing"),
    ],
)
def test_mistakes_are_said_before_anything_starts(quick: Shell, words: tuple[str, ...], complaint: str) -> None:
    """Exit 2 or 78, one line, and no supervisor."""
    done = quick.typed("tune", *words)
    assert done.returncode in (2, 78)
    assert complaint in done.stderr
    assert not quick.root.exists()


@pytest.mark.slow
def test_there_must_be_something_to_go_on_with(quick: Shell) -> None:
    """`--continue` without a journal of this preset is refused."""
    done = quick.typed("tune", "tiny", "--continue")
    assert done.returncode == 2
    assert "no tune of tiny was begun" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_real_probes_say_what_they_ran_with(shell: Shell) -> None:
    """One thread is what the trainer takes by itself, so only two threads are tried; versions are on record."""
    found = shell.preloaded().json("tune", "tiny", *SHORT, "--knob", "threads", timeout_s=280)
    assert [row["label"] for row in found["rows"]][:2] == ["as it is", "2 threads"]
    assert all(len(row["rates"]) == 2 and min(row["rates"]) > 0 for row in found["rows"][:2])
    assert set(found["versions"]) == {"mission_tui", "torch", "python"}
    (first, *_) = probes(shell)
    assert first["resolved"] == {"vec": "inline", "n_workers": None, "threads": 1}
    assert run_folders(shell) == []


def test_a_killed_fleet_leaves_nothing_running(quick: Shell) -> None:
    """SIGKILL of the client while the first run is measured; beside other runs it is not even begun."""
    process = quick.start("tune", "tiny", "--fleet", "2")
    until(lambda: [it for it in run_folders(quick) if len(quick.rows(it.name)) > 2], 30, "it trains")
    refused = quick("tune", "tiny", "--fleet", "2")
    assert refused.returncode == 2
    assert "would disturb the measurement" in refused.stderr
    process.kill()
    process.communicate()
    until(lambda: not run_folders(quick), 30, "the run is removed")
    until(lambda: not [it for it in quick.processes() if "stub_trainer" in " ".join(it.cmdline())], 10)
